"""The rows of a dataset: files found, cut into parts, and read back part by part, with bounded memory.

SOURCE is a JSON Lines, JSON, CSV, Parquet or Arrow file, a folder of them, or a folder that `datasets` saved; JSON Lines and
JSON also packed as .gz or .zst (packed.py). Finding
and cutting looks at line ends, quotes, brackets and footers only. No row is parsed here: JSON and CSV rows go on as the
bytes they are, rows of the columnar formats as Arrow IPC; rows.py reads both, in a child. A file that cannot be cut is a
`FailedFile`, a stretch that cannot be read gives `unreadable` rows, a file of a folder that is of no format that is read,
or no regular file, is in `skipped`: nothing is left out without being named.

A `.json` file is an array of rows (`array`), one row over several lines or one conversation as an array of messages
(`value`), or rows line by line (`lines`); what follows an array that is not the first of such lines fails the file.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.scan import packed
from inspector.scan.plan import ROWS_PER_BATCH, ROWS_PER_PART, SCHEMA_VERSION

MAX_ROW_BYTES = 64_000_000  # as a request's
MAX_PIECE_BYTES = 32_000_000  # of text: what a worker holds at once, but for one longer row
BLOCK = 1 << 20
PIECE_ROWS = 256  # what is read together; a small dataset has several parts all the same, so that all workers have one
LEAST_PARTS = 32
MAX_SLICES = 16  # of one Parquet row group: each slice decodes the group up to its end
FINGERPRINT_BYTES = 1 << 16
WHOLE_BYTES = 16_000_000  # files up to this size are known again by all their bytes
MOST_NAMED = 20  # of the files that were skipped
_MANIFEST = "manifest.json"  # as output.py writes it
FORMATS = {
    ".jsonl": "lines", ".ndjson": "lines", ".json": "json", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
PACKED_FORMATS = {text + ending: FORMATS[text] for text in (".jsonl", ".ndjson", ".json") for ending in packed.ENDINGS}
_NAMED = f"{', '.join(FORMATS)} (.jsonl and .json also with {' or '.join(packed.ENDINGS)})"
# Columns that a conversation can be in, or that say more of it; others are not read from a columnar file.
KNOWN_COLUMNS = (
    "messages", "conversations", "conversation", "prompt", "completion", "chosen", "instruction", "input", "output",
    "response", "system", "history", "tools", "functions", "documents", "chat_template_kwargs", "contents",
    "systemInstruction", "system_instruction", "body", "request", "prompt_token_ids", "role", "content",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its name below the common root, where its text lies, its format, and what it is known again by.
    `packed`: where the file itself lies, if that is another place."""

    name: str
    path: str
    format: str
    size: int
    fingerprint: str
    packed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of the manifest's `source`, without the place."""
        return {"file": self.name, "format": self.format, "bytes": self.size, "fingerprint": self.fingerprint}


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file of which no row can be had, or none after a damaged place, and why."""

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
    skipped: tuple[str, ...] = ()  # files of folders that are of no format that is read, or not regular

    @property
    def rows(self) -> int:
        """How many rows are to be measured."""
        return sum(part.rows for part in self.parts)

    def skipped_files(self) -> dict[str, Any]:
        """Give the manifest's `skipped_files`: how many, and the first of them by name."""
        return {"count": len(self.skipped), "files": list(self.skipped[:MOST_NAMED])}


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
    Errors: InputInvalid where there is nothing to read: no file, or no row in any that is there; CacheFull where a packed
    file cannot be unpacked for want of space, which is no fault of the file.
    """
    paths, others = _found(sources)
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
            file, damage = found_file(name, path, size)
            file, cut = _cut_whole(file, damage, len(files), min(PIECE_ROWS, rows_per_part))
        except (InspectorError, OSError) as error:
            if isinstance(error, InspectorError) and error.kind is ErrorKind.CacheFull:
                raise
            failed.append(FailedFile(name, error if isinstance(error, InspectorError) else _unreadable(name, error)))
        else:
            if damage is not None:
                failed.append(FailedFile(name, _damaged(name, damage, sum(piece.count for piece in cut))))
            files.append(file)
            pieces += cut
        read += size
        if limit is not None and sum(piece.count for piece in pieces) >= limit:
            break
    if not pieces:
        raise _no_row(files, failed, others)
    pieces = _limited(pieces, limit)
    if sample is not None:
        pieces = _sampled(pieces, sample, seed)
    total = sum(piece.wanted for piece in pieces)
    size = min(rows_per_part, max(PIECE_ROWS, -(-total // LEAST_PARTS)))
    skipped = tuple(Path(os.path.relpath(path, root)).as_posix() for path in others)
    return Source(root, tuple(files), tuple(failed), tuple(_parts(pieces, size)), skipped)


def found_file(name: str, path: str, size: int) -> tuple[SourceFile, packed.Unpacked | None]:
    """Give a file with the place of its text, unpacked if need be; and what was unpacked, where the rest is damaged.

    Errors: InputInvalid, InputTooLarge, CacheFull, OSError.
    """
    if _is_special(path):
        raise _broken(name, f"{name} is no regular file", "write what it gives into a file")
    form, known = _kind(path), fingerprint(path)
    if _suffix(path) not in PACKED_FORMATS:
        return SourceFile(name, path, _format_of(path, form), size, known), None
    text = packed.unpacked(path)
    file = SourceFile(name, text.path, "lines" if text.damage else _format_of(text.path, form), size, known, path)
    return file, text if text.damage else None


def _cut_whole(
    file: SourceFile, damage: packed.Unpacked | None, index: int, most: int
) -> tuple[SourceFile, list[Piece]]:
    """Cut a file; of a damaged one the lines that are there whole. Errors: InputInvalid, OSError."""
    if damage is None:
        return _cut(file, index, most)
    if _kind(file.packed) == "json" or not damage.whole_lines:
        raise _damaged(file.name, damage, 0)
    with open(file.path, "rb") as data:
        return file, list(_cut_rows(_lines(data, 0, damage.whole_lines), index, most))


def _damaged(name: str, damage: packed.Unpacked, rows: int) -> InspectorError:
    before = f"; the {rows:,} rows before that are read" if rows else ""
    return _broken(name, f"{damage.damage} after {damage.size:,} bytes of text{before}", "fetch or pack the file again")


def _no_row(files: Sequence[SourceFile], failed: Sequence[FailedFile], others: Sequence[str]) -> InspectorError:
    """Say of every file why it gave no row."""
    said = [f"{each.name}: {each.error.message}" for each in failed] + [
        f"{file.name}: it holds no row" for file in files
    ]
    more = f"; and {len(said) - 8:,} more" if len(said) > 8 else ""
    skipped = f"; {len(others):,} files of other formats or kinds were skipped" if others else ""
    first = failed[0].error if len(failed) == 1 and not files else None
    return _nothing(f"no row can be read: {'; '.join(said[:8])}{more}{skipped}", first.remedy if first else "")


def _found(sources: Sequence[str | Path]) -> tuple[list[str], list[str]]:
    """List the files of the sources in order, each once, and those of folders that are of no format that is read."""
    found: dict[str, None] = {}
    others: list[str] = []
    for source in sources:
        path = os.path.abspath(source)
        if os.path.isdir(path):
            before = len(others)
            listed = list(_in_folder(path, others))
            if not listed:
                named = ", ".join(os.path.basename(other) for other in others[before : before + 8])
                raise _nothing(
                    f"the folder {str(source)[:200]!r} holds no file that can be read"
                    + (f", but {len(others) - before:,} that are not: {named}" if named else "")
                )
            found.update(dict.fromkeys(listed))
        elif os.path.isfile(path):
            found[path] = None
        elif _is_special(path):
            raise _nothing(f"{str(source)[:200]!r} is no regular file", "write what it gives into a file")
        else:
            raise _nothing(f"there is no file or folder {str(source)[:200]!r}")
    return list({os.path.realpath(path): path for path in reversed(found)}.values())[::-1], others


def _in_folder(folder: str, others: list[str]) -> Iterator[str]:
    """List a folder: what `datasets` saved by its own lists, else every regular file of a known format, sorted; the
    rest goes into `others`. A folder that a scan wrote is no source, so that a scan into its own source goes on."""
    if os.path.isfile(f"{folder}/dataset_dict.json"):
        for split in _json(f"{folder}/dataset_dict.json").get("splits", ()):
            yield from _in_folder(f"{folder}/{split}", others)
        return
    if os.path.isfile(f"{folder}/state.json") and os.path.isfile(f"{folder}/dataset_info.json"):
        state = _json(f"{folder}/state.json")
        if state.get("_indices_files"):
            raise _nothing("the dataset was saved with an index of rows", "flatten it: dataset.flatten_indices()")
        yield from (f"{folder}/{entry['filename']}" for entry in state.get("_data_files", ()))
        return
    for path, folders, names in os.walk(folder):
        if _MANIFEST in names and os.path.isfile(f"{path}/{_MANIFEST}") and _is_scan(f"{path}/{_MANIFEST}"):
            folders[:] = []
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if name[:1] != "."):
            known = _suffix(name) in FORMATS or _suffix(name) in PACKED_FORMATS
            if known and not _is_special(f"{path}/{name}"):
                yield f"{path}/{name}"
            else:
                others.append(f"{path}/{name}")


def _is_special(path: str) -> bool:
    """Say whether a path leads to a pipe, a device or the like, which may never end; a link that leads nowhere does not."""
    return os.path.exists(path) and not os.path.isfile(path)


def _is_scan(manifest: str) -> bool:
    """Say whether a manifest is of a scan; what is none may be a row of somebody's data."""
    try:
        return _json(manifest).get("schema") == SCHEMA_VERSION
    except (InspectorError, RecursionError):
        return False


