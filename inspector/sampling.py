"""What a sampler leaves of a distribution: each filter in turn, what it cuts, and the probabilities after it.

It draws nothing. Numpy only. The filters are those that every engine has; the engines differ in their order, and so in
what is left.
Source: transformers' generation/logits_process.py (order of `_get_logits_processor`), vLLM's sampler, llama.cpp's default
sampler chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.errors import ErrorKind, InspectorError
from inspector.logits import log_softmax, rounded, top_ids

ORDERS = {
    "transformers": ("repetition_penalty", "temperature", "top_k", "top_p", "min_p"),
    "vllm": ("repetition_penalty", "temperature", "min_p", "top_k", "top_p"),
    "llama.cpp": ("repetition_penalty", "top_k", "top_p", "min_p", "temperature"),
}
"""Engine -> its filters in the order in which it applies them."""
_BOUNDS = {
    "temperature": (0.0, 100.0),
    "top_k": (0.0, 1e9),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1e-6, 100.0),
}


@dataclass(frozen=True, slots=True)
class Sampler:
    """Settings; each default leaves the distribution as it is. A temperature of 0 means greedy: one token is left."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    order: str = "transformers"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Sampler:
        """Read settings as generation_config.json names them, or as typed; null and absent ones are off.

        Errors: OptionInvalid.
        """
        values: dict[str, Any] = {}
        for name, (low, high) in _BOUNDS.items():
            value = given.get(name)
            if value is None:
                continue
            sound = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
            if not sound or (name == "top_k" and value != int(value)):
                whole = "a whole number" if name == "top_k" else "a number"
                raise _invalid(name, f"{name} is {value!r}; it is {whole} from {low:g} to {high:g}")
            values[name] = int(value) if name == "top_k" else float(value)
        order = given.get("order", "transformers")
        if order not in ORDERS:
            raise _invalid("order", f"no order of filters is named {str(order)[:40]!r}")
        return cls(**values, order=order)

    def to_dict(self) -> dict[str, Any]:
        """Give the settings."""
        return {name: getattr(self, name) for name in (*_BOUNDS, "order")}


@dataclass(frozen=True, slots=True)
class Cut:
    """What one filter did. `cut`: tokens that it removed; `mass`: the probability that they held before it."""

    filter: str
    value: float
    cut: int
    mass: float
    left: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """One token before and after. `after` is 0 and `cut_by` names the filter where it is cut away."""

    id: int
    raw: float
    after: float
    cut_by: str | None


@dataclass(frozen=True, slots=True, eq=False)
class SamplerView:
    """A distribution through a sampler. Shapes: `logits` float64[V], minus infinity where a token is cut away."""

    sampler: Sampler
    cuts: tuple[Cut, ...]
    rows: tuple[Sampled, ...]
    logits: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Give JSON values, without the logits."""
        return {
            "sampler": self.sampler.to_dict(),
            "cuts": [
                {"filter": cut.filter, "value": cut.value, "cut": cut.cut, "mass": rounded(cut.mass), "left": cut.left}
                for cut in self.cuts
            ],
            "rows": [
                {"id": row.id, "raw": rounded(row.raw), "after": rounded(row.after), "cut_by": row.cut_by}
                for row in self.rows
            ],
        }


def sample_view(
    logits: np.ndarray, sampler: Sampler, input_ids: Sequence[int] = (), *, top_k: int = 20, ids: Sequence[int] = ()
) -> SamplerView:
    """Send raw logits through the sampler's filters; `input_ids` are what a repetition penalty looks at.

    The rows are the raw top-k and `ids`.
    """
    scores = logits.astype(np.float64)
    raw = np.exp(log_softmax(logits))
    cut_by: dict[int, str] = {}
    rows = [int(token) for token in top_ids(logits, top_k)]
    rows += [token for token in dict.fromkeys(ids) if token not in rows and 0 <= token < len(logits)]
    cuts = []
    for name in ORDERS[sampler.order]:
        value = getattr(sampler, name)
        if value == getattr(Sampler(), name):
            continue
        before = _probs(scores)
        scores = _FILTERS[name](scores, value, input_ids)
        gone = (before > 0) & np.isneginf(scores)
        for token in rows:
            if gone[token]:
                cut_by.setdefault(token, name)
        left = int(np.count_nonzero(~np.isneginf(scores)))
        cuts.append(Cut(name, value, int(np.count_nonzero(gone)), float(before[gone].sum()), left))
    after = _probs(scores)
    sampled = tuple(Sampled(token, float(raw[token]), float(after[token]), cut_by.get(token)) for token in rows)
    return SamplerView(sampler, tuple(cuts), sampled, scores)


def _probs(scores: np.ndarray) -> np.ndarray:
    shifted = np.exp(scores - scores.max())
    return shifted / shifted.sum()


def _repetition_penalty(scores: np.ndarray, value: float, input_ids: Sequence[int]) -> np.ndarray:
    seen = np.unique(np.array([token for token in input_ids if 0 <= token < len(scores)], np.int64))
    scores = scores.copy()
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * value, scores[seen] / value)
    return scores


def _temperature(scores: np.ndarray, value: float, _input_ids: Sequence[int]) -> np.ndarray:
    if value == 0:
        kept = np.full_like(scores, -np.inf)
        kept[int(np.argmax(scores))] = 0.0
        return kept
    return scores / value


def _top_k(scores: np.ndarray, value: int, _input_ids: Sequence[int]) -> np.ndarray:
    if value >= len(scores):
        return scores
    return np.where(scores < np.partition(scores, len(scores) - value)[len(scores) - value], -np.inf, scores)


def _top_p(scores: np.ndarray, value: float, _input_ids: Sequence[int]) -> np.ndarray:
    """Cut the least probable tokens that together hold at most 1 - value; the most probable one stays."""
    order = np.argsort(scores, kind="stable")
    gone = np.cumsum(_probs(scores)[order]) <= 1 - value
    gone[-1] = False
    scores = scores.copy()
    scores[order[gone]] = -np.inf
    return scores


def _min_p(scores: np.ndarray, value: float, _input_ids: Sequence[int]) -> np.ndarray:
    probs = _probs(scores)
    gone = probs < value * probs.max()
    gone[int(np.argmax(scores))] = False
    return np.where(gone, -np.inf, scores)


_FILTERS = {
    "repetition_penalty": _repetition_penalty,
    "temperature": _temperature,
    "top_k": _top_k,
    "top_p": _top_p,
    "min_p": _min_p,
}


def _invalid(option: str, message: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid,
        message,
        stage="logits",
        where={"option": option},
        remedy=f"one of {', '.join(ORDERS)}" if option == "order" else "give a number in that range, or leave it out",
    )
