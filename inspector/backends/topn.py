"""What can be said of two distributions of which only the most probable tokens are known.

The mass that is not shown may lie anywhere, so a divergence over it is never a number: it lies between bounds. The
bounds hold whatever the missing tokens are; they are not estimates. Everything is in nats, in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_LN2 = math.log(2.0)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Bounds:
    """A value lies in [low, high]; `high` None: nothing bounds it, a token that is not shown may have probability 0."""

    low: float
    high: float | None

    def __contains__(self, value: float) -> bool:
        return self.low - 1e-9 <= value and (self.high is None or value <= self.high + 1e-9)


@dataclass(frozen=True, slots=True)
class TopDifference:
    """Two top-n distributions compared. `missing_a`, `missing_b`: the probability that is not shown of each."""

    kl_ab: Bounds
    kl_ba: Bounds
    js: Bounds
    missing_a: float
    missing_b: float
    top1_changed: bool


def entropy_bounds(logprobs: np.ndarray, vocabulary: int | None = None) -> Bounds:
    """Bound the entropy of a distribution by its largest log-probabilities; `vocabulary`: how many tokens there are.

    The missing mass has the least entropy in as few tokens as it fits into, none above the smallest shown; the most
    when it is spread evenly.

    >>> entropy_bounds(np.log([0.5, 0.25]), 4)
    Bounds(low=1.0397207708399179, high=1.2130075659799042)
    """
    probs = np.exp(logprobs)
    known = float(-np.dot(probs, logprobs))
    missing = missing_mass(logprobs)
    if missing <= 0.0:
        return Bounds(known, known)
    least = float(probs.min())
    whole, rest = divmod(missing, least)
    low = known - whole * least * math.log(least) - (rest * math.log(rest) if rest > 0.0 else 0.0)
    unseen = 0 if vocabulary is None else vocabulary - len(logprobs)
    return Bounds(low, max(low, known - missing * math.log(missing / unseen)) if unseen > 0 else None)


def missing_mass(logprobs: np.ndarray) -> float:
    """Give the probability of all tokens that are not shown; what float32 rounded below zero is zero."""
    return max(0.0, 1.0 - float(np.exp(logprobs.astype(np.float64)).sum()))


def compare_top(ids_a: np.ndarray, logprobs_a: np.ndarray, ids_b: np.ndarray, logprobs_b: np.ndarray) -> TopDifference:
    """Bound the divergences of two distributions known by their most probable tokens, in any order.

    Tokens shown of both are compared exactly; all others are one lump on either side, which can only lessen a
    divergence (data processing): the lower bounds. KL has no upper bound unless nothing is missing. JS counts at most
    ln 2 times half the mass of the lumps: its upper bound.
    """
    _common, at_a, at_b = np.intersect1d(ids_a, ids_b, assume_unique=True, return_indices=True)
    log_p, log_q = logprobs_a[at_a].astype(np.float64), logprobs_b[at_b].astype(np.float64)
    p, q = np.exp(log_p), np.exp(log_q)
    rest_p, rest_q = _rest(p), _rest(q)
    log_m = np.logaddexp(log_p, log_q) - _LN2
    js_known = (float(np.dot(p, log_p - log_m)) + float(np.dot(q, log_q - log_m))) / 2
    rest_m = (rest_p + rest_q) / 2
    js_low = js_known + (_term(rest_p, rest_m) + _term(rest_q, rest_m)) / 2
    exact = rest_p == rest_q == 0.0
    return TopDifference(
        _kl(float(np.dot(p, log_p - log_q)), rest_p, rest_q, exact),
        _kl(float(np.dot(q, log_q - log_p)), rest_q, rest_p, exact),
        Bounds(max(0.0, js_low), min(_LN2, max(0.0, js_low, js_known + rest_m * _LN2))),
        missing_mass(logprobs_a),
        missing_mass(logprobs_b),
        bool(ids_a[np.argmax(logprobs_a)] != ids_b[np.argmax(logprobs_b)]),
    )


def _rest(probs: np.ndarray) -> float:
    rest = 1.0 - float(probs.sum())
    return rest if rest > _ROUNDING else 0.0


def _kl(known: float, rest_p: float, rest_q: float, exact: bool) -> Bounds:
    low = max(0.0, known + (_term(rest_p, rest_q) if rest_q > 0.0 else 0.0))
    return Bounds(low, low if exact else None)


def _term(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0.0 and q > 0.0 else 0.0
