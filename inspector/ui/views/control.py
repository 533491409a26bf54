"""Who wrote each control token, where the safe ids part, and what the known defences would send instead.

It renders and tokenizes again for the defences, so it is asked for when its tab is opened. It judges nothing itself:
control.py does; here its values become the tables that the page draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.errors import InspectorError
from inspector.ui.views.base import View

if TYPE_CHECKING:
    from inspector.encode import Encoding

NEAR = 4  # tokens shown on either side of a place where the two id sequences part
MOST_PARTINGS = 40
MOST_TOKENS = 400  # of one sequence at one place


def answer(inspections: Sequence[Any]) -> dict[str, Any]:
    """Give the answer for all panes: `{"panes": [tables | {"error": text}]}`."""
    return {"panes": [_pane(inspection) for inspection in inspections]}


def _pane(inspection: Any) -> dict[str, Any]:
    from inspector.ui.payload import error_text

    if inspection.encoding is None:
        return {"error": error_text(inspection.error) if inspection.error else "no tokens"}
    return data(inspection)


def data(inspection: Any) -> dict[str, Any]:
    """Give one pane's tables."""
    from inspector import control

    encoding = inspection.encoding
    parting = control.parting(encoding)
    return {
        "tokens": verdicts(encoding),
        "look_alikes": look_alikes(encoding),
        "safe": {"index": parting.index, "extra_tokens": parting.extra_tokens, **partings(encoding)},
        "defences": [_defence(defence, len(encoding)) for defence in control.defences(inspection)],
        "calls": call_paths(encoding),
        "turns": _fields(control.turns(inspection)),
        "placeholders": _fields(control.placeholders(inspection)),
        "terminator": _terminator(encoding),
        "assistant_from": encoding.assistant_mask_from,
    }


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


def verdicts(encoding: Encoding) -> list[list[Any]]:
    """Give one row a control token: [index, id, piece, special, verdict, path or null, line or null]."""
    from inspector.control import control_tokens

    return [[t.index, t.id, t.piece, t.special, t.verdict, t.path, t.line] for t in control_tokens(encoding)]


def look_alikes(encoding: Encoding) -> list[dict[str, Any]]:
    """Give the stretches of tokens that spell a control token and are none: first and last token, text, origin."""
    from inspector.encode import TokenFlag

    marked = (encoding.flags & TokenFlag.LOOK_ALIKE) != 0
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8))).reshape(-1, 2)
    return [_look_alike(encoding, first, end) for first, end in edges.tolist()]


def _look_alike(encoding: Encoding, first: int, end: int) -> dict[str, Any]:
    token = encoding.token(first)
    text = encoding.rendered.utf8[token.start : int(encoding.end[end - 1])].decode("utf-8", "replace")
    return {"first": first, "last": end - 1, "text": text, "path": token.path, "line": token.line}


def partings(encoding: Encoding) -> dict[str, Any]:
    """Give the places where the library's ids and the safe ids part, each with a few tokens around it.

    A row is [id, piece, part]: `part` is true for a token that the other sequence does not have there.
    """
    sent, safe = (encoding.input_ids, encoding.start, encoding.end), _safe_columns(encoding)
    places = parting_places(sent, safe)
    shown = [_parting(encoding, sent, safe, place) for place in places[:MOST_PARTINGS]]
    return {"num_sent": len(sent[0]), "num_safe": len(safe[0]), "places": shown, "left_out": len(places) - len(shown)}


