"""From inspections to the one JSON string that the page's component draws. Pure functions; made in the sandbox child.

The shape is compact, about ten bytes a token: the text once, then columns (base64 of little-endian arrays, or
run lengths), never one object a token. The other side of this format is `static/pane.js`. Nothing is rendered,
tokenized, escaped or translated here.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from inspector.editscript import edit_script
from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views import VIEWS

SAME, TEXT_DIFFERS, IDS_DIFFER = range(3)  # what a row of the aligned grid is; the names in static/pane.js
LONG = 255  # in the byte column of lengths: look the length up in `long`
NEWLINE = 10
FIELDS = {"messages": "messages", "tools": "tools", "documents": "documents", "chat_template_kwargs": "arguments"}
OPTIONS = ("clock", "profile", "context_window", "max_new_tokens", "policy", "add_generation_prompt")

# What a pane says above its tokens; the other findings have a place of their own.
HEAD_RULES = (
    "line-ends", "template-missing", "template-pairing", "provenance-unknown", "uncovered-bytes", "budget-dropped",
    "sandbox-blocked",
)  # fmt: skip


def view(inspections: Sequence[Any], comparison: Any, errors: Iterable[dict[str, Any]] = ()) -> bytes:
    """Give `build` as UTF-8 JSON text."""
    return dumps(build(inspections, comparison, errors))


def dumps(value: Any) -> bytes:
    """Write JSON the short way."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def build(inspections: Sequence[Any], comparison: Any, errors: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    """Give the answer for two panes.

    `inspections`: an `Inspection`, or None where a pane's artifacts could not be had (its error is in `errors`, made by
    `pane_error`). `comparison`: the `Comparison` of the two, or None. A pane without tokens is null: the page keeps what
    it showed before and marks it as old.
    """
    panes = [pane(inspection) if _has_tokens(inspection) else None for inspection in inspections]
    found = [
        *errors,
        *(pane_error(i.error, q) for q, i in enumerate(inspections) if i is not None and i.error is not None),
    ]
    whole = len(panes) == 2 and all(panes)
    return {
        "schema": "view/1",
        "legend": _legend(inspections),
        "panes": panes if any(panes) else None,
        "rows": align(*(inspection.encoding for inspection in inspections)) if whole else None,
        "comparison": _comparison(comparison) if whole and comparison is not None else None,
        "errors": merge_errors(found, len(panes)),
    }


def safe_view(inspections: Sequence[Any]) -> bytes:
    """Give `view` of the safe encodings: the same texts with content-written control strings as plain text."""
    from dataclasses import replace

    from inspector.encode import safe_encoding

    return view([replace(i, encoding=safe_encoding(i.encoding)) if _has_tokens(i) else i for i in inspections], None)


def _has_tokens(inspection: Any) -> bool:
    return inspection is not None and inspection.encoding is not None


# ---------------------------------------------------------------------------------------------------------- columns


def pane(inspection: Any) -> dict[str, Any]:
    """Give one pane: the text once, columns of tokens and segments, and what each view adds.

    Shapes: `ids`, `cuts` uint32; `length` uint8[n] with `long` for lengths of 255 and more; `jump` lists the tokens
    that do not begin where the one before ends; `flags` and `segment` are run lengths.
    """
    encoding, rendered = inspection.encoding, inspection.rendered
    segments = rendered.segments
    return {
        "text": rendered.utf8.decode("utf-8"),
        "ids": packed(encoding.input_ids, "<u4"),
        **spans(encoding.start, encoding.end),
        "flags": runs(encoding.flags),
        "segment": runs(encoding.segment),
        "segments": {
            "start": packed(segments.start, "<u4"),
            "end": packed(segments.end, "<u4"),
            "kind": packed(segments.kind, "u1"),
            "line": packed(segments.line, "<i4"),
            "path": packed(segments.path, "<i4"),
            "field": packed(segments.field_start, "<i4"),
        },
        "vocab": vocabulary(encoding),
        "cuts": packed(row_cuts(encoding), "<u4"),
        "info": _info(inspection),
    }


def _info(inspection: Any) -> dict[str, Any]:
    tokenizer = inspection.tokenizer
    info: dict[str, Any] = {
        "paths": list(inspection.rendered.segments.paths),
        "tokenizer": {"id": tokenizer.id, "ref": tokenizer.ref, "digest": tokenizer.digest},
        "clock": inspection.clock.isoformat(),
        "counts": counts(inspection.encoding),
        "assistant_from": inspection.encoding.assistant_mask_from,
        "findings": [
            {"rule": finding.rule, "message": finding.message, "remedy": finding.remedy}
            for finding in inspection.findings
            if finding.rule in HEAD_RULES
        ],
    }
    for entry in VIEWS:
        if entry.data is not None:
            info[entry.id] = entry.data(inspection)
    return info


def packed(values: Any, dtype: str) -> str:
    """Give an array as base64 of its little-endian bytes.

    >>> packed([1, 2], "<u4")
    'AQAAAAIAAAA='
    """
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def runs(values: Any) -> dict[str, list[int]]:
    """Give a column as run lengths: `value[k]` holds from `start[k]` on.

    >>> runs(np.array([5, 5, 7]))
    {'start': [0, 2], 'value': [5, 7]}
    """
    column = np.asarray(values)
    if not len(column):
        return {"start": [], "value": []}
    starts = np.concatenate(([0], np.flatnonzero(column[1:] != column[:-1]) + 1))
    return {"start": starts.tolist(), "value": column[starts].tolist()}


def spans(start: Any, end: Any) -> dict[str, Any]:
    """Give byte spans as lengths and the tokens at which they do not follow on.

    >>> spans(np.array([0, 2]), np.array([1, 4]))
    {'length': 'AQI=', 'long': [], 'jump': [[1, 2]]}
    """
    first, last = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
    length = last - first
    expected = np.concatenate(([0], last[:-1]))[: len(first)]
    long, jump = np.flatnonzero(length >= LONG), np.flatnonzero(first != expected)
    return {
        "length": packed(np.minimum(length, LONG), "u1"),
        "long": np.stack((long, length[long]), axis=1).tolist(),
        "jump": np.stack((jump, first[jump]), axis=1).tolist(),
    }


def vocabulary(encoding: Any) -> dict[str, Any]:
    """Give every id that occurs, ascending, with its piece; and its bytes in hex where they are not the span's."""
    ids, where = np.unique(np.asarray(encoding.input_ids), return_index=True)
    utf8, pieces, other = encoding.rendered.utf8, [], {}
    for k, index in enumerate(where.tolist()):
        token = encoding.token(index)
        pieces.append(token.piece)
        if token.bytes != utf8[token.start : token.end]:
            other[str(k)] = token.bytes.hex(" ")
    return {"ids": packed(ids, "<u4"), "pieces": pieces, "bytes": other}


