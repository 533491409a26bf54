"""What the shells ask a model: the verdict on one or two inputs, the heat of a prompt, a sampler's view, a walk, what-ifs.

Templates and tokenizer files are read in a sandboxed child, the model runs in its backend; this module brings the two
together. Results are JSON values; each names device and dtype, and what each part of the time was for.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inspector import service
from inspector.backends import Backend, RawLogits, Report
from inspector.errors import ErrorKind, InspectorError
from inspector.heat import Run, prompt_heat
from inspector.job import DEFAULT_MODEL, Fields, Job, Options, prepare
from inspector.logits import rounded
from inspector.sampling import Sampler, sample_view
from inspector.sources import ModelArtifact
from inspector.verdict import Pin, distance, verdict
from inspector.walk import StopRules, stop_ids, walk
from inspector.whatif import Variant, other_render, sent_otherwise

MOST_TYPED = 64
MOST_STEPS = 512
_IDS = re.compile(r"\s*(?:#[0-9]{1,9}[\s,]*)+")
OTHER_DTYPE = "bfloat16"  # the dtype of most checkpoints: what a server would run


@dataclass(frozen=True, slots=True)
class Asking:
    """What every question brings. `model` "" is the default, or a server's only one; `dtype` None is the backend's first;
    `session` names the sandbox child."""

    model: str
    backend: Backend
    dtype: str | None = None
    session: str = service.OWN
    local_files: bool = True
    report: Report | None = None
    cancel: threading.Event | None = None

    @property
    def running(self) -> dict[str, Any]:
        """The keyword arguments of every method of the backend."""
        return {"dtype": self.dtype, "report": self.report, "cancel": self.cancel}


@dataclass(frozen=True, slots=True)
class _Prompt:
    """One input, ready for the model. `asked`: what modelinput.py gives; `note`: how a server reads it."""

    job: Job
    model: ModelArtifact
    asked: dict[str, Any]
    generation: dict[str, Any]
    note: str

    @property
    def input_ids(self) -> list[int]:
        return self.asked["input_ids"]

    @property
    def stops(self) -> list[int]:
        eos = next((token for token, why, _text in self.asked["pins"] if why == "eos"), None)
        return stop_ids(self.generation, eos)

    def pins(self) -> list[Pin]:
        """The watched tokens; ids that only generation_config names are ends too."""
        pins = [Pin(*pin) for pin in self.asked["pins"]]
        ends = {pin.id for pin in pins if pin.why == "eos"}
        return [Pin(token, "eos") for token in self.stops if token not in ends] + pins

    def timings(self) -> dict[str, float]:
        spent = self.asked["timings_ms"]
        return {
            "template": sum(spent.get(name, 0.0) for name in ("request", "messages", "render")),
            "tokenization": spent.get("encode", 0.0) + spent.get("budget", 0.0),
        }


def ask_verdict(
    request: bytes | Fields,
    sides: Sequence[Options],
    asking: Asking,
    *,
    top_k: int = 10,
    typed: str = "",
    sessions: Sequence[str] = (),
) -> dict[str, Any]:
    """Give `verdict/1`: the next-token table of one or more inputs. A side that failed has its `error` and no cells.

    The sides are computed one after the other, so that each goes on from what it shares with those before it.
    `sessions`: the sandbox child of each side, where they have their own.
    """
    prompts: list[_Prompt | InspectorError] = []
    found: list[RawLogits | InspectorError] = []
    for q, options in enumerate(sides):
        try:
            prompt = _prompt(request, options, replace(asking, session=sessions[q]) if sessions else asking)
            with _naming(prompt, asking):
                (raw,) = asking.backend.next_token_logits(prompt.model, [prompt.input_ids], **asking.running)
        except InspectorError as error:
            prompts.append(error)
            found.append(error)
        else:
            prompts.append(prompt)
            found.append(raw)
    good = [q for q, raw in enumerate(found) if isinstance(raw, RawLogits)]
    known = [
        (prompt, raw)
        for prompt, raw in zip(prompts, found)
        if isinstance(prompt, _Prompt) and isinstance(raw, RawLogits)
    ]
    if not known:
        return {
            "schema": "verdict/1",
            "sides": [{"error": error.to_dict()} for error in prompts if isinstance(error, InspectorError)],
            "rows": [],
            "distances": [],
        }
    first, raw = known[0]
    pins = [pin for prompt, _raw in known for pin in prompt.pins()] + _typed(first, typed, asking)
    table = verdict([raw for _prompt, raw in known], top_k=top_k, num_tokens=first.asked["size"], pins=pins).to_dict()
    names = _names(first.job, [row["id"] for row in table["rows"]], asking)
    for row, name in zip(table["rows"], names):
        row.update(piece=name and name[0], bytes=name and name[1])
        cells = iter(row["cells"])
        row["cells"] = [next(cells) if q in good else None for q in range(len(sides))]
    said = iter(zip(known, table["sides"]))
    return {
        "schema": "verdict/1",
        "model": first.model.id,
        "backend": raw.backend,
        "device": raw.device,
        "dtype": raw.dtype,
        "full_vocabulary": raw.ids is None,
        "rows_of_model": len(raw.values) if raw.ids is None else None,
        "size_of_tokenizer": first.asked["size"],
        "vocab_size": first.asked["vocab_size"],
        "stop_ids": first.stops,
        "sampler": _sampler(first.generation),
        "sides": [
            {"error": side.to_dict()} if isinstance(side, InspectorError) else _side(*next(said)) for side in found
        ],
        "rows": table["rows"],
        "distances": table["distances"],
    }


def _side(known: tuple[_Prompt, RawLogits], side: dict[str, Any]) -> dict[str, Any]:
    prompt, raw = known
    return {
        **side,
        "tokens": len(prompt.input_ids),
        "note": prompt.note,
        "reused": raw.reused,
        "timings_ms": _rounded_times({**prompt.timings(), **raw.timings_ms}),
        "error": None,
    }


def ask_server(url: str, *, public: bool) -> dict[str, Any]:
    """Give `server/1`: what a model server says of itself, and what it can give. Errors: OptionInvalid, those of a server."""
    from inspector.backends.openai import connect

    backend = connect(url, public)
    server = backend.server()
    return {
        "schema": "server/1",
        "kind": server.kind,
        "models": [backend.model().id] if len(server.models) == 1 else list(server.models),  # a path is not shown
        "vocabulary": server.vocabulary,
        "window": server.window,
        "dtype": server.dtype,
        "full_vocabulary": (capable := backend.capabilities).full_vocabulary,
        "prompt_logprobs": capable.prompt_logprobs,
    }


def ask_heat(request: bytes | Fields, options: Options, asking: Asking) -> dict[str, Any]:
    """Give `heat/1` of one input. Errors: those of the input, the model, PromptTooLong, CapabilityMissing."""
    prompt = _prompt(request, options, asking)
    with _naming(prompt, asking):
        scores = asking.backend.prompt_logprobs(prompt.model, prompt.input_ids, **asking.running)
    heat = prompt_heat(scores, [Run(*run) for run in prompt.asked["runs"]]).to_dict()
    worst = [part["worst"] for part in heat["parts"]]
    names = _names(prompt.job, [prompt.input_ids[token] for token in worst], asking)
    for part, token, name in zip(heat["parts"], worst, names):
        part.update(worst_id=prompt.input_ids[token], worst_piece=name and name[0], worst_bytes=name and name[1])
    heat["timings_ms"] = {**_rounded_times(prompt.timings()), **heat["timings_ms"]}
    return {**heat, "model": prompt.model.id, "tokens": len(prompt.input_ids), "input_ids": prompt.input_ids}


def ask_sampler(
    request: bytes | Fields,
    options: Options,
    asking: Asking,
    settings: Mapping[str, Any] | None,
    *,
    top_k: int = 20,
    ids: Sequence[int] = (),
    appended: Sequence[int] = (),
) -> dict[str, Any]:
    """Give `sampler/1`: raw against after. `settings` None takes generation_config's. Errors: OptionInvalid, CapabilityMissing."""
    prompt = _prompt(request, options, asking)
    sampler = Sampler.of(prompt.generation if settings is None else settings)
    input_ids = prompt.input_ids + list(appended)
    (raw,) = asking.backend.next_token_logits(prompt.model, [input_ids], **asking.running)
    if raw.ids is not None:
        raise InspectorError(
            ErrorKind.CapabilityMissing,
            f"the backend gives the {len(raw.ids)} most probable tokens only; a sampler needs all",
            stage="logits",
            remedy="use the local backend, or a server that gives the whole vocabulary",
        )
    view = sample_view(raw.values, sampler, input_ids, top_k=top_k, ids=ids).to_dict()
    for row, name in zip(view["rows"], _names(prompt.job, [row["id"] for row in view["rows"]], asking)):
        row.update(piece=name and name[0], bytes=name and name[1])
    return {"schema": "sampler/1", "model": prompt.model.id, "dtype": raw.dtype, **view}


