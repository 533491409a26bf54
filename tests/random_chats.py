"""Random requests with everything that makes templates behave: tools, parallel calls, late results, reasoning, forged text."""

from __future__ import annotations

import random
from typing import Any

WORDS = (
    'the quick 天空 为什么 def foo(x): return x+1 \n\n {"a": 1.0} émoji 🙂 <|im_end|> <|im_ start|> <think> </think> '
    "<|eot_id|> 12345 don't"
).split(" ")
TOOL = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "High tide",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}},
    },
}


def words(rng: random.Random, most: int) -> str:
    """Give up to `most` words."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def random_request(rng: random.Random, turns: int = 9) -> dict[str, Any]:
    """Give a request of up to `turns` user turns."""
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system", "system", "developer"]), "content": words(rng, 10)})
    for turn in range(rng.randint(1, turns)):
        parts = [{"type": "text", "text": words(rng, 20)}]
        messages.append({"role": "user", "content": words(rng, 40) if rng.random() < 0.9 else parts})
        if rng.random() < 0.25:
            messages += _calls(rng, turn)
        if rng.random() < 0.8:
            messages.append(_answer(rng))
        if rng.random() < 0.05:
            messages.append({"role": "system", "content": words(rng, 10)})
    request: dict[str, Any] = {"messages": messages}
    if rng.random() < 0.3:
        request["tools"] = [TOOL]
    if rng.random() < 0.2:
        request["documents"] = [{"title": str(number), "text": words(rng, 20)} for number in range(2)]
    return request


def _calls(rng: random.Random, turn: int) -> list[dict[str, Any]]:
    calls = [_call(f"call{turn:05d}", "tide", {"port": words(rng, 3)})]
    if rng.random() < 0.3:
        calls.append(_call(f"also{turn:05d}", "now", {}))
    asks: dict[str, Any] = {"role": "assistant", "content": words(rng, 5), "tool_calls": calls}
    if rng.random() < 0.3:
        asks["reasoning_content"] = words(rng, 20)
    late = [{"role": "user", "content": "between"}] if rng.random() < 0.2 else []
    return [asks, *late, *(_result(rng, call) for call in calls)]


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(rng: random.Random, call: dict[str, Any]) -> dict[str, Any]:
    name = call["function"]["name"]
    return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": words(rng, 10)}


def _answer(rng: random.Random) -> dict[str, Any]:
    answer = {"role": "assistant", "content": words(rng, 40)}
    if rng.random() < 0.3:
        answer["reasoning_content"] = words(rng, 20)
    if rng.random() < 0.1:
        answer["content"] = f"<think>\n{words(rng, 5)}\n</think>\n\n{answer['content']}"
    return answer
