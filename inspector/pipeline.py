"""Run the stages in order, and keep everything that was reached when one of them stops.

`prepare` (network and disk, in the caller's process) brings the artifacts; `run` (no network, safe to run in a
sandboxed child) does the rest. `inspect` and `compare` are the two together.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import time
import unicodedata
from collections.abc import Callable, Generator, Iterator
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from inspector import presets
from inspector.breaks import lengths_check
from inspector.budget import (
    Budget,
    BudgetDecision,
    BudgetedInput,
    BudgetRejected,
    Lengths,
    fit_context,
    make_budget,
    required_part,
    told_lengths,
)
from inspector.encode import Encoding, encode, token_rows
from inspector.engines.base import TemplateCall
from inspector.errors import ErrorKind, InspectorError
from inspector.findings import Finding
from inspector.job import (
    DEFAULT_MODEL,
    Fields,
    Job,
    Options,
    check_pairing,
    check_template,
    make_options,
    prepare,
    request_bytes,
    request_limits,
    run_clock,
    side_options,
)
from inspector.limits import in_force, named
from inspector.lint import live_findings
from inspector.logits import NextTokenLogits, next_token_logits
from inspector.media.measure import choose_rule, measure
from inspector.media.parts import media_parts
from inspector.media.report import Media, MediaReport, check_media_options, report
from inspector.messages import Conversation, canonicalize
from inspector.meter import rendering
from inspector.render import Rendered, drained, render_in_stages, stepped, template_call
from inspector.request import ChatRequest, parse_fields, parse_request
from inspector.template import OWN_TEMPLATE, Template
from inspector.tensors import ModelInputs, to_tensors
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from inspector.comparison import Comparison
    from inspector.lint import Report
    from inspector.service import SandboxedInspection


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """All values of one run; what lies after the stage that stopped is None, and `error` says why.

    Shapes: see Encoding and ModelInputs (B = 1).
    """

    options: Options
    clock: datetime
    request: ChatRequest | None = None
    conversation: Conversation | None = None
    tokenizer: Tokenizer | None = None
    template: Template | None = None
    rendered: Rendered | None = None
    encoding: Encoding | None = None
    budget: BudgetDecision | None = None
    media: MediaReport | None = None
    inputs: ModelInputs | None = None
    logits: NextTokenLogits | None = None
    findings: tuple[Finding, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict)
    error: InspectorError | None = None

    def raise_for_error(self) -> Inspection:
        """Raise the error that stopped the run, if any; else give the inspection itself."""
        if self.error is not None:
            raise self.error
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of schema `inspection/1`."""
        return {
            "schema": "inspection/1",
            "request": _request_dict(self.request, self.conversation),
            "options": _options_dict(self.options, self.clock),
            "tokenizer": _tokenizer_dict(self.tokenizer),
            "template": _template_dict(self.template),
            "rendered": _rendered_dict(self.rendered),
            **_encoding_dict(self.encoding, self.inputs),
            "budget": None if self.budget is None else self.budget.to_dict(),
            "media": None if self.media is None else self.media.items_dict(),
            "media_rule": None if self.media is None else self.media.rule_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "logits": None if self.logits is None else self.logits.to_dict(),
            "timings_ms": {stage: round(value, 3) for stage, value in self.timings_ms.items()},
            "versions": versions(),
            "error": None if self.error is None else self.error.to_dict(),
        }


def inspect(
    request: bytes | str | list[Any] | dict[str, Any] | Path,
    *,
    logits: bool = False,
    model: str | None = None,
    top_k: int = 10,
    sandbox: bool = False,
    **options: Any,
) -> Inspection | SandboxedInspection:
    """Inspect one request.

    `request`: JSON text (str or bytes), a path, or the messages list or request object itself. `options`: the fields
    of Options. With `sandbox=True` templates and tokenizer files are handled in a limited child process and the
    result is a SandboxedInspection, which has `to_dict()` and `error` only.
    Errors: input, template and budget errors are in `.error` of the result, with everything reached before;
    `.raise_for_error()` raises it. TypeError for an option that does not exist.

    >>> inspect([{"role": "user", "content": "hi"}], tokenizer="bytes").encoding.input_ids.tolist()
    [256, 257, 104, 105, 258]
    """
    chosen = make_options(**options)
    try:
        data = request_bytes(request)
        if sandbox:
            from inspector.service import SandboxedInspection

            return SandboxedInspection.of(data, chosen, model=model or DEFAULT_MODEL if logits else None, top_k=top_k)
        job = prepare(data, chosen)
    except InspectorError as error:
        return Inspection(chosen, run_clock(chosen), error=error)
    inspection = run(job)
    return add_logits(inspection, model or DEFAULT_MODEL, top_k) if logits else inspection


