"""The Media tab in a real Chromium: hidden without media, facts of each image, what does not go together, what counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from page import ANSWER_MS, NARROW, WIDE, shot
from pictures import data_url, picture

from inspector.pipeline import inspect

pytestmark = pytest.mark.browser


def test_the_media_tab_says_who_each_image_is_and_what_it_takes(open_page: Any) -> None:
    bench = open_page()
    page = bench.page
    assert page.locator('[data-view="media"]').is_hidden() and page.locator('[data-in="media"]').is_hidden()
    chat = [{"role": "user", "content": [
        {"type": "image", "image": data_url(picture((300, 200)))},
        {"type": "text", "text": "a <|image_pad|> and"},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}},
        {"type": "image", "image": data_url(b"nothing")},
    ]}]  # fmt: skip
    bench.type_in("messages", json.dumps(chat))
    for pane in (0, 1):
        bench.choose(f"tokenizer{pane}", "qwen3")
        bench.choose(f"template{pane}", ("trl-qwen3-vl@current", "chatml")[pane])
    bench.open("media")
    panel = page.locator(".ti-panel")
    text = panel.inner_text()
    for words in ("Qwen3-VL", "320×224", "14×20 patches", "a URL is no identity", "not identified: a URL", "no image of a known format", "spells a placeholder", "this part has none"):  # fmt: skip
        assert words in text, words
    before = len(bench.pane(0)["ids"])
    page.click('.ti-panel [data-choice="expanded"]')
    bench.settle()
    assert "messages[0].content[3].image: the bytes are no image" in bench.error("messages")
    bench.type_in("messages", json.dumps([{"role": "user", "content": chat[0]["content"][:2]}]))
    page.wait_for_function(
        "n => document.querySelector('#bench .ti').parentNode.bench.state.panes[0].ids.length > n",
        arg=before,
        timeout=ANSWER_MS,
    )
    expected = inspect([{"role": "user", "content": chat[0]["content"][:2]}], tokenizer="qwen3",
                       template="trl-qwen3-vl", media="expanded")  # fmt: skip
    assert bench.pane(0)["ids"] == expected.encoding.input_ids.tolist()
    page.locator(".ti-panel details summary").first.click()
    assert "Pillow" in panel.inner_text() and "bicubic; mean 0.5, 0.5, 0.5" in panel.inner_text()
    page.screenshot(path=shot("media_wide"))
    page.fill('[data-in="media_tokens"]', "9")
    bench.settle()
    assert len(bench.pane(0)["ids"]) == len(expected.encoding) - 70 + 9 and "estimate" in panel.inner_text()
    page.click('[data-act="language"]')
    page.click('[data-act="dark"]')
    page.set_viewport_size(NARROW)
    page.wait_for_timeout(300)
    page.screenshot(path=shot("media_narrow_dark_zh"))
    assert "估计" in panel.inner_text() and page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size(WIDE)
    page.click('[data-act="language"]')
    page.locator(".ti-panel .ti-media .ti-link").first.click()
    assert page.get_attribute('[aria-selected="true"]', "data-view") == "tokens"
    bench.type_in("messages", '[{"role": "user", "content": "hi"}]')
    assert page.locator('[data-view="media"]').is_hidden()
