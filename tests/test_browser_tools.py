"""Stages, Stream, Tokenizers and a person's own files in a real Chromium: by keyboard too, and with hostile text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page import ANSWER_MS, HOSTILE, NARROW, WIDE, Inspector, messages, shot

from inspector.sources import resolve_tokenizer

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    """One page for the whole module: its session keeps the tokenizers that it has loaded."""
    opened = Inspector(browser, address)
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def wait(bench: Any, text: str, where: str = ".ti-panel") -> None:
    bench.page.wait_for_function("([s, t]) => document.querySelector(s).textContent.includes(t)", arg=[where, text], timeout=ANSWER_MS)  # fmt: skip


def select_text(bench: Any, text: str) -> None:
    bench.page.evaluate("t => { const b = document.querySelector('#bench .ti').parentNode.bench, p = b.state.panes[0], all = p.text(0, p.bytes.length), at = new TextEncoder().encode(all.slice(0, all.indexOf(t))).length; b.choose({kind: 'bytes', q: 0, from: at, to: at + new TextEncoder().encode(t).length}, false); }", text)  # fmt: skip


def in_chinese_on_a_phone(bench: Any, view: str, said: str) -> None:
    """Switch language, theme and width under way: what was typed stays, nothing is wider than the screen."""
    typed = bench.page.locator(".ti-panel textarea").first.input_value()
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(NARROW)
    wait(bench, said)
    assert bench.page.locator(".ti-panel textarea").first.input_value() == typed
    bench.page.screenshot(path=shot(f"{view}_narrow_dark_zh"))
    assert bench.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('.ti-panel').scrollWidth <= document.querySelector('.ti-panel').clientWidth + 1")  # fmt: skip
    raw = bench.page.evaluate("() => [...document.querySelectorAll('.ti-panel .ti-key, .ti-panel button, .ti-panel th, .ti-panel .ti-boxhead, .ti-tools button')].map(n => n.textContent.trim()).filter(t => /^[a-z]+(_[a-z]+)+$/.test(t) && t !== 'vocab_size')")  # fmt: skip
    assert raw == []
    for act in ("language", "dark"):
        bench.page.click(f'[data-act="{act}"]')
    bench.page.set_viewport_size(WIDE)


def unharmed(bench: Any) -> None:
    assert bench.page.evaluate("() => window.pwned === undefined")
    assert bench.page.locator("#bench script, #bench img, #bench .ti-panel iframe").count() == 0


def test_stages_follow_the_selection_and_open_by_keyboard(bench: Any) -> None:
    bench.choose("tokenizer1", "minilm")
    bench.open("stages")
    wait(bench, "Post-processor")
    assert bench.page.input_value('[data-in="stages_text"]') == "What is 17 × 23? 🧮"  # the user's message
    select_text(bench, "helpful assistant")
    bench.open("stages")
    assert bench.page.input_value('[data-in="stages_text"]') == "helpful assistant"
    bench.page.evaluate("() => { const a = document.querySelector('[data-in=messages]'), at = a.value.indexOf('What is') + 1; a.focus(); a.setSelectionRange(at, at); }")  # fmt: skip
    bench.page.wait_for_function(f"() => {BENCH}.pick.kind === 'fields'")
    bench.page.keyboard.press("Escape")
    bench.open("stages")
    assert bench.page.input_value('[data-in="stages_text"]') == "What is 17 × 23? 🧮", "a caret is no text to trace"
    select_text(bench, "helpful assistant")
    bench.open("stages")
    bench.page.wait_for_function("() => document.querySelectorAll('.ti-out .ti-columns section').length === 2 && document.querySelector('.ti-out').textContent.includes('helpful')", timeout=ANSWER_MS)  # fmt: skip
    bench.page.fill('[data-in="stages_text"]', "Tokenization ÉA")
    wait(bench, "tokenization")
    assert "U+00C9 LATIN CAPITAL LETTER E WITH ACUTE" in bench.page.inner_text(".ti-changes")
    assert "[CLS]" in bench.page.inner_text("section:nth-child(2) .ti-box:last-child")
    assert "+2 inserted: [CLS] [SEP]" in bench.page.inner_text("section:nth-child(2) h2")
    piece = bench.page.locator("summary.ti-pieceline").filter(has_text="okenization").first
    piece.focus()
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector(".ti-steps table")
    rows = bench.page.locator(".ti-steps").first.locator("table tr").all_inner_texts()
    assert rows[1].split("\t")[2] == "begin" and rows[-1].split("\t")[3].split() == ["Token", "ization"]
    assert bench.page.locator(".ti-tree .ti-tree").count() >= 2
    bench.page.locator(".ti-lesson summary").focus()
    bench.page.keyboard.press("Enter")
    bench.page.fill('[data-in="train_merges"]', "3")
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector(".ti-lessontable tr:nth-child(4)", timeout=ANSWER_MS)
    bench.page.locator('[data-in="train_at"]').focus()
    bench.page.keyboard.press("End")
    assert "3 / 3" in bench.page.inner_text(".ti-lesson .ti-count")
    bench.page.screenshot(path=shot("stages"))
    in_chinese_on_a_phone(bench, "stages", "后处理")
    bench.page.fill('[data-in="stages_text"]', "<|")
    wait(bench, "2 tokens: nothing joins them")
    bench.page.fill('[data-in="stages_text"]', "x" * 2001)
    wait(bench, "the page traces up to 2,000")
    bench.page.fill('[data-in="stages_text"]', " ".join(HOSTILE))
    wait(bench, "onerror")
    unharmed(bench)


def test_control_characters_are_told_apart_and_reach_the_tools_as_they_are(open_page: Any) -> None:
    bench = open_page()
    bench.type_in("messages", messages("a\r\nb\rc\x00\x07"))
    bench.open("tokens")
    assert "c‹0000›‹0007›" in bench.page.locator(".ti-grid .ti-line", has_text="c‹").first.inner_text()
    for view in ("stages", "tokenizers"):  # a text box holds no CR, what is asked for does
        with bench.page.expect_request(
            lambda sent, view=view: f'"fn_name":"{view}"' in (sent.post_data or "")
        ) as asked:
            bench.open(view)
        assert "a\\r\\nb\\rc" in asked.value.post_data
    bench.type_in("messages", messages("another"))
    for view in ("stages", "tokenizers"):
        bench.open(view)
        assert bench.page.input_value(f'[data-in="{view}_text"]') == "another"
    bench.type_in("messages", "")
    bench.open("control")
    wait(bench, "the messages editor is empty")
    said = bench.page.locator(".ti-panel .ti-err").first.inner_text()
    assert said.startswith("line 1, column 1, messages: ") and "→" in said, said


def test_a_stream_is_stepped_through_by_keyboard_up_to_a_stop_string(bench: Any) -> None:
    bench.type_in("messages", messages("é🧮 ok", "done</s> never shown"))
    bench.open("stream")
    wait(bench, "A stream shows so far")
    bench.page.fill('[data-in="stream_stops"]', "\n".join(("</s>", *HOSTILE)))
    wait(bench, "The stop string </s> lies in")
    slider = bench.page.locator('[data-in="stream_at"]')
    slider.focus()
    bench.page.keyboard.press("End")
    last = bench.page.inner_text(".ti-count").split(" / ")
    assert last[0] == last[1] and "ends the stream here" in bench.page.inner_text(".ti-out > .ti-facts >> nth=0")
    assert "never" not in bench.page.inner_text(".ti-streamed") and "done" in bench.page.inner_text(".ti-streamed")
    cut = bench.page.locator(".ti-cuttok span:first-child").all_inner_texts()
    assert len(cut) > 1 and "".join(part.strip("…✂") for part in cut) == "</s>"
    bench.page.locator(".ti-out > .ti-facts .ti-link").first.click()  # where decode([id]) alone is wrong
    facts = bench.page.inner_text(".ti-out > .ti-facts >> nth=0")
    assert "decode([id]) alone would show ‹FFFD›" in facts and "held back, the beginning of a character" in facts
    slider.focus()
    bench.page.keyboard.press("ArrowRight")
    bench.page.keyboard.press("ArrowLeft")
    assert bench.page.inner_text(".ti-out > .ti-facts >> nth=0") == facts
    bench.page.get_by_label("skip_special_tokens").check()
    bench.page.wait_for_function("() => !document.querySelector('.ti-streamed').textContent.includes('<|im_start|>')", timeout=ANSWER_MS)  # fmt: skip
    bench.page.screenshot(path=shot("stream"))
    slider.focus()
    bench.page.keyboard.press("Home")
    bench.page.keyboard.press(" ")  # play
    bench.page.wait_for_function("() => +document.querySelector('[data-in=\"stream_at\"]').value >= 2")
    bench.page.keyboard.press("Home")
    for text, said in ((f"1 {HOSTILE[0]}", "these are no token ids"), ("999999999", "has no id 999999999")):
        bench.page.fill('[data-in="stream_ids"]', text)
        wait(bench, said)
    bench.page.fill('[data-in="stream_ids"]', "1, 2, 3")
    wait(bench, "step 1 of 3")
    in_chinese_on_a_phone(bench, "stream", "流到此为止显示")
    unharmed(bench)


def test_tokenizers_are_compared_priced_and_saved(bench: Any) -> None:
    bench.open("tokenizers")
    bench.page.wait_for_selector(".ti-rates", timeout=ANSWER_MS)
    other = bench.page.locator('[data-in="tokenizers_other"]')
    for ref in ("r50k", "bytes", *HOSTILE[:2]):
        other.fill(ref)
        other.press("Enter")
    bench.page.fill('[data-in="tokenizers_text"]', "=1+1 " + "".join(HOSTILE) + " 2026")
    bench.page.wait_for_function("() => document.querySelectorAll('.ti-out .ti-err').length === 2 && document.querySelector('.ti-differing')", timeout=ANSWER_MS)  # fmt: skip
    for node in bench.page.locator(".ti-out .ti-err .ti-link").all()[::-1]:
        node.click()
    bench.page.wait_for_function("() => document.querySelectorAll('.ti-out .ti-err').length === 0", timeout=ANSWER_MS)
    rows = {row.split("\t")[0]: row.split("\t") for row in bench.page.locator(".ti-rates tr").all_inner_texts()[1:]}
    assert {"smollm2", "r50k", "bytes"} <= set(rows)
    assert bench.page.locator(".ti-chart .ti-chartbar").count() == len(rows)
    bench.page.fill('[data-price="bytes"]', "2,5")
    cost = bench.page.locator(".ti-rates tr", has_text="bytes").locator("td:nth-child(6)").last.inner_text()
    assert float(cost) == pytest.approx(int(rows["bytes"][1].replace(",", "")) * 2.5 / 1e6, rel=1e-3)
    bench.page.fill('[data-price="r50k"]', "<b>1")
    assert bench.page.get_attribute('[data-price="r50k"]', "aria-invalid") == "true"
    with bench.page.expect_download() as saved:
        bench.page.get_by_role("button", name="Download CSV").click()
    table = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text("utf-8-sig"))))
    assert {row["tokenizer"]: row["price_per_million"] for row in table}["bytes"] == "2.5"
    assert not any(cell[:1] in "=+-@" and cell for row in table for cell in row.values())
    bench.page.screenshot(path=shot("tokenizers"))
    bench.page.locator(".ti-bites summary", has_text="r50k").press("Enter")
    bench.page.wait_for_selector(".ti-bitetable", timeout=ANSWER_MS)
    assert "No config.json" in bench.page.inner_text(".ti-bitetable") or "states no vocab_size" in bench.page.inner_text(".ti-bitetable")  # fmt: skip
    bench.page.get_by_role("button", name="Remove bytes").press("Enter")
    bench.page.wait_for_function("() => !document.querySelector('[data-price=\"bytes\"]')", timeout=ANSWER_MS)
    assert bench.page.evaluate("() => document.activeElement.classList.contains('ti-remove')")  # fmt: skip
    in_chinese_on_a_phone(bench, "tokenizers", "容易出错的差异")
    unharmed(bench)


def test_a_pane_of_ids_alone_has_stages_of_what_was_typed(bench: Any) -> None:
    bench.type_in("messages", messages("ids without text"))
    bench.choose("tokenizer0", "mistral-v1")
    bench.choose("template0", "")
    bench.open("stages")
    bench.page.get_by_role("button", name="Take the selection").click()
    assert bench.page.input_value('[data-in="stages_text"]') == "ids without text"
    bench.page.wait_for_selector(".ti-piecebox", timeout=ANSWER_MS)
    bench.open("stream")
    bench.page.get_by_role("button", name="Take the selection").click()
    wait(bench, "INST", ".ti-steptable")
    bench.page.locator('[data-in="stream_at"]').press("End")
    wait(bench, "[INST]·ids·without·text", ".ti-streamed")
    bench.choose("tokenizer0", "smollm2")
    bench.choose("template0", "qwq-32b@current")


def test_own_files_become_a_panes_tokenizer_and_wrong_ones_say_why(bench: Any, tmp_path: Path) -> None:
    ids = bench.pane(0)["ids"]
    sent: list[int] = []
    bench.page.on("request", lambda request: sent.append(len(request.post_data or "")) if "component_server" in request.url else None)  # fmt: skip
    files = bench.page.locator('.ti-head0 input[type="file"]')
    files.set_input_files(resolve_tokenizer("smollm2").files[0].path)  # a GGUF with weights: only its metadata goes
    bench.page.wait_for_function("() => document.querySelector('.ti-head0 .ti-upload').textContent.includes('Tokenizer and template from')", timeout=ANSWER_MS)  # fmt: skip
    bench.settle()
    assert 1_000_000 < sum(sent) < 6_000_000
    assert (
        bench.page.input_value('[data-in="tokenizer_ref0"]').startswith("upload:") and bench.error("tokenizer0") == ""
    )
    bench.choose("template0", "qwq-32b@current")
    assert bench.pane(0)["ids"] == ids
    # Dropped on the other pane's head.
    minilm = {file.name: Path(file.path).read_text("utf-8") for file in resolve_tokenizer("minilm").files}
    bench.page.evaluate("files => { const head = document.querySelector('.ti-head1'), data = new DataTransfer(); for (const [name, text] of Object.entries(files)) data.items.add(new File([text], name)); for (const kind of ['dragenter', 'dragover', 'drop']) head.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true })); }", minilm)  # fmt: skip
    bench.page.wait_for_function("() => document.querySelector('.ti-head1 .ti-upload').textContent.includes('tokenizer.json')", timeout=ANSWER_MS)  # fmt: skip
    bench.settle()
    bench.choose("tokenizer0", "minilm")
    assert (
        bench.page.locator(".ti-head0 .ti-upload").is_hidden()
        and bench.page.locator(".ti-head1 .ti-upload").is_visible()
    )
    bench.choose("template1", "qwq-32b@current")
    assert bench.pane(0)["ids"] == bench.pane(1)["ids"]
    bench.page.screenshot(path=shot("uploads"))
    before = bench.page.input_value('[data-in="tokenizer_ref1"]')
    wrong = tmp_path / "<img src=x onerror=window.pwned=1>.jinja"
    wrong.write_text("x")
    broken = tmp_path / "tokenizer.json"
    broken.write_text(json.dumps({"model": HOSTILE[0]}))
    refused = bench.page.locator(".ti-head1 .ti-refused")
    bench.page.locator('.ti-head1 input[type="file"]').set_input_files(str(wrong))
    bench.page.wait_for_function("() => document.querySelector('.ti-head1').textContent.includes('is not a file that this tool reads')", timeout=ANSWER_MS)  # fmt: skip
    assert "<img src=x" in refused.inner_text() and bench.page.input_value('[data-in="tokenizer_ref1"]') == before
    bench.page.locator('.ti-head1 input[type="file"]').set_input_files(str(broken))
    bench.page.wait_for_function("before => document.querySelector('[data-in=\"tokenizer_ref1\"]').value !== before", arg=before, timeout=ANSWER_MS)  # fmt: skip
    bench.settle()
    assert bench.error("tokenizer1") and "Traceback" not in bench.error("tokenizer1")
    unharmed(bench)
