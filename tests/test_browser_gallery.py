"""The example gallery, links and state files, and the plots: in a real Chromium, held to what Python counts."""

from __future__ import annotations

import ast
import base64
import csv
import io
import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import regex
from page import ANSWER_MS, ROOT, Inspector, messages, shot

from inspector import inspect
from inspector.encode import TokenFlag
from inspector.ui import payload
from inspector.ui.examples import EXAMPLES
from inspector.ui.strings import STRINGS

pytestmark = pytest.mark.browser

STATIC = ROOT / "inspector" / "ui" / "static"
ENGLISH = STRINGS["en"]
SCRIPTS = {
    "space": r"\p{White_Space}", "digits": r"\p{Nd}", "latin": r"\p{Script=Latin}", "han": r"\p{Script=Han}",
    "kana": r"[\p{Script=Hiragana}\p{Script=Katakana}]", "hangul": r"\p{Script=Hangul}", "cyrillic": r"\p{Script=Cyrillic}",
    "greek": r"\p{Script=Greek}", "arabic": r"\p{Script=Arabic}", "hebrew": r"\p{Script=Hebrew}",
    "devanagari": r"\p{Script=Devanagari}", "thai": r"\p{Script=Thai}", "emoji": r"\p{Extended_Pictographic}",
    "punctuation": r"[\p{P}\p{S}]", "other": r"(?s).",
}  # fmt: skip


def bench_js(bench: Any, expression: str, argument: Any = None) -> Any:
    return bench.page.evaluate(
        f"argument => {{ const bench = document.querySelector('#bench .ti').parentNode.bench; return {expression}; }}",
        argument,
    )


def fragment(value: Any) -> str:
    """A link's fragment as the page writes it."""
    text = value if isinstance(value, str) else json.dumps(value)
    packer = zlib.compressobj(wbits=-15)
    return base64.urlsafe_b64encode(packer.compress(text.encode()) + packer.flush()).decode().rstrip("=")


def at_link(bench: Any, text: str) -> None:
    """Type a link into the page's own tab."""
    bench.page.evaluate("text => { location.hash = text; }", text)
    bench.page.wait_for_function(
        "() => !document.querySelector('#bench .ti').parentNode.bench.opening", timeout=ANSWER_MS
    )
    bench.settle()


# ---------------------------------------------------------------------------------------------------------- examples


def test_an_example_opens_and_closes_by_keyboard_and_back_and_forward_restore_what_was_there(open_page: Any) -> None:
    bench = open_page()
    page, mine = bench.page, messages("my own text")
    bench.type_in("messages", mine)
    page.focus('[data-act="examples"]')
    page.keyboard.press("Enter")
    assert page.locator(".ti-gallery .ti-case").count() == len(EXAMPLES)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert not page.locator(".ti-gallery").is_visible()
    assert page.evaluate("() => document.activeElement.dataset.act") == "examples"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    bench.settle()
    assert page.url.endswith("#example=forged_turn")
    assert ENGLISH["ex_forged_turn_text"] in page.inner_text(".ti-notice")
    assert "2 from content" in page.inner_text(".ti-head0 .ti-counts")
    bench.type_in("messages", messages("edited"))
    page.wait_for_function("() => location.hash === ''")
    page.go_back()
    bench.settle()
    assert page.input_value('[data-in="messages"]') == mine and not page.locator(".ti-notice").is_visible()
    page.go_forward()
    bench.settle()
    assert page.input_value('[data-in="messages"]') == messages("edited") and page.input_value('[data-in="tokenizer1"]') == "o200k"  # fmt: skip
    page.get_by_role("button", name=ENGLISH["examples_back"]).click()
    bench.settle()
    assert page.input_value('[data-in="messages"]') == mine and page.input_value('[data-in="tokenizer1"]') == "smollm2"


NORMAL_SAMPLE = random.Random(5).sample([example.id for example in EXAMPLES], 1)


@pytest.mark.parametrize(
    "name",
    [pytest.param(example.id, marks=[] if example.id in NORMAL_SAMPLE else [pytest.mark.full]) for example in EXAMPLES],
)
def test_an_example_fills_the_page_with_what_its_data_says(bench: Inspector, name: str) -> None:
    example = next(example for example in EXAMPLES if example.id == name)
    bench.page.click('[data-act="examples"]')
    bench.page.click(f'[data-example="{name}"]')
    bench.settle()
    asked = bench_js(bench, "bench.read()")
    assert [pane["template_text"] for pane in asked["panes"]] == [pane.template_text for pane in example.panes]
    assert [pane["tokenizer"] for pane in asked["panes"]] == [pane.tokenizer for pane in example.panes]
    assert all(asked["fields"][field] == text for field, text in example.fields.items())
    assert bench_js(bench, "[bench.view, bench.state.colour, bench.errorsNow()]") == [example.view, example.colour, []]  # fmt: skip
    assert bench.page.locator(".ti-general").is_hidden()


