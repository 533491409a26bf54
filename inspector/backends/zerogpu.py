"""Next-token logits on a ZeroGPU Space: a GPU that the Space borrows for each request, through the package `spaces`.

Importing this module on such a Space registers the function that wants a GPU, which must happen before the page is
launched (app.py). The GPU's process is a fork: it keeps its model between requests while it lives, takes pickled
arguments only, and loses every exception but its name; so errors come back as values. Elsewhere each request is refused.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from inspector import caller
from inspector.backends import LOADED, PaddedRows, PromptScores, RawLogits, Report, silent
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

START_S, TOKENS_PER_S = 10, 2000
"""A request's wanted time, in seconds: loading, and the pace of reading a prompt. Less wanted time is sooner had."""
MOST_S = 60
_in_fork: Any = None  # the LocalBackend of the GPU's process


def on_space() -> bool:
    """Say whether this is a ZeroGPU Space."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def seconds(method: str, model: ModelArtifact, arguments: dict[str, Any]) -> int:
    """Give the GPU time to ask for."""
    rows = arguments.get("batch") or [arguments.get("input_ids", ())]
    return min(MOST_S, START_S + sum(map(len, rows)) // TOKENS_PER_S)


def compute(method: str, model: ModelArtifact, arguments: dict[str, Any]) -> Any:
    """Run one method of LocalBackend in the GPU's process; an InspectorError comes as its `to_dict`."""
    global _in_fork
    if _in_fork is None:
        from inspector.backends.local import LocalBackend

        _in_fork = LocalBackend()
    arguments = dict(arguments)
    try:
        with caller.asked_by(caller.Caller(arguments.pop("owner", ""))):  # a fork knows nothing of the calling thread
            return getattr(_in_fork, method)(model, **arguments)
    except InspectorError as error:
        return error.to_dict()


def _registered() -> Callable[..., Any] | None:
    if not on_space():
        return None
    spaces: Any = importlib.import_module("spaces")
    decorated: Callable[..., Any] = spaces.GPU(duration=seconds)(compute)
    return decorated


_on_gpu = _registered()


class ZeroGPUBackend:
    """Borrows a GPU for each request. Cancellation takes effect before and after it; padded batches are not offered."""

    name = "zerogpu"
    capabilities = replace(LOADED, padded_batches=False)

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
        """Compute on a borrowed GPU (see Backend). Errors: ServerBusy where none is to be had."""
        arguments = {"batch": [list(map(int, ids)) for ids in batch], "dtype": dtype, "timeout_s": timeout_s}
        results: list[RawLogits] = _borrowed("next_token_logits", model, arguments, report, cancel)
        return results

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
        """Score a prompt on a borrowed GPU (see Backend). Errors: ServerBusy where none is to be had."""
        arguments = {"input_ids": list(map(int, input_ids)), "dtype": dtype, "timeout_s": timeout_s}
        scores: PromptScores = _borrowed("prompt_logprobs", model, arguments, report, cancel)
        return scores

    def padded_logits(self, model: ModelArtifact, rows: PaddedRows, **_limits: Any) -> list[RawLogits]:
        """Refuse. Errors: CapabilityMissing."""
        raise _error(ErrorKind.CapabilityMissing, "padded batches are not computed on a borrowed GPU", "use the backend local")  # fmt: skip


def _borrowed(
    method: str, model: ModelArtifact, arguments: dict[str, Any], report: Report | None, cancel: threading.Event | None
) -> Any:
    if _on_gpu is None:
        raise _error(
            ErrorKind.CapabilityMissing,
            "the backend zerogpu is for Hugging Face Spaces on ZeroGPU hardware; this machine is none",
            "use the backend local (it takes this machine's own GPU if it has one) or openai",
        )
    if model.kind == "gguf":
        from inspector.backends.local import converted_folder

        converted_folder(model, report or silent)  # seconds of CPU: not in the GPU's time
    if cancel is not None and cancel.is_set():
        raise CallCancelled
    started = time.perf_counter()
    if report is not None:
        report("waiting")
    try:
        found = _on_gpu(method, model, {**arguments, "owner": caller.current().owner})
    except Exception as fault:  # gradio.Error for quota, queue and worker
        message = " ".join(str(getattr(fault, "message", fault)).split())[:200]
        raise _error(ErrorKind.ServerBusy, f"no GPU could be borrowed: {message}", "wait and try again, or use the backend worker") from fault  # fmt: skip
    if cancel is not None and cancel.is_set():
        raise CallCancelled
    if isinstance(found, dict):
        raise InspectorError.from_dict(found)
    return _with_queue(found, 1000 * (time.perf_counter() - started))


def _with_queue(found: Any, total_ms: float) -> Any:
    """Add what the caller waited beyond the computing to the timings."""
    rows = found if isinstance(found, list) else [found]
    computed = sum(sum(row.timings_ms.values()) for row in rows)
    waited = max(0.0, total_ms - computed)
    made = [
        replace(row, timings_ms={**row.timings_ms, "queue": row.timings_ms.get("queue", 0.0) + waited * (n == 0)})
        for n, row in enumerate(rows)
    ]
    return made if isinstance(found, list) else made[0]


@lru_cache(maxsize=1)
def shared() -> ZeroGPUBackend:
    """Give this process's backend."""
    return ZeroGPUBackend()


def _error(kind: ErrorKind, message: str, remedy: str) -> InspectorError:
    return InspectorError(kind, message, stage="logits", where={"option": "backend"}, remedy=remedy)
