"""Render a conversation with a template: the bytes that the library would send, and who wrote each of them.

The text is always the reference's (transformers' `render_jinja_template`); beside it a traced run says where each byte
came from. Where the two differ the reference wins and the provenance is `unknown`, with a note. Nothing is tokenized
here, no clock is read, and special tokens are only what the caller says they are.

The assistant's bytes come from `{% generation %}` where the template has it. Otherwise they are derived: the
bytes of an assistant message's fields (all but its role and name), what the template wrote between them, and the turn
terminator that the template writes after them, which is the first special token's text or `<|…|>` (or else `<…>`) in
the literal text that follows, up to the next content.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from inspector.engines import load_engine
from inspector.engines.base import CONTINUE_TAG, TemplateCall, TracedRender
from inspector.errors import ErrorKind, InspectorError, clipped
from inspector.jsontext import child_path
from inspector.provenance import (
    IN_GENERATION,
    LINE_MASK,
    NOBODY,
    UNKNOWN,
    Origin,
    RunTable,
    SegmentKind,
    assemble,
    column,
    make,
    runs_of,
    whole,
)
from inspector.template import Template

if TYPE_CHECKING:
    from inspector.engines.jinja2_engine import Place
    from inspector.messages import Conversation

KIND_NAMES = tuple(kind.name.lower() for kind in SegmentKind)


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Who wrote each stretch of the rendered bytes, one row a segment, in order, without gap or overlap.

    Shapes: start, end, field_start int64[n]; kind uint8[n] (SegmentKind); line, path int32[n].
    Units: start, end are byte offsets into `Rendered.utf8`, half-open; line is the 1-based template line that wrote the
    bytes (0: none); path indexes `paths` (-1: none); field_start is a byte offset into that field's own text (-1: the
    bytes are no copy of it, as for a dict key or derived text). `ids` holds token ids, one tuple a row, only where a
    tokenizer encodes requests itself (`Rendered.kind` is "token_segments").
    """

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    line: np.ndarray
    path: np.ndarray
    field_start: np.ndarray
    paths: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...] | None = None

    def __len__(self) -> int:
        return len(self.start)

    def origin(self, row: int) -> tuple[str, str | None, int | None]:
        """Give kind, path and template line of one row, as `inspection/1` spells them."""
        path, line = int(self.path[row]), int(self.line[row])
        return KIND_NAMES[self.kind[row]], self.paths[path] if path >= 0 else None, line or None

    def to_dicts(self) -> list[dict[str, Any]]:
        """Give the `segments` list of `inspection/1`."""
        columns = (self.start, self.end, self.kind, self.path, self.line, self.field_start)
        rows = zip(*(column.tolist() for column in columns))
        return [
            {
                "start": start,
                "end": end,
                "kind": KIND_NAMES[kind],
                "path": self.paths[path] if path >= 0 else None,
                "line": line or None,
                "field_start": field_start if field_start >= 0 else None,
                "ids": list(self.ids[row]) if self.ids is not None else None,
            }
            for row, (start, end, kind, path, line, field_start) in enumerate(rows)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Rendered:
    """The rendered prompt, with the origin of every byte.

    Units: `assistant_spans` and `generation_prompt` are half-open byte ranges of `utf8`. `warnings` names what the
    sandbox blocked without an error, with the template line (0: not known). `lines_code` are the template lines with a tag or with text to write, `lines_ran`
    those of them that ran; both are empty where the traced run gave nothing.
    """

    kind: str  # "bytes" | "token_segments"
    text: str
    utf8: bytes
    sha256: str
    template_id: str
    template_digest: str
    segments: Segments
    provenance: str = "traced"  # "traced" | "unknown": of some bytes at least
    provenance_note: str = ""
    assistant_spans: tuple[tuple[int, int], ...] = ()
    assistant_from: str | None = None  # "generation" | "provenance" | None
    generation_prompt: tuple[int, int] | None = None
    warnings: tuple[tuple[str, int], ...] = ()
    lines_code: tuple[int, ...] = ()
    lines_ran: tuple[int, ...] = ()


def render(
    conversation: Conversation,
    template: Template,
    *,
    special_tokens: dict[str, str],
    clock: datetime,
    add_generation_prompt: bool = True,
    continue_final_message: bool | str = False,
    engine: str = "jinja2",
    max_chars: int | None = None,
) -> Rendered:
    """Render like the library, and tell who wrote each byte.

    Units: `clock` is what the template's strftime_now reads; its zone is ignored, as transformers' clock has none.
    Errors: OptionInvalid (engine), ContinuationInvalid, TemplateSyntax, TemplateTooComplex, TemplateUnsupported,
    TemplateRaised, SandboxBlocked, TemplateRuntime, RecursionLimit, MemoryLimit, InputInvalid, OutputTooLarge,
    UnencodableText.
    """
    stages = render_in_stages(
        conversation, template, special_tokens=special_tokens, clock=clock, add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message, engine=engine, max_chars=max_chars,
    )  # fmt: skip
    return cast(Rendered, drained(stages))


def stepped(stages: Generator[None, None, Any]) -> Any:
    """Run up to the next yield; give what is returned at the end, None before."""
    try:
        return next(stages)
    except StopIteration as done:
        return done.value


def drained(stages: Generator[None, None, Any]) -> Any:
    """Run to the end of stages that return something; give that."""
    while (given := stepped(stages)) is None:
        pass
    return given


def render_in_stages(
    conversation: Conversation,
    template: Template,
    *,
    special_tokens: dict[str, str],
    clock: datetime,
    add_generation_prompt: bool = True,
    continue_final_message: bool | str = False,
    engine: str = "jinja2",
    max_chars: int | None = None,
) -> Generator[None, None, Rendered]:
    """Do what `render` does, with a yield after the reference's text and after the traced run."""
    other = None if engine == "jinja2" else load_engine(engine)
    _check_template(template.text)
    call = template_call(conversation, template, special_tokens, clock, add_generation_prompt, continue_final_message)
    try:
        text = _render_reference(call, max_chars) if other is None else other.render_text(call)
    except InspectorError as error:
        raise _naming_null(error, conversation) from error.__cause__
    if max_chars is not None and len(text) > max_chars:
        raise _too_much_text("rendered text", len(text), max_chars)
    text = _without_addresses(text, call)
    utf8 = _encode(text)
    yield
    traced, note = _trace_run(call, text) if other is None else _trace_beside(call, text, engine)
    yield
    if traced is None:
        return _unknown(text, utf8, template, note)
    return _assemble(text, utf8, template, call, traced, note)


def template_call(
    conversation: Conversation,
    template: Template,
    special_tokens: dict[str, str],
    clock: datetime,
    add_generation_prompt: bool = True,
    continue_final_message: bool | str = False,
) -> TemplateCall:
    """Give what an engine is given."""
    return TemplateCall(
        template.text,
        conversation.messages,
        conversation.tools,
        conversation.documents,
        special_tokens,
        conversation.kwargs,
        clock,
        add_generation_prompt,
        continue_final_message,
    )


# --- the reference and its errors -------------------------------------------------------------------------------


def _render_reference(call: TemplateCall, max_chars: int | None = None) -> str:
    from inspector.engines import jinja2_engine

    if call.continue_final_message and call.add_generation_prompt:
        raise InspectorError(
            ErrorKind.ContinuationInvalid,
            "continue_final_message and add_generation_prompt exclude each other",
            stage="render",
            where={"option": "--continue-final-message"},
            remedy="pass --no-generation-prompt, or drop --continue-final-message",
        )
    if call.continue_final_message and any(CONTINUE_TAG.strip() in text for text in _given(call)):
        raise InspectorError(
            ErrorKind.ContinuationInvalid,
            f"the template or the request holds {CONTINUE_TAG.strip()}, the mark at which the library ends the text",
            stage="render",
            where={"option": "--continue-final-message"},
            remedy="take the mark out, or do not continue the final message",
        )
    try:
        jinja2_engine.compile_reference(call.text)
    except Exception as error:
        raise compile_error(error, call.text) from error
    try:
        return jinja2_engine.reference(call)
    except Exception as error:
        raise _render_error(error, call, max_chars) from error


def compile_error(error: Exception, text: str) -> InspectorError:
    """Name what Jinja's parser and Python's compiler say about a template."""
    from inspector.engines import jinja2_engine

    if jinja2_engine.is_syntax_error(error):
        place = jinja2_engine.failing_place(text, error)
        message = clipped(getattr(error, "message", None) or str(error))
        remedy = f"correct the template at line {place.line}" if place.line else "correct the template"
        return InspectorError(ErrorKind.TemplateSyntax, message, stage="template", where=_where(place), remedy=remedy)
    if type(error) is SyntaxError and "outside loop" in str(error):  # which Jinja's parser lets through
        return InspectorError(
            ErrorKind.TemplateSyntax,
            f"{error.msg.split(' (')[0]}: break and continue stand inside a for",
            stage="template",
            remedy="put it inside {% for %}, or remove it",
        )
    if isinstance(error, (RecursionError, SyntaxError, MemoryError)):
        place = jinja2_engine.failing_place(text, error)
        if isinstance(error, MemoryError) and place.depth < _NESTS:  # a constant that the compiler computes
            return InspectorError(
                ErrorKind.MemoryLimit,
                "the template's constants need more memory than there is",
                stage="template",
                where=_where(place),
                remedy="make the text that the template builds smaller",
            )
        return InspectorError(
            ErrorKind.TemplateTooComplex,
            f"the template nests deeper than the compiler can go ({type(error).__name__}: {_first_line(error)})",
            stage="template",
            where=_where(place),
            remedy="split nested blocks, parentheses or long expression chains into {% set %} steps",
        )
    if _is_too_large_integer(error):  # an expression of constants is computed by the compiler
        literal = "value has" in str(error)
        return InspectorError(
            ErrorKind.TemplateSyntax if literal else ErrorKind.TemplateRuntime,
            _TOO_LARGE,
            stage="template" if literal else "render",
            where=_where(jinja2_engine.failing_place(text, error)) | {"exception": type(error).__name__},
            remedy="write a smaller number",
        )
    return InspectorError(
        ErrorKind.TemplateSyntax,
        f"{type(error).__name__}: {clipped(_first_line(error))}",
        stage="template",
        remedy="correct the template",
    )


_NESTS = 90  # levels below which Python's compiler does not run out of its own stack, which it calls a MemoryError too
_TOO_DEEP = "maximum recursion depth exceeded"  # Python adds where its count ran out, which depends on who called
_TOO_LARGE = "integer too large to print: it has more than 4,300 digits, Python's limit"


def _is_too_large_integer(error: BaseException) -> bool:
    return isinstance(error, ValueError) and "integer string conversion" in str(error)


def _where(place: Place) -> dict[str, Any]:
    return {name: value for name, value in (("line", place.line), ("column", place.column)) if value}


def _first_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return (str(error).splitlines() or [""])[0]


def _render_error(error: Exception, call: TemplateCall, max_chars: int | None) -> InspectorError:
    """Name an error of the library, of the template, or of the sandbox, with the template line and the message."""
    frames = list(_frames(error.__traceback__))
    if frames[-1][0].f_code.co_name == "render_jinja_template":
        return _library_error(error, call)
    kind, remedy = _kind_of(error, call)
    where: dict[str, Any] = {}
    lines = [line for frame, line in frames if frame.f_code.co_filename == "<template>"]
    if lines:
        where["line"] = lines[-1]
    index = _message_index(frames)
    if index is not None:
        given = _given_index(call.messages[index])
        where["path"] = f"messages[{index if given == NOBODY else given}]"
    looped = _looped_message(error, call)
    if looped is not None:
        where["path"], where["message"] = f"messages[{looped}]", looped
    if kind is ErrorKind.TemplateRuntime:
        where["exception"] = type(error).__name__
    message = _without_addresses(_message_of(error, kind), call)
    if max_chars is not None and len(message) > max_chars:
        return _too_much_text("error message", len(message), max_chars, where)
    return InspectorError(kind, clipped(message), stage="render", where=where, remedy=remedy)


def _message_of(error: Exception, kind: ErrorKind) -> str:
    if kind is ErrorKind.TemplateUnsupported:
        return "include, import and extends are not available in chat templates: there is no other file to read"
    if kind is ErrorKind.UnencodableText and isinstance(error, UnicodeEncodeError):
        code = ord(error.object[error.start])
        return f"character {error.start} of a text is U+{code:04X}, a lone surrogate: it has no UTF-8 form"
    if _is_too_large_integer(error):
        return _TOO_LARGE
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return str(error) or type(error).__name__


def _naming_null(error: InspectorError, conversation: Conversation) -> InspectorError:
    """Say of a missing field of a message that the request had it as null, which is why the template sees none."""
    missing = re.search(r"has no attribute '(.+)'$", error.message)
    dropped = [c.path for c in conversation.changes if c.what == "null key dropped"]
    if error.kind is not ErrorKind.TemplateRuntime or not missing or not dropped:
        return error
    fields = [path for path in dropped if path == child_path(path[: path.index("]") + 1], missing[1])]
    here = error.where.get("path")
    path = next((each for each in fields if here is None or each == child_path(here, missing[1])), None)
    if path is None:
        return error
    remedy = f'{path} is null; transformers drops null keys; give ""'
    return InspectorError(error.kind, error.message, stage=error.stage, where=error.where, remedy=remedy)


def _looped_message(error: Exception, call: TemplateCall) -> int | None:
    from inspector.engines import jinja2_engine

    if isinstance(error, RecursionError | MemoryError):  # a second run could do without the memory the first one left
        return None
    return jinja2_engine.failing_message(call, error)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[Any, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _kind_of(error: Exception, call: TemplateCall) -> tuple[ErrorKind, str]:
    from inspector.engines import jinja2_engine

    if isinstance(error, RecursionError):
        return ErrorKind.RecursionLimit, "end the recursion of the macro or of the recursive loop"
    if isinstance(error, MemoryError):
        return ErrorKind.MemoryLimit, "make the text that the template builds smaller"
    if jinja2_engine.is_security_error(error):
        return ErrorKind.SandboxBlocked, "remove that access from the template: the sandbox forbids it"
    if jinja2_engine.is_raised_by_template(error):
        return ErrorKind.TemplateRaised, "change the messages, tools or arguments as the template's own message asks"
    if jinja2_engine.needs_loader(error, call.text):
        return ErrorKind.TemplateUnsupported, "paste the other template's text in place of include, import or extends"
    if jinja2_engine.touched_dunder(error):
        return ErrorKind.SandboxBlocked, "remove that access from the template: chat templates see no Python object"
    if jinja2_engine.is_too_wide_range(error):
        return ErrorKind.SandboxLimit, "loop over fewer numbers"
    if isinstance(error, UnicodeEncodeError):
        return ErrorKind.UnencodableText, "remove the lone surrogate from the template or the field that holds it"
    if jinja2_engine.is_undefined(error):
        return ErrorKind.TemplateRuntime, "give the field that the template reads, or correct the template at that line"
    return ErrorKind.TemplateRuntime, "correct the template at that line, or the value that it works on there"


def _library_error(error: Exception, call: TemplateCall) -> InspectorError:
    """Name what transformers itself refuses: continuations, and messages or documents that are no objects."""
    if call.continue_final_message:
        # The library's message ends with the whole rendered chat; the first sentence is the reason.
        reason = str(error).split("Final message to continue:")[0]
        return InspectorError(
            ErrorKind.ContinuationInvalid,
            clipped(reason),
            stage="render",
            where={"option": "--continue-final-message"},
            remedy="end the conversation with a message whose text the template prints unchanged",
        )
    return InspectorError(
        ErrorKind.InputInvalid,
        clipped(str(error)),
        stage="render",
        remedy="give messages, tools and documents as lists of objects",
    )


def _message_index(frames: list[tuple[Any, int]]) -> int | None:
    """Give the message that the template was at: one of the rendered messages, held by a variable of its frames.

    Jinja rebuilds its frames with the template's variables; a finished loop's variable is gone from them.
    """
    chats = [frame.f_locals["chat"] for frame, _ in frames if frame.f_code.co_name == "render_jinja_template"]
    if not chats:
        return None
    places = {id(message): index for index, message in enumerate(chats[0])}
    for frame, _ in reversed(frames):
        if frame.f_code.co_filename != "<template>":
            continue
        loop = frame.f_locals.get("loop")
        current = places.get(id(getattr(loop, "_current", None)))
        if current is not None:
            return current
        held = {places[id(value)] for value in frame.f_locals.values() if id(value) in places}
        named = frame.f_locals.get("message")
        if id(named) in places:
            return places[id(named)]
        if len(held) == 1:
            return held.pop()
    return None


def _check_template(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InspectorError(
            ErrorKind.UnencodableText,
            f"the template holds U+{ord(text[error.start]):04X}, a lone surrogate: it has no UTF-8 form",
            stage="template",
            where={"line": text.count("\n", 0, error.start) + 1},
            remedy="remove the lone surrogate from the template",
        ) from None


_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]{6,16}(?=>)")


def _without_addresses(text: str, call: TemplateCall) -> str:
    """Write zeros for the addresses of Python objects that a template prints: they differ in every process, and tell
    where this one keeps its memory. What the request or the template says itself stays."""
    found = set(_ADDRESS.findall(text)) if " at 0x" in text else None
    if not found:
        return text
    given = "\n".join(_given(call))
    found -= {address for address in found if address in given}
    return _ADDRESS.sub(lambda at: "0" * len(at[0]) if at[0] in found else at[0], text) if found else text


def _given(call: TemplateCall) -> Iterator[str]:
    return _texts((call.text, call.messages, call.tools, call.documents, call.kwargs, call.special_tokens))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield str.__str__(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _too_much_text(what: str, chars: int, limit: int, where: dict[str, Any] | None = None) -> InspectorError:
    return InspectorError(
        ErrorKind.OutputTooLarge,
        f"the {what} has {chars:,} characters; the limit is {limit:,}",
        stage="render",
        where={"chars": chars, "limit": limit, **(where or {})},
        remedy="shorten the messages, or what the template writes",
    )


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InspectorError(
            ErrorKind.UnencodableText,
            f"character {error.start} of the rendered text is U+{ord(text[error.start]):04X}, a lone surrogate: it has no UTF-8 form",
            stage="render",
            where={"char": error.start},
            remedy="remove the lone surrogate from the template or the field that holds it",
        ) from None


# --- the traced run beside it -----------------------------------------------------------------------------------


def _trace_run(call: TemplateCall, text: str) -> tuple[TracedRender | None, str]:
    """Give the traced run if its text equals the reference's, else None and why."""
    from inspector.engines import jinja2_engine

    try:
        traced = jinja2_engine.render_traced(call)
    except Exception as error:
        return None, f"the traced run failed where the reference did not: {type(error).__name__}: {_first_line(error)}"
    shown = _without_addresses(traced.table.text, call)
    if shown == text:
        return (traced if shown is traced.table.text else replace(traced, table=replace(traced.table, text=shown))), ""
    place = common_prefix(shown, text)
    return None, f"the traced run differs from the reference from character {place} on"


def writer_of(call: TemplateCall, text: str, char: int) -> tuple[str, int | None, str | None] | None:
    """Say who wrote a character of the call's text: kind, template line, path. None where the traced run gives another
    text up to there. It makes no segments: for one place in a text that is not looked at otherwise."""
    from inspector.engines import jinja2_engine

    try:
        found = jinja2_engine.traced_upto(call, char) if 0 <= char < len(text) else None
    except Exception:
        return None
    if found is None or not text.startswith(_without_addresses(found.text, call)):
        return None
    return KIND_NAMES[found.origin.kind], found.line or None, found.origin.path or None


def _trace_beside(call: TemplateCall, text: str, engine: str) -> tuple[TracedRender | None, str]:
    """Give the reference's traced run for another engine's text: what they share at the start and at the end."""
    try:
        reference = _render_reference(call)
    except InspectorError as error:
        return None, f"the reference refuses what {engine} renders: {error.message}"
    traced, note = _trace_run(call, reference)
    if traced is None or reference == text:
        return traced, note
    start = common_prefix(reference, text)
    rest = min(len(reference), len(text)) - start
    end = common_prefix(reference[start:][::-1][:rest], text[start:][::-1][:rest])
    note = f"{engine} differs from the reference in {len(text) - end - start} characters from character {start} on"
    return _spliced(traced, text, start, end), note


def _spliced(traced: TracedRender, text: str, start: int, end: int) -> TracedRender:
    """Keep the runs of the first `start` and the last `end` characters; what lies between is unknown."""
    table = traced.table
    known = make(table.text, tuple(zip(table.chars.tolist(), table.origins, table.offset.tolist(), table.tag.tolist())))
    middle = whole(text[start : len(text) - end], UNKNOWN)
    spliced = assemble([known[:start], middle, known[len(known) - end :]])
    prompt = traced.prompt_start
    if prompt is not None and prompt > start:
        moved = prompt + len(text) - len(known)
        prompt = moved if prompt >= len(known) - end else None
    # Without a known block, a second render without the flag would tell of the reference only: nothing is claimed.
    return replace(traced, table=spliced, prompt_start=prompt, prompt_known=True)


def _unknown(text: str, utf8: bytes, template: Template, note: str) -> Rendered:
    rows = 1 if utf8 else 0
    segments = Segments(
        start=np.zeros(rows, np.int64),
        end=np.full(rows, len(utf8), np.int64),
        kind=np.full(rows, SegmentKind.UNKNOWN, np.uint8),
        line=np.zeros(rows, np.int32),
        path=np.full(rows, -1, np.int32),
        field_start=np.full(rows, -1, np.int64),
        paths=(),
    )
    digest = hashlib.sha256(utf8).hexdigest()
    return Rendered("bytes", text, utf8, digest, template.id, template.digest, segments, "unknown", note)


def _assemble(
    text: str, utf8: bytes, template: Template, call: TemplateCall, traced: TracedRender, note: str
) -> Rendered:
    columns = _Columns(traced.table, utf8)
    prompt_start = _prompt_start(text, columns, call, traced)
    segments = columns.segments(prompt_start)
    if _marks_generation(call.text):
        spans, source = columns.generation_spans(), "generation"  # none where no tag was reached: nothing is trained
    else:
        spans, source = _assistant_spans(columns, utf8, call, prompt_start), "provenance"
    return Rendered(
        kind="bytes",
        text=text,
        utf8=utf8,
        sha256=hashlib.sha256(utf8).hexdigest(),
        template_id=template.id,
        template_digest=template.digest,
        segments=segments,
        provenance="unknown" if note else "traced",
        provenance_note=note,
        assistant_spans=spans,
        assistant_from=source if spans or source == "generation" else None,
        generation_prompt=None if prompt_start is None else (prompt_start, len(utf8)),
        warnings=traced.warnings,
        lines_code=traced.lines_code,
        lines_ran=traced.lines_ran,
    )


_get_kind, _get_owner, _get_exact, _get_path = map(attrgetter, ("kind", "owner", "exact", "path"))


class _Columns:
    """The runs of a traced text as arrays in bytes, before neighbours are merged into segments."""

    def __init__(self, table: RunTable, utf8: bytes) -> None:
        self.size = len(utf8)
        self.char_ends = table.chars.cumsum()
        self._byte_of = None if len(utf8) == len(table.text) else _ByteOffsets(utf8)
        self.end = self.char_ends if self._byte_of is None else self._byte_of(self.char_ends)
        self.start = np.empty_like(self.end)
        self.start[:1], self.start[1:] = 0, self.end[:-1]
        self.tag = table.tag
        self._describe(table)

    def _describe(self, table: RunTable) -> None:
        """Give what origins say as columns."""
        origins = table.origins
        paths = list(map(_get_path, origins))
        places = dict.fromkeys(paths)
        places.pop("", None)
        self.paths = tuple(places)
        place_of = dict(zip(self.paths, range(len(self.paths))))
        place_of[""] = -1
        self.kinds = bytes(map(_get_kind, origins))
        self.kind = np.frombuffer(self.kinds, np.uint8)
        self.owners = list(map(_get_owner, origins))
        self.path = column(list(map(place_of.__getitem__, paths)))
        exact = np.frombuffer(bytes(map(_get_exact, origins)), bool)
        self.field_start = np.where(exact, table.offset, -1)
        self._measure_fields(table)

    def _measure_fields(self, table: RunTable) -> None:
        """Turn offsets of characters into offsets of bytes."""
        tables: dict[Origin, _ByteOffsets] = {}
        for row in (self.field_start > 0).nonzero()[0].tolist():
            origin = table.origins[row]
            if origin.text.isascii():
                continue
            if origin not in tables:
                tables[origin] = _ByteOffsets(origin.text.encode("utf-8", "surrogatepass"))
            self.field_start[row] = tables[origin](table.offset[row])

    def byte_of(self, char: int) -> int:
        """Give the byte offset of a character offset."""
        return char if self._byte_of is None else int(self._byte_of(char))

    def segments(self, boundary: int | None) -> Segments:
        """Merge neighbours of one source and line, except across the byte `boundary`."""
        line = self.tag & LINE_MASK
        source = (self.path << 48) | (line << 8) | self.kind
        # Where a copy would go on; a run that is no copy (-1) can go on only in another one.
        next_start = np.where(self.field_start < 0, -1, self.field_start + (self.end - self.start))
        keep = np.ones(len(source), bool)
        keep[1:] = (source[1:] != source[:-1]) | (self.field_start[1:] != next_start[:-1])
        if boundary is not None:
            keep |= self.start == boundary
        start = self.start[keep]
        end = np.empty_like(start)
        end[:-1], end[-1:] = start[1:], self.size
        return Segments(
            start=start,
            end=end,
            kind=self.kind[keep],
            line=line[keep].astype(np.int32),
            path=self.path[keep].astype(np.int32),
            field_start=self.field_start[keep],
            paths=self.paths,
        )

    def generation_spans(self) -> tuple[tuple[int, int], ...]:
        """Give the byte ranges put out inside `{% generation %}`."""
        inside = self.tag >= IN_GENERATION
        if not inside.any():
            return ()
        edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(np.int8), [0]))))
        return tuple((int(self.start[a]), int(self.end[b - 1])) for a, b in edges.reshape(-1, 2))


