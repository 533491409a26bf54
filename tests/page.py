"""The page as a person uses it, for the browser tests: Chromium, and a class that knows the page's fields and tabs."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SHOTS = ROOT / "test-artifacts"
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
ANSWER_MS = 60_000  # the first answer loads a tokenizer
HOSTILE = (
    "<img src=x onerror=\"window.pwned='img'\">",
    "</script><script>window.pwned='script'</script>",
    "${window.pwned='dollar'}",
    "`${(() => { window.pwned = 'tick' })()}`",
    "{{constructor.constructor('window.pwned=1')()}}",
    "\"><svg onload=window.pwned='svg'>",
)


def unavailable(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def wait_for(url: str, app: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if app.poll() is not None:
            pytest.fail(f"app.py ended with {app.returncode}: {app.stdout.read().decode() if app.stdout else ''}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail("app.py did not answer within 60 s")


class Inspector:
    """The page as a person uses it, with what it must not do recorded."""

    def __init__(self, browser: Any, address: str, *, within: Any = None, **context: Any) -> None:
        """Open the page in a context of its own, or `within` one that is there: what that has cached loads sooner."""
        self.outside: list[str] = []
        self.faults: list[str] = []
        self.context = within or browser.new_context(**{"viewport": WIDE, "locale": "en-US", **context})
        self.page = self.context.new_page()
        self.page.route("**/*", self._only(address))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.page.goto(address)
        self.settle()

    def _only(self, address: str) -> Any:
        def handle(route: Any) -> None:
            url = route.request.url
            if url.startswith((address, "data:", "blob:")):
                route.continue_()
            else:
                self.outside.append(url)
                route.abort()

        return handle

    def settle(self) -> None:
        """Wait until the last input has been answered."""
        self.page.wait_for_function("() => { const b = document.querySelector('#bench .ti'); return b && b.dataset.ready === '1' && !b.parentNode.bench.inFlight && !b.parentNode.bench.dirty && !b.parentNode.bench.comparing; }", timeout=ANSWER_MS)  # fmt: skip

    def type_in(self, name: str, text: str) -> None:
        self.page.fill(f'[data-in="{name}"]', text)
        self.settle()

    def choose(self, name: str, value: str) -> None:
        self.page.select_option(f'[data-in="{name}"]', value)
        self.settle()

    def paste_template(self, pane: int, text: str) -> None:
        """Put a template into a pane's editor, and go back to the tab that was open, its lines read-only."""
        view = self.page.get_attribute('.ti-tab[aria-selected="true"]', "data-view")
        self.edit_template(pane)
        self.type_in(f"template_source{pane}", text)
        self.page.click(".ti-editswitch")
        self.open(str(view))

    def edit_template(self, pane: int) -> None:
        self.page.click(f'.ti-head{pane} [data-do="edit"]')

    def open(self, view: str) -> None:
        self.page.click(f'[data-view="{view}"]')

    def pane(self, number: int) -> dict[str, Any]:
        """What the page holds of a pane: ids and text."""
        return self.page.evaluate("q => { const p = document.querySelector('#bench .ti').parentNode.bench.state.panes[q]; return {ids: Array.from(p.ids), text: p.text(0, p.bytes.length)}; }", number)  # fmt: skip

    def error(self, name: str) -> str:
        """The error under the field that holds the input `name`; "" if none is shown."""
        node = self.page.locator(".ti-field", has=self.page.locator(f'[data-in="{name}"]')).locator(".ti-err")
        return node.inner_text() if node.is_visible() else ""

    def card(self) -> str:
        return self.page.inner_text(".ti-card")


def messages(*contents: str) -> str:
    roles = ("user", "assistant")
    return json.dumps([{"role": roles[k % 2], "content": text} for k, text in enumerate(contents)], ensure_ascii=False)


def shot(name: str) -> str:
    SHOTS.mkdir(exist_ok=True)
    return str(SHOTS / f"{name}.png")
