"""JSON5 in the editors: what it says survives, what JSON cannot say is refused, and every fault has its place."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.errors import ErrorKind, InspectorError
from inspector.json5text import as_strict
from inspector.request import dump_request, parse_fields, parse_request

LEAVES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.text()  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=20)  # fmt: skip
BLANKS = ("", " ", "\n", "/* , ] } \" ' */", "// ' \" {\n", "\u00a0", "/**/\t")


def spelled_loosely(value: Any, choose: random.Random) -> str:
    """Write a value as JSON5, with its freedoms drawn."""
    blank = lambda: choose.choice(BLANKS)  # noqa: E731
    if isinstance(value, str):
        return loose_string(value, choose)
    if isinstance(value, list):
        parts = [blank() + spelled_loosely(item, choose) + blank() for item in value]
        return "[" + ",".join(parts) + ("," + blank() if parts and choose.random() < 0.5 else blank()) + "]"
    if isinstance(value, dict):
        parts = [blank() + loose_key(key, choose) + blank() + ":" + blank() + spelled_loosely(item, choose) + blank() for key, item in value.items()]  # fmt: skip
        return "{" + ",".join(parts) + ("," + blank() if parts and choose.random() < 0.5 else blank()) + "}"
    text = json.dumps(value)
    return "+" + text if type(value) in (int, float) and text[0] != "-" and choose.random() < 0.3 else text


def loose_key(key: str, choose: random.Random) -> str:
    return key if key.isascii() and key.isidentifier() and choose.random() < 0.7 else loose_string(key, choose)


def loose_string(text: str, choose: random.Random) -> str:
    if choose.random() < 0.4:
        return json.dumps(text, ensure_ascii=choose.random() < 0.5)
    quote = choose.choice("'\"")
    out = []
    for char in text:
        if char in f"{quote}\\\n\r":
            out.append({"\n": "\\n", "\r": "\\x0d"}.get(char, f"\\{char}"))
        else:
            out.append(choose.choice((char, char, f"\\\n{char}", f"\\x{ord(char):02x}" if ord(char) < 256 else char)))
    return quote + "".join(out) + quote


@given(VALUES, st.integers(0, 2**32))
def test_a_value_written_as_json5_is_read_as_it_was(value: Any, seed: int) -> None:
    assert json.loads(as_strict(spelled_loosely(value, random.Random(seed))).text) == value


@given(VALUES, st.sampled_from([None, 1]))
def test_strict_json_comes_out_unchanged(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    made = as_strict(text)
    assert (made.text, made.found) == (text, {})


@given(st.text(alphabet="[]{},:\"'\\/*\n a1+-.xeN"))
def test_any_text_is_read_or_refused_and_never_misread(text: str) -> None:
    made = as_strict(text)
    places = [made.source(offset) for offset in range(len(made.text) + 1)]
    assert places == sorted(places) and places[-1] <= len(text)
    try:
        parse_fields(text)
    except InspectorError as error:
        assert error.message and error.where["field"] == "messages"


MESSY = """// a chat
[{role: 'user', "content": 'it\\'s "x"\\
 y', n: [+1, .5, 5., 0xFF, -0x0, 1.10, 1e5],},
]"""


def test_numbers_keep_their_spelling_where_json_has_it_and_the_reading_is_a_change() -> None:
    request = parse_fields(MESSY, arguments="{a: 1, /* b */}")
    assert request.messages[0]["content"] == 'it\'s "x" y'
    assert dump_request(request.messages[0]["n"]) == "[1, 0.5, 5.0, 255, -0, 1.10, 1e5]"
    changes = {change.path: (change.what, change.by) for change in request.changes}
    assert changes == dict.fromkeys(("messages", "chat_template_kwargs"), ("read as JSON5", "parser"))
    assert "comments" in request.changes[0].before and "trailing commas" in request.changes[0].before


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("[{role: 'user',\n content: 'a', n: Infinity}]", 2, 19, "Infinity is not a JSON value"),
        ("[{role: 'user',\n content: 'a', n: +Infinity}]", 2, 19, "Infinity is not a JSON value"),
        ("[{role: 'user', content: 'a', n: NaN}]", 1, 34, "NaN is not a JSON value"),
        ("// c\n[{role: 'user', content: 'a' b: 1}]", 2, 30, "expected , or }, found b"),
        ("// c\n[{role: '\\x4a\\1'}]", 2, 14, "is not a JSON escape"),
        ("[{role: 'user', role:\n 'x'}]", 1, 17, "first at line 1 column 3"),
        ("[{role: 'user',\n\n content: 3}]", 3, 11, "messages[0].content must be"),
        ("[{'role': 'user', 'content': None}]", 1, 30, "found None"),
        ("[{role: 'user', content: 'a\nb'}]", 1, 28, "a raw line break inside a string"),
        ("[{role: 'x'},,]", 1, 14, "found ','"),
        ("[1+2]", 1, 3, "found '2'"),
        ("[{role: 'user', content: 007}]", 1, 26, "needless 0"),
        ("['a\\ud800', /**/ ]", 1, 4, "surrogate"),
        ("[" * 100 + "'a'", 1, 65, "limit of 64"),
    ],
)
def test_a_fault_is_said_at_its_own_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(InspectorError) as caught:
        parse_fields(text)
    where = caught.value.where
    assert message in caught.value.message and (where["line"], where["column"]) == (line, column), (
        caught.value.to_dict()
    )


def test_the_command_line_stays_strict() -> None:
    with pytest.raises(InspectorError) as caught:
        parse_request(b"[{role: 'user', content: 'x'}]")
    assert caught.value.kind is ErrorKind.InputInvalid


@pytest.mark.parametrize("unit", ["/*", "'\\", "[1,/**/", "a /**/", "{a:", "+1", "'", "/**/,", ".5,"])
def test_the_time_is_linear_in_the_text(unit: str) -> None:
    def seconds(times: int) -> float:
        begun = time.process_time()
        as_strict(unit * times)
        return time.process_time() - begun

    assert seconds(40_000) < 12 * seconds(10_000) + 0.05  # quadratic: 16 times
