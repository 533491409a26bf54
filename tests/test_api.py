"""The named endpoints: gradio_client and curl get the command line's JSON, and errors as values."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from page import ROOT, unavailable
from typer.testing import CliRunner

from inspector import limits, schemas
from inspector.cli import app
from inspector.ui import api, calls

CHAT = [{"role": "user", "content": "When is high tide? 🌊"}]
CLOCK = "2026-01-31T09:30:00"
NAMES = ["/inspect", "/compare", "/lint", "/budget", "/next_token"]
# What a request may hold that a Python or JavaScript reader would change.
SPELLED = '{"chat_template_kwargs":{"n":1.50,"big":123456789012345678901234567890,"e":1E2},"messages":[{"role":"user","content":"é"}]}'
FILE = {"path": "/etc/hostname", "url": "http://127.0.0.1:9/x", "meta": {"_type": "gradio.FileData"}}


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    from gradio_client import Client

    made = Client(address, verbose=False)
    yield made
    made.close()


def ask(client: Any, name: str, **given: Any) -> dict[str, Any]:
    return json.loads(client.predict(**given, api_name=name))


def post(address: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask over plain HTTP: the client library would take some objects for files itself."""
    url, headers = f"{address}gradio_api/call/v2/{name}", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{url}/{event}", timeout=60) as stream:
        data = next(line for line in stream.read().decode().splitlines() if line.startswith("data: "))
    return json.loads(json.loads(data.removeprefix("data: "))[0])


def command_line(*arguments: str, given: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments], input=given)
    return json.loads(done.stdout_bytes.splitlines()[0])


def timeless(value: dict[str, Any]) -> dict[str, Any]:
    return {key: timeless(entry) if key in ("a", "b") else entry for key, entry in value.items() if key != "timings_ms"}


def test_the_listing_names_the_endpoints_with_their_types_and_nothing_of_the_page(client: Any) -> None:
    listed = client.view_api(return_format="dict", print_info=False)
    assert sorted(listed["named_endpoints"]) == sorted(NAMES) and listed["unnamed_endpoints"] == {}
    for endpoint in api.ENDPOINTS:
        shown = listed["named_endpoints"][f"/{endpoint.name}"]
        assert [each["parameter_name"] for each in shown["parameters"]] == [each.name for each in endpoint.parameters]
        assert all(each["type"] for each in shown["parameters"]) and shown["returns"][0]["type"]["type"] == "string"
        assert all(each["parameter_has_default"] for each in shown["parameters"])


def test_an_answer_is_what_the_command_line_prints(client: Any) -> None:
    given = json.dumps(CHAT)
    asked = ask(client, "/inspect", request=CHAT, tokenizer="qwen3", clock=CLOCK, context_window=20)
    told = command_line("inspect", "-", "--json", "--tokenizer", "qwen3", "--clock", CLOCK, "--context-window", "20", given=given)  # fmt: skip
    assert timeless(asked) == timeless(told) and asked["error"] is None and asked["input_ids"]
    jsonschema.validate(asked, schemas.schema("inspection/1"))
    sides = {"a": "bytes,chatml", "b": "bytes,raw"}
    asked = ask(client, "/compare", request=given, **sides, clock=CLOCK)
    told = command_line("compare", "-", "--json", "--a", sides["a"], "--b", sides["b"], "--clock", CLOCK, given=given)
    assert timeless(asked) == timeless(told) and asked["first_difference"]
    asked = ask(client, "/lint", request=CHAT, tokenizer="qwen3", clock=CLOCK)
    told = command_line("lint", "-", "--format", "json", "--tokenizer", "qwen3", "--clock", CLOCK, given=given)
    assert asked == {key: value for key, value in told.items() if key != "fail_on"} and asked["capabilities"]
    asked = ask(client, "/budget", request=CHAT, tokenizer="qwen3", clock=CLOCK, context_window=100)
    told = command_line("budget", "-", "--json", "--tokenizer", "qwen3", "--clock", CLOCK, "--context-window", "100", given=given)  # fmt: skip
    assert asked == told and asked["budget"]["kept"] == ["messages[0]"]


