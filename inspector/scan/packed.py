"""Compressed text files of a dataset: unpacked once into a temporary folder of this process, within bounds.

The rows of `.jsonl.gz` are then those of the `.jsonl` inside, with their numbers and their bytes' places in it. What is
damaged is told, with all that could be unpacked before it. Nothing is parsed here; what was unpacked goes with the process,
and what a killed one left, with the next that unpacks: a living one holds a lock.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from inspector.errors import ErrorKind, InspectorError

ENDINGS = {".gz": "gzip", ".zst": "zstd"}
MOST_RATIO = 200  # of bytes unpacked to bytes packed; text of chats has 3 to 20
FREE_BYTES = 256 << 20  # that a file of any size may unpack to
_CHUNK = 1 << 16
_MOST_OUT = 1 << 20
_PREFIX = "inspector-unpacked-"
_LOCK = "lock"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Where the text lies, and what is wrong with the rest of the file, None for nothing. `whole_lines`: bytes up to the
    end of the last line that is there whole."""

    path: str
    size: int
    whole_lines: int
    damage: str | None


_lock = threading.Lock()
_folder: tuple[str, IO[bytes]] | None = None  # of this process, and its lock
_known: OrderedDict[tuple[str, int, int], Unpacked] = OrderedDict()  # by place, size and time of the packed file
_held: Counter[str] = Counter()  # readers of each unpacked file


def unpacked(path: str) -> Unpacked:
    """Unpack a file, or give what was unpacked of it before.

    Errors: InputTooLarge for what unpacks to far more than it is; CacheFull where the temporary folder has no space, or
    cannot be written; OSError.
    """
    with _lock:
        return _unpacked(path)


@contextlib.contextmanager
def held(path: str, most: int) -> Iterator[Unpacked]:
    """Give what is unpacked of a file, which stays while it is held; then remove all but the `most` newest and those held.

    Errors: as `unpacked`.
    """
    with _lock:
        text = _unpacked(path)
        _held[text.path] += 1
    try:
        yield text
    finally:
        with _lock:
            _held[text.path] -= 1
            if not _held[text.path]:
                del _held[text.path]
            free = [key for key, each in _known.items() if each.path not in _held]
            for key in free[: max(0, len(_known) - most)]:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_known.pop(key).path)


def _unpacked(path: str) -> Unpacked:
    """Do what `unpacked` does. Needs the lock."""
    told = os.stat(path)
    key = (path, told.st_size, told.st_mtime_ns)
    if key not in _known or not os.path.exists(_known[key].path):
        _known[key] = _unpack(path, told.st_size)
    _known.move_to_end(key)
    return _known[key]


def _unpack(path: str, packed: int) -> Unpacked:
    name = os.path.basename(path)
    handle, place = _new_file(name)
    size = lines = 0
    damage = None
    limit = max(FREE_BYTES, MOST_RATIO * packed)
    try:
        with open(handle, "wb") as out, open(path, "rb") as source:
            for piece in _pieces(path, source):
                if isinstance(piece, str):
                    damage = piece
                    break
                if size + len(piece) > limit:
                    raise _bomb(name, packed, limit)
                end = piece.rfind(b"\n")
                lines = size + end + 1 if end >= 0 else lines
                size += len(piece)
                out.write(piece)
    except BaseException as error:
        os.unlink(place)
        # A write fails, or what was buffered when the file is closed.
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            raise _full(name, error) from error
        raise
    return Unpacked(place, size, lines, damage)


def _new_file(name: str) -> tuple[int, str]:
    global _folder
    try:
        if _folder is None or not os.path.isdir(_folder[0]):
            _remove_left()
            _folder = _locked_folder()
        return tempfile.mkstemp(dir=_folder[0])
    except OSError as error:
        raise _full(name, error) from error


def _locked_folder() -> tuple[str, IO[bytes]]:
    """Make a folder that no other process takes for left. It gets its name only when it is locked."""
    draft = tempfile.mkdtemp(prefix="inspector-new-")
    stream = open(os.path.join(draft, _LOCK), "wb")  # noqa: SIM115 - open as long as the process lives
    with contextlib.suppress(OSError):  # where nothing can be locked, nothing is removed either
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder = os.path.join(os.path.dirname(draft), os.path.basename(draft).replace("inspector-new-", _PREFIX, 1))
    os.rename(draft, folder)
    atexit.register(_remove_own, folder, os.getpid())
    return folder, stream


