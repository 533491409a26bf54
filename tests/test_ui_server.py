"""The page's choice of a model server, without a browser: who may name one, what is said of it, and what never leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Told, told_server

from inspector.backends.endpoint import KEY_VARIABLE, LIST_VARIABLE
from inspector.errors import InspectorError
from inspector.ui import calls, layout, model

SESSION, KEY = "5" * 32, "sk-test-9a77"
PANE = {"tokenizer": "smollm2", "template": "", "template_name": "", "arguments": "", "clock": "", "profile": "transformers",
        "context_window": "", "max_new_tokens": "", "policy": "messages"}  # fmt: skip
FIELDS = {"messages": '[{"role": "user", "content": "Hi"}]', "tools": "", "documents": "", "arguments": ""}
QUESTIONS = (model.verdict, model.heat, model.sampler, model.walk, model.whatif, model.model_server)
NAMED = {"data": [{"id": "m", "owned_by": "sglang", "max_model_len": 4096}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.delenv(LIST_VARIABLE, raising=False)
    with told_server() as told:
        told.answers["/v1/models"] = NAMED
        yield told


def ask(function: Any, url: Any) -> dict[str, Any]:
    request = {
        "session": SESSION,
        "fields": FIELDS,
        "panes": [PANE],
        "tokens": 1,
        "limit": 1,
        "model": "m",
        "backend": url,
    }
    return json.loads(function(request))


def test_a_page_for_others_asks_only_what_its_operator_listed(server: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_own_machine", False)
    for listed in ("", "https://models.example/v1", f"{server.url}/other"):
        monkeypatch.setenv(LIST_VARIABLE, listed)
        for function in QUESTIONS:
            for url in (
                server.url,
                server.url + "/v1",
                server.url.replace("127.0.0.1", "localhost"),
                "file:///etc/passwd",
            ):
                answer = ask(function, url)
                assert answer["kind"] == "OptionInvalid", (function.__name__, url, answer)
    assert server.asked == []
    monkeypatch.setenv(LIST_VARIABLE, server.url + "/v1")
    assert ask(model.model_server, server.url)["kind"] == "sglang" and [path for path, *_ in server.asked] == [
        "/v1/models"
    ]
    assert json.loads(layout.start_value())["servers"] == {"listed": [server.url], "typed": False}


def test_a_page_for_oneself_asks_any_server_and_says_what_it_can_give(
    server: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_own_machine", True)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    answer = ask(model.model_server, server.url)
    assert server.asked[0][1]["Authorization"] == f"Bearer {KEY}"
    assert answer == {
        "schema": "server/1", "kind": "sglang", "models": ["m"], "vocabulary": None, "window": 4096, "dtype": "unknown",
        "full_vocabulary": False, "prompt_logprobs": True, "error": None,
    }  # fmt: skip
    assert json.loads(layout.start_value())["servers"] == {"listed": [], "typed": True}
    assert KEY not in json.dumps(answer) + layout.start_value()
    server.answers["/locked/v1/models"] = (401, {}, b"{}")
    for function in (model.model_server, model.verdict):
        failed = json.dumps(ask(function, server.url + "/locked"))
        assert KEY_VARIABLE in failed and KEY not in failed


@pytest.mark.parametrize("url", [3, ["http://127.0.0.1:1"], "x" * 3000, "\ud800", "http://a:b@127.0.0.1", "no address"])
def test_what_is_no_address_is_an_error_value(url: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_own_machine", True)
    for function in (model.verdict, model.model_server):
        assert ask(function, url)["kind"] == "OptionInvalid"


def test_a_list_with_a_password_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIST_VARIABLE, "https://user:hunter2@models.example")
    with pytest.raises(InspectorError) as refused:
        layout.start_value()
    assert "hunter2" not in str(refused.value) + json.dumps(refused.value.to_dict())
