"""Compare two inspections: where bytes and ids part, why, and what stays shared.

A pure function of two `Inspection`s; it renders and tokenizes nothing. Regions come from hunks.py, reasons from
reasons.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.editscript import Operation, common_prefix, edit_script
from inspector.encode import Encoding
from inspector.hunks import Region, region_pair, regions
from inspector.logits import compare_logits
from inspector.pipeline import Inspection
from inspector.reasons import Facts, Reason, explain

MAX_HUNKS = 200  # that are listed with a reason


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two inputs part.

    Units: `byte` is a UTF-8 offset into both rendered texts (None: the bytes are equal); `token_a`/`token_b` index
    tokens (None: that side has no more). `code` names the reason, `reason` is the sentence.
    """

    byte: int | None
    token_a: int | None
    token_b: int | None
    reason: str
    where_a: dict[str, Any] | None
    where_b: dict[str, Any] | None
    code: Reason = Reason.UNKNOWN


@dataclass(frozen=True, slots=True)
class Hunk:
    """One region in which the two differ, with its reason.

    Where the two texts of a region are equal, its tokens are not.
    """

    code: Reason
    reason: str
    a: Region
    b: Region

    def to_dict(self) -> dict[str, Any]:
        """Give reason and ranges as a JSON value."""
        sides = {
            name: {"bytes": [region.start, region.end], "tokens": [region.first, region.last]}
            for name, region in (("a", self.a), ("b", self.b))
        }
        return {"reason_code": self.code.value, "reason": self.reason, **sides}


@dataclass(frozen=True, slots=True)
class Hunks:
    """The differing regions in order: the first ones with their reasons, and how many there are."""

    listed: tuple[Hunk, ...]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Give the `hunks` object of `comparison/1`."""
        return {"total": self.total, "listed": [hunk.to_dict() for hunk in self.listed]}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two inspections side by side (`comparison/1`). Edit script and hunks are made when they are looked at."""

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

    @property
    def hunks(self) -> Hunks:
        """Every region in which the two differ; the first 200 with their reasons. None where a side has no tokens."""
        return _hunks(self.a, self.b)

    @property
    def delta(self) -> dict[str, Any]:
        """Token counts of both sides, in all, by origin, and of the budgets: pairs of numbers, A's first."""
        counts = [{} if e is None else e.counts()["by_origin"] for e in (self.a.encoding, self.b.encoding)]
        origins = {kind: [side.get(kind, 0) for side in counts] for kind in sorted({**counts[0], **counts[1]})}
        budgets = [_budget_numbers(side) for side in (self.a, self.b)]
        names = dict.fromkeys([*budgets[0], *budgets[1]])
        return {
            "tokens": {name: len(_ids(side)) for name, side in (("a", self.a), ("b", self.b))},
            "by_origin": origins,
            "budget": {name: [side.get(name) for side in budgets] for name in names} or None,
        }

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
                "reason_code": first.code.value,
                "reason": first.reason,
                "where_a": first.where_a,
                "where_b": first.where_b,
            },
            "token_diff": [{"op": op, "a": [a0, a1], "b": [b0, b1]} for op, a0, a1, b0, b1 in self.token_diff],
            "hunks": self.hunks.to_dict(),
            "delta": self.delta,
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


def _budget_numbers(inspection: Inspection) -> dict[str, int]:
    decision = inspection.budget
    if decision is None:
        return {}
    return {
        "max_input_tokens": decision.budget.max_input_tokens,
        "input_tokens": decision.input_tokens,
        "required_tokens": decision.required_tokens,
        "kept": len(decision.kept),
        "cut": len(decision.cut),
        "dropped": len(decision.dropped),
    }


@functools.lru_cache(
    maxsize=2
)  # of the comparison that is being looked at: the regions serve hunks and first difference
def _regions(a: Encoding, b: Encoding) -> np.ndarray:
    return regions(a, b)


def _hunks(a: Inspection, b: Inspection) -> Hunks:
    if a.encoding is None or b.encoding is None:
        return Hunks((), 0)
    found = _regions(a.encoding, b.encoding)
    facts = Facts(a, b)
    return Hunks(tuple(_hunk(facts, *region_pair(row)) for row in found[:MAX_HUNKS]), len(found))


def _hunk(facts: Facts, a: Region, b: Region) -> Hunk:
    code, reason = explain(facts.case(a, b))
    return Hunk(code, reason, a, b)


def _first_difference(a: Inspection, b: Inspection) -> Difference | None:
    utf8_a, utf8_b = _utf8(a), _utf8(b)
    code, reason = _first_reason(a, b)
    if utf8_a == utf8_b:
        index = _first_other_token(a.encoding, b.encoding)
        token_a, token_b = _token_at_index(a.encoding, index), _token_at_index(b.encoding, index)
        return Difference(None, token_a, token_b, reason, _where(a, None, token_a), _where(b, None, token_b), code)
    byte = common_prefix(np.frombuffer(utf8_a, np.uint8), np.frombuffer(utf8_b, np.uint8))
    token_a, token_b = _token_at_byte(a.encoding, byte), _token_at_byte(b.encoding, byte)
    return Difference(byte, token_a, token_b, reason, _where(a, byte, token_a), _where(b, byte, token_b), code)


def _first_reason(a: Inspection, b: Inspection) -> tuple[Reason, str]:
    stopped = [(name, side.error) for name, side in (("A", a), ("B", b)) if side.error is not None]
    if stopped or a.encoding is None or b.encoding is None:
        words = [f"{name} stopped at {error.stage}: {error.message}" for name, error in stopped]
        return Reason.STOPPED, "; ".join(words) or "one side has no tokens"
    found = _regions(a.encoding, b.encoding)
    if not len(found):
        return Reason.VOCABULARY, "the same ids of two tokenizers" + _other_tokenizer(a, b)
    code, reason = explain(Facts(a, b).case(*_first_region(found, _utf8(a), _utf8(b))))
    return code, reason + _other_tokenizer(a, b)


def _first_region(found: np.ndarray, utf8_a: bytes, utf8_b: bytes) -> tuple[Region, Region]:
    """Give the region that the first difference lies in: where the texts differ, not one before it of other ids only."""
    for x, y in map(region_pair, found if utf8_a != utf8_b else ()):
        if utf8_a[x.start : x.end] != utf8_b[y.start : y.end]:
            return x, y
    return region_pair(found[0])


def _other_tokenizer(a: Inspection, b: Inspection) -> str:
    """Say that ids cannot be compared, whatever the bytes do."""
    first, second = a.encoding, b.encoding
    if first is None or second is None or first.tokenizer.digest == second.tokenizer.digest:
        return ""
    return "; the tokenizers differ: an id means another token on each side"


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
