"""The rows of a dataset: files found, cut into parts, and read back part by part, with bounded memory.

SOURCE is a JSON Lines, JSON, CSV, Parquet or Arrow file, a folder of them, or a folder that `datasets` saved. Finding
and cutting looks at line ends, brackets and footers only. No row is parsed here: JSON and CSV rows go on as the bytes
they are, rows of the columnar formats as Arrow IPC; rows.py reads both, in a child. A file that cannot be cut is a
`FailedFile`, a stretch that cannot be read gives `unreadable` rows: nothing is left out without being named.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.scan.plan import ROWS_PER_BATCH, ROWS_PER_PART

MAX_ROW_BYTES = 64_000_000  # as a request's
MAX_PIECE_BYTES = 32_000_000  # of text: what a worker holds at once, but for one longer row
BLOCK = 1 << 20
PIECE_ROWS = 256  # what is read together; a small dataset has several parts all the same, so that all workers have one
LEAST_PARTS = 32
MAX_SLICES = 16  # of one Parquet row group: each slice decodes the group up to its end
FINGERPRINT_BYTES = 1 << 16
FORMATS = {
    ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
# Columns that a conversation can be in, or that say more of it; others are not read from a columnar file.
KNOWN_COLUMNS = (
    "messages", "conversations", "conversation", "prompt", "completion", "chosen", "instruction", "input", "output",
    "response", "system", "history", "tools", "functions", "documents", "chat_template_kwargs", "contents",
    "systemInstruction", "system_instruction", "body", "request", "prompt_token_ids", "role", "content",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its name below the common root, where it lies, its format, and what it is known again by."""

    name: str
    path: str
    format: str
    size: int
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of the manifest's `source`, without the place."""
        return {"file": self.name, "format": self.format, "bytes": self.size, "fingerprint": self.fingerprint}


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file of which no row can be had, and why."""

    name: str
    error: InspectorError

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of the manifest's `failed_files`."""
        return {"file": self.name, "error": self.error.to_dict()}


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one file that are read together.

    `first`: number of the first row; `count` of them. `start`, `stop`: bytes of a text file; of Parquet the row group
    and the row in it, of Arrow the record batch and the row in it. `chosen`: the row numbers wanted, None: all.
    """

    file: int
    first: int
    count: int
    start: int
    stop: int
    chosen: tuple[int, ...] | None = None

    @property
    def wanted(self) -> int:
        """How many rows of it are to be measured."""
        return self.count if self.chosen is None else len(self.chosen)


@dataclass(frozen=True, slots=True)
class Part:
    """What becomes one file of the table: pieces, in order."""

    index: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """How many rows its table has."""
        return sum(piece.wanted for piece in self.pieces)

    def to_dict(self, files: Sequence[SourceFile]) -> dict[str, Any]:
        """Say which rows it holds, as a part's own metadata does."""
        held = [[files[p.file].name, p.first, p.first + p.count] for p in self.pieces]
        return {"part": self.index, "rows": self.rows, "held": held}


@dataclass(frozen=True, slots=True)
class Source:
    """A dataset that is cut into parts. Picklable; the files are read again by whoever has a part."""

    root: str
    files: tuple[SourceFile, ...]
    failed: tuple[FailedFile, ...]
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many rows are to be measured."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows on their way to a child. Picklable.

    `kind`: "json" or "csv" (data: one bytes a row), "arrow" (data: one IPC stream of all rows), or "unreadable" (no
    data, `error` says why). `numbers`: row numbers; `offsets`: bytes in the file, -1 where there are none. `start`,
    `stop`: the rows of it that are meant, so that a part of a batch can be sent without being made anew.
    """

    file: str
    kind: str
    numbers: tuple[int, ...]
    offsets: tuple[int, ...]
    data: tuple[bytes, ...]
    start: int
    stop: int
    header: bytes = b""
    error: dict[str, Any] | None = None

    def __len__(self) -> int:
        return self.stop - self.start

    def only(self, start: int, stop: int) -> RowBatch:
        """Give rows [start, stop) of this batch's own; text that is not meant is not sent along."""
        if self.kind == "arrow":
            return replace(self, start=self.start + start, stop=self.start + stop)
        rows = slice(self.start + start, self.start + stop)
        taken = self.data[rows] if self.kind != "unreadable" else ()
        return replace(self, numbers=self.numbers[rows], offsets=self.offsets[rows], data=taken, start=0,
                       stop=stop - start)  # fmt: skip


