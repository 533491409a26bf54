"""Fixtures that several test modules share: the browser, the running page, and pages opened in it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from page import CHROMIUM_NAMES, ROOT, Inspector, unavailable, wait_for


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


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Any]:
    opened: list[Inspector] = []

    def opener(**context: Any) -> Inspector:
        opened.append(Inspector(browser, address, **context))
        return opened[-1]

    yield opener
    for inspector in opened:
        inspector.context.close()
        assert inspector.outside == [], "the page asked an outside server"
        assert inspector.faults == [], "the page's script failed"
