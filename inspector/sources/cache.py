"""The artifact cache: one file per SHA-256, verified on every use, written atomically.

A file is trusted only after its bytes were hashed in this process; a wrong or half file is removed and fetched anew.
How large it may get is in bounds.py. This module fetches nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from inspector import limits
from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import ArtifactFile

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, label); units: bytes. `total` is 0 where it is not known."""

_CHUNK = 1 << 20
_LOCK_TIMEOUT_S = 900
_TOUCH_S = 1.0
# (path, size, mtime_ns, ctime_ns) -> sha256 of files hashed by this process: a second use costs one stat. No program can
# set the last one, so that a file which was written to is hashed again whatever its other times say.
_hashed: dict[tuple[str, int, int, int], str] = {}
_MOST_HASHED = 4096  # a server's visitors give files without end, each under a name of its own


def cache_dir() -> Path:
    """Return the cache folder: $INSPECTOR_CACHE, else the user's cache folder of this platform."""
    configured = os.environ.get("INSPECTOR_CACHE")
    if configured:
        return Path(configured).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("token-inspector"))


def sha256_of(path: Path) -> str:
    """Hash a file, or repeat the hash that this process already computed for the same size and times."""
    key = _key(path, path.stat())
    digest = _hashed.get(key)  # in one step: another thread may move it meanwhile
    if digest is None:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        _remember(key, digest)
    return digest


def _remember(key: tuple[str, int, int, int], digest: str) -> None:
    """Keep a hash as the newest; forget the oldest of too many."""
    _hashed[key] = digest
    for old in list(_hashed)[:-_MOST_HASHED]:
        _hashed.pop(old, None)


def _key(path: Path, stat: os.stat_result) -> tuple[str, int, int, int]:
    return str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def blob_path(sha256: str, name: str) -> Path:
    """Return where the cache keeps the file of this hash; the name is kept for the person who looks."""
    return cache_dir() / "files" / sha256[:2] / sha256 / Path(name).name