def compare(
    request: bytes | str | list[Any] | dict[str, Any] | Path,
    a: dict[str, Any] | str,
    b: dict[str, Any] | str,
    **shared: Any,
) -> Comparison:
    """Inspect one request twice and compare.

    `a`, `b`: options of each side (a dict, or "TOKENIZER[,TEMPLATE]"); `shared`: options of both, as for `inspect`.
    """
    from inspector.comparison import compare_inspections

    shared.setdefault("clock", datetime.now().astimezone())
    sides = [_side(request, {**shared, **side_options(side)}) for side in (a, b)]
    return compare_inspections(*sides)


def _side(request: bytes | str | list[Any] | dict[str, Any] | Path, options: dict[str, Any]) -> Inspection:
    inspection = inspect(request, **options)
    if not isinstance(inspection, Inspection):
        raise TypeError("compare has no sandbox option: it needs the arrays; use `python -m inspector compare`")
    return inspection


def run(job: Job) -> Inspection:
    """Run every stage up to the tensors; stop at the first error and keep what was reached."""
    building = _Building(job.options)
    try:
        _run_stages(job, building)
    except BudgetRejected as error:
        encoding = error.encoding
        building.set(budget=error.decision, rendered=encoding.rendered, encoding=encoding, error=error)
        building.set(inputs=to_tensors([encoding]))
        building.report_media()
    except InspectorError as error:
        building.set(error=error)
    return building.inspection()


class _Building:
    """The values reached so far, and a stopwatch per stage; the Inspection is made once, at the end."""

    def __init__(self, options: Options) -> None:
        self.options, self.clock = options, run_clock(options)
        self.values: dict[str, Any] = {}
        self.timings_ms: dict[str, float] = {}
        self.media: Media | None = None

    def report_media(self) -> None:
        """Say where the media are in the input, if the request has any."""
        if self.media is None:
            return
        given, decision = self.values["conversation"].messages, self.values.get("budget")
        kept = range(len(given)) if decision is None or decision.cut else _kept_messages(decision, len(given))
        with self.stage("media"):
            chosen = [given[index] for index in kept]
            whole = decision is None or not (decision.cut or decision.budget.policy.value.startswith("tokens_"))
            self.set(media=report(self.media, chosen, self.values["encoding"], whole=whole))

    def set(self, **values: Any) -> None:
        self.values.update(values)

    def stage(self, name: str) -> _Stopwatch:
        """Give what adds the time of a `with` to a stage."""
        return _Stopwatch(self.timings_ms, name)

    def inspection(self) -> Inspection:
        """Give what was reached, with what the live rules find."""
        reached = Inspection(self.options, self.clock, timings_ms=self.timings_ms, **self.values)
        with self.stage("findings"):
            findings = live_findings(reached)
        if not findings:
            return reached
        return Inspection(self.options, self.clock, timings_ms=self.timings_ms, findings=findings, **self.values)


class _Stopwatch:
    """Adds the time of its `with` to what a stage took before. A class: a generator costs three times as much."""

    __slots__ = ("_began", "_name", "_spent")

    def __init__(self, spent: dict[str, float], name: str) -> None:
        self._spent, self._name = spent, name

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._spent[self._name] = self._spent.get(self._name, 0.0) + (time.perf_counter() - self._began) * 1000


