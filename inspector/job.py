"""What is to be run: the options of an inspection, the request as bytes or editors, and the artifacts it needs.

`prepare` is the only step that touches network and cache. Nothing is parsed, rendered or tokenized here, and nothing
heavy is imported: the page and the command line use this module, children use pipeline.py.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from inspector import limits, presets
from inspector.engines import ENGINES
from inspector.errors import ErrorKind, InspectorError
from inspector.request import RequestLimits
from inspector.template import Template
from inspector.tokenizers.base import Tokenizer, TokenizerArtifact

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

DEFAULT_TOKENIZER = "smollm2"
DEFAULT_MODEL = "smollm2"
# What the page opens with: the embedded default tokenizer, so that the first screen needs no network and its logits can
# be computed, with two revisions of a real template.
FIRST_PANES = (
    {"tokenizer": DEFAULT_TOKENIZER, "template": "qwq-32b@current"},
    {"tokenizer": DEFAULT_TOKENIZER, "template": "qwq-32b@16488a"},
)
MAX_REFERENCE_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that decides an inspection besides the request. Refs are spelled as the user gave them.

    `template_text` is a pasted template; with `template` it is an edit of that one. `clock` None means the time of the run.
    `media`: "expanded" writes what the model's processor writes for each image, "written" leaves the template's
    placeholders, "auto" expands where there is a context window to fill. `image_tokens`: typed positions of an image.
    """

    tokenizer: str = DEFAULT_TOKENIZER
    template: str | None = None
    template_text: str | None = None
    name: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    clock: datetime | None = None
    profile: str = "transformers"
    engine: str = "jinja2"
    context_window: int | None = None
    max_new_tokens: int = 0
    policy: str = "messages"
    whole_turns: bool = False
    document_order: tuple[int, ...] = ()
    first_turns: int = 1
    media: str = "auto"
    media_rule: str | None = None
    image_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """A request as the page's four editors hold it."""

    messages: str
    tools: str = ""
    documents: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One inspection, ready to run without network. Picklable."""

    request: bytes | Fields
    options: Options
    tokenizer: TokenizerArtifact
    template: Template | None


def side_options(side: dict[str, Any] | str) -> dict[str, Any]:
    """Read "TOKENIZER[,TEMPLATE]".

    >>> side_options("smollm2,qwq-32b@16488a")
    {'tokenizer': 'smollm2', 'template': 'qwq-32b@16488a'}
    """
    if isinstance(side, dict):
        return side
    tokenizer, _comma, template = side.partition(",")
    return {"tokenizer": tokenizer.strip() or DEFAULT_TOKENIZER, **({"template": template.strip()} if template else {})}


def make_options(**options: Any) -> Options:
    """Build Options.

    Errors: TypeError for a name that Options does not have.
    """
    known = {entry.name for entry in fields(Options)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError(f"no option named {', '.join(unknown)}; the options are {', '.join(sorted(known))}")
    if isinstance(options.get("clock"), str):
        options["clock"] = parse_clock(options["clock"])
    if options.get("continue_final_message"):
        options["add_generation_prompt"] = False  # the library refuses both; continuing is the more specific wish
    return Options(**options)


def parse_clock(text: str) -> datetime:
    """Read an ISO 8601 time; without an offset it is taken as it stands.

    Errors: OptionInvalid.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{text!r} is not an ISO 8601 time",
            stage="options",
            where={"option": "clock"},
            remedy="give it as 2026-01-31T09:30:00 or with an offset, 2026-01-31T09:30:00+01:00",
        ) from None


def request_bytes(request: bytes | str | list[Any] | dict[str, Any] | Path) -> bytes:
    """Give the request as JSON bytes, so that every caller goes through the one strict parser.

    Errors: InputInvalid for values that JSON cannot hold and for a file that cannot be read.
    """
    if isinstance(request, bytes):
        return request
    if isinstance(request, Path):
        return read_request_file(request)
    try:
        if isinstance(request, str):
            return request.encode("utf-8", "surrogatepass")
        return json.dumps(request).encode("ascii")  # escapes lone surrogates: the parser names their path
    except (TypeError, ValueError, RecursionError) as error:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"the request cannot be written as JSON: {error}",
            stage="request",
            remedy="use dict, list, str, int, float, bool and None only",
        ) from None


def read_request_file(path: Path) -> bytes:
    """Read a request file.

    Errors: InputInvalid naming the path.
    """
    try:
        with path.open("rb") as file:
            return read_bounded(file)
    except OSError as error:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"cannot read the request: {error.strerror}",
            stage="request",
            where={"file": str(path)},
            remedy="give the path of a JSON file, or - for standard input",
        ) from None