def _json(path: str) -> dict[str, Any]:
    try:
        value = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(os.path.basename(path), error) from None
    return value if isinstance(value, dict) else {}


def _suffix(name: str) -> str:
    """Give the ending that says the format: of a packed file both.

    >>> _suffix("a.JSONL.gz"), _suffix("a.v2.json"), _suffix("a.tar.gz")
    ('.jsonl.gz', '.json', '.gz')
    """
    rest, last = os.path.splitext(name.lower())
    both = os.path.splitext(rest)[1] + last
    return both if both in PACKED_FORMATS else last


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def is_packed(name: str) -> bool:
    """Say whether a file is unpacked before it is read."""
    return _suffix(name) in PACKED_FORMATS


def _kind(path: str) -> str:
    """Give the format that a file's name says. Errors: InputInvalid."""
    form = FORMATS.get(_suffix(path)) or PACKED_FORMATS.get(_suffix(path))
    if form is None:
        raise InspectorError(
            ErrorKind.InputInvalid, f"{os.path.basename(path)!r} is of no format that is read", stage="source",
            where={"file": os.path.basename(path)},
            remedy=f"unpack it; read are {_NAMED}" if _suffix(path) in _PACKED else f"give one of {_NAMED}",
        )  # fmt: skip
    return form


def _format_of(path: str, form: str) -> str:
    """Give the format of a text, whose name says `form`."""
    if form != "json":
        return form
    with open(path, "rb") as file:
        first = _begins(file)[:1]
        if first == b"[":
            return "value" if _is_conversation(file, path) else "array"
        return "value" if first == b"{" and not _closed_on_line(file) else "lines"


