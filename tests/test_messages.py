"""Canonical conversations: what the template is given, and the record of everything that was done."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any

import pytest
import transformers.tokenization_utils_base as base
from conversations import CONVERSATIONS, conversation
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from inspector.errors import ErrorKind, InspectorError
from inspector.messages import RESERVED_ARGUMENTS, Conversation, canonicalize, content_format, read_traced
from inspector.provenance import SegmentKind, Traced, plain, runs_of, trace
from inspector.request import Change, at_path, dump_request, parse_request

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
USER = {"role": "user", "content": "hi"}


def parsed(body: Any) -> Any:
    return parse_request(dump_request(body).encode())


def given_by(body: Any, profile: str = "transformers", **options: Any) -> Conversation:
    return canonicalize(parsed(body), profile, **options)


def breach(body: Any, profile: str = "openai", **options: Any) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        given_by(body, profile, **options)
    assert caught.value.remedy and caught.value.where, caught.value.to_dict()
    return caught.value


# --- against the library ---------------------------------------------------------------------------------------------


def handed_over(body: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What apply_chat_template really hands to render_jinja_template."""
    seen: dict[str, Any] = {}

    def record(**arguments: Any) -> Any:
        seen.update(arguments)
        return [""], []

    monkeypatch.setattr(base, "render_jinja_template", record)
    tokenizer = base.PreTrainedTokenizerBase()
    tokenizer.apply_chat_template(
        copy.deepcopy(body["messages"]),
        tools=body.get("tools"),
        documents=body.get("documents"),
        chat_template=CHATML,
        tokenize=False,
        **body.get("chat_template_kwargs") or {},
    )
    return seen


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_conversation_is_exactly_what_the_library_hands_to_its_renderer(name: str, monkeypatch: Any) -> None:
    body = conversation(name)
    result = given_by(body)
    seen = handed_over(json.loads(json.dumps(body)), monkeypatch)
    assert exact(plain(result.messages)) == exact(seen["conversations"][0])
    assert exact(plain(result.tools)) == exact(seen["tools"])
    assert exact(plain(result.documents)) == exact(seen["documents"])
    kwargs = {key: value for key, value in seen.items() if key in (body.get("chat_template_kwargs") or {})}
    assert exact(plain(result.kwargs)) == exact(kwargs)