def test_numbers_stay_as_they_are_spelled_and_gradio_sees_no_file_in_a_request(client: Any) -> None:
    text = client.predict(request=SPELLED, tokenizer="bytes", api_name="/inspect")
    assert "1.50" in text and "123456789012345678901234567890" in text and "1E2" in text
    request = {"messages": [{**CHAT[0], **FILE}], "extra": FILE}
    found = post(client.src, "inspect", {"request": request, "tokenizer": "bytes", "template": "chatml"})
    assert found["error"] is None and found["request"]["messages"][0]["path"] == FILE["path"]
    assert found["request"]["extra"] == FILE


def test_a_brief_answer_is_short_and_says_what_was_cut(client: Any) -> None:
    long = [{"role": "user", "content": "tide " * 2000}]
    whole = ask(client, "/inspect", request=long, tokenizer="qwen3", clock=CLOCK)
    brief = ask(client, "/inspect", request=long, tokenizer="qwen3", clock=CLOCK, brief=True)
    assert brief["schema"] == "inspection-brief/1" and brief["num_tokens"] == len(whole["input_ids"])
    assert brief["rendered"]["cut"] and whole["rendered"]["text"].startswith(brief["rendered"]["text"])
    for key in ("counts", "tokenizer", "template", "findings", "error"):
        assert brief[key] == whole[key]
    assert len(json.dumps(brief)) < 12_000
    both = ask(client, "/compare", request=long, a="bytes,chatml", b="bytes,raw", brief=True)
    assert both["schema"] == "comparison-brief/1" and both["a"]["num_tokens"] and "token_diff" not in both
    failed = ask(client, "/inspect", request=CHAT, template_text="{% if", tokenizer="bytes", brief=True)
    assert failed["num_tokens"] is None and failed["error"]["kind"] == "TemplateSyntax"


@pytest.mark.parametrize(
    ("name", "given", "kind", "where"),
    [
        ("/inspect", {"request": '[{"role":"user","role":"user","content":""}]'}, "InputInvalid", "path"),
        ("/inspect", {"request": "{"}, "InputInvalid", "line"),
        ("/inspect", {}, "OptionInvalid", "option"),
        ("/compare", {"request": CHAT, "a": "bytes"}, "OptionInvalid", "option"),
        ("/inspect", {"request": 7}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "tokenizer": "no-such"}, "UnknownPreset", "ref"),
        ("/inspect", {"request": CHAT, "clock": "soon"}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "context_window": True}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "context_window": -1}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "arguments": "[1]"}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "engine": "nunjucks"}, "OptionInvalid", "option"),
        ("/inspect", {"request": CHAT, "template_text": "{{ raise_exception('no') }}"}, "TemplateRaised", "line"),
        ("/compare", {"request": CHAT, "a": "bytes", "b": "bytes", "profile": "x"}, "OptionInvalid", "option"),
        ("/lint", {"request": CHAT, "ignore": {"no-such-rule": "why"}}, "OptionInvalid", "option"),
        ("/budget", {"request": CHAT, "tokenizer": "bytes"}, "OptionInvalid", "option"),
        ("/next_token", {"request": CHAT, "top_k": 0}, "OptionInvalid", "option"),
        ("/next_token", {"request": CHAT, "tokenizer": "qwen3"}, "ModelInvalid", "model"),
    ],
)
def test_an_error_is_a_value_with_its_kind_place_and_remedy(
    client: Any, name: str, given: dict[str, Any], kind: str, where: str
) -> None:
    told = ask(client, name, **given)
    error = told.get("error") or told["a"]["error"]
    assert error["kind"] == kind and where in (error["where"] or {}) and error["stage"] and error["remedy"], error
    assert "Traceback" not in json.dumps(told)