@dataclass(frozen=True, slots=True)
class Going:
    """How a walk goes on. `appended`: ids walked before; `text`, `chosen`: what a person typed or clicked, read first;
    `tokens`: new tokens in this call; `limit`: in the whole walk."""

    appended: tuple[int, ...] = ()
    chosen: tuple[int, ...] = ()
    text: str = ""
    tokens: int = 16
    limit: int = 256
    stop_strings: tuple[str, ...] = ()


def ask_walk(request: bytes | Fields, options: Options, asking: Asking, going: Going) -> Iterator[dict[str, Any]]:
    """Give the steps one by one, each with its names and the bytes it settles; closing the iterator stops the walk."""
    prompt = _prompt(request, options, asking)
    forced = [*going.chosen, *(_encoded(prompt.job, going.text, asking) if going.text else ())]
    new = list(going.appended)
    limit = min(going.limit, len(new) + max(going.tokens, len(forced)), MOST_STEPS)
    rules = StopRules(frozenset(prompt.stops), going.stop_strings, limit)

    def step(ids: Sequence[int]) -> RawLogits:
        return asking.backend.next_token_logits(prompt.model, [ids], **asking.running)[0]

    def decode(ids: Sequence[int]) -> bytes:
        return b"".join(bytes.fromhex(row[0]) for row in _decoded(prompt.job, ids, asking) if row)

    for walked in walk(prompt.input_ids + new, step, rules, forced=forced, decode=decode, before=tuple(new)):
        new.append(walked.id)
        record = walked.to_dict()
        if record["stop"] == "length" and len(new) < going.limit:
            record["stop"] = None  # the end of this call only
        ids = [walked.id, *(candidate["id"] for candidate in record["candidates"])]
        names = _names(prompt.job, ids, asking)
        for row, name in zip((record, *record["candidates"]), names):
            row.update(piece=name and name[0], bytes=name and name[1])
        settled = _decoded(prompt.job, new, asking)[-1]
        record.update(settled=settled and settled[0], control=bool(settled and settled[1]))
        yield record


