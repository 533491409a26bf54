"""The commands stages, decode and tokenizers, in the sandbox, as a person or a program calls them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "inspector", *arguments], input=stdin, capture_output=True, cwd=ROOT, timeout=120
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_stages_prints_merges_and_json():
    code, out, _err = run("stages", "hello low", "--tokenizer", "qwen3")
    assert code == 0 and "rank" in out and "piece 'Ġlow' -> " in out
    code, out, _err = run("stages", "-", "--tokenizer", "minilm", "--json", stdin=b"tokenization")
    value = json.loads(out)
    assert code == 0 and value["schema"] == "stages/1" and value["exact"]
    assert [t["piece"] for t in value["inserted_before"]] == ["[CLS]"]


def test_decode_shows_what_is_held_and_what_stops_it():
    code, out, _err = run("decode", "[2515, 232, 45739, 243, 30201]", "--tokenizer", "r50k", "--stop", "と")
    assert code == 0 and "holds e381 back" in out and "stopped by 'と'" in out and "text: 'お誕'" in out
    code, out, _err = run("decode", "1 2", "--tokenizer", "bytes", "--json")
    assert code == 0 and json.loads(out)["schema"] == "stream/1"


def test_tokenizers_prints_a_table_json_and_csv():
    refs = ["--tokenizer", "r50k", "--tokenizer", "o200k"]
    code, out, _err = run("tokenizers", "2 + 2 = 4", *refs, "--price", "o200k=2.5")
    assert code == 0 and "r50k" in out and "5 tokens" in out and "7 tokens" in out and "costs" in out
    code, out, _err = run("tokenizers", "2 + 2 = 4", *refs, "--json")
    value = json.loads(out)
    assert [row["num_tokens"] for row in value["rows"]] == [5, 7] and "csv" not in value
    code, out, _err = run("tokenizers", "=1", *refs, "--csv")
    assert [row[0] for row in csv.reader(io.StringIO(out))] == ["tokenizer", "r50k", "o200k"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("decode", "12 x"), b"", "InputInvalid"),
        (("decode", "99999999", "--tokenizer", "bytes"), b"", "InputInvalid"),
        (("stages", "-"), b"\xff", "InputInvalid"),
        (("stages", "hi", "--tokenizer", "no-such-preset"), b"", "UnknownPreset"),
        (("tokenizers", "hi", "--tokenizer", "bytes", "--price", "bytes=x"), b"", "OptionInvalid"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments, stdin, said):
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out) == (2, "") and err.startswith(f"inspector: {said}") and err.count("\n") == 1


def test_a_stretch_that_is_too_long_is_a_limit():
    code, _out, err = run("stages", "-", "--tokenizer", "bytes", stdin=b"a" * 30_000)
    assert code == 4 and "InputTooLarge" in err


def test_a_broken_model_configuration_is_an_error_of_its_own(tmp_path):
    import json
    import shutil
    import subprocess
    import sys

    from inspector.sources import resolve_tokenizer

    for file in resolve_tokenizer("llama3").files:
        shutil.copy(file.path, tmp_path / file.name)
    for text, kind in (("{", "TokenizerInvalid"), ('{"vocab_size": 100}', None)):
        (tmp_path / "config.json").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "inspector", "differences", f"folder:{tmp_path}", "--json"],
            capture_output=True, timeout=120,
        )  # fmt: skip
        result = json.loads(done.stdout)
        if kind:
            assert (
                done.returncode == 2 and result["error"]["kind"] == kind and "config.json" in result["error"]["message"]
            )
        else:
            assert any("no embedding row" in remark for remark in result["sizes"]["remarks"])
