"""How large the artifact cache may get: what lies in it, least recently used eviction, clearing.

A file is in use while a process holds it (cache.held) and for `IN_USE_S` seconds after it was last looked up; neither
eviction nor clearing takes it then. Converted models count too, each as one entry.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache

DEFAULT_BYTES = 20 << 30
IN_USE_S = 120.0
_STALE_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that eviction takes or leaves: a cached file, or the folder of a converted model.

    Units: `size` bytes on disk as the files say, `used` seconds since the epoch.
    """

    name: str
    sha256: str
    path: Path
    size: int
    used: float


def byte_limit() -> int:
    """Give the cache's bound in bytes: $INSPECTOR_CACHE_BYTES, else 20 GiB.

    Errors: OptionInvalid if it is no positive number.
    """
    text = os.environ.get("INSPECTOR_CACHE_BYTES", "").strip()
    if not text:
        return DEFAULT_BYTES
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"INSPECTOR_CACHE_BYTES is {text[:40]!r}, not a positive number of bytes",
            stage="options",
            where={"option": "INSPECTOR_CACHE_BYTES"},
            remedy=f"set it to a number such as {DEFAULT_BYTES}, or leave it unset",
        )
    return int(text)


def entries() -> list[Entry]:
    """Give all entries, the least recently used first."""
    files = (cache.cache_dir() / "files").glob("*/*/*")
    models = (cache.cache_dir() / "models").glob("*")
    found = [entry for path in files if (entry := _file_entry(path))]
    found += [entry for path in models if (entry := _model_entry(path))]
    return sorted(found, key=lambda entry: entry.used)


def _file_entry(path: Path) -> Entry | None:
    try:
        stat = path.stat()
    except OSError:  # another process took it away
        return None
    return Entry(path.name, path.parent.name, path, stat.st_size, stat.st_atime)


def _model_entry(folder: Path) -> Entry | None:
    try:
        stats = [path.stat() for path in folder.iterdir()]
        used = max((stat.st_atime for stat in stats), default=folder.stat().st_mtime)  # listing it counts as no use
    except OSError:
        return None
    return Entry(folder.name, "", folder, sum(stat.st_size for stat in stats), used)


@contextlib.contextmanager
def room_for(size: int, name: str) -> Iterator[None]:
    """Evict until `size` more bytes fit, and keep other processes from filling the room meanwhile.

    Errors: CacheFull if what is not in use is too little.
    """
    limit = byte_limit()
    with _eviction_lock():
        _remove_stale_drafts()
        held = entries()
        over = sum(entry.size for entry in held) + size - limit
        if size <= limit:
            for entry in held:
                if over <= 0:
                    break
                over -= entry.size if _evict(entry) else 0
        if over > 0:
            raise _full(size, limit, name)
        yield


def clear() -> tuple[int, int]:
    """Remove everything that is not in use, and all records of references; give the bytes removed and kept."""
    removed = kept = 0
    with _eviction_lock():
        for entry in entries():
            if _evict(entry, grace=0.0):
                removed += entry.size
            else:
                kept += entry.size
        shutil.rmtree(cache.cache_dir() / "refs", ignore_errors=True)
        _remove_stale_drafts()
    return removed, kept


def listing() -> dict[str, Any]:
    """Give the cache in the shape of `cache list --json`: the most recently used first."""
    refs: dict[str, set[str]] = {}
    for ref, files in cache.records():
        for sha256 in files.values():
            refs.setdefault(sha256, set()).add(ref.partition("!")[0].partition("#")[0])
    found = entries()[::-1]
    return {
        "schema": "cache/1",
        "folder": str(cache.cache_dir()),
        "bytes": sum(entry.size for entry in found),
        "limit": byte_limit(),
        "entries": [
            {
                "name": entry.name,
                "sha256": entry.sha256 or None,
                "bytes": entry.size,
                "used": datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds"),
                "refs": sorted(refs.get(entry.sha256, ())),
            }
            for entry in found
        ],
        "error": None,
    }


@contextlib.contextmanager
def _eviction_lock() -> Iterator[None]:
    with cache.disk_errors():
        folder = cache.cache_dir() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "eviction.lock"):
        yield


def _evict(entry: Entry, grace: float | None = None) -> bool:
    """Remove an entry unless it is in use; say whether it is gone."""
    wait = IN_USE_S if grace is None else grace
    if entry.path.is_dir():
        return time.time() - entry.used >= wait and _remove_folder(entry.path)
    try:
        with entry.path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            now = _file_entry(entry.path)  # it may have been used since the list was made
            if now is None or time.time() - now.used < wait:
                return now is None
            entry.path.unlink()
    except BlockingIOError:
        return False
    except OSError:
        return not entry.path.exists()
    with contextlib.suppress(OSError):
        entry.path.parent.rmdir()
    return True


def _remove_folder(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _remove_stale_drafts() -> None:
    """Remove what killed processes left in the temporary folder."""
    for path in (cache.cache_dir() / "tmp").glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_S:
                shutil.rmtree(path, ignore_errors=True)


def _full(size: int, limit: int, name: str) -> InspectorError:
    return InspectorError(
        ErrorKind.CacheFull,
        f"{name} needs {size:,} bytes; the cache may have {limit:,}, and too much of it is in use",
        stage="source",
        where=cache.told_folder(),
        remedy=cache.for_owner(
            "raise INSPECTOR_CACHE_BYTES, or run `python -m inspector cache clear` when nothing is running"
        ),
    )
