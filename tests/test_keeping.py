"""What stays in the web process of calls that are over: nothing, by whichever way they came."""

from __future__ import annotations

import gc
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
import pytest
from starlette.testclient import TestClient

from inspector.ui import html, layout

CALLS = 5
SETTLED_S = 10.0
# Refused before a child is needed: what is looked at here is what comes before and after.
GIVEN = {"request": "[]", "tokenizer": "no-such-preset"}
SPOKEN = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inspect", "arguments": GIVEN}}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """The page's server in this process, its start included."""
    page, settings = layout.build(), layout.launch_settings()
    app = gr.routes.App.create_app(page, app_kwargs=settings["app_kwargs"], mcp_server=True)
    with TestClient(app) as made:
        made.get("/gradio_api/startup-events")  # as the launch does, in the loop of the server
        yield made


def queued(client: TestClient) -> Any:
    event = client.post("/gradio_api/call/v2/inspect", json=GIVEN).json()["event_id"]
    return client.get(f"/gradio_api/call/v2/inspect/{event}").text


def joined(client: TestClient) -> Any:
    own = secrets.token_hex(6)
    call = {"data": [*GIVEN.values()], "fn_index": 0, "session_hash": own}
    assert client.post("/gradio_api/queue/join", json=call).status_code == 200
    return client.get(f"/gradio_api/queue/data?session_hash={own}").text


def direct(client: TestClient) -> Any:
    call = {"data": [*GIVEN.values()], "session_hash": secrets.token_hex(6)}
    return client.post("/gradio_api/run/inspect", json=call).text


def spoken(client: TestClient) -> Any:
    accept = {"Accept": "application/json, text/event-stream"}
    return client.post("/gradio_api/mcp/", json=SPOKEN, headers=accept).text


@pytest.mark.parametrize("way", [queued, joined, direct, spoken])
def test_a_call_that_is_over_leaves_nothing(client: TestClient, way: Callable[[TestClient], Any]) -> None:
    assert "no-such-preset" in way(client), way(client)
    before = settled(client)
    for _ in range(CALLS):
        way(client)
    grown = settled(client) - before
    assert all(number < CALLS for number in grown.values()), grown  # a task of the last call may not have ended yet


def settled(client: TestClient) -> Counter[type]:
    """Count the objects of Gradio and of ours when nothing is under way; what is known of clients is then nothing."""
    app: Any = client.app
    queue = app.get_blocks()._queue
    gate = next(layer for layer in layers(app.middleware_stack) if hasattr(layer, "_streams"))
    known = {
        name: getattr(owner, name)
        for owner, names in (
            (queue, ("event_analytics", "event_ids_to_events", "pending_event_ids_session", "pending_messages_per_session")),
            (app, ("iterators", "iterators_to_reset")),
            (app.state_holder, ("session_data", "time_last_used")),
            (gate, ("_streams", "_requests", "_bytes", "_sending", "_joined", "_unread")),
            (gate.admission, ("_waiting", "_lanes", "_running")),
        )
        for name in names
    }  # fmt: skip
    deadline = time.monotonic() + SETTLED_S
    while any(known.values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(known.values()), {name: value for name, value in known.items() if value}
    gc.collect()
    return Counter(
        each for each in map(type, gc.get_objects()) if str(each.__module__).startswith(("gradio.", "inspector."))
    )


def layers(app: Any) -> Iterator[Any]:
    while app is not None:
        yield app
        app = getattr(app, "app", None)


def test_no_word_of_the_script_is_an_attribute_of_the_page(client: TestClient) -> None:
    """Gradio would take it for an event, and look through the whole script each time that it writes the settings down."""
    app: Any = client.app
    bench = next(block for block in app.get_blocks().blocks.values() if isinstance(block, html.Bench))
    assert re.search("""['"]inputs['"]""", bench.js_on_load) and not hasattr(bench, "inputs")
    json.dumps(bench.get_config())
