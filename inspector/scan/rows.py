"""Measure rows: the pipeline of the page on each, its values read into the columns. Runs in a child of the sandbox.

Nothing is computed in a way of its own: one rendering and one encoding of a row serve length, origins, labels, windows,
prefixes and findings. An error of a row is in its columns; what kills the child is for the caller (engine.py).
Rows take each stage together with a few others, once the first has shown how long one takes.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from inspector.budget import BudgetDecision, BudgetRejected
from inspector.comparison import compare_inspections
from inspector.encode import Encoding, TokenFlag, control_mask
from inspector.errors import InspectorError
from inspector.pipeline import Fitting, Inspection, inspect_in_stages
from inspector.render import SegmentKind, writer_of
from inspector.scan.columns import ORIGINS, ROLES, SCHEMA, empty_row
from inspector.scan.plan import PlanSide, ScanPlan
from inspector.scan.requests import request_of, row_texts
from inspector.scan.scripts import Spans, scripts_of
from inspector.scan.source import RowBatch
from inspector.tensors import IGNORED_LABEL
from inspector.training.growing import PlainPrompts, growing_prompts
from inspector.training.labels import REASONING_FIELDS, LabelMode, Labels, make_labels
from inspector.training.prefix import PrefixTable, Step, prefix_table

BATCH_SECONDS = 2.0  # after which a batch is answered as far as it got: a limit then means one row
# Rows are measured together, one stage of all and then the next, which keeps the stage's code and tables in the processor's
# caches: so many, as many as take so long, and not far beyond these bytes, since all are held meanwhile.
CHUNK_ROWS = 32
CHUNK_SECONDS = 0.25
CHUNK_BYTES = 1 << 19
_MESSAGE = int(SegmentKind.MESSAGE)


def measured(plan: ScanPlan, batch: RowBatch) -> bytes:
    """Measure the first rows of a batch, at least one, as many as there is time for; give an Arrow IPC stream."""
    pa.set_memory_pool(pa.system_memory_pool())  # the others reserve more address space than a child may have
    table = scan_rows(plan, batch, time.monotonic() + BATCH_SECONDS)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(table)
    return bytes(sink.getvalue().to_pybytes())


def scan_rows(plan: ScanPlan, batch: RowBatch, until: float | None = None) -> pa.RecordBatch:
    """Measure the rows of a batch in this process; with `until`, stop after the row that passes that time."""
    made: list[dict[str, Any]] = []
    spans: list[tuple[dict[str, Any], Spans]] = []
    texts, most = enumerate(row_texts(batch)), 1
    while chunk := _chunk(texts, most):
        began = time.monotonic()
        rows = [place_row(batch, place) for place, _text in chunk]
        made += rows
        runs = [_row(row, text, plan) for row, (_place, text) in zip(rows, chunk)]
        spans += [(row, said) for row, said in zip(rows, together(runs)) if said is not None]
        now = time.monotonic()
        if until is not None and now > until:
            break
        most = max(1, min(CHUNK_ROWS, int(CHUNK_SECONDS * len(chunk) / max(now - began, 1e-9))))
    for (row, _spans), tally in zip(spans, scripts_of([each for _row, each in spans])):
        row["scripts"] = sorted(tally.items())
    return record_batch(made)


def _chunk(texts: Iterator[tuple[int, Any]], most: int) -> list[tuple[int, Any]]:
    """Take rows to be measured together: so many at most, and none after one with which they get large."""
    taken: list[tuple[int, Any]] = []
    size = 0
    for each in itertools.islice(texts, most):
        taken.append(each)
        size += len(each[1]) if isinstance(each[1], bytes) else 0
        if size > CHUNK_BYTES:
            break
    return taken


def together(runs: Sequence[Generator[None, None, Any]]) -> list[Any]:
    """Run generators up to their next yield in turn, until all have ended; give what they return."""
    given: list[Any] = [None] * len(runs)
    going = list(enumerate(runs))
    while going:
        left = []
        for place, run in going:
            try:
                next(run)
                left.append((place, run))
            except StopIteration as done:
                given[place] = done.value
        going = left
    return given


def _row(row: dict[str, Any], text: bytes | InspectorError, plan: ScanPlan) -> Generator[None, None, Spans | None]:
    """Fill in a row, with a yield after each stage; give what its scripts are counted of."""
    if isinstance(text, InspectorError):
        row |= error_columns(text)
        return None
    row["row_bytes"] = len(text)
    encoding = yield from _measure(row, text, plan)
    return _said(encoding) if encoding is not None and encoding.rendered.kind == "bytes" else None


def record_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Give rows as a record batch of the schema."""
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def place_row(batch: RowBatch, place: int) -> dict[str, Any]:
    """Give an empty row that says where it is from."""
    at = batch.start + place
    offset = batch.offsets[at]
    row: dict[str, Any] = empty_row()
    return row | {"file": batch.file, "row": batch.numbers[at], "offset": None if offset < 0 else offset}