def flag_bits() -> dict[str, int]:
    """Give the bit of every flag name."""
    from inspector.encode import FLAG_NAMES

    return {name: 1 << bit for bit, name in enumerate(FLAG_NAMES)}


def counts(encoding: Any) -> dict[str, int]:
    """Count the tokens that the counts line names."""
    flags, bits = np.asarray(encoding.flags), flag_bits()
    numbers = {name: int(np.count_nonzero(flags & bits[name])) for name in ("special", "added", "from_content")}
    return {"tokens": len(encoding.input_ids), **numbers}


def _legend(inspections: Sequence[Any]) -> dict[str, Any] | None:
    if not any(_has_tokens(inspection) for inspection in inspections):
        return None
    from inspector.render import SegmentKind

    return {"flags": flag_bits(), "kinds": {int(kind): kind.name.lower() for kind in SegmentKind}}


# ------------------------------------------------------------------------------------------------------------- rows


def row_cuts(encoding: Any) -> np.ndarray:
    """Give the tokens at which rows begin, and the number of tokens at the end.

    A row is a logical line with the empty lines after it. It ends at the first token boundary at or after its last line
    feed, so a token is never cut.

    Shapes: int64[rows + 1].
    """
    utf8 = np.frombuffer(encoding.rendered.utf8, dtype=np.uint8)
    feeds = np.flatnonzero(utf8 == NEWLINE)
    followed = np.append(utf8, 0)[feeds + 1] == NEWLINE
    begins = (
        np.searchsorted(np.maximum.accumulate(encoding.start), feeds[~followed] + 1, side="left")
        if len(encoding.start)
        else []
    )
    return np.unique(np.concatenate(([0], begins, [len(encoding.input_ids)]))).astype(np.int64)


