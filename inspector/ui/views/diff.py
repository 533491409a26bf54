"""Every region in which two panes differ: its reason, both sides' texts with what surrounds them, tokens and writers.

Listing regions costs some tenths of a second on long inputs, so the tab asks for it when it is open. The view decides
nothing: comparison.py finds regions and reasons; here they become rows that the page can draw without its own tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.ui.views.base import View

if TYPE_CHECKING:
    from inspector.comparison import Comparison, Hunk
    from inspector.encode import Encoding
    from inspector.hunks import Region

AROUND = 48  # bytes of the same line that are shown on either side of a region
MOST_HEAD, MOST_TAIL = 700, 200  # bytes of a region that are shown of its begin and of its end
MOST_IDS = 16  # tokens of a side that are listed with id and piece
MOST_ORIGINS = 4  # writers of a side that are named


def answer(comparison: Comparison) -> dict[str, Any]:
    """Give the answer for two panes.

    `failed`: per side the line of the error that left it without tokens, or null; then there are no hunks.
    """
    from inspector.ui.payload import error_text

    sides = (comparison.a, comparison.b)
    a, b = (side.encoding for side in sides)
    failed = [error_text(side.error) if side.error else None if side.encoding else "no tokens" for side in sides]
    if a is None or b is None or any(failed):
        return {"failed": failed, "hunks": []}
    hunks = comparison.hunks
    return {
        "failed": failed,
        "equal": {"bytes": comparison.equal_bytes, "ids": comparison.equal_ids},
        "same_tokenizer": a.tokenizer.digest == b.tokenizer.digest,
        "total": hunks.total,
        "bytes": [len(encoding.rendered.utf8) for encoding in (a, b)],
        "delta": comparison.delta,
        "hunks": [_row(hunk, a, b) for hunk in hunks.listed],
    }


def _row(hunk: Hunk, a: Encoding, b: Encoding) -> dict[str, Any]:
    texts = [encoding.rendered.utf8[side.start : side.end] for encoding, side in ((a, hunk.a), (b, hunk.b))]
    same = texts[0] == texts[1] and bool(texts[0] or a.rendered.kind == b.rendered.kind == "bytes")
    return {
        "code": hunk.code.value,
        "reason": hunk.reason,
        "same_text": same,
        "a": _side(a, hunk.a),
        "b": _side(b, hunk.b),
    }


def _side(encoding: Encoding, region: Region) -> dict[str, Any]:
    utf8 = encoding.rendered.utf8
    head, tail = _cut(utf8, region.start, region.end)
    ids = encoding.input_ids[region.first : region.last][:MOST_IDS].tolist()
    origins, others, wrote = _origins(encoding, region)
    return {
        "bytes": [region.start, region.end],
        "tokens": [region.first, region.last],
        "before": _text(utf8, _line_before(utf8, region.start), region.start),
        "text": _text(utf8, region.start, head),
        "left_out": tail - head,
        "tail": _text(utf8, tail, region.end),
        "after": _text(utf8, region.end, _line_after(utf8, region.end)),
        "ids": [[token_id, encoding.tokenizer.piece(token_id)] for token_id in ids],
        "origins": origins,
        "more_origins": others,
        "wrote": wrote,
    }


def _text(utf8: bytes, start: int, end: int) -> str:
    return utf8[start:end].decode("utf-8", "replace")


def _inside(utf8: bytes, place: int) -> bool:
    """True if a place lies inside a character."""
    return 0 < place < len(utf8) and utf8[place] & 0xC0 == 0x80


def _cut(utf8: bytes, start: int, end: int) -> tuple[int, int]:
    """Give where the shown begin of a region ends and its shown end begins; one place where all of it is shown."""
    if end - start <= MOST_HEAD + MOST_TAIL:
        return end, end
    head, tail = start + MOST_HEAD, end - MOST_TAIL
    while _inside(utf8, head):
        head -= 1
    while _inside(utf8, tail):
        tail += 1
    return head, tail


def _line_before(utf8: bytes, place: int) -> int:
    """Give where the shown text before a place begins: near it, after the line feed before the last character."""
    low = max(place - AROUND, 0)
    low = max(utf8.rfind(b"\n", low, max(place - 1, low)) + 1, low)
    while low < place and _inside(utf8, low):
        low += 1
    return low


def _line_after(utf8: bytes, place: int) -> int:
    high = min(place + AROUND, len(utf8))
    feed = utf8.find(b"\n", place, high)
    high = feed + 1 if feed >= 0 else high
    while high > place and _inside(utf8, high):
        high -= 1
    return high


def _origins(encoding: Encoding, region: Region) -> tuple[list[dict[str, Any]], int, bool]:
    """Give the writers of a region, each once and in order, how many more there are, and whether they wrote it.

    Of a region without bytes it is the writer of what stands before it: the place where nothing was written.
    """
    segments = encoding.rendered.segments
    wrote = True
    if encoding.rendered.kind != "bytes":
        rows = np.unique(encoding.segment[region.first : region.last])
        rows = rows[rows >= 0]
    else:
        wrote = region.end > region.start
        place = region.start if wrote else region.start - 1
        first = int(np.searchsorted(segments.start, place, side="right")) - 1
        rows = np.arange(max(first, 0), max(int(np.searchsorted(segments.start, region.end, side="left")), 0))
    rows = rows[: len(segments)] if wrote else rows[:1]
    keys = np.stack([segments.kind[rows], segments.path[rows], segments.line[rows]], axis=1).astype(np.int64)
    _unique, firsts = np.unique(keys, axis=0, return_index=True)
    named = [segments.origin(int(rows[at])) for at in sorted(firsts.tolist())]
    shown = [{"kind": kind, "path": path, "line": line} for kind, path, line in named[:MOST_ORIGINS]]
    return shown, len(named) - len(shown), wrote


VIEW = View("diff")
