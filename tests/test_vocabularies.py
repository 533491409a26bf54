"""Tokenizers side by side, and the differences that bite."""

from __future__ import annotations

import csv
import functools
import io
import json
from pathlib import Path

import pytest
from test_tokenizers import KNOWN
from texts import many_texts

from inspector.control import terminator
from inspector.errors import ErrorKind, InspectorError
from inspector.pipeline import inspect
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.base import Tokenizer
from inspector.vocabularies import (
    bos_rules,
    embedding_rows,
    encoding_difference,
    end_tokens,
    known_pattern,
    loading_difference,
    pattern_remark,
    plain_cell,
    side_by_side,
    vocabulary_sizes,
)

OPENAI = ("r50k", "p50k", "cl100k", "o200k")


@functools.lru_cache(maxsize=6)
def tokenizer(ref: str) -> Tokenizer:
    return load_tokenizer(resolve_tokenizer(ref))


@pytest.mark.parametrize("text", dict.fromkeys(text for _ref, text, _ids, _pieces in KNOWN))
def test_the_documented_comparison_of_encodings(text):
    known = {ref: (ids, pieces) for ref, other, ids, pieces in KNOWN if other == text}
    table = side_by_side(text, [tokenizer(ref) for ref in known])
    for row in table.rows:
        assert (list(row.input_ids), list(row.pieces)) == known[row.tokenizer]
        assert row.bytes_per_token == pytest.approx(len(text.encode()) / len(row.input_ids))
    assert table.to_frame()["tokens"].tolist() == [len(ids) for ids, _pieces in known.values()]


def test_boundaries_that_differ_are_named_with_how_each_cuts():
    table = side_by_side("お誕生日おめでとう", [tokenizer(ref) for ref in OPENAI])
    told = {row["text"]: row["cuts"] for row in table.to_dict()["differing"]}
    assert told["生日"] == {"r50k": [9, 11], "p50k": [9, 11], "cl100k": [9], "o200k": []}
    assert "で" not in told and "誕" not in told
    assert table.shared_boundaries == (3, 5, 6, 12, 15, 18, 21)


@pytest.mark.parametrize("refs", [OPENAI, ("qwen3", "mistral-v3", "rwkv-world", "bytes")])
def test_boundaries_shared_and_differing_account_for_every_cut(refs):
    tokenizers = [tokenizer(ref) for ref in refs]
    for text in many_texts(250)[::7]:
        table = side_by_side(text, tokenizers)
        for row in table.rows:
            inside = [
                cut
                for stretch in table.differing
                for name, cuts in stretch.cuts
                if name == row.tokenizer
                for cut in cuts
            ]
            assert sorted([*table.shared_boundaries, *inside]) == list(row.boundaries), text
        json.dumps(table.to_dict())


def test_prices_give_costs_and_csv_has_no_formula():
    table = side_by_side("=1+1", [tokenizer("o200k"), tokenizer("cl100k")], prices={"o200k": 2.5})
    assert table.rows[0].cost == pytest.approx(table.rows[0].num_tokens * 2.5e-6) and table.rows[1].cost is None
    rows = list(csv.reader(io.StringIO(table.to_csv())))
    assert rows[0][:4] == ["tokenizer", "tokens", "bytes", "bytes_per_token"] and len(rows) == 3
    assert not any(cell.startswith(("=", "+", "@", "-")) for row in rows for cell in row)


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx", "\rx", "＝1"])
def test_a_text_cell_never_begins_a_formula(text):
    assert plain_cell(text) == "'" + text
    assert plain_cell("a" + text) == "a" + text and plain_cell(-1) == "-1"


def test_an_empty_text_has_no_bytes_per_token():
    (row,) = side_by_side("", [tokenizer("o200k")]).rows
    assert row.bytes_per_token is None and row.num_tokens == 0


# --- two that should be one --------------------------------------------------------------------------------------------------


def converted(folder: Path, ref: str, change) -> Tokenizer:
    table = json.loads(Path(resolve_tokenizer(ref).files[0].path).read_text("utf-8"))
    change(table)
    (folder / "tokenizer.json").write_text(json.dumps(table))
    return load_tokenizer(resolve_tokenizer(str(folder)))


def test_map_07_a_lost_ignore_merges_is_the_first_difference_and_the_rule(tmp_path):
    lost = converted(tmp_path, "llama3", lambda table: table["model"].update(ignore_merges=False))
    found = encoding_difference(tokenizer("llama3"), lost, ["plain", "Cửa Việt"])
    assert (found.num_texts, found.differing) == (2, 1)
    assert (found.first.index, found.first.ids_a, found.first.ids_b) == (
        2, (34, 91163, 101798), (34, 91163, 11655, 26298, 83)
    )  # fmt: skip
    assert ("ignore_merges", True, False) in found.rules
    json.dumps(found.to_dict())


def test_uni_04_a_lost_normalizer_is_told(tmp_path):
    lost = converted(tmp_path, "qwen3", lambda table: table.update(normalizer=None))
    found = encoding_difference(tokenizer("qwen3"), lost, ["cafe", "cafe\u0301"])
    assert found.differing == 1 and found.first.text == "cafe\u0301"
    assert [rule for rule, _a, _b in found.rules] == ["normalizer"]


def test_two_equal_tokenizers_do_not_differ():
    found = encoding_difference(tokenizer("o200k"), tokenizer("o200k"), many_texts(250)[::9])
    assert found.differing == 0 and found.first is None and found.rules == ()


