"""Render one conversation in several engines, and show where each parts from the reference.

It ranks nothing and explains nothing: a difference is a byte, the template line and field that wrote it in the
reference, and what both engines have there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.engines import ENGINES, load_engine
from inspector.engines.base import TemplateCall
from inspector.errors import InspectorError
from inspector.render import Rendered, common_prefix, render, template_call
from inspector.template import Template

if TYPE_CHECKING:
    from inspector.messages import Conversation

EXCERPT_CHARS = 40


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an engine's text parts from the reference's.

    Units: `byte` is the offset, in both texts, of the first character that differs; the excerpts are the characters
    from there on, with `before`, which both share. `kind`, `path` and `line` say who wrote the reference's byte there
    (the last one, where the reference ends).
    """

    byte: int
    kind: str | None
    path: str | None
    line: int | None
    before: str
    reference: str
    engine: str


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What one engine made of the call: a text, or an error. `equal` compares with the reference's text.

    Where the reference refuses too, engines are equal in that they refuse; each error says why. `limits` names what
    the engine could not take of the call.
    """

    engine: str
    text: str | None
    error: InspectorError | None
    equal: bool
    difference: Difference | None = None
    limits: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON values."""
        difference = self.difference
        return {
            "engine": self.engine,
            "text": self.text,
            "error": None if self.error is None else self.error.to_dict(),
            "equal": self.equal,
            "difference": None
            if difference is None
            else {name: getattr(difference, name) for name in Difference.__slots__},
            "limits": list(self.limits),
        }


def engine_check(
    conversation: Conversation,
    template: Template,
    *,
    special_tokens: Mapping[str, str],
    clock: datetime,
    add_generation_prompt: bool = True,
    engines: Sequence[str] = tuple(ENGINES),
) -> tuple[EngineResult, ...]:
    """Render in each engine, and compare with the reference (`jinja2`). One result an engine, in the order given.

    An engine that cannot be used here (its package is missing, it has no model) has that as its error.
    """
    call = template_call(conversation, template, dict(special_tokens), clock, add_generation_prompt)
    options: dict[str, Any] = {"special_tokens": dict(special_tokens), "clock": clock}
    reference: Rendered | InspectorError
    try:
        reference = render(conversation, template, add_generation_prompt=add_generation_prompt, **options)
    except InspectorError as error:
        reference = error
    return tuple(_result(name, call, reference) for name in engines)


def _result(name: str, call: TemplateCall, reference: Rendered | InspectorError) -> EngineResult:
    if name == "jinja2":
        if isinstance(reference, InspectorError):
            return EngineResult(name, None, reference, True)
        return EngineResult(name, reference.text, None, True)
    try:
        engine = load_engine(name)
    except InspectorError as error:
        return EngineResult(name, None, error, False)
    limits = engine.limits(call)
    try:
        text = engine.render_text(call)
    except InspectorError as error:
        same = isinstance(reference, InspectorError) and error.stage != "options"
        return EngineResult(name, None, error, same, None, limits)
    if isinstance(reference, InspectorError):
        return EngineResult(name, text, None, False, None, limits)
    difference = None if text == reference.text else first_difference(reference, text)
    return EngineResult(name, text, None, difference is None, difference, limits)


def first_difference(reference: Rendered, text: str) -> Difference:
    """Give where a text parts from the reference. The two must differ."""
    shared = common_prefix(reference.text, text)
    byte = len(text[:shared].encode("utf-8"))
    kind = path = line = None
    segments = reference.segments
    if len(segments):
        row = min(int(np.searchsorted(segments.end, byte, side="right")), len(segments) - 1)
        kind, path, line = segments.origin(row)
    start, end = max(0, shared - EXCERPT_CHARS), shared + EXCERPT_CHARS
    return Difference(byte, kind, path, line, text[start:shared], reference.text[shared:end], text[shared:end])
