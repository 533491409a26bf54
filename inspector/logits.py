"""What the model expects next: the logits after the last token, their top-k, and how two of them differ.

The values here are numpy only. Torch is imported by a backend when logits are asked for, never by this module.
It samples nothing and generates nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.backends import Backend, RawLogits, Report, load_backend
from inspector.backends.topn import Bounds, compare_top, missing_mass
from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact
    from inspector.tokenizers.base import Tokenizer

DIGITS = 6
"""Significant digits of every number that `to_dict` prints: float32 holds no more, and the JSON stays the same
whichever way the last bits of a sum fell."""


@dataclass(frozen=True, slots=True)
class TopToken:
    """One row of the top-k. `piece` is None where the tokenizer has no such id, `logit` where a server gives
    log-probabilities only. Units: logprob in nats."""

    id: int
    piece: str | None
    logit: float | None
    logprob: float
    prob: float


@dataclass(frozen=True, slots=True, eq=False)
class NextTokenLogits:
    """The distribution over the next token.

    Over the whole vocabulary, or, where `ids` is given, of the most probable tokens only: `logits` are then their
    log-probabilities, `missing` is the probability of all others, and the entropy is not known. `note`: a remark on how
    a server reads the input.
    Shapes: `logits` float32[V], or float32[n] with `ids` int64[n]. Units: `entropy` in nats; `timings_ms` milliseconds.
    """

    model: str
    backend: str
    device: str
    dtype: str
    entropy: float | None
    top: tuple[TopToken, ...]
    logits: np.ndarray
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    ids: np.ndarray | None = None
    missing: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give the `logits` object of inspection/1; numbers rounded to `DIGITS` significant digits."""
        return {
            "model": self.model,
            "backend": self.backend,
            "device": self.device,
            "dtype": self.dtype,
            "entropy": None if self.entropy is None else rounded(self.entropy),
            "top": [
                {
                    "id": row.id,
                    "piece": row.piece,
                    "logit": None if row.logit is None else rounded(row.logit),
                    "logprob": rounded(row.logprob),
                    "prob": rounded(row.prob),
                }
                for row in self.top
            ],
            "missing": None if self.missing is None else rounded(self.missing),
            "note": self.note or None,
        }


def next_token_logits(
    input_ids: Sequence[int],
    model: ModelArtifact,
    *,
    top_k: int = 10,
    tokenizer: Tokenizer | None = None,
    backend: Backend | None = None,
    report: Report | None = None,
    cancel: threading.Event | None = None,
    timeout_s: float | None = None,
) -> NextTokenLogits:
    """Compute the logits of the token after `input_ids`; `backend` defaults to the model in this process.

    Errors: OptionInvalid for a top_k below 1; those of `Backend.next_token_logits`.
    """
    _check_top_k(top_k)
    backend = backend or load_backend("local")
    try:
        (raw,) = backend.next_token_logits(model, [input_ids], report=report, cancel=cancel, timeout_s=timeout_s)
    except InspectorError as error:
        if error.kind is ErrorKind.TokenOutOfModelVocab and tokenizer is not None and "id" in error.where:
            message = f"{_piece(tokenizer, error.where['id'])!r}: {error.message}"
            raise InspectorError(
                error.kind, message, stage=error.stage, where=error.where, remedy=error.remedy
            ) from error
        raise
    return summarize(raw, model.id, top_k=top_k, tokenizer=tokenizer)


def summarize(raw: RawLogits, model: str, *, top_k: int, tokenizer: Tokenizer | None = None) -> NextTokenLogits:
    """Turn raw logits into the distribution's figures, computed in float64.

    Equal logits are ordered by id, so that the same values always give the same rows.
    """
    _check_top_k(top_k)
    if raw.ids is not None:
        return _summarize_listed(raw, raw.ids, model, top_k, tokenizer)
    logprobs = log_softmax(raw.values)
    probs = np.exp(logprobs)
    rows = tuple(
        TopToken(
            int(token),
            _piece(tokenizer, int(token)),
            float(raw.values[token]),
            float(logprobs[token]),
            float(probs[token]),
        )
        for token in top_ids(raw.values, top_k)
    )
    entropy = float(-np.dot(probs, logprobs)) + 0.0  # + 0.0: a certain token gives 0, not -0
    return NextTokenLogits(model, raw.backend, raw.device, raw.dtype, entropy, rows, raw.values, raw.timings_ms)


