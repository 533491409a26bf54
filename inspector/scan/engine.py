"""Work on one part: read its rows, have children measure them, and give its table. What every engine calls.

A hostile row ends in its own error row. When a batch meets a limit or kills its child, its rows are sent one by one
until the row is found that does it again alone (twice, where its child died), and the rest go on together: a batch is answered after a few seconds
as far as it got, so a limit is always the fault of one row, and halving would only run into it once more for each half.
What a child answers is checked against the schema: it is not to be trusted.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from inspector.errors import ErrorKind, InspectorError
from inspector.limits import Limits, in_force
from inspector.sandbox import PRELOAD, CallCancelled, Sandbox
from inspector.scan.columns import SCHEMA
from inspector.scan.plan import ScanPlan
from inspector.scan.rows import BATCH_SECONDS, error_columns, place_row, record_batch
from inspector.scan.source import Part, RowBatch, Source, read_part

Measure = Callable[[ScanPlan, RowBatch], bytes]  # in a child: an Arrow IPC stream of the first rows, at least one
Tell = Callable[[int, int], None]  # so many more rows are done, so many of them with an error

SCAN_PRELOAD = (*PRELOAD, "inspector.scan.rows", "inspector.training.runs")


def scan_sandbox(plan: ScanPlan, workers: int = 1, *, own_files: bool = False) -> Sandbox:
    """Start the sandbox of a scan: children that measure rows, within the limits of one row. `own_files`: the plan may
    name a tokenizer's files outside the cache."""
    return Sandbox.start(scan_limits(plan, workers), preload=SCAN_PRELOAD, own_files=own_files)


def scan_limits(plan: ScanPlan, workers: int = 1) -> Limits:
    """Give the limits of one call: those in force, but for what a row may use. A batch is answered in its own seconds."""
    seconds = plan.row_seconds + BATCH_SECONDS
    return replace(in_force(), cpu_s=seconds, wall_s=4 * seconds, memory_mb=plan.row_memory_mb, children=workers + 1)


def in_sandbox(sandbox: Sandbox, session: str, cancel: Any = None) -> Measure:
    """Give what measures a batch in the session's child."""

    def measure(plan: ScanPlan, batch: RowBatch) -> bytes:
        return sandbox.call("scan_rows", pickle.dumps((plan, batch)), session=session, cancel=cancel)

    return measure


def run_part(plan: ScanPlan, source: Source, part: Part, measure: Measure, tell: Tell | None = None) -> pa.Table:
    """Measure every row of a part; give its table, rows in order, one chunk a column.

    Errors: none of a row. CallCancelled where `measure` is given up; WorkerCrashed where no child can be started.
    """
    return measure_batches(plan, part_batches(plan, source, part), measure, tell)


def part_batches(plan: ScanPlan, source: Source, part: Part) -> Iterator[RowBatch]:
    """Read the rows of a part with the columns that the plan names."""
    return read_part(source, part, [name for name in (plan.column, plan.tools_column) if name is not None])


def measure_batches(
    plan: ScanPlan, batches: Iterable[RowBatch], measure: Measure, tell: Tell | None = None
) -> pa.Table:
    """Measure the rows of batches; give their table, rows in order, one chunk a column. Errors: as of `run_part`."""
    made: list[pa.RecordBatch] = []
    for batch in batches:
        for table in _measured(plan, batch, measure):
            made.append(table)
            if tell is not None:
                tell(table.num_rows, table.num_rows - table.column("error_kind").null_count)
    return pa.Table.from_batches(made, schema=SCHEMA).combine_chunks()


def _measured(plan: ScanPlan, batch: RowBatch, measure: Measure) -> Iterator[pa.RecordBatch]:
    if batch.kind == "unreadable":
        error = InspectorError.from_dict(batch.error or {})
        yield record_batch([place_row(batch, place) | error_columns(error) for place in range(len(batch))])
        return
    at, alone, again = 0, False, False
    while at < len(batch):
        upto = at + 1 if alone else len(batch)
        part = batch.only(at, upto)
        try:
            table = _answer(measure(plan, part), part)
        except InspectorError as error:
            crashed = error.kind is ErrorKind.WorkerCrashed  # it may have been killed from outside
            if len(part) > 1 or (crashed and not again):
                again = alone and crashed
                alone = True
                continue
            table = record_batch([place_row(part, 0) | error_columns(error)])
            alone = False  # found: the others go on together
        again = False
        at += table.num_rows
        yield table


def _answer(data: bytes, batch: RowBatch) -> pa.RecordBatch:
    """Read what a child answered. Errors: WorkerCrashed for what is no table of these rows."""
    with contextlib.suppress(pa.ArrowException, ValueError, OSError):
        batches = list(pa.ipc.open_stream(data))
        if len(batches) == 1 and batches[0].schema.equals(SCHEMA):
            batches[0].validate(full=True)
            rows = batches[0].num_rows
            numbers = list(batch.numbers[batch.start : batch.start + rows])
            if 0 < rows <= len(batch) and batches[0].column("row").to_pylist() == numbers:
                return batches[0]
    raise InspectorError(
        ErrorKind.WorkerCrashed, "the child's answer is no table of the rows it was given", stage="sandbox",
        remedy="this is a fault of the tool: please report it with the row",
    )  # fmt: skip


def workers_of(asked: int | None) -> int:
    """Give how many children work at once: those asked for, or one a core that this process may use."""
    return asked if asked is not None else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


__all__ = ["CallCancelled", "Measure", "Tell", "in_sandbox", "run_part", "scan_limits", "scan_sandbox", "workers_of"]
