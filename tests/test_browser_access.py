"""The page for everybody, in a real Chromium: by keyboard alone, for screen readers, on any screen, on paper."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from axe import add_axe, faults
from page import NARROW, WIDE, Inspector, messages, shot

from inspector.ui.examples import EXAMPLES
from inspector.ui.views import VIEWS

pytestmark = pytest.mark.browser

ALL = [view.id for view in VIEWS if view.id != "media"]  # that tab is there only with media
SAMPLE = random.Random(7).sample([view for view in ALL if view != "logits"], 3)
# What stands wrong on the page: wider than the screen, controls over each other or cut, a panel with nothing in it.
LOOK = """() => {
  const root = document.querySelector('#bench .ti'), wrong = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) wrong.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  const scrolls = (node) => { for (let up = node.parentElement; up && up !== root; up = up.parentElement) { const flow = getComputedStyle(up); if (/auto|scroll/.test(flow.overflowX + flow.overflowY)) return up; } return null; };
  const boxes = [];
  for (const node of root.querySelectorAll('button, select, input, label, summary, h1, h2')) {
    const words = document.createRange(), style = getComputedStyle(node);
    words.selectNodeContents(node);
    const box = (node.matches('label, h1, h2') ? words : node).getBoundingClientRect();  // a label is as wide as its form, its words are not
    if (!box.width || !box.height || style.visibility === 'hidden' || style.opacity === '0' || !node.checkVisibility()) continue;
    const frame = scrolls(node);
    if (!frame && (box.left < -1 || box.right > wide + 1)) wrong.push('out of the screen: ' + node.outerHTML.slice(0, 80));
    if (frame) { const port = frame.getBoundingClientRect(); if (box.bottom <= port.top + 1 || box.top >= port.bottom - 1 || box.right <= port.left + 1 || box.left >= port.right - 1) continue; }
    if (node.matches('button, label, summary') && !frame && node.scrollWidth > node.clientWidth + 2 && style.overflowX === 'hidden') wrong.push('cut: ' + node.outerHTML.slice(0, 80));
    boxes.push([node, box, frame]);
  }
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [a, x, f] = boxes[i], [b, y, g] = boxes[j];
    if (f !== g || a.contains(b) || b.contains(a)) continue;
    const wideness = Math.min(x.right, y.right) - Math.max(x.left, y.left), height = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
    if (wideness > 2 && height > 2) wrong.push('over each other: ' + a.outerHTML.slice(0, 80) + ' | ' + b.outerHTML.slice(0, 80));
  }
  const panel = [...root.querySelectorAll('.ti-grid, .ti-panel')].find((node) => !node.hidden && node.checkVisibility());
  if (!panel || panel.innerText.trim().length < 8 || panel.getBoundingClientRect().height < 100) wrong.push('the panel is empty');
  return wrong;
}"""


def ready(bench: Any) -> None:
    """Wait until the tab that was opened shows what it asked for."""
    bench.settle()
    bench.page.wait_for_function("() => !document.querySelector('.ti-panel:not([hidden]) [aria-busy=true], .ti-panel:not([hidden]) .ti-working:not([hidden])')", timeout=180_000)  # fmt: skip


def dark(bench: Any, on: bool) -> None:
    if bench.page.evaluate("() => document.body.classList.contains('dark')") != on:
        bench.page.click('[data-act="dark"]')


def test_no_tab_and_no_dialog_has_a_serious_fault_in_light_or_dark(bench: Inspector) -> None:
    add_axe(bench.page)
    wrong = []
    for on, views in ((False, ALL), (True, SAMPLE)):
        dark(bench, on)
        for view in views:
            bench.open(view)
            bench.settle()
            wrong += [f"{view}, {'dark' if on else 'light'}: {line}" for line in faults(bench.page)]
        bench.page.click('[data-act="examples"]')
        wrong += [f"examples: {line}" for line in faults(bench.page)]
        bench.page.keyboard.press("Escape")
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
def test_no_example_in_any_tab_has_a_serious_fault_in_light_or_dark(bench: Inspector) -> None:
    add_axe(bench.page)
    wrong = []
    for on in (False, True):
        dark(bench, on)
        for name in ["forged_turn", "tool_pair_cut", "arguments_doubled"]:
            bench.page.click('[data-act="examples"]')
            bench.page.click(f'[data-example="{name}"]')
            bench.settle()
            for view in ALL:
                bench.open(view)
                bench.settle()
                wrong += [f"{name}, {view}, {'dark' if on else 'light'}: {line}" for line in faults(bench.page)]
    assert not wrong, "\n".join(wrong)


def test_every_tab_fits_the_screen_and_nothing_overlaps(bench: Inspector) -> None:
    wrong = []
    for name, size in (("wide", WIDE), ("narrow", NARROW)):
        bench.page.set_viewport_size(size)
        for on in (False, True):
            dark(bench, on)
            for view in ALL:
                bench.open(view)
                ready(bench)
                if not on:
                    wrong += [f"{view}, {name}: {line}" for line in bench.page.evaluate(LOOK)]
                bench.page.screenshot(path=shot(f"tab-{view}-{'dark' if on else 'light'}-{name}"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
@pytest.mark.parametrize("width", [390, 640, 770, 1920, 3840])
def test_every_example_fits_screens_from_a_phone_to_4k(open_page: Any, width: int, language: str) -> None:
    bench = open_page(viewport={"width": width, "height": 844 if width < 700 else width * 9 // 16}, locale=language)
    wrong = []
    for example in EXAMPLES[:: 4 if width != 390 else 1]:
        bench.page.click('[data-act="examples"]')
        assert bench.page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        bench.page.click(f'[data-example="{example.id}"]')
        bench.settle()
        for view in {example.view, "tokens", "plots"}:
            bench.open(view)
            ready(bench)
            wrong += [f"{example.id}, {view}: {line}" for line in bench.page.evaluate(LOOK)]
    assert not wrong, "\n".join(wrong)


def focused(page: Any) -> dict[str, Any]:
    return page.evaluate(
        """() => { const node = document.activeElement, style = getComputedStyle(node);
        return { input: node.dataset.in || node.dataset.combo, act: node.dataset.act, view: node.dataset.view, text: node.textContent.slice(0, 60), cls: String(node.className),
                 ring: node.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1, name: node.getAttribute('aria-label') || (node.labels && node.labels.length ? node.labels[0].textContent : node.textContent) }; }"""
    )


def tab_to(page: Any, wanted: Any, key: str = "Tab") -> dict[str, Any]:
    """Press Tab until what is wanted has the focus; every stop on the way must have a name and a visible ring."""
    for _ in range(80):
        page.keyboard.press(key)
        at = focused(page)
        if "ti" in at["cls"] or at["input"] or at["act"]:
            assert at["ring"] and at["name"].strip(), at
        if wanted(at):
            return at
    raise AssertionError("never reached by Tab")


def test_the_main_job_is_done_by_keyboard_alone(open_page: Any) -> None:
    bench = open_page(permissions=["clipboard-read", "clipboard-write"])
    page = bench.page
    text = messages("Hello, 世界 🦊")
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    tab_to(page, lambda at: at["input"] == "messages")
    page.keyboard.press("Control+A")
    page.keyboard.press("Control+V")
    bench.settle()
    assert page.input_value('[data-in="messages"]') == text
    tab_to(page, lambda at: at["input"] == "tokenizer1")
    page.keyboard.type("byt")
    page.keyboard.press("Enter")
    bench.settle()
    assert page.input_value('[data-in="tokenizer1"]') == "bytes"
    tab_to(page, lambda at: "ti-compare" in at["cls"] and "First difference" in at["text"])
    page.keyboard.press("Enter")
    assert "ti-grid" in focused(page)["cls"] and page.inner_text(".ti-card").strip()
    before = bench.card()
    page.keyboard.press("]")
    page.keyboard.press("ArrowRight")
    assert bench.card() != before
    page.wait_for_function("() => document.querySelector('.ti-say').textContent.includes('token')")
    tab_to(
        page,
        lambda at: "copy" in at["text"].lower() or "difference" in at["text"] or at["name"].strip() == "ids",
        "Shift+Tab",
    )
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        if focused(page)["text"] == "B copy ids":
            break
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.ti-tools .ti-copied').textContent === 'copied'")
    assert json.loads(page.evaluate("() => navigator.clipboard.readText()")) == bench.pane(1)["ids"]
    tab_to(page, lambda at: at["view"] == "tokens", "Shift+Tab")
    page.keyboard.press("ArrowRight")
    assert focused(page)["view"] == "bytes" and page.get_attribute('[data-view="bytes"]', "aria-selected") == "true"


def test_paper_shows_all_lines_in_light_and_the_screen_comes_back(open_page: Any) -> None:
    bench = open_page(reduced_motion="reduce")
    page = bench.page
    dark(bench, True)
    bench.type_in("messages", messages("\n".join(f"line {k} of a long text" for k in range(120))))
    drawn = page.locator(".ti-grid .ti-line").count()
    assert page.evaluate("() => document.getAnimations().length") == 0
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.screenshot(path=shot("print"), full_page=True)
    shown = page.inner_text("body")
    assert page.locator(".ti-grid .ti-line").count() >= 120 > drawn
    assert "line·0·of" in shown and "line·119·of" in shown and "tokens" in shown
    assert not page.is_visible('[data-in="messages"]') and not page.is_visible('[data-act="share"]')
    assert not page.evaluate("() => document.body.classList.contains('dark')")
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.locator(".ti-grid .ti-line").count() <= drawn + 5 and page.is_visible('[data-in="messages"]')
    assert page.evaluate("() => document.body.classList.contains('dark')")


def test_bars_are_one_tab_stop_each_a_link_skips_them_and_letters_can_be_switched_off(open_page: Any) -> None:
    bench = open_page()
    page = bench.page
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert focused(page)["act"] == "skip"
    stops = 1
    while "ti-grid" not in focused(page)["cls"]:
        page.keyboard.press("Tab")
        stops += 1
    assert stops <= 45, stops
    page.locator('[data-act="skip"]').focus()
    page.keyboard.press("Enter")
    assert "ti-grid" in focused(page)["cls"]
    page.keyboard.press("n")
    assert bench.card().startswith("A")
    page.focus('[data-act="examples"]')
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert focused(page)["act"] == "reset" and focused(page)["ring"]
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.locator(".ti-help").is_visible() and "next and previous difference" in page.inner_text(".ti-help")
    page.screenshot(path=shot("help"))
    page.locator(".ti-letters").uncheck()
    page.keyboard.press("Escape")
    page.focus(".ti-grid")
    page.keyboard.press("Escape")
    for key in ("n", "g"):
        page.keyboard.press(key)
        assert "#" not in bench.card(), "letters do nothing any more"
    page.keyboard.press("ArrowRight")
    assert "#0" in bench.card()
    page.reload()
    bench.settle()
    shown = bench.card()
    page.focus(".ti-grid")
    page.keyboard.press("p")
    assert page.evaluate("() => document.querySelector('#bench .ti').parentNode.bench.lettersOff") and bench.card() == shown  # fmt: skip
    page.set_viewport_size(NARROW)
    page.wait_for_function("() => document.querySelector('.ti-tabs').classList.contains('ti-moreright')")
    grid = page.locator(".ti-grid .ti-line").first.bounding_box()
    assert grid["y"] < 620, "tokens stand above the fold on a phone"


def test_a_choice_is_found_by_typing_words_of_it(bench: Inspector) -> None:
    page, box = bench.page, bench.page.get_by_role("combobox", name="A Template", exact=True)
    before = page.input_value('[data-in="template0"]')
    box.click()
    assert page.locator(".ti-combolist [role=option]").count() > 50 and page.locator(".ti-combolist [aria-selected=true]").inner_text() == before  # fmt: skip
    box.fill("QWEN 0.6")
    options = page.locator(".ti-combolist [role=option]").all_inner_texts()
    assert options and all("qwen" in text.lower() and "0.6" in text for text in options), options
    assert box.get_attribute("aria-activedescendant") and box.get_attribute("aria-expanded") == "true"
    page.screenshot(path=shot("combobox"))
    page.keyboard.press("Escape")
    assert page.input_value('[data-in="template0"]') == before == box.input_value()
    box.fill("qwen 0.6")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    bench.settle()
    assert page.input_value('[data-in="template0"]') == box.input_value() == options[0] != before
    page.keyboard.press("Control+z")
    bench.settle()
    assert page.input_value('[data-in="template0"]') == box.input_value() == before, "an undo of the page"
    box.fill("nothing such")
    assert page.locator(".ti-combolist [role=option]").count() == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert box.input_value() == before and page.locator(".ti-combolist").count() == 0
