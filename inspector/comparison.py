"""Compare two inspections: where bytes and ids part, why, and what stays shared.

A pure function of two `Inspection`s; it renders and tokenizes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.editscript import Operation, common_prefix, edit_script
from inspector.encode import Encoding, TokenFlag
from inspector.logits import compare_logits
from inspector.pipeline import Inspection


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two inputs part.

    Units: `byte` is a UTF-8 offset into both rendered texts (None: the bytes are equal); `token_a`/`token_b` index
    tokens (None: that side has no more).
    """

    byte: int | None
    token_a: int | None
    token_b: int | None
    reason: str
    where_a: dict[str, Any] | None
    where_b: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two inspections side by side (`comparison/1`). The edit script is made when it is looked at: the page needs none."""

    a: Inspection
    b: Inspection
    equal_bytes: bool
    equal_ids: bool
    first_difference: Difference | None
    shared_prefix_tokens: int
    logits: dict[str, Any] | None

    @property
    def token_diff(self) -> tuple[Operation, ...]:
        """The edit script over ids, or over token bytes where the vocabularies differ (ids would mean other things)."""
        a, b = self.a.encoding, self.b.encoding
        if a is None or b is None:
            return ()
        if a.tokenizer.digest == b.tokenizer.digest:
            return edit_script(a.input_ids.tolist(), b.input_ids.tolist())
        return edit_script(_token_bytes(a), _token_bytes(b))

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of schema `comparison/1`."""
        first = self.first_difference
        return {
            "schema": "comparison/1",
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "equal": {"bytes": self.equal_bytes, "ids": self.equal_ids},
            "first_difference": None
            if first is None
            else {
                "byte": first.byte,
                "token_a": first.token_a,
                "token_b": first.token_b,
                "reason": first.reason,
                "where_a": first.where_a,
                "where_b": first.where_b,
            },
            "token_diff": [{"op": op, "a": [a0, a1], "b": [b0, b1]} for op, a0, a1, b0, b1 in self.token_diff],
            "shared_prefix_tokens": self.shared_prefix_tokens,
            "logits": self.logits,
        }


def compare_inspections(a: Inspection, b: Inspection) -> Comparison:
    """Compare two inspections; sides that failed compare as empty."""
    utf8_a, utf8_b = _utf8(a), _utf8(b)
    ids_a, ids_b = _ids(a), _ids(b)
    same_vocabulary = (
        a.encoding is None or b.encoding is None or a.encoding.tokenizer.digest == b.encoding.tokenizer.digest
    )
    failed = a.error is not None or b.error is not None
    equal_bytes = utf8_a == utf8_b and not failed
    equal_ids = len(ids_a) == len(ids_b) and bool((ids_a == ids_b).all()) and same_vocabulary and not failed
    logits = None
    if a.logits is not None and b.logits is not None:
        logits = compare_logits(a.logits, b.logits)
    return Comparison(
        a=a,
        b=b,
        equal_bytes=equal_bytes,
        equal_ids=equal_ids,
        first_difference=None if equal_bytes and equal_ids else _first_difference(a, b),
        shared_prefix_tokens=common_prefix(ids_a, ids_b) if same_vocabulary else 0,
        logits=logits,
    )


def _utf8(inspection: Inspection) -> bytes:
    return b"" if inspection.rendered is None else inspection.rendered.utf8


def _ids(inspection: Inspection) -> np.ndarray:
    return np.empty(0, dtype=np.int64) if inspection.encoding is None else inspection.encoding.input_ids


def _token_bytes(encoding: Encoding) -> list[bytes]:
    spelled = {
        token_id: encoding.tokenizer.token_bytes(token_id) for token_id in np.unique(encoding.input_ids).tolist()
    }
    return [spelled[token_id] for token_id in encoding.input_ids.tolist()]


def _first_difference(a: Inspection, b: Inspection) -> Difference:
    utf8_a, utf8_b = _utf8(a), _utf8(b)
    byte = common_prefix(np.frombuffer(utf8_a, np.uint8), np.frombuffer(utf8_b, np.uint8))
    if utf8_a == utf8_b:
        index = _first_other_token(a.encoding, b.encoding)
        token_a, token_b = _token_at_index(a.encoding, index), _token_at_index(b.encoding, index)
        reason = _reason_same_bytes(a, b, index)
        return Difference(None, token_a, token_b, reason, _where(a, None, token_a), _where(b, None, token_b))
    token_a, token_b = _token_at_byte(a.encoding, byte), _token_at_byte(b.encoding, byte)
    where_a, where_b = _where(a, byte, token_a), _where(b, byte, token_b)
    return Difference(byte, token_a, token_b, _reason(a, b, byte, where_a, where_b), where_a, where_b)


def _first_other_token(a: Encoding | None, b: Encoding | None) -> int:
    if a is None or b is None:
        return 0
    same = (common_prefix(getattr(a, name), getattr(b, name)) for name in ("input_ids", "start", "end"))
    return min(same)


def _token_at_index(encoding: Encoding | None, index: int) -> int | None:
    return index if encoding is not None and index < len(encoding) else None


def _token_at_byte(encoding: Encoding | None, byte: int) -> int | None:
    if encoding is None:
        return None
    index = int(np.searchsorted(encoding.end, byte, side="right"))
    return index if index < len(encoding) else None


