"""The commands budget, labels, batch and prefix, in the sandbox, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from inspector.cli import app

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "When is high tide?"},
    {"role": "assistant", "content": "At noon.", "reasoning_content": "count hours"},
    {"role": "user", "content": "and low tide?"},
    {"role": "assistant", "content": "At six."},
]


@pytest.fixture
def chat(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    (tmp_path / "short.json").write_text(json.dumps(CHAT[:3]))
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.output


def value(*arguments: str) -> dict[str, Any]:
    code, out = run(*arguments, "--json")
    assert code == 0, out
    return json.loads(out)


def test_budget_prints_the_decision_what_broke_and_the_checks(chat: str) -> None:
    code, out = run("budget", chat, "--tokenizer", "qwen3", "--context-window", "38")
    assert code == 0 and "dropped  messages[1]" in out and "ok       limit: 32 of 38" in out and "FAILED" not in out
    code, out = run("budget", chat, "--tokenizer", "llama3.1", "--context-window", "20", "--policy", "tokens_left")
    assert (
        code == 0 and "broken   bos_lost at token 0" in out and "FAILED   required_parts: not whole: messages[0]" in out
    )
    result = value("budget", chat, "--tokenizer", "qwen3")
    assert (result["schema"], result["window_from"], result["budget"]["context_window"]) == (
        "budget/1",
        "preset",
        40960,
    )
    assert sum(unit["tokens"] for unit in result["units"]) == result["by_origin"]["message"]
    assert all(check["ok"] for check in result["budget"]["checks"]) and result["error"] is None


def test_a_rejected_budget_is_exit_4_with_the_decision(chat: str) -> None:
    code, out = run("budget", chat, "--context-window", "5")
    assert code == 4 and "FAILED   limit: 30 of 5" in out and "BudgetExceeded" in out
    code, out = run("budget", chat, "--tokenizer", "r50k", "--template", "chatml")
    assert code == 2 and "--context-window" in out


def test_labels_print_what_is_trained_and_the_alarms(chat: str) -> None:
    code, out = run("labels", chat, "--tokenizer", "qwen3")
    assert code == 0 and "'At noon.<|im_end|>'" in out and "8 of 47 tokens are trained, known from provenance" in out
    assert "alarm    reasoning_never_trained at messages[2].reasoning_content" in out
    assert value("labels", chat, "--tokenizer", "qwen3", "--mode", "last_turn")["num_trained"] == 4


def test_batch_prints_tensors_and_remarks(chat: str) -> None:
    both = (chat, chat.replace("chat.json", "short.json"), "--tokenizer", "qwen3")
    code, out = run("batch", *both, "--padding-side", "right")
    assert code == 0 and "remark   logits[:, -1] of rows [1] belong to padding" in out
    padded, packed = value("batch", *both), value("batch", *both, "--pack")
    assert padded["shape"] == [2, 47] and padded["shifts"] == [0, padded["lengths"][0] - padded["lengths"][1]]
    assert padded["pad_id"] == 151643 and packed["boundaries"] == [0, 47, 47 + padded["lengths"][1]]


def test_prefix_prints_where_the_turns_part(chat: str) -> None:
    code, out = run("prefix", chat, "--tokenizer", "qwen3")
    assert code == 0 and "NO PREFIX of the next; reused 21 at 1, 16 at 16" in out
    assert "this from token 21: '<think>⏎count hours" in out and "next from token 21: 'At noon." in out
    result = value("prefix", chat, "--tokenizer", "qwen3", "--block-size", "8", "--model-revision", "v1")
    assert [step["is_prefix"] for step in result["steps"]] == [True, False, True, None] and len(result["keys"]) == 5


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("labels", "--mode", "some"), "--mode"),
        (("batch", "--padding-side", "middle"), "--padding-side"),
        (("prefix", "--block-size", "0"), "--block-size"),
        (("budget", "--document-order", "1,x"), "--document-order"),
    ],
)
def test_a_wrong_option_is_named(chat: str, arguments: tuple[str, ...], option: str) -> None:
    code, out = run(arguments[0], chat, *arguments[1:], "--tokenizer", "bytes")
    assert code == 2 and "OptionInvalid" in out and option in out