def _run_stages(job: Job, building: _Building) -> None:
    budget = budget_of(job.options)
    conversation, shared = _begin(job, building)

    def assemble(part: Conversation) -> Encoding:
        return _assemble(part, building=building, **shared)

    if budget is None:
        encoding = assemble(conversation)
    else:
        lengths = functools.partial(_lengths, options=job.options, clock=building.clock, **shared)
        fitted = fit_context(conversation, assemble, budget, lengths)
        encoding = fitted.encoding
        building.set(budget=fitted.decision)
    building.set(rendered=encoding.rendered, encoding=encoding)
    building.report_media()
    with building.stage("tensors"):
        inputs = to_tensors([encoding])
        building.set(inputs=inputs)
    if budget is not None:
        building.set(budget=_checked_lengths(fitted.decision, inputs))


def _checked_lengths(decision: BudgetDecision, inputs: ModelInputs) -> BudgetDecision:
    sizes = (inputs.input_ids.shape[1], int(inputs.attention_mask.sum()), inputs.position_ids.shape[1])
    return replace(decision, checks=lengths_check(decision.checks, *sizes))


def _begin(job: Job, building: _Building) -> tuple[Conversation, dict[str, Any]]:
    """Run the stages before rendering; give the conversation, and template and tokenizer by name."""
    options = job.options
    with building.stage("request"):
        request = _parsed(job.request)
        building.set(request=request)
    with building.stage("tokenizer"):
        tokenizer = load_tokenizer(job.tokenizer)
        building.set(tokenizer=tokenizer)
    template = job.template
    if template is None and not renders_itself(tokenizer, options.name):
        template = own_template(tokenizer, options.name, has_tools=bool(request.tools))
    building.set(template=template)
    if template is not None:
        check_template(template.text, {"template": template.id})
    with building.stage("messages"):
        template_text = template.text if template else None
        conversation = canonicalize(request, options.profile, arguments=options.arguments, template_text=template_text)
        building.set(conversation=conversation)
    building.media = _media(options, conversation, template, tokenizer, building)
    expanded = building.media if building.media is not None and building.media.expanded else None
    return conversation, {"template": template, "tokenizer": tokenizer, "media": expanded}


def _parsed(request: bytes | Fields) -> ChatRequest:
    limits = request_limits()
    with named(bytes="request_bytes", messages="messages"):
        if isinstance(request, Fields):
            return parse_fields(*astuple(request), limits=limits)
        return parse_request(request, limits=limits)


def _media(
    options: Options, conversation: Conversation, template: Template | None, tokenizer: Tokenizer, building: _Building
) -> Media | None:
    """Measure the media of the request; None where it has none."""
    check_media_options(options.media, options.image_tokens)
    if not media_parts(conversation.messages, range(len(conversation.messages))):
        return None
    with building.stage("media"):
        rule = choose_rule(presets.media_rules(), options.media_rule, template, tokenizer)
        items = measure(conversation.messages, rule, options.image_tokens)
    strict = options.media == "expanded"
    expanded = strict or (options.media == "auto" and options.context_window is not None)
    return Media(items, rule, options.image_tokens, expanded, strict)


def _kept_messages(decision: BudgetDecision, count: int) -> list[int]:
    kept = set(decision.kept)
    return [index for index in range(count) if f"messages[{index}]" in kept]


@dataclass(frozen=True, slots=True)
class Begun:
    """A job's conversation, before anything is rendered.

    `assemble` renders and tokenizes a part of it, with a generation prompt or without; `call` gives what the template is
    given for all of it, None where another engine or the tokenizer renders, or images are written out.
    """

    conversation: Conversation
    tokenizer: Tokenizer
    assemble: Callable[[Conversation, bool], Encoding]
    call: Callable[[bool], TemplateCall] | None


def begin(job: Job) -> Begun:
    """Run the stages before rendering.

    Errors: those of the stages up to messages.
    """
    building = _Building(job.options)
    return _begun(job, building, *_begin(job, building))


def _begun(job: Job, building: _Building, conversation: Conversation, shared: dict[str, Any]) -> Begun:
    def assemble(part: Conversation, add_generation_prompt: bool) -> Encoding:
        building.options = replace(job.options, add_generation_prompt=add_generation_prompt)
        return _assemble(part, building=building, **shared)

    template, tokenizer = shared["template"], shared["tokenizer"]

    def call(add_generation_prompt: bool) -> TemplateCall:
        return template_call(conversation, template, tokenizer.special_tokens, building.clock, add_generation_prompt)

    plain = job.options.engine == "jinja2" and not job.options.continue_final_message
    told = plain and template is not None and shared["media"] is None
    return Begun(conversation, tokenizer, assemble, call if told else None)


