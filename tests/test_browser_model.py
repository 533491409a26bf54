"""What a model says, on the page: the verdict, the sampler, walks, what-ifs, heat, by keyboard and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe import add_axe, faults
from page import HOSTILE, NARROW, WIDE, Inspector, messages, shot

pytestmark = pytest.mark.browser
MODEL_MS = 180_000  # the first question loads the model


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    """Two panes of the model's own tokenizer, with two templates, on the Logits tab."""
    opened = Inspector(browser, address)
    for pane, template in ((0, ""), (1, "chatml")):
        opened.choose(f"tokenizer{pane}", "smollm2")
        opened.choose(f"template{pane}", template)
    opened.type_in("messages", messages("What is the capital of France?"))
    opened.open("logits")
    opened.page.wait_for_selector(".ti-logits", timeout=MODEL_MS)
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def wait(bench: Any, condition: str) -> None:
    bench.page.wait_for_function(f"() => {condition}", timeout=MODEL_MS)


def unfold(bench: Any, part: str) -> Any:
    box = bench.page.locator(f".ti-part-{part}")
    if not box.evaluate("n => n.open"):
        box.locator("summary").first.press("Enter")
    return box


def test_the_verdict_ranks_both_sides_pins_the_ends_and_tells_the_time(bench: Any) -> None:
    page = bench.page
    rows = page.locator(".ti-logits tr")
    assert "The" in rows.nth(1).inner_text() and "15.22 %" in rows.nth(1).inner_text()
    assert "KL(A‖B)" in page.inner_text(".ti-distance") and "nats" in page.inner_text(".ti-distance")
    watched = page.locator(".ti-logits tr", has=page.locator(".ti-pin")).first.inner_text()
    assert "<|im_end|>" in watched and "end" in watched
    side = page.inner_text(".ti-sideline >> nth=0")
    assert "float32" in side and "template" in side and "tokenization" in side
    assert "prefill" in side or "37 of them kept from before" in side  # another test may have read the same prompt
    page.fill('[data-in="logits_watch"]', HOSTILE[0])
    page.press('[data-in="logits_watch"]', "Enter")
    wait(bench, "[...document.querySelectorAll('.ti-pin')].some(n => n.textContent === 'yours')")
    assert page.evaluate("() => window.pwned === undefined") and page.locator(".ti-panel img").count() == 0
    page.screenshot(path=shot("verdict"))


def test_the_sampler_cuts_what_its_sliders_say(bench: Any) -> None:
    box = unfold(bench, "sampler")
    box.locator(".ti-sampled").wait_for(timeout=MODEL_MS)
    bench.page.fill('[data-in="sampler_top_k_number"]', "3")
    wait(bench, "document.querySelectorAll('.ti-sampled .ti-cutaway').length >= 17")
    assert "top-k 3 cuts" in box.inner_text() and "3 are left" in box.inner_text()
    assert bench.page.input_value('[data-in="sampler_top_k"]') == "3"
    box.get_by_text("All off").click()
    wait(bench, "document.querySelectorAll('.ti-sampled .ti-cutaway').length === 0")


def test_a_walk_reaches_its_end_branches_and_takes_a_typed_text(bench: Any) -> None:
    box = unfold(bench, "walk")
    box.get_by_text("Go on greedily").click()
    wait(bench, "document.querySelector('.ti-part-walk').textContent.includes('An engine stops here: an end token')")
    words = box.locator(".ti-walktok").all_inner_texts()
    assert "".join(words).replace("·", " ") == "The capital of France is Paris.<|im_end|>"
    assert box.locator(".ti-walkcontrol").count() == 1
    box.locator(".ti-walktok").first.press("Enter")
    box.locator(".ti-candidates .ti-btn").nth(1).click()
    wait(bench, "document.querySelectorAll('.ti-walktok').length === 1 && document.querySelector('.ti-branches')")
    bench.page.fill('[data-in="walk_text"]', " Eiffel")
    bench.page.press('[data-in="walk_text"]', "Enter")
    wait(
        bench,
        "document.querySelector('.ti-walked').textContent.includes('Eiffel') || document.querySelectorAll('.ti-walktok').length > 1",
    )
    box.locator(".ti-branches .ti-link").last.click()
    assert "Paris" in box.locator(".ti-walked").inner_text()
    given = bench.page.input_value('[data-in="messages"]')
    bench.page.fill('[data-in="messages"]', given.replace("France", "Spain"))
    bench.settle()
    box.locator(".ti-oldwalk").wait_for()
    assert "The prompt has changed since" in box.inner_text()
    bench.page.fill('[data-in="walk_text"]', " Madrid")
    bench.page.press('[data-in="walk_text"]', "Enter")
    wait(bench, "document.querySelectorAll('.ti-walktok').length > 0 && !document.querySelector('.ti-oldwalk')")
    assert "Paris" not in box.locator(".ti-walked").inner_text()
    bench.page.fill('[data-in="messages"]', given)
    bench.settle()


