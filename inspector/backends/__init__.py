"""What a logits backend is, and the visible list of them. One file a backend.

This module computes nothing and imports no torch: a backend's own module is imported when it is first used.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

BACKENDS = ("local", "worker", "openai", "zerogpu")
"""Names for `load_backend`, each a module here: `local` computes in this process, `worker` in a process of its own,
`openai` asks a model server, `zerogpu` borrows a GPU on a Hugging Face Space."""


class Report(Protocol):
    """Called with what the backend is doing now: "waiting", "starting", "reading", "converting", "loading", "computing".

    `done` and `total` are tokens while it is computing, else 0.
    """

    def __call__(self, doing: str, done: int = 0, total: int = 0, /) -> None:
        """Take what is being done."""
        ...


def silent(doing: str, done: int = 0, total: int = 0, /) -> None:
    """Report nothing."""


DTYPES = ("float32", "bfloat16", "float16")
"""What a model that is loaded by us can be computed in; the first is the default."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can give, said before it is asked; what it cannot is refused with CapabilityMissing.

    `dtypes`: names that a request may choose among, the first the default; empty where the choice is not ours.
    """

    full_vocabulary: bool  # every next-token answer holds the logit of every token; else the most probable ones
    prompt_logprobs: bool  # `prompt_logprobs` works
    token_id_prompts: bool  # a prompt is read as ids; else as text, which the other side tokenizes again
    padded_batches: bool  # `padded_logits` works
    dtypes: tuple[str, ...] = ()


LOADED = Capabilities(
    full_vocabulary=True, prompt_logprobs=True, token_id_prompts=True, padded_batches=True, dtypes=DTYPES
)
"""What a model that is loaded by us can give."""


@dataclass(frozen=True, slots=True, eq=False)
class RawLogits:
    """What a model says about the token after a sequence.

    Over its whole vocabulary, or, where `ids` is given, of its most probable tokens only: `values` are then their
    log-probabilities in nats (of the whole softmax), largest first.
    Shapes: `values` float32[V], V = rows of the model's output, or float32[n] with `ids` int64[n].
    Units: `timings_ms` milliseconds: "queue", "load", "prefill"; "decode" for a step that reads one new token.
    `reused`: leading tokens whose keys and values were kept from an earlier request.
    """

    values: np.ndarray
    backend: str
    device: str
    dtype: str
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    ids: np.ndarray | None = None
    reused: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PromptScores:
    """How expected each token of a prompt was, given all before it.

    Shapes: `logprobs` float64[T], nats; `ranks` int64[T], 1 = the most probable. The first token has no past: NaN and 0;
    a rank that the backend does not say is 0.
    """

    logprobs: np.ndarray
    ranks: np.ndarray
    backend: str
    device: str
    dtype: str
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PaddedRows:
    """A batch as a program would send it, right or wrong.

    Shapes: `input_ids`, `attention_mask`, `position_ids` int64[B, T]; `position_ids` None leaves them to the model;
    `read_at` int64[B], the position of each row whose logits are wanted.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray | None
    read_at: np.ndarray


class Backend(Protocol):
    """Gives the next-token logits of a model, and the log-probabilities of a prompt.

    One step of a continuation is `next_token_logits` of the sequence with one token more: a backend keeps the keys and
    values of what it read, or its server does.
    Every method takes `report`, `cancel` and `timeout_s` alike; a cancelled request raises CallCancelled and stops
    computing. Errors of every method: InputInvalid for an empty sequence, TokenOutOfModelVocab, PromptTooLong,
    ModelInvalid, WeightsIncomplete, UnsafeWeights, RemoteCodeRefused, NonFiniteLogits, MemoryLimit, TimeLimit,
    WorkerCrashed, ArtifactMismatch, OptionInvalid for a dtype that is not among its own, CapabilityMissing.
    """

    @property
    def capabilities(self) -> Capabilities:
        """Say what the methods can give."""
        ...

    def next_token_logits(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute each sequence of the batch, one after the other; one result a sequence, in order."""
        ...

    def prompt_logprobs(
        self,
        model: ModelArtifact,
        input_ids: Sequence[int],
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> PromptScores:
        """Score every token of a prompt given its past."""
        ...

    def padded_logits(
        self,
        model: ModelArtifact,
        rows: PaddedRows,
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute a padded batch exactly as it is laid out; one result a row."""
        ...


def load_backend(name: str, url: str | None = None, *, public: bool = False) -> Backend:
    """Give the process's one backend of that name; `url`: the server of `openai`, `public`: a page for others asks.

    Errors: OptionInvalid.
    """
    if name not in BACKENDS:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"no logits backend is named {name!r}",
            stage="logits",
            where={"option": "backend"},
            remedy=f"one of {', '.join(BACKENDS)}",
        )
    if (name == "openai") != (url is not None):
        raise InspectorError(
            ErrorKind.OptionInvalid,
            "the backend openai needs the address of a server" if url is None else f"the backend {name} asks no server",
            stage="logits",
            where={"option": "backend_url"},
            remedy="give both, or neither: --backend openai --backend-url http://127.0.0.1:8000",
        )
    module = importlib.import_module(f"inspector.backends.{name}")
    backend: Backend = module.shared() if url is None else module.connect(url, public)
    return backend