class _ByteOffsets:
    """Turns character offsets of a UTF-8 text into byte offsets; its size is that of the characters above U+007F."""

    def __init__(self, utf8: bytes) -> None:
        data = np.frombuffer(utf8, np.uint8)
        place = (data >= 0xC0).nonzero()[0]
        lead = data[place]
        self._before = np.zeros(len(place) + 1, np.int64)
        # The bytes that a character has beside its first, summed: one, two from U+0800 and three from U+10000 on.
        np.cumsum(1 + (lead >= 0xE0).view(np.uint8) + (lead >= 0xF0), out=self._before[1:])
        self._chars = place - self._before[:-1]

    def __call__(self, chars: Any) -> Any:
        """Give the byte offset of each character offset (one, or an array of them)."""
        return chars + self._before[self._chars.searchsorted(chars)]


# --- the generation prompt --------------------------------------------------------------------------------------


def _prompt_start(text: str, columns: _Columns, call: TemplateCall, traced: TracedRender) -> int | None:
    """Give the byte where what add_generation_prompt added begins; None if it added nothing."""
    if not call.add_generation_prompt:
        return None
    if traced.prompt_known:
        return None if traced.prompt_start is None else columns.byte_of(traced.prompt_start)
    without = _without_prompt(call)
    if without is None or without == text:
        return None
    shared = common_prefix(text, without)
    if shared == len(text):
        return None
    boundary = int(np.searchsorted(columns.char_ends, shared, side="right"))
    return int(columns.start[boundary])