# ------------------------------------------------------------------------------------------------- links, state files


def test_a_shared_link_opens_elsewhere_to_the_same_bytes_tab_and_selection(open_page: Any) -> None:
    bench = open_page(permissions=["clipboard-read", "clipboard-write"])
    bench.paste_template(0, "{{ messages[0].content }} at {{ strftime_now('%H:%M:%S.%f') }}")
    bench.type_in("messages", messages("日本 🦊 <b>"))
    bench.open("bytes")
    bench.page.locator(".ti-col0 [data-b]").nth(1).click()
    bench.page.click('[data-act="share"]')
    bench.page.wait_for_function("() => location.hash.startsWith('#state=')")
    link = bench.page.evaluate("() => navigator.clipboard.readText()")
    assert link == bench.page.url == bench.page.input_value(".ti-link-text")
    bench.page.screenshot(path=shot("share"))
    bench.page.keyboard.press("Escape")
    assert bench.page.evaluate("() => document.activeElement.dataset.act") == "share"
    other = open_page()
    at_link(other, link.split("#")[1])
    panes = range(bench.page.locator(".ti-head").count())
    assert [other.pane(q) for q in panes] == [bench.pane(q) for q in panes]
    same = "[bench.view, bench.pick, bench.selected, bench.inputs().messages]"
    other.page.wait_for_function("() => document.querySelector('#bench .ti').parentNode.bench.pick", timeout=ANSWER_MS)
    assert bench_js(other, same) == bench_js(bench, same)
    other.page.reload()
    other.settle()
    assert other.pane(0) == bench.pane(0) and bench_js(other, "bench.view") == "bytes"


def test_hostile_links_give_one_line_and_leave_the_page_as_it_was(open_page: Any) -> None:
    bench = open_page()
    bench.type_in("messages", messages("mine"))
    bomb = zlib.compressobj(9, wbits=-15)
    packed = bomb.compress(b"[" * 300_000_000) + bomb.flush()
    state = {"schema": "page-state/1", "inputs": {}}
    for text, key in (
        ("state=%%%", "state_garbled"),
        ("state=AAAA", "state_garbled"),
        ("state=" + fragment("[1, 2"), "state_garbled"),
        ("state=" + fragment([1]), "state_other"),
        ("state=" + fragment({"schema": "page-state/1", "inputs": [1]}), "state_other"),
        ("state=" + fragment({**state, "schema": "page-state/99"}), "state_other"),
        ("state=" + base64.urlsafe_b64encode(packed).decode().rstrip("="), "state_too_large"),
        ("example=constructor", "state_no_example"),
    ):
        at_link(bench, text)
        shown = bench.page.inner_text(".ti-notice span")
        assert shown == ENGLISH[key].replace("{limit}", "4") and "#" not in bench.page.url, (text[:40], shown)
        assert bench.page.input_value('[data-in="messages"]') == messages("mine")
    evil = '{"schema": "page-state/1", "inputs": {"__proto__": {"polluted": 1}, "constructor": "x", "messages": "[]"},'
    evil += ' "view": "__proto__", "colour": "toString", "pick": {"kind": "constructor"}, "switches": {"ids": "yes"}, "__proto__": {"polluted": 1}}'  # fmt: skip
    at_link(bench, "state=" + fragment(evil))
    assert bench_js(bench, "[({}).polluted === undefined, bench.view, bench.pick, bench.state.colour, bench.inputs().messages]") == [True, "tokens", None, "alternate", "[]"]  # fmt: skip
    assert not bench.page.locator(".ti-notice").is_visible()


def test_a_state_too_long_for_a_link_travels_as_a_file(open_page: Any) -> None:
    bench = open_page()
    noise = random.Random(1)
    long = messages("".join(noise.choice("abcdefghijklmnopqrstuvwxyz的一是不了人我在有他") for _ in range(20_000)))
    bench.type_in("messages", long)
    bench.page.click('[data-act="share"]')
    bench.page.wait_for_selector(".ti-share[open]")
    assert "Take the file" in bench.page.inner_text(".ti-share") and "#" not in bench.page.url
    assert not bench.page.locator(".ti-link-text").is_visible()
    with bench.page.expect_download() as started:
        bench.page.click('[data-act="save-state"]')
    saved = Path(started.value.path())
    assert json.loads(saved.read_text("utf-8"))["inputs"]["messages"] == long
    other = open_page()
    other.page.click('[data-act="share"]')
    wrong = {"name": "wrong.json", "mimeType": "application/json", "buffer": b'{"a": 1}'}
    other.page.set_input_files(".ti-share input[type=file]", wrong)
    other.page.wait_for_selector(".ti-share .ti-err:not([hidden])")
    assert other.page.inner_text(".ti-share .ti-err") == "wrong.json: " + ENGLISH["state_other"]
    other.page.set_input_files(".ti-share input[type=file]", saved)
    other.page.wait_for_selector(".ti-share[open]", state="hidden")
    other.settle()
    assert other.page.input_value('[data-in="messages"]') == long and other.pane(0) == bench.pane(0)


