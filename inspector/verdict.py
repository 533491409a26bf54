"""Two next-token distributions on one axis: the rows of both, where each stands in the other, and how far apart they are.

Rows are ids, never texts: two ids that decode to the same text stay two rows, and an id that the tokenizer does not have
is a row that says so. Numpy only; no model is run and no token is named here (the caller brings names).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.backends import RawLogits
from inspector.backends.topn import TopDifference, compare_top
from inspector.logits import divergences, known_logprobs, rank_of, rounded, top_ids


@dataclass(frozen=True, slots=True)
class Pin:
    """A token that is always a row. `why`: "eos" | "turn_end" | "tool_call" | "think" | "typed"; `text`: what it opens or ends."""

    id: int
    why: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One token in one distribution. Units: `logprob` in nats; `logit` None where only log-probabilities are known."""

    logit: float | None
    logprob: float
    prob: float
    rank: int


@dataclass(frozen=True, slots=True)
class Row:
    """One id on both sides. `cells`: one a side, None where a side lists only its most probable tokens and it is not
    among them. `has_token` False: a row of the model beyond the tokenizer's ids."""

    id: int
    cells: tuple[Cell | None, ...]
    pins: tuple[Pin, ...]
    has_token: bool


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two distributions are apart, in nats; None where not every token is known: `bounds` then has what can be
    said. Source: compare_logits."""

    kl_ab: float | None
    kl_ba: float | None
    js: float | None
    max_logit_change: float | None
    top1_changed: bool
    bounds: TopDifference | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give JSON values; `bounds` only where there are some: [low, high], high None where nothing bounds it."""
        numbers = {name: getattr(self, name) for name in ("kl_ab", "kl_ba", "js", "max_logit_change")}
        return {
            **{name: None if value is None else rounded(value) for name, value in numbers.items()},
            "top1_changed": self.top1_changed,
            **({} if self.bounds is None else {"bounds": _bounds_dict(self.bounds)}),
        }


@dataclass(frozen=True, slots=True)
class Side:
    """What is said of one distribution as a whole. `entropy` in nats and `without_token` (the probability on ids that the
    tokenizer does not have) are None where not every token is known; `listed`: tokens that are known."""

    entropy: float | None
    without_token: float | None
    listed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The table. `rows`: the union of the top-k of all sides, most probable first, then the pinned ones that are not
    among them; `distances`: of each side but the first to the first."""

    sides: tuple[Side, ...]
    rows: tuple[Row, ...]
    distances: tuple[Distance, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give JSON values; numbers rounded as those of inspection/1."""
        return {
            "sides": [
                {
                    "entropy": None if side.entropy is None else rounded(side.entropy),
                    "without_token": None if side.without_token is None else rounded(side.without_token),
                    "listed": side.listed,
                }
                for side in self.sides
            ],
            "rows": [
                {
                    "id": row.id,
                    "has_token": row.has_token,
                    "pins": [{"why": pin.why, "text": pin.text} for pin in row.pins],
                    "cells": [None if cell is None else _cell_dict(cell) for cell in row.cells],
                }
                for row in self.rows
            ],
            "distances": [distance.to_dict() for distance in self.distances],
        }


def verdict(
    sides: Sequence[RawLogits], *, top_k: int, num_tokens: int | None = None, pins: Iterable[Pin] = ()
) -> Verdict:
    """Lay the sides out on one axis. `num_tokens`: ids below it are the tokenizer's, None where that is not known.

    A pin beyond the model's rows is left out: there is nothing to say of it.
    """
    scores = [_Scores(side) for side in sides]
    pinned: dict[int, list[Pin]] = {}
    for pin in pins:
        if pin.id < min(score.rows for score in scores) and pin not in pinned.setdefault(pin.id, []):
            pinned[pin.id].append(pin)
    top = {int(token) for side in sides for token in _top(side, top_k)}

    def best(token: int) -> tuple[float, int]:
        return -max(score.logprob(token) for score in scores), token

    order = sorted(top, key=best) + sorted(pinned.keys() - top, key=best)
    rows = tuple(
        Row(
            token,
            tuple(score.cell(token) for score in scores),
            tuple(pinned.get(token, ())),
            num_tokens is None or token < num_tokens,
        )
        for token in order
    )
    return Verdict(
        tuple(score.side(num_tokens) for score in scores),
        rows,
        tuple(distance(sides[0], side) for side in sides[1:]),
    )


def distance(a: RawLogits, b: RawLogits) -> Distance:
    """Compare two distributions. Two of different sizes, or of which not all is known, have no divergence."""
    top1_changed = bool(_top(a, 1)[0] != _top(b, 1)[0])
    if a.ids is not None or b.ids is not None:
        bounds = compare_top(*known_logprobs(a.values, a.ids), *known_logprobs(b.values, b.ids))
        return Distance(None, None, None, None, top1_changed, bounds)
    if len(a.values) != len(b.values):
        return Distance(None, None, None, None, top1_changed)
    change = float(np.abs(a.values.astype(np.float64) - b.values).max())
    return Distance(*divergences(a.values, b.values), change, top1_changed)


def _top(raw: RawLogits, k: int) -> np.ndarray:
    return top_ids(raw.values, k) if raw.ids is None else raw.ids[:k]


class _Scores:
    """One side, ready for questions about single tokens."""

    def __init__(self, raw: RawLogits) -> None:
        self._raw = raw
        ids, self._logprobs = known_logprobs(raw.values, raw.ids)
        self.rows = len(raw.values) if raw.ids is None else np.iinfo(np.int64).max
        self._known: Mapping[int, int] = {} if raw.ids is None else {int(token): k for k, token in enumerate(ids)}

    def logprob(self, token: int) -> float:
        place = token if self._raw.ids is None else self._known.get(token)
        return -np.inf if place is None else float(self._logprobs[place])

    def cell(self, token: int) -> Cell | None:
        values = self._raw.values
        if self._raw.ids is not None:
            if token not in self._known:
                return None
            place = self._known[token]
            logprob = float(self._logprobs[place])
            return Cell(None, logprob, float(np.exp(logprob)), place + 1)
        logprob = float(self._logprobs[token])
        return Cell(float(values[token]), logprob, float(np.exp(logprob)), rank_of(values, token))

    def side(self, num_tokens: int | None) -> Side:
        if self._raw.ids is not None:
            return Side(None, None, len(self._raw.ids))
        probs = np.exp(self._logprobs)
        lost = None if num_tokens is None else float(probs[num_tokens:].sum())
        return Side(float(-np.dot(probs, self._logprobs)) + 0.0, lost, self.rows)


def _bounds_dict(bounds: TopDifference) -> dict[str, Any]:
    pairs = {name: getattr(bounds, name) for name in ("kl_ab", "kl_ba", "js")}
    return {
        **{
            name: [rounded(pair.low), None if pair.high is None else rounded(pair.high)] for name, pair in pairs.items()
        },
        "missing_a": rounded(bounds.missing_a),
        "missing_b": rounded(bounds.missing_b),
    }


def _cell_dict(cell: Cell) -> dict[str, Any]:
    return {
        "logit": None if cell.logit is None else rounded(cell.logit),
        "logprob": rounded(cell.logprob),
        "prob": rounded(cell.prob),
        "rank": cell.rank,
    }