def test_a_call_that_gradio_cannot_place_says_what_is_wrong(client: Any) -> None:
    for name, body in (("inspect", {"request": CHAT, "bogus": 1}), ("nothing", {"request": CHAT})):
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(client.src, name, body)
        told = json.load(refused.value)["error"]
        assert refused.value.code == 400 and told["kind"] == "OptionInvalid" and "/gradio_api/info" in told["remedy"]
    endpoint = api.ENDPOINTS[0]
    assert json.loads(endpoint.answer(CHAT, "bytes", "chatml"))["error"] is None
    assert "values for" in json.loads(endpoint.answer(*[CHAT] * 40))["error"]["message"]


def test_another_name_that_leads_to_this_machine_opens_nothing(client: Any) -> None:
    for path in ("", "config", "status", "gradio_api/info"):
        asked = urllib.request.Request(f"{client.src.rstrip('/')}/{path}", headers={"Host": "evil.example:7860"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=60)
        assert refused.value.code == 403 and b"evil.example" in refused.value.read(), path


def test_next_tokens_come_from_the_model(client: Any) -> None:
    found = ask(client, "/next_token", request=CHAT, top_k=3)
    assert found["error"] is None and len(found["logits"]["top"]) == 3 and found["logits"]["top"][0]["piece"]


def test_strangers_reach_no_file_and_no_other_model_and_get_a_bounded_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calls, "_own_machine", False)
    endpoints = {endpoint.name: endpoint for endpoint in api.ENDPOINTS}
    secret = tmp_path / "secret.jinja"
    secret.write_text("hidden")

    def told(name: str, **given: Any) -> dict[str, Any]:
        endpoint = endpoints[name]
        return json.loads(endpoint.answer(*(given.get(each.name, each.default) for each in endpoint.parameters)))

    for name in ("inspect", "lint", "budget"):
        found = told(name, request=CHAT, tokenizer="bytes", template=str(secret), context_window=50)
        assert found["error"]["stage"] == "source" and "hidden" not in json.dumps(found)
    sides = told("compare", request=CHAT, a=f"bytes,{secret}", b="bytes,chatml")
    assert sides["a"]["error"]["stage"] == "source" and "hidden" not in json.dumps(sides)
    assert told("next_token", request=CHAT, model=str(tmp_path))["error"]["kind"] == "UnknownPreset"
    assert told("inspect", request=CHAT, tokenizer="bytes", template="chatml")["error"] is None
    monkeypatch.setattr(limits, "_in_force", replace(limits.PUBLIC, api_chars=5000))
    assert told("inspect", request=CHAT, tokenizer="bytes", template="chatml")["error"]["kind"] == "OutputTooLarge"


def readme_blocks() -> list[tuple[str, str]]:
    section = (ROOT / "README.md").read_text("utf-8").split("## For programs and assistants\n")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.S)


def test_the_examples_of_the_readme_run(address: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        unavailable("there is no curl")
    blocks = [(kind, text.replace("http://127.0.0.1:7860/", address)) for kind, text in readme_blocks()]
    assert [kind for kind, _text in blocks] == ["python", "sh", "json"]
    spoken: dict[str, Any] = {}
    exec(blocks[0][1], spoken)
    assert spoken["answer"]["error"] is None and spoken["answer"]["input_ids"]
    done = subprocess.run(["bash", "-ec", blocks[1][1]], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    data = next(line for line in done.stdout.splitlines() if line.startswith("data: "))
    assert json.loads(json.loads(data.removeprefix("data: "))[0])["num_tokens"] == len(spoken["answer"]["input_ids"])
    assert json.loads(blocks[2][1])["mcpServers"]["inspector"]["url"] == f"{address}gradio_api/mcp/"


def test_the_readme_lists_the_endpoints() -> None:
    section = (ROOT / "README.md").read_text("utf-8").split("## For programs and assistants\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(/\w+)` \| `([\w/]+)`", section, re.M) == [(f"/{e.name}", e.schema) for e in api.ENDPOINTS]
