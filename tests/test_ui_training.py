"""What the page's Budget, Tensors and Training views are told, without a browser: equal to what the library computes."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest

from inspector.budget import make_budget
from inspector.errors import InspectorError
from inspector.job import Fields, make_options, prepare
from inspector.pipeline import Fitting, inspect
from inspector.tensors import PaddingSide
from inspector.training import runs
from inspector.training.batch import pack_rows, pad_batch
from inspector.training.labels import make_labels
from inspector.ui import training
from inspector.ui.views import budget as budget_view
from inspector.ui.views import tensors as tensors_view

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


# --- tensors -------------------------------------------------------------------------------------------------------------


def unpacked(answer: dict[str, Any]) -> dict[str, np.ndarray]:
    """The columns of a batch as arrays, as the page unpacks them."""
    raw, at, found = zlib.decompress(base64.b64decode(answer["data"])), 0, {}
    for name, dtype, size in answer["columns"]:
        found[name] = np.frombuffer(raw, dtype, size, at).astype(np.int64)
        at += found[name].size * np.dtype(dtype).itemsize
    assert at == len(raw)
    return found


BATCH = {"of": 0, "others": True, "text": "", "side": "left", "packed": False, "pad_id": "", "mode": "assistant_only"}
OTHER = {"tokenizer": "smollm2", "template": "chatml"}


def test_a_batch_of_the_page_is_the_batch_of_the_panes_and_of_what_was_pasted() -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
    text = f"{json.dumps(chat)}\n\n" + '{"messages": 5}\n'
    panes = [PANE, OTHER, {"tokenizer": "qwen3", "template": "chatml"}]
    answer = asked("batch", panes, **{**BATCH, "text": text})
    assert [(row["name"], bool(row["error"])) for row in answer["rows"]] == [
        ("A", False), ("B", False), ("#1", False), ("#2", True), ("C", True),
    ]  # fmt: skip
    assert (
        "messages must be an array" in answer["rows"][3]["error"] and "another tokenizer" in answer["rows"][4]["error"]
    )
    request = {"messages": CHAT, "tools": [TOOL]}
    rows = [inspect(request, **PANE), inspect(request, **OTHER), inspect(chat, **PANE)]
    ids = [row.encoding.input_ids for row in rows]
    targets = [make_labels(row.encoding, row.conversation.messages).labels for row in rows]
    for side in PaddingSide:
        batch = asked("batch", panes, **{**BATCH, "text": text, "side": side.value})["batch"]
        expected = pad_batch(ids, 2, padding_side=side, eos_id=2, labels=targets)
        for name, column in unpacked(batch).items():
            assert column.tolist() == getattr(expected, name).reshape(-1).tolist(), name
        value = expected.to_dict()
        assert all(batch[name] == value[name] for name in ("shape", "lengths", "shifts", "pad_is_eos", "remarks"))
        assert batch["pieces"]["2"] == ["text", "<|im_end|>"]
    packed = asked("batch", panes, **{**BATCH, "text": text, "packed": True})["batch"]
    whole = pack_rows(ids, targets)
    for name, column in unpacked(packed).items():
        assert column.tolist() == getattr(whole, name).tolist(), name
    assert (packed["boundaries"], packed["leaks"]) == (whole.boundaries.tolist(), whole.leaks)
    assert set(unpacked(asked("batch", **{**BATCH, "pad_id": "7", "text": json.dumps(chat)})["batch"])["input_ids"]) > {
        7
    }


def test_a_batch_that_cannot_be_is_refused_by_name() -> None:
    assert "is not a whole number" in asked("batch", **{**BATCH, "pad_id": "x"})["error"]
    assert "up to 64 rows" in asked("batch", **{**BATCH, "text": "[]\n" * 65})["error"]
    assert "malformed" in asked("batch", **{**BATCH, "of": 7})["error"]
    alone = asked("batch", [{**PANE, "template_text": "{% if"}], **BATCH)
    assert alone["batch"] is None and "template" in alone["rows"][0]["error"]
    with pytest.raises(InspectorError, match="cells"):
        tensors_view.check_size([3_000_000, 2])


# --- labels, prefixes, new tokens ------------------------------------------------------------------------------------------


def test_labels_and_prefixes_of_the_page_are_the_commands_whatever_the_window_is() -> None:
    how = {"mode": "last_turn", "max_length": "200", "tag_only": False}
    panes = [{**PANE, "context_window": "50"}, {**PANE, "template_text": "{{ 1 // 0 }}"}, OTHER]
    answer = asked("labels", panes, **how)["panes"]
    fields = Fields(json.dumps(CHAT), json.dumps([TOOL]))
    for pane, given in ((answer[0], PANE), (answer[2], OTHER)):
        expected = runs.labels(prepare(fields, make_options(**given)), "last_turn", 200, False)
        assert all(pane[name] == expected[name] for name in ("input_ids", "runs", "alarms", "num_trained", "source"))
        assert {int(token_id) for token_id in pane["pieces"]} == set(pane["input_ids"])
    assert "division" in answer[1]["error"] and answer[0]["alarms"]
    assert "'most' is none of" in asked("labels", mode="most", max_length="", tag_only=False)["panes"][0]["error"]
    how = {"block_size": "8", "model_revision": "m@1", "adapter": "none"}
    for pane, given in zip(asked("prefix", [PANE, OTHER], **how)["panes"], (PANE, OTHER)):
        expected = runs.prefix(prepare(fields, make_options(**given)), 8, "m@1", "none")
        assert {**expected, "left_out": 0} == pane and len(pane["keys"]) == pane["steps"][-1]["tokens"] // 8
    long = [{"role": role, "content": "x"} for _ in range(40) for role in ("user", "assistant")]
    last = asked("prefix", [OTHER], chat=long, **how)["panes"][0]
    assert (last["left_out"], len(last["steps"]), last["steps"][-1]["messages"]) == (16, 64, 80)


def test_new_tokens_are_planned_with_the_rows_that_are_known() -> None:
    given = {"tokens": ["<plan>", "<think>"], "rows": "", "multiple": "64", "tied": ""}
    qwen = asked("vocabulary", tokenizer="qwen3", **given)
    assert (qwen["rows"], qwen["rows_from"], qwen["shrinks_to"]) == (151_936, "catalogue", 151_670)
    assert [row["ids"] for row in qwen["today"]][1] == [151_667] and len(qwen["today"][0]["ids"]) == 3
    assert qwen["num_reserved"] == 0 and "add_tokens(['<plan>']" in qwen["code"]
    typed = asked("vocabulary", tokenizer="llama3.1", **{**given, "rows": "128,300", "tied": "no"})
    assert (typed["rows"], typed["rows_from"], typed["tied"]) == (128_300, "given", False) and typed[
        "num_reserved"
    ] > 200
    assert asked("vocabulary", tokenizer="cl100k", **given)["rows_from"] is None
    for wrong, said in (
        ({"tokens": []}, "no list"),
        ({"tokens": ["a"] * 65}, "up to 64"),
        ({"rows": "-3"}, "whole number"),
    ):
        assert said in asked("vocabulary", tokenizer="bytes", **{**given, **wrong})["error"]


def test_new_tokens_are_tried_in_the_loaded_model() -> None:
    given = {"tokenizer": "smollm2", "tokens": ["<plan>"], "rows": "", "multiple": "64", "tied": "", "model": "smollm2"}
    tried = asked("vocabulary_trial", [OTHER], **given)
    assert tried["error"] is None and tried["rows"] == 49_152 and tried["tied"] is True
    assert tried["top_before"] == tried["top_after"] and set(map(int, tried["pieces"])) == set(tried["top_before"])
    assert 0 < tried["new_mass"] < 1e-3 and tried["new_norm"] < tried["mean_norm"] and tried["leftover_norms"] == []
    rows = asked("vocabulary_trial", [OTHER], **{**given, "rows": "50000"})
    assert "the model has 49152 rows, the plan says 50000" in rows["error"]
    other = asked("vocabulary_trial", [{"tokenizer": "qwen3", "template": "chatml"}], **{**given, "tokenizer": "qwen3"})
    assert "reads ids of its own tokenizer" in other["error"]
