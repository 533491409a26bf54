"""Revisions, the template editor and the argument inputs, in Chromium against the running page and a loopback Hub."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe import add_axe, faults
from fake_hub import Repository, State, serve
from page import ANSWER_MS, HOSTILE, NARROW, ROOT, WIDE, Inspector, messages, shot, wait_for

from inspector.sources import resolve_template

pytestmark = pytest.mark.browser

LINES = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
OLD, NEW = LINES.encode(), (LINES + "{% if enable_thinking %}<think>{% endif %}").encode()
CONFIG = b'{"chat_template": [{"name": "default", "template": "' + HOSTILE[0].replace('"', '\\"').encode() + b'"}]}'
REPOSITORY = Repository([
    ("First", "2025-01-01T00:00:00.000Z", {"chat_template.jinja": OLD}),
    (HOSTILE[0], "2025-02-01T00:00:00.000Z", {"chat_template.jinja": NEW, "tokenizer_config.json": CONFIG}),
])  # fmt: skip


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The page of this module asks a Hub on the loopback; what it fetches stays in the cache by its hash, as all does."""
    with socket.socket() as probe, serve(State({"inspector-tests/chat": REPOSITORY})) as endpoint:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "HF_ENDPOINT": endpoint}
        for name in ("GRADIO_SERVER_NAME", "HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy",
                     "https_proxy"):  # fmt: skip
            environment.pop(name, None)
        app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{port}/", app)
            yield f"http://127.0.0.1:{port}/"
        finally:
            app.terminate()
            app.wait(20)


@pytest.fixture(scope="module")
def bench(browser: Any, address: str) -> Iterator[Inspector]:
    opened = Inspector(browser, address)
    yield opened
    assert opened.page.evaluate("() => window.pwned") is None
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


def test_the_parts_of_jinja_source_are_all_of_it_in_its_classes_and_in_linear_time(browser: Any) -> None:
    page = browser.new_page()
    scripts = [(ROOT / "inspector/ui/static" / f"{name}.js").read_text("utf-8") for name in ("core", "template_editor")]
    page.add_script_tag(content="\n".join(scripts))
    letters = random.Random(5)
    texts = [resolve_template(name).text for name in ("qwq-32b", "gpt-oss-120b", "llama-3.1-8b-instruct")]
    texts += ["".join(letters.choices("{}%#-'\"\\ \nraw end🦊é1.", k=60)) for _ in range(400)]
    texts += [
        opening + "{% raw %}{{ x }}{%- endraw -%}" for opening in ("", "{# {{ #}", "{{ '}}' }}", '{{ {"a": {}} }}')
    ]
    parts = page.evaluate("texts => texts.map((text) => jinjaParts(text))", texts)
    assert ["".join(piece for _cls, piece in found) for found in parts] == texts
    assert ["", "{{ x }}"] in parts[-4] and ["j-text", "'}}'"] in parts[-2] and ["j-note", "{# {{ #}"] in parts[-3]
    assert parts[-1][-1] == ["j-mark", "-%}"] and ["", "{{ x }}"] in parts[-1]
    slow = ["{{ " + "'\\" * 40_000, '{% "' + "\\'" * 40_000, "{{" + "{" * 80_000, "{# " * 30_000, "{% raw %}" * 10_000]
    assert page.evaluate("texts => { const start = performance.now(); for (const text of texts) partLines(jinjaParts(text)); return performance.now() - start; }", slow) < 5000  # fmt: skip
    page.close()


def reset(bench: Inspector) -> Any:
    """The example again, so that no test reads what another typed."""
    bench.page.click('[data-act="reset"]')
    bench.settle()
    return bench.page


def use(bench: Inspector, row: str, pane: str) -> None:
    bench.page.locator(".ti-head0 .ti-rev", has_text=row).get_by_role("button", name=f"for {pane}").click()
    bench.settle()