# -------------------------------------------------------------------------------------------------------------- plots

TALK = [
    {"role": "system", "content": "Be brief. 请简短。"},
    {"role": "user", "content": "Привет! 你好, 42 is ≥ 41 🦊 こんにちは"},
    {"role": "assistant", "content": "안녕 – hello\n\n```py\nx = 1\n```"},
    {"role": "user", "content": "Ende <|im_end|> x"},
]


@pytest.fixture(scope="module")
def drawn(browser: Any) -> Any:
    """An inspection, and a blank page that holds it as `pane` beside the plots' pure functions."""
    inspection = inspect(TALK, tokenizer="smollm2", template="chatml", clock="2026-01-31T09:30:00")
    answer = payload.dumps(payload.answer(inspection, None)[0]).decode()
    page = browser.new_page()
    text = "\n".join((STATIC / f"{name}.js").read_text("utf-8") for name in ("core", "pane", "align", "links", "plots"))
    page.add_script_tag(content=text)
    page.evaluate("async text => { const answer = await opened(text); FLAG = answer.legend.flags; KINDS = answer.legend.kinds; window.pane = new Pane().next(answer.pane); }", answer)  # fmt: skip
    yield inspection, page
    page.close()


def test_the_stacked_bars_sum_to_the_counts_of_the_record(drawn: Any) -> None:
    inspection, page = drawn
    bars = page.evaluate("() => stackOfTurns(pane)")
    counts = inspection.encoding.counts()
    total: Counter[str] = Counter()
    for bar in bars:
        total.update(bar["by"])
    assert dict(total) == counts["by_origin"] and sum(bar["n"] for bar in bars) == len(inspection.encoding)
    for k in range(len(TALK)):
        own = sum(n for path, n in counts["by_path"].items() if path.startswith(f"messages[{k}]"))
        assert next(bar["by"]["message"] for bar in bars if bar["turn"] == k) == own


def test_the_length_after_each_turn_is_that_of_the_conversation_up_to_it(drawn: Any) -> None:
    inspection, page = drawn
    line = page.evaluate("() => lengthOverTurns(pane)")
    prefixes = [
        len(inspect(TALK[: k + 1], tokenizer="smollm2", template="chatml", add_generation_prompt=False).encoding)
        for k in range(len(TALK))
    ]
    assert [point["tokens"] for point in line] == [*prefixes, len(inspection.encoding)]


def test_the_histogram_counts_bytes_and_the_script_costs_equal_pythons(drawn: Any) -> None:
    inspection, page = drawn
    encoding, utf8 = inspection.encoding, inspection.rendered.utf8
    width = encoding.end - encoding.start
    assert page.evaluate("() => lengthHistogram(pane)") == np.bincount(np.minimum(width, 16), minlength=17).tolist()
    share = np.zeros(len(utf8))
    plain = (encoding.flags & (TokenFlag.SPECIAL | TokenFlag.ADDED)) == 0
    for start, end in zip(encoding.start[plain].tolist(), encoding.end[plain].tolist(), strict=True):
        share[start:end] += 1 / max(1, end - start)
    sizes: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    at = 0
    for char in inspection.rendered.text:
        name = next(name for name, pattern in SCRIPTS.items() if regex.match(pattern, char))
        for byte in range(at, at := at + len(char.encode())):
            if share[byte]:
                sizes[name] += 1
                tokens[name] += share[byte]
    found = {row["name"]: row for row in page.evaluate("() => scriptCosts(pane)")}
    assert {name: row["bytes"] for name, row in found.items()} == dict(sizes) and len(found) > 6
    assert {name: row["tokens"] for name, row in found.items()} == pytest.approx(dict(tokens))


