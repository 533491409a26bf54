"""What sessions ask for, drawn by seed: calls of people and programs with real conversations, and calls that mean harm.

A `Call` says what is asked and nothing about the answer. Hostile ones come from tests/data/attacks.jsonl and from here.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from inspector.job import FIRST_PANES
from tests.conversations import CONVERSATIONS, conversation
from tests.data import attack_helpers
from tests.load.server import ROOT

CLOCK = "2026-01-31T09:30:00"
PRESETS = ("smollm2", "qwen3", "bytes", "llama3.1")
SIDES = (
    ("smollm2", "qwq-32b@current"),
    ("smollm2", "qwq-32b@16488a"),
    ("smollm2", ""),
    ("qwen3", ""),
    ("llama3.1", ""),
    ("bytes", "chatml"),
    ("smollm2", "chatml"),
)
TEMPLATES = tuple(sorted({template for _tokenizer, template in SIDES if template}))
NAMES = tuple(CONVERSATIONS)
MOST_PAYLOAD = 1_000_000  # characters of a hostile input that is sent
WHERE = "-- a place that no visitor may name --"


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `way`: page (a function of the page's script) or endpoint. `key` names equal calls."""

    way: str
    name: str
    value: Any
    key: str = ""


def pane(tokenizer: str, template: str = "", slot: str = "a", **more: Any) -> dict[str, Any]:
    """A pane as the page sends it."""
    return {
        "tokenizer": tokenizer, "template": template, "profile": "transformers", "policy": "messages", "clock": CLOCK,
        "slot": slot, **more,
    }  # fmt: skip


def fields(request: dict[str, Any] | str) -> dict[str, str]:
    """The page's four editors for a request."""
    if isinstance(request, str):
        return {"messages": request, "tools": "", "documents": "", "arguments": ""}
    texts = {name: json.dumps(request[name], ensure_ascii=False) if request.get(name) else "" for name in ("tools", "documents")}  # fmt: skip
    arguments = request.get("chat_template_kwargs")
    return {
        "messages": json.dumps(request["messages"], ensure_ascii=False),
        **texts,
        "arguments": json.dumps(arguments) if arguments else "",
    }


