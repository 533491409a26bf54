"""Rendering: who wrote each byte, what the library would have raised, and what the flags added."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from inspector.engines import jinja2_engine
from inspector.errors import ErrorKind, InspectorError
from inspector.messages import Conversation, canonicalize
from inspector.provenance import trace
from inspector.render import Rendered, render
from inspector.request import parse_request
from inspector.template import Template

CLOCK = datetime(2024, 7, 26, 12, 30)
CHAT = [{"role": "user", "content": "  Hi <b>you</b>\n"}, {"role": "assistant", "content": "Héllo"}]


def run(text: str, messages: Any = CHAT, **options: Any) -> Rendered:
    parts = {
        name: trace(options.pop(name, None), path)
        for name, path in (("tools", "tools"), ("documents", "documents"), ("kwargs", "chat_template_kwargs"))
    }
    conversation = Conversation(trace(messages, "messages"), parts["tools"], parts["documents"], parts["kwargs"] or {})
    options = {"special_tokens": {"bos_token": "<s>", "eos_token": "</s>"}, "clock": CLOCK, **options}
    return render(conversation, Template("t", "t", "", "default", "", text), **options)


def rows(rendered: Rendered) -> list[tuple[str, str | None, int | None, str]]:
    """Kind, path, line and text of each segment."""
    segments = rendered.segments.to_dicts()
    return [(s["kind"], s["path"], s["line"], rendered.utf8[s["start"] : s["end"]].decode()) for s in segments]


def content_of(rendered: Rendered) -> str:
    """The text that is a copy of messages[0].content."""
    return "".join(text for kind, path, _, text in rows(rendered) if (kind, path) == ("message", "messages[0].content"))


def test_each_byte_names_its_writer_and_its_template_line() -> None:
    text = (
        "{{ bos_token }}{% for m in messages %}\n<|{{ m.role }}|>\n{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}\n"
        "{{ strftime_now('%Y') }}{{ tools[0].name }}{{ documents[0].title }}{{ flag }}{{ loop_count + 1 }}"
    )
    kwargs = {"flag": "on", "loop_count": 1}
    got = rows(run(text, CHAT[:1], tools=[{"name": "f"}], documents=[{"title": "D"}], kwargs=kwargs))
    assert got == [
        ("special", "bos_token", 1, "<s>"),
        ("template", None, 2, "<|"),
        ("message", "messages[0].role", 2, "user"),
        ("template", None, 2, "|>\n"),
        ("message", "messages[0].content", 3, "Hi <b>you</b>"),
        ("special", "eos_token", 3, "</s>"),
        ("template", None, 3, "\n"),
        ("clock", "clock", 5, "2024"),
        ("tool", "tools[0].name", 5, "f"),
        ("document", "documents[0].title", 5, "D"),
        ("kwarg", "chat_template_kwargs.flag", 5, "on"),
        ("derived", "chat_template_kwargs.loop_count", 5, "2"),
    ]


WHOLE = [  # every construct here prints all of the content, perhaps among other text
    "{{ c }}", "{{ '[' + c + ']' }}", "{{ 'a' ~ c ~ 1 }}", "{{ '%s!' % c }}", "{{ '%s!' | format(c) }}",
    "{{ '{}-{}'.format(c, 1) }}", "{{ '{x}'.format_map({'x': c}) }}", "{{ c | string }}", "{{ c | list | join }}",
    "{{ [c, 'x'] | join(', ') }}", "{{ [c, 'x'] | first }}", "{{ ['x', c] | last }}", "{{ c | safe }}",
    "{% for ch in c %}{{ ch }}{% endfor %}", "{% set x %}<{{ c }}>{% endset %}{{ x }}", "{{ c | center(40) }}",
    "{% set ns = namespace(t='') %}{% for ch in c %}{% set ns.t = ns.t + ch %}{% endfor %}{{ ns.t }}",
    "{% macro m(x) %}({{ x }}){% endmacro %}{{ m(c) }}", "{{ c | reverse | reverse }}", "{{ c[::-1][::-1] }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{{ c }}{% endcall %}", "{{ c | replace('zz', 'y') }}",
    "{% macro r(n) %}{% if n %}{{ r(n - 1) }}{% else %}{{ c }}{% endif %}{% endmacro %}{{ r(5) }}",
    "{{ {'k': c}.k }}", "{{ ({'k': c} | items | list)[0][1] }}", "{{ ({'k': c} | dictsort)[0][1] }}",
    "{{ messages | map(attribute='content') | first }}", "{{ (messages | selectattr('role', 'equalto', 'user') | list)[0].content }}",
    "{{ (messages | groupby('role'))[1].list[0].content }}", "{{ [c, c] | unique | join }}",
    "{{ c.partition('<b>') | join }}", "{{ c * 2 }}", "{{ c.ljust(40) }}", "{{ c | default('none') }}", "{{ (c ~ 'x') | indent(2) }}",
    "{% filter trim %}x{{ c }}x{% endfilter %}", "{{ dict(k=c)['k'] }}", "{{ (c,) | join }}", "{{ c if c else 'no' }}",
    "{% with y = c %}{{ y }}{% endwith %}", "{% raw %}{{ x }}{% endraw %}{{ c }}", "{{ c.encode('utf-8').decode('utf-8') }}",
]  # fmt: skip


@pytest.mark.parametrize("body", WHOLE)
def test_content_is_carried_whole_through(body: str) -> None:
    rendered = run("{% set c = messages[0].content %}" + body)
    assert rendered.provenance == "traced"
    assert CHAT[0]["content"] in content_of(rendered)
    assert all(kind in ("message", "template") for kind, *_ in rows(rendered))


PARTS = [  # construct, what is kept as a copy
    ("{{ c | trim }}", "Hi <b>you</b>"), ("{{ c[2:4] }}", "Hi"), ("{{ c[2] }}", "H"), ("{{ c[2:8:2] }}", "H b"),
    ("{{ c.split() | join('|') }}", "Hi<b>you</b>"), ("{{ c | truncate(7, true, '') }}", "  Hi <b"),
    ("{{ c | replace('<b>', '*') }}", "  Hi you</b>\n"), ("{{ c | e }}", "  Hi &lt;b&gt;you&lt;/b&gt;\n"), ("{{ c.removeprefix('  ') }}", "Hi <b>you</b>\n"),
    ("{{ c | capitalize }}", "  i <b>you</b>\n"), ("{{ c | title }}", "  Hi <>you</b>\n"), ("{{ c | upper }}", "  H <></>\n"),
    ("{{ c | tojson }}", r"  Hi <b>you</b>\n"), ("{{ c.splitlines()[0] }}", "  Hi <b>you</b>"), ("{{ c | wordwrap(8) }}", "  Hi <b>you</b>"),
    ("{{ [c] }}", r"  Hi <b>you</b>\n"), ("{{ messages[0] | tojson(indent=2) }}", r"content  Hi <b>you</b>\n"), ("{{ {'a': c} }}", r"  Hi <b>you</b>\n"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kept"), PARTS)
def test_what_an_operation_leaves_is_kept_and_the_rest_is_derived_from_it(body: str, kept: str) -> None:
    rendered = run("{% set c = messages[0].content %}" + body)
    assert rendered.provenance == "traced" and content_of(rendered) == kept
    assert {path for kind, path, *_ in rows(rendered) if kind == "derived"} <= {"messages[0].content"}


def test_keys_and_numbers_of_the_request_carry_their_path() -> None:
    call = {"n": 3, "two words": [1.5, None], "s": "x"}
    messages = [{"role": "assistant", "arguments": call}]
    text = "{% for k, v in messages[0].arguments | items %}{{ k }}={{ v | tojson }};{% endfor %}{{ loop }}{{ messages[0].arguments.n }}"
    paths = [(path, text) for kind, path, _, text in rows(run(text, messages)) if kind == "message"]
    root = "messages[0].arguments"
    assert paths == [
        (f"{root}.n", "n"), (f"{root}.n", "3"), (f'{root}["two words"]', "two words"), (f'{root}["two words"][0]', "1.5"),
        (f'{root}["two words"][1]', "null"), (f"{root}.s", "s"), (f"{root}.s", "x"), (f"{root}.n", "3"),
    ]  # fmt: skip


FLAGS = {"role": "assistant", "on": True, "list": [False, [None]], "in": {"off": False, "none": None}}
PRINTED = [  # how a boolean or null is printed, and the fields that the printed bytes name
    ("{{ m.on }}", {"on": "True"}), ("{{ m['on'] }}", {"on": "True"}), ("{{ m.on | tojson }}", {"on": "true"}),
    ("{{ '' ~ m.on }}", {"on": "True"}), ("{{ m.on | string }}", {"on": "True"}), ("{{ m.on if m.on else 1 }}", {"on": "True"}),
    ("{{ m.list[0] }}", {"list[0]": "False"}), ("{{ m.list[-1][-1] }}", {"list[1][0]": "None"}),
    ("{{ m.list | tojson }}", {"list[0]": "false", "list[1][0]": "null"}), ("{{ m.list }}", {"list[0]": "False", "list[1][0]": "None"}),
    ("{{ m.in.values() | list }}", {}), ("{% for k, v in m.in.items() %}{{ v }}{% endfor %}", {"in.off": "False", "in.none": "None"}),
    ("{% for k, v in m.in | dictsort %}{{ v | tojson }}{% endfor %}", {"in.off": "false", "in.none": "null"}),
    ("{% for k, v in m.in | items %}{{ v | tojson if v is not string else v }}{% endfor %}", {"in.off": "false", "in.none": "null"}),
    ("{% for k, v in m.in.items() %}{% set k = 'x' %}{{ v }}{% endfor %}", {}),
    ("{% for k, v in m.in.items() %}{% set v = true %}{{ v }}{% endfor %}", {}),
    ("{% for k, v in m.in.items() %}{% for k, v in [(1, true)] %}{{ v }}{% endfor %}{% endfor %}", {}),
    ("{% for k, v in m.in.items() %}{% macro p(v) %}{{ v }}{% endmacro %}{{ p(true) }}{% endfor %}", {}),
    ("{{ {'on': true}.on }}{{ [true][0] }}{{ true }}", {}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "named"), PRINTED)
def test_a_boolean_or_null_names_its_field_where_it_is_known_and_none_where_it_is_not(
    body: str, named: dict[str, str]
) -> None:
    rendered = run("{% set m = messages[0] %}" + body, [FLAGS])
    assert rendered.provenance == "traced"
    fields = {path: text for kind, path, _, text in rows(rendered) if kind == "message" and text not in ("off", "none")}
    assert fields == {f"messages[0].{path}": text for path, text in named.items()}
    assert all(path is None for kind, path, *_ in rows(rendered) if kind == "derived")


def test_offsets_are_bytes_of_the_field() -> None:
    rendered = run("é{{ messages[0].content[2:] }}", [{"role": "user", "content": "天空🙂x"}])
    last = rendered.segments.to_dicts()[-1]
    assert (last["start"], last["end"], last["field_start"]) == (2, 7, 6)


def test_template_text_over_several_lines_knows_each_line() -> None:
    assert [(line, text) for _, _, line, text in rows(run("one\ntwo\n{# #}\n{{ 'four' }}"))] == [
        (1, "one\n"), (2, "two\n"), (4, "four"),
    ]  # fmt: skip


# --- the generation prompt, the assistant ------------------------------------------------------------------------

LOOP = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
PROMPTS = [
    LOOP + "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    LOOP + "{% if add_generation_prompt and true %}{{ '<|assistant|>' }}{% endif %}\n",
    LOOP + "{% if not add_generation_prompt %}{{ eos_token }}{% else %}<|assistant|>{% endif %}",
    LOOP.replace("{% endfor %}", "{% if loop.last and add_generation_prompt %}<|assistant|>{% endif %}{% endfor %}"),
    LOOP + "{{ '<|assistant|>' if add_generation_prompt else '' }}",
]


@pytest.mark.parametrize("text", PROMPTS)
def test_the_generation_prompt_is_what_the_flag_added(text: str) -> None:
    rendered = run(text)
    assert rendered.generation_prompt is not None
    start, end = rendered.generation_prompt
    assert rendered.utf8[start:end].strip() == b"<|assistant|>" and end == len(rendered.utf8)
    assert start in rendered.segments.start
    assert run(text, add_generation_prompt=False).generation_prompt is None


@pytest.mark.parametrize(
    "text",
    [
        LOOP,
        LOOP + "{% if add_generation_prompt %}{% endif %}",
        LOOP + "{% if add_generation_prompt %}{{ '' }}{% endif %}\n",
    ],
)
def test_no_generation_prompt_where_the_flag_adds_nothing(text: str) -> None:
    assert run(text).generation_prompt is None


def spans(rendered: Rendered) -> list[str]:
    return [rendered.utf8[a:b].decode() for a, b in rendered.assistant_spans]


@pytest.mark.parametrize(
    "text",
    [
        "{% generation %}Héllo{% endgeneration %}",
        "{% for m in messages %}{{ m.role }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}",
        "x{% set s %}{% generation %}{{ messages[1].content }}{% endgeneration %}!{% endset %}{{ s }}",
        "{% macro g(m) %}a{% generation %}{{ m.content }}{% endgeneration %}b{% endmacro %}é{{ g(messages[1]) | trim }}",
    ],
)
def test_generation_marks_are_right_wherever_they_stand(text: str) -> None:
    rendered = run(text)
    assert (spans(rendered), rendered.assistant_from) == (["Héllo"], "generation")


def test_without_the_tag_the_assistant_is_derived_with_its_terminator() -> None:
    chat = [*CHAT, {"role": "user", "content": "x"}, {"role": "assistant", "reasoning_content": "why", "content": "so"}]
    text = "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>\n{% endfor %}"
    rendered = run(text, chat)
    assert (spans(rendered), rendered.assistant_from) == (["Héllo<|end|>", "why</think>so<|end|>"], "provenance")
    assert run(text, CHAT[:1]).assistant_from is None


# --- continue_final_message -------------------------------------------------------------------------------------

CONTINUED = [
    (LOOP, CHAT), (LOOP, [{"role": "assistant", "content": "trailing  "}]),
    (LOOP.replace("m.content", "m.content | trim"), [{"role": "assistant", "content": " trailing  "}]),
    ("{% for m in messages %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endfor %}",
     [{"role": "assistant", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), CONTINUED)
def test_a_continued_message_ends_where_transformers_ends_it(text: str, messages: Any) -> None:
    rendered = run(text, messages, continue_final_message=True, add_generation_prompt=False)
    expected = render_jinja_template([messages], chat_template=text, continue_final_message=True)[0][0]
    assert rendered.text == expected and rendered.provenance == "traced"


@pytest.mark.parametrize(
    ("text", "messages", "options"),
    [
        (LOOP, [{"role": "assistant", "tool_calls": []}], {}),
        ("{{ messages[0].role }}content", CHAT, {}),
        ("nothing", CHAT, {}),
        (LOOP, [], {}),
        (LOOP, CHAT, {"add_generation_prompt": True}),
    ],
)
def test_a_continuation_that_cannot_be_is_refused(text: str, messages: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InspectorError) as caught:
        run(text, messages, **{"continue_final_message": True, "add_generation_prompt": False, **options})
    assert caught.value.kind is ErrorKind.ContinuationInvalid and caught.value.remedy


# --- errors -----------------------------------------------------------------------------------------------------

ERRORS = [
    ("a\n{% if %}", "TemplateSyntax", {"line": 2}),
    ("{{ x|nofilter }}", "TemplateSyntax", {"line": 1}),
    ("\n{{ raise_exception('no ' + messages[0].role) }}", "TemplateRaised", {"line": 2}),
    ("{% for m in messages %}\n{{ m.missing.deeper }}{% endfor %}", "TemplateRuntime", {"line": 2, "path": "messages[0]"}),
    ("{% for m in messages %}{% if loop.last %}\n{{ m.content + 1 }}{% endif %}{% endfor %}", "TemplateRuntime", {"line": 2, "path": "messages[1]"}),
    ("{% macro f(m) %}{{ 1 / 0 }}{% endmacro %}{{ f(messages[1]) }}", "TemplateRuntime", {"line": 1, "path": "messages[1]"}),
    ("{{ ''.__class__.__mro__ }}", "SandboxBlocked", {"line": 1}),
    ("{{ messages.append(1) }}", "SandboxBlocked", {"line": 1}),
    ("{% set ns = namespace(a=1) %}{% set ns._b = 2 %}", "SandboxBlocked", {"line": 1}),
    ("{% include 'x' %}", "TemplateUnsupported", {"line": 1}),
    ("{% extends 'x' %}", "TemplateUnsupported", {"line": 1}),
    ("{% import 'x' as y %}", "TemplateUnsupported", {"line": 1}),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionLimit", {}),
    ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "TemplateTooComplex", {}),
    ("{{ '\\ud800' }}", "UnencodableText", {}),
    ("a\n{# \ud800 #}", "UnencodableText", {"line": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "where"), ERRORS)
def test_errors_name_kind_line_and_message(text: str, kind: str, where: dict[str, Any]) -> None:
    with pytest.raises(InspectorError) as caught:
        run(text)
    error = caught.value
    assert (error.kind.name, error.remedy != "") == (kind, True)
    assert {key: value for key, value in error.where.items() if key in ("line", "path")} == where or not where


def test_a_template_error_has_the_library_message() -> None:
    with pytest.raises(InspectorError) as caught:
        run("{{ messages[0].foo.bar }}")
    assert caught.value.message == "'dict object' has no attribute 'foo'"
    assert caught.value.where["exception"] == "UndefinedError"


def test_a_field_that_was_null_in_the_request_is_named_in_the_remedy() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat = [
        *CHAT,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    for read in ("m.content.strip()", "m['content'] + 'x'"):
        template = Template("t", "t", "", "default", "", "{% for m in messages %}{{ " + read + " }}{% endfor %}")
        for profile, remedy in (("transformers", 'messages[2].content is null; transformers drops null keys; give ""'), ("openai", None)):  # fmt: skip
            with pytest.raises(InspectorError) as caught:
                render(
                    canonicalize(parse_request(json.dumps({"messages": chat}).encode()), profile),
                    template,
                    special_tokens={},
                    clock=CLOCK,
                )
            assert caught.value.where["path"] == "messages[2]"
            assert caught.value.remedy == remedy or (remedy is None and "null" not in caught.value.remedy)
    with pytest.raises(InspectorError) as caught:
        render(canonicalize(parse_request(json.dumps({"messages": chat}).encode())), replace(template, text="{{ messages[2].name.x }}"), special_tokens={}, clock=CLOCK)  # fmt: skip
    assert "null" not in caught.value.remedy


def test_text_over_the_limit_is_refused() -> None:
    with pytest.raises(InspectorError) as caught:
        run("{{ 'x' * 100 }}", max_chars=99)
    assert caught.value.kind is ErrorKind.OutputTooLarge


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InspectorError) as caught:
        run("x", engine="nunjucks")
    assert caught.value.kind is ErrorKind.OptionInvalid


def test_a_blocked_access_that_prints_nothing_is_a_warning() -> None:
    rendered = run("{{ '{0[__class__]}'.format({}) }}{{ '{0.__class__}'.format('') }}ok")
    assert rendered.text == "ok" and len(rendered.warnings) == 2 and "__class__" in rendered.warnings[0][0]
    assert run("ok").warnings == ()


def test_where_the_two_runs_differ_the_reference_wins_and_says_so() -> None:
    rendered = run("{{ range(10**5) | random }}")  # a fresh draw in each run
    assert rendered.provenance == "unknown" and "differs" in rendered.provenance_note
    assert rows(rendered) == [("unknown", None, None, rendered.text)]


# --- the same as transformers -----------------------------------------------------------------------------------

SAME = [
    "{{ strftime_now('%d %b %Y %H:%M%Z') }}", "{{ messages[0].path }}{{ messages[0]._traced }}{{ messages[0].content._runs }}",
    "{{ messages[0].content.exact is defined }}{{ messages[0].items is defined }}", "{{ namespace(a=1) }}{{ dict(a=1) }}",
    "{% autoescape true %}{{ messages[0].content }}{{ '<' ~ messages[0].content }}{% endautoescape %}",
    "{% autoescape messages[0].role == 'user' %}{{ messages[0].content }}{% macro f() %}<{{ '&' }}{% endmacro %}{{ f() }}{% endautoescape %}",
    "{{ (messages[0].content | safe) + '<' }}{{ '<' + (messages[0].content | e) }}{{ (messages[0].content | e) ~ '<' }}",
    "{{ messages[0].content | urlencode }}{{ messages | pprint }}{{ messages[0].content | striptags | wordcount }}",
    "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ loop.index }}{{ loop.previtem.role }}{% break %}{% endfor %}",
    "{{ messages[0].content | length }}{{ messages[0] is mapping }}{{ messages[0].content is string }}{{ n is integer }}{{ x is float }}",
    "{{ n + x }}{{ n // 2 }}{{ n | float }}{{ x | round | int }}{{ [n, x] | sum }}{{ '%03d|%.2f|%x' % (n, x, n) }}{{ '{:>5}|{:.1f}'.format(n, x) }}",
    "{{ [1, 2.5, none, true, 'it\\'s', \"q\\\"'\"] }}{{ (1,) }}{{ {} }}{{ messages }}", "{{ cycler('a', 'b').next() }}{{ joiner(',') }}",
    "{% block b %}{{ messages[0].content }}{% endblock %}{{ self.b() }}", "{{ messages[0].content | xmlattr if false else {'a': messages[0].content} | xmlattr }}",
    "{% for k, v in messages[0].items() recursive %}{{ k }}{{ loop.depth }}{% endfor %}", "{{ '' if undefined_thing }}{{ undefined_thing }}",
    "{{ messages[0].get('nope') }}{{ messages[0].get('nope', 'dflt') }}{{ messages[0] | attr('role') }}", "{{ n | filesizeformat }}{{ 'a\r\n\n b\n' | indent }}{{ 'a\n\nb' | indent('>', true, true) }}{{ '' | indent(2, true) }}{{ true }}{{ none }}{{ 1.0 }}",
    "{{ messages[0] | tojson(indent=4, sort_keys=true) }}{{ messages | tojson(ensure_ascii=true, separators=(',', ':')) }}",
]  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_the_traced_sandbox_prints_what_transformers_prints(text: str) -> None:
    kwargs = {"n": 7, "x": 2.25}
    rendered = run(text, kwargs=kwargs)
    with jinja2_engine.fixed_clock(CLOCK):
        special = {"bos_token": "<s>", "eos_token": "</s>"}
        expected = render_jinja_template([CHAT], chat_template=text, add_generation_prompt=True, **special, **kwargs)[
            0
        ][0]
    assert rendered.text == re.sub(r"(?<= at 0x)[0-9a-f]+", lambda at: "0" * len(at[0]), expected)
    assert (rendered.provenance, rendered.provenance_note) == ("traced", "")


def test_reasoning_is_copied_under_its_other_names_with_its_own_path() -> None:
    rendered = run("{{ messages[0].reasoning_content }}", [{"role": "assistant", "thinking": "hm", "content": ""}])
    assert rows(rendered) == [("message", "messages[0].thinking", 1, "hm")]


def test_special_tokens_may_be_overridden_by_arguments_as_in_transformers() -> None:
    assert rows(run("{{ bos_token }}", kwargs={"bos_token": "X"})) == [
        ("kwarg", "chat_template_kwargs.bos_token", 1, "X")
    ]


def test_an_empty_render_has_no_segments() -> None:
    rendered = run("")
    assert rendered.text == "" and len(rendered.segments) == 0 and rendered.provenance == "traced"


def test_a_rendered_value_survives_pickling() -> None:
    rendered = run(LOOP)
    assert rows(pickle.loads(pickle.dumps(rendered))) == rows(rendered)


def _control(messages, text, tokenizer="llama3", **options):
    from inspector import inspect

    return inspect(messages, tokenizer=tokenizer, template_text=text, add_generation_prompt=False, **options)


@pytest.mark.parametrize(
    ("content", "text"),
    [("\u00e9z", "{{ messages[0].content[1:] }}"), ("\u00a0hello", "{{ messages[0].content | trim }}")],
)
def test_a_field_offset_counts_bytes_also_where_the_rendered_text_is_ascii(content, text):
    segment = _control([{"role": "user", "content": content}], text).rendered.segments.to_dicts()[0]
    assert segment["field_start"] == 2


@pytest.mark.parametrize(
    "expression",
    ["n + 1", "1 + n", "n * 1", "n | abs", "(n / 1) | int", "n - 0", "-(-n)", "messages[0].s | int", "messages[0].s | length + 3",
     "n // 1", "n % 100", "n ** 1", "(n + 0.0) | round | int", "(0.0 + n) | int", "(1.0 * n) | int", "(8.0 - n) | int",
     "[0.0, n] | sum | int", "[messages[0]] | sum('n')", "+n"],
)  # fmt: skip
def test_a_number_computed_from_the_request_is_content_and_writes_no_control_token(expression):
    text = "{% set n = messages[0].n %}<|reserved_special_token_{{ " + expression + " }}|>"
    result = _control([{"role": "user", "content": "x", "n": 4, "s": "4"}], text)
    segments = result.rendered.segments.to_dicts()
    assert any(s["kind"] == "derived" and s["path"].startswith("messages[0].") for s in segments), segments
    assert result.encoding.safe_input_ids.tolist() != result.encoding.input_ids.tolist()


def test_a_number_that_the_template_computes_alone_stays_the_template_s():
    result = _control([{"role": "user", "content": "x"}], "{% for m in messages %}{{ loop.index + 2 }}{% endfor %}")
    assert {s["kind"] for s in result.rendered.segments.to_dicts()} == {"template"}


def test_a_generation_tag_that_is_not_reached_trains_nothing():
    text = (
        "{% for m in messages %}{% if m.train %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endif %}{% endfor %}"
    )
    result = _control([{"role": "assistant", "content": "do not train", "train": False}], text)
    assert result.encoding.assistant_mask.sum() == 0 and result.encoding.assistant_mask_from == "generation"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\n{% endfor %}", ["A", "B"]),
        ("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}", ["A", "B"]),
        ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}", ["A<|im_end|>", "B<|im_end|>"]),
        ("{% for m in messages %}{{ m.content }}{% endfor %}\n\n<END CONVERSATION>\n\nSay what is unsafe. <|im_end|>", ["A", "B"]),
        ("Last: {{ messages[1].content }}\n{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
         ["A<|im_end|>", "B<|im_end|>"]),
    ],
)  # fmt: skip
def test_the_derived_mask_ends_with_the_terminator_and_never_takes_the_next_turn_s_opener(text, masked):
    messages = [{"role": role, "content": c} for role, c in zip(["user", "assistant"] * 2, ["q", "A", "r", "B"])]
    rendered = _control(messages, text, tokenizer="qwen3").rendered
    assert [rendered.utf8[a:b].decode() for a, b in rendered.assistant_spans] == masked
