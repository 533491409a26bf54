"""How expected each token of a prompt was to the model, given all before it, and the means of each message.

A token that a model finds very improbable in a template is often one that the model was not trained to see there.
Numpy only; a backend computes the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.backends import PromptScores
from inspector.logits import rounded


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring tokens of one writer: [start, end) of the tokens, what kind wrote them, and the message's path."""

    start: int
    end: int
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class PartHeat:
    """The tokens of one part of the prompt: a message's content (`path`), or all that a kind wrote. Units: nats."""

    kind: str
    path: str
    tokens: int
    total: float
    mean: float
    worst: int


@dataclass(frozen=True, slots=True, eq=False)
class PromptHeat:
    """Shapes: `logprobs` float64[T], `ranks` int64[T], as PromptScores. Units: `total` and `mean` in nats, over the
    T - 1 tokens that have a past: minus the mean is the loss that a trainer would see on the whole prompt."""

    scores: PromptScores
    total: float
    mean: float
    parts: tuple[PartHeat, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the object of schema `heat/1`; the first token's log-probability is null."""
        scores = self.scores
        return {
            "schema": "heat/1",
            "backend": scores.backend,
            "device": scores.device,
            "dtype": scores.dtype,
            "total": rounded(self.total),
            "mean": rounded(self.mean),
            "logprobs": [None if np.isnan(value) else rounded(float(value)) for value in scores.logprobs],
            "ranks": scores.ranks.tolist(),
            "parts": [
                {
                    "kind": part.kind,
                    "path": part.path,
                    "tokens": part.tokens,
                    "total": rounded(part.total),
                    "mean": rounded(part.mean),
                    "worst": part.worst,
                }
                for part in self.parts
            ],
            "timings_ms": {name: round(value, 3) for name, value in scores.timings_ms.items()},
        }


def prompt_heat(scores: PromptScores, runs: Sequence[Run]) -> PromptHeat:
    """Add the sums up. `runs` partition the tokens; a run's tokens without a past do not count."""
    known = ~np.isnan(scores.logprobs)
    total = float(scores.logprobs[known].sum())
    places: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in runs:
        places.setdefault((run.kind, run.path), []).append(np.arange(run.start, run.end))
    parts = []
    for (kind, path), ranges in places.items():
        tokens = np.concatenate(ranges)
        tokens = tokens[known[tokens]]
        if len(tokens):
            values = scores.logprobs[tokens]
            worst = int(tokens[int(np.argmin(values))])
            parts.append(PartHeat(kind, path, len(tokens), float(values.sum()), float(values.mean()), worst))
    return PromptHeat(scores, total, total / max(1, int(known.sum())), tuple(parts))
