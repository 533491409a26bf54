"""A pane's answer as what changed since the page's last one: common ends of every column are left out.

The child of a pane keeps what it sent last (`Sent`). When the page still holds that answer, it gets the changed middle
of every column and what is new besides; else everything, as the middle of nothing. Columns are relative (lengths, gaps,
steps), so that an edit changes a few entries and not all that follow. The other side is `Pane.next` in static/pane.js.
Nothing is rendered, tokenized or compared here.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEFLATE_FROM = 4096  # bytes; smaller data costs more to inflate in the browser than to send
TOKEN_COLUMNS = ("ids", "length", "gap", "flags", "step")
SEGMENT_COLUMNS = ("segment_length", "segment_gap", "kind", "line", "path", "field")
COLUMNS = ("bytes", *TOKEN_COLUMNS, *SEGMENT_COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What the page holds of a pane once it has read an answer. `named`: the ids whose pieces it knows."""

    number: str
    tokenizer: str
    columns: dict[str, np.ndarray]
    paths: tuple[str, ...]
    info: dict[str, Any]
    named: set[int]


def pane_delta(inspection: Any, info: dict[str, Any], sent: Sent | None) -> tuple[dict[str, Any], Sent]:
    """Give a pane's answer against `sent` (None: the page holds nothing), and what the page holds after it."""
    encoding = inspection.encoding
    new = columns_of(encoding)
    old = sent.columns if sent else {}
    heads, middles = [], []
    for name in COLUMNS:
        column, before = new[name], old.get(name)
        head, tail = (0, 0) if before is None else common_ends(before, column)
        if before is not None and head == len(column) == len(before):
            continue
        dtype, data = packed(column[head : len(column) - tail])
        heads.append([name, dtype, len(column), head, tail])
        middles.append(data)
    digest = encoding.tokenizer.digest
    known = sent.named if sent and sent.tokenizer == digest else None
    paths = tuple(encoding.rendered.segments.paths)
    vocabulary, named = new_names(encoding, known, *_changed_tokens(heads, len(new["ids"])))
    number = os.urandom(8).hex()
    answer = {
        "number": number,
        "base": sent.number if sent else None,
        "columns": heads,
        **_wrapped(b"".join(middles)),
        "paths": _changed_list(sent.paths if sent else (), paths),
        "vocabulary": {**vocabulary, "reset": known is None},
        "info": {
            key: value for key, value in info.items() if not (sent and key in sent.info and sent.info[key] == value)
        },
    }
    return answer, Sent(number, digest, new, paths, info, named)


def columns_of(encoding: Any) -> dict[str, np.ndarray]:
    """Give every column of a pane, in the relative form."""
    segments = encoding.rendered.segments
    length, gap = relative(encoding.start, encoding.end)
    segment_length, segment_gap = relative(segments.start, segments.end)
    return {
        "bytes": np.frombuffer(encoding.rendered.utf8, dtype=np.uint8),
        "ids": np.asarray(encoding.input_ids),
        "length": length,
        "gap": gap,
        "flags": np.asarray(encoding.flags),
        "step": np.diff(np.asarray(encoding.segment, dtype=np.int64), prepend=0),
        "segment_length": segment_length,
        "segment_gap": segment_gap,
        "kind": np.asarray(segments.kind),
        "line": np.asarray(segments.line),
        "path": np.asarray(segments.path),
        "field": np.asarray(segments.field_start),
    }


def relative(start: Any, end: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give half-open spans as lengths, and as what lies between each and the one before.

    >>> [column.tolist() for column in relative([0, 2], [1, 4])]
    [[1, 2], [0, 1]]
    """
    first, last = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
    return last - first, first - np.concatenate(([0], last[:-1]))[: len(first)]


def common_ends(a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
    """Count the equal elements at both ends; no element is counted twice.

    >>> common_ends(np.array([1, 2, 3, 4]), np.array([1, 9, 4]))
    (1, 1)
    """
    size = min(len(a), len(b))
    head = _first_true(a[:size] != b[:size])
    rest = size - head
    return head, _first_true(a[len(a) - rest :][::-1] != b[len(b) - rest :][::-1])


def _first_true(flags: np.ndarray) -> int:
    if not len(flags):
        return 0
    index = int(flags.argmax())
    return index if flags[index] else len(flags)


def packed(column: np.ndarray) -> tuple[str, bytes]:
    """Give a column in its smallest integer type, the first bytes of all values first: that deflates well.

    >>> packed(np.array([1, 256]))
    ('u2', b'\\x01\\x00\\x00\\x01')
    """
    if not len(column):
        return "u1", b""
    low, high = int(column.min()), int(column.max())
    kind, most = ("i", max(high, -low - 1) * 2 + 1) if low < 0 else ("u", high)
    width = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4
    small = np.ascontiguousarray(column, dtype=f"<{kind}{width}")
    return f"{kind}{width}", small.view(np.uint8).reshape(-1, width).T.tobytes()


def _wrapped(data: bytes) -> dict[str, Any]:
    deflate = len(data) >= DEFLATE_FROM
    return {"data": base64.b64encode(zlib.compress(data, 1) if deflate else data).decode("ascii"), "deflate": deflate}


def _changed_list(old: Sequence[str], new: Sequence[str]) -> list[Any]:
    """Give [equal at the head, equal at the tail, what is new between]."""
    if old == new:
        return [len(new), 0, []]
    size, head, tail = min(len(old), len(new)), 0, 0
    while head < size and old[head] == new[head]:
        head += 1
    while tail < size - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return [head, tail, list(new[head : len(new) - tail])]


def _changed_tokens(heads: list[list[Any]], count: int) -> tuple[int, int]:
    """Give the tokens [from, to) whose ids are new to the page."""
    for name, _dtype, size, head, tail in heads:
        if name == "ids":
            return head, size - tail
    return count, count


def new_names(encoding: Any, known: set[int] | None, first: int, last: int) -> tuple[dict[str, Any], set[int]]:
    """Name the ids that the page does not know yet: pieces, and bytes in hex where they are not the span's.

    `known` None: it knows no id of this tokenizer, so all tokens are looked at; else those in [first, last).
    """
    if known is None:
        known, first, last = set(), 0, len(encoding.input_ids)
    ids, where = np.unique(np.asarray(encoding.input_ids[first:last]), return_index=True)
    found = [(token_id, first + at) for token_id, at in zip(ids.tolist(), where.tolist()) if token_id not in known]
    utf8, tokenizer, other = encoding.rendered.utf8, encoding.tokenizer, {}
    start, end = encoding.start, encoding.end
    for k, (token_id, index) in enumerate(found):
        own = tokenizer.token_bytes(token_id)
        if own != utf8[start[index] : end[index]]:
            other[str(k)] = own.hex(" ")
    known.update(token_id for token_id, _index in found)
    names = {"ids": [row[0] for row in found], "pieces": [tokenizer.piece(row[0]) for row in found], "bytes": other}
    return names, known