def _remove_own(folder: str, process: int) -> None:
    if os.getpid() == process:  # and not in a child that was forked
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left() -> None:
    """Remove what processes left that were killed: folders of this user that nobody has locked."""
    with os.scandir(tempfile.gettempdir()) as entries:
        found = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in found:
        with contextlib.suppress(OSError):
            own = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if own and not _lives(entry.path):
                shutil.rmtree(entry.path, ignore_errors=True)


def _lives(folder: str) -> bool:
    """Say whether a process has the folder. Errors: OSError where that cannot be told."""
    try:
        with open(os.path.join(folder, _LOCK), "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:  # another is removing it, or was stopped at it
        return False
    return False


def _pieces(path: str, source: Any) -> Iterator[bytes | str]:
    """Give the unpacked text piece by piece; a text where the rest cannot be unpacked, which says why."""
    return _gunzipped(source) if path.lower().endswith(".gz") else _unzstd(source)


def _gunzipped(source: Any) -> Iterator[bytes | str]:
    """Unpack gzip, one member after another. Of a damaged stretch all that comes before the fault is given."""
    decoder, members, at = zlib.decompressobj(31), 0, False
    while data := source.read(_CHUNK):
        while data:
            if decoder.eof or not at:
                data = data.lstrip(b"\0") if members else data  # tapes fill up with zeros
                if not data:
                    break
                decoder, at = zlib.decompressobj(31), True
            before = decoder.copy()
            try:
                piece = decoder.decompress(data, _MOST_OUT)
            except zlib.error as error:
                yield from _before(before, data)
                yield f"the gzip data are damaged {'' if not members else 'after its first part '}({_told(error)})"
                return
            yield piece
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            members += decoder.eof
    if at and not decoder.eof:
        yield decoder.flush()
        yield "the gzip data end early: the file was not written or fetched to its end"
    elif not at:
        yield "the file is empty"


def _before(decoder: Any, data: bytes) -> Iterator[bytes]:
    """Give what can be unpacked of a stretch that has a fault, byte by byte up to it."""
    for place in range(len(data)):
        try:
            yield decoder.decompress(data[place : place + 1])
        except zlib.error:
            return


def _told(error: zlib.error) -> str:
    return str(error).rpartition(": ")[2] or "no gzip"


class _Slowed:
    """A file as pyarrow reads it: from byte `slow` on in single bytes. `last`: where the last read began."""

    closed = False

    def __init__(self, source: Any, slow: float) -> None:
        self._source, self._slow, self.last = source, slow, 0

    def read(self, size: int) -> bytes:
        self.last = self._source.tell()
        return bytes(self._source.read(size if self.last < self._slow else 1))

    def close(self) -> None:
        """Leave the file open: it may be read once more."""


def _unzstd(source: Any) -> Iterator[bytes | str]:
    """Unpack zstd. Of a damaged file all that comes before the fault is given.

    pyarrow throws away what one call had made when the fault came: a damaged file is read again, its last stretch in
    single bytes, and once more, then asked for single bytes too.
    """
    slow, given, fault = float("inf"), 0, ""
    for single in (False, False, True):
        source.seek(0)
        slowed, at = _Slowed(source, slow), 0
        try:
            for piece in _through_arrow(slowed, given if single else None):
                at += len(piece)
                if at > given:
                    yield piece[given - at :]
                    given = at
            if not source.tell():
                yield "the file is empty"
            return
        except (OSError, ValueError) as error:  # pyarrow's are of these
            fault, slow = " ".join(str(error).split())[:120], min(slow, slowed.last)
    yield f"the zstd data are damaged or end early ({fault})"


def _through_arrow(source: _Slowed, single: int | None) -> Iterator[bytes]:
    """Unpack zstd with pyarrow, byte by byte behind the first `single`."""
    import pyarrow as pa

    at = 0
    with pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd") as stream:
        while piece := stream.read(_CHUNK if single is None else max(1, min(_CHUNK, single - at))):
            at += len(piece)
            yield piece


def _bomb(name: str, packed: int, limit: int) -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge,
        f"{name} has {packed:,} bytes and unpacks to more than {limit:,}, {MOST_RATIO} times as much",
        stage="source",
        where={"file": name, "limit": limit},
        remedy="unpack it yourself and scan what is in it, if you know what that is",
    )


def _full(name: str, error: OSError) -> InspectorError:
    return InspectorError(
        ErrorKind.CacheFull,
        f"{name} cannot be unpacked into the temporary folder: {error.strerror or error}",
        stage="source",
        where={"file": name},
        remedy="free space there, or set TMPDIR to a folder that has more; then give the same command again",
    )
