"""Compressed text files of a dataset: unpacked once into a temporary folder of this process, within bounds.

The rows of `.jsonl.gz` are then those of the `.jsonl` inside, with their numbers and their bytes' places in it. What is
damaged is told, with all that could be unpacked before it. Nothing is parsed here; what was unpacked goes with the process.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError

ENDINGS = {".gz": "gzip", ".zst": "zstd"}
MOST_RATIO = 200  # of bytes unpacked to bytes packed; text of chats has 3 to 20
FREE_BYTES = 256 << 20  # that a file of any size may unpack to
_CHUNK = 1 << 16
_MOST_OUT = 1 << 20
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
_folder: tempfile.TemporaryDirectory[str] | None = None
_known: OrderedDict[tuple[str, int, int], Unpacked] = OrderedDict()  # by place, size and time of the packed file


def unpacked(path: str, progress: Callable[[int], None] | None = None) -> Unpacked:
    """Unpack a file, or give what was unpacked of it before. `progress`: told the bytes that were read.

    Errors: InputTooLarge for what unpacks to far more than it is; CacheFull where the temporary folder has no space, or
    cannot be written; OSError.
    """
    with _lock:
        told = os.stat(path)
        key = (path, told.st_size, told.st_mtime_ns)
        if key not in _known or not os.path.exists(_known[key].path):
            _known[key] = _unpack(path, told.st_size, progress)
        _known.move_to_end(key)
        return _known[key]


def keep_newest(count: int) -> None:
    """Remove what was unpacked before the last `count` files."""
    with _lock:
        while len(_known) > count:
            _key, old = _known.popitem(last=False)
            if os.path.exists(old.path):
                os.unlink(old.path)


def _unpack(path: str, packed: int, progress: Callable[[int], None] | None) -> Unpacked:
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
                if progress is not None:
                    progress(source.tell())
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
        if _folder is None:
            _folder = tempfile.TemporaryDirectory(prefix="inspector-unpacked-")
        return tempfile.mkstemp(dir=_folder.name)
    except OSError as error:
        raise _full(name, error) from error


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