def exact(value: Any) -> Any:
    """Equal only with the same types and key order."""
    if isinstance(value, dict):
        return [(key, exact(item)) for key, item in value.items()]
    return [exact(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_string_is_found_at_its_path_in_the_request_as_given(name: str) -> None:
    request = parsed(conversation(name))
    result = canonicalize(request)
    stack: list[Any] = [result.messages, result.tools, result.documents, result.kwargs]
    strings = 0
    while stack:
        value = stack.pop()
        if isinstance(value, Traced) and value:
            ((chars, origin, offset, _),) = runs_of(value)
            assert at_path(request, origin.path)[offset : offset + chars] == value
            strings += 1
        stack += list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    assert strings


def test_reserved_arguments_cover_the_signatures_of_the_library() -> None:
    names = {
        parameter.name
        for function in (base.PreTrainedTokenizerBase.apply_chat_template, render_jinja_template)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    assert names | {"messages"} == RESERVED_ARGUMENTS


# --- recorded changes ------------------------------------------------------------------------------------------------


def test_null_message_keys_are_dropped_and_recorded() -> None:
    result = given_by([{"role": "assistant", "content": None, "tool_calls": None, "x": {"y": None}}])
    assert plain(result.messages) == [{"role": "assistant", "x": {"y": None}}]
    assert [(c.path, c.by) for c in result.changes] == [
        ("messages[0].content", "library"),
        ("messages[0].tool_calls", "library"),
    ]


@pytest.mark.parametrize(
    ("message", "copies"),
    [
        ({"reasoning": "r"}, ["thinking", "reasoning_content"]),
        ({"thinking": "r"}, ["reasoning_content"]),
        ({"reasoning_content": "r"}, ["thinking"]),
        ({"reasoning_content": "r", "thinking": "t"}, []),
        ({"reasoning": None}, []),
    ],
)
def test_reasoning_copies_are_listed_and_left_to_the_library(message: dict[str, Any], copies: list[str]) -> None:
    body = {"role": "assistant", "content": "x", **message}
    result = given_by([body])
    assert plain(result.messages[0]) == {key: value for key, value in body.items() if value is not None}
    assert [c.path for c in result.changes if c.what.startswith("copied")] == [f"messages[0].{name}" for name in copies]
    rendered, _ = render_jinja_template([[body]], chat_template="{{ messages[0] | tojson }}")
    seen = json.loads(rendered[0])
    assert {key for key in seen if key not in body} == {name for name in copies if name not in body}


def test_numbers_that_print_otherwise_are_recorded_with_both_spellings() -> None:
    text = '{"messages": [{"role": "user", "content": "x", "n": 1.10}], "tools": [{"a b": [-0, 2.5]}], '
    text += '"chat_template_kwargs": {"t": 1e5}}'
    result = canonicalize(parse_request(text.encode()))
    assert [(c.path, c.before, c.after, c.by) for c in result.changes] == [
        ('tools[0]["a b"][0]', "-0", "0", "library"),
        ("chat_template_kwargs.t", "1e5", "100000.0", "library"),
        ("messages[0].n", "1.10", "1.1", "library"),
    ]
    assert exact(plain(result.tools)) == exact([{"a b": [0, 2.5]}])


def test_the_parsers_changes_come_first() -> None:
    request = parse_request(b'\xef\xbb\xbf[{"role": "user", "content": "x", "n": null}]')
    assert [change.by for change in canonicalize(request).changes] == ["parser", "library"]


# --- arguments -------------------------------------------------------------------------------------------------------


def test_option_arguments_win_over_the_request_and_keep_its_path() -> None:
    body = {"messages": [USER], "chat_template_kwargs": {"a": "x", "bos_token": "<s>"}}
    result = given_by(body, arguments={"a": "y", "b": True})
    assert plain(result.kwargs) == {"a": "y", "bos_token": "<s>", "b": True}
    ((_, origin, _, _),) = runs_of(result.kwargs["a"])
    assert (origin.kind, origin.path) == (SegmentKind.KWARG, "chat_template_kwargs.a")
    assert Change("chat_template_kwargs.a", "replaced by the option", "x", "y", "parser") in result.changes


@pytest.mark.parametrize("name", sorted(RESERVED_ARGUMENTS))
def test_reserved_arguments_are_refused_by_name(name: str) -> None:
    error = breach([USER], "transformers", arguments={name: 1})
    assert error.kind is ErrorKind.OptionInvalid and repr(name) in error.message
    error = breach({"messages": [USER], "chat_template_kwargs": {name: 1}}, "transformers")
    assert error.kind is ErrorKind.InputInvalid and error.where["path"] == f"chat_template_kwargs.{name}"


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    error = breach([USER], "sglang")
    assert error.kind is ErrorKind.OptionInvalid and "vllm" in error.remedy


# --- vllm ------------------------------------------------------------------------------------------------------------


def call_with(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}]


ARGUMENTS = "messages[0].tool_calls[0].function.arguments"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=10,
)


@settings(deadline=None)
@given(json_values, st.sampled_from([True, False]), st.sampled_from([None, 2]))
def test_argument_text_reads_as_json_does_and_unescaped_characters_keep_their_place(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    result = read_traced(trace(text, ARGUMENTS), ARGUMENTS)
    assert exact(plain(result)) == exact(json.loads(text))
    stack = [result]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            position = 0
            for chars, origin, offset, _ in runs_of(item):
                assert ARGUMENTS in (origin.path, *origin.inputs)
                if origin.exact:
                    assert text[offset : offset + chars] == str.__str__(item)[position : position + chars]
                else:
                    assert origin.kind is SegmentKind.DERIVED
                position += chars
            assert position == len(item)
        stack += [*item, *item.values()] if isinstance(item, dict) else item if isinstance(item, list) else []


def test_argument_text_becomes_a_value_only_under_vllm() -> None:
    body = call_with('{"city": "S\\u00e3o \\"Paulo\\"", "n": 1.10}')
    assert plain(given_by(body).messages) == body
    result = given_by(body, "vllm")
    function = result.messages[0]["tool_calls"][0]["function"]
    assert plain(function["arguments"]) == {"city": 'São "Paulo"', "n": 1.1}
    assert [(c.path, c.what, c.by) for c in result.changes] == [
        (ARGUMENTS, "number respelled", "library"),
        (ARGUMENTS, "JSON text read as a value", "profile"),
    ]
    assert plain(given_by(call_with(""), "vllm").messages) == call_with({})
    assert plain(given_by(call_with({"a": 1}), "vllm").messages) == call_with({"a": 1})


def test_arguments_that_are_no_json_are_refused_with_their_path_under_vllm() -> None:
    error = breach(call_with('{"a": }'), "vllm")
    assert error.kind is ErrorKind.InputInvalid and error.where == {"path": ARGUMENTS, "line": 1, "column": 7}


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


def test_text_parts_are_joined_under_vllm_for_templates_that_read_strings() -> None:
    body = [{"role": "user", "content": PARTS}]
    result = given_by(body, "vllm", template_text=CHATML)
    content = result.messages[0]["content"]
    assert plain(content) == "one\ntwo"
    assert [(run[0], run[1].path) for run in runs_of(content) if run[1].exact] == [
        (3, "messages[0].content[0].text"),
        (3, "messages[0].content[1].text"),
    ]
    assert [(c.path, c.after, c.by) for c in result.changes] == [("messages[0].content", "one\ntwo", "profile")]
    reads_parts = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
    assert plain(given_by(body, "vllm", template_text=reads_parts).messages) == body
    assert plain(given_by(body, template_text=CHATML).messages) == body
    image = [{"role": "user", "content": [*PARTS, {"type": "image_url", "image_url": {"url": "x"}}]}]
    assert plain(given_by(image, "vllm", template_text=CHATML).messages) == image
    assert plain(given_by([{"role": "user", "content": []}], "vllm", template_text=CHATML).messages[0]["content"]) == ""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, "string"),
        ("{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages %}{% for p in m.content | list %}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages[1:] | reverse %}{% for p in m.get('content') %}{% endfor %}{% endfor %}", "openai"),
        ("{% for p in messages[0].content %}{% endfor %}", "openai"),
        (
            "{% set ms = messages %}{% for m in ms %}{% set c = m.content %}{% for p in c %}{% endfor %}{% endfor %}",
            "openai",
        ),
        (
            "{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(m.content) }}{% endfor %}",
            "openai",
        ),
        (
            "{% macro r(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ r(c=m.content) }}{% endfor %}",
            "openai",
        ),
        (
            "{% set ns = namespace(m=none) %}{% set ns.m = messages[0] %}{% for p in ns.m.content %}{% endfor %}",
            "openai",
        ),
        ("{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{{ m.content }}{% endfor %}", "string"),
        ("{% for t in tools %}{% for p in t.content %}{% endfor %}{% endfor %}", "string"),
        (
            "{% for m in messages %}{% generation %}{% for p in m.content %}{% break %}{% endfor %}{% endgeneration %}{% endfor %}",
            "openai",
        ),
        ("{% for m in", "string"),
    ],
)
def test_the_content_format_follows_values_through_the_template(template: str, expected: str) -> None:
    assert content_format(template) == expected