class Fitting:
    """A job's conversation, rendered and tokenized once, to be fitted into one window after the other.

    `whole` is the encoding without a window. Errors: those of the stages up to encode.
    """

    whole: Encoding

    def __init__(self, job: Job, building: _Building | None = None) -> None:
        for _stage in self._stages(job, building):
            pass

    @classmethod
    def in_stages(cls, job: Job, building: _Building) -> Generator[None, None, Fitting]:
        """Make one, with a yield after each stage."""
        made = cls.__new__(cls)
        yield from made._stages(job, building)
        return made

    def _stages(self, job: Job, building: _Building | None) -> Iterator[None]:
        self._job, self._building = job, building or _Building(job.options)
        self._lengths: list[Lengths | None] = []  # once it is made: what tells lengths, or None
        self.conversation, self._shared = _begin(job, self._building)
        yield
        rendered = yield from _rendered(self.conversation, building=self._building, **self._shared)
        self.whole = _encoded(rendered, self.conversation, building=self._building, **self._shared)
        yield

    def begun(self) -> Begun:
        """Give the conversation as `begin` does, with a stopwatch of its own."""
        return _begun(self._job, _Building(self._job.options), self.conversation, self._shared)

    def fit(self, options: Options) -> BudgetedInput | None:
        """Fit into the window of these options; None where they have none.

        Errors: as fit_context, OptionInvalid.
        """
        budget = budget_of(options)
        if budget is None:
            return None
        fitted = fit_context(self.conversation, self._candidate, budget, self._told)
        return replace(fitted, decision=_checked_lengths(fitted.decision, to_tensors([fitted.encoding])))

    def required_tokens(self) -> int | None:
        """Give how many tokens the required parts alone have; None where the template refuses them alone."""
        try:
            return len(self._assemble(required_part(self.conversation)))
        except InspectorError:
            return None

    def _assemble(self, part: Conversation) -> Encoding:
        return _assemble(part, building=self._building, **self._shared)

    def _candidate(self, part: Conversation) -> Encoding:
        return self.whole if part is self.conversation else self._assemble(part)

    def _told(self, conversation: Conversation) -> Lengths | None:
        """Give what tells lengths: always of the same conversation without documents. Its memory of turns stays."""
        if not self._lengths:
            options, clock = self._building.options, self._building.clock
            self._lengths.append(_lengths(conversation, options=options, clock=clock, **self._shared))
        return self._lengths[0]


def inspect_whole(job: Job) -> tuple[Inspection, Fitting | None]:
    """Run every stage but budget and tensors, whatever window the options have; give what was reached, and what fits it
    into windows and tells its prefixes without rendering it again (None after an error)."""
    return cast("tuple[Inspection, Fitting | None]", drained(inspect_in_stages(job)))


def inspect_in_stages(job: Job) -> Generator[None, None, tuple[Inspection, Fitting | None]]:
    """Do what `inspect_whole` does, with a yield after each stage.

    Of many jobs, one stage of all and then the next costs a fifth less than one job after the other: a stage's code and
    tables then stay in the processor's caches.
    """
    building = _Building(job.options)
    fitting = None
    try:
        made = yield from Fitting.in_stages(job, building)
        building.set(rendered=made.whole.rendered, encoding=made.whole)
        building.report_media()
        fitting = made
    except InspectorError as error:
        building.set(error=error)
    return building.inspection(), fitting


def budget_of(options: Options) -> Budget | None:
    """Give the budget that options ask for, if any.

    Errors: OptionInvalid.
    """
    if options.context_window is None:
        return None
    return make_budget(
        options.context_window, options.max_new_tokens, options.policy, options.whole_turns, options.document_order,
        options.first_turns,
    )  # fmt: skip


def _assemble(
    conversation: Conversation,
    *,
    template: Template | None,
    tokenizer: Tokenizer,
    media: Media | None = None,
    building: _Building,
) -> Encoding:
    chosen: dict[str, Any] = {"template": template, "tokenizer": tokenizer, "media": media, "building": building}
    return _encoded(drained(_rendered(conversation, **chosen)), conversation, **chosen)


