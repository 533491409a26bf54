"""The Differences view's rows: what both sides hold is told exactly, bounded, and for every state of two panes."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from page import HOSTILE

from inspector import jobs
from inspector.comparison import MAX_HUNKS, compare_inspections
from inspector.job import make_options, prepare
from inspector.pipeline import Inspection, inspect
from inspector.ui import diff, serve
from inspector.ui.views import diff as view

CLOCK = "2026-01-31T09:30:00"
SAY = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
CHAT = [{"role": "user", "content": "When is\nhigh tide? 潮 🧮"}, {"role": "assistant", "content": "At noon."}]


def side(template: str, request: Any = CHAT, tokenizer: str = "qwen3", **options: Any) -> Inspection:
    found = inspect(request, tokenizer=tokenizer, template_text=template, clock=CLOCK, **options)
    assert isinstance(found, Inspection)
    return found


def answer(a: Inspection, b: Inspection) -> dict[str, Any]:
    return json.loads(json.dumps(view.answer(compare_inspections(a, b)), allow_nan=False))


def test_every_row_gives_the_bytes_tokens_and_writers_of_its_region() -> None:
    a, b = side(SAY), side(SAY.replace("<|im_end|>", "!<|im_end|>").replace("m.role", "m.role | upper"))
    found = answer(a, b)
    assert found["total"] == len(found["hunks"]) >= 4 and found["equal"] == {"bytes": False, "ids": False}
    for row in found["hunks"]:
        for name, inspection in (("a", a), ("b", b)):
            shown, encoding = row[name], inspection.encoding
            assert encoding is not None
            utf8, (start, end), (first, last) = encoding.rendered.utf8, shown["bytes"], shown["tokens"]
            assert shown["text"] == utf8[start:end].decode() and shown["left_out"] == 0
            assert utf8[:start].decode().endswith(shown["before"]) and utf8[end:].decode().startswith(shown["after"])
            assert "\n" not in shown["before"][:-1] and "\n" not in shown["after"][:-1]
            assert [pair[0] for pair in shown["ids"]] == encoding.input_ids[first:last].tolist()[: view.MOST_IDS]
            segments = encoding.rendered.segments.to_dicts()
            touched = [s for s in segments if s["start"] < end and s["end"] > start]
            if shown["wrote"]:
                assert {(o["kind"], o["path"], o["line"]) for o in shown["origins"]} == {(s["kind"], s["path"], s["line"]) for s in touched}  # fmt: skip
            else:
                before = next(s for s in segments if s["start"] < start <= s["end"])
                assert shown["origins"] == [{name: before[name] for name in ("kind", "path", "line")}]
    added = next(row for row in found["hunks"] if row["b"]["text"] == "!")
    assert added["a"]["text"] == "" and not added["a"]["wrote"] and added["b"]["origins"][0]["kind"] == "template"
    assert found["delta"]["tokens"]["b"] > found["delta"]["tokens"]["a"]


def test_same_text_with_other_ids_says_so_and_names_both_sides_tokens() -> None:
    found = answer(side(SAY), side(SAY, tokenizer="smollm2"))
    assert found["equal"] == {"bytes": True, "ids": False} and not found["same_tokenizer"] and found["hunks"]
    for row in found["hunks"]:
        assert row["same_text"] and row["a"]["text"] == row["b"]["text"]
        assert row["a"]["ids"] != row["b"]["ids"]


def test_equal_sides_have_no_row() -> None:
    found = answer(side(SAY), side(SAY))
    assert found["equal"] == {"bytes": True, "ids": True} and found["total"] == 0 and found["hunks"] == []


def test_a_side_that_failed_is_named_with_its_line() -> None:
    found = answer(side(SAY), side("{{ raise_exception('no tides') }}"))
    assert found["failed"][0] is None and "no tides" in found["failed"][1] and found["hunks"] == []


def test_long_regions_are_cut_between_characters_and_long_lists_say_what_is_left() -> None:
    long = answer(side("{{ '潮汐🧮' * 900 }}"), side("{{ 'é' * 900 }}"))["hunks"]
    assert len(long) == 1
    for name in "ab":
        shown, size = long[0][name], long[0][name]["bytes"][1] - long[0][name]["bytes"][0]
        sizes = len(shown["text"].encode()), len(shown["tail"].encode())
        assert sum(sizes) + shown["left_out"] == size and shown["left_out"] > 0
        assert sizes[0] <= view.MOST_HEAD and sizes[1] <= view.MOST_TAIL
        assert "�" not in shown["text"] + shown["tail"]
    many = [{"role": "user", "content": f"tide {n}"} for n in range(2 * MAX_HUNKS)]
    found = answer(side(SAY, many), side(SAY.replace("<|im_end|>", "!<|im_end|>"), many))
    assert len(found["hunks"]) == MAX_HUNKS and found["total"] == 2 * MAX_HUNKS
    assert len(json.dumps(found)) < 400_000


@pytest.mark.parametrize("text", HOSTILE)
def test_the_job_gives_hostile_text_as_it_is(text: str) -> None:
    fields = serve.Fields(json.dumps([{"role": "user", "content": text}]), "", "", "")
    sides = [
        prepare(fields, make_options(tokenizer="bytes", template_text=template, clock=CLOCK))
        for template in ("{{ messages[0].content }}", "{{ messages[0].content[1:] }}")
    ]
    found = json.loads(jobs.page_hunks(pickle.dumps(sides)))
    assert found["hunks"] and text[0] in found["hunks"][0]["a"]["text"]
    assert (found["hunks"][0]["a"]["text"] + found["hunks"][0]["a"]["after"])[:20] in text


def test_a_request_that_no_page_sends_is_refused() -> None:
    for request in (None, {}, {"session": "0" * 32}, {"session": "0" * 32, "fields": {}, "panes": []}):
        assert json.loads(diff.hunks(request))["kind"] == "OptionInvalid"
