"""The reference's Jinja called otherwise than transformers calls it: for lint's probes, never for what is sent.

Names can be left out, undefined values that are printed can be listed, and the environment can be that of a program
that uses jinja2 as it comes (its `tojson` escapes and sorts) or that keeps a template's final line feed.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from inspector.engines import jinja2_engine
from inspector.engines.base import TemplateCall, shown_messages
from inspector.provenance import plain


@dataclass(frozen=True, slots=True)
class UndefinedUse:
    """A value that was not there and was printed as nothing: its name, the type that lacks it (None: a variable), the
    template line."""

    name: str
    owner: str | None
    line: int


def render_bare(
    call: TemplateCall,
    *,
    omit: Collection[str] = (),
    plain_jinja: bool = False,
    keep_trailing_newline: bool = False,
    used: list[UndefinedUse] | None = None,
) -> str:
    """Render a call with names left out, or in another environment; `used` collects the undefined values printed.

    Errors: whatever the template raises, unchanged.
    """
    template = _compiled(call.text, plain_jinja, keep_trailing_newline, used is not None)
    variables = {
        "strftime_now": call.clock.replace(tzinfo=None).strftime,
        **call.special_tokens,
        **plain(dict(call.kwargs)),
        "messages": plain(list(shown_messages(call))),
        "tools": plain(call.tools),
        "documents": plain(call.documents),
        "add_generation_prompt": call.add_generation_prompt,
    }
    token = _sink.set((template, used))
    try:
        return template.render({name: value for name, value in variables.items() if name not in omit})
    finally:
        _sink.reset(token)


def generation_spans(call: TemplateCall) -> tuple[tuple[int, int], ...]:
    """Give the character ranges that transformers' assistant mask covers. Errors: the template's own, unchanged."""
    library: Any = jinja2_engine._library
    with jinja2_engine.fixed_clock(call.clock):
        _texts, spans = library.render_jinja_template(
            conversations=[call.messages],
            tools=call.tools,
            documents=call.documents,
            chat_template=call.text,
            return_assistant_tokens_mask=True,
            add_generation_prompt=call.add_generation_prompt,
            **{**call.special_tokens, **call.kwargs},
        )
    return tuple(spans[0])


class _Generation(Extension):
    """`{% generation %}` prints its body."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


_sink: ContextVar[tuple[jinja2.Template, list[UndefinedUse] | None] | None] = ContextVar("_sink", default=None)


class _Logging(jinja2.Undefined):
    def __str__(self) -> str:
        sink = _sink.get()
        if sink is not None and sink[1] is not None:
            owner = None if self._undefined_obj is jinja2.utils.missing else type(self._undefined_obj).__name__
            name = self._undefined_name or self._undefined_hint or "a value"
            sink[1].append(UndefinedUse(str(name), owner, _line(sink[0])))
        return ""


@lru_cache(maxsize=64)
def _compiled(text: str, plain_jinja: bool, keep_trailing_newline: bool, logging: bool) -> jinja2.Template:
    reference = jinja2_engine.compile_reference("").environment
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, loopcontrols],
        keep_trailing_newline=keep_trailing_newline,
        undefined=_Logging if logging else jinja2.Undefined,
    )
    for name in ("raise_exception", "dict", "namespace"):
        environment.globals[name] = reference.globals[name]
    if not plain_jinja:
        environment.filters["tojson"] = reference.filters["tojson"]
    return environment.from_string(text)


def _line(template: jinja2.Template) -> int:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == "<template>":
            return template.get_corresponding_lineno(frame.f_lineno)
        frame = frame.f_back
    return 0
