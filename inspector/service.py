"""What the shells (command line, page, HTTP) call: artifacts here, templates and tokenizer files in a sandboxed child,
models in a worker of their own.

Results are the JSON values of the contract. Nothing foreign is parsed in this process.
"""

from __future__ import annotations

import base64
import os
import pickle
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from inspector import caller, limits, presets
from inspector.answers import text_of
from inspector.backends import Backend
from inspector.errors import ErrorKind, InspectorError
from inspector.exports import find_export
from inspector.exports.base import File
from inspector.job import (
    DEFAULT_MODEL,
    Fields,
    Job,
    Options,
    check_model_tokens,
    check_pairing,
    check_reference,
    prepare,
    run_clock,
)
from inspector.jsontext import JsonLimits, loads
from inspector.logits import NextTokenLogits, compare_logits, next_token_logits
from inspector.request import dump_request
from inspector.sandbox import Sandbox
from inspector.sources import visitors

if TYPE_CHECKING:
    from inspector.backends.worker import LocalWorker
    from inspector.sources import ModelArtifact

Progress = Callable[[int, int, str], None]

_lock = threading.Lock()
_sandbox: Sandbox | None = None
_worker: Backend | None = None
PRELOADED = ("smollm2", "qwen3", "llama3.1")  # presets; each takes a second of the start and 60 to 150 MB, once
OWN = "own"  # the session of a caller that serves one person: its child keeps its tokenizers
_ANSWER_LIMITS = JsonLimits(depth=1000)  # our own answers: only the spelling of numbers matters


def sandbox(*, own_files: bool = True) -> Sandbox:
    """Give this process's sandbox, started on first use.

    `own_files`: whether it may read the files of this machine; asked once, by whoever starts it.
    """
    global _sandbox
    with _lock:
        if _sandbox is None:
            _sandbox = Sandbox.start(limits.in_force(), own_files=own_files, tokenizers=_preloaded())
        return _sandbox


def _preloaded() -> tuple[str, ...]:
    """Name the presets that are loaded once for all children: $INSPECTOR_PRELOAD, else those of a page for others.

    Many visitors share few tokenizers, and a new child would take longer to load one than to answer. One person's child
    stays and loads what it needs.
    """
    named = os.environ.get("INSPECTOR_PRELOAD")
    if named is not None:
        return tuple(name.strip() for name in named.split(",") if name.strip())
    return PRELOADED if limits.in_force().mode is limits.Mode.PUBLIC else ()


def model_worker() -> Backend:
    """Give this process's model worker (a process of its own, started on first use); on a ZeroGPU Space, its GPU."""
    global _worker
    with _lock:
        if _worker is None:
            from inspector.backends import load_backend, zerogpu

            _worker = load_backend("zerogpu" if zerogpu.on_space() else "worker")
        return _worker


def model_status() -> dict[str, Any]:
    """Say where models run, whether their process lives, and how often one was started; asking starts none."""
    worker = _worker
    if worker is None:
        return {"backend": None, "running": False, "starts": 0}
    pid, starts = getattr(worker, "pid", None), getattr(worker, "starts", 0)
    return {
        "backend": getattr(worker, "name", None),
        "running": pid is not None and pid() is not None,
        "starts": starts,
    }


def trial_worker() -> LocalWorker:
    """Give the worker in which a loaded model can be tried with new tokens."""
    from inspector.backends.worker import LocalWorker

    worker = model_worker()
    if not isinstance(worker, LocalWorker):
        raise InspectorError(
            ErrorKind.CapabilityMissing,
            "new tokens are tried in a model that is loaded here",
            stage="logits",
            remedy="choose the worker backend",
        )
    return worker


