"""How many rows have what: for exit codes of a CI run, and for one look in a terminal. Read part by part from the table.

The summary of a dataset is another thing (summary.py); this counts rows by name and nothing else.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from inspector.errors import ErrorKind, InspectorError
from inspector.scan.output import ROWS, read_manifest

OTHERS = ("refused", "control-from-content", "ids-differ", "failed-files")  # the last counts files
_OF_WINDOW = re.compile(r"(?:over|rejected)-([1-9][0-9]{0,17})")
COLUMNS = ("error_kind", "findings", "alarms", "windows", "control_from_content", "equal_ids")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A name that rows may have, and how many rows with it are too many."""

    name: str
    count: int

    @classmethod
    def read(cls, text: str, windows: Sequence[int] = ()) -> Threshold:
        """Read NAME:COUNT; without a count, one row is too many.

        Errors: OptionInvalid.

        >>> Threshold.read("forged-control-token:10")
        Threshold(name='forged-control-token', count=10)
        """
        name, _colon, number = text.partition(":")
        known = names(windows)
        window = _OF_WINDOW.fullmatch(name)
        if name not in known and window is not None:
            raise _bad(f"{name!r} is of a window that is not decided for", f"give --context-window {window[1]} with it")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0)
            raise _bad(f"rows are not counted by {name[:60]!r}", f"the nearest is {near[0]}")
        if number and not (number.isascii() and number.isdigit() and 0 < int(number) < 1 << 62):
            raise _bad(f"{number[:20]!r} is no number of rows", f"write --fail-on {name}:1")
        return cls(name, int(number or 1))


def names(windows: Sequence[int] = ()) -> tuple[str, ...]:
    """Give the names that rows, and failed files, are counted by: rules, mask alarms, what windows do, what has no rule."""
    from inspector.lint import LIVE
    from inspector.training.labels import AlarmKind

    alarms = (kind.value for kind in AlarmKind)
    cuts = (f"{what}-{window}" for window in windows for what in ("over", "rejected"))
    return (*(rule.id for rule in LIVE), *alarms, *cuts, *OTHERS)


def _bad(message: str, remedy: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, message, stage="options", where={"option": "--fail-on"}, remedy=remedy
    )


def counted(folder: str | Path, wanted: Sequence[Threshold] = ()) -> dict[str, Any]:
    """Count the rows of a scan's folder; give `scan-counts/1`."""
    manifest = read_manifest(folder) or {}
    rows, tallies = 0, {name: Counter[str]() for name in ("errors", "findings", "alarms", "windows", "others")}
    for path in sorted((Path(folder) / ROWS).glob("part-*.parquet")):
        table = parquet.read_table(path, columns=list(COLUMNS), use_threads=False)
        rows += table.num_rows
        tallies["errors"].update(kind for kind in table["error_kind"].to_pylist() if kind is not None)
        for name in ("findings", "alarms"):
            tallies[name].update(_keys(table[name]))
        tallies["windows"].update(_windows(table["windows"]))
        written = pc.sum(pc.greater(table["control_from_content"], 0)).as_py() or 0
        differ = pc.sum(pc.invert(table["equal_ids"])).as_py() or 0
        tallies["others"].update({"control-from-content": written, "ids-differ": differ})
    refused = sum(tallies["errors"].values())
    failed_files = manifest.get("failed_files", [])
    all_names: Counter[str] = Counter({"refused": refused, "failed-files": len(failed_files)})
    for name in ("findings", "alarms", "windows", "others"):
        all_names.update(tallies[name])
    return {
        "schema": "scan-counts/1",
        "rows": rows,
        "refused": refused,
        **{name: dict(tally.most_common()) for name, tally in tallies.items() if name != "others"},
        "control_from_content": tallies["others"]["control-from-content"],
        "ids_differ": tallies["others"]["ids-differ"],
        "failed_files": failed_files,
        "skipped_files": manifest.get("skipped_files", {"count": 0, "files": []}),
        "fail_on": [
            {"name": each.name, "count": each.count, "rows": all_names[each.name],
             "failed": all_names[each.name] >= each.count}
            for each in wanted
        ],
        "error": None,
    }  # fmt: skip


def _keys(column: pa.ChunkedArray) -> list[str]:
    """Give every key of a column of maps; a row has each at most once."""
    return [key for chunk in column.chunks for key in chunk.keys.to_pylist()]


def _windows(column: pa.ChunkedArray) -> list[str]:
    said = []
    for chunk in column.chunks:
        flat = chunk.flatten()
        sizes = flat.field("context_window").to_pylist()
        for what, held in (("over", pc.invert(flat.field("fits"))), ("rejected", flat.field("rejected"))):
            said += [f"{what}-{size}" for size, yes in zip(sizes, held.to_pylist()) if yes]
    return said