def test_revisions_of_a_preset_and_of_a_repository_can_be_used_in_any_pane(bench: Inspector) -> None:
    page = reset(bench)
    page.focus('.ti-head0 [data-do="revisions"]')
    page.keyboard.press("Enter")
    page.wait_for_selector(".ti-head0 .ti-rev")
    assert page.get_attribute('.ti-head0 [data-do="revisions"]', "aria-expanded") == "true"
    assert page.locator(".ti-head0 .ti-use[aria-pressed=true]").count() == 2  # each pane has one of the two
    use(bench, "Qwen-QwQ-32B@16488a", "A")
    assert bench.pane(0) == bench.pane(1) and page.input_value('[data-in="template0"]') == "qwq-32b@16488a"
    page.select_option('.ti-head0 [data-k="of"]', "hf:Qwen/QwQ-32B")
    page.wait_for_selector(".ti-head0 .ti-revs .ti-err")
    assert page.locator(".ti-head0 .ti-revs .ti-err").count() == 1
    page.locator('[data-in="template0"]').select_option(label="other reference…")
    bench.type_in("template_ref0", "hf:inspector-tests/chat")
    page.keyboard.press("Tab")
    page.wait_for_selector(".ti-head0 .ti-rev")
    listed = page.inner_text(".ti-head0 .ti-revs")
    assert HOSTILE[0] in listed and "2025-02-01" in listed and "chat_template.jinja: +" in listed
    assert "wins for tokenizer" in listed and "not used, differs from the one that wins" in listed
    use(bench, "First", "B")
    assert bench.pane(0)["text"].startswith("system: You are") and bench.pane(0)["text"] == bench.pane(1)["text"]
    page.screenshot(path=shot("revisions-wide-light"))
    use(bench, "not used, differs", "B")
    assert bench.pane(1)["text"] == HOSTILE[0]  # the template that does not win, as it is written there
    page.focus('.ti-head0 [data-k="of"]')
    page.keyboard.press("Escape")
    assert page.locator(".ti-head0 .ti-revs").is_hidden()
    assert page.evaluate("() => document.activeElement.dataset.do") == "revisions"