def test_the_gguf_as_transformers_reads_it_differs_and_the_rule_that_it_lost_is_named(tmp_path):
    """transformers builds byte level alone from the GGUF: the rule "each digit alone" of its pre-tokenizer is lost."""
    from inspector.tokenizers.gguf import tokenizer_json
    from inspector.tokenizers.gguf_metadata import read_metadata

    table = tokenizer_json(read_metadata(Path(resolve_tokenizer("smollm2").files[0].path)))
    table["pre_tokenizer"] = table["pre_tokenizer"]["pretokenizers"][1]
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    found = encoding_difference(tokenizer("smollm2"), load_tokenizer(resolve_tokenizer(str(tmp_path))), many_texts(500))
    assert found.num_texts >= 500 and found.differing > 20
    assert [rule for rule, _a, _b in found.rules if rule != "post_processor"] == ["pre_tokenizer"]
    assert any(char.isdigit() for char in found.first.text)


def test_auto_tokenizer_may_be_another_tokenizer_than_the_file(tmp_path):
    """The trap of the gpt4o package: its class name makes AutoTokenizer rebuild GPT-2's pre-tokenizer."""
    source = Path(resolve_tokenizer("gpt-oss").files[0].path)
    table = json.loads(source.read_text("utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    artifact = resolve_tokenizer(str(tmp_path))
    found = loading_difference(artifact, load_tokenizer(artifact), ["HelloWorld 12345 don't", "a"])
    assert found.rules[0][2].startswith("GPT2Tokenizer") and found.differing >= 1 and found.first.index >= 0


def test_auto_tokenizer_that_cannot_load_is_an_error_that_says_so(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}}')
    tokenizer = load_tokenizer(resolve_tokenizer(str(tmp_path)))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "NoSuchTokenizer", "auto_map": {"AutoTokenizer": ["x.y", null]}}'
    )
    artifact = resolve_tokenizer(str(tmp_path))
    with pytest.raises(InspectorError) as caught:
        loading_difference(artifact, tokenizer, ["a"])
    assert caught.value.kind is ErrorKind.TokenizerInvalid


# --- tokenizer and model -------------------------------------------------------------------------------------------------------


def test_vocab_03_the_three_numbers_and_vocab_01_rows_without_tokens():
    sizes = vocabulary_sizes(tokenizer("qwen3"), {"vocab_size": 151936})
    assert (sizes.vocab_size, sizes.size, sizes.rows, sizes.dead_rows) == (151643, 151669, 151936, 267)
    assert any("ids 151669 to 151935" in remark for remark in sizes.remarks)
    assert any("would shrink 151936 rows to 151680" in remark for remark in sizes.remarks)


def test_vocab_02_an_added_token_without_a_row_is_named():
    sizes = vocabulary_sizes(tokenizer("qwen3"), {"text_config": {"vocab_size": 151668}})
    assert sizes.outside == ((151668, "</think>"),) and sizes.dead_rows == 0
    assert "no embedding row" in sizes.remarks[0]


@pytest.mark.parametrize(
    "config", [{}, {"vocab_size": None}, {"vocab_size": True}, {"vocab_size": "9"}, {"text_config": []}]
)
def test_a_configuration_without_a_vocabulary_size_is_not_guessed(config):
    assert embedding_rows(config) is None
    assert vocabulary_sizes(tokenizer("qwen3"), config).rows is None


CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]


def test_generation_that_does_not_stop_at_the_turn_s_end_is_told():
    encoding = inspect(CHAT, tokenizer="llama3", add_generation_prompt=False).raise_for_error().encoding
    end = terminator(encoding)
    assert encoding.tokenizer.piece(end) == "<|eot_id|>"
    eos = encoding.tokenizer.special_token_ids["eos_token"]
    text_end = encoding.tokenizer.encode("<|end_of_text|>").input_ids.tolist()[0]
    wrong = end_tokens(encoding.tokenizer, {"eos_token_id": text_end}, end)
    assert any("run on past the turn" in remark for remark in wrong.remarks) and wrong.turn_terminator == (
        end,
        "<|eot_id|>",
    )
    assert end_tokens(encoding.tokenizer, {"eos_token_id": [text_end, end, eos]}, end).remarks == ()
    assert any(
        "does not have" in remark
        for remark in end_tokens(encoding.tokenizer, {"eos_token_id": [10**6, end, eos]}, end).remarks
    )


def test_bos_is_told_from_the_tokenizer_and_from_the_template():
    encoding = inspect(CHAT, tokenizer="llama3.1").raise_for_error().encoding
    rules = bos_rules(encoding.tokenizer, encoding)
    assert rules.tokenizer_adds and rules.template_writes == 1 and rules.twice
    assert "add_special_tokens=False" in rules.remarks[0]
    plain = inspect(CHAT, tokenizer="llama3").raise_for_error().encoding
    assert not bos_rules(plain.tokenizer, plain).twice
    assert bos_rules(tokenizer("qwen3")).bos is None


def test_map_08_llama_3_s_pattern_in_a_mistral_vocabulary_is_remarked(tmp_path):
    assert {ref: known_pattern(tokenizer(ref)) for ref in ("llama3", "qwen3", "o200k", "mistral-tekken")} == {
        "llama3": "llama3", "qwen3": "qwen2", "o200k": "o200k", "mistral-tekken": "tekken"
    }  # fmt: skip
    assert pattern_remark(tokenizer("llama3")) is None and pattern_remark(tokenizer("mistral-tekken")) is None
    folder = tmp_path / "Mistral-Nemo-converted"
    folder.mkdir()
    wrong = converted(folder, "llama3", lambda table: None)
    assert "Llama 3's pattern" in pattern_remark(wrong)


def test_the_differences_of_a_preset_are_given_by_the_command() -> None:
    import json
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "inspector", "differences", "llama3.1", "--json"], capture_output=True, timeout=300
    )
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["loading"]["differing"] == 0 and result["bos"]["twice"]
    assert result["sizes"]["size"] == 128256 and result["ends"]["turn_terminator"][1] == "<|eot_id|>"
