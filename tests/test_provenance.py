"""Traced strings: they behave as `str`, and what they keep is a copy of the source at its offset."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup, escape

from inspector.errors import ErrorKind, InspectorError
from inspector.provenance import (
    TEMPLATE,
    SegmentKind,
    Traced,
    TracedMarkup,
    add,
    assemble,
    concat,
    dump_json,
    escape_html,
    plain,
    runs_of,
    trace,
    traced_str,
    whole,
)

# Letters with odd case rules, blanks that split and strip, quotes and controls that printers escape.
TEXT = st.text(alphabet="abAB 12_-'\"\\{}%<>&\n\r\t\u00a0\u2028ßİıﬁéΣσς中🙂", max_size=24)
PATH = "messages[0].content"


def wrapped(text: str, path: str = PATH) -> Traced:
    return trace(text, path)


def check(got: Any, want: Any, sources: dict[str, str]) -> None:
    """The text is what `str` gives, the runs cover it, and kept runs are copies."""
    assert str.__str__(got) == str.__str__(want)
    runs = runs_of(got)
    assert sum(run[0] for run in runs) == len(got)
    place = 0
    for chars, origin, offset, _ in runs:
        assert chars > 0
        if origin.exact:
            assert sources[origin.path][offset : offset + chars] == str.__str__(got)[place : place + chars]
        place += chars


UNARY = [
    str.lower, str.upper, str.title, str.capitalize, str.swapcase, str.casefold, str.strip, str.lstrip, str.rstrip,
    str.expandtabs, str.__str__,
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(TEXT, st.sampled_from(UNARY))
def test_methods_without_arguments_behave_as_str(text: str, method: Any) -> None:
    check(getattr(wrapped(text), method.__name__)(), method(text), {PATH: text})


@settings(max_examples=200, deadline=None)
@given(
    TEXT,
    st.one_of(st.none(), st.integers(-30, 30)),
    st.one_of(st.none(), st.integers(-30, 30)),
    st.sampled_from([None, 1, 2, -1, -3]),
)
def test_slices_behave_as_str(text: str, start: Any, stop: Any, step: Any) -> None:
    value = wrapped(text[:5]) + wrapped(text[5:], "messages[1].content")
    sources = {PATH: text[:5], "messages[1].content": text[5:]}
    check(value[start:stop:step], text[start:stop:step], sources)
    assert list(map(str.__str__, value)) == list(text)
    for index in range(-len(text), len(text)):
        check(value[index], text[index], sources)


SPLITS = [("split", ()), ("rsplit", ()), ("split", (None, 1)), ("rsplit", (None, 1)), ("split", ("a",)), ("split", ("a", 1)),
          ("rsplit", ("a", 1)), ("splitlines", ()), ("splitlines", (True,)), ("partition", ("a",)), ("rpartition", ("a",)),
          ("partition", (" ",)), ("rsplit", ("\n",))]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(TEXT, st.sampled_from(SPLITS))
def test_splits_behave_as_str(text: str, call: tuple[str, tuple[Any, ...]]) -> None:
    name, arguments = call
    got, want = getattr(wrapped(text), name)(*arguments), getattr(text, name)(*arguments)
    assert type(got) is type(want) and len(got) == len(want)
    for piece, expected in zip(got, want):
        check(piece, expected, {PATH: text})


WITH_ARGUMENTS = [
    ("replace", ("a", "b ")), ("replace", ("", "-")), ("replace", ("", "-", 2)), ("replace", ("a", "", 1)),
    ("replace", ("\n", "\\n")), ("ljust", (12,)), ("rjust", (12, "*")), ("center", (11,)), ("center", (8, ".")),
    ("zfill", (9,)), ("removeprefix", ("a",)), ("removesuffix", ("\n",)), ("expandtabs", (3,)), ("strip", ("aB",)),
    ("translate", ({97: "xyz", 98: None, 32: 45},)), ("join", (["x", "yy", ""],)), ("__mul__", (3,)), ("__mul__", (0,)),
    ("__add__", ("tail",)),
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(TEXT, st.sampled_from(WITH_ARGUMENTS))
def test_methods_with_arguments_behave_as_str(text: str, call: tuple[str, tuple[Any, ...]]) -> None:
    name, arguments = call
    check(getattr(wrapped(text), name)(*arguments), getattr(text, name)(*arguments), {PATH: text})


CHAIN = st.lists(st.one_of(st.sampled_from([("strip", ()), ("lower", ()), ("title", ()), ("splitlines", ())]),
                           st.sampled_from(WITH_ARGUMENTS), st.sampled_from(SPLITS)), max_size=6)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT, CHAIN)
def test_chains_of_operations_behave_as_str(text: str, other: str, chain: Any) -> None:
    sources = {PATH: text, "messages[1].content": other}
    got: Any = wrapped(text) + wrapped(other, "messages[1].content")
    want: Any = text + other
    for name, arguments in chain:
        got, want = getattr(got, name)(*arguments), getattr(want, name)(*arguments)
        if not isinstance(want, str):
            got, want = wrapped(other, "messages[1].content").join(got), other.join(want)
        got, want = got[:200], want[:200]
        check(got, want, sources)


@settings(max_examples=150, deadline=None)
@given(TEXT, TEXT)
def test_formatting_behaves_as_str(one: str, two: str) -> None:
    sources = {PATH: one, "messages[1].content": two}
    a, b = wrapped(one), wrapped(two, "messages[1].content")
    for template in ("{} and {}", "{0}{1}{0}", "{{{1:>8}}}{0:<3}", "{0!r}|{1!s:^9}", "{:.2}{}"):
        check(Traced(template).format(a, b), template.format(one, two), sources)
    check(Traced("{x[0]}-{y}").format_map({"x": [a], "y": b}), "{x[0]}-{y}".format_map({"x": [one], "y": two}), sources)
    for template in ("%s%s", "%5s|%-5s|", "%%%s %.2s", "%r %s"):
        check(Traced(template) % (a, b), template % (one, two), sources)
    check(Traced("%(k)s %(k)s") % {"k": a}, f"{one} {one}", sources)
    check("<%s>" % a, f"<{one}>", sources)  # noqa: UP031
    check("pre" + a, "pre" + one, sources)
    check(add((a, b, a)), one + two + one, sources)


JSON = st.recursive(
    st.one_of(
        TEXT, st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def leaves(value: Any, path: str, found: dict[str, str]) -> dict[str, str]:
    """Every leaf's own text by path, taken from the wrapped value's origins."""
    if isinstance(value, str):
        found.update({run[1].path: run[1].text for run in runs_of(value)})
    elif isinstance(value, dict):
        for item in value.values():
            leaves(item, path, found)
    elif isinstance(value, list):
        for item in value:
            leaves(item, path, found)
    elif type(value) not in (bool, type(None)):
        found.update(leaves(str(value), path, {}))
    return found


OPTIONS = [{}, {"indent": 2}, {"indent": 0}, {"indent": "\t"}, {"ensure_ascii": True}, {"sort_keys": True},
           {"separators": (",", ":")}, {"ensure_ascii": True, "indent": 4, "separators": (";", " = "), "sort_keys": True}]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from(OPTIONS))
def test_json_text_equals_the_library_and_keeps_leaves(value: Any, options: dict[str, Any]) -> None:
    traced = trace({"root": value}, "tools")
    text = dump_json(traced, **options)
    check(text, json.dumps({"root": value}, **{"ensure_ascii": False, **options}), leaves(traced, "", {}))
    derived = [run for run in text._runs if run[1].kind is SegmentKind.DERIVED]
    assert all(run[1].path for run in derived)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_python_repr_of_containers_equals_python_and_keeps_leaves(value: Any) -> None:
    traced = trace([value, {"k": value}], "tools")
    check(traced_str(traced), str([value, {"k": value}]), leaves(traced, "", {}))


@given(JSON)
def test_plain_undoes_trace(value: Any) -> None:
    back = plain(trace(value, "tools"))
    assert repr(back) == repr(value) and json.dumps(back) == json.dumps(value)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_markup_behaves_as_markup(one: str, two: str) -> None:
    sources = {PATH: one, "messages[1].content": two}
    a, b = wrapped(one), wrapped(two, "messages[1].content")
    check(escape_html(a), escape(one), sources)
    check(TracedMarkup(a) + b, Markup(one) + two, sources)
    check(b + TracedMarkup(a), two + Markup(one), sources)
    check(TracedMarkup(a).join([b, TracedMarkup(b)]), Markup(one).join([two, Markup(two)]), sources)
    check(TracedMarkup(a).replace("a", "<"), Markup(one).replace("a", "<"), sources)
    assert isinstance(TracedMarkup(a).strip(), Markup) and not isinstance(str(TracedMarkup(a)), Markup)


def test_escapes_in_json_keep_their_field_and_the_rest_its_offset() -> None:
    text = dump_json(trace({"a": 'say "hi"\n'}, "messages[0]"))
    kept = [(run[0], run[1].kind.name, run[1].path, run[2]) for run in text._runs if run[1] is not TEMPLATE]
    assert kept == [
        (1, "MESSAGE", "messages[0].a", 0),
        (4, "MESSAGE", "messages[0].a", 0),
        (2, "MESSAGE", "messages[0].a", 0),
        (2, "MESSAGE", "messages[0].a", 5),
        (2, "MESSAGE", "messages[0].a", 0),
        (2, "MESSAGE", "messages[0].a", 0),
    ]


def test_numbers_compute_as_numbers_and_carry_their_path_when_printed() -> None:
    value = trace({"n": 7, "x": 1.5}, "chat_template_kwargs")
    assert isinstance(value["n"], int) and value["n"] + 1 == 8 and type(value["n"] + 1) is int
    assert isinstance(value["x"], float) and value["x"] * 2 == 3.0
    assert runs_of(str(value["n"]))[0][1].path == "chat_template_kwargs.n"
    assert runs_of(str(value["x"]))[0][1].kind is SegmentKind.KWARG


def test_keys_find_their_values_and_carry_the_path_of_the_value() -> None:
    value = trace({"a b": 1}, "tools[0]")
    assert value["a b"] == 1
    (key,) = value
    assert runs_of(key)[0][1].path == 'tools[0]["a b"]'


def test_encode_and_decode_keep_the_source() -> None:
    text = wrapped("né")
    assert text.encode("utf-8") == "né".encode() and text.encode().decode("utf-8") is text


def test_derived_text_names_all_its_inputs() -> None:
    text = (wrapped("ß") + wrapped("ŉ", "messages[1].content")).upper()
    assert text == "SSʼN" and text._runs[0][1].path == "messages[0].content, messages[1].content"


def test_a_lost_source_is_derived_without_a_path() -> None:
    (run,) = concat(["plain"])._runs
    assert run[1].kind is SegmentKind.DERIVED and run[1].path == ""


def test_outputs_get_their_line_unless_they_have_one() -> None:
    table = assemble([whole("a", TEMPLATE, 3), (wrapped("b"), 5), ((wrapped("c"), whole("d", TEMPLATE, 2)), 7)])
    assert table.text == "abcd" and table.tag.tolist() == [3, 5, 7, 2]


def test_characters_joined_one_by_one_become_one_run_in_linear_time() -> None:
    text = wrapped("abc" * 400)
    joined = Traced("", ())
    for char in text:
        joined = joined + char
    assert joined == text and len(joined._runs) <= 17
    assert len(concat(list(text))._runs) == 1


@given(JSON)
def test_traced_values_survive_pickling(value: Any) -> None:
    traced = trace(value, "tools")
    copy = pickle.loads(pickle.dumps(traced))
    assert repr(plain(copy)) == repr(value)
    printed, again = traced_str(traced), traced_str(copy)
    assert [run[1].path for run in runs_of(printed)] == [run[1].path for run in runs_of(again)]


def test_a_value_that_json_cannot_hold_is_refused_with_its_path() -> None:
    with pytest.raises(InspectorError) as caught:
        trace({"a": [object()]}, "tools")
    assert caught.value.kind is ErrorKind.InputInvalid and caught.value.where == {"path": "tools.a[0]"}
