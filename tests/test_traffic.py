"""Real traffic as a start: Gemini bodies, Alpaca and prompt rows, log lines; what was done is listed, also by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from inspector.cli import app
from inspector.errors import InspectorError
from inspector.pasting import Pasted, as_request, recognise
from inspector.pipeline import inspect
from inspector.request import parse_fields, parse_request
from inspector.traffic import turns_of

IDS = "[1, 4093, 198]"
CHATML = '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nIt\'s "hi"\n你<|im_end|>\n<|im_start|>assistant\n'
BE_BRIEF = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'It\'s "hi"\n你'}]
BODY = {"model": "m", "messages": [{"role": "user", "content": "a {\"b\"} 'c'"}], "tools": []}


def read(text: str) -> Pasted:
    found = recognise(text)
    assert found is not None, f"not recognised: {text[:80]}"
    parse_fields(**found.fields)
    return found


def messages(found: Pasted) -> Any:
    return json.loads(found.fields["messages"])


def said(found: Pasted, what: str) -> set[str]:
    return {note.name for note in found.notes if note.what == what}


# --- Gemini ----------------------------------------------------------------------------------------------------------

GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "I look."},
                                    {"functionCall": {"name": "f", "args": {"a": 1.50}}, "thoughtSignature": "z"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": 3}}}, {"text": "so?"}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": {"type": "OBJECT", "properties": {
        "type": {"type": "STRING", "enum": ["STRING"]}, "n": {"type": "ARRAY", "items": {"type": "INTEGER"}}}}}]}, {"googleSearch": {}}],
    "generationConfig": {"temperature": 0}, "safetySettings": [],
}  # fmt: skip


def test_a_gemini_body_becomes_roles_calls_results_and_tools() -> None:
    found = read(json.dumps(GEMINI))
    assert (found.form, found.shape) == ("json", "gemini")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1.5}}}
    assert messages(found) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "name": "f", "content": '{"result": 3}'},
        {"role": "user", "content": "so?"},
    ]
    schema = {"type": "object", "properties": {"type": {"type": "string", "enum": ["STRING"]}, "n": {"type": "array", "items": {"type": "integer"}}}}  # fmt: skip
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
    assert json.loads(found.fields["tools"]) == [tool]
    assert said(found, "dropped") == {"generationConfig", "safetySettings", "thoughtSignature", "tools: googleSearch"}
    assert {"systemInstruction", "contents", "functionCall", "functionResponse", "type OBJECT"} <= said(
        found, "converted"
    )


def test_gemini_in_snake_case_as_a_call_and_in_a_batch_line_is_the_same() -> None:
    snake = {"system_instruction": "Be brief.", "contents": "hi", "generation_config": {}}
    assert messages(read(json.dumps(snake))) == [BE_BRIEF[0], {"role": "user", "content": "hi"}]
    line = json.dumps({"key": "1", "request": {"contents": [{"parts": [{"text": "hi"}]}]}})
    batch = read(line + "\n" + line)
    assert (batch.form, batch.shape, messages(batch)) == ("jsonl", "gemini", [{"role": "user", "content": "hi"}])
    assert said(batch, "dropped") >= {"key", "rows 2–2"}


TURN = st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1))


@settings(deadline=None)
@given(st.lists(TURN, min_size=1), st.none() | st.text(min_size=1))
def test_every_text_of_a_gemini_body_arrives_as_it_was(turns: list[tuple[str, str]], system: str | None) -> None:
    body: dict[str, Any] = {
        "contents": [
            {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]} for role, text in turns
        ]
    }
    head = []
    if system is not None:
        body["systemInstruction"], head = {"parts": [{"text": system}]}, [{"role": "system", "content": system}]
    assert messages(read(json.dumps(body))) == head + [{"role": role, "content": text} for role, text in turns]


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "expected", "dropped"),
    [
        ({"instruction": "Add.", "input": "1, 2", "output": "3", "text": "x"}, [("user", "Add.\n\n1, 2"), ("assistant", "3")], {"text"}),
        ({"instruction": "Hi", "input": "", "output": ""}, [("user", "Hi")], set()),
        ({"system": "S", "history": [["q", "a"]], "instruction": "Hi", "response": "yo"},
         [("system", "S"), ("user", "q"), ("assistant", "a"), ("user", "Hi"), ("assistant", "yo")], set()),
        ({"prompt": "2+2=", "completion": "4", "id": 7}, [("user", "2+2="), ("assistant", "4")], {"id"}),
        ({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "a"}], "rejected": "b"},
         [("user", "q"), ("assistant", "a")], {"rejected"}),
        ({"model": "m", "prompt": CHATML, "max_tokens": 9}, [tuple(m.values()) for m in BE_BRIEF],
         {"model", "max_tokens", "generation prompt of assistant"}),
    ],
)  # fmt: skip
def test_a_row_becomes_messages(row: dict[str, Any], expected: list[tuple[str, str]], dropped: set[str]) -> None:
    for text in (json.dumps(row), json.dumps(row) + "\n" + json.dumps(row)):
        found = read(text)
        assert [(m["role"], m["content"]) for m in messages(found)] == expected
        assert said(found, "dropped") - {"rows 2–2"} == dropped and said(
            found, "converted" if "completion" in row else "moved"
        )


# --- log lines ---------------------------------------------------------------------------------------------------------

VLLM_OLD = "INFO 08-06 10:19:36 [logger.py:41] Received request cmpl-6f-0: prompt: {!r}, params: SamplingParams(n=1, stop=['a, b'], max_tokens=120), prompt_token_ids: " + IDS + ", prompt_embeds shape: None, lora_request: None."  # fmt: skip
VLLM_NEW = "(APIServer pid=1) DEBUG 06-14 17:27:48 [request_logger.py:71] Request chatcmpl-a details: prompt: {!r}, prompt_token_ids: " + IDS + ", prompt_embeds shape: None.\nINFO Received request chatcmpl-a: params: SamplingParams(n=1), lora_request: None."  # fmt: skip
SGLANG = "[2026-08-12 10:41:01] Receive: obj=GenerateReqInput(rid='a', text={!r}, input_ids=None, sampling_params={{'n': 1}})"
WITH_PROMPT = (VLLM_OLD, VLLM_NEW, SGLANG)
WITH_BODY = (
    "1.02.000.001 D srv  log_server_r: request:  {}\n1.02.000.002 D srv  log_server_r: response: {{\"choices\":[]}}",
    "Dec 10 11:20:49 host llama-server[2671]: srv    operator(): converted request: {}",
    "DEBUG 11-30 12:00:00 [request_logger.py:80] Request chatcmpl-1 JSON body: {}",
    "[2026-08-12 10:41:01] Receive OpenAI: obj={}, headers={{}}",
    '127.0.0.1 - POST /v1/chat/completions body={} 200',
)  # fmt: skip


@pytest.mark.parametrize("line", WITH_PROMPT)
def test_a_logged_prompt_is_cut_into_its_turns(line: str) -> None:
    found = read(line.format(CHATML))
    assert (found.form, found.shape, messages(found)) == ("log", "prompt", BE_BRIEF)
    assert "prompt, 2 turns of ChatML" in said(found, "converted")
    assert line is SGLANG or "prompt_token_ids" in said(found, "dropped")


@settings(deadline=None)
@given(st.sampled_from(WITH_PROMPT), st.text())
def test_a_logged_prompt_is_the_text_that_was_sent(line: str, text: str) -> None:
    found = read(line.format(text))
    assert turns_of(text) is not None or messages(found) == [{"role": "user", "content": text}]


@pytest.mark.parametrize("line", WITH_BODY)
@pytest.mark.parametrize("spelled", [json.dumps(BODY), json.dumps(BODY, indent=2), repr(BODY)])
def test_a_logged_body_is_that_body(line: str, spelled: str) -> None:
    found = read(line.format(spelled))
    assert (found.form, found.shape) == ("log", "openai")
    assert messages(found) == BODY["messages"] and found.fields["tools"] == "[]"


def test_a_log_of_ids_only_says_what_it_lacks_and_prose_is_no_log() -> None:
    with pytest.raises(InspectorError) as caught:
        recognise(VLLM_OLD.replace("{!r}", "None"))
    assert "token ids only" in caught.value.message and "decode" in caught.value.remedy
    for text in ("the request: {see below}", "data: {}", 'data: {"choices": []}', "Receive: obj=GenerateReqInput(",
                 "Received request x: prompt: 'unclosed, params", "body: {messages: [", '{"contents": 3}', '{"prompt": "x"}',
                 '{"instruction": "x"}', '{"contents": []}'):  # fmt: skip
        assert recognise(text) is None, text


@pytest.mark.parametrize("text", ["request: {" * 50_000, "Receive: obj=GenerateReqInput(" * 20_000, "Received request a: prompt: '" * 20_000,
                                  "request: " + '{"a":' * 100_000, "data: {" + "[" * 200_000, "<|im_start|>user\n" * 50_000])  # fmt: skip
def test_a_hostile_log_takes_no_long_time(text: str) -> None:
    try:
        assert recognise(text) is None
    except InspectorError as error:
        assert error.remedy
    assert turns_of(text) is None


# --- layouts, against what real templates render -----------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="<>|", exclude_categories=["Cc"]), min_size=1).map(str.strip).filter(bool)  # fmt: skip


@pytest.mark.parametrize(("preset", "layout"), [("smollm2", "ChatML"), ("llama3", "Llama 3"), ("gemma3", "Gemma"), ("qwen3", "ChatML")])  # fmt: skip
@settings(max_examples=5, deadline=None)
@given(texts=st.lists(WORDS, min_size=1, max_size=5))
def test_what_a_real_template_rendered_is_cut_into_what_was_rendered(
    preset: str, layout: str, texts: list[str]
) -> None:
    chat = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(texts)]
    if len(chat) % 2 == 0:
        chat.pop()
    rendered = inspect(chat, tokenizer=preset).rendered
    assert rendered is not None
    found = turns_of(rendered.text)
    assert found is not None, rendered.text
    name, turns, opened = found
    assert (name, opened) == (layout, "assistant")
    assert [turn for turn in turns if turn["role"] != "system"] == chat


# --- the command -------------------------------------------------------------------------------------------------------


SAID_ONLY = {
    **GEMINI,
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}, *GEMINI["contents"][1:]],
}  # SmolLM2 takes no parts


@pytest.mark.parametrize("text", [json.dumps(SAID_ONLY), VLLM_NEW.format(CHATML), json.dumps({"instruction": "x", "output": "y"}) + "\n",
                                  "curl x -d '" + json.dumps({"contents": [{"parts": [{"text": "hi"}]}]}) + "'",
                                  json.dumps({"system": "S", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})])  # fmt: skip
def test_a_file_of_another_kind_is_a_request_and_says_so(text: str, tmp_path: Path) -> None:
    data, found = as_request(text.encode())
    assert found is not None and parse_request(data).messages == messages(found)
    assert as_request(data) == (data, None), "a request stays as it is"
    path = tmp_path / "traffic.txt"
    path.write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["inspect", str(path), "--json", "--tokenizer", "smollm2"])
    assert done.exit_code == 0, done.stderr
    assert f"read as {found.shape} ({found.form})" in done.stderr
    assert json.loads(done.stdout)["request"]["messages"] == messages(found)


@pytest.mark.parametrize("text", ['[{"role": "user", "content": "x"}]', json.dumps(BODY), '{"messages": [}', "{messages: []}", "[{'role': 'user'}]",
                                  "not JSON", "", '{"a": 1}', '{"messages": [{"role": "system", "content": "x"}], "source": 1}'])  # fmt: skip
def test_what_the_strict_parser_reads_or_refuses_is_left_to_it(text: str) -> None:
    assert as_request(text.encode()) == (text.encode(), None)
    assert as_request(b"\xff" + text.encode())[1] is None
