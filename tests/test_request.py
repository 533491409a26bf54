"""Parsing requests: what is given survives, what is wrong is refused with its place."""

from __future__ import annotations

import copy
import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from conversations import CONVERSATIONS, conversation
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import loads
from inspector.request import (
    ChatRequest,
    RequestLimits,
    SpelledFloat,
    SpelledInt,
    at_path,
    child_path,
    dump_request,
    parse_fields,
    parse_request,
    split_path,
)

DATA = Path(__file__).parent / "data"
STRICT = RequestLimits(max_bytes=2_000_000, max_messages=5_000, max_object_keys=10_000)
USER = '{"role": "user", "content": "hi"}'


def refused(data: bytes | str, **options: Any) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        parse_request(data.encode() if isinstance(data, str) else data, **options)
    error = caught.value
    assert error.message and "\n" not in error.message and error.remedy and error.where, error.to_dict()
    json.dumps(error.to_dict()).encode()
    error.one_line().encode()
    return error


def spelled(value: Any) -> Any:
    """Numbers replaced by their spelling, so that equality sees it."""
    if isinstance(value, dict):
        return [(key, spelled(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", getattr(value, "spelling", repr(value)))
    return value


# --- properties ------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,4})\.[0-9]{1,4}([eE][+-]?[0-9]{1,2})?\Z").map(SpelledFloat),
    st.just("-0").map(SpelledInt),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), texts, numbers),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_reading_what_was_printed_gives_the_same_values_order_and_spelling(value: Any) -> None:
    text = dump_request(value)
    again = loads(text)
    assert spelled(again) == spelled(loads(dump_request(again)))
    assert again == value
    assert dump_request(again) == text
    assert spelled(loads(dump_request(value, indent=2))) == spelled(again)


@settings(deadline=None)
@given(values)
def test_printing_agrees_with_python_where_no_number_is_spelled(value: Any) -> None:
    plain = json.loads(json.dumps(value))
    assert dump_request(plain) == json.dumps(plain, ensure_ascii=False)


@settings(deadline=None)
@given(st.dictionaries(texts, values, max_size=4))
def test_extra_fields_and_key_order_of_an_object_request_survive(extra: dict[str, Any]) -> None:
    body = {**extra, "messages": [{"role": "user", "content": "x", "extra": extra}]}
    for name in ("tools", "documents", "chat_template_kwargs"):
        body.pop(name, None)
    request = parse_request(dump_request(body).encode())
    assert list(request.to_dict()) == list(body)
    assert spelled(request.to_dict()) == spelled(loads(dump_request(body)))


BASES = [json.dumps(body, ensure_ascii=False).encode() for body in CONVERSATIONS.values()][:12]
PIECES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\ud800",
    b"\xff",
    b"1e999",
    b"NaN",
    b"-0",
    b"null",
    b"\r",
    b"0",
]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(BASES),
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(0, 9), st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)))
    ),
)
def test_mutated_requests_are_parsed_or_refused_with_a_typed_error(
    base: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    for at, cut, put in edits:
        at %= len(base) + 1
        base = base[:at] + put + base[at + cut :]
    try:
        assert isinstance(parse_request(base), ChatRequest)
    except InspectorError as error:
        assert error.kind is not ErrorKind.RecursionLimit, "the scan found no fault where the reader found one"
        assert "byte" in error.where or {"path", "line", "column"} <= error.where.keys(), error.to_dict()


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(0, 10**6), texts), min_size=1, max_size=5))
def test_a_path_splits_into_the_steps_it_was_made_of(steps: list[str | int]) -> None:
    path = "messages"
    for step in steps:
        path = child_path(path, step)
    assert split_path(path) == ("messages", *steps)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_every_leaf_of_a_request_is_found_at_its_path(name: str) -> None:
    request = parse_request(json.dumps(conversation(name)).encode())
    stack = [(child_path("", key), value) for key, value in request.to_dict().items()]
    while stack:
        path, value = stack.pop()
        assert at_path(request, path) == value
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        stack += [(child_path(path, key), item) for key, item in items]