# --- finding ---------------------------------------------------------------------------------------------------------


def open_source(
    sources: Sequence[str | Path],
    *,
    rows_per_part: int = ROWS_PER_PART,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Source:
    """Find the files and cut them into parts: of at most `rows_per_part` rows, smaller ones where there are few rows.

    `limit`: the first rows only; `sample`: so many, chosen by `seed` among all (or among the first `limit`).
    Errors: InputInvalid where there is nothing to read.
    """
    paths = _found(sources)
    root = os.path.commonpath([path if len(paths) > 1 else os.path.dirname(path) for path in paths])
    root = root if os.path.isdir(root) else os.path.dirname(root)
    files, failed, pieces = list[SourceFile](), list[FailedFile](), list[Piece]()
    sizes = [_size(path) for path in paths]
    read = 0
    for path, size in zip(paths, sizes):
        if progress is not None:
            progress(read, sum(sizes), "finding rows")
        name = Path(os.path.relpath(path, root)).as_posix()
        try:
            file = SourceFile(name, path, _format(path), size, fingerprint(path))
            cut = list(_CUTS[file.format](file, len(files), min(PIECE_ROWS, rows_per_part)))
        except (InspectorError, OSError) as error:
            failed.append(FailedFile(name, error if isinstance(error, InspectorError) else _unreadable(name, error)))
        else:
            files.append(file)
            pieces += cut
        read += size
        if limit is not None and sum(piece.count for piece in pieces) >= limit:
            break
    pieces = _limited(pieces, limit)
    if sample is not None:
        pieces = _sampled(pieces, sample, seed)
    total = sum(piece.wanted for piece in pieces)
    size = min(rows_per_part, max(PIECE_ROWS, -(-total // LEAST_PARTS)))
    return Source(root, tuple(files), tuple(failed), tuple(_parts(pieces, size)))


def _found(sources: Sequence[str | Path]) -> list[str]:
    """List the files of the sources in order, each once."""
    found: dict[str, None] = {}
    for source in sources:
        path = os.path.abspath(source)
        if os.path.isdir(path):
            listed = list(_in_folder(path))
            if not listed:
                raise _nothing(f"the folder {str(source)[:200]!r} holds no file that can be read")
            found.update(dict.fromkeys(listed))
        elif os.path.isfile(path):
            found[path] = None
        else:
            raise _nothing(f"there is no file or folder {str(source)[:200]!r}")
    return list({os.path.realpath(path): path for path in reversed(found)}.values())[::-1]


def _in_folder(folder: str) -> Iterator[str]:
    """List a folder: what `datasets` saved by its own lists, else every file of a known format, sorted."""
    if os.path.isfile(f"{folder}/dataset_dict.json"):
        for split in _json(f"{folder}/dataset_dict.json").get("splits", ()):
            yield from _in_folder(f"{folder}/{split}")
        return
    if os.path.isfile(f"{folder}/state.json") and os.path.isfile(f"{folder}/dataset_info.json"):
        state = _json(f"{folder}/state.json")
        if state.get("_indices_files"):
            raise _nothing("the dataset was saved with an index of rows", "flatten it: dataset.flatten_indices()")
        yield from (f"{folder}/{entry['filename']}" for entry in state.get("_data_files", ()))
        return
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (f"{path}/{name}" for name in sorted(names) if _suffix(name) in FORMATS and name[:1] != ".")


def _json(path: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(os.path.basename(path), error) from None
    return value if isinstance(value, dict) else {}


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _format(path: str) -> str:
    form = FORMATS.get(_suffix(path))
    if form is None:
        raise InspectorError(
            ErrorKind.InputInvalid, f"{os.path.basename(path)!r} is of no format that is read", stage="source",
            where={"file": os.path.basename(path)}, remedy=f"give one of {', '.join(FORMATS)}",
        )  # fmt: skip
    if form != "json":
        return form
    with open(path, "rb") as file:
        return "array" if file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[" else "lines"


def fingerprint(path: str) -> str:
    """Give SHA-256 of the size and both ends: enough to see that a file is another one, cheap for any size."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(FINGERPRINT_BYTES)
        file.seek(max(0, size - FINGERPRINT_BYTES))
        return hashlib.sha256(b"%d\0" % size + head + file.read(FINGERPRINT_BYTES)).hexdigest()


# --- cutting ---------------------------------------------------------------------------------------------------------


def _limited(pieces: list[Piece], limit: int | None) -> list[Piece]:
    kept, left = list[Piece](), limit
    for piece in pieces:
        if left is not None and piece.count > left:
            piece = replace(piece, chosen=tuple(range(piece.first, piece.first + left)))
        if piece.wanted:
            kept.append(piece)
        left = None if left is None else left - piece.wanted
    return kept


def _sampled(pieces: list[Piece], sample: int, seed: int) -> list[Piece]:
    """Choose rows by their place among all; the same seed gives the same rows."""
    total = sum(piece.wanted for piece in pieces)
    places = sorted(random.Random(seed).sample(range(total), min(sample, total)))
    kept, before = list[Piece](), 0
    for piece in pieces:
        first, last = (bisect.bisect_left(places, before + edge) for edge in (0, piece.wanted))
        rows = tuple(piece.first + place - before for place in places[first:last])
        if rows:
            kept.append(replace(piece, chosen=rows))
        before += piece.wanted
    return kept


def _parts(pieces: Iterable[Piece], rows_per_part: int) -> Iterator[Part]:
    held, rows, index = list[Piece](), 0, 0
    for piece in pieces:
        if held and rows + piece.wanted > rows_per_part:
            yield Part(index, tuple(held))
            held, rows, index = [], 0, index + 1
        held.append(piece)
        rows += piece.wanted
    if held:
        yield Part(index, tuple(held))


_Cut = Callable[[SourceFile, int, int], Iterator[Piece]]


def _cut_rows(ends: Iterable[tuple[int, int]], index: int, most: int) -> Iterator[Piece]:
    """Group rows, given by the bytes at which each begins and ends, into pieces."""
    first, count, start, stop = 0, 0, 0, 0
    for begin, end in ends:
        if count and (count >= most or end - start > MAX_PIECE_BYTES):
            yield Piece(index, first, count, start, stop)
            first, count = first + count, 0
        if not count:
            start = begin
        stop, count = end, count + 1
    if count:
        yield Piece(index, first, count, start, stop)


def _cut_lines(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    with open(file.path, "rb") as data:
        yield from _cut_rows(_lines(data, 0, None), index, most)


def _lines(data: Any, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
    """Give begin and end of every line that is not blank; a line of any length takes a block of memory only."""
    data.seek(start)
    at, begin, blank = start, start, True
    while stop is None or at < stop:
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at))
        if not block:
            break
        pieces = block.split(b"\n")
        for piece in pieces[:-1]:
            end = at + len(piece)
            if not blank or (piece and not piece.isspace()):
                yield begin, end
            at, begin, blank = end + 1, end + 1, True
        blank = blank and (not pieces[-1] or pieces[-1].isspace())
        at += len(pieces[-1])
    if not blank:
        yield begin, at


def _cut_array(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    with open(file.path, "rb") as data:
        yield from _cut_rows(_elements(data, 0, None, file.name), index, most)


_MARK = re.compile(rb'[\[\]{}",]|\\.', re.DOTALL)


def _elements(data: Any, start: int, stop: int | None, name: str = "") -> Iterator[tuple[int, int]]:
    """Give begin and end of every element of a JSON array, from its bracket (or, with `stop`, of a stretch of elements)."""
    data.seek(start)
    depth, begin, last, quoted = (0, -1, -1, False) if stop is None else (1, start, -1, False)
    at, rest = start, b""
    while stop is None or at + len(rest) < stop:
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at - len(rest)))
        if not block:
            break
        text = rest + block
        upto = len(text) - (len(text) - len(text.rstrip(b"\\"))) % 2  # an escape is not cut in two
        for mark in _MARK.finditer(text, 0, upto):
            sign, place = mark[0], at + mark.start()
            if sign == b'"':
                quoted = not quoted
            elif quoted or sign[:1] == b"\\":
                continue
            elif sign in (b"[", b"{"):
                depth += 1
                begin = place + 1 if depth == 1 else begin
            elif sign in (b"]", b"}"):
                depth -= 1
                if depth == 0:
                    if begin >= 0 and place > begin:
                        yield from _trimmed(data, begin, place)
                    return
            elif depth == 1:
                yield from _trimmed(data, begin, place)
                begin = place + 1
        at, rest = at + upto, text[upto:]
        last = at + len(rest)
    if stop is not None:
        yield from _trimmed(data, begin, stop)
    else:
        raise _broken(name, f"the JSON array that begins the file is not closed ({last:,} bytes read)")


def _trimmed(data: Any, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Give an element without the white space around it, none if it is nothing else."""
    at = data.tell()
    data.seek(begin)
    head = data.read(min(end - begin, 4096))
    data.seek(at)
    skipped = len(head) - len(head.lstrip())
    if skipped < end - begin:
        yield begin + skipped, end


def _cut_csv(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    with open(file.path, "rb") as data:
        records = _records(data, 0, None)
        next(records, None)  # the header
        yield from _cut_rows(records, index, most)


def _records(data: Any, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
    """Give begin and end of every CSV record: lines, joined while a quote is open (RFC 4180 doubles quotes inside)."""
    opened, begin = False, -1
    text, base = b"", -1
    for first, last in _every_line(data, start, stop):
        if base < 0 or last > base + len(text):
            data.seek(first)
            text, base = data.read(max(BLOCK, last - first)), first
        line = text[first - base : last - base]
        begin = first if not opened else begin
        opened = opened != bool(line.count(b'"') % 2)
        if not opened and (line.strip() or begin != first):
            yield begin, last
    if opened:
        yield begin, last


def _every_line(data: Any, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
    """Give begin and end of every line, blank ones too."""
    at = begin = start
    while stop is None or at < stop:
        data.seek(at)
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at))
        if not block:
            break
        for piece in block.split(b"\n")[:-1]:
            end = at + len(piece)
            yield begin, end
            at = begin = end + 1
        at += len(block) - (block.rfind(b"\n") + 1)
    if begin < at:
        yield begin, at


def _cut_parquet(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    import pyarrow.parquet as parquet

    with _arrow_errors(file.name), parquet.ParquetFile(file.path) as opened:
        _known_column(file.name, opened.schema_arrow.names)
        sizes = [opened.metadata.row_group(group).num_rows for group in range(opened.metadata.num_row_groups)]
    yield from _cut_groups(sizes, index, most)


def _cut_arrow(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    with _arrow_errors(file.name):
        sizes = []
        for number, batch in _batches(file.path):
            if not number:
                _known_column(file.name, batch.schema.names)
            sizes.append(batch.num_rows)
    yield from _cut_groups(sizes, index, most)


def _cut_groups(sizes: Sequence[int], index: int, most: int) -> Iterator[Piece]:
    first = 0
    for group, rows in enumerate(sizes):
        step = max(most, -(-rows // MAX_SLICES))
        for begin in range(0, rows, step):
            count = min(step, rows - begin)
            yield Piece(index, first + begin, count, group, begin)
        first += rows


_CUTS: dict[str, _Cut] = {
    "lines": _cut_lines, "array": _cut_array, "csv": _cut_csv, "parquet": _cut_parquet, "arrow": _cut_arrow,
}  # fmt: skip


def find_row(file: SourceFile, row: int, offset: int | None = None) -> Piece | None:
    """Give the piece that holds one row of a file; at once where the byte at which it begins is known. None: no such row.

    Errors: InputInvalid for a file that cannot be cut.
    """
    ends: Any = {"lines": _lines, "array": _elements, "csv": _records}.get(file.format)
    if ends is not None and offset is not None:
        with open(file.path, "rb") as data:
            begin, end = next(ends(data, offset, file.size), (0, 0))
        return Piece(0, row, 1, begin, end, (row,)) if end else None
    for piece in _CUTS[file.format](file, 0, ROWS_PER_PART):
        if piece.first <= row < piece.first + piece.count:
            return replace(piece, chosen=(row,))
    return None


def _known_column(name: str, columns: Sequence[str]) -> None:
    if not columns:
        raise _broken(name, "the file has no column")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_part(
    source: Source, part: Part, columns: Sequence[str] = (), rows: int = ROWS_PER_BATCH
) -> Iterator[RowBatch]:
    """Read the wanted rows of a part, some at a time. `columns`: names beside the known ones that are to be read.

    A file that has changed, or a stretch that cannot be read, gives `unreadable` rows.
    """
    for piece in part.pieces:
        file, read = source.files[piece.file], 0
        try:
            for batch in _READ[file.format](file, piece, tuple(columns), rows):
                yield from _wanted(batch, piece)
                read += len(batch)
        except (InspectorError, OSError) as error:
            fault = error if isinstance(error, InspectorError) else _unreadable(file.name, error)
            yield from _wanted(_lost(file, piece, read, fault), piece)
        else:
            if read < piece.count:
                fault = _broken(file.name, f"only {read} of {piece.count} rows were found again")
                yield from _wanted(_lost(file, piece, read, fault), piece)


def _lost(file: SourceFile, piece: Piece, read: int, error: InspectorError) -> RowBatch:
    numbers = tuple(range(piece.first + read, piece.first + piece.count))
    offsets = (-1,) * len(numbers)
    return RowBatch(file.name, "unreadable", numbers, offsets, (), 0, len(numbers), error=error.to_dict())


def _wanted(batch: RowBatch, piece: Piece) -> Iterator[RowBatch]:
    """Give a batch less what is not wanted, as runs of neighbours."""
    if not len(batch):
        return
    if piece.chosen is None:
        yield batch
        return
    wanted = set(piece.chosen)
    keep = [place for place in range(len(batch)) if batch.numbers[batch.start + place] in wanted]
    if batch.kind in ("json", "csv") and keep:
        rows = [batch.start + place for place in keep]
        taken: dict[str, Any] = {
            name: tuple(getattr(batch, name)[row] for row in rows) for name in ("numbers", "offsets", "data")
        }
        yield replace(batch, **taken, start=0, stop=len(rows))
        return
    begin = 0
    for place in range(1, len(keep) + 1):
        if place == len(keep) or keep[place] != keep[place - 1] + 1:
            yield batch.only(keep[begin], keep[place - 1] + 1)
            begin = place


_Read = Callable[[SourceFile, Piece, tuple[str, ...], int], Iterator[RowBatch]]


def _read_text(ends: Any, kind: str) -> _Read:
    """Make the reader of a text format; `ends` gives begin and end of every row of a stretch."""

    def read(file: SourceFile, piece: Piece, columns: tuple[str, ...], rows: int) -> Iterator[RowBatch]:
        with open(file.path, "rb") as data, open(file.path, "rb") as text:
            header = b""
            if kind == "csv":
                first, last = next(_records(data, 0, None), (0, 0))
                header = _at(text, first, last)
            held: list[tuple[int, bytes]] = []
            number = piece.first
            for begin, end in ends(data, piece.start, piece.stop):
                if end - begin > MAX_ROW_BYTES:
                    yield from _held(file, kind, number, held, header)
                    number += len(held) + 1
                    held = []
                    yield _too_long(file, number - 1, begin, end - begin)
                    continue
                held.append((begin, _at(text, begin, end)))
                if len(held) >= rows:
                    yield from _held(file, kind, number, held, header)
                    number, held = number + len(held), []
            yield from _held(file, kind, number, held, header)

    return read


def _at(text: Any, begin: int, end: int) -> bytes:
    text.seek(begin)
    return bytes(text.read(end - begin))


def _held(file: SourceFile, kind: str, number: int, held: list[tuple[int, bytes]], header: bytes) -> Iterator[RowBatch]:
    if held:
        offsets, data = zip(*held)
        numbers = tuple(range(number, number + len(held)))
        yield RowBatch(file.name, kind, numbers, offsets, data, 0, len(held), header)


def _too_long(file: SourceFile, number: int, offset: int, size: int) -> RowBatch:
    error = InspectorError(
        ErrorKind.InputTooLarge, f"the row has {size:,} bytes; the limit is {MAX_ROW_BYTES:,}", stage="source",
        where={"file": file.name, "row": number}, remedy="split the row",
    )  # fmt: skip
    return RowBatch(file.name, "unreadable", (number,), (offset,), (), 0, 1, error=error.to_dict())


def _read_parquet(file: SourceFile, piece: Piece, columns: tuple[str, ...], rows: int) -> Iterator[RowBatch]:
    import pyarrow.parquet as parquet

    with _arrow_errors(file.name), parquet.ParquetFile(file.path, pre_buffer=False) as opened:
        names = _projected(opened.schema_arrow.names, columns)
        how: dict[str, Any] = {"row_groups": [piece.start], "columns": names, "use_threads": False}
        number = piece.first - piece.stop
        for batch in opened.iter_batches(batch_size=max(rows, 256), **how):
            yield from _sliced(file, batch, number, piece, rows)
            number += batch.num_rows
            if number >= piece.first + piece.count:
                break


def _read_arrow(file: SourceFile, piece: Piece, columns: tuple[str, ...], rows: int) -> Iterator[RowBatch]:
    with _arrow_errors(file.name):
        for number, batch in _batches(file.path):
            if number == piece.start:
                names = _projected(batch.schema.names, columns)
                yield from _sliced(file, batch.select(names), piece.first - piece.stop, piece, rows)
                return


def _projected(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    wanted = [name for name in names if name in KNOWN_COLUMNS or name in columns]
    return wanted or list(names)


def _sliced(file: SourceFile, batch: Any, number: int, piece: Piece, rows: int) -> Iterator[RowBatch]:
    """Give the rows of a record batch that are of the piece, as IPC streams; `number`: of the batch's first row."""
    import pyarrow as pa

    first = max(number, piece.first)
    last = min(number + batch.num_rows, piece.first + piece.count)
    for begin in range(first, last, rows):
        end = min(begin + rows, last)
        part = batch.slice(begin - number, end - begin)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        numbers = tuple(range(begin, end))
        data = (sink.getvalue().to_pybytes(),)
        yield RowBatch(file.name, "arrow", numbers, (-1,) * len(numbers), data, 0, len(numbers))


def _batches(path: str) -> Iterator[tuple[int, Any]]:
    """Give the record batches of an Arrow file or stream, mapped into memory."""
    import pyarrow as pa

    with pa.memory_map(path) as mapped:
        if mapped.read(6) == b"ARROW1":
            opened = pa.ipc.open_file(mapped)
            yield from ((number, opened.get_batch(number)) for number in range(opened.num_record_batches))
        else:
            mapped.seek(0)
            yield from enumerate(pa.ipc.open_stream(mapped))


_READ: dict[str, _Read] = {
    "lines": _read_text(_lines, "json"), "array": _read_text(_elements, "json"), "csv": _read_text(_records, "csv"),
    "parquet": _read_parquet, "arrow": _read_arrow,
}  # fmt: skip


# --- errors ----------------------------------------------------------------------------------------------------------


class _arrow_errors:
    """Turn what pyarrow says about a file into an InspectorError that names the file."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, fault: Any, traceback: Any) -> None:
        import pyarrow as pa

        if isinstance(fault, pa.ArrowException | OSError | ValueError | KeyError | IndexError | EOFError):
            raise _broken(self.name, " ".join(str(fault).split())[:300] or type(fault).__name__) from None


def _nothing(message: str, remedy: str = "") -> InspectorError:
    remedy = remedy or f"give a file of {', '.join(FORMATS)}, a folder of them, or a folder that datasets saved"
    return InspectorError(ErrorKind.InputInvalid, message, stage="source", where={"option": "SOURCE"}, remedy=remedy)


def _broken(name: str, message: str) -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid, message, stage="source", where={"file": name},
        remedy="the file is damaged, or has changed: fetch or write it again",
    )  # fmt: skip


def _unreadable(name: str, error: Exception) -> InspectorError:
    why = getattr(error, "strerror", None) or str(error)
    return InspectorError(
        ErrorKind.InputInvalid, f"cannot read {name}: {why}", stage="source", where={"file": name},
        remedy="check the file and its permissions",
    )  # fmt: skip