def test_an_edit_renders_as_it_is_typed_shows_its_error_and_is_kept_as_a_revision(bench: Inspector) -> None:
    page, area = reset(bench), bench.page.locator('[data-in="template_source0"]')
    origin = bench.pane(0)["text"]
    bench.edit_template(0)
    assert area.evaluate("node => node === document.activeElement") and area.input_value().startswith("{%- if tools %}")
    assert page.locator(".ti-tpl .ti-ln.ran").count() and page.locator(".ti-tpl .ti-ln.idle").count()
    page.keyboard.type("HEAD\n")
    bench.settle()
    assert bench.pane(0)["text"] == "HEAD" + origin and "edited from qwq-32b@current" in page.inner_text(
        ".ti-tpl >> nth=0"
    )
    page.keyboard.press("Tab")
    assert area.input_value().startswith("HEAD\n  {%- if tools %}")
    page.keyboard.press("Control+Z")
    page.click('.ti-tpl >> nth=0 >> [data-do="diff"]')
    page.wait_for_selector(".ti-diffrow")
    assert page.locator(".ti-diffrow.ti-dadd").all_inner_texts() == ["\t1\t+\tHEAD"]
    page.screenshot(path=shot("template-edit-wide-light"))
    page.click('.ti-tpl >> nth=0 >> [data-do="reset"]')
    bench.settle()
    assert bench.pane(0)["text"] == origin and page.input_value('[data-in="template0"]') == "qwq-32b@current"
    page.keyboard.press("Control+Z")  # resetting was typed, so it can be taken back
    bench.settle()
    assert bench.pane(0)["text"] == "HEAD" + origin

    bench.type_in(
        "template_source0", "one\n{% for m in messages %}\n{{ raise_exception('no') if loop.index0 == 2 }}{% endfor %}"
    )
    said = page.inner_text(".ti-tplerr >> nth=0")
    assert "line 3" in said and "messages[2]" in said and page.locator(".ti-tpl .ti-lnwrong").count() == 1
    page.screenshot(path=shot("template-error-wide-light"))
    page.get_by_role("button", name="go to line 3").click()
    assert area.evaluate("node => node.value.slice(node.selectionStart, node.selectionEnd)").startswith("{{ raise_exc")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not area.evaluate("node => node === document.activeElement")

    bench.type_in("template_source0", "{{ messages[1].content }}{# " + HOSTILE[1] + " #}")
    page.click('.ti-tpl >> nth=0 >> [data-do="save"]')
    page.fill(".ti-saverow input >> nth=0", f"mine {HOSTILE[0]}")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('[data-in=template0]').value.includes('saved')", timeout=ANSWER_MS
    )
    digest = bench.page.evaluate("() => document.querySelector('#bench .ti').parentNode.bench.state.own.panes[0].template.digest")  # fmt: skip
    label = page.evaluate("() => document.querySelector('[data-in=template0]').selectedOptions[0].textContent")
    assert label == f"mine {HOSTILE[0]} · {digest[:8]}"
    page.locator('[data-in="template1"]').select_option(label=label)
    bench.settle()
    assert bench.pane(1)["text"] == bench.pane(0)["text"] == "What is 17 × 23? 🧮"
    with page.expect_download() as started:
        page.click('.ti-tpl >> nth=1 >> [data-do="download"]')
    assert started.value.suggested_filename.endswith(".jinja")
    assert Path(started.value.path()).read_text("utf-8") == area.input_value()
    bench.type_in("template_source1", "a draft that is not kept: {{ messages[0].content }}")
    page.reload()
    bench.settle()
    assert [bench.pane(q)["text"] for q in (0, 1)] == [
        "What is 17 × 23? 🧮",
        "a draft that is not kept: You are a helpful assistant.",
    ]
    assert page.evaluate("() => document.querySelector('[data-in=template0]').selectedOptions[0].textContent") == label


def test_a_pane_may_have_its_own_arguments_profile_and_engine(bench: Inspector) -> None:
    page = reset(bench)
    bench.choose("template1", "qwq-32b@current")
    assert bench.pane(0) == bench.pane(1)
    page.click('.ti-head1 [data-do="options"]')
    page.click('.ti-head1 [data-arg="enable_thinking"]')
    bench.settle()
    assert page.input_value('[data-in="pane_arguments1"]') == '{"enable_thinking": true}'
    assert page.input_value('[data-in="arguments"]') == "" and bench.pane(0)["text"] != bench.pane(1)["text"]
    bench.type_in("pane_arguments1", "{ no")
    assert bench.error("pane_arguments1") and not bench.error("pane_arguments0")
    bench.type_in("pane_arguments1", "")
    bench.choose("pane_engine1", "minijinja")
    assert page.inner_text('.ti-head1 [data-do="options"]') == "More (1)"
    assert bench.pane(0)["text"] == bench.pane(1)["text"] or bench.error("template1")
    bench.choose("pane_engine1", "")
    bench.choose("pane_profile1", "openai")
    assert bench.pane(1)["text"] == bench.pane(0)["text"]
    page.click('.ti-head1 [data-do="options"]')


def test_a_template_that_never_rendered_can_be_read_and_mended(bench: Inspector) -> None:
    page = reset(bench)
    bench.type_in("messages", messages("first", "second"))
    bench.choose("template0", "")
    bench.choose("tokenizer0", "gemma2")
    bench.type_in("messages", '[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]')
    assert bench.error("template0")
    bench.edit_template(0)
    page.wait_for_function(
        "() => document.querySelector('[data-in=template_source0]').value.includes('raise_exception')"
    )
    text = page.input_value('[data-in="template_source0"]')
    bench.type_in("template_source0", text.replace("raise_exception(", "("))
    assert bench.error("template0") == "" and "edited from gemma2" in page.inner_text(".ti-tpl >> nth=0")
    page.click('.ti-tpl >> nth=0 >> [data-do="empty"]')
    bench.settle()
    page.keyboard.insert_text("{{ messages[0].content }}|")
    bench.settle()
    assert bench.pane(0)["text"] == "s|"
    page.click(".ti-editswitch")