_PACKED = (".gz", ".zst", ".zip", ".bz2", ".xz", ".tar", ".tgz", ".lz4")
_BOM = b"\xef\xbb\xbf"
_BLANK = _BOM + b" \t\r\n"
_CONVERSING = ("system", "developer", "user", "assistant", "tool", "function")
_PEEK = 1 << 20  # of a first element that is looked at


def _begins(file: Any) -> bytes:
    file.seek(0)
    return bytes(file.read(4096).lstrip(_BLANK))


def _is_conversation(file: Any, name: str) -> bool:
    """Say whether an array's elements are messages, by its first one: then the array is one row."""
    try:
        begin, end = next(_elements(file, 0, None, name), (0, 0))
        value = json.loads(_at(file, begin, end)) if end - begin <= _PEEK else None
    except (InspectorError, ValueError, RecursionError):
        return False  # the cut says what is wrong
    return isinstance(value, dict) and "messages" not in value and str(value.get("role")) in _CONVERSING


def _closed_on_line(file: Any) -> bool:
    """Say whether the first value of a file ends where its first line does, as rows line by line do."""
    _begin, end = next(_lines(file, 0, None), (0, 0))
    return _value_end(file, end) is not None


def fingerprint(path: str) -> str:
    """Give what a file is known again by: SHA-256 of its size and all bytes up to 16 MB. Above that, of size, time of
    the last change (in nanoseconds) and 64 KB at both ends: cheap for any size, blind only to a change in the middle
    that keeps size and time."""
    with open(path, "rb") as file:
        told = os.fstat(file.fileno())
        if told.st_size <= WHOLE_BYTES:
            return hashlib.sha256(b"%d\0" % told.st_size + file.read(WHOLE_BYTES + 1)).hexdigest()
        head = file.read(FINGERPRINT_BYTES)
        file.seek(max(0, told.st_size - FINGERPRINT_BYTES))
        place = b"%d\0%d\0" % (told.st_size, told.st_mtime_ns)
        return hashlib.sha256(place + head + file.read(FINGERPRINT_BYTES)).hexdigest()


