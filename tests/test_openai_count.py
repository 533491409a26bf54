"""OpenAI token estimates: the published known answers, and robustness beyond them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inspector.errors import ErrorKind, InspectorError
from inspector.openai_count import ALIASES, SNAPSHOTS, OpenAICount, count_openai, preset_encoding, resolve_model
from inspector.request import parse_request

JARGON = [
    {
        "role": "system",
        "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
    },
    {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Things working well together will increase revenue.",
    },
    {
        "role": "system",
        "name": "example_user",
        "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    },
    {
        "role": "system",
        "name": "example_assistant",
        "content": "Let's talk later when we're less busy about how to do better.",
    },
    {
        "role": "user",
        "content": "This late pivot means we don't have time to boil the ocean for the client deliverable.",
    },
]
WEATHER = [
    {"role": "system", "content": "You are a helpful assistant that can answer to questions about the weather."},
    {"role": "user", "content": "What's the weather like in San Francisco?"},
]
WEATHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                "unit": {
                    "type": "string",
                    "description": "The unit of temperature to return",
                    "enum": ["celsius", "fahrenheit"],
                },
            },
            "required": ["location"],
        },
    },
}


def count(messages: list[Any], model: str = "gpt-4o", tools: list[Any] | None = None) -> OpenAICount:
    body = {"messages": messages, "tools": tools}
    return count_openai(parse_request(json.dumps(body).encode()), model)


@pytest.mark.parametrize(
    ("model", "total", "warns"),
    [
        ("gpt-3.5-turbo", 129, True),
        ("gpt-4-0613", 129, False),
        ("gpt-4", 129, True),
        ("gpt-4o", 124, True),
        ("gpt-4o-mini", 124, True),
    ],
)
def test_messages_count_as_published(model: str, total: int, warns: bool) -> None:
    result = count(JARGON, model)
    assert (result.total, result.message_tokens, result.tool_tokens) == (total, total, 0)
    assert bool(result.warnings) == warns and result.label == "estimate" and result.model == model


@pytest.mark.parametrize(
    ("model", "total"), [("gpt-3.5-turbo", 105), ("gpt-4", 105), ("gpt-4o", 101), ("gpt-4o-mini", 101)]
)
def test_tools_count_as_published(model: str, total: int) -> None:
    result = count(WEATHER, model, [WEATHER_TOOL])
    assert result.total == total == result.message_tokens + result.tool_tokens
    assert json.loads(json.dumps(result.to_dict()))["total"] == total


def test_a_tool_count_is_the_sum_of_the_published_parts() -> None:
    encode = preset_encoding("o200k")
    text = len(encode("get_current_weather:Get the current weather in a given location"))
    text += len(encode("location:string:The city and state, e.g. San Francisco, CA"))
    text += (
        len(encode("unit:string:The unit of temperature to return"))
        + len(encode("celsius"))
        + len(encode("fahrenheit"))
    )
    assert count(WEATHER, "gpt-4o", [WEATHER_TOOL]).tool_tokens == text + 7 + 3 + 3 + 3 - 3 + 3 + 3 + 12


def test_an_empty_tool_list_costs_nothing() -> None:
    assert count(WEATHER, "gpt-4o", []).tool_tokens == 0


@pytest.mark.parametrize(
    ("model", "resolved"),
    [
        ("gpt-3.5-turbo-16k", "gpt-3.5-turbo-0125"),
        ("gpt-4o-mini-2025-01-01", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-2024-11-20", "gpt-4o-2024-08-06"),
        ("gpt-4-turbo", "gpt-4-0613"),
        *((snapshot, snapshot) for snapshot in SNAPSHOTS),
        *ALIASES,
    ],
)
def test_model_names_resolve_as_published(model: str, resolved: str) -> None:
    snapshot, warnings = resolve_model(model)
    assert snapshot == resolved and bool(warnings) == (model != resolved)
    assert all(resolved in warning and model in warning for warning in warnings)


@pytest.mark.parametrize(
    "model", ["", "o1", "gpt-5", "gpt-4.1", "gpt-4.5-preview", "claude", "text-davinci-003", "GPT-4"]
)
def test_models_without_a_published_rule_are_refused_with_the_known_names(model: str) -> None:
    with pytest.raises(InspectorError) as caught:
        count(WEATHER, model)
    assert caught.value.kind is ErrorKind.UnknownModel and caught.value.where == {"option": "--openai-model"}
    assert all(name in caught.value.remedy for name in (*SNAPSHOTS, "gpt-4o"))


def test_control_strings_in_content_count_as_ordinary_text() -> None:
    plain = count([{"role": "user", "content": "<|endoftext|>"}], "gpt-4").message_tokens
    assert plain == 3 + 3 + len(preset_encoding("cl100k")("user")) + 7


def test_text_parts_count_as_their_text_and_others_are_left_out_with_a_warning() -> None:
    text = count([{"role": "user", "content": "two words"}])
    parts = [{"type": "text", "text": "two words"}, {"type": "image_url", "image_url": {"url": "x"}}]
    mixed = count([{"role": "user", "content": parts}])
    assert mixed.total == text.total
    assert any("messages[0].content[1]" in warning for warning in mixed.warnings)


def test_null_fields_cost_nothing_and_other_values_count_as_json_with_a_warning() -> None:
    base = count([{"role": "assistant", "content": "x"}])
    assert count([{"role": "assistant", "content": "x", "name": None, "tool_calls": None}]).total == base.total
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    with_calls = count([{"role": "assistant", "content": "x", "tool_calls": calls}])
    expected = len(preset_encoding("o200k")(json.dumps(calls)))
    assert with_calls.total == base.total + expected
    assert any("messages[0].tool_calls" in warning for warning in with_calls.warnings)


@pytest.mark.parametrize(
    "tool",
    [
        {},
        {"type": "function", "function": {"name": "f"}},
        {"name": "f", "parameters": {"properties": {}}},
        {"function": {"name": "f", "description": None, "parameters": None}},
        {"function": {"name": "f", "parameters": {"type": "object"}}},
        {"function": {"name": "f", "parameters": {"properties": {"a": {}, "b": {"enum": [1, None, 2.5]}, "c": True}}}},
        {"function": {"name": "f", "parameters": {"properties": {"a": {"type": ["string", "null"], "enum": "x"}}}}},
        {"function": {"name": "f", "parameters": {"properties": ["a"]}}},
    ],
)
def test_incomplete_tools_are_counted_with_what_they_have(tool: dict[str, Any]) -> None:
    result = count(WEATHER, "gpt-4o", [tool])
    assert result.tool_tokens >= 7 + 12 and result.total == result.message_tokens + result.tool_tokens


def test_only_the_last_full_stop_of_a_description_is_left_out() -> None:
    def tool(description: str) -> list[Any]:
        return [{"type": "function", "function": {"name": "f", "description": description}}]

    assert count(WEATHER, tools=tool("Do it.")).total == count(WEATHER, tools=tool("Do it")).total
    encode = preset_encoding("o200k")
    assert count(WEATHER, tools=tool("Do it..")).tool_tokens == 7 + 12 + len(encode("f:Do it."))