def _where(inspection: Inspection, byte: int | None, token: int | None) -> dict[str, Any] | None:
    """Say who wrote the byte (or the token's first byte): byte, kind, path, line, offset in the field."""
    rendered = inspection.rendered
    if byte is None and token is not None and inspection.encoding is not None:
        byte = int(inspection.encoding.start[token])
    if rendered is None or byte is None or byte >= len(rendered.utf8):
        return None
    row = int(np.searchsorted(rendered.segments.start, byte, side="right")) - 1
    kind, path, line = rendered.segments.origin(row)
    return {"byte": byte, "kind": kind, "path": path, "line": line}


def _reason_same_bytes(a: Inspection, b: Inspection, index: int) -> str:
    first, second = a.encoding, b.encoding
    if first is None or second is None:
        return _reason_stopped(a, b) or "one side has no tokens"
    if first.tokenizer.digest != second.tokenizer.digest:
        return "same text, other tokenizer: the vocabularies or merges cut it differently"
    return f"same text, other ids from token {index}: control tokens are matched under other rules"


def _reason_stopped(a: Inspection, b: Inspection) -> str | None:
    stopped = [(name, side.error) for name, side in (("A", a), ("B", b)) if side.error is not None]
    return "; ".join(f"{name} stopped at {error.stage}: {error.message}" for name, error in stopped) or None


def _reason(
    a: Inspection, b: Inspection, byte: int, where_a: dict[str, Any] | None, where_b: dict[str, Any] | None
) -> str:
    """Name the cause of the first differing byte in words."""
    stopped = _reason_stopped(a, b)
    if stopped:
        return stopped
    if where_a is None or where_b is None:
        longer, where = ("B", where_b) if where_a is None else ("A", where_a)
        return f"{longer} goes on where the other ends: {_describe(where)}" + _other_tokenizer(a, b)
    for test in (_clock_reason, _bos_reason, _whitespace_reason):
        reason = test(a, b, byte, where_a, where_b)
        if reason:
            return reason + _other_tokenizer(a, b)
    return (
        f"A writes {_excerpt(a, byte)}: {_describe(where_a)}; B writes {_excerpt(b, byte)}: {_describe(where_b)}"
        + _other_tokenizer(a, b)
    )


def _other_tokenizer(a: Inspection, b: Inspection) -> str:
    """Say that ids cannot be compared, whatever the bytes do."""
    first, second = a.encoding, b.encoding
    if first is None or second is None or first.tokenizer.digest == second.tokenizer.digest:
        return ""
    return "; the tokenizers differ: an id means another token on each side"


def _excerpt(inspection: Inspection, byte: int, length: int = 24) -> str:
    """Quote what begins at a byte offset, from the control token or else the character that holds it."""
    utf8 = _utf8(inspection)
    token = _token_at_byte(inspection.encoding, byte)
    encoding = inspection.encoding
    if encoding is not None and token is not None and encoding.flags[token] & (TokenFlag.SPECIAL | TokenFlag.ADDED):
        byte = min(byte, int(encoding.start[token]))
    while byte > 0 and utf8[byte] & 0xC0 == 0x80:
        byte -= 1
    text = utf8[byte : byte + 4 * length].decode("utf-8", "ignore")
    return repr(text[:length] + ("…" if len(text) > length else ""))


def _describe(where: dict[str, Any] | None) -> str:
    if where is None:
        return "nothing"
    line = f"template line {where['line']}" if where["line"] else "no template line"
    source = {"template": "template text", "special": f"special token {where['path']}", "clock": "the clock"}
    return f"{source.get(where['kind'], where['path'] or where['kind'])} ({line})"


def _clock_reason(a: Inspection, b: Inspection, byte: int, where_a: dict, where_b: dict) -> str | None:
    if where_a["kind"] == where_b["kind"] == "clock":
        return "the clock: the two sides were rendered at different times or in different formats"
    return None


def _bos_reason(a: Inspection, b: Inspection, byte: int, where_a: dict, where_b: dict) -> str | None:
    counts = [_leading_bos(side.encoding) for side in (a, b)]
    if byte == 0 and counts[0] != counts[1]:
        return f"BOS: A begins {_bos_phrase(a, b, counts[0], True)}, B {_bos_phrase(a, b, counts[1], False)}"
    return None


def _bos_phrase(a: Inspection, b: Inspection, count: int, named: bool) -> str:
    """Say "without <bos>", "with one <bos>", or the same without the token's name."""
    begun = next(side.encoding for side in (a, b) if side.encoding is not None and _leading_bos(side.encoding))
    name = f" {begun.token(0).piece}" if named else ""
    return f"with {'one' if count == 1 else count}{name}" if count else f"without{name}"


def _leading_bos(encoding: Encoding | None) -> int:
    if encoding is None:
        return 0
    other = np.flatnonzero((encoding.flags & TokenFlag.BOS) == 0)
    return int(other[0]) if len(other) else len(encoding)


def _whitespace_reason(a: Inspection, b: Inspection, byte: int, where_a: dict, where_b: dict) -> str | None:
    spaces = b" \t\r\n"
    tail_a, tail_b = _utf8(a)[byte:], _utf8(b)[byte:]
    if tail_a[:1] in spaces and tail_a.lstrip(spaces)[:16] == tail_b.lstrip(spaces)[:16]:
        return f"whitespace: A writes {tail_a[: len(tail_a) - len(tail_a.lstrip(spaces))]!r}, B does not ({_describe(where_a)})"
    if tail_b[:1] in spaces and tail_b.lstrip(spaces)[:16] == tail_a.lstrip(spaces)[:16]:
        return f"whitespace: B writes {tail_b[: len(tail_b) - len(tail_b.lstrip(spaces))]!r}, A does not ({_describe(where_b)})"
    return None
