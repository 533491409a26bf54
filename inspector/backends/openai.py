"""Next-token log-probabilities from a model server given by its URL: vLLM, SGLang, llama.cpp, or another one that
speaks OpenAI's completions.

Prompts are sent as token ids, never as text: a server would tokenize text again, and the figures would be about another
prompt. A server that reads no ids, drops log-probabilities silently, reads another number of tokens or names tokens by
text that nobody can resolve is refused by name. What servers give is normalised (log-probabilities); logits are not had.

It samples nothing, sends no text of a conversation but to a server's own `/tokenize`, and pads nothing.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from inspector.backends import Capabilities, PaddedRows, PromptScores, RawLogits, Report
from inspector.backends.endpoint import Answer, Endpoint, Refused, ask, endpoint
from inspector.editscript import first_difference
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled
from inspector.sources.resolve import ModelArtifact

TokenOf = Callable[[bytes], int | None]
"""The one token of these bytes, None where there is none or more than one."""

SGLANG_MOST = 1000
"""Log-probabilities asked of SGLang, which sets no bound and does not say how many tokens its model has."""
OTHERS_MOST = 20
"""Asked of a server that nothing is known about; OpenAI's own bound."""
DESCRIBED_S = 60.0
"""How long what a server said of itself is believed."""
_KINDS = {"llamacpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
_MASS_MOST = 1.01  # probabilities that sum to more are none


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself. `kind`: "llama.cpp", "vllm", "sglang" or "other"; None: it does not say."""

    kind: str
    models: tuple[str, ...]
    vocabulary: int | None = None
    window: int | None = None
    dtype: str = "unknown"


@dataclass(frozen=True, slots=True)
class Pairing:
    """Whether a server's tokenizer is the one the ids came from. `same` None: the server cannot tell, `note` says why."""

    same: bool | None
    note: str


@dataclass(frozen=True, slots=True)
class _Limits:
    """What a caller allows one request."""

    report: Report | None
    cancel: threading.Event | None
    timeout_s: float | None

    def tell(self, doing: str) -> None:
        if self.report is not None:
            self.report(doing)
        if self.cancel is not None and self.cancel.is_set():
            raise CallCancelled


_NO_LIMITS = _Limits(None, None, None)


@dataclass(frozen=True, slots=True)
class _Next:
    """One answer about the next token: (id, log-probability) in the server's order; what else it said of the request."""

    entries: list[tuple[int, float]]
    read: int | None  # tokens of the prompt, as the server counts them
    reused: int
    prefill_ms: float | None


class OpenAIBackend:
    """Asks one server. Thread-safe; one request at a time and prompt, so that prompts with a prefix in common can use
    the server's own cache.

    `top_n`: log-probabilities wanted, None for as many as the server gives. `token_of`: resolves tokens that a server
    names by text only. `public`: a page for others asks.
    Errors: OptionInvalid for an address that is not to be asked.
    """

    name = "openai"

    def __init__(
        self, url: str, *, public: bool = False, top_n: int | None = None, token_of: TokenOf | None = None
    ) -> None:
        self._endpoint: Endpoint = endpoint(url, public=public)
        self._top_n, self._token_of = top_n, token_of
        self._lock = threading.Lock()
        self._described: tuple[float, Server] | None = None
        self._most: int | None = None  # the server's own bound, once it has named it
        self._echoes: bool | None = None

    # --- what it is ---

    @property
    def capabilities(self) -> Capabilities:
        """Ask the server what it can give. Errors: those of `Backend` and of endpoint.ask."""
        server = self.server()
        everything = server.vocabulary is not None if server.kind == "llama.cpp" else self._gives_all(server)
        return Capabilities(
            full_vocabulary=everything and self._top_n is None,
            prompt_logprobs=server.kind in ("vllm", "sglang") or (server.kind == "other" and self._can_echo(server)),
            token_id_prompts=True,
            padded_batches=False,
        )

    def server(self, limits: _Limits = _NO_LIMITS) -> Server:
        """Ask the server what it is; what it said is kept for `DESCRIBED_S`."""
        with self._lock:
            known = self._described
        if known is not None and time.monotonic() - known[0] < DESCRIBED_S:
            return known[1]
        server = _described(self._get("/v1/models", limits))
        with self._lock:
            self._described = (time.monotonic(), server)
        return server

    def model(self, name: str | None = None) -> ModelArtifact:
        """Give the server's model of that name, or its only one.

        Its files are not here: it has no digest, and its id is the name that the server gives it (of a path, the last
        part). Errors: ServerModelMissing; those of endpoint.ask.
        """
        models = self.server().models
        if name is None and len(models) != 1:
            raise self._error(
                ErrorKind.ServerModelMissing,
                f"the server has {len(models)} models" if models else "the server does not say which model it has",
                f"give --model one of {', '.join(models[:8])}" if models else "give --model its name",
            )
        chosen = name or models[0]
        return ModelArtifact(chosen, chosen.rstrip("/").rpartition("/")[2] if chosen[:1] in "/~." else chosen, (), "", "remote")  # fmt: skip

    # --- what it gives ---

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
        """Ask for each sequence, one after the other (see Backend). Values are log-probabilities, over the whole
        vocabulary where the server gives it, else of its most probable tokens, with their ids.

        Errors: those of `Backend`; LogprobsMissing, and those of endpoint.ask.
        """
        self._check_dtype(dtype)
        limits = _Limits(report, cancel, timeout_s)
        server = self.server(limits)
        return [self._raw(server, model, ids, limits) for ids in batch]

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
        """Score every token of a prompt (see Backend).

        Errors: those of `Backend`; CapabilityMissing; LogprobsMissing, and those of endpoint.ask.
        """
        self._check_dtype(dtype)
        limits = _Limits(report, cancel, timeout_s)
        server = self.server(limits)
        if server.kind == "llama.cpp":
            raise self._error(
                ErrorKind.CapabilityMissing,
                "llama.cpp's server gives no log-probabilities of a prompt",
                "use the local backend, vLLM or SGLang for prompt heat",
            )
        _check_ids(input_ids, server)
        limits.tell("computing")
        started = time.perf_counter()
        scored = {"vllm": self._scores_vllm, "sglang": self._scores_sglang}.get(server.kind, self._scores_echo)
        logprobs, ranks = scored(model, list(map(int, input_ids)), limits)
        timings = {"prefill": 1000 * (time.perf_counter() - started)}
        return PromptScores(logprobs, ranks, self.name, server.kind, server.dtype, timings)

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
        """Refuse: no server takes masks and positions. Errors: CapabilityMissing."""
        raise self._error(ErrorKind.CapabilityMissing, "a server lays its batches out itself", "use the local backend")

    def check_tokenizer(self, model: ModelArtifact, text: str, ids: Sequence[int]) -> Pairing:
        """Ask the server to tokenize the prompt's text, and compare with its ids.

        Other ids for the same text are a remark where the server reads our ids as the same text, else an error: the
        server's ids mean other tokens, and its answers would be about another prompt.
        Errors: ModelInvalid; those of endpoint.ask.
        """
        try:
            theirs = self._tokenize(model, text)
            if theirs == list(ids):
                return Pairing(True, "")
            back = self._detokenize(model, ids)
        except _NoTokenizer as none:
            return Pairing(None, str(none))
        place = first_difference(theirs, ids)
        if back.strip() == text.strip():
            return Pairing(False, f"the server cuts this text another way from token {place} on, in tokens of the same vocabulary")  # fmt: skip
        at = first_difference(back, text)
        raise InspectorError(
            ErrorKind.ModelInvalid,
            f"the server reads these ids as another text, from character {at} on: {back[at : at + 20]!r} for {text[at : at + 20]!r}",
            stage="logits",
            where={"url": self._endpoint.root, "token": place},
            remedy=f"choose the tokenizer that {model.id} was trained with, or the server of another model",
        )

    # --- next token ---

    def _raw(self, server: Server, model: ModelArtifact, ids: Sequence[int], limits: _Limits) -> RawLogits:
        _check_ids(ids, server)
        limits.tell("computing")
        started = time.perf_counter()
        wanted = self._wanted(server)
        ask_next = self._next_sglang if server.kind == "sglang" else self._next_completions
        found = ask_next(server, model, list(map(int, ids)), wanted, limits)
        if found.read is not None and found.read != len(ids):
            raise self._error(
                ErrorKind.ServerError,
                f"the server read {found.read} tokens where {len(ids)} ids were sent: it does not take prompts as ids",
                "use a server that does (vLLM, SGLang, llama.cpp)",
            )
        values, order = self._checked(found.entries, wanted)
        total = 1000 * (time.perf_counter() - started)
        prefill = total if found.prefill_ms is None else min(found.prefill_ms, total)
        timings = {"prefill": prefill, "server": total - prefill}
        return RawLogits(values, self.name, server.kind, server.dtype, timings, order, found.reused)

    def _wanted(self, server: Server) -> int:
        """How many log-probabilities to ask for; -1: all, where the server reads it so."""
        if self._top_n is not None:
            return self._top_n
        if self._most is not None:
            return self._most
        return {"llama.cpp": server.vocabulary or OTHERS_MOST, "vllm": -1, "sglang": SGLANG_MOST}.get(server.kind, OTHERS_MOST)  # fmt: skip

    def _checked(self, entries: list[tuple[int, float]], wanted: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Give values and ids, largest first; ids None for a whole vocabulary, in order of its ids."""
        if not entries:
            raise self._no_logprobs()
        order = np.array([token for token, _value in entries], np.int64)
        values = np.array([value for _token, value in entries], np.float64)
        if np.isnan(values).any() or len(np.unique(order)) != len(order):
            raise self._error(ErrorKind.NonFiniteLogits, "the server's log-probabilities hold NaN or a token twice", "look into the server's log")  # fmt: skip
        mass = float(np.exp(np.minimum(values, 1.0)).sum())
        if mass > _MASS_MOST:
            raise self._error(ErrorKind.ServerError, f"the server's probabilities sum to {mass:.4g}: they are none", "report it to the server's makers; use another server")  # fmt: skip
        all_asked = wanted == -1 or wanted >= len(order)
        if all_asked and len(order) > OTHERS_MOST and mass > 0.99 and np.array_equal(np.sort(order), np.arange(len(order))):  # fmt: skip
            full = np.empty(len(order), np.float32)
            full[order] = values
            return full, None
        ranked = np.lexsort((order, -values))
        return values[ranked].astype(np.float32), order[ranked]

    def _next_completions(
        self, server: Server, model: ModelArtifact, ids: list[int], wanted: int, limits: _Limits
    ) -> _Next:
        body = {"model": model.ref, "prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": wanted}
        if server.kind != "llama.cpp":
            body["return_tokens_as_token_ids"] = True
        answer = self._most_allowed(body, limits)
        choice = self._choice(answer)
        usage = answer.value.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        timings = answer.value.get("timings")
        timings = timings if isinstance(timings, dict) else {}
        details = usage.get("prompt_tokens_details")
        return _Next(
            self._entries(choice.get("logprobs")),
            _whole(usage.get("prompt_tokens")),
            _whole(timings.get("cache_n"))
            or _whole(details.get("cached_tokens") if isinstance(details, dict) else 0)
            or 0,
            _number(timings.get("prompt_ms")),
        )

    def _most_allowed(self, body: dict[str, Any], limits: _Limits) -> Answer:
        """Ask; where the server names a bound on log-probabilities, or a field that it does not know, ask again so."""
        for _attempt in range(3):
            try:
                return self._post("/v1/completions", body, limits)
            except Refused as refused:
                bound = _bound_of(refused.message)
                if bound is not None and not 0 <= body["logprobs"] <= bound:
                    self._most = bound
                    body = {**body, "logprobs": bound}
                elif "return_tokens_as_token_ids" in refused.message and "return_tokens_as_token_ids" in body:
                    body = {key: value for key, value in body.items() if key != "return_tokens_as_token_ids"}
                else:
                    raise self._refused(refused, body["prompt"]) from None
        raise self._error(
            ErrorKind.ServerError, "the server refuses every number of log-probabilities", "ask its makers"
        )

    def _next_sglang(self, server: Server, model: ModelArtifact, ids: list[int], wanted: int, limits: _Limits) -> _Next:
        body = {
            "input_ids": ids,
            "sampling_params": {"temperature": 0, "max_new_tokens": 1},
            "return_logprob": True,
            "top_logprobs_num": wanted,
            "logprob_start_len": len(ids),
        }
        meta = self._generated(body, limits)
        rows = meta.get("output_top_logprobs")
        first = rows[0] if isinstance(rows, list) and rows else None
        entries = [(int(row[1]), float(row[0])) for row in first or ()]
        return _Next(entries, _whole(meta.get("prompt_tokens")), _whole(meta.get("cached_tokens")) or 0, None)

    def _generated(self, body: dict[str, Any], limits: _Limits) -> dict[str, Any]:
        try:
            value = self._post("/generate", body, limits).value
        except Refused as refused:
            raise self._refused(refused, body["input_ids"]) from None
        meta = value.get("meta_info") if isinstance(value, dict) else None
        if not isinstance(meta, dict):
            raise self._no_logprobs()
        return meta

    def _entries(self, logprobs: Any) -> list[tuple[int, float]]:
        """Read the last token's distribution in either shape of `logprobs`."""
        if not isinstance(logprobs, dict):
            raise self._no_logprobs()
        rows = logprobs.get("content")
        if isinstance(rows, list) and rows:  # as chat completions give it; llama.cpp gives it everywhere
            return self._named((row, row.get("logprob")) for row in rows[-1].get("top_logprobs") or ())
        rows = logprobs.get("top_logprobs")
        if isinstance(rows, list) and rows and isinstance(rows[-1], dict):
            return self._named(({"token": text}, value) for text, value in rows[-1].items())
        raise self._no_logprobs()

    def _named(self, rows: Any) -> list[tuple[int, float]]:
        entries, unknown = [], []
        for row, value in rows:
            token = self._id_of(row)
            if token is None:
                unknown.append(str(row.get("token")))
            elif _number(value) is not None:
                entries.append((token, float(value)))
        if unknown:
            raise self._error(
                ErrorKind.LogprobsMissing,
                f"the server names tokens by their text, and {len(unknown)} of {len(unknown) + len(entries)} texts, "
                f"such as {unknown[0][:20]!r}, are not those of one token",
                "use a server that gives token ids (vLLM, SGLang, llama.cpp)",
            )
        return entries

    def _id_of(self, row: dict[str, Any]) -> int | None:
        given = row.get("id", row.get("token_id"))
        text = row.get("token")
        if isinstance(given, int):
            return given
        if isinstance(text, str) and (named := re.fullmatch(r"token_id:(\d{1,9})", text)):
            return int(named[1])
        if self._token_of is None or not isinstance(text, str):
            return None
        data = row.get("bytes")
        return self._token_of(bytes(data) if isinstance(data, list) else text.encode("utf-8", "surrogatepass"))

    # --- scores of a prompt ---

    def _scores_vllm(self, model: ModelArtifact, ids: list[int], limits: _Limits) -> tuple[np.ndarray, np.ndarray]:
        body = {"model": model.ref, "prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        try:
            choice = self._choice(self._post("/v1/completions", body, limits))
        except Refused as refused:
            raise self._refused(refused, ids) from None
        rows = choice.get("prompt_logprobs")
        if not isinstance(rows, list) or len(rows) != len(ids):
            raise self._no_logprobs()
        found = [{} if row is None else row.get(str(token)) or {} for row, token in zip(rows, ids)]
        return self._scores([row.get("logprob") for row in found], [row.get("rank") for row in found])

    def _scores_sglang(self, model: ModelArtifact, ids: list[int], limits: _Limits) -> tuple[np.ndarray, np.ndarray]:
        body = {
            "input_ids": ids,
            "sampling_params": {"temperature": 0, "max_new_tokens": 1},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        rows = self._generated(body, limits).get("input_token_logprobs")
        if not isinstance(rows, list) or [row[1] for row in rows] != ids:
            raise self._no_logprobs()
        return self._scores([row[0] for row in rows], [0] * len(ids))

    def _scores_echo(self, model: ModelArtifact, ids: list[int], limits: _Limits) -> tuple[np.ndarray, np.ndarray]:
        body = {"model": model.ref, "prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        try:
            choice = self._choice(self._post("/v1/completions", body, limits))
        except Refused as refused:
            raise self._refused(refused, ids) from None
        logprobs = choice.get("logprobs")
        values = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
        if not isinstance(values, list) or len(values) not in (len(ids), len(ids) + 1) or values[0] is not None:
            raise self._error(ErrorKind.CapabilityMissing, "the server does not echo a prompt with its log-probabilities", "use the local backend, vLLM or SGLang")  # fmt: skip
        return self._scores(values[: len(ids)], [0] * len(ids))

    def _scores(self, values: list[Any], ranks: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Make the columns; every token but the first must have a figure."""
        if any(_number(value) is None for value in values[1:]):
            raise self._no_logprobs()
        logprobs = np.array([math.nan, *map(float, values[1:])], np.float64)
        return logprobs, np.array([0, *(_whole(rank) or 0 for rank in ranks[1:])], np.int64)

    # --- probes ---

    def _gives_all(self, server: Server) -> bool:
        """Whether vLLM gives every log-probability: it names its bound when asked for all, after one token."""
        if server.kind != "vllm":
            return False
        if self._most is None:
            body = {"model": self.model(server.models[0] if server.models else None).ref, "prompt": [0],
                    "max_tokens": 1, "temperature": 0, "logprobs": -1}  # fmt: skip
            self._most_allowed(body, _NO_LIMITS)
        return self._most is None

    def _can_echo(self, server: Server) -> bool:
        if self._echoes is None:
            try:
                self._scores_echo(self.model(server.models[0] if server.models else None), [1, 2], _NO_LIMITS)
                self._echoes = True
            except InspectorError as error:
                if error.kind not in (ErrorKind.CapabilityMissing, ErrorKind.LogprobsMissing, ErrorKind.ServerError):
                    raise
                self._echoes = False
        return self._echoes

    # --- tokenize ---

    def _tokenize(self, model: ModelArtifact, text: str) -> list[int]:
        if self.server().kind == "llama.cpp":
            body = {"content": text, "add_special": False, "parse_special": True}
        else:
            body = {"model": model.ref, "prompt": text, "add_special_tokens": False}
        found = self._native("/tokenize", body).get("tokens")
        if not isinstance(found, list):
            raise _NoTokenizer("the server's /tokenize gives no tokens")
        return [token["id"] if isinstance(token, dict) else token for token in found]

    def _detokenize(self, model: ModelArtifact, ids: Sequence[int]) -> str:
        body = {"model": model.ref, "tokens": list(map(int, ids)), "skip_special_tokens": False}
        value = self._native("/detokenize", body)
        for name in ("prompt", "content", "text"):
            if isinstance(value.get(name), str):
                return str(value[name])
        raise _NoTokenizer("the server's /detokenize gives no text")

    def _native(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask a path that not every server has."""
        try:
            value = self._post(path, body, _NO_LIMITS).value
        except Refused as refused:
            raise _NoTokenizer(f"the server refuses {path}: {refused.message}") from None
        except InspectorError as error:
            if error.kind is not ErrorKind.ServerError:
                raise
            raise _NoTokenizer(f"the server has no {path}") from None
        return value if isinstance(value, dict) else {}

    # --- asking ---

    def _get(self, path: str, limits: _Limits) -> Any:
        try:
            return ask(self._endpoint, path, cancel=limits.cancel, timeout_s=limits.timeout_s).value
        except Refused as refused:
            raise self._refused(refused, []) from None

    def _post(self, path: str, body: dict[str, Any], limits: _Limits) -> Answer:
        return ask(self._endpoint, path, body, cancel=limits.cancel, timeout_s=limits.timeout_s)

    def _choice(self, answer: Answer) -> dict[str, Any]:
        choices = answer.value.get("choices") if isinstance(answer.value, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise self._error(ErrorKind.ServerError, "the answer is no completion: it has no choices", "give the address of an OpenAI-compatible API")  # fmt: skip
        return choices[0]

    def _refused(self, refused: Refused, ids: Sequence[int]) -> InspectorError:
        """Name what a server refused by what it says; its words are kept."""
        said = refused.message or f"status {refused.status}"
        if "vocabulary" in said or "invalid tokens" in said:
            return self._error(ErrorKind.TokenOutOfModelVocab, f"the server's model has no such token: {said}", "choose the tokenizer that the model was trained with")  # fmt: skip
        if "context" in said and re.search(r"length|size|window", said):
            return self._error(ErrorKind.PromptTooLong, f"the input has {len(ids)} tokens: {said}", "set a context window so that the budget drops messages, or start the server with a larger one", tokens=len(ids))  # fmt: skip
        if "prompt" in said and re.search(r"string|str\b|type", said):
            return self._error(ErrorKind.CapabilityMissing, f"the server reads no prompt of token ids: {said}", "use a server that does (vLLM, SGLang, llama.cpp)")  # fmt: skip
        return self._error(ErrorKind.ServerError, f"the server refused the request (status {refused.status}): {said}", "look into the server's log")  # fmt: skip

    def _no_logprobs(self) -> InspectorError:
        return self._error(
            ErrorKind.LogprobsMissing,
            "the server answered without the log-probabilities that were asked for, and said nothing of it",
            "start it so that it gives them (some drop them silently), or use vLLM, SGLang or llama.cpp",
        )

    def _check_dtype(self, dtype: str | None) -> None:
        if dtype is not None:
            raise self._error(ErrorKind.OptionInvalid, f"the dtype {dtype} cannot be chosen: the server has its own", "leave the dtype out")  # fmt: skip

    def _error(self, kind: ErrorKind, message: str, remedy: str, **where: Any) -> InspectorError:
        return InspectorError(kind, message, stage="logits", where={"url": self._endpoint.root, **where}, remedy=remedy)


class _NoTokenizer(Exception):
    """The server does not tokenize; the text says why."""


@lru_cache(maxsize=8)
def connect(url: str, public: bool = False) -> OpenAIBackend:
    """Give the process's one client of a server. Errors: OptionInvalid."""
    return OpenAIBackend(url, public=public)


def _described(value: Any) -> Server:
    rows = value.get("data") if isinstance(value, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    names = tuple(str(row["id"]) for row in rows if row.get("id"))
    if not rows:
        return Server("other", names)
    meta = rows[0].get("meta")
    meta = meta if isinstance(meta, dict) else {}
    kind = _KINDS.get(str(rows[0].get("owned_by")), "other")
    window = _whole(meta.get("n_ctx")) or _whole(rows[0].get("max_model_len"))
    return Server(kind, names, _whole(meta.get("n_vocab")), window, str(meta.get("ftype") or "unknown"))


def _check_ids(ids: Sequence[int], server: Server) -> None:
    """Refuse what the server would refuse, in the words of the other backends. Errors: see Backend."""
    if not len(ids):
        raise InspectorError(ErrorKind.InputInvalid, "there is no token to continue", stage="logits", remedy="give at least one message or text")  # fmt: skip
    if server.window is not None and len(ids) > server.window:
        raise InspectorError(
            ErrorKind.PromptTooLong,
            f"the input has {len(ids)} tokens; the server's window is {server.window}",
            stage="logits",
            where={"tokens": len(ids), "window": server.window},
            remedy=f"set a context window of at most {server.window} so that the budget drops messages, or start the "
            "server with a larger one",
        )
    for position, token in enumerate(ids):
        if token < 0 or (server.vocabulary is not None and token >= server.vocabulary):
            raise InspectorError(
                ErrorKind.TokenOutOfModelVocab,
                f"token id {token} at position {position}: the server's model has {server.vocabulary} tokens",
                stage="logits",
                where={"token": position, "id": int(token)},
                remedy="choose the tokenizer that the model was trained with, or a model that has the token",
            )


def _bound_of(message: str) -> int | None:
    """Find the bound on log-probabilities that a refusal names.

    >>> _bound_of("Requested sample logprobs of 49152, which is greater than max allowed: 20 (parameter=logprobs)")
    20
    """
    if "logprobs" not in message:
        return None
    found = re.search(
        r"(?:max(?:imum)?(?: allowed)?|at most|less than or equal to|up to|<=)\D{0,12}(\d{1,7})", message, re.I
    )
    return int(found[1]) if found else OTHERS_MOST if "positive" in message or "-1" in message else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