def read_bounded(file: IO[bytes]) -> bytes:
    """Read a request from a file or pipe, never more than the limit.

    Errors: InputTooLarge.
    """
    limit = limits.in_force().request_bytes
    data = file.read(limit + 1)
    if len(data) > limit:
        message = f"the request has more than {limit:,} bytes, the limit"
        where = {"limit": limit}
        raise limits.over("request_bytes", message, ErrorKind.InputTooLarge, "request", "send a smaller request", where)
    return data


def request_limits() -> RequestLimits:
    """Give the bounds of a request in this process."""
    held = limits.in_force()
    return RequestLimits(held.request_bytes, held.json_depth, held.messages, held.object_keys)


def check_request(request: bytes | Fields) -> None:
    """Refuse a request that is too large, before anything reads it.

    Errors: InputTooLarge.
    """
    texts = [request] if isinstance(request, bytes) else list(astuple(request))
    size = sum(len(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")) for text in texts)
    remedy = "send a smaller request"
    limits.check(
        "request_bytes", size, f"the request has {size:,} bytes", ErrorKind.InputTooLarge, "request", remedy,
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _size_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def check_template(text: str, where: dict[str, Any] | None = None) -> None:
    """Refuse a template that is too large, before anything parses it.

    Errors: InputTooLarge.
    """
    size = _size_of(text)
    remedy = "take out of the template what this conversation does not need"
    limits.check(
        "template_bytes", size, f"the template has {size:,} bytes", ErrorKind.InputTooLarge, "template", remedy, where,
    )  # fmt: skip


def check_model_tokens(tokens: int) -> None:
    """Refuse an input that a model is not to be asked about, before its ids go anywhere.

    Errors: PromptTooLong.
    """
    remedy = "shorten the conversation, or give a context window so that messages are dropped"
    limits.check(
        "logits_tokens", tokens, f"the input has {tokens:,} tokens", ErrorKind.PromptTooLong, "logits", remedy,
    )  # fmt: skip


def prepare(
    request: bytes | Fields,
    options: Options,
    progress: Callable[..., None] | None = None,
    *,
    local_files: bool = True,
) -> Job:
    """Bring the artifacts that a run needs. The only step that touches network and cache.

    `local_files`: whether references may name files of this machine; a page that strangers use must not read them out.
    Errors: every kind of stage "source" and "options"; InputTooLarge.
    """
    from inspector.revisions import edited
    from inspector.sources import resolve_template, resolve_tokenizer

    _check_engine(options)
    check_request(request)
    if options.template_text is not None:
        check_template(options.template_text)
    for option, ref in (("tokenizer", options.tokenizer), ("template", options.template)):
        check_reference(option, ref or "")
    token = None if local_files else False  # a stranger's reference never gets this machine's own token
    tokenizer = resolve_tokenizer(options.tokenizer, progress, token=token, local=local_files)
    template = None
    if options.template_text is not None:
        template = Template(ref="pasted", id="pasted", revision="", name=options.name or "default", file="",
                            text=options.template_text)  # fmt: skip
    if options.template:
        origin = resolve_template(options.template, progress, options.name, token=token, local=local_files)
        template = origin if template is None else edited(origin, template.text)
    return Job(request, options, tokenizer, template)


def without_window(job: Job) -> Job:
    """Give the job without a budget: what is the same whatever the window is."""
    plain = Options()
    names = ("context_window", "max_new_tokens", "policy", "whole_turns", "document_order", "first_turns")
    return replace(job, options=replace(job.options, **{name: getattr(plain, name) for name in names}))


def check_reference(option: str, ref: str) -> None:
    """Refuse what no reference can be, before anything looks it up.

    Errors: OptionInvalid.
    """
    if not ref.isprintable() or len(ref) > MAX_REFERENCE_CHARS:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{ref[:60]!a} is no reference: at most {MAX_REFERENCE_CHARS} visible characters",
            stage="source",
            where={"option": option},
            remedy="give a preset id, a path or a source reference",
        )


def _check_engine(options: Options) -> None:
    if options.engine not in ENGINES:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"there is no template engine {options.engine!r}",
            stage="options",
            where={"option": "engine"},
            remedy=f"one of {', '.join(ENGINES)}",
        )


def check_pairing(model: ModelArtifact, tokenizer: Tokenizer | TokenizerArtifact) -> None:
    """Refuse a model whose vocabulary is another one: its logits would be about other tokens.

    Errors: ModelInvalid.
    """
    known = presets.tokenizers().get(model.id)  # a model preset has the id of the tokenizer it was trained with
    if known is not None and model.id != tokenizer.id:
        raise InspectorError(
            ErrorKind.ModelInvalid,
            f"the model {model.id} reads ids of its own tokenizer, these are ids of {tokenizer.id}",
            stage="logits",
            where={"model": model.ref, "tokenizer": tokenizer.ref},
            remedy=f"choose the tokenizer {model.id}, or a model that was trained with {tokenizer.id}",
        )


def run_clock(options: Options) -> datetime:
    """Give the time that templates see: the one given, else now with the machine's offset."""
    return options.clock or datetime.now().astimezone()
