"""From inspections to the JSON strings that the page's component draws. Pure functions; made in the sandbox child.

The shape is compact: the text once, then columns, never one object a token (delta.py). The other side of this format
is `static/pane.js`. Nothing is rendered, tokenized, escaped or translated here; rows are aligned in the browser.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from inspector.errors import ErrorKind, InspectorError, single_line
from inspector.ui.delta import Sent, pane_delta
from inspector.ui.views import VIEWS
from inspector.ui.views.findings import live_counts

FIELDS = {"messages": "messages", "tools": "tools", "documents": "documents", "chat_template_kwargs": "arguments"}
OPTIONS = ("clock", "profile", "arguments", "context_window", "max_new_tokens", "policy", "add_generation_prompt",
           "whole_turns", "first_turns", "document_order", "media", "image_tokens")  # fmt: skip

# What a pane says above its tokens; the other findings have a place of their own.
HEAD_RULES = (
    "line-ends", "template-missing", "template-pairing", "provenance-unknown", "uncovered-bytes", "budget-dropped",
    "sandbox-blocked",
)  # fmt: skip


def dumps(value: Any) -> bytes:
    """Write JSON the short way."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def answer(
    inspection: Any, sent: Sent | None, errors: Iterable[dict[str, Any]] = ()
) -> tuple[dict[str, Any], Sent | None]:
    """Give the answer for one pane, and what the page holds after it.

    `inspection`: an `Inspection`, or None where the pane's artifacts could not be had (its error is in `errors`, made by
    `pane_error`). A pane without tokens is null: the page keeps what it showed before and marks it as old.
    """
    found = [
        *errors,
        *([pane_error(inspection.error)] if inspection is not None and inspection.error is not None else []),
    ]
    given: dict[str, Any] = {"schema": "view/2", "legend": None, "pane": None, "errors": found}
    if not has_tokens(inspection):
        return given, sent
    given["pane"], sent = pane_delta(inspection, info(inspection), sent)
    return {**given, "legend": legend()}, sent


def safe_inspection(inspection: Any) -> Any:
    """Give the inspection of the safe ids: the same text with content-written control strings as plain text."""
    from dataclasses import replace

    from inspector.encode import safe_encoding

    return replace(inspection, encoding=safe_encoding(inspection.encoding)) if has_tokens(inspection) else inspection


def has_tokens(inspection: Any) -> bool:
    """Say whether a pane can be shown."""
    return inspection is not None and inspection.encoding is not None


# ---------------------------------------------------------------------------------------------------------- a pane


def info(inspection: Any) -> dict[str, Any]:
    """Give what is said of a pane as a whole, with what each view adds."""
    tokenizer = inspection.tokenizer
    found: dict[str, Any] = {
        "tokenizer": {"id": tokenizer.id, "ref": tokenizer.ref, "digest": tokenizer.digest},
        "clock": inspection.clock.isoformat(),
        "counts": counts(inspection.encoding),
        "assistant_from": inspection.encoding.assistant_mask_from,
        "findings": [
            {"rule": finding.rule, "message": finding.message, "remedy": finding.remedy}
            for finding in inspection.findings
            if finding.rule in HEAD_RULES
        ],
        "found": live_counts(inspection),
    }
    for entry in VIEWS:
        if entry.data is not None:
            found[entry.id] = entry.data(inspection)
    return found


def flag_bits() -> dict[str, int]:
    """Give the bit of every flag name."""
    from inspector.encode import FLAG_NAMES

    return {name: 1 << bit for bit, name in enumerate(FLAG_NAMES)}


def counts(encoding: Any) -> dict[str, int]:
    """Count the tokens that the counts line names."""
    flags, bits = np.asarray(encoding.flags), flag_bits()
    numbers = {name: int(np.count_nonzero(flags & bits[name])) for name in ("special", "added", "from_content")}
    return {"tokens": len(encoding.input_ids), **numbers}


def legend() -> dict[str, Any]:
    """Give the names of the flags' bits and of the segments' kinds."""
    from inspector.render import SegmentKind

    return {"flags": flag_bits(), "kinds": {int(kind): kind.name.lower() for kind in SegmentKind}}


def comparison(comparison: Any) -> dict[str, Any]:
    """Give what the page shows of a comparison."""
    first = comparison.first_difference
    names = ("byte", "token_a", "token_b", "reason")
    return {
        "equal": {"bytes": comparison.equal_bytes, "ids": comparison.equal_ids},
        "first_difference": None
        if first is None
        else {**{name: getattr(first, name) for name in names}, "reason_code": first.code.value},
        "shared_prefix_tokens": comparison.shared_prefix_tokens,
    }


# ----------------------------------------------------------------------------------------------------------- errors


def pane_error(error: InspectorError, q: int | None = None, place: str | None = None) -> dict[str, Any]:
    """Say where on the page an error belongs, and in one line what it is."""
    place = place or place_of(error)
    at = [error.where["line"], error.where.get("column")] if "line" in error.where else None
    return {
        "pane": q,
        "place": place,
        "kind": error.kind.name,
        "stage": error.stage,
        "text": error_text(error),
        "at": at,
    }


def place_of(error: InspectorError) -> str | None:
    """Give the field of the page that an error is about; None for one that no field caused.

    >>> place_of(InspectorError(ErrorKind.TemplateRaised, "no", stage="render", where={"line": 3}))
    'template'
    """
    where = error.where
    if error.stage in ("request", "messages"):
        root = str(where.get("path", "")).split("[")[0].split(".")[0]
        return where.get("field") or FIELDS.get(root, "messages")
    option = str(where.get("option", "")).removeprefix("--").replace("-", "_")
    if option in OPTIONS:
        return option
    if error.stage == "media":
        return "template" if error.kind is ErrorKind.MediaMismatch else "messages"
    if error.stage in ("template", "render") or where.get("option") in ("template", "name", "engine"):
        return "template"
    if error.stage in ("encode", "tokenizer", "source") or where.get("option") == "tokenizer":
        return "tokenizer"
    return "context_window" if error.stage == "budget" else None


def error_text(error: InspectorError) -> str:
    """Give an error as one line: place, message, remedy.

    >>> error_text(InspectorError(ErrorKind.InputInvalid, "a comma is missing", stage="request",
    ...                           where={"line": 2, "column": 5}, remedy="add ,"))
    'line 2, column 5: a comma is missing → add ,'
    """
    names = ("line", "column", "path", "byte") if error.where.get("message") is None else ("line", "message")
    of_template = "template " if error.stage in ("template", "render") else ""
    words = {"line": f"{of_template}line ", "path": "", "message": "while rendering messages["}
    place = ", ".join(
        f"{words.get(name, name + ' ')}{error.where[name]}{']' if name == 'message' else ''}"
        for name in names
        if error.where.get(name) is not None
        and not (name == "path" and error.message.startswith(f"{error.where[name]}: "))  # said once
    )
    line = f"{place}: {error.message}" if place else error.message
    remedy = error.remedy.replace("`presets` lists all", "the list above has all")
    return single_line(f"{line} → {remedy}" if remedy else line)


def option_error(option: str, message: str, remedy: str) -> InspectorError:
    """Make the error of a field of the page that holds a wrong value."""
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": option}, remedy=remedy)