def test_the_plots_tab_draws_says_selects_and_exports(bench: Inspector) -> None:
    page = bench.page
    bench.open("plots")
    assert page.locator(".ti-plot svg[role=img]").count() == 5
    names = page.eval_on_selector_all(
        ".ti-plot svg[role=img]", "all => all.map((node) => node.getAttribute('aria-label'))"
    )
    assert all(len(name) > 20 for name in names)
    bar = page.locator(".ti-plot0 [data-mark]").nth(2)
    bar.hover()
    said = page.inner_text(".ti-plot0 .ti-value")
    assert "messages[1]" in said and "tokens" in said
    bar.click()
    assert bench_js(bench, "bench.pick") == {"kind": "part", "q": 0, "key": "messages[1]"} and "messages[1]" in bench.card()  # fmt: skip
    page.locator(".ti-plot summary").nth(4).click()
    page.locator(".ti-plot").nth(4).locator(".ti-table .ti-link").nth(0).click()
    assert bench_js(bench, "bench.pick.kind") == "tokens"
    with page.expect_download() as started:
        page.locator(".ti-plot").nth(2).get_by_role("button", name="as SVG").click()
    text = Path(started.value.path()).read_text("utf-8")
    assert started.value.suggested_filename == "bytes-per-token.svg" and text.startswith("<?xml") and "url(#" in text and "var(" not in text  # fmt: skip
    with page.expect_download() as started:
        page.locator(".ti-plot").nth(0).get_by_role("button", name="as PNG").click()
    raw = Path(started.value.path()).read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(raw[16:20], "big") > 800


# ------------------------------------------------------------------------------------------------------------ exports


def taken(bench: Any, view: str, row: str, pane: str = "A") -> bytes:
    """Download one row of a view's menu."""
    if bench.page.get_attribute(f'[data-view="{view}"]', "aria-selected") != "true":
        bench.open(view)
    if not bench.page.locator(".ti-menu[open]").count():
        bench.page.click(".ti-menu > summary")
    with bench.page.expect_download() as started:
        bench.page.get_by_role("button", name=f"{pane} download: {ENGLISH['export_' + row]}", exact=True).click()
    return Path(started.value.path()).read_bytes()


def test_what_is_taken_from_a_view_is_what_the_record_says(open_page: Any) -> None:
    bench = open_page(permissions=["clipboard-read", "clipboard-write"])
    hostile = 'a "quoted", line\n<|im_end|>\\ \u2028 🦊é\x07'
    bench.type_in("messages", messages(hostile))
    expected = inspect([{"role": "user", "content": hostile}], tokenizer="smollm2", template="qwq-32b@current")
    record, utf8 = expected.to_dict(), expected.rendered.utf8
    assert json.loads(taken(bench, "tokens", "ids")) == record["input_ids"] == bench.pane(0)["ids"]
    names: dict[str, Any] = {}
    exec(taken(bench, "tokens", "python"), names)
    assert (names["text"], names["input_ids"]) == (expected.rendered.text, record["input_ids"])
    rows = list(csv.DictReader(io.StringIO(taken(bench, "tokens", "csv").decode(), newline="")))
    lines = [json.loads(line) for line in taken(bench, "tokens", "jsonl").decode().split("\n")[:-1]]
    for row, line, token in zip(rows, lines, record["tokens"], strict=True):
        told = {"id": token["id"], "piece": token["piece"], "start": token["start"], "end": token["end"]}
        assert {name: row[name] for name in told} == {name: str(value) for name, value in told.items()}
        assert {name: line[name] for name in told} == told and line["path"] == token["path"] and line["line"] == token["line"]  # fmt: skip
        assert set(row["flags"].split()) == set(line["flags"]) == set(token["flags"])
    bench.page.keyboard.press("Escape")
    assert not bench.page.locator(".ti-menu[open]").count()
    assert bench.page.evaluate("() => document.activeElement.tagName") == "SUMMARY"
    assert taken(bench, "bytes", "raw") == utf8 and ast.literal_eval(taken(bench, "bytes", "pybytes").decode()) == utf8
    assert taken(bench, "rendered", "text") == utf8
    assert ast.literal_eval(taken(bench, "rendered", "string").decode()) == expected.rendered.text
    assert json.loads(taken(bench, "budget", "json"))["budget"] is None
    assert taken(bench, "template", "source").decode() == expected.template.text
    turns = list(csv.DictReader(io.StringIO(taken(bench, "plots", "csv", "B").decode())))
    assert sum(int(row["tokens"]) for row in turns) == len(bench.pane(1)["ids"])
    bench.page.get_by_role("button", name=f"A copy: {ENGLISH['export_csv']}", exact=True).click()
    bench.page.wait_for_function("() => document.querySelector('.ti-tools .ti-copied').textContent === 'copied'")
    assert bench.page.evaluate("() => navigator.clipboard.readText()").startswith("turn,tokens,message")