def lookup(sha256: str, name: str) -> ArtifactFile | None:
    """Return the cached file if it is whole, and note its use; remove it and return None if its bytes are wrong."""
    path = blob_path(sha256, name)
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH)  # an eviction that is under way ends first
            if os.fstat(stream.fileno()).st_nlink == 0:
                return None
            if sha256_of(path) != sha256:
                path.unlink(missing_ok=True)
                return None
            _note_use(stream, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ArtifactFile(name, str(path), sha256)


def _note_use(stream: IO[bytes], path: Path) -> None:
    """Set the access time, which the eviction reads. The modification time stays; the hash goes on under the new times."""
    stat = os.fstat(stream.fileno())
    if abs(time.time() - stat.st_atime) > _TOUCH_S:
        with contextlib.suppress(OSError):  # a cache that others keep, or on a read-only disk, may be read
            os.utime(path, ns=(time.time_ns(), stat.st_mtime_ns))
            known, now = _hashed.pop(_key(path, stat), None), path.stat()
            if known and (now.st_size, now.st_mtime_ns) == (stat.st_size, stat.st_mtime_ns):
                _remember(_key(path, now), known)


@contextlib.contextmanager
def held(files: tuple[ArtifactFile, ...]) -> Iterator[None]:
    """Keep cached files from eviction, by any process, for as long as something works with their paths.

    Errors: ArtifactUnavailable if one is gone already.
    """
    with contextlib.ExitStack() as stack:
        for file in files:
            try:
                stream = stack.enter_context(open(file.path, "rb"))
            except OSError as error:
                raise _gone(file, error) from error
            fcntl.flock(stream, fcntl.LOCK_SH)
            if os.fstat(stream.fileno()).st_nlink == 0:
                raise _gone(file, FileNotFoundError(errno.ENOENT, "it was evicted"))
        yield


def store(source: Path, sha256: str, name: str) -> ArtifactFile:
    """Move a verified file into the cache, making room for it.

    Errors: ArtifactMismatch if its bytes do not have this hash; CacheFull if the disk or the cache's bound is full.
    """
    from inspector.sources.bounds import room_for

    actual = sha256_of(source)
    if actual != sha256:
        raise mismatch(name, sha256, actual)
    path = blob_path(sha256, name)
    with disk_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        with room_for(source.stat().st_size, name):
            path.parent.mkdir(parents=True, exist_ok=True)  # the eviction may have taken the empty folder
            os.replace(source, path)
    return ArtifactFile(name, str(path), sha256)


def store_bytes(data: bytes, name: str) -> ArtifactFile:
    """Put bytes that are in memory into the cache, under their own hash."""
    sha256 = hashlib.sha256(data).hexdigest()
    known = lookup(sha256, name)
    if known:
        return known
    with workspace() as folder, disk_errors():
        draft = folder / "draft"
        draft.write_bytes(data)
        return store(draft, sha256, name)


def mismatch(name: str, expected: str, actual: str) -> InspectorError:
    """Build the error of a file whose hash is not the pinned one."""
    return InspectorError(
        ErrorKind.ArtifactMismatch,
        f"{name} has SHA-256 {actual}, the pinned one is {expected}",
        stage="source",
        where={"file": name},
        remedy="the package index served other bytes than the preset was made with; check its configuration",
    )


def read_verified(file: ArtifactFile) -> bytes:
    """Read an artifact's file and check that these very bytes have its hash.

    Errors: ArtifactMismatch; ArtifactUnavailable if the file is gone.
    """
    try:
        data = Path(file.path).read_bytes()
    except OSError as error:
        raise _gone(file, error) from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != file.sha256:
        raise InspectorError(
            ErrorKind.ArtifactMismatch,
            f"{file.name} has SHA-256 {actual}, and had {file.sha256} when it was looked up: it changed on the disk",
            stage="source",
            where={"file": file.name},
            remedy="try again: it is looked up, and if need be fetched, anew",
        )
    return data


def _gone(file: ArtifactFile, error: OSError) -> InspectorError:
    return InspectorError(
        ErrorKind.ArtifactUnavailable,
        f"{file.name} cannot be read from the cache: {error.strerror}",
        stage="source",
        where={"file": file.name},
        remedy="resolve the reference again, so that the file is fetched anew",
    )


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """Give a temporary folder inside the cache, so that a move into the cache is one atomic rename."""
    with disk_errors():
        (cache_dir() / "tmp").mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=cache_dir() / "tmp")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock of one archive, over threads and processes."""
    with disk_errors():
        folder = cache_dir() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    taken = FileLock(folder / f"{key}.lock")
    try:
        taken.acquire(timeout=_LOCK_TIMEOUT_S)
    except Timeout as error:
        raise InspectorError(
            ErrorKind.ArtifactUnavailable,
            f"another process has been fetching {name} for over {_LOCK_TIMEOUT_S} s",
            stage="source",
            where={"ref": name},
            remedy="end that process, then try again",
        ) from error
    except OSError as error:
        with disk_errors():
            raise error
    try:
        yield
    finally:
        taken.release()


def remembered(ref: str) -> dict[str, str] | None:
    """Return name -> SHA-256 as recorded when an unpinned reference was first fetched, or None."""
    try:
        record = json.loads(_record_path(ref).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    files = record.get("files") if isinstance(record, dict) else None
    return files if isinstance(files, dict) and all(isinstance(value, str) for value in files.values()) else None


def remember(ref: str, files: dict[str, str]) -> None:
    """Record what an unpinned reference gave, so that it gives the same later and without a network."""
    with workspace() as folder, disk_errors():
        draft = folder / "record.json"
        draft.write_text(json.dumps({"ref": ref, "files": files}), "utf-8")
        _record_path(ref).parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft, _record_path(ref))


def records() -> Iterator[tuple[str, dict[str, str]]]:
    """Give every recorded reference with what it gave."""
    for path in sorted((cache_dir() / "refs").glob("*.json")):
        try:
            ref = json.loads(path.read_text("utf-8"))["ref"]
        except (OSError, ValueError, TypeError, KeyError):
            continue
        files = remembered(ref) if isinstance(ref, str) else None
        if files:
            yield ref, files


def _record_path(ref: str) -> Path:
    return cache_dir() / "refs" / f"{hashlib.sha256(ref.encode()).hexdigest()}.json"


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turn a full or unwritable disk into CacheFull or ArtifactUnavailable."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise InspectorError(
            ErrorKind.CacheFull if full else ErrorKind.ArtifactUnavailable,
            f"the artifact cache cannot be written: {error.strerror or error}",
            stage="source",
            where=told_folder(),
            remedy=for_owner("free space there, or set INSPECTOR_CACHE to a folder with space that you may write"),
        ) from error


def told_folder() -> dict[str, str]:
    """Give the `where` of an error of the cache: strangers learn no place of this machine."""
    return {"folder": str(cache_dir())} if _own_page() else {}


def for_owner(remedy: str) -> str:
    """Give the remedy of an error of the cache, or what is left to a visitor of a page that is not theirs."""
    return remedy if _own_page() else "try again later, or use what this page already has"


def _own_page() -> bool:
    return limits.in_force().mode is limits.Mode.LOCAL


def copy_stream(source: IO[bytes], target: Path) -> None:
    """Copy an open binary stream into a new file."""
    with disk_errors(), target.open("wb") as out:
        shutil.copyfileobj(source, out, _CHUNK)
