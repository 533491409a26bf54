"""The Differences tab and the only-differences mode in a real Chromium: reasons, places, states, keys, hostile text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from page import ANSWER_MS, HOSTILE, NARROW, WIDE, Inspector, messages, shot

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
SAY = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    opened = Inspector(browser, address, permissions=["clipboard-read", "clipboard-write"])
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def told(bench: Inspector, text: str) -> None:
    """Wait until the tab says a text of the present input."""
    try:
        bench.page.wait_for_function("t => { const n = document.querySelector('.ti-diffview'); return n && !n.classList.contains('ti-olddiff') && n.textContent.includes(t); }", arg=text, timeout=ANSWER_MS)  # fmt: skip
    except Exception as error:
        raise AssertionError(f"{text!r} is not in: {bench.page.inner_text('.ti-panel')[:400]}") from error


def paste(bench: Inspector, *templates: str) -> None:
    for pane, text in enumerate(templates):
        bench.edit_template(pane)
        bench.type_in(f"template_source{pane}", text)
    bench.page.click(".ti-editswitch")


def copied(bench: Inspector, button: str) -> str:
    bench.page.click(f'.ti-tools button:has-text("{button}")')
    bench.page.wait_for_function("() => document.querySelector('.ti-copied').textContent === 'copied'")
    return bench.page.evaluate("() => navigator.clipboard.readText()")


def test_two_revisions_list_their_reasons_and_a_region_is_gone_to_and_back(bench: Inspector) -> None:
    bench.open("diff")
    told(bench, "differ in")
    hunk = bench.page.locator(".ti-hunk").first
    said = hunk.inner_text()
    assert "template line" in said and "tokens" in said, said
    assert bench.page.locator(".ti-deltas tr").all_inner_texts()[-1].startswith("B − A")
    changed = hunk.locator("del, ins").first.inner_text()
    assert changed in bench.pane(0)["text"] or changed in bench.pane(1)["text"]
    bench.page.screenshot(path=shot("diff_light"))
    hunk.locator(".ti-hunkgo").focus()
    bench.page.keyboard.press("Enter")
    assert bench.page.get_attribute('[data-view="tokens"]', "aria-selected") == "true"
    assert bench.page.locator(".ti-space .ti-on").count() >= 1
    bench.page.keyboard.press("Escape")
    assert bench.page.get_attribute('[data-view="diff"]', "aria-selected") == "true"
    assert bench.page.evaluate("() => document.activeElement.closest('.ti-hunk').dataset.hunk") == "0"


def test_reasons_filter_steps_by_key_copies_and_hostile_text(bench: Inspector) -> None:
    bench.type_in("messages", messages("one\ntwo", "three", *HOSTILE))
    paste(bench, SAY, SAY.replace("m.role", "m.role | upper").replace("<|im_end|>\n", "<|im_end|>") + "{{ tools }}")
    bench.open("diff")
    told(bench, "role name")
    shown = bench.page.locator(".ti-why").all_inner_texts()
    total = int(shown[0].split()[-1])
    assert total == sum(int(text.split()[-1]) for text in shown[1:]) == bench.page.locator(".ti-hunk").count() > 8
    bench.page.click('.ti-why:has-text("role name")')
    of_role = bench.page.locator(".ti-hunk").count()
    assert 0 < of_role < total and bench.page.get_attribute('.ti-why:has-text("role name")', "aria-pressed") == "true"
    record = json.loads(copied(bench, "Copy as JSON"))
    assert len(record["hunks"]) == of_role and {row["code"] for row in record["hunks"]} == {"role_name"}
    text = copied(bench, "Copy as text")
    assert text.count("role name: ") == of_role and "messages[0].role" in text
    bench.page.focus(".ti-panel")
    for key, at in (("n", 0), ("n", 1), ("p", 0)):
        bench.page.keyboard.press(key)
        here = bench.page.evaluate("() => [...document.querySelectorAll('.ti-hunk')].indexOf(document.activeElement.closest('.ti-hunk'))")  # fmt: skip
        assert here == at
    bench.page.click(".ti-why >> nth=0")
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(NARROW)
    told(bench, "A 写了 'user'(messages[0].role,模板第 1 行),B 写了 'USER'")
    bench.page.screenshot(path=shot("diff_narrow_dark_zh"))
    assert bench.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.ti-panel').scrollWidth <= document.querySelector('.ti-panel').clientWidth + 1")  # fmt: skip
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(WIDE)
    quoted = json.dumps([{"role": text, "content": text} for text in HOSTILE])
    bench.type_in("messages", quoted)
    told(bench, "onerror")
    assert bench.page.evaluate("() => window.pwned === undefined")
    assert bench.page.locator("#bench script, #bench .ti-panel img, #bench .ti-panel svg").count() == 0


def test_equal_other_ids_failed_and_more_than_are_listed_are_said(bench: Inspector) -> None:
    bench.type_in("messages", messages("When is high tide? 潮 🧮"))
    paste(bench, SAY, SAY)
    bench.open("diff")
    told(bench, "no byte and no id differs")
    assert bench.page.locator(".ti-hunk").count() == 0
    bench.choose("tokenizer1", "minilm")
    told(bench, "the same text, byte for byte")
    hunk = bench.page.locator(".ti-hunk").first
    assert "same text, other ids" in hunk.inner_text() and hunk.locator("del, ins").count() == 0
    chips = [hunk.locator(f".ti-hunkside >> nth={n}").locator(".ti-seqtok").all_inner_texts() for n in range(2)]
    assert chips[0] != chips[1] and all(chips)
    bench.page.screenshot(path=shot("diff_same_text"))
    bench.choose("tokenizer1", bench.page.input_value('[data-in="tokenizer0"]'))
    bench.edit_template(1)
    bench.type_in("template_source1", "{{ raise_exception('no tides') }}")
    bench.open("diff")
    bench.page.wait_for_function("() => { const n = document.querySelector('.ti-diffview > .ti-err'); return n && !n.hidden && n.textContent.includes('No comparison: B'); }", timeout=ANSWER_MS)  # fmt: skip
    paste(bench, SAY, SAY.replace("<|im_end|>", "!<|im_end|>"))
    bench.type_in("messages", messages(*(f"tide {n}" for n in range(260))))
    bench.open("diff")
    told(bench, "60 of the 260 places")
    assert bench.page.locator(".ti-hunk").count() == 200


def test_only_differences_folds_rows_alike_and_opens_where_one_goes(bench: Inspector) -> None:
    text = "\n".join(f"tide {n}" for n in range(60))
    bench.type_in("messages", messages(text, "end"))
    paste(bench, SAY, SAY.replace("m.content", "m.content | replace('tide 30', 'ebb 30')"))
    bench.open("tokens")
    bench.page.click("label:has-text('only differences')")
    folds = bench.page.locator(".ti-unfold")
    assert [node.split()[1:] for node in folds.all_inner_texts()] == [["30", "rows", "alike"], ["30", "rows", "alike"]]
    assert bench.page.locator(".ti-line").count() < 12
    assert bench.page.evaluate(f"() => {BENCH}.capture().switches.folded") is True
    bench.page.screenshot(path=shot("diff_only"))
    folds.first.focus()
    bench.page.keyboard.press("Enter")
    assert folds.count() == 1 and bench.page.evaluate("() => document.activeElement.classList.contains('ti-grid')")
    bench.page.evaluate(f"() => {{ const b = {BENCH}; b.select(0, b.state.panes[0].n - 3, true); }}")
    assert folds.count() == 0 and bench.page.locator(".ti-space .ti-on").count() == 1
    bench.page.click("label:has-text('only differences')")
    assert folds.count() == 0


def test_any_two_panes_are_compared_under_their_own_names(bench: Inspector) -> None:
    bench.type_in("messages", messages("tide"))
    paste(bench, SAY, SAY.replace("m.content", "m.content | upper"))
    bench.page.click('[data-act="add_pane"]')
    bench.settle()
    bench.edit_template(2)
    bench.type_in("template_source2", SAY.replace("<|im_end|>", "!<|im_end|>"))
    bench.open("diff")
    told(bench, "A and B differ in one place.")
    bench.page.locator(".ti-diffpane").nth(0).select_option("2")
    told(bench, "C and B differ in one place.")
    said = bench.page.locator(".ti-hunks").inner_text()
    assert "C writes 'tide!'" in said and "B writes 'TIDE'" in said, said
    assert bench.page.locator(".ti-hunkside b").all_inner_texts() == ["C", "B"]
    bench.page.locator(".ti-hunk").first.click()
    assert bench.page.evaluate(f"() => {BENCH}.selected[0]") == 2
    bench.page.keyboard.press("Escape")
    bench.page.click('.ti-head2 [data-act="pane_remove"]')
    bench.settle()
    told(bench, "A and B differ in one place.")