def check_unchanged(source: Source) -> None:
    """Check, after a scan, that every file is still the one that was cut. Errors: InputInvalid."""
    for file in source.files:
        try:
            same = fingerprint(file.packed or file.path) == file.fingerprint
        except OSError as error:
            raise _unreadable(file.name, error) from None
        if not same:
            raise _broken(
                file.name, f"{file.name} has changed while it was scanned: some rows may be of its new state",
                "scan it again into another folder",
            )  # fmt: skip


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


class _IsLines(Exception):
    """What was taken for one value of a `.json` file is the first of several lines, each a row."""


def _cut(file: SourceFile, index: int, most: int) -> tuple[SourceFile, list[Piece]]:
    """Cut a file; give it with the format that it turned out to have. Errors: InputInvalid, OSError."""
    try:
        return file, list(_CUTS[file.format](file, index, most))
    except _IsLines:
        file = replace(file, format="lines")
        return file, list(_CUTS[file.format](file, index, most))


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
    """Give begin and end of every line that is not blank; a line of any length takes a block of memory only. LF, CRLF and
    CR end a line: none of them stands inside a JSON string."""
    data.seek(start)
    at, begin, blank = start, start, True
    while stop is None or at < stop:
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at))
        if not block:
            break
        if at == 0 and block.startswith(_BOM):
            at = begin = 3
            block = block[3:]
        pieces = block.replace(b"\r", b"\n").split(b"\n")
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
        yield from _cut_rows(_whole_array(data, file.name), index, most)


def _whole_array(data: Any, name: str) -> Iterator[tuple[int, int]]:
    """Give the elements of the array that is the whole file. Errors: InputInvalid for more text after it; _IsLines."""
    end = yield from _elements(data, 0, None, name)
    _check_rest(data, end or 0, name)


def _check_rest(data: Any, end: int, name: str) -> None:
    """Check that nothing follows a file's first value. Errors: InputInvalid; _IsLines where it was the first line."""
    more, text = _next_text(data, end)
    if not text:
        return
    first, last = next(_lines(data, 0, None), (0, 0))
    if last <= more and first < end <= last:
        raise _IsLines
    said = text[:40].decode("utf-8", "backslashreplace")
    raise _broken(
        name, f"the file's first JSON value ends at byte {end:,}, and more text follows it at byte {more:,}: {said!r}",
        "write one array, or one row on each line",
    )  # fmt: skip


