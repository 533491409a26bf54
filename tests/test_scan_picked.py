"""One row of a scan, read again from every format: the row that was scanned, or a line that says why not."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from inspector.errors import InspectorError
from inspector.scan.engine import run_part
from inspector.scan.output import open_output
from inspector.scan.picked import MOST_KNOWN, folder_of, known_scans, pick, picked_row, remember_scan
from inspector.scan.plan import ScanPlan
from inspector.scan.rows import measured
from inspector.scan.source import open_source
from tests.test_scan import plan

ROWS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": f'row {k}, "quoted"\n再加 九'}, {"role": "assistant", "content": "no" * k}]
    for k in range(7)
]


def as_lines(path: Path) -> None:
    path.write_text("\n\n".join(json.dumps({"messages": row}) for row in ROWS) + "\n", "utf-8")


def as_array(path: Path) -> None:
    path.write_text(json.dumps([{"messages": row} for row in ROWS], indent=1), "utf-8")


def as_array_lines(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")


def as_csv(path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["messages"], *([json.dumps(row)] for row in ROWS)])


def as_parquet(path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist([{"messages": row} for row in ROWS]), path, row_group_size=3)


def as_arrow(path: Path) -> None:
    whole = pa.Table.from_pylist([{"messages": row} for row in ROWS])
    with pa.ipc.new_stream(str(path), whole.schema) as writer:
        writer.write_table(whole, max_chunksize=2)


def as_packed_lines(path: Path) -> None:
    as_lines(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


FORMS = {
    "a.jsonl": as_lines,
    "a.jsonl.gz": as_packed_lines,
    "a.json": as_array,
    "b.json": as_array_lines,
    "a.csv": as_csv,
    "a.parquet": as_parquet,
    "a.arrow": as_arrow,
}


def scanned(file: Path, chosen: ScanPlan, *, written: bool) -> Path:
    source = open_source([file], rows_per_part=4)
    folder = file.parent / "scan"
    output = open_output(folder, chosen, source)
    for part in source.parts if written else ():
        output.write(part, run_part(chosen, source, part, measured))
    return folder


def row_of(folder: Path, name: str, row: int) -> dict[str, Any]:
    return json.loads(picked_row(pick(folder, name, row).payload()))


@pytest.mark.parametrize("name", FORMS)
def test_every_row_of_every_format_is_the_row_that_was_scanned(name: str, tmp_path: Path) -> None:
    FORMS[name](tmp_path / name)
    for written in (False, True):  # without the table, rows are counted; with it, the byte is known
        folder = scanned(tmp_path / name, plan(rows_per_part=4), written=written)
        for number, row in enumerate(ROWS):
            found = row_of(folder, name, number)
            assert json.loads(found["fields"]["messages"]) == row, (name, number)
            assert json.loads(found["request"])["messages"] == row
    assert pick(folder, name, 0).options().tokenizer == "smollm2"


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    as_lines(tmp_path / "a.jsonl")
    folder = scanned(tmp_path / "a.jsonl", plan(rows_per_part=4), written=True)
    for name, row, why in (("../a.jsonl", 0, "has no file"), ("a.jsonl", 7, "no row 7"), ("a.jsonl", -1, "no row -1")):
        with pytest.raises(InspectorError, match=why):
            pick(folder, name, row)
    with pytest.raises(InspectorError, match=r"there is no manifest\.json"):
        pick(tmp_path, "a.jsonl", 0)
    data = (tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "a.jsonl").write_bytes(data.replace(b"row 3", b"row 8"))
    with pytest.raises(InspectorError, match=r"a\.jsonl has changed since it was scanned"):
        pick(folder, "a.jsonl", 3)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(InspectorError, match="no longer where it was scanned"):
        pick(folder, "a.jsonl", 3)


def test_a_scan_is_known_by_its_id_where_it_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InspectorError, match="has not seen the scan"):
        folder_of("0123456789abcdef")
    for number in range(MOST_KNOWN + 3):
        (tmp_path / f"scan{number}").mkdir()
        (tmp_path / f"scan{number}" / "manifest.json").write_text("{}")
        remember_scan(tmp_path / f"scan{number}", f"{number:016x}")
        os.utime(tmp_path / "cache" / "scans" / f"{number:016x}.json", (number, number))
    assert folder_of(f"{MOST_KNOWN:016x}") == tmp_path / f"scan{MOST_KNOWN}"
    assert len(known_scans()) <= MOST_KNOWN and known_scans()[0]["id"] == f"{MOST_KNOWN + 2:016x}"
    with pytest.raises(InspectorError, match="there is no folder"):
        folder_of("../no-such-folder")
