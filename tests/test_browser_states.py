"""What the page says about its own state in a real Chromium: old results, slow requests, budgets, errors, reloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from page import ANSWER_MS, NARROW, Inspector, messages, shot

from inspector.record import sealed
from inspector.replay import read_record

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
SLOW_TEMPLATE = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


def test_another_choice_marks_its_pane_at_once_and_names_what_is_shown(bench: Inspector) -> None:
    held: list[Any] = []
    bench.page.route("**/component_server*", lambda route: held.append(route))
    bench.page.select_option('[data-in="tokenizer0"]', "bytes")
    assert bench.page.locator("#bench .ti.stale0:not(.stale1)").count() == 1
    assert "shown: smollm2 + qwq-32b@current" in bench.page.inner_text(".ti-head0 .ti-age")
    bench.page.unroute("**/component_server*")
    for route in held:
        route.continue_()
    bench.settle()
    assert bench.page.locator("#bench .ti.stale0").count() == 0 and bench.page.inner_text(".ti-head0 .ti-age") == ""


def test_a_slow_request_says_what_it_does_and_can_be_cancelled(bench: Inspector) -> None:
    bench.edit_template(0)
    bench.page.fill('[data-in="template_source0"]', SLOW_TEMPLATE)
    bench.page.wait_for_selector('[data-act="cancel"]:not([hidden])', timeout=ANSWER_MS)
    bench.page.wait_for_function("() => /Rendering.* \\d+ s/.test(document.querySelector('.ti-status').textContent)", timeout=ANSWER_MS)  # fmt: skip
    bench.page.click('[data-act="cancel"]')
    bench.settle()
    assert "Cancelled" in bench.page.inner_text(".ti-status") and bench.page.locator(".ti.stale0").count() == 1
    bench.type_in("template_source0", "quick again")
    assert bench.pane(0)["text"] == "quick again" and bench.page.locator(".ti.stale0").count() == 0


def test_the_record_is_of_the_time_that_the_shown_text_was_rendered_at(bench: Inspector) -> None:
    bench.paste_template(0, "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}")
    bench.type_in("messages", messages("hi"))
    shown = bench.pane(0)["text"]
    bench.open("record")
    bench.page.wait_for_function("() => document.querySelector('.ti').parentNode.bench.state.records[0].startsWith('{')", timeout=ANSWER_MS)  # fmt: skip
    assert shown in bench.page.evaluate("() => document.querySelector('.ti').parentNode.bench.state.records[0]")


def test_the_header_says_what_the_budget_dropped_and_a_rejection_is_called_one(bench: Inspector) -> None:
    for pane in "01":
        bench.choose(f"tokenizer{pane}", "bytes")
        bench.choose(f"template{pane}", "")
    bench.type_in("messages", messages("a" * 40, "b" * 40, "c"))
    bench.type_in("context_window", "60")
    bench.page.click(".ti-head0 .ti-taken")
    assert bench.page.get_attribute('[data-view="budget"]', "aria-selected") == "true"
    row = bench.page.locator(".ti-columns > section:first-child .ti-fits tr", has_text="messages[2]")
    assert "✓ kept" in row.inner_text()
    bench.type_in("context_window", "3")
    bench.page.locator(".ti-panel .ti-err", has_text="Rejected: the required parts have").first.wait_for()
    assert "✗ required" in row.inner_text() and "✓ kept" not in bench.page.inner_text(".ti-panel")


def test_errors_of_small_fields_have_the_width_of_the_form(bench: Inspector) -> None:
    for name in ("context_window", "clock"):
        bench.type_in(name, "wrong")
        field = bench.page.locator(f'[data-field="{name}"] .ti-err').bounding_box()
        assert field["width"] > 0.9 * bench.page.locator('[data-in="messages"]').bounding_box()["width"]
        bench.type_in(name, "")


def test_the_header_says_what_the_page_is_and_a_failed_pane_keeps_all_its_lines(bench: Inspector) -> None:
    assert "every byte of the prompt" in bench.page.inner_text(".ti-tagline")
    assert bench.page.inner_text(".ti-status").startswith("answered in ")
    assert "B has nothing there" in bench.page.inner_text(".ti-compare")
    bench.page.screenshot(path=shot("header"))
    bench.paste_template(1, "{% if messages | length > 1 %}{{ raise_exception('no') }}{% endif %}1\n2 🧮\nsame\nlast")
    bench.type_in("messages", messages("one"))
    bench.choose("template0", "raw")
    bench.type_in("messages", messages("a\nb\nc\nd\ne\nsame\nf", "g"))
    shown = bench.page.locator(".ti-col1")
    assert bench.page.locator(".ti.stale1:not(.stale0)").count() == 1 and shown.count() == 4
    tops = shown.evaluate_all("nodes => nodes.map(node => node.parentNode.style.top)")
    assert tops == ["0px", "20px", "40px", "60px"], "nothing is aligned with what is of another input"
    assert shown.first.evaluate("node => getComputedStyle(node).filter") == "none", "emoji have no grey"
    bench.page.screenshot(path=shot("one_failed"))
    bench.open("bytes")
    assert bench.page.locator(".ti-rowkey").count() == 0
    bench.page.set_viewport_size(NARROW)
    assert not bench.page.locator(".ti-tagline").is_visible()
    bench.page.screenshot(path=shot("header_narrow"))


def test_logits_name_their_columns_and_spell_tokens_as_the_token_flow_does(bench: Inspector) -> None:
    bench.open("logits")
    bench.page.wait_for_selector(".ti-logits", timeout=180_000)
    assert "A: probability, rank, log-probability, logit" in bench.page.inner_text(".ti-logits tr:first-child")
    cells = bench.page.locator(".ti-logits .ti-piece").all_inner_texts()
    assert "⏎" in cells and not any("Ċ" in cell or "Ġ" in cell for cell in cells)
    bench.choose("tokenizer0", "bytes")
    bench.choose("tokenizer1", "bytes")
    bench.page.locator(".ti-verdictbar button").first.click()
    bench.page.wait_for_function(
        "() => document.querySelectorAll('.ti-nexthost .ti-err').length === 2", timeout=ANSWER_MS
    )
    assert bench.page.locator(".ti-logits").count() == 0


def test_another_reference_is_no_error_before_it_is_typed(bench: Inspector) -> None:
    before = bench.pane(0)
    bench.page.locator('[data-in="tokenizer0"]').select_option(label="other reference…")
    bench.settle()
    assert bench.error("tokenizer0") == "" and bench.pane(0) == before
    assert "Type a reference · shown: smollm2" in bench.page.inner_text(".ti-head0 .ti-age")
    bench.type_in("tokenizer_ref0", "nonsense")
    assert "the list above has all" in bench.error("tokenizer0")


def test_the_pairing_remark_unfolds_and_speaks_chinese(bench: Inspector) -> None:
    note = bench.page.locator(".ti-head0 .ti-notes")
    assert "was made for the tokenizer qwen3" in note.get_attribute("title")
    note.locator("summary").click()
    assert note.locator("p").is_visible()
    bench.page.click('[data-act="language"]')
    assert "是为分词器 qwen3 编写的" in bench.page.inner_text(".ti-head0 .ti-notes p")
    assert "继续:'</think>'(模板文本" in bench.page.inner_text(".ti-compare")


def test_a_reload_keeps_the_tab_and_a_second_tab_is_its_own(open_page: Any) -> None:
    bench = open_page()
    bench.choose("tokenizer1", "bytes")
    bench.paste_template(0, "{{ messages[0].content }}!")
    bench.type_in("messages", messages("kept"))
    bench.type_in("context_window", "4000")
    bench.page.click('[data-act="language"]')
    bench.page.click('[data-act="dark"]')
    bench.page.reload()
    bench.settle()
    assert bench.pane(0)["text"] == "kept!" and bench.page.input_value('[data-in="tokenizer1"]') == "bytes"
    assert bench.page.input_value('[data-in="context_window"]') == "4000"
    assert bench.page.evaluate("() => [document.documentElement.lang, document.body.classList.contains('dark')]") == ["zh-CN", True]  # fmt: skip
    other = bench.context.new_page()
    other.goto(bench.page.url)
    other.wait_for_selector('#bench .ti[data-ready="1"]', timeout=ANSWER_MS)
    assert "kept" not in other.input_value('[data-in="messages"]') and "词元" in other.inner_text(".ti-tabs")
    bench.page.click('[data-act="reset"]')
    bench.settle()
    assert bench.page.input_value('[data-in="messages"]') == other.input_value('[data-in="messages"]')
    assert bench.page.input_value('[data-in="template0"]') == "qwq-32b@current"


def test_the_record_downloads_as_a_json_file(bench: Inspector) -> None:
    bench.open("record")
    bench.page.wait_for_function("() => document.querySelector('.ti').parentNode.bench.state.records[1].startsWith('{')", timeout=ANSWER_MS)  # fmt: skip
    with bench.page.expect_download() as started:
        bench.page.get_by_role("button", name="B download record").click()
    data = Path(started.value.path()).read_bytes()
    record = read_record(data)
    assert started.value.suggested_filename == "record-b.json" and record["inputs"]["input_ids"] == bench.pane(1)["ids"]
    assert sealed(record).to_bytes() == data, "to the byte what the command line writes"


def test_a_pane_without_an_answer_is_marked_alone_and_asked_again_by_itself(open_page: Any) -> None:
    bench = open_page()
    page = bench.page
    page.evaluate(f"""() => {{ const b = {BENCH}, own = b.server; window.gone = {{ panes: [b.slots[1].key], progress: false }};
        b.server = new Proxy(own, {{ get: (of, name) => name === 'view' ? async (request) => (gone.panes.includes(request.panes[0].slot) ? undefined : of.view(request)) : name === 'progress' && gone.progress ? async () => undefined : of[name] }}); }}""")  # fmt: skip
    page.fill('[data-in="messages"]', messages("now"))
    page.wait_for_function(f"() => {BENCH}.slots[1].lost && !{BENCH}.inFlight")
    assert "did not answer" in page.inner_text(".ti-head1 .ti-age") and "did not answer" in page.inner_text(
        ".ti-status"
    )
    assert page.inner_text(".ti-head0 .ti-age") == "" and "now" in bench.pane(0)["text"]
    assert page.locator("#bench .ti.stale1:not(.stale0)").count() == 1 and page.locator('[data-act="retry"]').is_visible()  # fmt: skip
    page.evaluate("() => { gone.panes = []; gone.progress = true; }")
    page.wait_for_timeout(1300)
    assert "did not answer" in page.inner_text(".ti-head1 .ti-age"), "the server is not there yet"
    page.evaluate("() => { gone.progress = false; }")
    page.wait_for_function(f"() => {{ const p = {BENCH}.state.panes[1]; return p.text(0, p.bytes.length).includes('now'); }}")  # fmt: skip
    bench.settle()
    assert page.inner_text(".ti-head1 .ti-age") == "" and page.locator('[data-act="retry"]').is_hidden()
    assert "answered" in page.inner_text(".ti-status")
    # an error of a shared field stands at the field, even where only one pane comes to see it
    bench.choose("template1", "\x00custom")
    bench.type_in("template_ref1", "no-such-template")
    bench.type_in("messages", "[{")
    assert bench.error("template1") and bench.error("messages") and "A:" not in bench.error("messages")
    bench.type_in("messages", messages("now"))
    bench.type_in("context_window", "x")
    assert "A:" not in bench.error("context_window") and bench.error("context_window")


def test_what_a_template_leaves_out_is_said_in_the_head_and_leads_to_its_finding(open_page: Any) -> None:
    bench = open_page()
    bench.choose("template0", "chatml")
    bench.paste_template(1, "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    bench.type_in("tools", json.dumps([tool]))
    bench.type_in("messages", json.dumps([{"role": "system", "content": "rules"}, {"role": "user", "content": "hi"}]))
    badges = [bench.page.locator(f".ti-head{q} .ti-leftout") for q in (0, 1)]
    assert badges[0].inner_text() == "✂ left out: tools 1"
    assert badges[1].inner_text() == "✂ left out: tools 1, messages 1"
    badges[1].click()
    bench.page.wait_for_function("() => { const item = document.activeElement.closest('.ti-find'); return item && item.dataset.of === '1'; }", timeout=ANSWER_MS)  # fmt: skip
    assert bench.page.evaluate("() => document.activeElement.closest('.ti-find').dataset.rule") in ("tools-unread", "message-dropped")  # fmt: skip
    bench.type_in("tools", "")
    assert badges[0].count() == 0 and badges[1].inner_text() == "✂ left out: messages 1"
    named = [{"name": "chat_template.jinja", "mimeType": "text/plain", "buffer": text.encode()} for text in ("one", "two")]  # fmt: skip
    bench.page.set_input_files(".ti-head0 input[type=file]", named)
    bench.page.wait_for_function("() => document.querySelector('.ti-head0 .ti-upload').textContent.includes('upload:')")
    bench.settle()
    assert "chat_template-2.jinja" in bench.page.inner_text(".ti-head0 .ti-upload") and bench.pane(0)["text"] == "one"
