"""What is pasted is recognised by what it is; its neighbours stay untouched; what is hostile ends in a clear error."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.errors import InspectorError
from inspector.pasting import FORMS, SHAPES, Pasted, recognise
from inspector.request import RequestLimits, parse_fields

USER, REPLY = {"role": "user", "content": 'it\'s "hi" 你好'}, {"role": "assistant", "content": "yo"}
M = json.dumps([USER, REPLY])
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CLAUDE_TOOL = {"name": "f", "input_schema": {"type": "object"}}
BODY = {"model": "m", "messages": [USER], "tools": [TOOL], "tool_choice": "auto"}
CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3"}, {"type": "text", "text": "so?"}]}  # fmt: skip
SHAREGPT = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]}
CALL = "client.chat.completions.create(model='m', messages=%s, tools=[%s], temperature=t)"
SHELL = "'" + json.dumps(BODY).replace("'", "'\\''") + "'"


def read(text: str) -> Pasted:
    found = recognise(text)
    assert found is not None, f"not recognised: {text[:80]}"
    assert found.form in FORMS and found.shape in SHAPES
    parse_fields(**found.fields)  # whatever comes out, the editors take
    return found


def value(found: Pasted, name: str = "messages") -> Any:
    return json.loads(found.fields[name])


def names(found: Pasted, what: str) -> set[str]:
    return {note.name for note in found.notes if note.what == what}


RECOGNISED: list[tuple[str, str, str]] = [
    (json.dumps(BODY), "json", "openai"),
    (json.dumps({**BODY, "chat_template_kwargs": {"a": 1}}, indent=1), "json", "openai"),
    ("// a body\n{model: 'm', messages: [{role: 'user', content: 'x'}],}", "json5", "openai"),
    (json.dumps({"messages": [USER], "functions": [TOOL["function"]]}), "json", "openai"),
    (json.dumps({"custom_id": "1", "method": "POST", "url": "/v1", "body": BODY}), "json", "openai"),
    (json.dumps(USER), "json", "message"),
    ("{role: 'user', content: 'x'}", "json5", "message"),
    ("{'role': 'assistant', 'content': None, 'name': 'x'}", "python", "message"),
    (json.dumps(USER) + "\n" + json.dumps(REPLY), "jsonl", "messages"),
    (json.dumps({"messages": [USER]}) + "\n\n" + json.dumps({"messages": [REPLY]}) + "\n", "jsonl", "messages"),
    (json.dumps(SHAREGPT) + "\r\n" + json.dumps(SHAREGPT), "jsonl", "sharegpt"),
    (str([{**USER, "x": (1, None, True)}]), "python", "messages"),
    (
        "messages = [\n    {'role': 'user',\n     'content': 'a' \"b\"\n                'c'},  # note\n]",
        "python",
        "messages",
    ),
    (f"tools = [{TOOL}]\nmessages: list = {[USER]}", "python", "openai"),
    ("({'role': 'user', 'content': '''two\nlines'''},)", "python", "messages"),
    (json.dumps(SHAREGPT), "json", "sharegpt"),
    (json.dumps(SHAREGPT["conversations"]), "json", "sharegpt"),
    (json.dumps({**SHAREGPT, "system": "S", "tools": json.dumps([TOOL["function"]]), "id": 1}), "json", "sharegpt"),
    (json.dumps({"model": "c", "max_tokens": 9, "system": "S", "messages": [USER]}), "json", "anthropic"),
    (json.dumps({"messages": [USER], "tools": [CLAUDE_TOOL]}), "json", "anthropic"),
    (json.dumps({"messages": [USER, CALLED, RESULT]}), "json", "anthropic"),
    (f"curl https://x.test/v1 -H 'Authorization: Bearer k' -d {SHELL}", "curl", "openai"),
    (f"$ curl -X POST \\\n  --data-raw={SHELL} \\\n  https://x.test | jq .", "curl", "openai"),
    ('curl x --json "{\\"messages\\": [{\\"role\\": \\"user\\", \\"content\\": \\"a\\"}]}"', "curl", "messages"),
    ('curl x -d $\'{"messages":[{"role":"user","content":"a\\\'b\\u00e9"}]}\'', "curl", "messages"),
    (CALL % ([USER], TOOL), "call", "openai"),
    (f"import openai\nmsgs = {[USER]}\nasync def go():\n    return await {CALL % ('msgs', TOOL)}\n", "call", "openai"),
    (f"client.messages.create(model='c', system='S', messages={[USER]}, tools=[{CLAUDE_TOOL}])", "call", "anthropic"),
    (f"tok.apply_chat_template({[USER]}, tools=None, tokenize=False, enable_thinking=False)", "call", "openai"),
]


@pytest.mark.parametrize(("text", "form", "shape"), RECOGNISED)
def test_each_kind_is_recognised(text: str, form: str, shape: str) -> None:
    found = read(text)
    assert (found.form, found.shape) == (form, shape)
    assert recognise(found.fields["messages"]) is None, "what came out is plain"
    assert all(note.what in ("moved", "converted", "dropped", "unread") for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        "", "  \n", M, "\ufeff" + M, json.dumps([USER], indent=4), "[{role: 'user', content: 'x',},]", "[]",
        str([{"role": "user", "content": "x"}]), "hello", "Hi, the messages are here", "[1, 2]", '{"a": 1}', "{}",
        '{"role": "user"}', '[{"role": "user", "content": "x"', "import os\nprint('messages')", "curling is a sport",
        '{"a": 1}\n{"a": 2}', '{"messages": 3}', '{"messages": [1]}', "f'{messages}'", "messages = load()[0]",
        "{% for message in messages %}{{ message.role }}{% endfor %}", '"just a string"', "null",
    ],
)  # fmt: skip
def test_the_neighbours_stay_untouched(text: str) -> None:
    try:
        found = recognise(text)
    except InspectorError as error:  # a Python text that names what it does not hold
        assert text == "messages = load()[0]" and "not a literal" in error.message
        return
    assert found is None


def test_an_openai_body_goes_to_its_editors_and_says_what_was_dropped() -> None:
    text = '{"model": "m", "seed": 1.50, "messages": [{"role": "user", "content": "x", "w": 1.50, "z": -0}], "tools": [], "chat_template_kwargs": {"k": 1e3}, "documents": [{"text": "d"}]}'
    found = read(text)
    assert set(found.fields) == {"messages", "tools", "documents", "arguments"}
    assert '"w": 1.50' in found.fields["messages"] and '"z": -0' in found.fields["messages"], "numbers as spelled"
    assert "1e3" in found.fields["arguments"]
    assert names(found, "dropped") == {"model", "seed"}
    assert [note.to for note in found.notes if note.what == "moved"] == ["messages", "tools", "documents", "arguments"]


def test_an_anthropic_body_becomes_roles_calls_and_results() -> None:
    body = {
        "model": "c",
        "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "z"}, {"type": "text", "text": "ok"}, *CALLED["content"]]},
            RESULT,
        ],
        "tools": [CLAUDE_TOOL, {"type": "web_search_20250305", "name": "web"}],
    }  # fmt: skip
    found = read(json.dumps(body))
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert value(found) == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
        {"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "3"},
        {"role": "user", "content": "so?"},
    ]
    assert value(found, "tools") == [TOOL]
    assert names(found, "dropped") == {"model", "cache_control", "signature", "tools: web"}


def test_a_sharegpt_row_becomes_roles_and_other_rows_are_said_to_be_dropped() -> None:
    turns = [
        *SHAREGPT["conversations"],
        {"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
        {"from": "observation", "value": "3", "weight": 0},
        {"from": "narrator", "value": "…"},
    ]
    found = read(json.dumps([{"conversations": turns, "id": "r1"}, SHAREGPT]))
    messages = value(found)
    assert [message["role"] for message in messages] == ["user", "assistant", "assistant", "tool", "narrator"]
    assert messages[2]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}
    assert messages[3] == {"role": "tool", "content": "3", "weight": 0}
    assert names(found, "dropped") == {"id", "rows 2–2"} and names(found, "unread") == {"from.narrator"}


def test_a_shell_command_shows_no_secret_of_its_headers() -> None:
    found = read(f"curl -u me:secret https://u:secret@x.test -H 'Authorization: Bearer secret' -d {SHELL}")
    assert "secret" not in json.dumps(found.to_dict()) and {"headers", "URL"} <= names(found, "dropped")
    assert value(found) == [USER], "a quote inside the body survives the shell's quoting"


def test_a_call_says_what_it_could_not_read_and_takes_over_extra_body() -> None:
    found = read(
        f"c.chat.completions.create(model=MODEL, messages={[USER]}, temperature=t(), seed=7, extra_body={{'chat_template_kwargs': {{'enable_thinking': False}}}}, **more)"
    )
    assert value(found, "arguments") == {"enable_thinking": False}
    assert names(found, "unread") == {"model", "temperature", "**"} and names(found, "dropped") == {"seed"}


LITERALS = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x) | st.tuples(x), max_leaves=12)  # fmt: skip


@given(LITERALS)
def test_a_python_literal_is_read_as_python_reads_it(extra: Any) -> None:
    message = {"role": "user", "content": None, "extra": extra, "more": ()}  # () is no JSON5, so Python's it is
    found = read(repr([message]))
    assert found.form == "python"
    assert value(found) == json.loads(json.dumps(ast.literal_eval(repr([message]))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x" * 2_000_001, "2,000,001 bytes; the limit is 2,000,000"),
        ("#messages\n" + "(1,) + " * 150_000, "Python text of 1,050,010 characters"),
        ("(" * 100_000, "nested deeper"),
        ("[{'role':" + "-" * 50_000 + "1}]", "nested deeper"),
        ("[(" * 40 + "'role'" + ",)]" * 40, "limit of 64 levels"),
        ("a=[1]\n" + "\n".join(f"{b}=[{a},{a},{a},{a},{a},{a},{a},{a},{a}]" for a, b in zip("abcdefgh", "bcdefghi")) + "\nmessages=i", "more than 1,000,000 values"),
        ("[{'role': 'user', 'content': f'{x}'}]", "an f-string is not a literal"),
        ("[{'role': 'user', 'content': __import__('os').system('x')}]", "a call is not a literal"),
        ("[{'role': 'user', 'content': b'x'}]", "bytes b'x' has no JSON form"),
        ("[{'role': 'user', 'content': 1e999}]", "infinite"),
        ("[{'role': 'user', 'role': None}]", "DuplicateKey"),
        ("curl x", "no body"), ("curl x -d @body.json", "in a file"), ("curl x -d '{", "never closed"),
        ("curl x -d '{\"messages\": [}'", "the body of the curl command"), ("curl x -d '{\"prompt\": 1}'", "no messages"),
        ("curl x -d '" + "[" * 100_000 + "'", "nested deeper"),
    ],
)  # fmt: skip
def test_hostile_and_unreadable_texts_end_in_a_clear_error(text: str, message: str) -> None:
    with pytest.raises(InspectorError) as caught:
        recognise(text, limits=RequestLimits(max_bytes=2_000_000))
    assert message in caught.value.message and caught.value.remedy and "\n" not in caught.value.message
