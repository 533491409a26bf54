"""One row of a scan, read again: by the scan's folder, the file as its manifest names it, and the row's number.

Only files that the manifest names are read, and only while they are the files that were scanned. The row is parsed in a
child (`picked_row`); the folder may be named by the scan's id, where this machine has seen it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.job import Options, make_options
from inspector.scan import packed
from inspector.scan.output import MANIFEST, ROWS, read_manifest
from inspector.scan.plan import ScanPlan
from inspector.scan.source import Part, RowBatch, Source, SourceFile, find_row, fingerprint, is_packed, read_part
from inspector.sources.cache import cache_dir, workspace

MOST_UNPACKED = 2  # files that stay unpacked for the next row
MOST_KNOWN = 50  # scans that are remembered
_ID = 16  # hexadecimal digits of a scan's id


@dataclass(frozen=True, slots=True)
class Picked:
    """A row as the scan read it, and what the scan did with every row: its manifest's plan."""

    batch: RowBatch
    plan: dict[str, Any]
    refs: tuple[tuple[str, str | None], ...]  # of each side: tokenizer, template (None: the tokenizer's own)

    def options(self, side: int = 0) -> Options:
        """Give the options that the scan inspected a row with; without a window."""
        tokenizer, template = self.refs[side]
        return make_options(**{**self.plan["sides"][side]["options"], "tokenizer": tokenizer, "template": template})

    def payload(self) -> bytes:
        """Give what the job `scan_row` is called with."""
        plan = ScanPlan(sides=(), column=self.plan["column"], tools_column=self.plan["tools_column"])
        return pickle.dumps((self.batch, plan))


def pick(folder: str | Path, file: str, row: int) -> Picked:
    """Read one row of a scan.

    Errors: OptionInvalid for no scan, no such file or row, or a file that has changed; InputInvalid for one that
    cannot be read.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise _bad(f"there is no {MANIFEST} in the folder", "name the folder that `scan --out` wrote")
    entry = next((entry for entry in manifest["source"] if entry["file"] == file), None)
    if entry is None:
        named = ", ".join(entry["file"] for entry in manifest["source"][:8])
        raise _bad(f"the scan has no file {file!r}", f"one of {named}")
    path = os.path.join(manifest["root"], file)
    _check_unchanged(path, entry)
    known = SourceFile(file, path, entry["format"], entry["bytes"], entry["fingerprint"])
    offset, plan = _offset(Path(folder), file, row), manifest["plan"]
    columns = [name for name in (plan.get("column"), plan.get("tools_column")) if name is not None]
    if is_packed(file):
        with packed.held(path, MOST_UNPACKED) as text:
            batch = _read_row(replace(known, path=text.path, packed=path), row, offset, columns)
    else:
        batch = _read_row(known, row, offset, columns)
    return Picked(batch, plan, tuple((tokenizer, template) for tokenizer, template in manifest["refs"]))


def _read_row(file: SourceFile, row: int, offset: int | None, columns: Sequence[str]) -> RowBatch:
    piece = find_row(file, row, offset)
    if piece is None:
        raise _bad(f"{file.name} has no row {row:,}", "rows are numbered from 0")
    source = Source("", (file,), (), (Part(0, (piece,)),))
    batch = next(iter(read_part(source, source.parts[0], columns)))
    if batch.kind == "unreadable":
        raise InspectorError.from_dict(batch.error or {})
    return batch


def _check_unchanged(path: str, entry: dict[str, Any]) -> None:
    try:
        same = os.path.getsize(path) == entry["bytes"] and fingerprint(path) == entry["fingerprint"]
    except OSError as error:
        raise _bad(
            f"{entry['file']} is no longer where it was scanned: {error.strerror}", "put it back, or scan it again"
        ) from None
    if not same:
        raise _bad(f"{entry['file']} has changed since it was scanned", "scan it again: its rows are others now")


def _offset(folder: Path, file: str, row: int) -> int | None:
    """Give the byte at which a row begins, as the scan's table has it; None where it has none."""
    import pyarrow.parquet as parquet

    for path in sorted((folder / ROWS).glob("part-*.parquet")):
        with parquet.ParquetFile(path) as opened:
            held = json.loads((opened.schema_arrow.metadata or {}).get(b"inspector.part", b"{}")).get("held", ())
            if not any(name == file and first <= row < last for name, first, last in held):
                continue
            table = opened.read(columns=["file", "row", "offset"], use_threads=False)
        for name, number, offset in zip(*(column.to_pylist() for column in table.columns)):
            if name == file and number == row:
                return offset
    return None


