"""Budget, Tensors and Training in a real Chromium: what is dragged, typed, jumped to and copied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from page import ANSWER_MS, NARROW, WIDE, Inspector, messages, shot

from inspector.pipeline import inspect

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
CHAT = ("What is the tide?", "Water that comes " + "and goes " * 12, "When is it high?", "At noon.", "And tomorrow?")


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    """One page for the whole module: its session keeps the tokenizers that it has loaded."""
    opened = Inspector(browser, address, permissions=["clipboard-read", "clipboard-write"])
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def wait(bench: Inspector, text: str, where: str = ".ti-panel") -> None:
    bench.page.wait_for_function("([s, t]) => document.querySelector(s).innerText.includes(t)", arg=[where, text], timeout=ANSWER_MS)  # fmt: skip


def taken(bench: Inspector, row: str, pane: str = "A") -> str:
    """What the copy button of an export gives."""
    bench.page.click(".ti-tools .ti-menu > summary")
    bench.page.get_by_role("button", name=f"{pane} copy: {row}", exact=True).click()
    bench.page.wait_for_function("() => document.querySelector('.ti-tools .ti-copied').textContent === 'copied'")
    bench.page.keyboard.press("Escape")
    return str(bench.page.evaluate("() => navigator.clipboard.readText()"))


def seen_at_all_sizes(bench: Inspector, name: str) -> None:
    """In Chinese, dark and on a phone nothing is wider than the screen, and no string is missing."""
    bench.page.screenshot(path=shot(f"{name}_wide"))
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(NARROW)
    bench.page.wait_for_timeout(400)
    bench.page.screenshot(path=shot(f"{name}_narrow_dark_zh"))
    assert bench.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.ti-panel').scrollWidth <= document.querySelector('.ti-panel').clientWidth + 1")  # fmt: skip
    raw = bench.page.evaluate("() => [...document.querySelectorAll('.ti-panel *')].filter(n => !n.childElementCount && !n.closest('code, pre, select, .ti-mono')).map(n => n.textContent.trim()).filter(t => /^[a-z]+(_[a-z]+)+$/.test(t) && !/^(input_ids|attention_mask|position_ids|max_new_tokens|pad_to_multiple_of|modules_to_save)$/.test(t))")  # fmt: skip
    assert raw == []
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(WIDE)


def test_n_is_dragged_typed_and_moved_by_keys_and_every_tab_follows(bench: Inspector) -> None:
    page = bench.page
    bench.choose("template1", "chatml")
    bench.type_in("messages", messages(*CHAT))
    bench.open("budget")
    wait(bench, "No context window is given")
    total = len(bench.pane(0)["ids"])
    page.focus(".ti-handle")
    page.keyboard.press("Home")  # what is required, in every pane
    required = int(str(page.get_attribute(".ti-handle", "aria-valuenow")))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    wait(bench, f"context window N {required + 1 + max(10, round(total / 20))}")
    page.wait_for_function(
        f"() => {BENCH}.field('context_window').value === '{required + 1 + max(10, round(total / 20))}'"
    )
    bench.settle()
    assert len(bench.pane(0)["ids"]) <= required + 1 + max(10, round(total / 20)) < total
    # Dragged, the cut moves at once; let go, N is the page's.
    lanes, handle = page.locator(".ti-lanes").bounding_box(), page.locator(".ti-grip").bounding_box()
    page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + 5)
    page.mouse.down()
    page.mouse.move(lanes["x"] + 2, handle["y"] + 5, steps=4)
    page.locator(".ti-panel .ti-err", has_text="Rejected").first.wait_for()
    assert bench.error("context_window") == "", "N is only tried"
    page.mouse.move(lanes["x"] + lanes["width"] * 0.8, handle["y"] + 5, steps=4)
    page.mouse.up()
    page.wait_for_function(f"() => +{BENCH}.field('context_window').value > {required}")
    bench.settle()
    given = int(page.input_value('[data-in="context_window"]'))
    expected = inspect(
        json.loads(messages(*CHAT)), tokenizer="smollm2", template="qwq-32b@current", context_window=given
    )
    wait(bench, f"context window N {given}")
    assert bench.pane(0)["ids"] == expected.encoding.input_ids.tolist()
    page.wait_for_function(f"() => !{BENCH}.kept.budget.panes.some(p => p.answer.budget.context_window !== {given})")
    assert json.loads(taken(bench, "JSON"))["budget"] == expected.budget.to_dict()
    # The engines' cut breaks things; each leads to its place.
    page.select_option('[data-in="budget_policy"]', "tokens_left")
    bench.settle()
    page.locator(".ti-broken .ti-place", has_text="token 0").first.click()
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "tokens"
    page.keyboard.press("Escape")
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "budget"
    text = taken(bench, "Decision as text")
    assert "broken   cut_in_message at messages[" in text and "ok       limit:" in text
    assert page.evaluate("() => document.querySelectorAll('.ti-out.ti-barpiece').length") > 1
    # A link holds it, policy and all.
    page.select_option('[data-in="budget_policy"]', "keep_first")
    page.fill('[data-in="budget_first_turns"]', "2")
    bench.settle()
    state = page.evaluate(f"() => {BENCH}.capture().inputs")
    assert (state["policy"], state["first_turns"], state["context_window"]) == ("keep_first", "2", str(given))
    seen_at_all_sizes(bench, "budget")
    bench.type_in("context_window", "")


THOUGHT = [
    {"role": "user", "content": "Is 91 prime?"},
    {"role": "assistant", "content": "<think>\n91 = 7 × 13\n</think>\n\nNo. 🧮"},
    {"role": "user", "content": "And 97?"},
    {"role": "assistant", "content": "Yes."},
]


def test_a_batch_is_padded_packed_walked_by_keys_and_copied(bench: Inspector) -> None:
    page = bench.page
    bench.choose("template1", "chatml")
    bench.type_in("messages", json.dumps(THOUGHT[:1]))
    bench.open("tensors")
    page.locator(".ti-batchcell").first.wait_for(timeout=ANSWER_MS)
    lengths = [len(bench.pane(q)["ids"]) for q in (0, 1)]
    assert lengths[0] != lengths[1]
    wait(bench, f"2 rows × {max(lengths)} positions")
    short, pads = lengths.index(min(lengths)), max(lengths) - min(lengths)
    assert f"{'AB'[short]} +{pads}" in page.inner_text(".ti-out") and "PAD is EOS" in page.inner_text(".ti-out")
    page.get_by_label("position_ids from the mask").uncheck()
    wait(bench, f"read at shifted positions, {'AB'[short]} +{pads}")
    page.focus(".ti-batchgrid")
    for key in ("ArrowDown", *["ArrowDown"] * short, "End"):
        page.keyboard.press(key)
    column = max(lengths) - 1
    last = bench.pane(short)["ids"][-1]
    said = page.inner_text(".ti-batchsaid")
    assert f"{'AB'[short]}, column {column}: id {last}" in said and f"should be {min(lengths) - 1}" in said
    page.locator('[data-choice="right"]').click()
    wait(bench, f"logits[:, -1] of {'AB'[short]} belong to padding")
    page.get_by_role("button", name="Copy as Python").click()
    page.wait_for_function("() => document.querySelector('.ti-tools .ti-copied').textContent === 'copied'")
    names: dict[str, Any] = {}
    exec(page.evaluate("() => navigator.clipboard.readText()"), names)
    assert names["input_ids"][short] == bench.pane(short)["ids"] + [2] * pads
    assert names["attention_mask"][short] == [1] * min(lengths) + [0] * pads
    page.fill('[data-in="batch_text"]', '[{"role": "user", "content": "hi"}]\nnonsense')
    page.locator('[data-choice="packed"]').click()
    page.locator(".ti-maskblock").nth(2).wait_for(timeout=ANSWER_MS)
    assert "#2:" in page.inner_text(".ti-batchrows .ti-err")
    total = sum(lengths) + int(page.locator(".ti-packmask li").nth(2).inner_text().split("–")[1]) - sum(lengths)
    assert f"cu_seqlens [0, {lengths[0]}, {sum(lengths)}, {total}]" in page.inner_text(".ti-facts >> nth=0")
    state = json.loads(page.evaluate(f"() => {BENCH}.capture().inputs.training"))
    assert state["batch"]["packed"] is True and "nonsense" in state["batch"]["text"]
    seen_at_all_sizes(bench, "tensors")
    page.fill('[data-in="batch_text"]', "")


def test_labels_prefixes_and_new_tokens_lead_to_their_places(bench: Inspector) -> None:
    page = bench.page
    for q, template in enumerate(("qwen3-0.6b@current", "chatml")):
        bench.choose(f"template{q}", template)
    bench.type_in("messages", json.dumps(THOUGHT, ensure_ascii=False))
    bench.open("training")
    page.locator(".ti-labeltext").nth(1).wait_for(timeout=ANSWER_MS)
    alarms = page.locator(".ti-columns > section").first.locator(".ti-broken li")
    assert any("reasoning is never trained" in text for text in alarms.all_inner_texts())
    alarms.filter(has_text="reasoning").locator(".ti-place").first.click()
    assert page.evaluate("() => document.activeElement.dataset.in") == "messages"
    page.keyboard.press("Escape")
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "training"
    # An alarm's token is shown among the ids, with its label.
    alarms.filter(has_text="PAD = EOS").locator(".ti-place").click()
    chip = page.evaluate("() => document.activeElement.innerText.split('\\n').slice(-2)")
    assert chip == ["2", "2"] and page.get_attribute('[data-choice="ids"]', "aria-pressed") == "true"
    names: dict[str, Any] = {}
    exec(taken(bench, "Labels as Python"), names)
    trained = [token for token in names["labels"] if token != -100]
    assert len(names["labels"]) == len(names["input_ids"]) and trained.count(2) == 2 and len(trained) > 6
    page.get_by_label("only {% generation %} counts").check()
    wait(bench, "the template has no {% generation %} tag")
    seen_at_all_sizes(bench, "labels")
    # Turn by turn: who parts, and back.
    page.locator('[data-choice="prefix"]').click()
    page.locator(".ti-steps2").nth(1).wait_for(timeout=ANSWER_MS)
    left = page.locator(".ti-columns > section").first
    assert "✗ parts at token" in left.inner_text() and "every one of 3 steps" in page.locator(".ti-columns > section").nth(1).inner_text()  # fmt: skip
    left.locator(".ti-partingrow .ti-place", has_text="template line").first.click()
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "template"
    page.keyboard.press("Escape")
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "training"
    page.fill('[data-in="prefix_block"]', "8")
    wait(bench, "blocks of 8")
    assert len(taken(bench, "Block keys").split()) == len(json.loads(taken(bench, "Prefixes as JSON"))["keys"])
    seen_at_all_sizes(bench, "prefix")
    page.locator('[data-choice="vocabulary"]').click()
    page.locator(".ti-code").wait_for(timeout=ANSWER_MS)
    page.fill('[data-in="vocabulary_rows"]', "50000")
    wait(bench, "Trap: the model has 50,000 rows for 49,152 entries")
    page.locator(".ti-boxhead", has_text="The program").get_by_role("button").click()
    page.wait_for_function("() => document.querySelector('.ti-tools .ti-copied').textContent === 'copied'")
    assert "tokenizer.add_tokens(['<plan>', '</plan>']" in page.evaluate("() => navigator.clipboard.readText()")
    seen_at_all_sizes(bench, "vocabulary")
