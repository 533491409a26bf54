"""`python -m inspector logits`: the known answer, both forms of output, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from inspector import schemas
from inspector.cli import app

EVERYTHING = (
    "--b",
    "smollm2,chatml",
    "--heat",
    "--walk",
    "12",
    "--what-if",
    "--sampler",
    "temperature=0.7,top_p=0.9,order=vllm",
)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("chat") / "chat.json"
    path.write_text('[{"role": "user", "content": "What is the capital of France?"}]')
    return str(path)


def run(chat: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["logits", chat, "--backend", "local", *arguments])


def conforms(value: Any) -> Any:
    """Hold a printed value, and each part of it that has a schema of its own, to its schema."""
    for part in (value, *(part for part in value.values() if isinstance(part, dict) and "schema" in part)):
        jsonschema.Draft202012Validator(schemas.schema(part["schema"])).validate(part)
    return value


def test_everything_is_in_the_json_and_the_same_figures_in_the_text(chat: str) -> None:
    value = conforms(json.loads(run(chat, *EVERYTHING, "--json").stdout))
    assert list(value) == ["schema", "verdict", "sampler", "heat", "whatif", "walk", "error"] and value["error"] is None
    assert [row["piece"] for row in value["verdict"]["rows"][:2]] == ["The", "L"]
    assert (
        b"".join(bytes.fromhex(step["settled"]) for step in value["walk"])
        == b"The capital of France is Paris.<|im_end|>"
    )
    assert value["sampler"]["sampler"]["order"] == "vllm" and len(value["heat"]["logprobs"]) == 37
    text = run(chat, *EVERYTHING).stdout
    assert "walk: The capital of France is Paris.<|im_end|>\n(an end token)" in text
    assert "0.1522" in text and "JS 0.178" in text and 0.178 < value["verdict"]["distances"][0]["js"] < 0.179
    assert "right_padded" in text and "loss 4.3224 nats" in text and "top_p 0.9 cuts 49141 tokens" in text


def test_a_wrong_setting_a_wrong_pairing_and_no_server_are_named(chat: str, tmp_path: Path) -> None:
    refused = run(chat, "--sampler", "temperature=hot")
    assert refused.exit_code == 2 and "--sampler" in refused.stderr
    paired = run(chat, "--tokenizer", "qwen3", "--json")
    assert paired.exit_code == 2 and conforms(json.loads(paired.stdout))["error"]["kind"] == "ModelInvalid"
    nowhere = run(chat, "--backend", "openai", "--json")
    assert nowhere.exit_code == 2 and conforms(json.loads(nowhere.stdout))["error"]["kind"] == "OptionInvalid"
    assert run(chat, "--dtype", "int3").exit_code == 2


def test_rows_of_a_scan_are_sent_to_a_model_and_a_server_that_is_down_leaves_the_scan_whole(tmp_path: Path) -> None:
    texts = ("What is the capital of France?", "Count to three.", "When is high tide?")
    rows = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"messages": 5}]))
    out = tmp_path / "out"
    common = ["scan", str(tmp_path / "rows.jsonl"), "--b", "smollm2,chatml", "--generation-prompt", "--clock",
              "2026-01-31T09:30:00", "--out", str(out), "--logits-sample", "2"]  # fmt: skip

    def summary() -> Any:
        return conforms(json.loads((out / "summary.json").read_bytes()))

    down = CliRunner().invoke(app, [*common, "--backend", "openai", "--backend-url", "http://127.0.0.1:1", "--json"])
    assert down.exit_code == 3, down.output
    error = json.loads(down.stdout)["error"]
    assert error["kind"] == "ServerUnreachable" and error["remedy"] and "127.0.0.1" in error["message"]
    whole = summary()
    assert whole["scan"]["complete"] and whole["rows"]["total"] == 4 and whole["logits"] is None
    assert "rows.jsonl" in (out / "report.html").read_text() and not (out / "logits.json").exists()

    fine = CliRunner().invoke(app, [*common, "--backend", "local", "--seed", "1"])
    assert fine.exit_code == 0, fine.output
    logits = summary()["logits"]
    assert (logits["asked"], logits["answered"], logits["backend"], logits["model"]) == (2, 2, "local", "smollm2")
    assert all(row["error"] is None and len(row["top"]) == 5 and row["b"]["top"] for row in logits["rows"])
    answer, one = logits["rows"][0], tmp_path / "one.json"
    one.write_text(json.dumps(rows[answer["row"]]["messages"]))  # asked alone, it is answered alike
    alone = json.loads(run(str(one), "--b", "smollm2,chatml", "--json").stdout)["verdict"]
    tops = sorted((row for row in alone["rows"] if row["cells"][0]), key=lambda row: row["cells"][0]["rank"])
    assert [top["piece"] for top in answer["top"]] == [row["piece"] for row in tops[:5]]
    assert answer["tokens"] == alone["sides"][0]["tokens"] and answer["kl"] == alone["distances"][0]["kl_ab"]
    report = (out / "report.html").read_text()
    assert "2 of 2 rows, chosen by seed 1, answered by " in report
    assert "of 2 rows answered by smollm2 (local)" in CliRunner().invoke(app, ["summary", str(out)]).stdout