def _summarize_listed(
    raw: RawLogits, ids: np.ndarray, model: str, top_k: int, tokenizer: Tokenizer | None
) -> NextTokenLogits:
    rows = tuple(
        TopToken(token, _piece(tokenizer, token), None, value, float(np.exp(value)))
        for token, value in zip(ids[:top_k].tolist(), raw.values[:top_k].astype(np.float64).tolist())
    )
    missing = missing_mass(raw.values)
    return NextTokenLogits(
        model, raw.backend, raw.device, raw.dtype, None, rows, raw.values, raw.timings_ms, ids, missing
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Give the log probabilities in nats: float64[V]."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max()
    return shifted - np.log(np.exp(shifted).sum())


def top_ids(logits: np.ndarray, k: int) -> np.ndarray:
    """Give the ids of the k largest logits, largest first, equal ones by id: int64[min(k, V)]."""
    k = min(k, len(logits))
    threshold = np.partition(logits, len(logits) - k)[len(logits) - k]
    candidates = np.flatnonzero(logits >= threshold)
    return candidates[np.lexsort((candidates, -logits[candidates]))][:k]


def rank_of(logits: np.ndarray, token: int) -> int:
    """Give the rank of a token, 1 = the largest logit, equal ones by id as in `top_ids`."""
    above = np.count_nonzero(logits > logits[token])
    return int(above + np.count_nonzero(logits[:token] == logits[token])) + 1


def compare_logits(a: NextTokenLogits, b: NextTokenLogits) -> dict[str, Any]:
    """Compare two distributions over the same vocabulary: kl_ab, kl_ba, js (nats) and whether the top token changed.

    Source: KL(a‖b) = Σ p_a (log p_a - log p_b); JS = ½ KL(a‖m) + ½ KL(b‖m), m the mean of the two; all in float64 over
    the whole vocabulary. Where a side lists its most probable tokens only, all three are None and `bounds` has what can
    be said (backends/topn.py): [low, high], high None where nothing bounds it.

    Errors: OptionInvalid when the two have different sizes.
    """
    if a.ids is not None or b.ids is not None:
        return _compare_listed(a, b)
    if len(a.logits) != len(b.logits):
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"logits over {len(a.logits)} and {len(b.logits)} tokens cannot be compared",
            stage="logits",
            where={"a": a.model, "b": b.model},
            remedy="compare two inputs of one model",
        )
    kl_ab, kl_ba, js = divergences(a.logits, b.logits)
    return {
        "kl_ab": rounded(kl_ab),
        "kl_ba": rounded(kl_ba),
        "js": rounded(js),
        "top1_changed": bool(top_ids(a.logits, 1)[0] != top_ids(b.logits, 1)[0]),
    }


def _compare_listed(a: NextTokenLogits, b: NextTokenLogits) -> dict[str, Any]:
    found = compare_top(*known_logprobs(a.logits, a.ids), *known_logprobs(b.logits, b.ids))
    return {
        "kl_ab": None,
        "kl_ba": None,
        "js": None,
        "top1_changed": found.top1_changed,
        "bounds": {"kl_ab": _pair(found.kl_ab), "kl_ba": _pair(found.kl_ba), "js": _pair(found.js)},
        "missing": {"a": rounded(found.missing_a), "b": rounded(found.missing_b)},
    }


def known_logprobs(values: np.ndarray, ids: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Give the ids that are known and their log-probabilities, float64. `ids` None: `values` are all logits of a vocabulary."""
    if ids is not None:
        return ids, values.astype(np.float64)
    return np.arange(len(values)), log_softmax(values)


def _pair(bounds: Bounds) -> list[float | None]:
    return [rounded(bounds.low), None if bounds.high is None else rounded(bounds.high)]


def divergences(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Give KL(a‖b), KL(b‖a) and JS of two distributions, from their logits, in nats."""
    log_a, log_b = log_softmax(a), log_softmax(b)
    log_m = np.logaddexp(log_a, log_b) - np.log(2.0)
    js = (_divergence(log_a, log_m) + _divergence(log_b, log_m)) / 2
    return _divergence(log_a, log_b), _divergence(log_b, log_a), js


def _divergence(log_p: np.ndarray, log_q: np.ndarray) -> float:
    """KL(p‖q) in nats; a rounding error below zero is zero."""
    return max(0.0, float(np.dot(np.exp(log_p), log_p - log_q)))


def _piece(tokenizer: Tokenizer | None, token: int) -> str | None:
    return tokenizer.piece(token) if tokenizer is not None and token < tokenizer.size else None


def rounded(value: float) -> float:
    """Round to `DIGITS` significant digits."""
    return float(f"{value:.{DIGITS}g}")


def _check_top_k(top_k: int) -> None:
    if top_k < 1:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"top_k is {top_k}; at least 1 is needed",
            stage="logits",
            where={"option": "top_k"},
            remedy="give top_k a positive number",
        )