def _rendered(
    conversation: Conversation,
    *,
    template: Template | None,
    tokenizer: Tokenizer,
    media: Media | None = None,
    building: _Building,
) -> Generator[None, None, Rendered]:
    options = building.options
    how: dict[str, Any] = {
        "add_generation_prompt": options.add_generation_prompt,
        "continue_final_message": options.continue_final_message,
    }
    if template is None:
        with building.stage("render"):
            rendered = tokenizer.render_request(conversation, **how)  # type: ignore[attr-defined]
    else:
        special, clock = tokenizer.special_tokens, building.clock.replace(tzinfo=None)
        how |= {"special_tokens": special, "clock": clock, "engine": options.engine}
        stages = render_in_stages(conversation, template, max_chars=in_force().rendered_chars, **how)
        rendered = None
        while rendered is None:
            with building.stage("render"), named(chars="rendered_chars"), rendering(template.id):
                rendered = stepped(stages)
            yield
    building.set(rendered=rendered)
    return cast("Rendered", rendered)


def _encoded(
    rendered: Rendered,
    conversation: Conversation,
    *,
    template: Template | None,
    tokenizer: Tokenizer,
    media: Media | None = None,
    building: _Building,
) -> Encoding:
    if media is not None:
        with building.stage("media"):
            rendered = media.applied(rendered, conversation.messages, tokenizer)
    with building.stage("encode"):
        return encode(rendered, tokenizer)


def _lengths(
    conversation: Conversation,
    *,
    template: Template | None,
    tokenizer: Tokenizer,
    media: Media | None = None,
    options: Options,
    clock: datetime,
) -> Lengths | None:
    """Give what tells the budget's search lengths without rendering; None where every candidate has to be rendered."""
    if template is None or media is not None or options.engine != "jinja2" or options.continue_final_message:
        return None
    call = template_call(conversation, template, tokenizer.special_tokens, clock, options.add_generation_prompt)
    return told_lengths(call, tokenizer)


def renders_itself(tokenizer: Tokenizer, name: str | None = None) -> bool:
    """Say whether the tokenizer encodes requests itself (a family with `render_request`), so that no template is
    needed; a named template is still looked for."""
    return name is None and hasattr(tokenizer, "render_request")


def own_template(tokenizer: Tokenizer, name: str | None, *, has_tools: bool) -> Template:
    """Choose among the tokenizer's own templates as transformers does: the named one, `tool_use` when tools are
    given, else `default`; a tokenizer without any gets the preset `raw`.

    Errors: TemplateMissing for a name it does not have.
    """
    from inspector.sources import resolve_template

    templates = tokenizer.chat_templates
    if not templates:
        return resolve_template("raw")
    wanted = name or ("tool_use" if has_tools and "tool_use" in templates else "default")
    if wanted not in templates:
        raise InspectorError(
            ErrorKind.TemplateMissing,
            f"{tokenizer.id} has no template named {wanted!r}",
            stage="template",
            where={"option": "name"},
            remedy=f"one of {', '.join(sorted(templates))}",
        )
    return Template(
        ref=f"{tokenizer.ref}{OWN_TEMPLATE}", id=tokenizer.id, revision="", name=wanted,
        file=_template_file(tokenizer), text=templates[wanted],
    )  # fmt: skip


def _template_file(tokenizer: Tokenizer) -> str:
    """The file that holds the tokenizer's templates: transformers reads chat_template.jinja before the config."""
    first = ("chat_template.jinja", "tokenizer_config.json")
    return min(tokenizer.files, key=lambda name: (first.index(name) if name in first else len(first), name))


def add_logits(inspection: Inspection, model: str = DEFAULT_MODEL, top_k: int = 10) -> Inspection:
    """Add the next-token logits of `model` after the input; an error of that stage goes into `.error`."""
    from inspector.sources import resolve_model

    if inspection.error is not None or inspection.encoding is None or inspection.tokenizer is None:
        return inspection
    began = time.perf_counter()
    try:
        artifact = resolve_model(model)
        check_pairing(artifact, inspection.tokenizer)
        ids = inspection.encoding.input_ids.tolist()
        logits = next_token_logits(ids, artifact, top_k=top_k, tokenizer=inspection.tokenizer)
    except InspectorError as error:
        return replace(inspection, error=error)
    spent = (time.perf_counter() - began) * 1000
    return replace(inspection, logits=logits, timings_ms={**inspection.timings_ms, "logits": spent})


