"""What the page's editors may ask the server, through a sandbox child as the page does."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from inspector import service
from inspector.limits import LOCAL
from inspector.request import parse_fields
from inspector.ui.editing import paste

SESSION = "0" * 32
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]}


def answer(text: Any) -> dict[str, Any]:
    return json.loads(paste({"session": SESSION, "text": text}))


def test_a_body_comes_back_as_the_editors_texts_and_plain_messages_as_nothing() -> None:
    found = answer(json.dumps(BODY))
    assert found["error"] is None and found["pasted"]["form"] == "json" and found["pasted"]["shape"] == "openai"
    request = parse_fields(**found["pasted"]["fields"])
    assert (request.messages, request.tools) == (BODY["messages"], BODY["tools"])
    assert {"what": "dropped", "name": "model", "to": ""} in found["pasted"]["notes"]
    assert answer(json.dumps(BODY["messages"])) == {"pasted": None, "error": None}


def test_a_lone_surrogate_reaches_the_page_as_an_escape() -> None:
    raw = paste({"session": SESSION, "text": "[{'role': 'user', 'content': '\\ud800', 'x': None}]"})
    assert "\\ud800" in raw and raw.isascii()
    assert "\ud800" in json.loads(raw)["pasted"]["fields"]["messages"], "the parser then names its place"


def test_an_error_names_line_and_column() -> None:
    wrong = answer("[\n{'role': f'{x}', 'y': None}]")
    assert wrong["pasted"] is None and wrong["error"].startswith("line 2, column 10: an f-string is not a literal")


@pytest.mark.parametrize("request_", [{"session": SESSION}, {"session": "x", "text": ""}, None, {"session": SESSION, "text": 3}])  # fmt: skip
def test_a_request_that_no_page_of_ours_sends_is_refused(request_: Any) -> None:
    assert "malformed" in json.loads(paste(request_))["error"]


@pytest.mark.parametrize("text", ["x" * (LOCAL.request_bytes + 1), "(" * 100_000, "[{'role':" + "-" * 50_000 + "1}]", "messages = " + "[" * 190 + "]" * 190])  # fmt: skip
def test_hostile_texts_end_in_one_line_and_leave_the_child_alive(text: str) -> None:
    found = answer(text)
    assert found["pasted"] is None and found["error"] and "\n" not in found["error"]
    assert answer(json.dumps(BODY))["pasted"] is not None


def test_the_job_runs_in_a_child_of_its_own_too() -> None:
    reply = service.sandbox().call("paste", pickle.dumps(json.dumps(BODY)))
    assert json.loads(reply)["pasted"]["fields"]["tools"].startswith("[")