def _safe_columns(encoding: Encoding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return encoding.safe.input_ids, encoding.safe.start, encoding.safe.end


Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def parting_places(sent: Columns, safe: Columns) -> list[tuple[int, int, int, int]]:
    """Give the places where two encodings of one text part, as half-open token ranges (sent, then safe).

    Shapes: each side is (ids, start, end), int64[n]. A token that has the same id and the same bytes on both sides
    belongs to no place.

    >>> one, two = np.array([7, 9]), np.array([7, 1, 2])
    >>> parting_places((one, np.array([0, 1]), np.array([1, 3])), (two, np.array([0, 1, 2]), np.array([1, 2, 3])))
    [(1, 2, 1, 3)]
    """
    rows = [list(zip(*(column.tolist() for column in side), strict=True)) for side in (sent, safe)]
    places: list[tuple[int, int, int, int]] = []
    i = j = 0
    while i < len(rows[0]) or j < len(rows[1]):
        if i < len(rows[0]) and j < len(rows[1]) and rows[0][i] == rows[1][j]:
            i, j = i + 1, j + 1
            continue
        x, y = _next_common(rows[0], rows[1], i, j)
        places.append((i, x, j, y))
        i, j = x, y
    return places


def _next_common(a: list[tuple[int, int, int]], b: list[tuple[int, int, int]], i: int, j: int) -> tuple[int, int]:
    """Give the next pair of equal tokens: both lists ascend by place, so the one that lies behind moves on."""
    while i < len(a) and j < len(b) and a[i] != b[j]:
        if a[i][1:] == b[j][1:]:
            i, j = i + 1, j + 1
        elif (a[i][2], a[i][1]) <= (b[j][2], b[j][1]):
            i += 1
        else:
            j += 1
    return (i, j) if i < len(a) and j < len(b) else (len(a), len(b))


def _parting(encoding: Encoding, sent: Columns, safe: Columns, place: tuple[int, int, int, int]) -> dict[str, Any]:
    i, x, j, y = place
    return {
        "first": i,
        "last": max(i, x - 1),
        "safe_first": j,
        "sent": _row(encoding, sent[0], i, x),
        "safe": _row(encoding, safe[0], j, y),
        "extra": (y - j) - (x - i),
    }


def _row(encoding: Encoding, ids: np.ndarray, first: int, end: int) -> list[list[Any]]:
    low, high = max(0, first - NEAR), min(len(ids), min(end, first + MOST_TOKENS) + NEAR)
    piece = encoding.tokenizer.piece
    return [[token_id, piece(token_id), first <= low + k < end] for k, token_id in enumerate(ids[low:high].tolist())]


def _defence(defence: Any, num_sent: int) -> dict[str, Any]:
    names = ("name", "forged", "lost", "text_kept", "misses", "error")
    used = not defence.error
    row = {name: getattr(defence, name) for name in names}
    return {**row, "tokens": len(defence.input_ids) if used else None, "extra": len(defence.input_ids) - num_sent}


def call_paths(encoding: Encoding) -> list[dict[str, Any]]:
    """Give the call paths with what is wrong about each: double_bos, no_bos, eos_at_end, eos_after_prompt, other_ids."""
    from inspector.control import encode_paths
    from inspector.ui.payload import error_text

    try:
        paths = encode_paths(encoding)
    except InspectorError as error:
        return [{"call": "tokenizer(rendered)", "error": error_text(error), "warnings": []}]
    has_bos = "bos_token" in encoding.tokenizer.special_token_ids
    some_bos = any(path.leading_bos for path in paths)
    prompted = encoding.rendered.generation_prompt is not None
    return [
        {**_fields(path), "warnings": call_warnings(path, paths[0], has_bos and some_bos, prompted)} for path in paths
    ]


def call_warnings(path: Any, first: Any, expects_bos: bool, prompted: bool) -> list[str]:
    """Name what is wrong about one call path; `first` is what apply_chat_template gives."""
    found = {
        "double_bos": path.leading_bos > 1,
        "no_bos": expects_bos and path.leading_bos == 0,
        "eos_after_prompt": path.ends_with_eos and prompted,
        "other_length": path.num_tokens != first.num_tokens,
    }
    return [name for name, holds in found.items() if holds]


def _terminator(encoding: Encoding) -> dict[str, Any]:
    """Give the token that ends a turn beside the configured EOS."""
    from inspector.control import terminator

    written, eos = terminator(encoding), encoding.tokenizer.special_token_ids.get("eos_token")
    names = [None if token_id is None else encoding.tokenizer.piece(token_id) for token_id in (written, eos)]
    return {"id": written, "piece": names[0], "eos_id": eos, "eos_piece": names[1]}


VIEW = View("control")