# --- what survives ---------------------------------------------------------------------------------------------------


def test_number_spellings_survive_parsing_printing_pickling_and_copying() -> None:
    text = (
        '{"messages": ['
        + USER
        + '], "chat_template_kwargs": {"a": 1.10, "b": 1e5, "c": -0, "d": 1.0E+2, "e": 2.5, "f": 7}}'
    )
    request = parse_request(text.encode())
    for again in (request, pickle.loads(pickle.dumps(request)), copy.deepcopy(request)):
        assert dump_request(again.to_dict()) == text
    kwargs = request.chat_template_kwargs
    assert kwargs == {"a": 1.1, "b": 100000.0, "c": 0, "d": 100.0, "e": 2.5, "f": 7}
    assert type(kwargs["e"]) is float and type(kwargs["f"]) is int, "a spelling is kept only where str() differs"


def test_an_array_request_and_an_object_request_give_the_same_messages() -> None:
    array, body = parse_request(f"[{USER}]".encode()), parse_request(f'{{"model": "m", "messages": [{USER}]}}'.encode())
    assert array.messages == body.messages and array.is_array and not body.is_array
    assert body.extra == {"model": "m"} and list(body.to_dict()) == ["model", "messages"]


def test_paired_surrogate_escapes_are_one_character() -> None:
    assert (
        parse_request(b'[{"role": "user", "content": "\\ud83d\\ude00\\\\ud800"}]').messages[0]["content"] == "😀\\ud800"
    )


def test_null_fields_of_the_openai_form_are_legal() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": None, "name": None, "reasoning_content": None}
    assert parse_request(json.dumps([message]).encode()).messages == [message]


def test_carriage_returns_survive_and_are_flagged() -> None:
    request = parse_request(b'[{"role": "user", "content": "a\\r\\nb\\r\\nc", "x": {"a b": "d\\u000de"}}]')
    assert request.messages[0]["content"] == "a\r\nb\r\nc"
    assert request.notes == (
        {"path": "messages[0].content", "what": "2 CRLF line endings kept"},
        {"path": 'messages[0].x["a b"]', "what": "1 carriage return without line feed kept"},
    )
    assert parse_request(f"[{USER}]\r\n".encode()).notes == (), "line ends of the JSON text itself are no content"


def test_a_byte_order_mark_is_removed_and_recorded() -> None:
    request = parse_request(b"\xef\xbb\xbf[" + USER.encode() + b"]")
    assert [(change.path, change.by) for change in request.changes] == [("$", "parser")]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("[\n  {'role': 1}]", 2, 4, "double quotes"),
        ("[" + USER + ",]", 1, 35, "trailing comma"),
        ('[{"role": "user",}]', 1, 17, "trailing comma"),
        ("[" + USER + "] // c", 1, 37, "no comments"),
        ("[ # c\n" + USER + "]", 1, 3, "no comments"),
        ("[" + USER, 1, 35, "the end of the text"),
        ('["é\n"]', 1, 4, "line break"),
        ("{role: 1}", 1, 2, "double quotes"),
        ('{"a" 1}', 1, 6, "expected :"),
        ('["a" "b"]', 1, 6, "expected , or ]"),
        ("[True]", 1, 2, "write true"),
        ("[01]", 1, 2, "leading zeros"),
        ("[1.]", 1, 3, "decimal point"),
        ('["\\x"]', 1, 3, "not a JSON escape"),
        ('["open', 1, 2, "never closed"),
        ("", 1, 1, "the end of the text"),
        ("<script>alert(1)</script>", 1, 1, "HTML"),
        ('{"a": 1}\n{"a": 2}', 2, 1, "JSON Lines"),
        ("[“a”]", 1, 2, "straight double quotes"),
    ],
)
def test_malformed_json_is_refused_with_line_column_and_a_remedy(text: str, line: int, column: int, words: str) -> None:
    error = refused(text)
    assert error.kind is ErrorKind.InputInvalid
    assert (error.where["line"], error.where["column"]) == (line, column), error.one_line()
    assert words in error.one_line()


