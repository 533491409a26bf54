"""Next-token logits of a transformers model in this process, on CUDA if there is one, else on the CPU.

A GGUF file is converted once to float32 safetensors in the cache (transformers dequantises it; that takes seconds) and
read from there afterwards; the conversion is keyed by the artifact's digest and its files are hashed again on use.
A model that lacks a tensor is refused: transformers would fill it with random numbers and say nothing.

It never runs code of a repository, loads no pickled weights, samples nothing and keeps no key-value cache between calls.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.backends import RawLogits, Report
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

CONVERSION = "float32-1"  # part of the folder's name: raise the number when the conversion's result changes
MANIFEST = "manifest.json"
MODELS_KEPT = 2
WEIGHT_SUFFIXES = (".safetensors", ".gguf")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in memory. `num_embeddings`: rows of the input embedding; `window`: positions, None if unbounded."""

    model: Any
    num_embeddings: int
    window: int | None
    device: str
    dtype: str


class LocalBackend:
    """Keeps the last `MODELS_KEPT` models in memory. Thread-safe; one forward pass at a time."""

    name = "local"

    def __init__(self, device: str | None = None, dtype: str = "float32") -> None:
        self._device, self._dtype = device, dtype
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, LoadedModel] = OrderedDict()

    def next_token_logits(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        *,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute in this process (see Backend). Time-outs and cancellation take effect between two sequences only:
        a forward pass cannot be broken off; the worker backend can be killed."""
        tell = report or (lambda text: None)
        started = time.perf_counter()
        with self._lock, _memory_errors():
            waited = time.perf_counter()
            loaded = self._model(model, tell)
            ready = time.perf_counter()
            results = []
            for ids in batch:
                _check_running(cancel, started, timeout_s)
                check_ids(ids, loaded.num_embeddings, loaded.window)
                tell("computing")
                before = time.perf_counter()
                values = forward(loaded, ids)
                timings = {
                    "queue": 1000 * (waited - started),
                    "load": 1000 * (ready - waited),
                    "prefill": 1000 * (time.perf_counter() - before),
                }
                results.append(RawLogits(values, self.name, loaded.device, loaded.dtype, timings))
            return results

    def _model(self, artifact: ModelArtifact, tell: Report) -> LoadedModel:
        if artifact.digest not in self._loaded:
            while len(self._loaded) >= MODELS_KEPT:
                self._loaded.popitem(last=False)
            self._loaded[artifact.digest] = load_model(artifact, self._device, self._dtype, tell)
        self._loaded.move_to_end(artifact.digest)
        return self._loaded[artifact.digest]


@lru_cache(maxsize=1)
def shared() -> LocalBackend:
    """Give this process's backend."""
    return LocalBackend()


def check_ids(ids: Sequence[int], num_embeddings: int, window: int | None) -> None:
    """Refuse a sequence that the model cannot read, before the forward pass would fail or read out of bounds.

    Errors: InputInvalid, TokenOutOfModelVocab, PromptTooLong.
    """
    if not len(ids):
        raise _error(ErrorKind.InputInvalid, "there is no token to continue", "give at least one message or text")
    if window is not None and len(ids) > window:
        raise _error(
            ErrorKind.PromptTooLong,
            f"the input has {len(ids)} tokens; the model's window is {window}",
            f"set a context window of at most {window} so that the budget drops messages, or choose another model",
            tokens=len(ids),
            window=window,
        )
    for position, token in enumerate(ids):
        if not 0 <= token < num_embeddings:
            raise _error(
                ErrorKind.TokenOutOfModelVocab,
                f"token id {token} at position {position}: the model has {num_embeddings} embedding rows, "
                f"its ids end at {num_embeddings - 1}",
                "choose the tokenizer that the model was trained with, or a model that has the token",
                token=position,
                id=int(token),
            )


def forward(loaded: LoadedModel, ids: Sequence[int]) -> np.ndarray:
    """Run the model over the sequence and give the logits after its last token: float32[V].

    Errors: NonFiniteLogits.
    """
    import torch

    arguments: dict[str, Any] = {"use_cache": False}
    if "logits_to_keep" in inspect.signature(loaded.model.forward).parameters:
        arguments["logits_to_keep"] = 1
    ids_1T = torch.tensor([list(ids)], dtype=torch.long, device=loaded.device)
    with torch.inference_mode():
        logits_1TV = loaded.model(input_ids=ids_1T, **arguments).logits
    values = logits_1TV[0, -1].to(torch.float32).cpu().numpy()
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise _error(
            ErrorKind.NonFiniteLogits,
            f"{bad} of {len(values)} logits are NaN or infinite",
            f"the weights are damaged or overflow in {loaded.dtype}: choose float32 or another model",
        )
    return values


def load_model(artifact: ModelArtifact, device: str | None, dtype: str, tell: Report) -> LoadedModel:
    """Load an artifact's weights, converting a GGUF once.

    Errors: ModelInvalid, WeightsIncomplete, UnsafeWeights, RemoteCodeRefused, ArtifactMismatch, CacheFull.
    """
    import torch

    _check_files(artifact)
    if artifact.kind == "gguf":
        folder = converted_folder(artifact, tell)
        tell("loading")
        model = _from_pretrained(str(folder), torch.float32)
    else:
        tell("loading")
        with _gathered(artifact) as folder:
            model = _from_pretrained(str(folder), torch.float32)
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    # TF32 would round float32 products to 10 bits and the figures would depend on the GPU
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = model.to(device=chosen, dtype=getattr(torch, dtype)).eval()
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    rows = model.get_input_embeddings().num_embeddings
    return LoadedModel(model, rows, window if isinstance(window, int) else None, chosen, dtype)


def converted_folder(artifact: ModelArtifact, tell: Report) -> Path:
    """Give the folder with the artifact's float32 safetensors, converting them if it is not there or not whole."""
    folder = cache.cache_dir() / "models" / f"{artifact.digest[:32]}-{CONVERSION}"
    if _is_whole(folder, artifact):
        return folder  # no lock: the cache may be read-only
    with cache.lock(folder.name):
        if not _is_whole(folder, artifact):
            shutil.rmtree(folder, ignore_errors=True)
            tell("converting")
            with cache.workspace() as work:
                _convert(artifact, work / "model")
                with cache.disk_errors():
                    folder.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(work / "model", folder)
    return folder


def _convert(artifact: ModelArtifact, target: Path) -> None:
    import torch

    source = Path(next(file.path for file in artifact.files if file.name.endswith(".gguf")))
    model = _from_pretrained(str(source.parent), torch.float32, gguf_file=source.name)
    # save_pretrained would try to quantise again what was dequantised on reading
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    with cache.disk_errors(), _quiet():
        model.save_pretrained(target)
        files = {path.name: cache.sha256_of(path) for path in sorted(target.iterdir())}
        manifest = {"source": {file.name: file.sha256 for file in artifact.files}, "dtype": "float32", "files": files}
        (target / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), "utf-8")


