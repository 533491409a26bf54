"""More panes than two, and answers that come when they come, in a real Chromium."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from page import ANSWER_MS, NARROW, Inspector, messages, shot

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
SERVER = re.compile("component_server")
SLOW_TEMPLATE = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def templates(bench: Inspector) -> list[str]:
    return bench.page.eval_on_selector_all(
        ".ti-head [data-in^=template]:is(select)", "nodes => nodes.map(n => n.value)"
    )


def act(bench: Inspector, name: str, pane: int) -> None:
    bench.page.click(f'.ti-head{pane} [data-act="pane_{name}"]')
    bench.settle()


def test_panes_are_added_compared_with_the_first_swapped_removed_and_kept(open_page: Any) -> None:
    bench = open_page()
    bench.type_in("messages", messages("one\ntwo <|im_end|>\nthree"))
    bench.page.click('[data-act="add_pane"]')
    bench.settle()
    bench.choose("template2", "chatml")
    bench.choose("tokenizer2", "qwen3")
    assert [len(bench.pane(q)["ids"]) > 5 for q in range(3)] == [True] * 3
    lines = bench.page.locator(".ti-compare").all_inner_texts()
    assert len(lines) == 2 and lines[0].startswith("B · ") and lines[1].startswith("C · First difference: byte ")
    cell = bench.page.locator('.ti-space [data-q="2"]', has_text="two").first
    cell.click()
    assert bench.page.locator(".ti-col2 .ti-on").count() == 1, bench.card()
    assert bench.page.locator(".ti-col0 .ti-lk").count() >= 1 and bench.page.locator(".ti-col1 .ti-lk").count() >= 1
    assert all(f"{name} #" in bench.card() for name in "ABC")
    bench.page.keyboard.press("]")
    assert bench.page.evaluate(f"() => {BENCH}.selected[0]") == 0, "after the last pane comes the first"
    bench.page.screenshot(path=shot("panes-three"))
    first, second, third = templates(bench)
    server = (
        f"q => {{ const {{ reason, difference }} = {BENCH}.slots[q]; return [difference, reason && reason.first]; }}"
    )
    for q in (1, 2):
        shown, said = bench.page.evaluate(server, q)
        assert shown == said and said["reason"] and "one control token" not in said["reason"], "one place, one reason"
    legend = bench.page.inner_text(".ti-legend")
    assert "text differs from A" in legend and "(B)" not in legend
    act(bench, "swap", 2)
    assert templates(bench) == [first, third, second]
    lines = bench.page.locator(".ti-compare").all_inner_texts()
    assert [line.count(" · ") > 3 for line in lines] == [True, True] and "…" not in "".join(lines), lines
    assert bench.page.evaluate(f"() => {BENCH}.state.panes[1].tokenizer.id") == "qwen3"
    act(bench, "duplicate", 0)
    assert templates(bench) == [first, first, third, second] and bench.pane(0) == bench.pane(1)
    assert bench.page.locator(".ti-compare").first.inner_text() == "B · A and B: the same bytes and the same ids"
    assert bench.page.evaluate("() => document.activeElement.closest('.ti-head').className").endswith("ti-head1")
    bench.page.reload()
    bench.settle()
    assert templates(bench) == [first, first, third, second] and "two" in bench.pane(3)["text"]
    act(bench, "remove", 0)
    act(bench, "remove", 2)
    assert templates(bench) == [first, third]
    assert bench.page.locator('[data-act="pane_remove"]').count() == 0, "two panes are the fewest"
    assert bench.page.inner_text(".ti-compare").count(" · ") > 2, "asked again for the pair that is left"
    assert bench.page.locator(".ti-compare").count() == 1 and len(bench.pane(0)["ids"]) != len(bench.pane(1)["ids"])
    bench.page.evaluate(
        f"() => {{ const b = {BENCH}, own = b.server; b.again = () => {{ b.server = own; b.changed(); }}; b.server = new Proxy(own, {{ get: (of, name) => (name === 'comparison' ? async () => '{{\"comparison\": null}}' : of[name]) }}); }}"
    )
    bench.type_in("messages", messages("two"))
    assert bench.page.inner_text(".ti-compare").count(" · ") == 2, "a comparison that failed leaves the place alone"
    bench.page.evaluate(f"() => {BENCH}.again()")
    bench.settle()
    assert bench.page.inner_text(".ti-compare").count(" · ") > 2, "and is asked for again"
    for _ in range(5):
        bench.page.click('[data-act="add_pane"]')
    bench.settle()
    assert len(templates(bench)) == 6, "six are the most"
    bench.open("record")
    bench.page.wait_for_function(f"() => {BENCH}.state.records.filter(text => text.startsWith('{{')).length === 6", timeout=ANSWER_MS)  # fmt: skip
    bench.open("tokens")
    bench.page.set_viewport_size(NARROW)
    bench.page.wait_for_function("() => document.querySelector('.ti').classList.contains('narrow')")
    letters = [text[0] for text in bench.page.locator(".ti-gut").all_inner_texts()]
    assert letters[:6] == list("ABCDEF"), "on a phone the panes' lines follow each other"
    assert bench.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    bench.page.screenshot(path=shot("panes-six-narrow"), full_page=True)


def test_a_pane_has_its_own_arguments_profile_and_engine_when_its_head_says_so(open_page: Any) -> None:
    bench = open_page()
    for pane in "01":
        bench.choose(f"tokenizer{pane}", "bytes")
    bench.paste_template(0, "{{ word }}")
    bench.paste_template(1, "{{ word }}")
    bench.type_in("arguments", '{"word": "shared"}')
    assert bench.pane(0)["text"] == bench.pane(1)["text"] == "shared"
    bench.page.evaluate(
        f"() => {{ const head = {BENCH}.heads[1], read = head.read.bind(head); head.read = () => ({{...read(), arguments: '{{\"word\": \"own\"}}', engine: 'minijinja'}}); {BENCH}.changed(); }}"
    )
    bench.settle()
    assert bench.pane(0)["text"] == "shared" and bench.pane(1)["text"] == "own"


def test_a_slow_pane_does_not_hold_up_the_other(open_page: Any) -> None:
    bench = open_page()
    bench.edit_template(0)
    began = time.monotonic()
    bench.page.fill('[data-in="template_source0"]', SLOW_TEMPLATE)
    bench.page.fill('[data-in="messages"]', messages("meanwhile"))
    bench.page.wait_for_function(f"() => {{ const p = {BENCH}.state.panes[1]; return p.text(0, p.bytes.length).includes('meanwhile'); }}", timeout=ANSWER_MS)  # fmt: skip
    assert bench.page.evaluate(f"() => {BENCH}.slots[0].inFlight"), "the slow pane is still awaited"
    assert time.monotonic() - began < 20
    assert bench.page.locator("#bench .ti.stale0:not(.stale1)").count() == 1
    bench.page.click('[data-act="cancel"]')
    assert bench.page.locator(".ti-compare").inner_text() == "", "nothing is claimed about a pane that was given up"
    bench.choose("tokenizer1", "qwen3")
    assert bench.page.evaluate(f"() => {BENCH}.state.panes[1].tokenizer.id") == "qwen3"
    assert bench.page.locator(".ti-compare").inner_text() == ""
    bench.page.fill('[data-in="template_source0"]', "quick again")
    bench.settle()
    assert bench.pane(0)["text"] == "quick again" and "First difference" in bench.page.inner_text(".ti-compare")


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(open_page: Any) -> None:
    bench = open_page()
    held: list[Any] = []

    bench.page.route(SERVER, lambda route: held.append(route))
    bench.page.fill('[data-in="messages"]', messages("older"))
    bench.page.wait_for_function(f"() => {BENCH}.slots.every(slot => slot.inFlight)")
    bench.page.wait_for_timeout(200)
    bench.page.unroute(SERVER)
    bench.type_in("messages", messages("newer"))
    assert "newer" in bench.pane(0)["text"] and "newer" in bench.pane(1)["text"] and len(held) == 2
    with bench.page.expect_response(SERVER), bench.page.expect_response(SERVER):
        for route in held:
            route.continue_()
    bench.page.wait_for_timeout(300)
    assert "newer" in bench.pane(0)["text"] and "newer" in bench.pane(1)["text"]
    bench.type_in("messages", messages("newest"))
    assert "newest" in bench.pane(0)["text"] and bench.page.locator("#bench .ti.stale0, #bench .ti.stale1").count() == 0


def test_a_key_is_answered_with_what_changed_and_a_lost_child_with_everything(open_page: Any) -> None:
    bench = open_page()
    long = "\n".join(f"line {k} of a text" for k in range(600))
    bench.type_in("messages", messages(long, "end"))
    bench.page.evaluate(
        f"() => {{ window.sizes = []; const b = {BENCH}, view = b.server.view; b.server.view = async (request) => {{ const text = await view(request); sizes.push(text.length); return text; }}; }}"
    )
    bench.type_in("messages", messages(long, "ends"))
    assert max(bench.page.evaluate("() => sizes")) < 3000
    assert bench.pane(0)["text"].count("line ") == 600 and "ends" in bench.pane(0)["text"]
    bench.page.evaluate(f"() => {{ sizes.length = 0; for (const slot of {BENCH}.slots) slot.key = slot.key + 'x'; }}")
    bench.type_in("messages", messages(long, "ends again"))
    assert min(bench.page.evaluate("() => sizes")) > 3000, "another child does not know what the page holds"
    assert bench.pane(1)["text"].count("line ") == 600 and "ends again" in bench.pane(1)["text"]


def test_undo_and_the_browsers_back_take_pane_work_and_a_whole_example_back(open_page: Any) -> None:
    bench = open_page()
    page = bench.page

    def choices() -> list[list[str]]:
        kinds = ("tokenizer", "template")
        return [page.eval_on_selector_all(f".ti-head [data-in^={kind}]:is(select)", "nodes => nodes.map(n => n.value)") for kind in kinds]  # fmt: skip

    def press(key: str) -> None:
        page.keyboard.press(key)
        bench.settle()

    bench.type_in("messages", messages("mine"))
    page.focus(".ti-grid")
    states = [choices()]
    for step in (
        lambda: bench.choose("tokenizer1", "qwen3"),
        lambda: act(bench, "duplicate", 1),
        lambda: act(bench, "swap", 1),
        lambda: bench.choose("template2", "chatml"),
        lambda: act(bench, "remove", 0),
    ):
        step()
        states.append(choices())
    ids = [bench.pane(q)["ids"] for q in range(2)]
    assert len({str(state) for state in states}) == 6
    for state in reversed(states[:-1]):
        press("Control+z")
        assert choices() == state and page.evaluate("() => document.activeElement.closest('#bench .ti') !== null")
    assert page.input_value('[data-in="messages"]') == messages("mine")
    for state in states[1:]:
        press("Control+Shift+z")
        assert choices() == state
    assert [bench.pane(q)["ids"] for q in range(2)] == ids and "mine" in bench.pane(0)["text"]
    for state in reversed(states[:-1]):
        page.go_back()
        bench.settle()
        assert choices() == state
    page.go_forward()
    bench.settle()
    assert choices() == states[1] and page.input_value('[data-in="messages"]') == messages("mine")
    page.click('[data-act="examples"]')
    page.click('[data-example="forged_turn"]')
    bench.settle()
    opened = (choices(), page.input_value('[data-in="messages"]'))
    page.focus('[data-in="messages"]')
    press("Control+z")
    assert (choices(), page.input_value('[data-in="messages"]')) == (states[1], messages("mine")), "in one step"
    assert page.locator(".ti-notice").is_hidden()
    page.click('[data-field="messages"] [data-wt="redo"]')
    bench.settle()
    assert (choices(), page.input_value('[data-in="messages"]')) == opened and page.locator(".ti-notice").is_visible()