def _next_text(data: Any, start: int) -> tuple[int, bytes]:
    """Give where the next text that is not blank begins, and its beginning; empty at the end of the file."""
    data.seek(start)
    at = start
    while block := data.read(BLOCK):
        text = block.lstrip()
        if text:
            return at + len(block) - len(text), bytes(text)
        at += len(block)
    return at, b""


def _cut_value(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    """Take the whole file as one row; line by line where no single value fills it, each line then says what is wrong."""
    with open(file.path, "rb") as data:
        array = _begins(data)[:1] == b"["
        data.seek(0)
        begin, _text = _next_text(data, 3 if data.read(3) == _BOM else 0)
        end = _value_end(data)
        if end is None and array:
            raise _broken(file.name, f"the JSON array that begins the file is not closed ({file.size:,} bytes read)")
        if end is None or (not array and _next_text(data, end)[1]):
            raise _IsLines
        _check_rest(data, end, file.name)
    yield Piece(index, 0, 1, begin, end)


def _value_end(data: Any, stop: int | None = None) -> int | None:
    """Give where the brackets of a file's first value are closed, of what lies before `stop`; None: they are not."""
    depth = 0
    for sign, place in _marks(data, 0, stop):
        depth += 1 if sign in b"[{" else -1 if sign in b"]}" else 0
        if depth <= 0 and sign != b",":
            return place + 1
    return None


def _whole(data: Any, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
    yield start, data.seek(0, os.SEEK_END) if stop is None else stop


_MARK = re.compile(rb'[\[\]{}",]')
_STRING = re.compile(
    rb'(?:[^"\\]++|\\.)*+', re.DOTALL
)  # up to the quote that ends it, or a backslash that ends the block


def _marks(data: Any, start: int, stop: int | None) -> Iterator[tuple[bytes, int]]:
    """Give the brackets and commas of JSON text that stand outside strings, and where."""
    data.seek(start)
    at, quoted, escaped = start, False, False
    while stop is None or at < stop:
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at))
        if not block:
            break
        place = int(escaped)
        escaped = False
        while place < len(block):
            if not quoted:
                found = _MARK.search(block, place)
                if found is None:
                    break
                place, quoted = found.end(), found[0] == b'"'
                if not quoted:
                    yield found[0], at + found.start()
                continue
            end = _STRING.match(block, place)
            place = len(block) if end is None else end.end()
            if place < len(block):
                quoted, escaped = block[place] != 34, block[place] != 34
                place += 1
        at += len(block)


def _elements(data: Any, start: int, stop: int | None, name: str = "") -> Generator[tuple[int, int], None, int | None]:
    """Give begin and end of every element of a JSON array, from its bracket (or, with `stop`, of a stretch of elements);
    return where the array ends. Between two commas, or after the last, lies an empty element: its row says so."""
    depth, begin, several = (0, -1, False) if stop is None else (1, start, False)
    for sign, place in _marks(data, start, stop):
        if sign in b"[{":
            depth += 1
            begin = place + 1 if depth == 1 else begin
        elif sign in b"]}":
            depth -= 1
            if depth == 0:
                element = _trimmed(data, begin, place)
                if several or stop is not None or element[0] < element[1]:  # [ ] has no element
                    yield element
                return place + 1
        elif depth == 1:
            yield _trimmed(data, begin, place)
            begin, several = place + 1, True
    if stop is None:
        raise _broken(name, f"the JSON array that begins the file is not closed ({data.tell():,} bytes read)")
    yield _trimmed(data, begin, stop)
    return None


def _trimmed(data: Any, begin: int, end: int) -> tuple[int, int]:
    """Give an element without the white space before it; the space of long gaps stays, JSON allows it."""
    at = data.tell()
    data.seek(begin)
    head = data.read(min(end - begin, 4096))
    data.seek(at)
    return begin + len(head) - len(head.lstrip()), end


def _cut_csv(file: SourceFile, index: int, most: int) -> Iterator[Piece]:
    with open(file.path, "rb") as data:
        records = _records(data, 0, None)
        next(records, None)  # the header
        yield from _cut_rows(records, index, most)


