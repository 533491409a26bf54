"""Uploads of the visitors of a page for others: each is kept for the page that gave it, and to every other does not exist.

Whose page it is says caller.Caller.owner, which holds the page's random session. The bytes lie in a folder of that page
that names neither files nor visitors, apart from the cache that all share: a child that works for a page may read that
page's folder (`readable`) and no other's. An upload goes when its page closes, when it was
not used for `EXPIRE_S`, when its address or all addresses hold too much (the longest unused first), and with this process;
what a killed process left, the next start removes: a living one holds a lock.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from inspector.caller import Caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.tokenizers.base import ArtifactFile

EXPIRE_S = 3600.0
ADDRESS_BYTES = 256 << 20
ALL_BYTES = 1 << 30
_CLOSED = 4096  # pages that closed lately, whose uploads may be on their way still
_LOCK = "lock"


@dataclass(slots=True)
class _Upload:
    """Units: bytes, seconds of time.monotonic()."""

    folder: Path
    files: tuple[ArtifactFile, ...]
    size: int
    address: str
    used_at: float


class VisitorUploads:
    """The uploads of all pages of this process. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._uploads: OrderedDict[tuple[str, str], _Upload] = (
            OrderedDict()
        )  # by owner and reference, longest unused first
        self._closed: OrderedDict[str, float] = OrderedDict()
        self._own: tuple[Path, IO[bytes]] | None = None  # the folder of this process, and its lock
        self._pages: dict[str, Path] = {}  # the folder of each page, by owner; never a name twice
        self._sweeper: threading.Thread | None = None

    def keep(
        self, who: Caller, ref: str, files: Mapping[str, bytes], digests: Mapping[str, str], since: float | None = None
    ) -> None:
        """Keep files for the page of a visitor.

        Errors: CacheFull, ArtifactUnavailable; InputInvalid if the page has closed `since`.
        """
        began = self._clock() if since is None else since
        with cache.disk_errors():
            folder = self._new_folder(who.owner)
            try:
                kept = tuple(
                    _written(folder / str(k), name, files[name], digests[name]) for k, name in enumerate(files)
                )
            except BaseException:
                with self._removing() as gone:
                    gone.append(folder)
                raise
        size = sum(map(len, files.values()))
        with self._removing() as gone, self._lock:
            if self._closed.get(who.owner, began - 1) >= began:
                gone.append(folder)
                raise _closed()
            before = self._uploads.pop((who.owner, ref), None)
            if before:
                gone.append(before.folder)
            self._uploads[who.owner, ref] = _Upload(folder, kept, size, who.address, self._clock())
            gone += self._over((who.owner, ref), who.address)
            self._start_sweeper()

    def find(self, owner: str, ref: str) -> tuple[ArtifactFile, ...]:
        """Give the files of an upload of this page, and note their use.

        Errors: ArtifactUnavailable, in the same words whatever there is of others.
        """
        with self._lock:
            upload = self._uploads.get((owner, ref))
            if upload:
                upload.used_at = self._clock()
                self._uploads.move_to_end((owner, ref))
        if upload and _whole(upload.files):
            return upload.files
        raise InspectorError(
            ErrorKind.ArtifactUnavailable,
            "there is no such upload: files that a visitor gives are for that page alone, and deleted when it closes",
            stage="source",
            where={"ref": ref},
            remedy="give the files again; the same files have the same reference",
        )

    def readable(self, owner: str) -> tuple[str, ...]:
        """Name the folder that a child of this page may read: all that it has given, now and later; none before that."""
        with self._lock:
            folder = self._pages.get(owner)
        return () if folder is None else (str(folder),)

    def forget(self, owner: str) -> None:
        """Delete what a page has given: it has closed."""
        with self._removing() as gone, self._lock:
            self._closed[owner] = self._clock()
            self._closed.move_to_end(owner)
            while len(self._closed) > _CLOSED:
                self._closed.popitem(last=False)
            gone += [self._uploads.pop(key).folder for key in list(self._uploads) if key[0] == owner]

    def expire(self) -> None:
        """Delete what was not used for long."""
        with self._removing() as gone, self._lock:
            old = self._clock() - EXPIRE_S
            keys = [key for key, upload in self._uploads.items() if upload.used_at <= old]
            gone += [self._uploads.pop(key).folder for key in keys]

    def close(self) -> None:
        """Delete everything."""
        with self._lock:
            self._uploads.clear()
            self._pages.clear()
            own, self._own = self._own, None
        if own:
            shutil.rmtree(own[0], ignore_errors=True)
            own[1].close()

    def _over(self, newest: tuple[str, str], address: str) -> list[Path]:
        """Take out what is too much. Needs the lock."""
        gone = []
        for mine, most in ((True, ADDRESS_BYTES), (False, ALL_BYTES)):
            held = [(key, each) for key, each in self._uploads.items() if each.address == address or not mine]
            over = sum(each.size for _key, each in held) - most
            for key, each in held:
                if over > 0 and key != newest:
                    over -= each.size
                    gone.append(self._uploads.pop(key).folder)
        return gone

    def _new_folder(self, owner: str) -> Path:
        """Make a folder for one upload in its page's."""
        with self._lock:
            if self._own is None or self._own[0].parent != _base():
                self._own = _locked_folder()
                self._pages.clear()
                atexit.register(self.close)
            if owner not in self._pages:
                self._pages[owner] = Path(tempfile.mkdtemp(dir=self._own[0]))
            return Path(tempfile.mkdtemp(dir=self._pages[owner]))

    def _start_sweeper(self) -> None:
        if self._sweeper is None:
            self._sweeper = threading.Thread(target=self._sweep, name="uploads-sweeper", daemon=True)
            self._sweeper.start()

    def _sweep(self) -> None:
        while True:
            time.sleep(min(30.0, EXPIRE_S / 4))
            self.expire()
            with self._lock:
                if not self._uploads:
                    self._sweeper = None
                    return

    @contextlib.contextmanager
    def _removing(self) -> Iterator[list[Path]]:
        """Remove the folders that are named inside, after the lock was given back; then those of pages that hold none."""
        gone: list[Path] = []
        try:
            yield gone
        finally:
            for folder in gone:
                shutil.rmtree(folder, ignore_errors=True)
            with self._lock:
                for owner, page in [each for each in self._pages.items() if each[1] in {one.parent for one in gone}]:
                    with contextlib.suppress(OSError):  # another upload of it lies there, or is being written
                        page.rmdir()
                        del self._pages[owner]