def _without_prompt(call: TemplateCall) -> str | None:
    from inspector.engines import jinja2_engine

    try:
        return _without_addresses(jinja2_engine.reference(jinja2_engine.without_generation_prompt(call)), call)
    except Exception:
        return None  # a template may insist on the flag; then nothing can be told apart


def common_prefix(a: str, b: str) -> int:
    """Give the number of characters that two texts share at their start."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # bisect: comparing slices is far faster than comparing characters
        middle = (low + high + 1) // 2
        if a.startswith(b[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


# --- the assistant's bytes, derived -----------------------------------------------------------------------------

_GENERATION_TAG = re.compile(r"\{%-?\s*generation\s*-?%\}")


@functools.lru_cache(maxsize=64)
def _marks_generation(template_text: str) -> bool:
    return _GENERATION_TAG.search(template_text) is not None


_BAR_LITERAL = re.compile(r"<[|｜][^<>\n]{1,60}[|｜]>")
_TAG_LITERAL = re.compile(r"</?[A-Za-z_][\w.:-]{0,40}>")
_ROLE_WORD = re.compile(rb"\s*\w*\s*")
_TERMINATOR_REACH = 96  # bytes of literal text after a turn in which its terminator is looked for
_ASSISTANT_ROLES = ("assistant", "model")
_LITERAL = (int(SegmentKind.TEMPLATE), int(SegmentKind.SPECIAL))
_FOREIGN = (int(SegmentKind.TOOL), int(SegmentKind.DOCUMENT), int(SegmentKind.KWARG))


def _assistant_spans(
    columns: _Columns, utf8: bytes, call: TemplateCall, prompt_start: int | None
) -> tuple[tuple[int, int], ...]:
    indexes = given_indexes(call.messages)
    speakers = {index for index, message in zip(indexes, call.messages) if message.get("role") in _ASSISTANT_ROLES}
    speakers.discard(NOBODY)
    if not speakers:
        return ()
    limit = columns.size if prompt_start is None else prompt_start
    starts, ends = [*columns.start.tolist(), columns.size], columns.end.tolist()
    search = _Terminators(call)
    best: dict[int, tuple[int, int, int]] = {}
    for index, first, last, following in _turns(columns):
        start, end = starts[first], ends[last]
        # Of equal ones the last is the turn.
        if index in speakers and (index not in best or end - start >= best[index][1] - best[index][0]):
            best[index] = (start, end, min(starts[following], limit))
    spans = ((a, b + search.length_in(utf8[b:stop], stop < limit)) for a, b, stop in best.values())
    return tuple(sorted(spans))


def given_indexes(messages: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Give each message's index in the request as given. They rise, so if the last is in its place all are."""
    count = len(messages)
    if messages and _given_index(messages[-1]) == count - 1:
        return range(count)
    return list(map(_given_index, messages))