def inspect(
    request: bytes | Fields,
    options: Options,
    *,
    model: str | None = None,
    backend: Backend | None = None,
    top_k: int = 10,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Inspect in a child; give `inspection/1`, with its `error` where an artifact, a stage or a limit stopped it. With
    `model`, the next-token logits come from the model worker; with `backend`, from there (`model`: one of its own)."""
    job = _prepared(request, options, progress, local_files)
    result = _inspected(options, job, session)
    if (model or backend) is not None and result["error"] is None and isinstance(job, Job):
        _logits(result, job, _Asked(model, backend, top_k, session))
    return result


def _prepared(
    request: bytes | Fields, options: Options, progress: Progress | None, local_files: bool
) -> Job | InspectorError:
    try:
        return prepare(request, options, progress, local_files=local_files)
    except InspectorError as error:
        return error


def _inspected(options: Options, job: Job | InspectorError, session: str | None) -> dict[str, Any]:
    if isinstance(job, InspectorError):
        return failed(options, job)
    try:
        return call_child("inspect", job, session)
    except InspectorError as error:
        return failed(options, error)


@dataclass(frozen=True, slots=True)
class SandboxedInspection:
    """What a child answered: the JSON value only, for the arrays stay in the child."""

    value: dict[str, Any]

    @classmethod
    def of(cls, request: bytes, options: Options, *, model: str | None, top_k: int) -> SandboxedInspection:
        """Inspect in a child."""
        return cls(inspect(request, options, model=model, top_k=top_k))

    @property
    def error(self) -> InspectorError | None:
        """The error that stopped the run, or None."""
        return InspectorError.from_dict(self.value["error"]) if self.value["error"] else None

    def raise_for_error(self) -> SandboxedInspection:
        """Raise the error that stopped the run, if any."""
        if self.error is not None:
            raise self.error
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of schema `inspection/1`."""
        return self.value


def compare(
    request: bytes | Fields,
    a: Options,
    b: Options,
    *,
    model: str | None = None,
    backend: Backend | None = None,
    top_k: int = 10,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Inspect two ways in a child and compare; give `comparison/1`. A side whose artifacts cannot be had is not compared.

    Errors: those of a limit, which one child meets for both sides.
    """
    jobs = [_prepared(request, options, progress, local_files) for options in (a, b)]
    if not all(isinstance(job, Job) for job in jobs):
        return _uncompared(*(_inspected(options, job, session) for options, job in zip((a, b), jobs)))
    result = call_child("compare", jobs, session)
    if (model or backend) is not None:
        sides = [
            _logits(result[name], job, _Asked(model, backend, top_k, session))
            for name, job in zip("ab", jobs)
            if isinstance(job, Job) and not result[name]["error"]
        ]
        if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
            result["logits"] = compare_logits(sides[0], sides[1])
    return result


def record(
    request: bytes | Fields,
    options: Options,
    *,
    digests_only: bool = False,
    ignore: dict[str, str] | None = None,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Record an inspection made in a child; give `record/1`. An error of the run is in it.

    Errors: artifact errors, SecretFound, those of a limit.
    """
    from inspector.record import places_of
    from inspector.withheld import refuse_environment

    job = prepare(request, options, progress, local_files=local_files)
    payload = pickle.dumps((job, digests_only, ignore or {}, places_of(job)))  # a child knows neither our places
    answer = sandbox().call("make_record", payload, session=session, readable=readable()).decode()
    refuse_environment(answer)  # nor our environment
    return loads(answer, limits=_ANSWER_LIMITS)


def replay(
    value: dict[str, Any],
    *,
    request: bytes | None = None,
    places: dict[str, str] | None = None,
    against: dict[str, str] | None = None,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Replay a record (`replay.read_record`) in a child; give `replay/1`.

    Errors: artifact errors, RecordInvalid, OptionInvalid, SecretFound, those of a limit.
    """
    from inspector import replay as replaying
    from inspector.job import make_options

    def make(data: bytes, options: dict[str, Any]) -> dict[str, Any]:
        return record(data, make_options(**options), progress=progress, session=session, local_files=local_files)

    return replaying.replay(value, make, request=request, places=places, against=against).to_dict()


def count(request: bytes | Fields, openai_model: str, *, session: str | None = OWN) -> dict[str, Any]:
    """Estimate the prompt tokens that an OpenAI model bills.

    Errors: input errors, UnknownModel, artifact errors.
    """
    from inspector.openai_count import SNAPSHOTS, resolve_model
    from inspector.sources import resolve_tokenizer

    snapshot, _warnings = resolve_model(openai_model)
    artifact = resolve_tokenizer(SNAPSHOTS[snapshot].preset)
    return call_child("count", (request, openai_model, artifact), session)


def stages(text: str, tokenizer: str, *, progress: Progress | None = None, session: str | None = OWN) -> dict[str, Any]:
    """Trace a text through a tokenizer's four stages in a child; give `stages/1`.

    Errors: artifact errors, InputTooLarge, UnencodableText, TokenizerInvalid.
    """
    from inspector.sources import resolve_tokenizer

    return call_child("stages", (text, resolve_tokenizer(tokenizer, progress)), session)


def stream(
    ids: Sequence[int],
    tokenizer: str,
    *,
    skip_special_tokens: bool = False,
    stop_strings: Sequence[str] = (),
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Step through ids as a stream shows them, in a child; give `stream/1`.

    Errors: artifact errors, InputInvalid for an id that the tokenizer does not have.
    """
    from inspector.sources import resolve_tokenizer

    artifact = resolve_tokenizer(tokenizer, progress)
    return call_child("stream", (list(ids), artifact, skip_special_tokens, list(stop_strings)), session)


def tokenizers(
    text: str,
    refs: Sequence[str],
    *,
    prices: dict[str, float] | None = None,
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Tokenize a text with several tokenizers in a child; give `tokenizers/1` with the table as `csv`.

    `prices`: per million tokens, by tokenizer id. Errors: artifact errors, UnencodableText, TokenizerInvalid.
    """
    from inspector.sources import resolve_tokenizer

    return call_child("tokenizers", (text, [resolve_tokenizer(ref, progress) for ref in refs], prices or {}), session)


def differences(
    ref: str,
    *,
    loading: bool = True,
    token: str | bool | None = None,
    local: bool = True,
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Give what bites about a tokenizer: how it loads, its sizes against the model's, its end and begin tokens.

    `loading` False leaves AutoTokenizer out, which runs in this process and imports torch. `token`, `local`: as
    resolve_tokenizer. Errors: artifact errors, TokenizerInvalid.
    """
    from inspector.sources import read_verified, resolve_files, resolve_tokenizer

    artifact = resolve_tokenizer(ref, progress, token=token, local=local)
    pinned = ref in presets.tokenizers()
    configs: dict[str, bytes] = {}
    if not pinned:
        _ref, files = resolve_files(ref, ("config.json", "generation_config.json"), progress, token=token, local=local)
        configs = {file.name: read_verified(file) for file in files}
    result = call_child(
        "differences", (artifact, configs.get("config.json"), configs.get("generation_config.json")), session
    )
    if pinned and loading:
        from inspector.vocabularies import auto_tokenizer_difference

        return {**result, "loading": auto_tokenizer_difference(artifact)}
    return {**result, "loading": None}


def lint(
    request: bytes | Fields,
    options: Options,
    *,
    files: dict[str, Any] | None = None,
    base: str | None = None,
    ignore: dict[str, str] | None = None,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Check a request with every rule in a child; give `lint/1`.

    `files`: parsed JSON of "config", "generation_config" and "sent"; the first two are looked for beside a tokenizer
    that is no preset. `base`: the tokenizer that this one should be equal to. `ignore`: rule id -> reason.
    Errors: artifact errors, OptionInvalid, InputInvalid for what was sent, those of a limit.
    """
    job = lint_job(request, options, files=files, base=base, ignore=ignore, progress=progress, local_files=local_files)
    return call_child("lint", job, session)


def lint_job(
    request: bytes | Fields,
    options: Options,
    *,
    files: dict[str, Any] | None = None,
    base: str | None = None,
    ignore: dict[str, str] | None = None,
    progress: Progress | None = None,
    local_files: bool = True,
) -> tuple[Job, Job | None, dict[str, Any], dict[str, str]]:
    """Bring what the job `lint` needs from network and disk: see `lint`."""
    job = prepare(request, options, progress, local_files=local_files)
    other = (
        None if base is None else prepare(request, replace(options, tokenizer=base), progress, local_files=local_files)
    )
    beside = (
        _model_files(options.tokenizer, progress, local_files) if options.tokenizer not in presets.tokenizers() else {}
    )
    return job, other, {**beside, **(files or {})}, ignore or {}


def _model_files(ref: str, progress: Progress | None, local_files: bool) -> dict[str, Any]:
    """Read config.json and generation_config.json beside a tokenizer, as far as it has them."""
    from inspector.sources import read_verified, resolve_files

    names = ("config.json", "generation_config.json")
    _ref, found = resolve_files(ref, names, progress, token=None if local_files else False, local=local_files)
    return {
        file.name.removesuffix(".json"): loads(read_verified(file).decode("utf-8", "replace"), root=file.name)
        for file in found
    }


def budget(
    request: bytes | Fields,
    options: Options,
    *,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Fit a request into a context window in a child; give `budget/1`. A budget that rejects is in its `error`.

    Errors: artifact errors, OptionInvalid where no window is known, those of a limit.
    """
    return call_child("budget", prepare(request, options, progress, local_files=local_files), session)


def export(
    request: bytes | Fields,
    sides: Sequence[Options],
    form: str,
    *,
    progress: Progress | None = None,
    session: str | None = OWN,
    local_files: bool = True,
) -> tuple[File, ...]:
    """Export one side or two in a child; give the files.

    Errors: OptionInvalid for a form that there is not or that cannot hold this; artifact errors; for all forms but the
    report those of every stage.
    """
    find_export(form, len(sides))
    jobs = tuple(prepare(request, options, progress, local_files=local_files) for options in sides)
    return exported(call_child("export", (jobs, form), session))


def exported(answer: dict[str, Any]) -> tuple[File, ...]:
    """Read the answer of the job `export`; a child is not to be trusted with sizes and names."""
    return tuple(
        File(PurePath(file["name"]).name, _inflated(base64.b64decode(file["data"]), int(file["size"])))
        for file in answer["files"]
    )


def _inflated(data: bytes, size: int) -> bytes:
    """Errors: OutputTooLarge."""
    limit = limits.in_force().export_file_bytes
    if size <= limit:
        found = zlib.decompressobj().decompress(data, size + 1)
        if len(found) == size:
            return found
    what, where = f"a file of the export has {size:,} bytes; the limit is {limit:,}", {"limit": limit}
    remedy = "export a shorter request, or csv"
    raise limits.over("export_file_bytes", what, ErrorKind.OutputTooLarge, "sandbox", remedy, where)


def labels(
    request: bytes | Fields,
    options: Options,
    *,
    mode: str = "assistant_only",
    max_length: int | None = None,
    generation_tag_only: bool = False,
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Label a request for training in a child; give `labels/1`. Errors: of every stage, artifact and limit."""
    return call_child("labels", (prepare(request, options, progress), mode, max_length, generation_tag_only), session)


def batch(
    requests: Sequence[bytes | Fields],
    options: Options,
    *,
    padding_side: str = "left",
    pad_id: int | None = None,
    packed: bool = False,
    mode: str = "assistant_only",
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Lay several requests out as one batch in a child; give `batch/1`, or `packed/1`. Errors: as `labels`."""
    jobs = [prepare(request, options, progress) for request in requests]
    return call_child("batch", (jobs, padding_side, pad_id, packed, mode), session)


def prefix(
    request: bytes | Fields,
    options: Options,
    *,
    block_size: int = 16,
    model_revision: str = "",
    adapter: str = "none",
    progress: Progress | None = None,
    session: str | None = OWN,
) -> dict[str, Any]:
    """Compare each step of a conversation with the next in a child; give `prefix/1`. Errors: as `labels`."""
    return call_child("prefix", (prepare(request, options, progress), block_size, model_revision, adapter), session)


def vocabulary_trial(
    request: bytes | Fields,
    options: Options,
    tokens: Sequence[str],
    *,
    model: str,
    rows: int | None = None,
    pad_to_multiple_of: int | None = None,
    tied: bool | None = None,
    session: str = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Try new tokens in a model after this request's input; give `vocabulary-trial/1` with `pieces` of the ids it names.

    The model's worker computes beside the model, which stays as it is. Errors: as next_tokens, those of a plan.
    """
    from inspector.sources import resolve_model
    from inspector.training.vocabulary import Slot, VocabularyPlan

    check_model(model, local_files)
    job = prepare(request, options, local_files=local_files)
    answer = call_child("model_ids", job, session)
    value = call_child("page_vocabulary", (job.tokenizer, list(tokens), rows, pad_to_multiple_of, tied), session)
    planned = VocabularyPlan(
        tokenizer=value["tokenizer"],
        tokens=tuple(entry["content"] for entry in value["tokens"]),
        new_ids=tuple(entry["id"] for entry in value["tokens"]),
        existing=tuple(Slot(entry["id"], entry["content"]) for entry in value["existing"]),
        reserved=(),
        size=value["size"],
        rows=value["rows"],
        rows_after=value["rows_after"],
        pad_to_multiple_of=pad_to_multiple_of,
        tied=tied,
    )
    artifact = resolve_model(model)
    check_pairing(artifact, job.tokenizer)
    tried = trial_worker().vocabulary_trial(artifact, planned, answer["input_ids"])
    named = sorted({*tried["top_before"], *tried["top_after"]})
    pieces = dict(zip(named, _pieces(job, named, session)))
    pieces |= dict(zip(planned.new_ids, planned.tokens))
    return {**tried, "model": model, "pieces": {token_id: pieces[token_id] for token_id in named}}


def next_tokens(
    request: bytes | Fields,
    sides: Sequence[Options],
    *,
    model: str,
    top_k: int = 10,
    session: str | None = OWN,
    local_files: bool = True,
) -> dict[str, Any]:
    """Give the next-token logits of each side: {sides: [{logits, error}], compare: comparison/1's logits or null}."""
    results = [_next_token(request, options, model, top_k, session, local_files) for options in sides]
    both = [logits for logits, _error in results if logits is not None]
    return {
        "sides": [
            {
                "logits": None if logits is None else logits.to_dict(),
                "error": None if error is None else error.to_dict(),
            }
            for logits, error in results
        ],
        "compare": compare_logits(*both) if len(both) == len(sides) == 2 else None,
    }


def _next_token(
    request: bytes | Fields,
    options: Options,
    model: str,
    top_k: int,
    session: str | None,
    local_files: bool,
) -> tuple[NextTokenLogits | None, InspectorError | None]:
    try:
        check_model(model, local_files)
        job = prepare(request, options, local_files=local_files)
        answer = call_child("model_ids", job, session)
        return _named_logits(job, answer["input_ids"], _Asked(model, None, top_k, session)), None
    except InspectorError as error:
        return None, error


def check_model(model: str, local_files: bool) -> None:
    """Refuse what no reference can be, and on a page for others (not `local_files`) a model that is no preset.

    Errors: OptionInvalid, UnknownPreset.
    """
    check_reference("model", model)
    if local_files or model in presets.tokenizers():
        return
    known = [preset.id for preset in presets.tokenizers().values() if preset.model is not None]
    raise InspectorError(
        ErrorKind.UnknownPreset,
        f"there is no model {model[:80]!r} here",
        stage="logits",
        where={"option": "model"},
        remedy=f"choose {' or '.join(known)}",
    )


def failed_answer(schema: str, error: InspectorError) -> dict[str, Any]:
    """Give the JSON of a run that stopped before it began, with every key of its schema."""
    if schema == "inspection/1":
        return failed(Options(), error)
    if schema == "comparison/1":
        return failed_comparison(Options(), Options(), error)
    if schema == "replay/1":
        from inspector.parting import Replay

        return Replay(None, None, (), error=error).to_dict()
    return {"schema": schema, "error": error.to_dict()}


def failed(options: Options, error: InspectorError) -> dict[str, Any]:
    """Give the `inspection/1` of a run that stopped before it began."""
    from inspector.pipeline import Inspection  # heavy, and only a failure needs it here

    return Inspection(options, run_clock(options), error=error).to_dict()


def failed_comparison(a: Options, b: Options, error: InspectorError) -> dict[str, Any]:
    """Give the `comparison/1` of a comparison that stopped before it began."""
    return _uncompared(failed(a, error), failed(b, error))


def _uncompared(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": "comparison/1",
        "a": a,
        "b": b,
        "equal": {"bytes": False, "ids": False},
        "first_difference": None,
        "token_diff": [],
        "hunks": {"total": 0, "listed": []},
        "delta": None,
        "shared_prefix_tokens": 0,
        "logits": None,
    }


def call_child(job: str, value: Any, session: str | None) -> Any:
    """Run a job of `jobs.JOBS` in a child and read its JSON. The child unpickles what we wrote; we only ever read JSON from a child."""
    return loads(_child_text(job, value, session), limits=_ANSWER_LIMITS)


def _child_text(job: str, value: Any, session: str | None) -> str:
    return (
        sandbox()
        .call(job, pickle.dumps(value), session=session, cancel=caller.current().cancel, readable=readable())
        .decode()
    )


def readable() -> tuple[str, ...]:
    """Name the folders that a child may read for this caller beside what all may: what its page has uploaded."""
    owner = caller.current().owner
    return visitors.UPLOADS.readable(owner) if owner else ()


@dataclass(frozen=True, slots=True)
class Written:
    """Endpoints' answers as the text that a child wrote: this process reads none of it, so that an answer of megabytes is
    no objects here. `brief`: short; `has_brief`: whether it could have been. Errors of the run are in the text.
    """

    session: str | None = OWN
    local_files: bool = True
    brief: bool = False
    has_brief: bool = True

    def inspect(self, request: bytes | Fields, options: Options) -> str:
        """Give `inspection/1` or `inspection-brief/1`."""
        return self._side(options, _prepared(request, options, None, self.local_files))

    def compare(self, request: bytes | Fields, a: Options, b: Options) -> str:
        """Give `comparison/1` or `comparison-brief/1`. Errors: as the function `compare`."""
        jobs = [_prepared(request, options, None, self.local_files) for options in (a, b)]
        if all(isinstance(job, Job) for job in jobs):
            return self._child("api_compare", jobs)
        whole = _uncompared({}, {})
        left = {name: whole[name] for name in whole if name not in ("schema", "a", "b", *(["token_diff"] * self.brief))}
        schema = '"comparison-brief/1"' if self.brief else '"comparison/1"'
        sides = ", ".join(f'"{name}": {self._side(*side)}' for name, side in zip("ab", zip((a, b), jobs)))
        return f'{{"schema": {schema}, {sides}, {dump_request(left)[1:]}'

    def lint(
        self,
        request: bytes | Fields,
        options: Options,
        *,
        base: str | None = None,
        ignore: dict[str, str] | None = None,
    ) -> str:
        """Give `lint/1`. Errors: as the function `lint`."""
        return self._child(
            "api_lint", lint_job(request, options, base=base, ignore=ignore, local_files=self.local_files)
        )

    def budget(self, request: bytes | Fields, options: Options) -> str:
        """Give `budget/1`. Errors: as the function `budget`."""
        return self._child("api_budget", prepare(request, options, local_files=self.local_files))

    def _side(self, options: Options, job: Job | InspectorError) -> str:
        try:
            if isinstance(job, InspectorError):
                raise job
            return self._child("api_inspect", job)
        except InspectorError as error:
            return self.of(failed(options, error))

    def _child(self, job: str, value: Any) -> str:
        return _child_text(job, (value, self._how()), self.session)

    def of(self, value: dict[str, Any]) -> str:
        """Write a value of this process in the same way. Errors: OutputTooLarge."""
        return text_of(value, **self._how())

    def _how(self) -> dict[str, Any]:
        return {"brief": self.brief, "has_brief": self.has_brief, "most": limits.in_force().api_chars}


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which model is asked, where, and for how much. `backend` None: the model worker."""

    model: str | None
    backend: Backend | None
    top_k: int
    session: str | None


def _logits(result: dict[str, Any], job: Job, asked: _Asked) -> NextTokenLogits | None:
    """Add logits to an inspection; an error of that stage goes into its `error`."""
    rendered = result["rendered"]
    try:
        logits = _named_logits(job, result["input_ids"], asked, rendered and rendered["text"])
    except InspectorError as error:
        result["error"] = error.to_dict()
        return None
    result["logits"] = logits.to_dict()
    result["timings_ms"]["logits"] = round(sum(logits.timings_ms.values()), 3)
    return logits


def _named_logits(job: Job, input_ids: list[int], asked: _Asked, text: str | None = None) -> NextTokenLogits:
    """Ask the model, and name the ids in a child that has the tokenizer."""
    backend = asked.backend or model_worker()
    artifact, note = model_for(backend, asked.model, job, input_ids, text)
    logits = next_token_logits(input_ids, artifact, top_k=asked.top_k, backend=backend, cancel=caller.current().cancel)
    pieces = _pieces(job, [row.id for row in logits.top], asked.session)
    return replace(logits, note=note, top=tuple(replace(row, piece=piece) for row, piece in zip(logits.top, pieces)))


def _pieces(job: Job, ids: list[int], session: str | None) -> list[str | None]:
    return [name and name[0] for name in call_child("token_names", (job.tokenizer, ids), session)]


def model_for(
    backend: Backend, model: str | None, job: Job, input_ids: Sequence[int], text: str | None
) -> tuple[ModelArtifact, str]:
    """Give the model that a backend runs, one of its own where it is a server, and a remark on how it reads the input.

    `text`: what the ids spell; a server is asked to tokenize it. Errors: those of a model's artifact or of a server;
    ModelInvalid for a model of another vocabulary; PromptTooLong.
    """
    check_model_tokens(len(input_ids))
    own: Callable[[str | None], ModelArtifact] | None = getattr(backend, "model", None)
    if own is not None:
        artifact = own(model)
        pairing = backend.check_tokenizer(artifact, text, input_ids) if text else None  # type: ignore[attr-defined]
        unknown = pairing is not None and pairing.same is None
        note = "" if pairing is None else pairing.note
        return artifact, f"the server's tokenizer was not compared with this one: {note}" if unknown else note
    from inspector.sources import resolve_model

    artifact = resolve_model(model or DEFAULT_MODEL)
    check_pairing(artifact, job.tokenizer)
    return artifact, ""
