"""Forward passes of a loaded transformers model: prompts read in chunks, from kept keys and values where they hold.

Each function is a generator that yields (done, total) tokens after a chunk, so that its caller can let others in, stop, or
tell how far it is; its value is the result. Never more than one chunk of [T, V] logits is in memory.

Whether a model may be read in chunks and from kept keys is tried once on the model itself (`try_chunks`), not assumed: a
sliding window drops keys, some position encodings change with the length, some models have no such cache at all. Those
are read in one pass, every time.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inspector.backends import PaddedRows
from inspector.backends.prefixes import Prefix, Prefixes
from inspector.errors import ErrorKind, InspectorError

CHUNK = {"cpu": 256, "cuda": 4096}
"""Tokens of a chunk. On the CPU a chunk takes about as long as a person waits gladly; smaller ones cost speed."""
LOGITS_BYTES = 128 << 20  # of one chunk's logits, where those of every position are needed
MOST_ROWS = 16
CHUNK_TOLERANCE = {"float32": 1e-3, "bfloat16": 1.0, "float16": 0.1}
CHANGING_ROPE = ("dynamic", "longrope")  # their angles depend on the length of the whole sequence

Steps = Generator[tuple[int, int], None, Any]


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model in memory. `num_embeddings`: rows of the input embedding; `window`: positions, None if unbounded.

    `chunks`: it may be read in chunks and from kept keys; `kept`: what it read lately.
    """

    model: Any
    num_embeddings: int
    window: int | None
    device: str
    dtype: str
    chunks: bool = False
    kept: Prefixes = field(default_factory=Prefixes)

    @property
    def chunk(self) -> int:
        """Tokens of a chunk on this device."""
        return CHUNK["cuda" if self.device.startswith("cuda") else "cpu"]

    @property
    def keeps(self) -> bool:
        """True if it can compute the logits of chosen positions only."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters


@dataclass(frozen=True, slots=True, eq=False)
class LastLogits:
    """`values` float32[V] after the last token; `reused` leading tokens were not read again."""

    values: np.ndarray
    reused: int


def last_logits(loaded: LoadedModel, input_ids: Sequence[int]) -> Steps:
    """Read a prompt and give LastLogits; keep its keys and values. Errors: NonFiniteLogits."""
    ids = np.asarray(input_ids, np.int64)
    known = loaded.kept.answer(ids)
    if known is not None:
        return LastLogits(known, len(ids))
    start, cache = _begin(loaded, ids)
    reused, total, chunk = start, len(ids), loaded.chunk if loaded.chunks else len(ids)
    while True:
        stop = min(start + chunk, total)
        logits_TV = _pass(loaded, ids[start:stop], cache, every=False)
        start = stop
        if stop == total:
            break
        try:
            yield start, total
        except GeneratorExit:  # given up: what was read serves the next request
            loaded.kept.keep(_prefix(ids[:start], cache))
            raise
    values = _finite(logits_TV[-1], loaded.dtype)
    if cache is not None:
        loaded.kept.keep(_prefix(ids, cache))
    loaded.kept.keep_answer(ids, values)
    return LastLogits(values, reused)


def prompt_scores(loaded: LoadedModel, input_ids: Sequence[int]) -> Steps:
    """Give (logprobs float64[T], ranks int64[T]) of every token given its past. Errors: NonFiniteLogits."""
    ids = np.asarray(input_ids, np.int64)
    total = len(ids)
    logprobs, ranks = np.full(total, np.nan), np.zeros(total, np.int64)
    cache = _empty_cache(loaded) if loaded.chunks else None
    chunk = score_chunk(loaded) if loaded.chunks else total
    for start in range(0, total, chunk):
        stop = min(start + chunk, total)
        logits_TV = _pass(loaded, ids[start:stop], cache, every=True)
        wanted = ids[start + 1 : stop + 1]
        places = slice(start + 1, start + 1 + len(wanted))
        logprobs[places], ranks[places] = _scored(logits_TV, wanted, loaded.dtype)
        if stop == total:
            loaded.kept.keep_answer(ids, _finite(logits_TV[-1], loaded.dtype))
        del logits_TV  # else two chunks' logits are alive at once
        yield stop, total
    if cache is not None:
        loaded.kept.keep(_prefix(ids, cache))
    return logprobs, ranks


def score_chunk(loaded: LoadedModel) -> int:
    """Give the tokens of a chunk whose logits of every position are needed."""
    rows = getattr(loaded.model.config.get_text_config(), "vocab_size", None) or loaded.num_embeddings
    return max(1, min(loaded.chunk, LOGITS_BYTES // (4 * rows)))


def padded_logits(loaded: LoadedModel, rows: PaddedRows) -> list[np.ndarray]:
    """Run a batch as it is laid out, in one pass; float32[V] a row, at `read_at`. Errors: InputInvalid, NonFiniteLogits."""
    import torch

    num_rows = len(rows.input_ids)
    if not 1 <= num_rows <= MOST_ROWS:
        raise _error(
            ErrorKind.InputInvalid, f"a batch of {num_rows} rows; 1 to {MOST_ROWS} are read", "send fewer rows"
        )

    def tensor(array: np.ndarray) -> Any:
        return torch.tensor(array, dtype=torch.long, device=loaded.device)

    arguments: dict[str, Any] = {
        "input_ids": tensor(rows.input_ids),
        "attention_mask": tensor(rows.attention_mask),
        "use_cache": False,
    }
    if rows.position_ids is not None:
        arguments["position_ids"] = tensor(rows.position_ids)
    read = np.unique(rows.read_at)
    if loaded.keeps:
        arguments["logits_to_keep"] = tensor(read)
    with torch.inference_mode():
        logits_BKV = loaded.model(**arguments).logits
    places = np.searchsorted(read, rows.read_at) if loaded.keeps else rows.read_at
    return [_finite(logits_BKV[row, int(place)], loaded.dtype) for row, place in enumerate(places)]


def try_chunks(loaded: LoadedModel) -> bool:
    """Say whether this model gives the same logits in chunks as in one pass, by trying it on a few tokens."""
    text = loaded.model.config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) in CHANGING_ROPE:
        return False
    if "past_key_values" not in inspect.signature(loaded.model.forward).parameters or _empty_cache(loaded) is None:
        return False
    count = min(12, loaded.window or 12, loaded.num_embeddings)
    if count < 3:
        return False
    ids = np.linspace(0, loaded.num_embeddings - 1, count).astype(np.int64)
    try:
        whole = _pass(loaded, ids, None, every=False)[-1].float()
        cache = _empty_cache(loaded)
        _pass(loaded, ids[: count // 2], cache, every=False)
        _layers(cache)
        parts = _pass(loaded, ids[count // 2 :], cache, every=False)[-1].float()
    except (TypeError, ValueError, AttributeError, IndexError, NotImplementedError):
        return False
    return bool((whole - parts).abs().max() <= CHUNK_TOLERANCE[loaded.dtype])


def _begin(loaded: LoadedModel, ids: np.ndarray) -> tuple[int, Any]:
    """Give where to begin reading, and the cache that holds what comes before."""
    if not loaded.chunks:
        return 0, None
    cache, prefix = _empty_cache(loaded), loaded.kept.longest(ids)
    if prefix is None:
        return 0, cache
    for layer, pair in zip(cache.layers, prefix.layers, strict=True):
        if pair is not None:
            layer.lazy_initialization(*pair)
            layer.keys, layer.values = pair
    return len(prefix.ids), cache


def _empty_cache(loaded: LoadedModel) -> Any:
    """Give a cache whose layers all keep every token, or None if the model's layers do otherwise."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    cache = DynamicCache(config=loaded.model.config)
    return cache if cache.layers and all(type(layer) is DynamicLayer for layer in cache.layers) else None