def test_argument_inputs_follow_the_templates_and_write_into_the_json(bench: Inspector) -> None:
    page = reset(bench)
    asked = page.locator('.ti-fields [data-arg="enable_thinking"]')
    assert asked.evaluate("node => node.indeterminate") and "not given: false" in page.inner_text(".ti-args")
    before = bench.pane(0)["text"]
    asked.focus()
    page.keyboard.press("Space")
    bench.settle()
    assert page.input_value('[data-in="arguments"]') == '{"enable_thinking": true}' and bench.pane(0)["text"] != before
    bench.type_in("arguments", '{\n  "nobody": 1e2,\n  "enable_thinking": true\n}')
    assert asked.is_checked() and "No template here reads nobody" in page.inner_text(".ti-args")
    asked.click()
    bench.settle()
    assert page.input_value('[data-in="arguments"]') == '{\n  "nobody": 1e2,\n  "enable_thinking": false\n}'
    asked.click()
    bench.settle()
    assert page.input_value('[data-in="arguments"]') == '{\n  "nobody": 1e2\n}' and bench.pane(0)["text"] == before
    page.keyboard.press("Control+Z")  # what an input wrote is undone as what is typed there
    bench.settle()
    assert page.input_value('[data-in="arguments"]').endswith('"enable_thinking": false\n}')
    bench.type_in("arguments", "{enable_thinking: true, /* JSON5 */}")
    assert asked.is_checked()
    asked.click()
    asked.click()
    bench.settle()
    assert page.input_value('[data-in="arguments"]') == ""
    bench.type_in("arguments", "{ not JSON")
    assert asked.is_disabled() and page.input_value('[data-in="arguments"]') == "{ not JSON"
    bench.type_in("arguments", "")

    bench.paste_template(
        0,
        "{% if mood == 'calm' or mood == 'wild' %}{{ mood }}{% endif %} {{ date_string | default('today') }}{% if list_of is defined %}{% for t in list_of %}{{ t }}{% endfor %}{% endif %}",
    )
    assert page.locator('.ti-fields [data-arg="mood"] option').all_inner_texts()[1:] == ["calm", "wild"]
    page.select_option('.ti-fields [data-arg="mood"]', label="wild")
    page.fill('.ti-fields [data-arg="date_string"]', f'{HOSTILE[0]} "q"')
    page.fill('.ti-fields [data-arg="list_of"]', '[1, "x"')
    assert "Write a JSON list" in page.inner_text(".ti-args")
    page.fill('.ti-fields [data-arg="list_of"]', '[1, "x"]')
    bench.settle()
    assert bench.pane(0)["text"] == f'wild {HOSTILE[0]} "q"1x'
    page.screenshot(path=shot("arguments-wide-light"))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_editor_and_the_revisions_fit_the_screen(open_page: Any, size: dict[str, int]) -> None:
    bench = open_page(viewport=size, color_scheme="dark")
    page, name = bench.page, "wide" if size is WIDE else "narrow"
    page.evaluate("() => document.body.classList.add('dark')")
    page.click('.ti-head0 [data-do="revisions"]')
    page.click('.ti-head1 [data-do="options"]')
    page.wait_for_selector(".ti-head0 .ti-rev")
    bench.edit_template(1)
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    for node in page.locator(".ti-tpl, .ti-head0 .ti-revs, .ti-head1 .ti-paneopts").all():
        box = node.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= size["width"] + 1
    page.screenshot(path=shot(f"template-{name}-dark"), full_page=True)
    add_axe(page)
    assert not faults(page)