def align(a: Any, b: Any) -> dict[str, Any]:
    """Pair the rows of two encodings so that rows of equal text stand side by side.

    Shapes: `token` uint32[n + 1] a side (first token of each row), `tag` uint8[n] (SAME, TEXT_DIFFERS, IDS_DIFFER).
    """
    cuts = [row_cuts(encoding) for encoding in (a, b)]
    texts = [_row_texts(encoding, cut) for encoding, cut in zip((a, b), cuts, strict=True)]
    pairs = _pairs(*texts)
    rows = [_first_rows(pairs[:, side], len(texts[side])) for side in (0, 1)]
    ids = [_row_ids(encoding, cut) for encoding, cut in zip((a, b), cuts, strict=True)]
    tags = [_tag(pair, texts, ids) for pair in pairs.tolist()]
    tokens = [packed(cut[row], "<u4") for cut, row in zip(cuts, rows, strict=True)]
    return {"n": len(tags), "tag": packed(tags, "u1"), "token": tokens}


def _row_texts(encoding: Any, cuts: np.ndarray) -> list[bytes]:
    utf8, start = encoding.rendered.utf8, encoding.start
    edges = [0, *(int(start[cut]) for cut in cuts[1:-1].tolist()), len(utf8)]
    return [utf8[x:y] for x, y in itertools.pairwise(edges)]


def _row_ids(encoding: Any, cuts: np.ndarray) -> list[bytes]:
    """Give each row's ids as bytes: comparing those is many times faster than comparing small arrays."""
    column = np.ascontiguousarray(encoding.input_ids, dtype=np.int64)
    raw, width = column.tobytes(), column.itemsize
    return [raw[x * width : y * width] for x, y in itertools.pairwise(cuts.tolist())]


def _pairs(a: list[bytes], b: list[bytes]) -> np.ndarray:
    """Pair row numbers of both sides, in order; -1 where a side has no counterpart. Shapes: int64[n, 2].

    What lies between two equal stretches is one change: its rows are paired from its top.
    """
    pairs: list[tuple[int, int]] = []
    x = y = 0
    for op, a0, a1, b0, b1 in [*edit_script(a, b, window=1), ("equal", len(a), len(a), len(b), len(b))]:
        if op == "equal":
            pairs += _by_number(x, a0, y, b0)
            pairs += _by_number(a0, a1, b0, b1)
            x, y = a1, b1
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _by_number(a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int]]:
    height = max(a1 - a0, b1 - b0)
    return [(a0 + k if a0 + k < a1 else -1, b0 + k if b0 + k < b1 else -1) for k in range(height)]


def _first_rows(column: np.ndarray, total: int) -> np.ndarray:
    """Give, for every pair, the row at which that side stands: a missing row has the next one's start, and no extent."""
    following = np.append(column, total)
    following[following < 0] = total
    return np.minimum.accumulate(following[::-1])[::-1]


def _tag(pair: list[int], texts: list[list[bytes]], ids: list[list[bytes]]) -> int:
    x, y = pair
    if x < 0 or y < 0 or texts[0][x] != texts[1][y]:
        return TEXT_DIFFERS
    return SAME if ids[0][x] == ids[1][y] else IDS_DIFFER


def _comparison(comparison: Any) -> dict[str, Any]:
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


def pane_error(error: InspectorError, q: int | None, place: str | None = None) -> dict[str, Any]:
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
    if where.get("option") in OPTIONS:
        return where["option"]
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
    return " ".join((f"{line} → {remedy}" if remedy else line).split())


def merge_errors(errors: list[dict[str, Any]], panes: int) -> list[dict[str, Any]]:
    """Give an error that every pane has once, without a pane: it belongs to a shared field."""
    merged: list[dict[str, Any]] = []
    for error in errors:
        same = [other for other in errors if other["text"] == error["text"] and other["place"] == error["place"]]
        shared = error["place"] not in ("tokenizer", "template") and (len(same) == panes or error["pane"] is None)
        error = {**error, "pane": None} if shared else error
        if error not in merged:
            merged.append(error)
    return merged


def option_error(option: str, message: str, remedy: str) -> InspectorError:
    """Make the error of a field of the page that holds a wrong value."""
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": option}, remedy=remedy)
