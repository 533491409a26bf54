"""Opening a record on the page: what goes into its fields, what came of the replay, and the page in a real Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pictures
import pytest
from axe import add_axe, faults
from page import ANSWER_MS, NARROW, shot

from inspector.job import Fields, make_options, prepare
from inspector.record import record, sealed
from inspector.ui import calls, records, serve
from inspector.ui.records import page_inputs

GOLDEN = {path.stem: path for path in (Path(__file__).parent / "data" / "records").glob("*.json")}
CLOCK = "2026-01-31T09:30:00+01:00"
SESSION = "0123456789abcdef" * 2
SECRET = "sk-" + "a1B2c3D4" * 4


def as_page(inputs: dict[str, Any]) -> tuple[Fields, dict[str, Any]]:
    """What the page would send for its inputs."""
    pane = {**inputs["options"], **inputs["pane"], "engine": inputs["pane"]["pane_engine"]}
    return Fields(**inputs["fields"]), pane


@pytest.mark.parametrize("name", GOLDEN)
def test_the_page_opens_a_record_on_the_same_input(name: str) -> None:
    value = json.loads(GOLDEN[name].read_bytes())
    fields, pane = as_page(page_inputs(value))
    again = record(prepare(fields, serve._options(pane, serve._moment(0)))).value
    for key in ("rendered", "tokens", "inputs"):
        assert again[key] == value[key]
    assert value["budget"] is None or value["budget"].items() <= again["budget"].items()
    assert again["injected"]["clock"] == value["injected"]["clock"]


def test_a_record_of_images_opens_with_the_way_they_were_counted() -> None:
    content = [
        {"type": "image", "image": pictures.data_url(pictures.picture((64, 48)))},
        {"type": "text", "text": "what is it?"},
    ]
    body = json.dumps([{"role": "user", "content": content}]).encode()
    how = {"tokenizer": "qwen3", "template": "trl-qwen3-vl", "clock": CLOCK, "media": "expanded", "image_tokens": 7}
    value = record(prepare(body, make_options(**how))).value
    fields, pane = as_page(page_inputs(value))
    again = record(prepare(fields, serve._options(pane, serve._moment(0)))).value
    assert (pane["media"], pane["image_tokens"]) == ("expanded", "7") and again["inputs"] == value["inputs"] is not None
    pad = [
        token["id"]
        for token in value["tokenizer"]["loaded"]["added_tokens"]["listed"]
        if token["content"] == "<|image_pad|>"
    ]
    assert value["inputs"]["input_ids"].count(pad[0]) == 7


def test_a_request_with_other_keys_stays_whole_and_arguments_keep_their_winner() -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "chat_template_kwargs": {"a": 1},
        "model": "m",
        "tools": [],
    }
    options = make_options(tokenizer="qwen3", clock=CLOCK, arguments={"a": 2.50}, template_text="{{ a }}")
    fields = page_inputs(record(prepare(json.dumps(body).encode(), options)).value)["fields"]
    assert json.loads(fields["messages"]) == body and json.loads(fields["arguments"]) == {"a": 2.5}
    plain = {key: item for key, item in body.items() if key != "model"}
    fields = page_inputs(record(prepare(json.dumps(plain).encode(), options)).value)["fields"]
    assert json.loads(fields["messages"]) == body["messages"] and json.loads(fields["arguments"]) == {"a": 2.5}


def opened(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.loads(records.open_record({"session": SESSION, "text": text}))


def test_a_record_whose_alias_moved_opens_on_the_text_it_holds_and_says_so() -> None:
    chat = b'[{"role": "user", "content": "hi"}]'
    then = record(prepare(chat, make_options(tokenizer="qwen3", template="qwq-32b@16488a", clock=CLOCK))).value
    answer = opened(sealed({**then, "options": {**then["options"], "template": "qwq-32b"}}).value)
    assert (answer["outcome"], answer["stage"]) == ("different", "render") and "16488a" in answer["line"]
    assert answer["pane"]["template_text"] == then["template"]["text"]
    gone = opened(sealed({**then, "options": {**then["options"], "template": "local:mine.jinja"}}).value)
    assert gone["outcome"] == "equal" and gone["pane"]["template_text"] == then["template"]["text"]
    lost = opened(sealed({**then, "options": {**then["options"], "tokenizer": "local:mine"}}).value)
    assert lost["outcome"] == "failed" and "lay on the machine" in lost["line"]


def test_what_is_no_record_is_an_error_and_a_visitors_record_reaches_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        opened("[]")["kind"] == "RecordInvalid"
        and opened(GOLDEN["fixture"].read_text()[:-9])["kind"] == "RecordInvalid"
    )
    assert json.loads(records.open_record({"session": SESSION, "text": 5}))["kind"] == "OptionInvalid"
    monkeypatch.setattr(calls, "_own_machine", False)
    value = json.loads(GOLDEN["fixture"].read_text())
    answer = opened(sealed({**value, "options": {**value["options"], "tokenizer": "folder:tests"}}).value)
    assert answer["outcome"] == "failed" and "visitors" in answer["line"]


def test_a_secret_is_not_shown_as_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    pane = {"tokenizer": "bytes", "template": "", "profile": "transformers", "policy": "messages", "clock": CLOCK}
    for text in (f"my key is {SECRET}", "correct-horse-battery"):
        chat = json.dumps([{"role": "user", "content": text}])
        fields = {"messages": chat, "tools": "", "documents": "", "arguments": ""}
        (line,) = json.loads(serve.record({"session": SESSION, "at": 0, "fields": fields, "panes": [pane]}))["records"]
        assert "never holds a secret" in line and text not in line


@pytest.mark.browser
def test_a_record_is_opened_replayed_and_written_again(open_page: Any, tmp_path: Path) -> None:
    bench = open_page()
    bench.open("record")
    open_button = bench.page.get_by_role("button", name="Open a record…")
    open_button.click()
    area, error = bench.page.locator(".ti-openrecord textarea"), bench.page.locator(".ti-openrecord .ti-err")
    assert area.evaluate("node => node === document.activeElement")
    add_axe(bench.page)
    assert not faults(bench.page)
    text = GOLDEN["tools-budget"].read_text()
    area.fill(text.replace("high tide", "low tide"))
    bench.page.keyboard.press("Control+Enter")
    bench.page.wait_for_function("() => document.querySelector('.ti-openrecord .ti-err').innerText.includes('sealed')")
    assert "low tide" in area.input_value(), "what was pasted is not lost"
    area.fill(text)
    bench.page.click('[data-act="open-record"]')
    bench.page.wait_for_function("() => document.querySelector('.ti-replayed')?.innerText.includes('replays equal')", timeout=ANSWER_MS)  # fmt: skip
    bench.settle()
    assert bench.pane(0)["ids"] == json.loads(text)["inputs"]["input_ids"] and not error.is_visible()
    bench.page.wait_for_function("() => document.querySelector('.ti').parentNode.bench.state.records[0].includes('tide table')", timeout=ANSWER_MS)  # fmt: skip
    bench.page.screenshot(path=shot("record-open"))
    with bench.page.expect_download() as started:
        bench.page.get_by_role("button", name="A download record").click()
    assert (
        sealed(json.loads(Path(started.value.path()).read_bytes())).to_bytes()
        == Path(started.value.path()).read_bytes()
    )
    bench.page.set_viewport_size(NARROW)
    bench.page.click('[data-act="share"]')
    bench.page.set_input_files(".ti-share input[type=file]", str(GOLDEN["digests-only"]))
    digest = json.loads(GOLDEN["digests-only"].read_text())["digest"][:12]
    bench.page.wait_for_function(f"() => document.querySelector('.ti-replayed')?.innerText.includes('{digest}')", timeout=ANSWER_MS)  # fmt: skip
    bench.settle()
    assert bench.page.input_value('[data-in="template0"]') == "qwq-32b@current"
    assert bench.page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0
    bench.page.click('[data-act="dark"]')
    open_button.click()
    assert not faults(bench.page)
    bench.page.screenshot(path=shot("record-open-narrow"))
    bench.page.keyboard.press("Escape")
    assert bench.page.locator(".ti-openrecord").is_hidden()
