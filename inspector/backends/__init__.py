"""What a logits backend is, and the visible list of them. One file a backend.

This module computes nothing and imports no torch: a backend's own module is imported when it is first used.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

BACKENDS = ("local", "worker")
"""Names for `load_backend`, each a module here: `local` computes in this process, `worker` in a process of its own."""

Report = Callable[[str], None]
"""Called with what the backend is doing now: "waiting", "starting", "reading", "converting", "loading", "computing"."""


@dataclass(frozen=True, slots=True, eq=False)
class RawLogits:
    """What a model says about the token after a sequence, over its whole vocabulary.

    Shapes: `values` float32[V], V = rows of the model's output. Units: `timings_ms` milliseconds.
    """

    values: np.ndarray
    backend: str
    device: str
    dtype: str
    timings_ms: Mapping[str, float] = field(default_factory=dict)


class Backend(Protocol):
    """Gives the next-token logits of a model."""

    def next_token_logits(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        *,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute each sequence of the batch; one result a sequence, in order.

        Errors: InputInvalid for an empty sequence, TokenOutOfModelVocab, PromptTooLong, ModelInvalid, WeightsIncomplete,
        UnsafeWeights, RemoteCodeRefused, NonFiniteLogits, MemoryLimit, TimeLimit, WorkerCrashed, ArtifactMismatch.
        """
        ...


def load_backend(name: str) -> Backend:
    """Give the process's one backend of that name. Errors: OptionInvalid."""
    if name not in BACKENDS:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"no logits backend is named {name!r}",
            stage="logits",
            where={"option": "backend"},
            remedy=f"one of {', '.join(BACKENDS)}",
        )
    return importlib.import_module(f"inspector.backends.{name}").shared()
