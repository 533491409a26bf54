"""The folder of a scan: `manifest.json`, and `rows/part-NNNNN.parquet`, each written whole or not at all.

A part that is there is done: a scan that stopped goes on with the others. The folder holds one plan over one source and
refuses any other. Nothing is measured here, and nothing is deleted but files of ours that were never finished.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from inspector.errors import ErrorKind, InspectorError
from inspector.scan.plan import SCHEMA_VERSION, ScanPlan
from inspector.scan.source import Part, Source

MANIFEST = "manifest.json"
ROWS = "rows"
_PLAN, _PART = b"inspector.plan", b"inspector.part"


@dataclass(frozen=True, slots=True)
class Output:
    """A folder that is open for one plan over one source."""

    folder: Path
    plan_digest: str
    source: Source

    def path_of(self, part: Part) -> Path:
        """Give where a part's table lies."""
        return self.folder / ROWS / f"part-{part.index:05d}.parquet"

    def pending(self) -> tuple[Part, ...]:
        """Give the parts that are not there yet, in order.

        Errors: OptionInvalid for a part that is of another plan or of other rows.
        """
        return tuple(part for part in self.source.parts if not self._is_done(part))

    def write(self, part: Part, table: pa.Table) -> None:
        """Write a part whole: under another name first, which no reader looks at.

        Errors: CacheFull for a full disk; InputInvalid for a folder that cannot be written.
        """
        if table.num_rows != part.rows:
            raise ValueError(f"part {part.index} has {table.num_rows} rows of {part.rows}")
        told = {_PLAN: self.plan_digest.encode(), _PART: self._told(part)}
        stamped = table.replace_schema_metadata({**(table.schema.metadata or {}), **told})
        path = self.path_of(part)
        with _disk_errors(path), _replacing(path) as unfinished:
            parquet.write_table(stamped, unfinished, compression="zstd", row_group_size=max(1, table.num_rows))

    def _told(self, part: Part) -> bytes:
        return json.dumps(part.to_dict(self.source.files), sort_keys=True, ensure_ascii=False).encode()

    def _is_done(self, part: Part) -> bool:
        path = self.path_of(part)
        if not path.is_file():
            return False
        try:
            with parquet.ParquetFile(path) as opened:
                known = opened.schema_arrow.metadata or {}
        except (pa.ArrowException, OSError) as error:
            raise _other(path.name, f"it cannot be read ({' '.join(str(error).split())[:200]})") from None
        if known.get(_PLAN) != self.plan_digest.encode() or known.get(_PART) != self._told(part):
            raise _other(path.name, "it holds rows of another plan")
        return True


def open_output(folder: str | Path, plan: ScanPlan, source: Source) -> Output:
    """Open a folder: make it, or go on where a scan of the same plan and source stopped.

    Errors: OptionInvalid for a folder of another scan, or one that holds other things; CacheFull.
    """
    path = Path(folder)
    known = read_manifest(path)
    wanted = json.loads(json.dumps(_manifest(plan, source)))  # as it is read back: no tuples
    if known is not None:
        _check_same(known, wanted)
    elif path.is_dir() and any(path.iterdir()):
        raise _other(str(folder), "it holds files and no scan", "give a new or empty folder")
    else:
        with _disk_errors(path):
            (path / ROWS).mkdir(parents=True, exist_ok=True)
        write_json(path / MANIFEST, wanted)
    with _disk_errors(path):
        (path / ROWS).mkdir(exist_ok=True)
        for left in (path / ROWS).glob(".unfinished-*"):
            left.unlink(missing_ok=True)
    return Output(path, wanted["plan_digest"], source)


def read_manifest(folder: str | Path) -> dict[str, Any] | None:
    """Read the manifest of a scan; None where there is none. Errors: OptionInvalid for one that is damaged."""
    path = Path(folder) / MANIFEST
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA_VERSION:
        raise _other(MANIFEST, "it is no manifest of a scan")
    return value


def read_table(folder: str | Path, columns: list[str] | None = None) -> pa.Table:
    """Read the rows of all parts that are there, in order."""
    paths = sorted((Path(folder) / ROWS).glob("part-*.parquet"))
    return pa.concat_tables([parquet.read_table(path, columns=columns, use_threads=False) for path in paths])


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whole or not at all. Errors: CacheFull, InputInvalid."""
    write_bytes(path, json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. Errors: CacheFull, InputInvalid."""
    with _disk_errors(path), _replacing(path) as unfinished:
        Path(unfinished).write_bytes(data)


def _manifest(plan: ScanPlan, source: Source) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "plan": plan.to_dict(),
        "plan_digest": plan.digest(),
        "root": source.root,
        "refs": [[side.options.tokenizer, side.options.template] for side in plan.sides],  # as they were given here
        "source": [file.to_dict() for file in source.files],
        "failed_files": [file.to_dict() for file in source.failed],
        "skipped_files": source.skipped_files(),
        "rows": source.rows,
        "parts": len(source.parts),
    }


def _check_same(known: dict[str, Any], wanted: dict[str, Any]) -> None:
    if known.get("plan_digest") != wanted["plan_digest"]:
        a, b = known.get("plan") or {}, wanted["plan"]
        names = [name for name in b if a.get(name) != b[name]]
        several = len(names) > 1 or bool(names and names[0].endswith("s"))
        raise _other(
            "--out", f"it holds a scan with {'other' if several else 'another'} {' and '.join(names[:4]) or 'plan'}"
        )
    for name, what in (("source", "files"), ("failed_files", "files"), ("rows", "rows"), ("parts", "parts")):
        if known.get(name) != wanted[name]:
            raise _other("--out", f"it holds a scan of other {what}: the source has changed since")


def _other(place: str, why: str, remedy: str = "") -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, f"the scan cannot go on in this folder: {why}", stage="options",
        where={"option": "--out", "file": place} if place != "--out" else {"option": "--out"},
        remedy=remedy or "give another --out, or the same options and source as before",
    )  # fmt: skip


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    unfinished = path.with_name(f".unfinished-{os.getpid()}-{path.name}")
    try:
        yield unfinished
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        if full:
            raise InspectorError(
                ErrorKind.CacheFull, f"the disk is full: {path.name} could not be written", stage="source",
                where={"option": "--out"}, remedy="free space and give the same command again: it goes on from there",
            ) from None  # fmt: skip
        raise InspectorError(
            ErrorKind.InputInvalid, f"{path.name} cannot be written: {error.strerror or error}", stage="source",
            where={"option": "--out"}, remedy="check the folder and its permissions",
        ) from None  # fmt: skip