def _is_whole(folder: Path, artifact: ModelArtifact) -> bool:
    """True if the folder holds exactly the files of its manifest, each with its hash, made from this artifact."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        names = {path.name for path in folder.iterdir()} - {MANIFEST}
        same_source = manifest["source"] == {file.name: file.sha256 for file in artifact.files}
        same_names = names == set(manifest["files"])
        return (
            same_source
            and same_names
            and all(cache.sha256_of(folder / name) == digest for name, digest in manifest["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _check_files(artifact: ModelArtifact) -> None:
    """Refuse pickled weights, absent weights, and files whose bytes are not those of the artifact."""
    names = [file.name for file in artifact.files]
    pickled = [name for name in names if name.endswith(PICKLE_SUFFIXES)]
    if pickled:
        raise _error(
            ErrorKind.UnsafeWeights,
            f"{pickled[0]} is a pickle: reading it can run code",
            "convert the weights to safetensors",
            file=pickled[0],
        )
    if not any(name.endswith(WEIGHT_SUFFIXES) for name in names):
        raise _error(ErrorKind.ModelInvalid, "the model has no weights file", "name a safetensors or GGUF model")
    for file in artifact.files:
        try:
            actual = cache.sha256_of(Path(file.path))
        except OSError as fault:
            raise _error(
                ErrorKind.ArtifactUnavailable,
                f"{file.name} cannot be read: {fault.strerror}",
                "resolve the model again, so that the file is fetched anew",
                file=file.name,
            ) from fault
        if actual != file.sha256:
            raise cache.mismatch(file.name, file.sha256, actual)


@contextlib.contextmanager
def _gathered(artifact: ModelArtifact) -> Iterator[Path]:
    """Give one folder in which every file of the artifact lies under its own name: the cache keeps them apart."""
    with cache.workspace() as work:
        for file in artifact.files:
            (work / file.name).symlink_to(Path(file.path).resolve())
        yield work


def _from_pretrained(folder: str, dtype: Any, **arguments: Any) -> Any:
    """Load with transformers, offline, without code of the repository, and with every tensor there."""
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    try:
        with _quiet():
            model, info = loader.from_pretrained(
                folder,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **arguments,
            )
    except (MemoryError, InspectorError):
        raise
    except Exception as fault:  # the library raises every kind for a damaged file
        raise _load_error(fault, folder) from fault
    lacking = sorted(info["missing_keys"]) + sorted(str(key) for key in info["mismatched_keys"])
    if lacking or info["error_msgs"]:
        raise _error(
            ErrorKind.WeightsIncomplete,
            f"{len(lacking)} tensors of the model are missing or have another shape, the first {lacking[:1]}: "
            "its outputs would be noise",
            "fetch the complete weights",
        )
    return model


def _load_error(fault: Exception, folder: str) -> InspectorError:
    if _out_of_memory(fault):
        return _memory_error()
    text = " ".join(str(fault).replace(folder, "the model's folder").split())
    if "trust_remote_code" in text:
        return _error(
            ErrorKind.RemoteCodeRefused,
            "the model needs Python code of its repository; it is not run",
            "choose a model whose architecture transformers has",
        )
    return _error(
        ErrorKind.ModelInvalid,
        f"transformers cannot load the model: {type(fault).__name__}: {text[:300]}",
        "check config.json and the weights; the architecture must be a causal language model of transformers",
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' progress bars off the terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextlib.contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as fault:
        if not _out_of_memory(fault):
            raise
        raise _memory_error() from None  # the frames hold the tensors that filled the memory


def _out_of_memory(fault: BaseException) -> bool:
    text = str(fault)
    return isinstance(fault, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def _memory_error() -> InspectorError:
    return _error(
        ErrorKind.MemoryLimit,
        "the model and its input do not fit into memory",
        "use a shorter input, a smaller model, or a machine with more memory",
    )


def _check_running(cancel: threading.Event | None, started: float, timeout_s: float | None) -> None:
    from inspector.sandbox import CallCancelled

    if cancel is not None and cancel.is_set():
        raise CallCancelled
    if timeout_s is not None and time.perf_counter() - started > timeout_s:
        raise _error(
            ErrorKind.TimeLimit,
            f"the model took longer than the limit of {timeout_s:g} s",
            "use a shorter input, or raise the limit",
        )


def _error(kind: ErrorKind, message: str, remedy: str, **where: Any) -> InspectorError:
    return InspectorError(kind, message, stage="logits", where=where, remedy=remedy)