def asked(session: str, request: dict[str, Any] | str, *panes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What view and its neighbours take."""
    return {"session": session, "at": 1_769_850_000_000, "fields": fields(request), "panes": list(panes), **more}


# ------------------------------------------------------------------------------------------------- people and programs


def catalogue() -> list[Call]:
    """Every benign call that a session may draw; the session's name is put in when it is made."""
    calls = []
    for number, name in enumerate(NAMES):
        request = conversation(name)
        for k in range(3):
            tokenizer, template = SIDES[(number + 2 * k) % len(SIDES)]
            key = f"{name}/{tokenizer}/{template}"
            calls.append(Call("page", "view", asked("", request, pane(tokenizer, template)), f"view/{key}"))
        tokenizer, template = SIDES[number % len(SIDES)]
        other = SIDES[(number + 3) % len(SIDES)]
        sides = (pane(tokenizer, template), pane(*other, slot="b"))
        calls += [
            Call("page", "comparison", asked("", request, *sides), f"comparison/{name}"),
            Call("page", "control", asked("", request, sides[0]), f"control/{name}"),
            Call("page", "record", asked("", request, sides[0]), f"record/{name}"),
            Call("page", "stages", {"session": "", "text": _text(request), "tokenizers": [tokenizer]}, f"stages/{name}"),
            Call("endpoint", "inspect", _given(request, tokenizer=tokenizer, template=template), f"inspect/{name}"),
            Call("endpoint", "compare", _given(request, a=f"{tokenizer},{template}".rstrip(","), b=f"{other[0]},{other[1]}".rstrip(",")), f"compare/{name}"),
            Call("endpoint", "lint", _given(request, tokenizer=tokenizer, template=template), f"lint/{name}"),
            Call("endpoint", "budget", _given(request, tokenizer=tokenizer, template=template, context_window=400), f"budget/{name}"),
        ]  # fmt: skip
    return calls


def _given(request: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"request": json.dumps(request, ensure_ascii=False), "clock": CLOCK, **more}


def _text(request: dict[str, Any]) -> str:
    texts = [str(message.get("content") or "") for message in request["messages"]]
    return " ".join(texts)[:400].encode("utf-8", "replace").decode()


def first_pane(name: str) -> Call:
    """What the page that was just opened asks for when a conversation's messages are typed."""
    tokenizer, template = FIRST_PANES[0]["tokenizer"], FIRST_PANES[0]["template"]
    messages = json.dumps(conversation(name)["messages"], ensure_ascii=False)
    return Call("page", "view", asked("", messages, pane(tokenizer, template)), f"typed/{name}")


def draw(chooser: random.Random, calls: list[Call]) -> Call:
    """Draw a call as people do: most are views."""
    views = [call for call in calls if call.name == "view"]
    others = [call for call in calls if call.name != "view"]
    return chooser.choice(views if chooser.random() < 0.7 else others)


def for_session(call: Call, session: str) -> Call:
    """The call as a session makes it."""
    if call.way != "page" or not isinstance(call.value, dict):
        return call
    return Call(call.way, call.name, {**call.value, "session": session}, call.key)


# --------------------------------------------------------------------------------------------------------------- harm


@lru_cache(maxsize=1)
def attacks() -> list[dict[str, Any]]:
    """The cases of attacks.jsonl that come as text over the wire, with `text` their payload; what is too large is left
    out, for test_attacks.py makes those."""
    rows = [json.loads(line) for line in (ROOT / "tests/data/attacks.jsonl").read_text("utf-8").splitlines()]
    made = []
    for row in rows:
        if row["surface"] not in ("template", "messages", "tokenizer_file", "repo_name"):
            continue
        text = row["payload"] if "payload" in row else eval(row["payload_py"], dict(vars(attack_helpers)))
        text = (
            text.decode("latin-1") if isinstance(text, bytes) else text if isinstance(text, str) else json.dumps(text)
        )
        if len(text) <= MOST_PAYLOAD:
            made.append({**row, "text": text})
    return made


def hostile(chooser: random.Random, session: str) -> Iterator[Call]:
    """Give the calls of one attack, in their order."""
    case = chooser.choice(attacks())
    plain = conversation("system_and_turns")
    text, surface = case["text"], case["surface"]
    if surface == "template":
        yield Call("page", "view", asked(session, plain, pane("smollm2", template_text=text)))
        if chooser.random() < 0.3:
            yield Call("endpoint", "inspect", _given(plain, template_text=text))
    elif surface == "messages":
        yield Call("page", "view", asked(session, text, pane("smollm2", "chatml")))
    elif surface == "repo_name":
        yield Call("page", "view", asked(session, plain, pane(f"hf:{text}")))
    else:
        data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
        yield Call("page", "upload", {"session": session, "first": True, "name": "tokenizer.json", "data": data})
        yield Call("page", "uploaded", {"session": session})


def malformed(chooser: random.Random, session: str) -> Call:
    """Give a call that no page of ours makes."""
    wrong: list[Any] = [
        None, 7, [], "x" * 10_000, {"session": session}, {"session": "../../etc"}, {"session": session, "panes": [{}]},
        asked(session, "[]", *[pane("bytes")] * 40), asked(session, "{" * 5000, pane("bytes")),
        {"session": session, "fields": {"messages": {"path": "/etc/passwd"}}, "panes": "x"},
        asked(session, "[]", {**pane("bytes"), "slot": "../x"}), {"session": ["a"] * 100},
    ]  # fmt: skip
    name = chooser.choice(["view", "safe", "comparison", "record", "stages", "upload", "share_keep", "export_panes"])
    return Call("page", name, chooser.choice(wrong))