def ask_whatif(
    request: bytes | Fields,
    options: Options,
    asking: Asking,
    *,
    names: Sequence[str] = (),
    each: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Give `whatif/1`: each variant with its distance from the input as it is. `names`: those that are wanted, all if
    none; `each` is called with a row as it is found."""
    prompt = _prompt(request, options, asking)
    (base,) = asking.backend.next_token_logits(prompt.model, [prompt.input_ids], **asking.running)
    rows = []
    for variant in _variants(request, options, prompt, asking):
        if names and variant.name not in names:
            continue
        row = _whatif_row(prompt, variant, base, asking)
        rows.append(row)
        if each is not None:
            each(row)
    named = _names(prompt.job, [int(base.values.argmax()) if base.ids is None else int(base.ids[0])], asking)[0]
    return {
        "schema": "whatif/1",
        "model": prompt.model.id,
        "device": base.device,
        "dtype": base.dtype,
        "tokens": len(prompt.input_ids),
        "top": {"piece": named and named[0], "bytes": named and named[1]},
        "rows": rows,
    }


def _whatif_row(prompt: _Prompt, variant: Variant, base: RawLogits, asking: Asking) -> dict[str, Any]:
    empty: dict[str, Any] = {"name": variant.name, "why_not": variant.why_not or None, "error": None, "distance": None}
    if variant.why_not:
        return {**empty, "tokens": None, "top": None}
    running, began = asking.running, time.perf_counter()
    try:
        if variant.padded is not None:
            (raw,) = asking.backend.padded_logits(prompt.model, variant.padded, **running)
            tokens = variant.padded.input_ids.size
        else:
            ids = variant.input_ids or tuple(prompt.input_ids)
            running = {**running, "dtype": variant.dtype or asking.dtype}
            (raw,) = asking.backend.next_token_logits(prompt.model, [ids], **running)
            tokens = len(ids)
    except InspectorError as error:
        return {**empty, "error": error.to_dict(), "tokens": None, "top": None}
    cell = verdict([raw], top_k=1).rows[0]
    prob = cell.cells[0]
    name = _names(prompt.job, [cell.id], asking)[0]
    top = {"id": cell.id, "piece": name and name[0], "bytes": name and name[1], "prob": prob and rounded(prob.prob)}
    spent = round(1000 * (time.perf_counter() - began), 1)
    return {**empty, "distance": distance(base, raw).to_dict(), "tokens": tokens, "top": top, "ms": spent}


def _variants(request: bytes | Fields, options: Options, prompt: _Prompt, asking: Asking) -> Iterator[Variant]:
    ids, asked = prompt.input_ids, prompt.asked

    def rendered(name: str, **changes: Any) -> Variant:
        try:
            found = _asked(prepare(request, replace(options, **changes), local_files=asking.local_files), asking)
        except InspectorError as error:
            return Variant(name, why_not=error.one_line())
        return other_render(name, ids, found["input_ids"])

    other = "without" if options.add_generation_prompt else "with"
    yield rendered(f"{other}_generation_prompt", add_generation_prompt=not options.add_generation_prompt)
    padding = asked["pad_id"] if asked["pad_id"] is not None else next(iter(prompt.stops), None)
    for variant in sent_otherwise(ids, asked["safe_input_ids"], bos_id=asked["bos_id"], pad_id=padding):
        if variant.padded is not None and not asking.backend.capabilities.padded_batches:
            variant = Variant(variant.name, why_not="this backend takes no padded batches")
        yield variant
    if options.template_text is not None and options.template is not None:
        yield rendered("unedited_template", template_text=None)
    else:
        yield Variant("unedited_template", why_not="the template is not edited")
    argument = asked["thinking"]
    for value in (True, False):
        name = "thinking_on" if value else "thinking_off"
        if argument is None:
            yield Variant(name, why_not="the template reads no argument that turns reasoning on")
        else:
            yield rendered(name, arguments={**options.arguments, argument: value})
    dtypes = asking.backend.capabilities.dtypes
    wanted = OTHER_DTYPE if (asking.dtype or (dtypes or ("",))[0]) != OTHER_DTYPE else "float32"
    if wanted in dtypes:
        yield Variant(f"dtype_{wanted}", dtype=wanted)
    else:
        yield Variant("dtype_bfloat16", why_not="the dtype of this backend is not ours to choose")


def _prompt(request: bytes | Fields, options: Options, asking: Asking) -> _Prompt:
    """Bring an input and the model that reads it. Errors: those of every stage, artifact and limit, ModelInvalid."""
    job = prepare(request, options, local_files=asking.local_files)
    asked = _asked(job, asking)
    if getattr(asking.backend, "model", None) is None:  # a server names its models itself
        service.check_model(asking.model or DEFAULT_MODEL, asking.local_files)
    model, note = service.model_for(asking.backend, asking.model or None, job, asked["input_ids"], asked["text"])
    return _Prompt(job, model, asked, _generation_config(model), note)


def _asked(job: Job, asking: Asking) -> dict[str, Any]:
    answer = service.call_child("model_input", job, asking.session)
    if answer["error"] is not None:
        raise InspectorError.from_dict(answer["error"])
    return answer


def _generation_config(model: ModelArtifact) -> dict[str, Any]:
    from inspector.sources import read_verified

    for file in model.files:
        if file.name == "generation_config.json":
            value = json.loads(read_verified(file))
            return value if isinstance(value, dict) else {}
    return {}


def _sampler(generation: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings that the model brings, None where it brings none that are sound."""
    try:
        sampler = Sampler.of(generation)
    except InspectorError:
        return None
    return None if sampler == Sampler() else sampler.to_dict()


def _typed(prompt: _Prompt, text: str, asking: Asking) -> list[Pin]:
    """The rows that a person asked for: ids written as "#198 #2", else the first token of a text."""
    if _IDS.fullmatch(text):
        return [Pin(int(number), "typed", text) for number in re.findall("[0-9]+", text)[:MOST_TYPED]]
    ids = _encoded(prompt.job, text, asking) if text else []
    return [Pin(ids[0], "typed", text)] if ids else []


def _encoded(job: Job, text: str, asking: Asking) -> list[int]:
    answer = service.call_child("encode_text", (job.tokenizer, text), asking.session)
    if answer["error"] is not None:
        raise InspectorError.from_dict(answer["error"])
    return answer["ids"]


def _names(job: Job, ids: Sequence[int], asking: Asking) -> list[list[str] | None]:
    return service.call_child("token_names", (job.tokenizer, list(ids)), asking.session)


def _decoded(job: Job, ids: Sequence[int], asking: Asking) -> list[Any]:
    return service.call_child("decoded", (job.tokenizer, list(ids)), asking.session)


def _rounded_times(timings: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in timings.items()}


@contextlib.contextmanager
def _naming(prompt: _Prompt, asking: Asking) -> Iterator[None]:
    """Name the token of an id that the model lacks: the number alone does not say which one was added."""
    try:
        yield
    except InspectorError as error:
        if error.kind is not ErrorKind.TokenOutOfModelVocab:
            raise
        name = _names(prompt.job, [error.where["id"]], asking)[0]
        message = f"{name[0] if name else '(no token)'!r}: {error.message}"
        raise InspectorError(error.kind, message, stage=error.stage, where=error.where, remedy=error.remedy) from error