# --- all profiles ----------------------------------------------------------------------------------------------------

fields = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "bot"])},
    optional={
        "content": st.one_of(
            texts, st.none(), st.lists(st.fixed_dictionaries({"type": texts, "text": texts})), json_values
        ),
        "name": st.one_of(texts, st.none()),
        "tool_call_id": texts,
        "tool_calls": st.one_of(
            st.lists(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "id": texts,
                        "type": st.just("function"),
                        "function": st.fixed_dictionaries(
                            {}, optional={"name": texts, "arguments": json_values.map(json.dumps)}
                        ),
                    },
                ),
                max_size=2,
            ),
            json_values,
        ),
        "reasoning": json_values,
    },
)


@settings(deadline=None)
@given(
    st.lists(fields, min_size=1, max_size=3),
    st.one_of(st.none(), st.lists(json_values, max_size=2)),
    st.dictionaries(texts, json_values, max_size=2),
    st.sampled_from(["transformers", "vllm", "openai"]),
)
def test_any_request_is_canonicalized_or_refused_with_a_typed_error(
    messages: list[Any], tools: Any, kwargs: dict[str, Any], profile: str
) -> None:
    body = {"messages": messages, "tools": tools, "chat_template_kwargs": kwargs}
    try:
        request = parsed(body)
        result = canonicalize(request, profile, template_text=CHATML)
    except InspectorError as error:
        assert error.kind in (ErrorKind.InputInvalid, ErrorKind.OptionInvalid)
        return
    assert exact(plain(result.tools)) == exact(tools) and exact(plain(result.kwargs)) == exact(kwargs)
    for index, message in enumerate(result.messages):
        dropped = {} if profile == "openai" else {key for key, value in messages[index].items() if value is None}
        assert list(message) == [key for key in messages[index] if key not in dropped]
    for change in result.changes:
        if "dropped" in change.what or change.by == "profile":
            assert at_path(request, change.path) == change.before


# --- openai ----------------------------------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "1"}


def test_a_sound_openai_body_passes_unchanged() -> None:
    body = {
        "model": "gpt-4o",
        "messages": [USER, ASKS, ANSWER, {"role": "assistant", "content": PARTS}, USER, ASKS],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    result = given_by(body, "openai")
    assert plain(result.messages) == body["messages"] and result.changes == ()


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        ([{"role": "bot", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "assistant", "content": None}], "messages[0].content"),
        ([{"role": "user", "content": {"a": 1}}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "x", "tool_calls": [CALL]}], "messages[0].tool_calls"),
        ([{"role": "assistant", "content": "x", "tool_calls": []}], "messages[0].tool_calls"),
        ([{**ASKS, "tool_calls": [{**CALL, "id": None}]}], "messages[0].tool_calls[0].id"),
        ([{**ASKS, "tool_calls": [CALL, CALL]}], "messages[0].tool_calls[1].id"),
        ([{**ASKS, "tool_calls": [{**CALL, "type": "tool"}]}], "messages[0].tool_calls[0].type"),
        (call_with({}), ARGUMENTS),
        (call_with(""), ARGUMENTS),
        (call_with("[]"), ARGUMENTS),
        (call_with("{"), ARGUMENTS),
        ([ASKS, {"role": "tool", "content": "1"}], "messages[1].tool_call_id"),
        ([ASKS, {**ANSWER, "tool_call_id": "c2"}], "messages[1].tool_call_id"),
        ([ASKS, ANSWER, ANSWER], "messages[2].tool_call_id"),
        ([ANSWER], "messages[0].tool_call_id"),
        ([ASKS, USER], "messages[0].tool_calls[0]"),
    ],
)
def test_broken_openai_conventions_are_refused_with_their_path(messages: list[Any], path: str) -> None:
    error = breach(messages)
    assert error.kind is ErrorKind.InputInvalid and error.where["path"] == path, error.one_line()