def test_invalid_utf8_is_refused_with_the_byte_offset() -> None:
    error = refused(b'[{"role":"user",\n"content":"\xc3\xa9\xff"}]')
    assert error.where == {"byte": 30, "line": 2, "column": 13}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_unicode_encodings_are_refused_by_name(encoding: str) -> None:
    assert encoding[:6].upper() in refused(f"[{USER}]".encode(encoding)).message


def test_a_duplicate_key_is_refused_with_its_path_and_both_places() -> None:
    error = refused('[{"role": "user",\n "content": "a", "content": "b"}]')
    assert error.where == {"path": "messages[0].content", "line": 2, "column": 18, "first_line": 2, "first_column": 2}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "1." + "0" * 5000])
def test_numbers_that_json_cannot_hold_are_refused_with_their_path(number: str) -> None:
    error = refused('{"messages": [' + USER + '], "chat_template_kwargs": {"a b": [0, ' + number + "]}}")
    assert error.kind is ErrorKind.InputInvalid and error.where["path"] == 'chat_template_kwargs["a b"][1]'


@pytest.mark.parametrize(
    ("escape", "index"), [("a\\ud800b", 1), ("\\ud83d\\ude00\\udc00", 1), ("ab\\ud800\\ud83d\\ude00", 2)]
)
def test_a_lone_surrogate_is_refused_with_path_and_character(escape: str, index: int) -> None:
    error = refused('[{"role": "user", "content": "' + escape + '"}]')
    assert error.kind is ErrorKind.UnencodableText
    assert (error.where["path"], error.where["index"]) == ("messages[0].content", index)


def test_depth_is_limited_exactly() -> None:
    deep = lambda n: '[{"role": "user", "content": [' + '{"x":' * n + "1" + "}" * n + "]}]"  # noqa: E731
    parse_request(deep(61).encode())
    error = refused(deep(62))
    assert error.kind is ErrorKind.InputInvalid and "64" in error.message
    assert "64" in refused("[" * 100_000 + "]" * 100_000).message


def test_counts_over_the_limits_are_refused_with_both_numbers() -> None:
    error = refused("[" + ",".join([USER] * 5001) + "]", limits=STRICT)
    assert error.kind is ErrorKind.InputTooLarge and "5,001" in error.message and "5,000" in error.message
    error = refused(b" " * 2_000_001, limits=STRICT)
    assert error.kind is ErrorKind.InputTooLarge and "2,000,001" in error.message and "2,000,000" in error.message
    many = "{" + ",".join(f'"k{i}":1' for i in range(11)) + "}"
    assert refused(f"[{many}]", limits=RequestLimits(max_object_keys=10)).kind is ErrorKind.InputTooLarge


