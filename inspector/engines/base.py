"""What every template engine is given, and the traced run's answer. Imports no engine.

`shown_messages` and `cut_at_tag` do around a template what transformers' `render_jinja_template` does around its own:
reasoning under its other names, and the marker that says where a continued message ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from inspector.provenance import RunTable

CONTINUE_TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # transformers appends and finds this very text
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_REASONING = frozenset(REASONING_FIELDS)
_Text = TypeVar("_Text", bound=str)


@dataclass(frozen=True, slots=True)
class TemplateCall:
    """One call of a template: its text and everything it is given. Leaves may be traced or plain."""

    text: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any] | None = None
    documents: Sequence[Any] | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    clock: datetime = datetime(1970, 1, 1)
    add_generation_prompt: bool = True
    continue_final_message: bool | str = False


@dataclass(frozen=True, slots=True)
class TracedRender:
    """The text with its runs, and what was noticed on the way.

    `prompt_start` is the character where what add_generation_prompt added begins (None: it added nothing); it counts
    only if `prompt_known`, else it takes a second render without the flag to know. `lines_code` and `lines_ran` are
    template lines.
    """

    table: RunTable
    prompt_start: int | None
    prompt_known: bool
    warnings: tuple[tuple[str, int], ...]
    lines_code: tuple[int, ...]
    lines_ran: tuple[int, ...]


class Engine(Protocol):
    """What a module of this package gives."""

    def render_text(self, call: TemplateCall) -> str:
        """Give the text. Errors: InspectorError; the reference's are jinja2's and transformers' own."""
        ...

    def limits(self, call: TemplateCall) -> tuple[str, ...]:
        """Give what the engine cannot take of this call, one sentence each."""
        ...


def shown_messages(call: TemplateCall) -> list[Mapping[str, Any]]:
    """Give the messages as transformers hands them to the template."""
    messages = [_with_aliases(message) for message in call.messages]
    if call.continue_final_message:
        name = call.continue_final_message if isinstance(call.continue_final_message, str) else "content"
        messages[-1] = _with_tag(messages[-1], name)
    return messages


def _with_aliases(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Copy reasoning under its other names as transformers does; a copy keeps the path of what was copied."""
    if _REASONING.isdisjoint(message):
        return message
    reasoning = next((message[key] for key in REASONING_FIELDS if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _with_tag(message: Mapping[str, Any], field_name: str) -> dict[str, Any]:
    """Append the marker that says where to cut, as transformers does for continue_final_message."""
    tagged = dict(message)
    final = tagged[field_name]
    if isinstance(final, (list, tuple)):
        blocks = [dict(block) if isinstance(block, dict) else block for block in final]
        last = next(block for block in reversed(blocks) if "text" in block)
        last["text"] = last["text"] + CONTINUE_TAG
        return {**tagged, field_name: blocks}
    fields = [field_name]
    if field_name in REASONING_FIELDS:
        fields = [name for name in REASONING_FIELDS if tagged.get(name) == final]
    for name in fields:
        tagged[name] = tagged[name] + CONTINUE_TAG
    return tagged


def cut_at_tag(text: _Text) -> _Text:
    """End the text where the marker stands. Errors: ValueError if it does not."""
    place = text.rindex(CONTINUE_TAG.strip())
    cut: Any = text[:place]
    return cut if text.startswith(CONTINUE_TAG, place) else cut.rstrip()
