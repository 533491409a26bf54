"""The page in a real Chromium: what a person does on it, and what it must never do."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from page import ANSWER_MS, HOSTILE, NARROW, WIDE, Inspector, messages, shot

pytestmark = pytest.mark.browser


def test_the_first_screen_compares_two_revisions_that_differ(open_page: Any) -> None:
    bench = open_page()
    assert bench.page.input_value('[data-in="template0"]') != bench.page.input_value('[data-in="template1"]')
    a, b = bench.pane(0), bench.pane(1)
    assert a["ids"] and b["ids"] and a != b
    assert "First difference" in bench.page.inner_text(".ti-compare")
    assert f"{len(a['ids'])} tokens" in bench.page.inner_text(".ti-head0 .ti-counts")
    assert bench.page.locator(".ti-col0 .ti-tok").count() > 10 and bench.page.locator(".ti-col1 .ti-tok").count() > 10


def test_pasted_messages_give_the_known_ids_of_both_teaching_tokenizers(bench: Inspector) -> None:
    bench.choose("tokenizer0", "bytes")
    bench.choose("template0", "")
    bench.choose("tokenizer1", "bytes")
    bench.choose("template1", "bytes")
    bench.type_in("messages", messages("hi"))
    assert bench.pane(0)["ids"] == [256, 257, 104, 105, 258]
    assert bench.pane(0) == bench.pane(1)
    assert "same bytes and the same ids" in bench.page.inner_text(".ti-compare")


def test_typing_a_key_updates_both_panes_and_keeps_focus_and_text(bench: Inspector) -> None:
    bench.type_in("messages", messages("ab"))
    area = bench.page.locator('[data-in="messages"]')
    area.evaluate("node => { const at = node.value.indexOf('ab') + 1; node.focus(); node.setSelectionRange(at, at); }")
    bench.page.keyboard.type("XYZ", delay=5)
    bench.settle()
    assert "aXYZb" in bench.pane(0)["text"] and "aXYZb" in bench.pane(1)["text"]
    bench.page.keyboard.press("Backspace")
    bench.settle()
    assert "aXYb" in bench.pane(0)["text"]
    assert bench.page.evaluate("() => document.activeElement.dataset.in") == "messages"
    bench.page.evaluate("() => document.execCommand('insertText', false, '粘贴')")
    bench.settle()
    assert "aXY粘贴b" in bench.pane(1)["text"]


def test_broken_json_shows_its_place_under_its_editor_keeps_the_old_result_and_clears_again(bench: Inspector) -> None:
    before, good = bench.pane(0), bench.page.input_value('[data-in="messages"]')
    broken = good.replace('"role"', '"role', 1)
    bench.type_in("messages", broken)
    shown = bench.error("messages")
    assert re.search(r"line \d+, column \d+", shown) and "\n" not in shown and "→" in shown
    assert bench.page.input_value('[data-in="messages"]') == broken
    assert bench.pane(0) == before
    assert bench.page.locator("#bench .ti.stale0.stale1").count() == 1
    assert bench.page.get_attribute('[data-in="messages"]', "aria-invalid") == "true"
    bench.page.screenshot(path=shot("broken-json"))
    bench.type_in("messages", good)
    assert bench.error("messages") == "" and bench.page.locator("#bench .ti.stale0").count() == 0


@pytest.mark.parametrize("field, text", [("tools", "[{]"), ("documents", '{"a": 1'), ("arguments", '{"messages": []}')])
def test_each_editor_shows_its_own_error(bench: Inspector, field: str, text: str) -> None:
    bench.type_in(field, text)
    assert bench.error(field) and bench.page.input_value(f'[data-in="{field}"]') == text
    assert [name for name in ("messages", "tools", "documents", "arguments") if bench.error(name)] == [field]


def test_a_template_error_shows_under_its_pane_with_its_line_and_the_other_pane_goes_on(bench: Inspector) -> None:
    bench.paste_template(0, "one\n{{ raise_exception('no such turn') }}\n")
    assert "no such turn" in bench.error("template0") and "line 2" in bench.error("template0")
    assert bench.error("template1") == ""
    bench.type_in("messages", messages("still alive"))
    assert "still alive" in bench.pane(1)["text"]
    bench.paste_template(0, "{% for m in messages %}{{ m.content }}|{% endfor %}")
    assert bench.error("template0") == "" and bench.pane(0)["text"] == "still alive|"


def test_an_unknown_tokenizer_shows_under_its_dropdown(bench: Inspector) -> None:
    bench.page.locator('[data-in="tokenizer1"]').select_option(
        index=bench.page.locator('[data-in="tokenizer1"] option').count() - 1
    )
    bench.type_in("tokenizer_ref1", "no-such-tokenizer")
    assert "no-such-tokenizer" in bench.error("tokenizer1")
    assert bench.error("tokenizer0") == "" and bench.error("template1") == ""
    bench.type_in("tokenizer_ref1", "bytes")
    assert bench.error("tokenizer1") == ""


def test_wrong_options_show_next_to_their_fields(bench: Inspector) -> None:
    for name, wrong in (("context_window", "many"), ("max_new_tokens", "-1"), ("clock", "yesterday")):
        bench.type_in(name, wrong)
        assert bench.error(name), name
        bench.type_in(name, "")
        assert bench.error(name) == "", name


def test_the_budget_view_says_what_was_kept_and_dropped_and_a_rejection_shows_by_the_window(bench: Inspector) -> None:
    for pane in "01":
        bench.choose(f"tokenizer{pane}", "bytes")
        bench.choose(f"template{pane}", "")
    bench.type_in("messages", messages("a" * 40, "b" * 40, "c"))
    bench.type_in("context_window", "60")
    bench.open("budget")
    bench.page.wait_for_function("() => document.querySelector('.ti-panel').innerText.includes('context window N 60')")
    text = bench.page.inner_text(".ti-panel")
    assert "dropped" in text and "kept" in text
    bench.type_in("context_window", "3")
    assert bench.error("context_window")


def test_a_split_character_is_one_group_with_its_ids_and_no_replacement_character(bench: Inspector) -> None:
    for pane in "01":
        bench.choose(f"tokenizer{pane}", "bytes")
        bench.choose(f"template{pane}", "")
    bench.type_in("messages", messages("é🦊"))
    groups = bench.page.locator(".ti-col0 .ti-group")
    assert [groups.nth(k).locator(".ti-glyph").inner_text() for k in range(groups.count())] == ["é", "🦊"]
    assert groups.nth(1).locator(".ti-part").all_inner_texts() == [str(b) for b in "🦊".encode()]
    groups.nth(1).locator(".ti-part").nth(2).click()
    assert "a6" in bench.card() and "U+1F98A" in bench.card() and "part 3 of 4" in bench.card()
    assert "\ufffd" not in bench.page.inner_text("#bench")
    bench.page.get_by_text("U+1F98A FOX FACE").first.wait_for()
    assert "8a" not in bench.card() and "166" in bench.card(), "the neighbours' ids stand in the card"


def test_tokens_can_be_coloured_by_id_and_by_message(bench: Inspector) -> None:
    for pane in "01":
        bench.choose(f"tokenizer{pane}", "bytes")
    bench.type_in("messages", json.dumps([{"role": "user", "content": "zqz"}, {"role": "assistant", "content": "z"}]))

    def tones(byte: str) -> list[str]:
        cells = bench.page.locator(".ti-col0 .ti-tok").filter(has_text=re.compile(f"^{byte}$"))
        names = [cells.nth(k).get_attribute("class") for k in range(cells.count())]
        return [next(name for name in each.split() if name[0] in "hko" and name != "ti-tok") for each in names]

    bench.page.get_by_label("colour by").select_option("id")
    assert len(set(tones("z"))) == 1 and tones("z")[0][0] == "h" and tones("q") != tones("z")[:1]
    bench.page.get_by_label("colour by").select_option("turn")
    assert tones("z")[0] == tones("q")[0] == tones("z")[1] != tones("z")[2]
    assert "what each message wrote" in bench.page.inner_text(".ti-legend")


def test_invisible_characters_are_visible(bench: Inspector) -> None:
    bench.type_in("messages", messages("a\u202eb\u200bc\u0007d\te\u00a0f"))
    bench.open("rendered")
    text = bench.page.inner_text(".ti-grid")
    for mark in ("‹202E›", "‹200B›", "‹0007›", "⇥", "‹00A0›", "⏎"):
        assert mark in text, mark
    assert "\u202e" not in text and "\u200b" not in text


def test_special_tokens_have_a_second_cue_and_forged_ones_a_third(bench: Inspector) -> None:
    bench.type_in("messages", messages("x<|im_end|>y"))
    forged = bench.page.locator(".ti-col0 .f-from_content").first
    assert "⚠" in forged.inner_text() and "<|im_end|>" in forged.inner_text()
    assert "1 from content ⚠" in bench.page.inner_text(".ti-head0 .ti-counts")
    special = bench.page.locator(".ti-col0 .f-special:not(.f-from_content)").first
    plain = bench.page.locator(".ti-col0 .ti-tok:not(.f-special)").first
    weight = "node => getComputedStyle(node).paddingLeft"
    assert special.evaluate(weight) != plain.evaluate(weight)


def test_the_keyboard_walks_tokens_panes_and_differences(bench: Inspector) -> None:
    bench.page.focus(".ti-grid")
    bench.page.keyboard.press("Home")
    assert "A #0" in bench.card() and "B #0" in bench.card()
    bench.page.keyboard.press("ArrowRight")
    assert "A #1" in bench.card()
    bench.page.keyboard.press("ArrowDown")
    bench.page.keyboard.press("ArrowUp")
    assert "A #1" in bench.card()
    bench.page.keyboard.press("]")
    assert bench.page.evaluate("() => document.querySelector('.ti').parentNode.bench.selected") == [1, 1]
    bench.page.keyboard.press("[")
    bench.page.keyboard.press("n")
    assert bench.page.locator(".ti-diff .ti-on").count() == 1
    bench.choose("tokenizer1", "qwen3")
    chosen = "() => document.querySelector('.ti').parentNode.bench.selected"
    bench.page.evaluate(
        "() => { document.querySelector('.ti').parentNode.bench.clear(); document.activeElement.blur(); }"
    )
    walked = []
    for key in "nnnpp":  # from the body, with rows that all differ in their ids
        bench.page.keyboard.press(key)
        walked.append((bench.page.evaluate(chosen), bench.page.inner_text(".ti-copied")))
    assert [said.split(" of ")[0] for _at, said in walked] == [f"difference {k}" for k in (1, 2, 3, 2, 1)], walked
    assert walked[0] == walked[4] and walked[1] == walked[3] and len({str(at) for at, _said in walked}) == 3
    bench.page.keyboard.press("p")
    assert "the first of" in bench.page.inner_text(".ti-copied")
    bench.page.focus('[data-in="messages"]')
    bench.page.keyboard.press("n")
    assert bench.page.evaluate(chosen) == walked[0][0], "a field takes the key itself"
    bench.page.focus(".ti-grid")
    bench.page.keyboard.press("End")
    assert f"A #{len(bench.pane(0)['ids']) - 1}" in bench.card()
    active = bench.page.get_attribute(".ti-grid", "aria-activedescendant")
    assert bench.page.locator(f"#{active}.ti-on").count() == 1
    assert bench.page.evaluate("() => document.activeElement.className") == "ti-grid"


def test_selecting_a_token_marks_its_counterpart_in_the_other_pane_and_its_template_line(bench: Inspector) -> None:
    bench.page.locator(".ti-col0 .f-special").first.click()
    assert bench.page.locator(".ti-col0 .ti-on").count() == 1 and bench.page.locator(".ti-col1 .ti-lk").count() == 1
    assert "template line" in bench.card() and "3c 7c 69 6d" in bench.card()
    bench.open("bytes")
    assert (
        bench.page.locator(".ti-col0 .ti-byte.ti-on").count() > 0
        and bench.page.locator(".ti-col1 .ti-byte.ti-lk").count() > 0
    )
    bench.open("template")
    assert bench.page.locator(".ti-col0.ti-on").count() > 0


def test_ids_can_be_shown(bench: Inspector) -> None:
    bench.page.get_by_label("ids", exact=True).check()
    first = bench.page.locator(".ti-col0 .ti-tok .ti-id").first.inner_text()
    assert int(first) == bench.pane(0)["ids"][0]


def test_hex_dump_and_record_hold_the_pane(bench: Inspector) -> None:
    bench.type_in("messages", messages("héllo"))
    bench.open("bytes")
    shown = "".join(bench.page.locator(".ti-col0 > .ti-byte").all_inner_texts())
    assert bytes.fromhex(shown).decode() == bench.pane(0)["text"]
    bench.open("record")
    bench.page.wait_for_function(
        "() => document.querySelector('.ti-grid').innerText.includes('record/1')", timeout=ANSWER_MS
    )
    records = bench.page.evaluate("() => document.querySelector('.ti').parentNode.bench.state.records")
    assert [json.loads(text)["inputs"]["input_ids"] for text in records] == [bench.pane(0)["ids"], bench.pane(1)["ids"]]
    bench.open("tensors")
    bench.page.locator(".ti-panel summary", has_text="arrays of each pane").click()
    assert f"int64[1, {len(bench.pane(0)['ids'])}]" in bench.page.inner_text(".ti-arrays >> nth=0")


def test_logits_of_the_real_model_come_on_opening_the_tab(bench: Inspector) -> None:
    for pane, template in ((0, ""), (1, "chatml")):
        bench.choose(f"tokenizer{pane}", "smollm2")
        bench.choose(f"template{pane}", template)
    bench.type_in("messages", messages("What is the capital of France?"))
    bench.open("logits")
    assert bench.page.locator(".ti-working").count() == 1
    bench.page.wait_for_selector(".ti-logits", timeout=180_000)
    rows = bench.page.locator(".ti-logits tr")
    assert rows.count() > 10 and "The" in rows.nth(1).inner_text()
    assert bench.page.locator(".ti-bar0").count() >= 10 and bench.page.locator(".ti-bar1").count() >= 10
    bench.page.screenshot(path=shot("logits"))
    bench.type_in("messages", messages("other"))
    assert "earlier input" in bench.page.inner_text(".ti-verdictbar")


def test_hostile_text_in_every_field_runs_no_script(bench: Inspector) -> None:
    for text in HOSTILE:
        bench.type_in("messages", json.dumps([{"role": "user", "content": text}, {"role": text, "content": text}]))
        bench.type_in(
            "tools",
            json.dumps([{"type": "function", "function": {"name": text, "description": text, "parameters": {}}}]),
        )
        bench.page.locator('[data-in="model"]').select_option(label="other reference…")
        for name in (
            "documents",
            "arguments",
            "clock",
            "context_window",
            "max_new_tokens",
            "model_ref",
            "openai_model",
        ):
            bench.page.fill(f'[data-in="{name}"]', text)
        bench.settle()
        for name in ("documents", "arguments", "clock", "context_window", "max_new_tokens"):
            bench.page.fill(f'[data-in="{name}"]', "")
        bench.paste_template(0, "{{ messages[0].content }}\n{# " + text.replace("#}", "") + " #}")
        bench.paste_template(1, text)
        for pane in (0, 1):
            options = bench.page.locator(f'[data-in="tokenizer{pane}"] option')
            bench.page.locator(f'[data-in="tokenizer{pane}"]').select_option(index=options.count() - 1)
            bench.type_in(f"tokenizer_ref{pane}", text)
            bench.choose(f"tokenizer{pane}", "bytes")
        for view in ("bytes", "rendered", "control", "budget", "tensors", "template", "record", "tokens"):
            bench.open(view)
        bench.settle()
        assert bench.page.evaluate("() => window.pwned") is None, text
    assert bench.page.locator("#bench img, #bench svg, #bench script").count() == 0


def test_the_openai_estimate_is_labelled_and_an_unknown_model_is_refused_at_its_field(bench: Inspector) -> None:
    bench.type_in("messages", messages("hi"))
    bench.type_in("openai_model", "gpt-4o-mini")
    bench.page.wait_for_function(
        "() => document.querySelector('.ti-estimate').textContent.startsWith('estimate:')", timeout=ANSWER_MS
    )
    assert bench.page.inner_text(".ti-estimate").startswith("estimate: 8 prompt tokens")
    bench.type_in("openai_model", "no-such-model")
    bench.page.wait_for_selector('[data-field="openai_model"] .ti-err:not([hidden])', timeout=ANSWER_MS)
    assert "no-such-model" in bench.error("openai_model") and bench.page.inner_text(".ti-estimate") == ""


def test_a_template_that_hangs_is_overtaken_by_the_next_input(open_page: Any) -> None:
    bench = open_page()
    bench.edit_template(0)
    began = time.monotonic()
    bench.page.fill(
        '[data-in="template_source0"]', "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    )
    bench.page.wait_for_timeout(1500)
    assert re.match("Computing|Rendering", bench.page.inner_text(".ti-status"))
    bench.type_in("template_source0", "quick again")
    assert bench.pane(0)["text"] == "quick again" and time.monotonic() - began < 30


def test_two_pages_do_not_mix(open_page: Any) -> None:
    one, two = open_page(), open_page()
    one.type_in("messages", messages("first visitor"))
    two.type_in("messages", messages("second visitor"))
    assert "first visitor" in one.pane(0)["text"] and "second" not in one.pane(0)["text"]
    assert "second visitor" in two.pane(0)["text"]


def test_the_interface_speaks_chinese_and_the_dark_switch_works(bench: Inspector) -> None:
    bench.page.click('[data-act="language"]')
    assert "词元" in bench.page.inner_text(".ti-tabs") and "首个差异" in bench.page.inner_text(".ti-compare")
    before = bench.page.evaluate("() => getComputedStyle(document.querySelector('.ti')).backgroundColor")
    bench.page.click('[data-act="dark"]')
    assert bench.page.evaluate("() => getComputedStyle(document.querySelector('.ti')).backgroundColor") != before


def test_every_editor_and_choice_has_a_name_for_screen_readers(bench: Inspector) -> None:
    nameless = bench.page.evaluate("() => Array.from(document.querySelectorAll('#bench textarea, #bench input:not([type=hidden]):not([type=file][hidden]), #bench select, #bench button')).filter(n => !(n.labels && n.labels.length && n.labels[0].textContent.trim()) && !n.getAttribute('aria-label') && !n.textContent.trim()).map(n => n.outerHTML)")  # fmt: skip
    assert nameless == []
    assert bench.page.get_by_label("Messages (JSON)", exact=True).count() == 1
    assert bench.page.get_by_label("A Tokenizer", exact=True).count() == 1


def test_a_long_conversation_is_virtualised_and_scrolls_to_its_end(bench: Inspector) -> None:
    bench.type_in("messages", messages("\n".join(f"line {k} of a long text" for k in range(4000))))
    assert len(bench.pane(0)["ids"]) > 20_000
    assert bench.page.locator(".ti-line").count() < 200
    bench.page.focus(".ti-grid")
    bench.page.keyboard.press("End")
    assert bench.page.locator(".ti-col0 .ti-on").count() == 1
    assert bench.page.locator(".ti-line").count() < 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_first_screen_fits_at_both_sizes(open_page: Any, size: dict[str, int], scheme: str) -> None:
    bench = open_page(viewport=size, color_scheme=scheme)
    bench.page.focus(".ti-grid")
    bench.page.keyboard.press("n")
    bench.page.screenshot(path=shot(f"page-{size['width']}x{size['height']}-{scheme}"), full_page=size is NARROW)
    overflow = bench.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0, "the page scrolls sideways"
    cut = bench.page.evaluate("() => Array.from(document.querySelectorAll('.ti-line .ti-col')).filter(n => n.scrollWidth > n.clientWidth + 1).length")  # fmt: skip
    assert cut == 0, "a line of the grid is cut off"
    assert bench.page.locator(".ti-input").evaluate("node => node.open") is (size is WIDE)
    if size is NARROW:
        starts = bench.page.locator(".ti-gut").all_inner_texts()[:4]
        assert [text[0] for text in starts] == ["A", "B", "A", "A"] or [text[0] for text in starts] == [
            "A",
            "B",
            "A",
            "B",
        ]