def lint_dict(inspection: Inspection, report: Report) -> dict[str, Any]:
    """Give the JSON object of schema `lint/1`: what was checked, and the report."""
    return {
        "schema": "lint/1",
        "options": _options_dict(inspection.options, inspection.clock),
        "tokenizer": _tokenizer_dict(inspection.tokenizer),
        "template": _template_dict(inspection.template),
        "rendered_sha256": None if inspection.rendered is None else inspection.rendered.sha256,
        **report.to_dict(),
        "versions": versions(),
    }


def _request_dict(request: ChatRequest | None, conversation: Conversation | None) -> dict[str, Any] | None:
    if request is None:
        return None
    changes = conversation.changes if conversation is not None else request.changes
    listed = [{"path": c.path, "what": c.what, "before": c.before, "after": c.after, "by": c.by} for c in changes]
    return {**request.to_dict(), "changes": listed}


def _options_dict(options: Options, clock: datetime) -> dict[str, Any]:
    return {
        "tokenizer": options.tokenizer,
        "template": options.template,
        "name": options.name,
        "arguments": options.arguments,
        "add_generation_prompt": options.add_generation_prompt,
        "continue_final_message": options.continue_final_message,
        "clock": clock.isoformat(),
        "clock_from": "now" if options.clock is None else "given",
        "profile": options.profile,
        "engine": options.engine,
        "media": options.media,
        "media_rule": options.media_rule,
        "image_tokens": options.image_tokens,
    }


def _tokenizer_dict(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    if tokenizer is None:
        return None
    return {
        "ref": tokenizer.ref,
        "id": tokenizer.id,
        "digest": tokenizer.digest,
        "files": dict(sorted(tokenizer.files.items())),
        "vocab_size": tokenizer.vocab_size,
        "size": tokenizer.size,
        "model_max_length": tokenizer.model_max_length,
        "special_tokens": tokenizer.special_tokens,
        "reconstructed": tokenizer.reconstructed,
    }


def _template_dict(template: Template | None) -> dict[str, Any] | None:
    if template is None:
        return None
    return {
        "ref": template.ref,
        "id": template.id,
        "revision": template.revision or None,
        "name": template.name,
        "file": template.file or None,
        "digest": template.digest,
    }


def _rendered_dict(rendered: Rendered | None) -> dict[str, Any] | None:
    if rendered is None:
        return None
    return {
        "kind": rendered.kind,
        "text": None if rendered.kind == "token_segments" else rendered.text,
        "sha256": rendered.sha256,
        "template_id": rendered.template_id,
        "template_digest": rendered.template_digest,
        "segments": rendered.segments.to_dicts(),
    }


def _encoding_dict(encoding: Encoding | None, inputs: ModelInputs | None) -> dict[str, Any]:
    if encoding is None:
        return {
            "tokens": None, "input_ids": None, "attention_mask": None, "position_ids": None, "assistant_mask": None,
            "safe_input_ids": None, "assistant_mask_from": None, "counts": None, "uncovered": None,
        }  # fmt: skip
    return {
        "tokens": token_rows(encoding),
        "input_ids": encoding.input_ids.tolist(),
        "attention_mask": None if inputs is None else inputs.attention_mask[0].tolist(),
        "position_ids": None if inputs is None else inputs.position_ids[0].tolist(),
        "assistant_mask": encoding.assistant_mask.tolist(),
        "safe_input_ids": encoding.safe_input_ids.tolist(),
        "assistant_mask_from": encoding.assistant_mask_from,
        "counts": encoding.counts(),
        "uncovered": [{"start": gap.start, "end": gap.end, "why": gap.why} for gap in encoding.uncovered],
    }


@functools.lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Give the versions that can change a result."""
    libraries = ("transformers", "tokenizers", "jinja2")
    return {
        "inspector": __import__("inspector").__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in libraries},
        "unicode": unicodedata.unidata_version,
    }
