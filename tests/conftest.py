"""Fixtures that several test modules share: the browser, the running page, pages opened in it, and a model repository."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page import CHROMIUM_NAMES, ROOT, WIDE, Inspector, unavailable, wait_for

# The files that take longest, the longest first: begun last, one of them would leave the other process with nothing to do.
LONG = (
    "browser", "browser_links", "logits", "cli", "browser_access", "stages", "tokenizers", "tokenizers_families", "faults",
    "browser_panes", "browser_gallery", "browser_states", "attacks", "soak", "sandbox", "attacks_page", "verdict", "decode",
    "reasons", "public_page", "tokenizers_mistral", "scan_ray", "browser_model", "browser_template", "browser_tools",
    "vocabularies", "engines", "sources", "sources_contract", "browser_editor", "browser_training", "backends_openai",
    "browser_server", "browser_pure", "public", "scan", "share", "browser_dataset", "api", "reading", "recipes", "control",
)  # fmt: skip
# In these files the tests of one tokenizer follow each other: loading it is half of their time, and few are kept.
BY_TOKENIZER = ("stages", "tokenizers", "tokenizers_families", "tokenizers_mistral", "decode")
# Threads of torch that share a core with another process spend most of their time waiting for each other.
if others := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // others)))

TEXTS = ["Be brief. When is high tide? At noon. Where? user assistant system"] * 4
TEMPLATE = (
    """{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ strftime_now('%d %b %Y') }}"""
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files; within a file, and among the others, the order stays, or is that of the tokenizers."""
    places = {f"test_{name}": place for place, name in enumerate(LONG)}
    grouped = {f"test_{name}" for name in BY_TOKENIZER}
    tokenizers: dict[Any, int] = {}

    def place(item: pytest.Item) -> tuple[int, int]:
        given = getattr(item, "callspec", None)
        params = given.params if given and item.path.stem in grouped else {}
        name = params.get("ref") or getattr(item.module, "FAMILY", {}).get(params.get("family"))  # type: ignore[attr-defined]
        return places.get(item.path.stem, len(places)), tokenizers.setdefault(name, len(tokenizers)) if name else -1

    items.sort(key=place)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model repository with a tokenizer that was trained here, in its three files."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    place = tmp_path / "mine"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": 4096,
    }
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    return place


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = (
        pytest.importorskip("playwright.sync_api")
        if os.environ.get("CI") != "true"
        else __import__("playwright.sync_api").sync_api
    )
    installed = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    with sync_api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        except sync_api.Error as error:
            unavailable(f"no Chromium can be started ({str(error).splitlines()[0]}): run make test, which installs one")
        yield found
        found.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port)}
    environment.pop("GRADIO_SERVER_NAME", None)
    app = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for(url, app)
        yield url
    finally:
        app.terminate()
        app.wait(20)


@pytest.fixture(scope="session")
def ordinary_context(browser: Any) -> Iterator[Any]:
    """A context that tests follow each other in: the page's script and styles are read once."""
    context = browser.new_context(viewport=WIDE, locale="en-US")
    yield context
    context.close()


def clear_context(context: Any) -> None:
    """Leave nothing of what its pages kept."""
    for page in context.pages:
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        page.close(run_before_unload=False)
    context.clear_cookies()


BENCH = "document.querySelector('#bench .ti').parentNode.bench"


class Kept:
    """A page that the tests of a module follow each other in: a page that opens takes as long as many tests together."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address
        self.inspector: Inspector | None = None
        self.first: Any = None

    def again(self) -> Inspector:
        """Give the page as it was at first; a new one if that one is not to be had back, after a test that failed."""
        if self.inspector is None or not self._put_back(self.inspector):
            self.close()
            self.inspector = Inspector(self.browser, self.address)
            self.first = self.inspector.page.evaluate(f"() => {BENCH}.capture()")
        return self.inspector

    def _put_back(self, inspector: Inspector) -> bool:
        page = inspector.page
        page.mouse.move(0, 0)
        page.set_viewport_size(WIDE)
        page.evaluate(
            """() => { for (const [name, is] of [['dark', document.body.classList.contains('dark')], ['language', document.documentElement.lang !== 'en']])
            if (is) document.querySelector('[data-act="' + name + '"]').click(); }"""
        )
        page.evaluate(
            f"""state => {{ localStorage.clear(); sessionStorage.clear();
            {BENCH}.apply(state); document.activeElement.blur(); scrollTo(0, 0); }}""",
            self.first,
        )
        inspector.settle()
        return bool(page.evaluate(f"() => {BENCH}.capture()") == self.first and not page.query_selector("dialog[open]"))

    def close(self) -> None:
        if self.inspector is not None:
            self.inspector.context.close()
            self.inspector = None


@pytest.fixture(scope="module")
def kept(browser: Any, address: str) -> Iterator[Kept]:
    page = Kept(browser, address)
    yield page
    page.close()


@pytest.fixture
def bench(kept: Kept) -> Iterator[Inspector]:
    """The module's page as it was at first, for tests that neither look at a visitor's beginning nor put anything in the
    place of the page's own functions. Others take `open_page`."""
    inspector = kept.again()
    try:
        yield inspector
        assert inspector.outside == [], "the page asked an outside server"
        assert inspector.faults == [], "the page's script failed"
    finally:
        inspector.outside.clear()
        inspector.faults.clear()


@pytest.fixture
def open_page(browser: Any, address: str, ordinary_context: Any) -> Iterator[Any]:
    opened: list[Inspector] = []

    def opener(**context: Any) -> Inspector:
        within = None if opened or context else ordinary_context  # a second page is another visitor's
        opened.append(Inspector(browser, address, within=within, **context))
        return opened[-1]

    yield opener
    for inspector in opened:
        if inspector.context is ordinary_context:
            clear_context(ordinary_context)
        else:
            inspector.context.close()
        assert inspector.outside == [], "the page asked an outside server"
        assert inspector.faults == [], "the page's script failed"