# Outside quotes: what ends a record, or a quote that begins a cell. Inside: all up to the quote that ends them.
_PLAIN_CSV = re.compile(rb'[\r\n]|,"')
_QUOTED_CSV = re.compile(rb'(?:[^"]++|"")*+')


def _records(data: Any, start: int, stop: int | None) -> Iterator[tuple[int, int]]:
    """Give begin and end of every CSV record that is not empty, as Python's csv reads them: a quote opens at the start of
    a cell only, is doubled inside, and any other is a character like all; LF, CRLF and CR end a record. A quote that is
    never closed makes the rest of the file one record, which then says so. A record of any length takes a block of memory.
    """
    data.seek(start)
    at = begin = cell = start  # cell: where a quote would open one
    quoted, closed = False, -1  # closed: where a quoted cell ended; a quote right behind it is the second of two
    while stop is None or at < stop:
        block = data.read(BLOCK if stop is None else min(BLOCK, stop - at))
        if not block:
            break
        place = 0
        if at == 0 and block.startswith(_BOM):
            place = cell = 3
        while place < len(block):
            if quoted:
                end = _QUOTED_CSV.match(block, place)
                place = len(block) if end is None else end.end()
                if place < len(block):
                    quoted, closed, place = False, at + place, place + 1
            elif block[place] == 34 and at + place in (cell, closed + 1):
                quoted, place = True, place + 1
            else:
                found = _PLAIN_CSV.search(block, place)
                if found is None:
                    cell = at + len(block) if block.endswith(b",") else -1
                    break
                place = found.end()
                if found[0] == b',"':
                    quoted = True
                    continue
                if at + found.start() > begin:
                    yield begin, at + found.start()
                begin = cell = at + place
        at += len(block)
    if at > begin:
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
    "lines": _cut_lines, "array": _cut_array, "value": _cut_value, "csv": _cut_csv, "parquet": _cut_parquet,
    "arrow": _cut_arrow,
}  # fmt: skip


def find_row(file: SourceFile, row: int, offset: int | None = None) -> Piece | None:
    """Give the piece that holds one row of a file; at once where the byte at which it begins is known. None: no such row.

    Errors: InputInvalid for a file that cannot be cut.
    """
    ends: Any = {"lines": _lines, "array": _elements, "value": _whole, "csv": _records}.get(file.format)
    if ends is not None and offset is not None:
        with open(file.path, "rb") as data:
            begin, end = next(ends(data, offset, os.path.getsize(file.path)), (0, 0))
        return Piece(0, row, 1, begin, end, (row,)) if end else None
    for piece in _CUTS[file.format](file, 0, ROWS_PER_PART):
        if piece.first <= row < piece.first + piece.count:
            return replace(piece, chosen=(row,))
    return None


def _known_column(name: str, columns: Sequence[str]) -> None:
    if not columns:
        raise _broken(name, "the file has no column")
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if list(columns).count(column) > 1)
        raise _broken(name, f"the file has the column {twice!r} twice", "name each column once")


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
    "lines": _read_text(_lines, "json"), "array": _read_text(_elements, "json"), "value": _read_text(_whole, "json"),
    "csv": _read_text(_records, "csv"), "parquet": _read_parquet, "arrow": _read_arrow,
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
    remedy = remedy or f"give a file of {_NAMED}, a folder of them, or a folder that datasets saved"
    return InspectorError(ErrorKind.InputInvalid, message, stage="source", where={"option": "SOURCE"}, remedy=remedy)


def _broken(name: str, message: str, remedy: str = "") -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid, message, stage="source", where={"file": name},
        remedy=remedy or "the file is damaged, or has changed: fetch or write it again",
    )  # fmt: skip


def _unreadable(name: str, error: Exception) -> InspectorError:
    why = getattr(error, "strerror", None) or str(error)
    return InspectorError(
        ErrorKind.InputInvalid, f"cannot read {name}: {why}", stage="source", where={"file": name},
        remedy="check the file and its permissions",
    )  # fmt: skip