def picked_row(payload: bytes) -> bytes:
    """Give a row, in a child: `{form, fields: {messages, tools, documents, arguments}, request}`, each JSON text, or `{error}`."""
    from inspector.scan.requests import request_of, row_texts

    batch, plan = pickle.loads(payload)
    try:
        (text,) = row_texts(batch)
        if isinstance(text, InspectorError):
            raise text
        form, request = request_of(text, plan)
        answer = {"form": form, "fields": _fields(request), "request": request.decode("utf-8", "surrogatepass")}
    except InspectorError as error:
        answer = {"error": error.to_dict()}
    except UnicodeDecodeError as error:
        bad = InspectorError(ErrorKind.InputInvalid, f"the row is no UTF-8: byte {error.start}", stage="request")
        answer = {"error": bad.to_dict()}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")


def request_of_row(picked: Picked) -> bytes:
    """Give a picked row as a request, parsed in a child. Errors: what is wrong with the row."""
    from inspector import service

    answer = json.loads(service.sandbox().call("scan_row", picked.payload()))
    if answer.get("error"):
        raise InspectorError.from_dict(answer["error"])
    return answer["request"].encode("utf-8", "surrogatepass")


def _fields(request: bytes) -> dict[str, str]:
    """Give the texts of the page's four editors; a request with other keys stays whole in the first."""
    from inspector.jsontext import loads
    from inspector.request import dump_request

    keys = {"messages": "messages", "tools": "tools", "documents": "documents", "arguments": "chat_template_kwargs"}
    try:
        value = loads(request.decode("utf-8"), root="request")
    except InspectorError:  # the page says what is wrong, and where
        return {**dict.fromkeys(keys, ""), "messages": request.decode("utf-8", "replace")}
    value = {"messages": value} if isinstance(value, list) else value
    if not isinstance(value, dict) or set(value) - set(keys.values()):
        return {**dict.fromkeys(keys, ""), "messages": dump_request(value, 2)}
    return {field: "" if value.get(key) is None else dump_request(value[key], 2) for field, key in keys.items()}


# --- folders that this machine has seen ------------------------------------------------------------------------------


def remember_scan(folder: str | Path, scan_id: str) -> None:
    """Note where a scan lies, so that a link can name it without its place. What cannot be noted is not."""
    place = cache_dir() / "scans"
    with contextlib.suppress(OSError, InspectorError), workspace() as drafts:
        draft = drafts / "scan.json"
        draft.write_text(json.dumps({"folder": os.path.abspath(folder)}), "utf-8")
        place.mkdir(parents=True, exist_ok=True)
        os.replace(draft, place / f"{scan_id}.json")
        for old in _newest(place)[MOST_KNOWN:]:
            old.unlink(missing_ok=True)


def known_scans() -> list[dict[str, str]]:
    """List the scans that were seen and are still there, newest first: `{id, folder}`."""
    found = []
    for path in _newest(cache_dir() / "scans"):
        folder = _noted(path)
        if folder is not None and (Path(folder) / MANIFEST).is_file():
            found.append({"id": path.stem, "folder": folder})
    return found


def folder_of(name: str) -> Path:
    """Give the folder of a scan that is named by its place or by its id.

    Errors: OptionInvalid.
    """
    if Path(name).is_dir():
        return Path(name)
    if len(name) == _ID and all(c in "0123456789abcdef" for c in name):
        folder = _noted(cache_dir() / "scans" / f"{name}.json")
        if folder is not None and Path(folder).is_dir():
            return Path(folder)
        raise _bad(f"this machine has not seen the scan {name}", "name its folder")
    raise _bad(f"there is no folder {name[:200]!r}", "name the folder that `scan --out` wrote")


def _newest(place: Path) -> list[Path]:
    def when(path: Path) -> float:
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
        return 0.0

    listed: Iterable[Path] = place.glob("*.json") if place.is_dir() else ()
    return sorted(listed, key=when, reverse=True)


def _noted(path: Path) -> str | None:
    try:
        folder = json.loads(path.read_text("utf-8")).get("folder")
    except (OSError, ValueError, AttributeError):
        return None
    return folder if isinstance(folder, str) else None


def _bad(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="source", where={"option": "FOLDER"}, remedy=remedy)
