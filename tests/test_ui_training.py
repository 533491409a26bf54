"""What the page's Budget, Tensors and Training views are told, without a browser: equal to what the library computes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from inspector.budget import make_budget
from inspector.job import Fields, make_options, prepare
from inspector.pipeline import Fitting, inspect
from inspector.ui import training
from inspector.ui.views import budget as budget_view

SESSION = "7" * 32
TOOL = {"type": "function", "function": {"name": "get_tide", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_tide", "arguments": {}}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "When is high tide?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"hour": 12}'},
    {"role": "assistant", "content": "At noon, and again after midnight."},
    {"role": "user", "content": "And low tide?"},
]


def asked(name: str, panes: list[dict[str, Any]] | None = None, chat: Any = CHAT, **more: Any) -> dict[str, Any]:
    """Call a function of the page as the page does."""
    rest = {"profile": "transformers", "policy": "messages", "clock": "2026-01-01T00:00:00"}
    given = [{"slot": str(q), **rest, **pane} for q, pane in enumerate(panes or [PANE])]
    fields = {"messages": json.dumps(chat), "tools": json.dumps([TOOL]), "documents": "", "arguments": ""}
    request = {"session": SESSION, "at": 1_700_000_000_000, "fields": fields, "panes": given, **more}
    return json.loads(getattr(training, name)(request))


PANE = {"tokenizer": "smollm2", "template": "qwen3-0.6b@current"}


def test_the_picture_of_a_budget_has_every_token_once_and_the_decision_is_the_recorded_one() -> None:
    first = asked("budget", known=[None])["panes"][0]
    whole, units = first["whole"], first["whole"]["units"]
    plain = inspect({"messages": CHAT, "tools": [TOOL]}, **PANE)
    assert whole["total"] == sum(whole["runs"][2]) == len(plain.encoding) == sum(first["sent"])
    by_unit = {unit["path"]: unit["tokens"] for unit in units}
    for path, tokens in by_unit.items():
        counted = plain.encoding.counts()["by_path"]
        assert tokens == sum(
            n for name, n in counted.items() if name == path or name.startswith((path + ".", path + "["))
        )
    assert [unit["required"] for unit in units] == [True, False, False, False, False, True, True]
    assert units[3]["with"] == 2 and units[2]["text"] == "get_tide(…)" and first["window"] == 8192
    # The template's own text goes with the message that it surrounds.
    table = Fitting(prepare(Fields(json.dumps(CHAT), json.dumps([TOOL])), make_options(**PANE)))
    parts, owners = budget_view._columns(table.whole, [unit["path"] for unit in units])
    ends = np.flatnonzero(table.whole.input_ids == table.whole.tokenizer.special_token_ids["eos_token"])
    assert owners[ends].tolist() == [0, 1, 2, 3, 4, 5] and (owners[parts < len(units)] >= 0).all()
    for policy in ("messages", "keep_first", "tokens_left", "tokens_middle", "reject"):
        for window in (20, 130, 190):
            pane = {**PANE, "context_window": str(window), "policy": policy}
            answer = asked("budget", [pane], known=[first["key"]])["panes"][0]
            recorded = inspect({"messages": CHAT, "tools": [TOOL]}, **PANE, context_window=window, policy=policy)
            assert answer["whole"] is None and answer["key"] == first["key"], "the same picture is not sent again"
            assert answer["budget"] == recorded.budget.to_dict() and sum(answer["sent"]) == len(recorded.encoding)
            assert bool(answer["rejected"]) == (recorded.error is not None)
            kept = sum(b - a for a, b in answer["ranges"] or ())
            assert answer["ranges"] is None or kept == recorded.budget.input_tokens


def test_options_of_a_policy_reach_it_and_a_wrong_one_fails_one_pane_only() -> None:
    panes = [
        {**PANE, "context_window": "190", "policy": "keep_first", "first_turns": "0"},
        {**PANE, "context_window": "190", "document_order": "first"},
        {**PANE, "context_window": "190", "whole_turns": True, "max_new_tokens": "4"},
        {**PANE, "template_text": "{% if"},
    ]
    answers = asked("budget", panes, known=[None] * 4)["panes"]
    assert answers[0]["budget"]["first_turns"] == 0 and answers[2]["budget"]["whole_turns"] is True
    assert "'first' is no index" in answers[1]["error"] and "template" in answers[3]["error"]
    assert "malformed" in asked("budget", known=[])["error"]


def test_keep_first_keeps_as_many_turns_as_it_is_told() -> None:
    chat = [{"role": role, "content": f"{role} {k} " + "sea " * 9} for k in range(5) for role in ("user", "assistant")]
    chat.append({"role": "user", "content": "last"})
    how = {"tokenizer": "smollm2", "template": "chatml", "policy": "keep_first", "context_window": 110}
    kept = {k: inspect(chat, **how, first_turns=k).budget.kept for k in (0, 1, 2)}
    assert [f"messages[{2 * k}]" in kept[k + 1] for k in (0, 1)] == [True, True]
    assert (
        "messages[0]" not in kept[0] and "messages[2]" not in kept[1] and make_budget(9, first_turns=3).first_turns == 3
    )
