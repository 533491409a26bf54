"""Next-token logits of a transformers model in this process, on CUDA if there is one, else on the CPU.

A GGUF file is converted once to float32 safetensors in the cache (transformers dequantises it; that takes seconds) and
read from there afterwards; the conversion is keyed by the artifact's digest and its files are hashed again on use.
A model that lacks a tensor is refused: transformers would fill it with random numbers and say nothing.

Requests take turns chunk by chunk (turns.py) and go on from what was read before (reading.py, prefixes.py).
It never runs code of a repository, loads no pickled weights, and samples nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.backends import DTYPES, LOADED, PaddedRows, PromptScores, RawLogits, Report, memory, reading, silent
from inspector.backends.reading import LoadedModel, Steps
from inspector.backends.turns import Turns
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact
    from inspector.training.vocabulary import Trial, VocabularyPlan

CONVERSION = "float32-1"  # part of the folder's name: raise the number when the conversion's result changes
MANIFEST = "manifest.json"
MODELS_KEPT = 2
TRIAL_TOP_K = 8
WEIGHT_SUFFIXES = (".safetensors", ".gguf")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


class LocalBackend:
    """Keeps the last `MODELS_KEPT` models in memory. Thread-safe; one forward pass at a time, of a chunk at most."""

    name = "local"
    capabilities = LOADED

    def __init__(self, device: str | None = None, dtype: str = "float32") -> None:
        self._device, self._dtype = device, dtype
        self._loading = threading.Lock()
        self._turns = Turns()
        self._loaded: OrderedDict[tuple[str, str], LoadedModel] = OrderedDict()

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
        """Compute in this process (see Backend). Time-outs and cancellation take effect between two chunks."""
        call = _Call(report, cancel, timeout_s)
        loaded = self._ready(model, dtype, call)
        for ids in batch:
            check_ids(ids, loaded.num_embeddings, loaded.window)
        results = []
        for ids in batch:
            last, timings = self._run(loaded, reading.last_logits(loaded, ids), call, len(ids), 1)
            if last.reused and len(ids) - last.reused <= 1:
                timings["decode"] = timings.pop("prefill")
            raw = RawLogits(last.values, self.name, loaded.device, loaded.dtype, timings, None, last.reused)
            results.append(raw)
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
        """Score a prompt in this process, a chunk at a time (see Backend)."""
        call = _Call(report, cancel, timeout_s)
        loaded = self._ready(model, dtype, call)
        check_ids(input_ids, loaded.num_embeddings, loaded.window)
        steps = reading.prompt_scores(loaded, input_ids)
        (logprobs, ranks), timings = self._run(
            loaded, steps, call, len(input_ids), reading.score_chunk(loaded) if loaded.chunks else len(input_ids)
        )
        return PromptScores(logprobs, ranks, self.name, loaded.device, loaded.dtype, timings)

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
        """Compute a batch in this process in one pass (see Backend)."""
        call = _Call(report, cancel, timeout_s)
        loaded = self._ready(model, dtype, call)
        for ids in rows.input_ids:
            check_ids(ids, loaded.num_embeddings, loaded.window)

        def steps() -> Steps:
            return reading.padded_logits(loaded, rows)
            yield

        values, timings = self._run(loaded, steps(), call, rows.input_ids.size, rows.input_ids.size)
        return [RawLogits(row, self.name, loaded.device, loaded.dtype, timings) for row in values]

    def vocabulary_trial(
        self,
        model: ModelArtifact,
        planned: VocabularyPlan,
        ids: Sequence[int],
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> Trial:
        """Measure what mean-initialised rows for a plan's new ids would do after `ids`; the model stays as it is.

        Errors: as next_token_logits, OptionInvalid for a plan with another number of rows than the model has.
        """
        from inspector.training.vocabulary import trial

        call = _Call(report, cancel, timeout_s)
        loaded = self._ready(model, dtype, call)
        check_ids(ids, loaded.num_embeddings, loaded.window)

        def steps() -> Steps:
            return trial(loaded.model, planned, ids, top_k=TRIAL_TOP_K)
            yield

        return self._run(loaded, steps(), call, len(ids), len(ids))[0]

    def _ready(self, artifact: ModelArtifact, dtype: str | None, call: _Call) -> LoadedModel:
        dtype = dtype or self._dtype
        if dtype not in DTYPES:
            raise _error(
                ErrorKind.OptionInvalid,
                f"no dtype is named {dtype[:40]!r}",
                f"one of {', '.join(DTYPES)}",
                option="dtype",
            )
        before = time.perf_counter()
        with self._loading, _memory_errors():
            waited = time.perf_counter()
            loaded = self._model(artifact, dtype, call.tell)
        call.queue_s = waited - before
        call.load_s = time.perf_counter() - waited
        return loaded

    def _model(self, artifact: ModelArtifact, dtype: str, tell: Report) -> LoadedModel:
        key = (artifact.digest, dtype)
        if key not in self._loaded:
            while len(self._loaded) >= MODELS_KEPT:
                self._loaded.popitem(last=False)
            self._loaded[key] = load_model(artifact, self._device, dtype, tell)
        self._loaded.move_to_end(key)
        return self._loaded[key]

    def _run(
        self, loaded: LoadedModel, steps: Steps, call: _Call, tokens: int, positions: int
    ) -> tuple[Any, dict[str, float]]:
        """Drive the steps to their end, each in a turn of its own; give their result and the times.

        `positions`: of a chunk, whose logits are computed together.
        """
        queue_s, call.queue_s = call.queue_s, 0.0
        load_s, call.load_s = call.load_s, 0.0
        busy_s, done = 0.0, 0
        with contextlib.closing(steps):
            while True:
                before = time.perf_counter()
                with self._turns.turn(call.check), _memory_errors(loaded, done, tokens):
                    begun = time.perf_counter()
                    queue_s += begun - before
                    call.check()
                    if not done:
                        _check_memory(loaded, tokens, positions)
                    call.tell("computing", done, tokens)
                    try:
                        done, tokens = next(steps)
                    except StopIteration as end:
                        busy_s += time.perf_counter() - begun
                        times = {"queue": queue_s, "load": load_s, "prefill": busy_s}
                        return end.value, {name: 1000 * value for name, value in times.items()}
                    busy_s += time.perf_counter() - begun


class _Call:
    """What one request brought: whom to tell, when to stop. `queue_s`, `load_s`: what its loading took."""

    def __init__(self, report: Report | None, cancel: threading.Event | None, timeout_s: float | None) -> None:
        self.tell: Report = report or silent
        self._cancel, self._timeout_s = cancel, timeout_s
        self._started = time.perf_counter()
        self.queue_s = self.load_s = 0.0

    def check(self) -> None:
        """Errors: TimeLimit, CallCancelled."""
        _check_running(self._cancel, self._started, self._timeout_s)


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
    loaded = LoadedModel(model, rows, window if isinstance(window, int) else None, chosen, dtype)
    return replace(loaded, chunks=reading.try_chunks(loaded))


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
        _check_config(work)
        yield work


_FETCHES = (
    "_attn_implementation",
    "attn_implementation",
    "_attn_implementation_internal",
    "use_kernels",
    "kernel_config",
)


_ALWAYS_BUILT = 100_000_000  # numbers of one matrix that cost nothing to try
_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
)


def _check_config(folder: Path) -> None:
    """Refuse a configuration that its weights cannot fill, before anything of its sizes is built; take out of a copy of
    it what would make transformers fetch kernels.

    Errors: ModelInvalid.
    """
    place = folder / "config.json"
    try:
        config = json.loads(place.read_bytes())
    except OSError:
        return  # transformers says that there is none
    except (ValueError, RecursionError) as fault:
        raise _error(ErrorKind.ModelInvalid, f"config.json is not JSON: {str(fault)[:100]}", "fetch it again") from None
    if not isinstance(config, dict):
        raise _error(ErrorKind.ModelInvalid, "config.json is no object", "fetch it again")
    text = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    for name in _SIZES:
        if type(text.get(name)) is int and text[name] < 1:
            raise _error(ErrorKind.ModelInvalid, f"config.json says {name} {text[name]}", "fetch the right config.json")
    rows, width = text.get("vocab_size"), text.get("hidden_size")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name.endswith(WEIGHT_SUFFIXES))
    # two bits a number are less than any file has
    if isinstance(rows, int) and isinstance(width, int) and max(rows, width) * width > max(4 * size, _ALWAYS_BUILT):
        raise _error(
            ErrorKind.ModelInvalid,
            f"config.json says vocab_size {rows:,} and hidden_size {width:,}; the weights have {size:,} bytes",
            "fetch the complete weights, or the config.json that belongs to them",
        )
    method = config.get("quantization_config")
    quantized = method.get("quant_method") if isinstance(method, dict) else method
    if method is not None and not _known_quantization(quantized):
        raise _error(
            ErrorKind.ModelInvalid,
            f"config.json says the quantization {str(quantized)[:60]!r}, which transformers does not know",
            "take the model's unquantized weights",
        )
    cleaned = _without(config, _FETCHES)
    if cleaned != config:
        place.unlink()
        place.write_text(json.dumps(cleaned), "utf-8")


def _known_quantization(name: Any) -> bool:
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    return isinstance(name, str) and name in AUTO_QUANTIZATION_CONFIG_MAPPING


def _without(config: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {
        key: _without(value, names) if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in names
    }


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
def _memory_errors(loaded: LoadedModel | None = None, done: int = 0, tokens: int = 0) -> Iterator[None]:
    """Turn a full memory into MemoryLimit, and give back what was kept. `done` tokens had been read."""
    try:
        yield
    except (MemoryError, RuntimeError) as fault:
        if not _out_of_memory(fault):
            raise
        if loaded is not None:
            loaded.kept.clear()
            raise _too_many(tokens, done) from None  # the frames hold the tensors that filled the memory
        raise _memory_error() from None


def _check_memory(loaded: LoadedModel, tokens: int, positions: int) -> None:
    """Refuse what would not fit before the kernel ends this process for it; forget what was kept if that helps.

    Errors: MemoryLimit with the number of tokens that fit.
    """
    free = memory.free_bytes(loaded.device)
    if free is None:
        return
    itemsize = 4 if loaded.dtype == "float32" else 2
    config = loaded.model.config
    arguments = (config, loaded.num_embeddings, loaded.chunk if loaded.chunks else tokens, tokens, itemsize, positions)
    if memory.tokens_that_fit(*arguments, free) >= tokens:
        return
    loaded.kept.clear()
    if loaded.device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
    fit = memory.tokens_that_fit(*arguments, memory.free_bytes(loaded.device) or free)
    if fit < tokens:
        raise _too_many(tokens, fit)


def _too_many(tokens: int, fit: int) -> InspectorError:
    return _error(
        ErrorKind.MemoryLimit,
        f"{tokens} tokens do not fit into the memory beside the model; about {fit} would",
        f"shorten the input to {fit} tokens (a context window drops messages), choose a smaller dtype or model, "
        "or a machine with more memory",
        tokens=tokens,
        fit=fit,
    )


def _out_of_memory(fault: BaseException) -> bool:
    text = str(fault)
    return isinstance(fault, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def _memory_error() -> InspectorError:
    return _error(
        ErrorKind.MemoryLimit,
        "the model does not fit into memory",
        "use a smaller model or dtype, or a machine with more memory",
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