def test_what_ifs_are_rows_and_those_that_do_not_apply_say_why(bench: Any) -> None:
    box = unfold(bench, "whatif")
    box.locator(".ti-notes").wait_for(timeout=MODEL_MS)
    wait(bench, "!document.querySelector('.ti-part-whatif .ti-logbar')")
    cases = dict(row.split("\t", 1) for row in box.locator(".ti-whatif tr").all_inner_texts())
    assert "⚠" in cases["without generation prompt"] and "⚠" in cases["padded right, read last"]
    assert "⚠" not in cases["padded left, as it should be"] and "in bfloat16" in cases
    box.locator(".ti-notes summary").click()
    assert "reads no argument" in box.inner_text()


def test_heat_is_a_table_and_a_colour_with_a_second_cue(bench: Any) -> None:
    page = bench.page
    box = unfold(bench, "heat")
    wait(bench, "document.querySelectorAll('.ti-heattable').length === 2")
    assert "messages[0].content" in box.inner_text() and "loss 4.32" in box.inner_text()
    box.get_by_text("Colour the tokens by surprise").click()
    worst = page.locator(".ti-tok.ti-su6").first
    assert worst.evaluate("n => getComputedStyle(n).borderBottomWidth") == "4px"
    worst.click()
    assert "nats" in bench.card() and "to the model" in bench.card()
    page.screenshot(path=shot("surprise"))
    bench.type_in("messages", messages("Name the capital of France"))
    assert page.locator(".ti-tok.ti-su6").count() == 0
    page.locator(".ti-askheat").click()
    page.locator(".ti-tok.ti-su6").first.wait_for(timeout=MODEL_MS)
    assert "earlier input" in page.evaluate("() => { const b = document.querySelector('#bench .ti').parentNode.bench; b.view = 'logits'; b.draw(true); return document.querySelector('.ti-model > .ti-logbar').textContent; }")  # fmt: skip


def test_no_part_of_the_tab_has_a_serious_fault_in_light_or_dark(bench: Any) -> None:
    page = bench.page
    bench.open("logits")
    for part in ("sampler", "walk", "whatif", "heat"):
        unfold(bench, part)
    page.get_by_text("Compute next-token logits").click()
    wait(bench, "!document.querySelector('.ti-panel [aria-busy=true]') && document.querySelector('.ti-sampled') && document.querySelectorAll('.ti-heattable').length === 2")  # fmt: skip
    add_axe(page)
    for theme in ("light", "dark"):
        assert faults(page) == [], theme
        page.click('[data-act="dark"]')


def test_it_fits_a_phone_in_the_dark_and_in_chinese(bench: Any) -> None:
    page = bench.page
    bench.open("logits")
    for act in ("language", "dark"):
        page.click(f'[data-act="{act}"]')
    page.set_viewport_size(NARROW)
    page.wait_for_function("() => document.querySelector('.ti-panel').textContent.includes('采样器')")
    page.screenshot(path=shot("verdict_narrow_dark_zh"))
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.ti-panel').scrollWidth <= document.querySelector('.ti-panel').clientWidth + 1")  # fmt: skip
    raw = page.evaluate("() => [...document.querySelectorAll('.ti-panel .ti-key, .ti-panel button, .ti-panel th, .ti-panel summary, .ti-panel p')].map(n => n.textContent.trim()).filter(t => /^[a-z]+(_[a-z0-9]+)+$/.test(t))")  # fmt: skip
    assert raw == []
    for act in ("language", "dark"):
        page.click(f'[data-act="{act}"]')
    page.set_viewport_size(WIDE)
