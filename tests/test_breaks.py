"""What a budget breaks is said, what must always hold is checked, and token cuts are those of the engines."""

from __future__ import annotations

import functools
import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from random_chats import random_request

from inspector import pipeline
from inspector.breaks import Break
from inspector.budget import Budget, BudgetRejected, Policy, fit_context
from inspector.errors import ErrorKind, InspectorError
from inspector.job import Options
from inspector.messages import canonicalize
from inspector.pipeline import Inspection, inspect
from inspector.request import parse_request
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer

CLOCK = datetime(2026, 1, 31, 9, 30)
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
LINES = (Path(__file__).parent / "data/faults.jsonl").read_text("utf-8").splitlines()
FAULTS = {fault["id"]: fault for fault in map(json.loads, LINES)}
CUTS = (Policy.TOKENS_LEFT, Policy.TOKENS_RIGHT, Policy.TOKENS_MIDDLE)
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest, Finistère"}}}
CHAT = [
    {"role": "system", "content": "never reveal"},
    {"role": "user", "content": "When is high tide?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "tide", "content": '{"height": 3.2, "unit": "metres"}'},
    {"role": "user", "content": "one two three four five six"},
]


def broken(inspection: Inspection) -> list[tuple[str, str | None, int | None]]:
    inspection.raise_for_error()
    return [(entry.what.value, entry.path, entry.token) for entry in inspection.budget.broken]


def failed(inspection: Inspection) -> set[str]:
    return {check.name for check in inspection.budget.checks if not check.ok}


def test_trunc_01_a_right_cut_loses_the_generation_prompt() -> None:
    messages = [{"role": "user", "content": " ".join("one two three four five six seven eight nine ten".split())}]
    length = len(inspect(messages, tokenizer="qwen3", template_text=CHATML).encoding)
    result = inspect(
        messages, tokenizer="qwen3", template_text=CHATML, context_window=length - 3, policy="tokens_right"
    )
    assert result.rendered.text.endswith(FAULTS["TRUNC-01"]["observed"]["cut_tail"])
    assert broken(result) == [("generation_prompt_lost", None, length - 3)]
    assert failed(result) == {"generation_prompt"}


def test_trunc_02_a_left_cut_loses_bos_and_the_system_prompt_and_starts_inside_a_message() -> None:
    messages = [CHAT[0], CHAT[4]]
    template = "{{ bos_token }}" + CHATML
    options: dict[str, Any] = {"tokenizer": "llama3.1", "template_text": template}
    whole = inspect(messages, **options).encoding
    inside = next(i for i in range(len(whole)) if whole.token(i).path == "messages[1].content") + 2
    result = inspect(messages, **options, context_window=len(whole) - inside, policy="tokens_left")
    assert [entry[:2] for entry in broken(result)] == [("bos_lost", None), ("cut_in_message", "messages[1]")]
    assert [entry.path for entry in result.budget.dropped] == ["messages[0]"]
    assert failed(result) == {"user_message", "required_parts", "bos"}


def test_call_10_a_cut_between_a_call_and_its_result_parts_the_pair_and_a_message_budget_does_not() -> None:
    options: dict[str, Any] = {"tokenizer": "qwen3"}
    encoding = inspect(CHAT, **options).encoding
    paths = [encoding.token(index).path or "" for index in range(len(encoding))]
    at = next(index for index, path in enumerate(paths) if path.startswith("messages[3].content"))
    inside = next(index for index, path in enumerate(paths) if ".arguments.port" in path) + 1
    parted = inspect(CHAT, **options, context_window=len(encoding) - at, policy="tokens_left")
    assert ("tool_pair_parted", "messages[3]", None) in broken(parted) and "tool_pairs" in failed(parted)
    cut = inspect(CHAT, **options, context_window=len(encoding) - inside, policy="tokens_left")
    assert ("cut_in_json", "messages[2].tool_calls[0]", 0) in broken(cut)
    assert ("cut_in_message", "messages[2]", 0) in broken(cut) and "tool_pairs" not in failed(cut)
    halved = inspect(CHAT, **options, context_window=len(encoding) - at - 4, policy="tokens_left")
    assert ("cut_in_json", "messages[3].content", 0) in broken(halved)
    for window in (len(encoding) - 1, len(encoding) // 2):
        whole = inspect(CHAT, **options, context_window=window)
        assert failed(whole) == set() and ("messages[2]" in whole.budget.kept) == ("messages[3]" in whole.budget.kept)


def test_a_cut_inside_a_character_a_tool_and_a_run_of_placeholders_is_said() -> None:
    tool = {"type": "function", "function": {"name": "tide", "description": "d", "parameters": {}}}
    request = {"messages": [{"role": "user", "content": "\U00013000" + "<|image_pad|>" * 6}], "tools": [tool]}
    encoding = inspect(request, tokenizer="qwen3").encoding
    said: dict[str, set[str | None]] = {}
    for window in range(1, len(encoding)):
        for what, path, token in broken(
            inspect(request, tokenizer="qwen3", context_window=window, policy="tokens_right")
        ):
            said.setdefault(what, set()).add(path)
            assert token in (window, None)
    assert said["cut_in_character"] == said["cut_in_placeholders"] == {"messages[0].content"}
    assert said["cut_in_tool"] == said["cut_in_json"] == {"tools[0]"} and said["cut_in_message"] == {"messages[0]"}
    assert {"generation_prompt_lost", "generation_prompt_cut"} <= set(said)


def test_an_answer_whose_question_did_not_fit_is_said_and_whole_turns_keep_them_together() -> None:
    messages = [
        {"role": "user", "content": "word " * 60},
        {"role": "assistant", "content": "short"},
        {"role": "user", "content": "last"},
    ]
    options: dict[str, Any] = {"tokenizer": "smollm2", "template": "chatml", "context_window": 50}
    single, turns = inspect(messages, **options), inspect(messages, **options, whole_turns=True)
    assert broken(single) == [("answer_without_question", "messages[1]", None)]
    assert single.budget.kept == ("messages[1]", "messages[2]") and turns.budget.kept == ("messages[2]",)
    assert broken(turns) == [] and turns.budget.to_dict()["whole_turns"] is True


def test_documents_are_taken_by_priority() -> None:
    request = {"messages": [{"role": "user", "content": "q"}], "documents": [{"text": "word " * 20} for _ in range(4)]}
    text = "{% for d in documents %}{{ d.text }}{% endfor %}{{ messages[-1].content }}"
    options: dict[str, Any] = {"tokenizer": "smollm2", "template_text": text}
    length = inspect(request, **options, context_window=10_000).budget.input_tokens
    some = inspect(request, **options, context_window=length - 25, document_order=(3, 1)).budget
    assert some.kept == ("messages[0]", "documents[1]", "documents[3]")
    for order in [(0, 0), (-1,), (4,)]:
        error = inspect(request, **options, context_window=50, document_order=order).error
        assert error.kind is ErrorKind.OptionInvalid and error.where == {"option": "document_order"}


@pytest.mark.parametrize("preset", ["qwen3", "llama3.1"])
def test_token_cuts_keep_what_the_engines_keep(preset: str) -> None:
    """transformers' truncation_side; vLLM's truncate_prompt_tokens=k keeps the last k ids."""
    tokenizer = load_tokenizer(resolve_tokenizer(preset))
    library, messages = tokenizer.library_tokenizer, [CHAT[0], {"role": "user", "content": "天空 🌶 one two " * 9}]
    whole = inspect(messages, tokenizer=preset, template="chatml", clock=CLOCK)
    for limit in (1, 7, 30, len(whole.encoding) - 1, len(whole.encoding), len(whole.encoding) + 5):
        for side, policy in (("left", "tokens_left"), ("right", "tokens_right")):
            library.truncation_side = side
            cut = inspect(
                messages, tokenizer=preset, template="chatml", clock=CLOCK, context_window=limit, policy=policy
            )
            given = library(whole.rendered.text, add_special_tokens=False, truncation=True, max_length=limit)
            assert cut.encoding.input_ids.tolist() == given["input_ids"]
        assert given["input_ids"] == whole.encoding.input_ids.tolist()[:limit]


def hold(cases: int, seed: int) -> None:
    """Fit random chats with every policy: the limit holds, every check holds unless tokens were cut, every unit is listed."""
    rng = random.Random(seed)
    presets = {name: load_tokenizer(resolve_tokenizer(name)) for name in ("qwen3", "llama3.1", "gemma2")}
    seen = 0
    while seen < cases:
        tokenizer = presets[rng.choice(list(presets))]
        conversation = canonicalize(parse_request(json.dumps(random_request(rng, 5)).encode()))
        template = pipeline.own_template(tokenizer, None, has_tools=False)
        building = pipeline._Building(Options(clock=CLOCK))
        shared: dict[str, Any] = {"template": template, "tokenizer": tokenizer}
        assemble = functools.partial(pipeline._assemble, building=building, **shared)
        lengths = functools.partial(pipeline._lengths, options=building.options, clock=CLOCK, **shared)
        budget = Budget(rng.randint(1, 400), 0, rng.choice(list(Policy)), rng.random() < 0.3)
        try:
            fitted = fit_context(conversation, assemble, budget, lengths)
        except BudgetRejected as error:
            assert error.decision.input_tokens > budget.context_window
            assert next(check for check in error.decision.checks if check.name == "limit").ok is False
            seen += 1
            continue
        except InspectorError as error:
            assert error.stage == "render"  # the template refuses the request
            continue
        seen += 1
        decision, ids = fitted.decision, fitted.encoding.input_ids
        assert len(ids) == decision.input_tokens <= budget.context_window
        assert (
            tokenizer.encode(fitted.encoding.rendered.text).input_ids.tolist() == ids.tolist() or budget.policy in CUTS
        )
        units = [*decision.kept, *(path for path, _ in decision.cut), *(entry.path for entry in decision.dropped)]
        names = {"messages": conversation.messages, "tools": conversation.tools, "documents": conversation.documents}
        assert sorted(units) == sorted(f"{name}[{i}]" for name, given in names.items() for i in range(len(given or ())))
        if budget.policy not in CUTS:
            assert all(check.ok for check in decision.checks), decision.to_dict()
            assert {entry.what for entry in decision.broken} <= {Break.UNASKED}


def test_the_limit_and_the_invariants_hold_on_random_chats() -> None:
    hold(200, 21)


@pytest.mark.full
def test_the_limit_and_the_invariants_hold_on_many_random_chats() -> None:
    hold(2000, 22)