UPLOADS = VisitorUploads()


def remove_left() -> None:
    """Remove the uploads that processes left which live no more. A cache that cannot be written is left alone."""
    with contextlib.suppress(InspectorError, OSError):
        if not _base().is_dir():
            return
        with cache.lock("uploads"):
            for folder in _base().iterdir():
                if not _lives(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _lives(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _base() -> Path:
    return cache.cache_dir() / "uploads"


def _locked_folder() -> tuple[Path, IO[bytes]]:
    """Make a folder of this process: while it lives, `remove_left` of no other takes it."""
    with cache.lock("uploads"), cache.disk_errors():
        _base().mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=_base()))
        stream = (folder / _LOCK).open("wb")
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder, stream


def _written(folder: Path, name: str, data: bytes, sha256: str) -> ArtifactFile:
    folder.mkdir()
    path = folder / Path(name).name  # readers look at how it ends
    path.write_bytes(data)
    return ArtifactFile(name, str(path), sha256)


def _whole(files: tuple[ArtifactFile, ...]) -> bool:
    try:
        return all(cache.sha256_of(Path(file.path)) == file.sha256 for file in files)
    except OSError:
        return False


def _closed() -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid,
        "the page was closed before its files were there",
        stage="source",
        remedy="choose the files again",
    )
