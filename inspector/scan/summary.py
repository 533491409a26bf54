"""What a scan found, from the tables of its parts: `scan-summary/1`.

Every number is an exact count and names the first rows behind it by file and row. Parts are read one after the other,
column by column; two summaries of different rows add up. Nothing is rendered or tokenized here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from inspector.errors import ErrorKind, InspectorError
from inspector.scan.columns import ORIGINS, ROLES
from inspector.scan.output import MANIFEST, ROWS, read_manifest, write_bytes, write_json
from inspector.scan.tallies import Entry, Lengths, Tally, grouped, nice_edges

SCHEMA = "scan-summary/1"
SUMMARY = "summary.json"
LOGITS = "logits.json"  # beside the manifest, where rows were sent to a model
MOST_POINTS = 240  # of the curve of windows
_ROW_BITS = 40  # of a row's number; the file's is above
_SHORT = (50, 90, 99, 100)  # percentiles of a part of the length
SIDES = ("equal", "ids_differ", "bytes_differ", "only_ids_differ", "only_bytes_differ", "only_a_failed", "only_b_failed", "both_failed",
         "not_compared")  # fmt: skip
# Rules and alarms of template or tokenizer, whatever a row's text says: every row has them, or all in which that branch of the
# template ran (clock-in-prompt, control-literal-split).
OF_SIDE = frozenset((
    "no-generation-tag", "engine-extension", "namespace-underscore", "clock-in-prompt", "template-missing", "template-pairing",
    "control-literal-split", "special-name-missing", "bos-missing", "bos-added-again", "added-id-moved", "id-shared", "config-file-ignored",
    "key-twice", "file-truncates", "file-pads", "case-folded", "space-inserted", "pad_is_eos_masks_eos",
))  # fmt: skip
OF_SIDE_SAID = "of template or tokenizer, not of the row"
_BEFORE = pa.array(["source", "request"])  # stages before either side
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
ROLE_NAMES = (*ROLES, "other")
# What a window does to a row, each counted by itself.
EFFECTS = ("over", "rejected", "cut", "dropped", "trained_beyond")
COLUMNS = (
    "file", "row", "form", "last_role", "bytes", "tokens", *(f"tokens_{name}" for name in ORIGINS),
    *(f"role_{name}" for name in ROLE_NAMES), "scripts", "provenance", "assistant_from", "trained", "masked", "alarms",
    "findings", "control", "control_from_content", "control_crossing", "look_alike", "unknown_tokens",
    "uncovered_bytes", "windows", "steps", "steps_broken", "broken_line", "broken_path", "step_tokens",
    "reused_tokens", "steps_refused", "error_kind", "error_stage", "error_message", "b_tokens", "b_trained",
    "b_error_kind", "b_error_stage", "b_error_message", "equal_bytes", "equal_ids", "diff_reason", "delta_tokens",
)  # fmt: skip


class Summary:
    """The counts of some rows of a scan. `files`: its files as the manifest names them, in its order."""

    def __init__(self, files: Iterable[str], *, compares: bool = False) -> None:
        self.files = list(files)
        self.compares = compares
        self.rows, self.failed = 0, Entry()
        self.errors, self.b_errors = Tally(), Tally()  # (stage, kind, reason)
        self.forms, self.last_roles, self.notes = Tally(), Tally(), Tally()
        self.lengths = Lengths()
        self.shares: dict[tuple[str, str], tuple[Lengths, Entry]] = {}  # ("origin" | "role" | "script", name)
        self.text_bytes = 0
        self.findings, self.alarms = Tally(), Tally()
        self.trained, self.masked = 0, 0
        self.windows: dict[int, dict[str, Entry]] = {}
        self.broken: dict[int, Tally] = {}
        self.steps = dict.fromkeys(("steps", "broken", "refused", "tokens", "reused"), 0)
        self.step_rows, self.broken_steps = Tally(), Tally()
        self.compared = Tally()
        self.reasons = Tally()
        self.b_lengths, self.longer, self.shorter = Lengths(), Lengths(), Lengths()

    # --- counting ---------------------------------------------------------------------------------------------------

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch that has the columns of COLUMNS."""
        rows = self._places(batch)
        self.rows += len(rows)
        self._errors(batch, rows)
        self._lengths(batch, rows)
        self._notes(batch, rows)
        for name, tally in (("findings", self.findings), ("alarms", self.alarms)):
            names, times, of = _map_entries(batch[name])
            tally.add(names, rows[of], times)
        self.trained += _sum(batch["trained"])
        self.masked += _sum(batch["masked"])
        self._windows(batch["windows"], rows)
        self._steps(batch, rows)
        if self.compares:
            self._sides(batch, rows)

    def _places(self, batch: pa.RecordBatch) -> np.ndarray:
        numbers = np.asarray(batch["row"]).astype(np.int64)
        for name, at in grouped(batch["file"]):
            if name not in self.files:
                self.files.append(name)
            numbers[at] += self.files.index(name) << _ROW_BITS
        return numbers

    def _errors(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        read = ~_unread(batch)
        for prefix, tally in (("", self.errors), ("b_", self.b_errors)):
            for name, at in grouped(_joined(batch, prefix)):
                stage, kind, message = name.split("\0", 2)
                at = at[read[at]] if prefix else at
                if len(at):
                    tally.at((stage, kind, _reason(message))).add(rows[at])
        self.failed.add(rows[_is(batch["error_kind"])])

    def _lengths(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        tokens, there = _numbers(batch["tokens"])
        self.lengths.add(tokens[there], rows[there])
        self.text_bytes += _sum(pc.if_else(pc.is_valid(batch["tokens"]), batch["bytes"], None))
        for kind, column, names in (("origin", "tokens", ORIGINS), ("role", "role", ROLE_NAMES)):
            for name in names:
                numbers, _there = _numbers(batch[f"{column}_{name}"])
                self._share(kind, name, numbers, rows)
        names, numbers, of = _map_entries(batch["scripts"])
        for name, at in grouped(names):
            self._share("script", name, numbers[at], rows[of[at]])

    def _share(self, kind: str, name: str, numbers: np.ndarray, rows: np.ndarray) -> None:
        some = numbers > 0
        if some.any():
            lengths, entry = self.shares.setdefault((kind, name), (Lengths(), Entry()))
            lengths.add(numbers[some], rows[some])
            entry.add(rows[some], int(numbers[some].sum()))

    def _notes(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        self.forms.add(batch["form"], rows)
        self.last_roles.add(batch["last_role"], rows)
        for name in (
            "control",
            "control_from_content",
            "control_crossing",
            "look_alike",
            "unknown_tokens",
            "uncovered_bytes",
        ):
            numbers, _there = _numbers(batch[name])
            self.notes.at(name).add(rows[numbers > 0], int(numbers.sum()))
        self.notes.at("provenance_unknown").add(rows[_is(pc.equal(batch["provenance"], "unknown"), truth=True)])
        self.notes.at("nothing_trained").add(rows[_is(pc.equal(batch["trained"], 0), truth=True)])

    def _windows(self, column: pa.Array, rows: np.ndarray) -> None:
        of = rows[np.asarray(pc.list_parent_indices(column)).astype(np.int64)]
        values = pc.list_flatten(column)
        sizes = np.asarray(values.field("context_window"))
        numbers = {
            name: _numbers(values.field(name))[0]
            for name in ("cut_tokens", "dropped_tokens", "trained_beyond", "input_tokens")
        }
        cut, dropped = (_numbers(values.field(name))[0] > 0 for name in ("cut_units", "dropped_units"))
        over, rejected = ~_truth(values.field("fits")), _truth(values.field("rejected"))
        for size in np.unique(sizes).tolist():
            here, effects = sizes == size, self._window(size)
            for name, mask, times in (
                ("over", over, None),
                ("rejected", rejected, None),
                ("cut", cut & ~rejected, numbers["cut_tokens"]),
                ("dropped", dropped & ~rejected, numbers["dropped_tokens"]),
                ("trained_beyond", numbers["trained_beyond"] > 0, numbers["trained_beyond"]),
            ):
                at = here & mask
                effects[name].add(of[at], None if times is None else int(times[at].sum()))
            self._broken(size, values.filter(pa.array(here)), of[here])

    def _window(self, size: int) -> dict[str, Entry]:
        return self.windows.setdefault(size, {name: Entry() for name in EFFECTS})

    def _broken(self, size: int, values: pa.Array, rows: np.ndarray) -> None:
        lists, tally = values.field("broken"), self.broken.setdefault(size, Tally())
        tally.add(pc.list_flatten(lists), rows[np.asarray(pc.list_parent_indices(lists)).astype(np.int64)])
        tally.add(values.field("error_kind"), rows)

    def _steps(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        for name, column in (("steps", "steps"), ("broken", "steps_broken"), ("refused", "steps_refused"),
                             ("tokens", "step_tokens"), ("reused", "reused_tokens")):  # fmt: skip
            self.steps[name] += _sum(batch[column])
        for name, column in (("several", "step_tokens"), ("broken", "steps_broken"), ("refused", "steps_refused")):
            numbers, _there = _numbers(batch[column])
            self.step_rows.at(name).add(rows[numbers > 0], int(numbers.sum()))
        lines, paths = batch["broken_line"].cast(pa.string()), batch["broken_path"]
        named = pc.if_else(pc.is_valid(paths), pc.binary_join_element_wise("path", paths, "\0"),
                           pc.binary_join_element_wise("line", lines, "\0"))  # fmt: skip
        for name, at in grouped(named):
            kind, value = name.split("\0", 1)
            self.broken_steps.at((kind, value if kind == "line" else _reason(value))).add(rows[at])

    def _sides(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        failed_a, failed_b = _is(batch["error_kind"]), _is(batch["b_error_kind"])
        both, same_ids, same_bytes = ~failed_a & ~failed_b, _truth(batch["equal_ids"]), _truth(batch["equal_bytes"])
        # No side refused what could not be read, nor a row that was stopped before side B was asked.
        unread = _unread(batch) | (failed_a & ~failed_b & ~_is(batch["b_tokens"]))
        for name, mask in (
            ("equal", both & same_ids & same_bytes),
            ("ids_differ", both & ~same_ids),
            ("only_ids_differ", both & ~same_ids & same_bytes),
            ("bytes_differ", both & ~same_bytes & ~same_ids),
            ("only_bytes_differ", both & ~same_bytes & same_ids),
            ("only_a_failed", failed_a & ~failed_b & ~unread),
            ("only_b_failed", failed_b & ~failed_a),
            ("both_failed", failed_a & failed_b & ~unread),
            ("not_compared", unread),
        ):
            self.compared.at(name).add(rows[mask])
        self.reasons.add(batch["diff_reason"], rows)
        tokens, there = _numbers(batch["b_tokens"])
        self.b_lengths.add(tokens[there], rows[there])
        delta, known = _numbers(batch["delta_tokens"])
        self.longer.add(delta[known & (delta > 0)], rows[known & (delta > 0)])
        self.shorter.add(-delta[known & (delta < 0)], rows[known & (delta < 0)])

    def merge(self, other: Summary) -> None:
        """Take in the counts of other rows of the same scan.

        Errors: ValueError where the other names its files otherwise.
        """
        if self.files[: len(other.files)] != other.files[: len(self.files)]:
            raise ValueError("summaries add up only where they name the same files in the same order")
        self.files = max(self.files, other.files, key=len)
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(value, (Tally, Lengths, Entry)):
                mine.merge(value)
            elif name in ("rows", "trained", "masked", "text_bytes"):
                setattr(self, name, mine + value)
        self.steps = {name: number + other.steps[name] for name, number in self.steps.items()}
        for size, effects in other.windows.items():
            for name, entry in effects.items():
                self._window(size)[name].merge(entry)
        for size, tally in other.broken.items():
            self.broken.setdefault(size, Tally()).merge(tally)
        for key, (lengths, entry) in other.shares.items():
            mine_lengths, mine_entry = self.shares.setdefault(key, (Lengths(), Entry()))
            mine_lengths.merge(lengths)
            mine_entry.merge(entry)

    # --- the value --------------------------------------------------------------------------------------------------

    def to_dict(self, *, reserve: int = 0) -> dict[str, Any]:
        """Give `scan-summary/1` without `scan`. `reserve`: tokens of a window that are kept for the answer."""
        return {
            "schema": SCHEMA,
            "rows": {"total": self.rows, "measured": self.rows - self.failed.rows, "failed": self._entry(self.failed)},
            "errors": self._refused(self.errors),
            "forms": self._named(self.forms, "form"),
            "last_roles": self._named(self.last_roles, "role"),
            "lengths": self._distribution(self.lengths),
            "text_bytes": self.text_bytes,
            **{f"by_{kind}": self._parts(kind) for kind in ("origin", "role", "script")},
            "windows": self._curve(reserve),
            "findings": [found for found in self._found() if found["rule"] not in OF_SIDE],
            "side_findings": [found for found in self._found() if found["rule"] in OF_SIDE],
            "training": {
                "trained": self.trained, "masked": self.masked,
                "nothing_trained": self._entry(self.notes.at("nothing_trained")),
                "alarms": [
                    {**alarm, "of_side": alarm["alarm"] in OF_SIDE} for alarm in self._named(self.alarms, "alarm")
                ],
            },
            "control": {
                name: self._entry(self.notes.at(column))
                for name, column in (("all", "control"), ("from_content", "control_from_content"),
                                     ("crossing", "control_crossing"), ("look_alike", "look_alike"))
            },
            "losses": {name: self._entry(self.notes.at(name)) for name in ("unknown_tokens", "uncovered_bytes", "provenance_unknown")},
            "prefix": self._prefix(),
            "compare": self._comparison() if self.compares else None,
        }  # fmt: skip

    def _row(self, number: int) -> dict[str, Any]:
        return {"file": self.files[number >> _ROW_BITS], "row": number & ((1 << _ROW_BITS) - 1)}

    def _entry(self, entry: Entry) -> dict[str, Any]:
        return {"rows": entry.rows, "times": entry.times, "examples": [self._row(number) for number in entry.examples]}

    def _named(self, tally: Tally, name: str) -> list[dict[str, Any]]:
        return [{name: key, **self._entry(entry)} for key, entry in tally.ranked()]

    def _refused(self, tally: Tally) -> list[dict[str, Any]]:
        groups: dict[tuple[str, str], tuple[Entry, Tally]] = {}
        for key, entry in tally.entries.items():
            stage, kind, reason = key if isinstance(key, tuple) else ("", key, key)
            whole, reasons = groups.setdefault((stage, kind), (Entry(), Tally()))
            whole.merge(entry)
            reasons.at(reason).merge(entry)
        ranked = sorted(groups.items(), key=lambda each: (-each[1][0].rows, each[0]))
        return [
            {"stage": stage, "kind": kind, **self._entry(whole), "reasons": self._named(reasons, "reason")}
            for (stage, kind), (whole, reasons) in ranked
        ]

    def _distribution(self, lengths: Lengths) -> dict[str, Any]:
        low, high = lengths.span
        edges = nice_edges(low, high) if lengths.rows else []
        bins = [(a, b, *lengths.between(a, b)) for a, b in itertools.pairwise(edges)]
        return {
            "rows": lengths.rows,
            "tokens": lengths.total,
            "mean": round(lengths.total / lengths.rows, 2) if lengths.rows else None,
            "percentiles": self._percentiles(lengths),
            "histogram": [
                {"from": a, "to": b, "rows": rows, "examples": [self._row(number) for number in first]}
                for a, b, rows, first in bins
            ],
        }

    def _percentiles(self, lengths: Lengths, *wanted: float) -> list[dict[str, Any]]:
        found = lengths.percentiles(wanted) if wanted else lengths.percentiles()
        return [{"p": p, "tokens": tokens, "examples": [self._row(number)]} for p, tokens, number in found]

    def _parts(self, kind: str) -> list[dict[str, Any]]:
        found = [(name, *value) for (of, name), value in self.shares.items() if of == kind]
        total = self.lengths.total
        return [
            {kind: name, "tokens": entry.times, "share": round(entry.times / total, 6) if total else 0.0,
             **{key: value for key, value in self._entry(entry).items() if key != "times"},
             "percentiles": self._percentiles(lengths, *_SHORT)}
            for name, lengths, entry in sorted(found, key=lambda each: (-each[2].times, each[0]))
        ]  # fmt: skip

    def _curve(self, reserve: int) -> dict[str, Any]:
        """Give what every window leaves out, from the lengths alone, and what the scan's own windows did."""
        sizes = sorted({*(length + reserve for length in self.lengths.places(MOST_POINTS)), *self.windows})
        over = self.lengths.over(size - reserve for size in sizes)
        return {
            "reserve": reserve,
            "curve": [{"window": size, "rows": rows, "tokens": tokens} for size, (rows, tokens) in zip(sizes, over)],
            "given": [
                {"window": size, **{name: self._entry(effects[name]) for name in EFFECTS},
                 "broken": self._named(self.broken[size], "what")}
                for size, effects in sorted(self.windows.items())
            ],
        }  # fmt: skip

    def _found(self) -> list[dict[str, Any]]:
        from inspector.lint import RULES

        known = {rule.id: rule for rule in RULES}
        rows = self._named(self.findings, "rule")
        for row in rows:
            rule = known.get(row["rule"])
            row["severity"], row["title"] = (str(rule.severity), rule.title) if rule else (None, None)
        return rows

    def _prefix(self) -> dict[str, Any]:
        places = [{kind: value, **self._entry(entry)} for (kind, value), entry in self._pairs(self.broken_steps)]
        tokens = self.steps["tokens"]
        return {
            **self.steps,
            "reused_share": round(self.steps["reused"] / tokens, 6) if tokens else None,
            "rows": {name: self._entry(self.step_rows.at(name)) for name in ("several", "broken", "refused")},
            "broken_by": places,
        }

    def _pairs(self, tally: Tally) -> list[tuple[tuple[str, str], Entry]]:
        return [(key if isinstance(key, tuple) else ("path", key), entry) for key, entry in tally.ranked()]

    def _comparison(self) -> dict[str, Any]:
        longer, shorter = self.longer, self.shorter
        return {
            **{name: self._entry(self.compared.at(name)) for name in SIDES},
            "reasons": self._named(self.reasons, "reason_code"),
            "errors": self._refused(self.b_errors),
            "lengths": self._distribution(self.b_lengths),
            "delta": longer.total - shorter.total,
            "longer": self._distribution(longer),
            "shorter": self._distribution(shorter),
        }


# --- a folder --------------------------------------------------------------------------------------------------------


def summarise(folder: str | Path, tell: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Give `scan-summary/1` of a scan's folder, of the parts that are there; `tell(parts read, of)`.

    Errors: OptionInvalid for a folder without a scan, or a part that cannot be read.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise _no_scan(f"there is no {MANIFEST} in the folder", "name the folder that `scan --out` wrote")
    plan = manifest["plan"]
    summary = Summary([file["file"] for file in manifest["source"]], compares=len(plan["sides"]) > 1)
    paths = sorted((Path(folder) / ROWS).glob("part-*.parquet"))
    for k, path in enumerate(paths):
        try:
            with parquet.ParquetFile(path) as opened:
                for batch in opened.iter_batches(columns=list(COLUMNS), use_threads=False):
                    summary.add(batch)
        except (pa.ArrowException, OSError, KeyError, TypeError) as error:
            why = " ".join(str(error).split())[:200]
            raise _no_scan(
                f"{path.name} cannot be read: {why}", "remove it and scan again: the other parts are kept"
            ) from None
        if tell is not None:
            tell(k + 1, len(paths))
    value = summary.to_dict(reserve=plan["sides"][0]["options"]["max_new_tokens"])
    return {
        "schema": SCHEMA,
        "scan": _facts(Path(folder), manifest, len(paths)),
        **value,
        "logits": _logits(Path(folder)),
    }


def current_summary(folder: str | Path, tell: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Give the summary that lies in the folder if it is of the parts that are there now, else make it.

    Errors: as of `summarise`.
    """
    path = Path(folder) / SUMMARY
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        value = json.loads(path.read_bytes())
        parts = sorted((Path(folder) / ROWS).glob("part-*.parquet"))
        newest = max((part.stat().st_mtime_ns for part in [*parts, *_beside(Path(folder))]), default=0)
        same = value["scan"]["id"] == scan_id(folder) and value["scan"]["parts"]["there"] == len(parts)
        whole = "skipped_files" in value["scan"]  # else it was written by an older version
        if value["schema"] == SCHEMA and whole and same and path.stat().st_mtime_ns >= newest:
            return value
    return summarise(folder, tell)


def write_summary(folder: str | Path, value: dict[str, Any], page: str | None = None) -> tuple[Path, Path]:
    """Write `summary.json` and `report.html` into a scan's folder; give both. Errors: CacheFull, InputInvalid."""
    from inspector.scan.report import PAGE, REPORT, report

    paths = Path(folder) / REPORT, Path(folder) / SUMMARY
    write_bytes(paths[0], report(value, page=page or PAGE))
    write_json(paths[1], value)
    return paths[1], paths[0]


def _beside(folder: Path) -> list[Path]:
    return [path for path in (folder / LOGITS,) if path.is_file()]


def scan_id(folder: str | Path) -> str:
    """Name a scan by its manifest: the same rows of the same files under the same plan have the same id."""
    return hashlib.sha256((Path(folder) / MANIFEST).read_bytes()).hexdigest()[:16]


def _facts(folder: Path, manifest: dict[str, Any], parts: int) -> dict[str, Any]:
    plan = manifest["plan"]
    return {
        "id": scan_id(folder), "name": folder.resolve().name, "complete": parts == manifest["parts"],
        "parts": {"there": parts, "of": manifest["parts"]}, "rows": manifest["rows"],
        "source": manifest["source"], "failed_files": manifest["failed_files"],
        "skipped_files": manifest.get("skipped_files", {"count": 0, "files": []}),
        **{name: plan[name] for name in ("sides", "windows", "column", "label_mode", "versions")},
    }  # fmt: skip


def _logits(folder: Path) -> dict[str, Any] | None:
    path = folder / LOGITS
    return json.loads(path.read_bytes()) if path.is_file() else None


def _no_scan(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="source", where={"option": "FOLDER"}, remedy=remedy)


# --- columns as arrays ----------------------------------------------------------------------------------------------


def _numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Give a column of numbers with 0 for null, and where it has one."""
    there = np.asarray(column.is_valid())
    return np.asarray(column.fill_null(0)).astype(np.int64), there


def _sum(column: pa.Array) -> int:
    return int(pc.sum(column).as_py() or 0)


def _truth(column: pa.Array) -> np.ndarray:
    return np.asarray(column.fill_null(False)).astype(bool)


def _is(column: pa.Array, *, truth: bool = False) -> np.ndarray:
    """Say where a column has a value, or with `truth` where its value is true."""
    return _truth(column) if truth else np.asarray(column.is_valid())


def _map_entries(column: pa.MapArray) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Give keys, numbers and the row's place of every entry of a column of maps."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    keys, items = column.keys, column.items
    start, end = offsets[0], offsets[-1]
    of = np.repeat(np.arange(len(column)), np.diff(offsets))
    return keys.slice(start, end - start), np.asarray(items.slice(start, end - start)).astype(np.int64), of


def _unread(batch: pa.RecordBatch) -> np.ndarray:
    """Say which rows could not be read, so that both sides say the same error."""
    failed = _is(batch["error_kind"]) & _is(batch["b_error_kind"])
    return failed & _is(pc.is_in(batch["error_stage"], _BEFORE), truth=True)


def _joined(batch: pa.RecordBatch, prefix: str) -> pa.Array:
    kind = batch[f"{prefix}error_kind"]
    stage, message = (pc.fill_null(batch[f"{prefix}error_{name}"], "") for name in ("stage", "message"))
    return pc.binary_join_element_wise(stage, kind, message, "\0")


def _reason(message: str) -> str:
    """Give a message without its numbers, so that rows stopped alike are counted together.

    >>> _reason("messages[3]: 12,040 tokens")
    'messages[#]: # tokens'
    """
    return _NUMBER.sub("#", message[:400])