@pytest.mark.parametrize(
    ("body", "path", "wanted", "found"),
    [
        ("hello", "$", "array of messages or an object", "a string"),
        (None, "$", "array of messages or an object", "null"),
        ({}, "messages", "array of messages", "missing"),
        ({"messages": {}}, "messages", "an array", "an object"),
        ([], "messages", "at least one message", "empty"),
        (["a"], "messages[0]", "an object", "a string"),
        ([[{"role": "user", "content": "x"}]], "messages[0]", "an object", "an array"),
        ([{"content": "x"}], "messages[0].role", "a string", "missing"),
        ([{"role": "user"}], "messages[0].content", "a string", "missing"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role", "a string", "an array"),
        ([{"role": "user", "content": 7}], "messages[0].content", "a string", "a number"),
        ([{"role": "user", "content": True}], "messages[0].content", "a string", "true or false"),
        ([{"role": "user", "content": [7]}], "messages[0].content[0]", "an object or a string", "a number"),
        ([{"role": "user", "content": [{"text": 7}]}], "messages[0].content[0].text", "a string", "a number"),
        ([{"role": "a", "tool_calls": {}}], "messages[0].tool_calls", "an array", "an object"),
        ([{"role": "a", "tool_calls": ["x"]}], "messages[0].tool_calls[0]", "an object", "a string"),
        (
            [{"role": "a", "tool_calls": [{"function": {"arguments": 3}}]}],
            "messages[0].tool_calls[0].function.arguments",
            "a string",
            "a number",
        ),
        ({"messages": [{"role": "a", "content": ""}], "tools": {}}, "tools", "an array", "an object"),
        ({"messages": [{"role": "a", "content": ""}], "tools": ["os"]}, "tools[0]", "an object", "a string"),
        (
            {"messages": [{"role": "a", "content": ""}], "tools": [{"function": {"name": 1}}]},
            "tools[0].function.name",
            "a string",
            "a number",
        ),
        ({"messages": [{"role": "a", "content": ""}], "documents": ["a"]}, "documents[0]", "an object", "a string"),
        (
            {"messages": [{"role": "a", "content": ""}], "chat_template_kwargs": []},
            "chat_template_kwargs",
            "object",
            "array",
        ),
    ],
)
def test_wrong_types_are_refused_with_path_wanted_and_found(body: Any, path: str, wanted: str, found: str) -> None:
    error = refused(json.dumps(body, indent=1))
    assert error.kind is ErrorKind.InputInvalid and error.where["path"] == path, error.to_dict()
    assert wanted in error.message and found in error.message
    assert {"line", "column"} <= error.where.keys()


def test_a_wrong_type_is_located_in_the_text() -> None:
    error = refused('[\n {"role": "user",\n  "content": 7}]')
    assert (error.where["line"], error.where["column"]) == (3, 14)


# --- the page's editors ----------------------------------------------------------------------------------------------


def test_the_four_editors_give_one_request() -> None:
    request = parse_fields(f"[{USER}]", '[{"type": "function"}]', " ", '{"enable_thinking": false}')
    assert request.to_dict() == {
        "messages": [json.loads(USER)],
        "tools": [{"type": "function"}],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert parse_fields(f"[{USER}]").is_array


def test_editors_win_over_a_whole_request_and_each_replacement_is_recorded() -> None:
    whole = '{"messages": [' + USER + '], "tools": [{"a": 1}], "chat_template_kwargs": {"x": 1, "y": 2}, "model": "m"}'
    request = parse_fields(whole, "[]", "", '{"y": 3}')
    assert request.tools == [] and request.chat_template_kwargs == {"x": 1, "y": 3} and request.extra == {"model": "m"}
    assert [(c.path, c.before, c.after) for c in request.changes] == [
        ("tools", [{"a": 1}], []),
        ("chat_template_kwargs.y", 2, 3),
    ]


@pytest.mark.parametrize(
    ("fields", "field", "line", "column"),
    [
        (("",), "messages", 1, 1),
        (("[\n",), "messages", 2, 1),
        ((f"[{USER}]", "[\n {]"), "tools", 2, 3),
        ((f"[{USER}]", "[\n 1]"), "tools", 2, 2),
        ((f"[{USER}]", "{}"), "tools", 1, 1),
        ((f"[{USER}]", "", "\n[7]"), "documents", 2, 2),
        ((f"[{USER}]", "", "", "[1]"), "arguments", 1, 1),
        ((f"[{USER}]", "", "", '{"a": 1, "a": 2}'), "arguments", 1, 10),
        (('{"messages": [' + USER + '],\n"tools": [3]}',), "messages", 2, 11),
        (("7",), "messages", 1, 1),
        (("[\ud800]",), "messages", 1, 2),
    ],
)
def test_an_editor_error_names_the_editor_and_the_place_in_it(
    fields: tuple[str, ...], field: str, line: int, column: int
) -> None:
    with pytest.raises(InspectorError) as caught:
        parse_fields(*fields)
    where = caught.value.where
    assert (where["field"], where["line"], where["column"]) == (field, line, column), caught.value.one_line()


def test_a_two_megabyte_request_parses_in_well_under_a_second() -> None:
    message = {"role": "user", "content": "héllo \\ wörld " * 4, "x": {"a": [1.5, 2, True, None], "b": {"c": "d"}}}
    data = json.dumps([message] * 11_000).encode()
    assert len(data) > 1_900_000
    began = time.perf_counter()
    parse_request(data)
    assert time.perf_counter() - began < 0.8
