"""A model server on the Logits tab: chosen, typed, refused; what it cannot give is said; a link sends nothing by itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from axe import add_axe, faults
from page import NARROW, WIDE, Inspector, messages, shot
from servers import Told, llama_server, told_server

from inspector.sources import resolve_model

pytestmark = pytest.mark.browser
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
MODEL_MS = 60_000


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    with llama_server(resolve_model("smollm2").files[0].path, 256) as address:
        yield address


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """A vLLM that lists three tokens at most, scores no prompt right, and has no /tokenize."""
    with told_server() as server:
        tops = [{504: 0.5, 60: 0.25, 198: 0.125}, {504: 0.25, 28: 0.5, 198: 0.0625}]

        def complete(body: Any) -> Any:
            if body.get("logprobs") not in range(1, 4):
                return 400, {}, b'{"error": {"message": "logprobs: max allowed: 3"}}'
            top = {f"token_id:{k}": math.log(p) for k, p in tops[len(body["prompt"]) % 2].items()}
            return {"choices": [{"index": 0, "text": "x", "logprobs": {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [top]}}]}  # fmt: skip

        server.answers.update({"/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 512}]}, "/v1/completions": complete})  # fmt: skip
        yield server


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    """Two panes of the servers' own tokenizer, with two templates of which the second is one token longer or shorter."""
    opened = Inspector(browser, address)
    for pane, template in ((0, ""), (1, "chatml")):
        opened.choose(f"tokenizer{pane}", "smollm2")
        opened.choose(f"template{pane}", template)
    opened.type_in("messages", messages("What is the capital of France?"))
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def wait(bench: Any, condition: str) -> None:
    bench.page.wait_for_function(f"() => {condition}", timeout=MODEL_MS)


def name_server(bench: Any, url: str) -> None:
    bench.page.select_option('[data-in="logits_backend"]', "other")
    bench.page.fill('[data-in="logits_server"]', url)
    bench.page.press('[data-in="logits_server"]', "Enter")


def test_a_typed_server_answers_and_what_it_lacks_is_disabled_with_the_reason(bench: Any, llama: str) -> None:
    page = bench.page
    page.evaluate(f"() => {{ {BENCH}.state.logitsBusy = true; }}")  # this machine's model is not asked here
    bench.open("logits")
    page.evaluate(f"() => {{ {BENCH}.state.logitsBusy = false; }}")
    for wrong, said in (
        ("http://127.0.0.1:9", "no connection"),
        ("http://a:hunter2@127.0.0.1:9", "INSPECTOR_BACKEND_KEY"),
    ):
        name_server(bench, wrong)
        wait(bench, f"document.querySelector('.ti-serverbox .ti-err').textContent.includes('{said}')")
        assert page.input_value('[data-in="logits_server"]') == wrong
    assert "hunter2" not in page.evaluate(f"() => JSON.stringify({BENCH}.capture())")
    name_server(bench, llama)
    wait(bench, "document.querySelector('.ti-logits')")
    facts = page.inner_text(".ti-serverbox")
    assert "llama.cpp" in facts and "Q4_1.gguf" in facts and "window 256" in facts and "✗ no surprise" in facts
    side = page.inner_text(".ti-sideline >> nth=0")
    assert "on llama.cpp, Q4_1" in side and "server " in side
    top = " ".join(page.locator(".ti-logits tr").all_inner_texts()[1:4])
    assert "The" in top and "L" in top and "nats" in page.inner_text(".ti-distance")
    assert page.is_disabled('[data-in="logits_dtype"]')
    heat = page.locator(".ti-part-heat")
    heat.locator("summary").click()
    assert "llama.cpp gives no log-probabilities of a prompt" in heat.inner_text()
    assert page.locator(".ti-modelparts fieldset:disabled").count() == 1 == heat.locator("fieldset:disabled").count()
    page.locator(".ti-part-sampler summary").click()
    page.locator(".ti-sampled").wait_for(timeout=MODEL_MS)
    page.locator(".ti-part-sampler summary").click()
    page.evaluate("() => document.querySelector('.ti-panel').scrollTo(0, 0)")
    page.screenshot(path=shot("server_llama"))


def test_a_list_of_tokens_gives_bounds_the_missing_mass_and_a_note(bench: Any, told: Told) -> None:
    page = bench.page
    name_server(bench, told.url)
    wait(bench, "document.querySelector('.ti-distance') && document.querySelector('.ti-distance').textContent.includes('not listed')")  # fmt: skip
    said = page.inner_text(".ti-distance")
    assert "…" in said and "∞" in said and "%" in said
    assert "was not compared" in page.inner_text(".ti-sideline >> nth=0")
    assert page.locator(".ti-part-sampler fieldset:disabled").count() == 1
    assert "lists its most probable ones only" in str(page.text_content(".ti-part-sampler"))
    page.evaluate("() => document.querySelector('.ti-panel').scrollTo(0, 0)")
    page.screenshot(path=shot("server_listed"))
    add_axe(page)
    for theme in ("light", "dark"):
        assert faults(page) == [], theme
        page.click('[data-act="dark"]')


def test_a_link_that_names_a_server_sends_it_nothing_until_it_is_asked(
    bench: Any, told: Told, browser: Any, address: str
) -> None:
    state = bench.page.evaluate(f"() => {BENCH}.capture()")
    assert state["inputs"]["backend"] == told.url and state["view"] == "logits"
    fragment = bench.page.evaluate("async (text) => { const { readable, writable } = new CompressionStream('deflate-raw'), out = new Response(readable).arrayBuffer(), writer = writable.getWriter(); writer.write(new TextEncoder().encode(text)); writer.close(); return btoa(String.fromCharCode(...new Uint8Array(await out))).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''); }", json.dumps(state))  # fmt: skip
    told.asked.clear()
    opened = Inspector(browser, address, viewport=NARROW)
    page = opened.page
    page.goto("about:blank")
    page.goto(address + "#state=" + fragment)
    page.locator(".ti-nexthost", has_text="nothing was sent to it").wait_for()
    assert told.asked == [] and page.input_value('[data-in="logits_server"]') == told.url
    assert page.locator(".ti-modelparts fieldset:disabled").count() == 4
    page.click('[data-act="language"]')
    page.click('[data-act="dark"]')
    page.locator(".ti-nexthost", has_text="尚未向它发送").wait_for()
    assert told.asked == []
    page.click(".ti-model .ti-logbar .ti-btn >> nth=0")
    page.wait_for_function("() => document.querySelector('.ti-distance')", timeout=MODEL_MS)
    assert "/v1/completions" in {path for path, *_ in told.asked}
    page.screenshot(path=shot("server_narrow_dark_zh"))
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    opened.context.close()
    assert opened.faults == []


def test_this_machine_is_chosen_again(bench: Any) -> None:
    page = bench.page
    page.set_viewport_size(WIDE)
    bench.type_in("messages", messages("Hi"))  # another prompt than other modules ask this machine about
    page.select_option('[data-in="logits_backend"]', "")
    assert page.is_enabled('[data-in="logits_dtype"]') and page.is_hidden('[data-in="logits_server"]')
    assert page.evaluate(f"() => {BENCH}.field('backend').value") == ""