def _prefix(ids: np.ndarray, cache: Any) -> Prefix:
    return Prefix(ids, _layers(cache))


def _layers(cache: Any) -> tuple[tuple[Any, Any] | None, ...]:
    return tuple((layer.keys, layer.values) if layer.is_initialized else None for layer in cache.layers)


def _pass(loaded: LoadedModel, ids: np.ndarray, cache: Any, *, every: bool) -> Any:
    """Run the model over some tokens after those of the cache: [T, V] with `every`, else at least the last row."""
    import torch

    arguments: dict[str, Any] = {"use_cache": cache is not None}
    if cache is not None:
        arguments["past_key_values"] = cache
    if loaded.keeps and not every:
        arguments["logits_to_keep"] = 1
    ids_1T = torch.tensor(ids[None], dtype=torch.long, device=loaded.device)
    with torch.inference_mode():
        return loaded.model(input_ids=ids_1T, **arguments).logits[0]


def _scored(logits_TV: Any, wanted: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Give log-probability and rank of the token that came; equal logits are ranked by id, as the top-k does."""
    import torch

    wanted_T1 = torch.tensor(wanted, dtype=torch.long, device=logits_TV.device)[:, None]
    logits_TV = logits_TV[: len(wanted)].float()
    total_T1 = torch.logsumexp(logits_TV, -1, keepdim=True)
    if not bool(torch.isfinite(total_T1).all()):
        raise _not_finite("some", dtype)
    own_T1 = logits_TV.gather(-1, wanted_T1)
    above = (logits_TV > own_T1).sum(-1)
    earlier = torch.arange(logits_TV.shape[1], device=logits_TV.device)[None] < wanted_T1
    above = above + ((logits_TV == own_T1) & earlier).sum(-1)
    return (own_T1 - total_T1)[:, 0].double().cpu().numpy(), (above + 1).cpu().numpy()


def _finite(logits_V: Any, dtype: str) -> np.ndarray:
    import torch

    values = logits_V.to(torch.float32).cpu().numpy().copy()  # a view would keep the whole chunk alive
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise _not_finite(f"{bad} of {len(values)}", dtype)
    values.setflags(write=False)
    return values


def _not_finite(how_many: str, dtype: str) -> InspectorError:
    return _error(
        ErrorKind.NonFiniteLogits,
        f"{how_many} logits are NaN or infinite",
        f"the weights are damaged or overflow in {dtype}: choose float32 or another model",
    )


def _error(kind: ErrorKind, message: str, remedy: str, **where: Any) -> InspectorError:
    return InspectorError(kind, message, stage="logits", where=where, remedy=remedy)