def error_columns(error: InspectorError, prefix: str = "") -> dict[str, Any]:
    """Give the columns of an error."""
    values = {"kind": error.kind.name, "stage": error.stage, "place": error.place(), "message": error.message,
              "remedy": error.remedy}  # fmt: skip
    return {f"{prefix}error_{name}": _clean(value) for name, value in values.items()}


def _clean(text: str) -> str:
    return " ".join(text.encode("utf-8", "backslashreplace").decode()[:2000].split())


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One side of a row: what was reached, what fits it, and its labels."""

    inspection: Inspection
    fitting: Fitting | None
    labels: Labels | None


def _side(side: PlanSide, request: bytes, plan: ScanPlan) -> Generator[None, None, _Side]:
    inspection, fitting = yield from inspect_in_stages(side.job(request))
    yield
    encoding, conversation = inspection.encoding, inspection.conversation
    if encoding is None or conversation is None:
        return _Side(inspection, fitting, None)
    labels = make_labels(encoding, conversation.messages, LabelMode(plan.label_mode), with_runs=False)
    return _Side(inspection, fitting, labels)


def _measure(row: dict[str, Any], text: bytes, plan: ScanPlan) -> Generator[None, None, Encoding | None]:
    """Fill in all columns of a row but its scripts, with a yield after each stage; give what these are counted of."""
    try:
        row["form"], request = request_of(text, plan)
    except (InspectorError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            row["form"], request = "", text  # the strict parser names the byte
        else:
            row |= error_columns(error)
            return None
    row["request_sha256"] = hashlib.sha256(request).digest()
    yield
    a = yield from _side(plan.sides[0], request, plan)
    yield
    row |= _request_columns(a.inspection)
    row |= _text_columns(a.inspection)
    row |= _finding_columns(a.inspection)
    if a.inspection.error is not None:
        row |= error_columns(a.inspection.error)
    if a.labels is not None:
        trained = a.labels.num_trained
        row |= {"trained": trained, "masked": len(a.labels.labels) - trained,
                "alarms": _tally(alarm.kind.value for alarm in a.labels.alarms)}  # fmt: skip
    yield
    if a.fitting is not None and a.labels is not None:
        row["windows"] = [_window(a, plan.sides[0], window) for window in plan.windows]
        yield
        if plan.prefix:
            row |= _prefix_columns(a.fitting, plan.sides[0])
    if plan.compares:
        row |= _compared(a, (yield from _side(plan.sides[1], request, plan)))
    return a.inspection.encoding


def _request_columns(inspection: Inspection) -> dict[str, Any]:
    request = inspection.request
    if request is None:
        return {}
    calls = (message.get("tool_calls") for message in request.messages)
    return {
        "messages": len(request.messages),
        "tools": len(request.tools or ()),
        "tool_calls": sum(len(listed) for listed in calls if isinstance(listed, list)),
        "last_role": request.messages[-1].get("role") if request.messages else None,
    }


def _digests(inspection: Inspection, prefix: str = "") -> dict[str, Any]:
    template, tokenizer, encoding = inspection.template, inspection.tokenizer, inspection.encoding
    rendered = inspection.rendered
    ids = None if encoding is None else hashlib.sha256(encoding.input_ids.astype("<u4").tobytes()).digest()
    values = {
        "template": None if template is None else bytes.fromhex(template.digest),
        "tokenizer": None if tokenizer is None else bytes.fromhex(tokenizer.digest),
        "rendered": None if rendered is None else bytes.fromhex(rendered.sha256),
        "ids": ids,
    }
    return {f"{prefix}{name}_sha256": value for name, value in values.items()}


def _text_columns(inspection: Inspection) -> dict[str, Any]:
    made = _digests(inspection)
    rendered, encoding = inspection.rendered, inspection.encoding
    if rendered is not None and rendered.kind == "bytes":
        made |= {"characters": len(rendered.text), "bytes": len(rendered.utf8)}
    if rendered is not None:
        made |= {"provenance": rendered.provenance, "assistant_from": rendered.assistant_from}
    if encoding is not None:
        made |= _count_columns(inspection, encoding)
    return made


def _count_columns(inspection: Inspection, encoding: Encoding) -> dict[str, Any]:
    counts = encoding.counts()
    by_origin = counts["by_origin"]
    roles, argument, reasoning = _by_role(inspection, counts["by_path"])
    flags = encoding.flags
    return {
        "tokens": len(encoding),
        **{column: by_origin.get(name, 0) for name, column in _ORIGIN_COLUMNS},
        **{column: roles.get(name, 0) for name, column in _ROLE_COLUMNS},
        "tokens_argument": argument,
        "tokens_reasoning": reasoning,
        "control": int(np.count_nonzero(control_mask(flags))),
        **_flagged(flags),
        "safe_tokens": len(encoding.safe_input_ids),
        "uncovered_bytes": sum(gap.end - gap.start for gap in encoding.uncovered),
    }


_ORIGIN_COLUMNS = tuple((name, f"tokens_{name}") for name in ORIGINS)
_ROLE_COLUMNS = tuple((name, f"role_{name}") for name in (*ROLES, "other"))
_FLAGGED = (
    ("control_from_content", int(TokenFlag.FROM_CONTENT)),
    ("control_crossing", int(TokenFlag.CROSSES_SEGMENT)),
    ("look_alike", int(TokenFlag.LOOK_ALIKE)),
    ("unknown_tokens", int(TokenFlag.UNKNOWN)),
)


def _flagged(flags: np.ndarray) -> dict[str, int]:
    there = int(np.bitwise_or.reduce(flags))
    return {name: int(np.count_nonzero(flags & flag)) if there & flag else 0 for name, flag in _FLAGGED}


def _by_role(inspection: Inspection, by_path: dict[str, int]) -> tuple[dict[str, int], int, int]:
    """Give tokens by role, and those of arguments and reasoning, from the tokens by path."""
    messages = inspection.request.messages if inspection.request is not None else []
    roles: dict[str, int] = {}
    argument = reasoning = 0
    for path, number in by_path.items():
        index, is_argument, is_reasoning = _place_of(path)
        if index < 0:
            continue
        role = messages[index].get("role")
        named = role if role in ROLES else "other"
        roles[named] = roles.get(named, 0) + number
        argument += number if is_argument else 0
        reasoning += number if is_reasoning else 0
    return roles, argument, reasoning


@functools.lru_cache(maxsize=4096)
def _place_of(path: str) -> tuple[int, bool, bool]:
    """Give the message that a path lies in (-1: none), and whether it is of arguments, or of reasoning."""
    index, bracket, rest = path[9:].partition("]") if path.startswith("messages[") else ("", "", "")
    if not bracket:
        return -1, False, False
    if ".arguments" in rest and rest.startswith(".tool_calls["):
        return int(index), True, False
    return int(index), False, rest[1:].split(".")[0].split("[")[0] in REASONING_FIELDS


def _said(encoding: Encoding) -> Spans:
    """Give the tokens that messages wrote."""
    rendered = encoding.rendered
    said = np.append(rendered.segments.kind, np.uint8(255))[encoding.segment] == _MESSAGE
    return Spans(rendered.text, rendered.utf8, encoding.start[said], encoding.end[said])


def _finding_columns(inspection: Inspection) -> dict[str, Any]:
    heard = [finding for finding in inspection.findings if finding.silenced is None]
    severities = _tally(str(finding.severity) for finding in heard)
    counts = dict(severities)
    return {
        "findings": _tally(finding.rule for finding in heard),
        "errors": counts.get("error", 0), "warnings": counts.get("warning", 0), "notes": counts.get("note", 0),
    }  # fmt: skip


def _tally(names: Any) -> list[tuple[str, int]]:
    tally: dict[str, int] = {}
    for name in names:
        tally[name] = tally.get(name, 0) + 1
    return sorted(tally.items())


# --- windows ---------------------------------------------------------------------------------------------------------


def _window(side: _Side, plan: PlanSide, window: int) -> dict[str, Any]:
    """Give the decision at one window; a row that fits whole needs none, whatever the policy is."""
    fitting, labels = side.fitting, side.labels
    if fitting is None or labels is None:
        raise ValueError("a row that cannot be rendered has no window")
    length, most = len(fitting.whole), window - plan.options.max_new_tokens
    made: dict[str, Any] = {
        "context_window": window, "fits": length <= most, "input_tokens": length, "required_tokens": None,
        "rejected": False, "cut_units": 0, "cut_tokens": 0, "dropped_units": 0, "dropped_tokens": 0, "broken": [],
        "trained_beyond": int(np.count_nonzero(labels.labels[max(most, 0) :] != IGNORED_LABEL)), "error_kind": None,
    }  # fmt: skip
    if length <= most:
        return made
    try:
        fitted = fitting.fit(replace(plan.options, context_window=window))
    except BudgetRejected as error:
        return made | {"rejected": True, "required_tokens": error.decision.required_tokens}
    except InspectorError as error:
        return made | {"error_kind": error.kind.name}
    return made if fitted is None else made | _decided(fitted.decision)


def _decided(decision: BudgetDecision) -> dict[str, Any]:
    return {
        "input_tokens": decision.input_tokens,
        "required_tokens": decision.required_tokens,
        "cut_units": len(decision.cut),
        "cut_tokens": sum(lost for _path, lost in decision.cut),
        "dropped_units": len(decision.dropped),
        "dropped_tokens": sum(entry.tokens for entry in decision.dropped),
        "broken": sorted({entry.to_dict()["what"] for entry in decision.broken}),
    }


# --- prefixes --------------------------------------------------------------------------------------------------------


def _prefix_columns(fitting: Fitting, side: PlanSide) -> dict[str, Any]:
    begun = fitting.begun()
    total = len(begun.conversation.messages)

    def assemble(part: Any, asks: bool) -> Encoding:
        if len(part.messages) == total and asks == side.options.add_generation_prompt:
            return fitting.whole
        return begun.assemble(part, asks)

    growing = growing_prompts(begun.call, begun.tokenizer)
    plain = growing if isinstance(growing, PlainPrompts) else None
    most = None if plain is None else 0
    if plain is not None:
        plain.know(total, side.options.add_generation_prompt, fitting.whole.rendered.text)
    try:
        table = prefix_table(begun.conversation, assemble, growing=growing, most_partings=most, with_keys=False)
    except InspectorError:
        return {}  # a limit or the tokenizer; the row itself was rendered and says no error
    compared = [step for step in table.steps if step.shared_tokens is not None]
    broken = [step for step in compared if not step.is_prefix]
    line, path = _parting(table, broken[0], plain) if broken else (None, None)
    return {
        "steps": len(table.steps),
        "steps_broken": len(broken),
        "broken_at": broken[0].messages if broken else None,
        "broken_line": line,
        "broken_path": path,
        "step_tokens": sum(step.tokens or 0 for step in compared),
        "reused_tokens": sum(step.shared_tokens or 0 for step in compared),
        "steps_refused": sum(step.error is not None for step in table.steps),
    }


def _parting(table: PrefixTable, step: Step, plain: PlainPrompts | None) -> tuple[int | None, str | None]:
    """Give line and path of what wrote the first character of an input that its next one has not."""
    if step.parting is not None or plain is None:
        return (None, None) if step.parting is None else (step.parting.line, step.parting.path)
    following = table.steps[table.steps.index(step) + 1]
    a, b = (plain.at(each.messages, each.asks) for each in (step, following))
    if a is None or b is None:
        return None, None
    call = plain.call(step.messages, step.asks)
    found = writer_of(call, a.text, plain.common(a, b))
    return (None, None) if found is None else found[1:]


# --- side B ----------------------------------------------------------------------------------------------------------


def _compared(a: _Side, b: _Side) -> dict[str, Any]:
    made = _digests(b.inspection, "b_")
    if b.inspection.error is not None:
        made |= error_columns(b.inspection.error, "b_")
    if b.labels is not None:
        made |= {"b_tokens": len(b.labels.labels), "b_trained": b.labels.num_trained}
    if a.labels is None or b.labels is None:
        return made
    comparison = compare_inspections(a.inspection, b.inspection)
    made |= {
        "equal_bytes": comparison.equal_bytes,
        "equal_ids": comparison.equal_ids,
        "delta_tokens": len(b.labels.labels) - len(a.labels.labels),
        "delta_trained": b.labels.num_trained - a.labels.num_trained,
    }
    first = comparison.first_difference
    if first is not None:
        made |= {"diff_byte": first.byte, "diff_token_a": first.token_a, "diff_token_b": first.token_b,
                 "diff_reason": first.code.value}  # fmt: skip
    return made