def _given_index(message: Mapping[str, Any]) -> int:
    """Give the message's index in the request as given: a budget may have dropped messages before it."""
    role = message.get("role")
    for run in runs_of(role if isinstance(role, str) else ""):
        path = run[1].path
        if path.startswith("messages["):
            return int(path[len("messages[") : path.index("]")])
    return NOBODY


def _turns(columns: _Columns) -> list[list[int]]:
    """Give message, first row and last row of the stretches in which only that message's fields are written, and the
    next row that is no literal text (or the number of rows).

    Literal text, roles and names may lie inside a stretch; a tool's, document's or argument's text ends it, and is one
    of NOBODY. Most prompts have some fifty rows, for which this is done before numpy has begun.
    """
    found: list[list[int]] = []
    current, ended = [NOBODY, 0, 0, 0], True
    count = len(columns.kinds)
    for row, (owner, kind) in enumerate(zip(columns.owners, columns.kinds)):
        if owner == NOBODY and kind in _LITERAL:
            continue
        if not ended:
            current[3], ended = row, True
        if owner != NOBODY or kind in _FOREIGN:
            if found and owner == current[0]:
                current[2], current[3] = row, count
            else:
                current = [owner, row, row, count]
                found.append(current)
            ended = False
    return found


class _Terminators:
    """Finds the turn terminator in the literal text after a turn; equal texts are searched once.

    It is the first special token's text or marker there, no farther than a blank line. A marker after which
    nothing but a role's word stands before the next content opens the next turn, and is no terminator; a special token
    of the tokenizer always is one.
    """

    def __init__(self, call: TemplateCall) -> None:
        tokens = {name: text for name, text in call.special_tokens.items() if isinstance(text, str) and text}
        self._literals = [text.encode() for name, text in tokens.items() if name != "bos_token"]
        self._known: dict[tuple[bytes, bool], int] = {}

    def length_in(self, after: bytes, followed: bool) -> int:
        """Give the bytes up to the end of the terminator; 0 where there is none. `followed`: content comes after."""
        length = self._known.get((after, followed))
        if length is None:
            length = self._known[after, followed] = self._search(after, followed)
        return length

    def _search(self, after: bytes, followed: bool) -> int:
        lead = len(after) - len(after.lstrip())
        near = after[lead:].split(b"\n\n", 1)[0][:_TERMINATOR_REACH]
        named = [place + len(text) for text in self._literals if (place := near.find(text)) >= 0]
        text = near.decode("utf-8", "ignore")
        shaped = _BAR_LITERAL.search(text) or (None if named else _TAG_LITERAL.search(text))
        places = [lead + end for end in named]
        if shaped is not None:
            end = lead + len(text[: shaped.end()].encode("utf-8"))
            if end in places or not (followed and _ROLE_WORD.fullmatch(after[end:])):
                places.append(end)
        return min(places, default=0)
