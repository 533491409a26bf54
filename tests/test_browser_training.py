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
