"""New special tokens: the plan's numbers are transformers', its program does what it says, its trial is the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.training.vocabulary import plan, reserved_slots, trial

NEW = ["<plan>", "</plan>"]


def tokenizer(preset: str) -> Any:
    return load_tokenizer(resolve_tokenizer(preset))


def applies(planned: Any) -> set[str]:
    return {entry.name for entry in planned.obligations() if entry.applies}


def test_a_model_with_more_rows_than_entries_is_not_shrunk() -> None:
    planned = plan(tokenizer("qwen3"), ["<think>", *NEW], rows=151_936, pad_to_multiple_of=64)
    assert planned.new_ids == (151_669, 151_670) and [slot.id for slot in planned.existing] == [151_667]
    assert (planned.rows_after, planned.rows_added, planned.shrinks) == (151_936, 0, 151_671)
    assert "do_not_shrink" in applies(planned) and "resize" not in applies(planned)
    value = planned.to_dict()
    assert value["size_after"] == 151_671 and value["tokens"][0] == {"content": "<plan>", "id": 151_669}


def test_rows_are_added_to_a_multiple_where_there_are_too_few() -> None:
    planned = plan(tokenizer("smollm2"), NEW, rows=49_152, pad_to_multiple_of=64, tied=False)
    assert (planned.rows_after, planned.rows_added, planned.shrinks) == (49_216, 64, None)
    assert "resize" in applies(planned) and not {"do_not_shrink", "tied"} & applies(planned)


def test_reserved_slots_are_those_that_no_template_writes() -> None:
    slots = reserved_slots(tokenizer("llama3.1"))
    assert len(slots) > 200 and slots[0].content == "<|reserved_special_token_0|>" and slots[0].id == 128_002
    assert reserved_slots(tokenizer("qwen3")) == () and "reserved_slots" in applies(plan(tokenizer("llama3.1"), NEW))


@pytest.mark.parametrize("tied", [True, False])
def test_the_program_and_the_trial_do_what_the_plan_says(tmp_path: Path, tied: bool) -> None:
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    given, rows = tokenizer("smollm2"), 49_152 if tied else 49_280
    torch.manual_seed(1)
    size = {"vocab_size": rows, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**size, num_attention_heads=1, tie_word_embeddings=tied)).eval()
    given.library_tokenizer.save_pretrained(tmp_path / "old")
    model.save_pretrained(tmp_path / "old")
    planned = plan(given, NEW, rows=rows, pad_to_multiple_of=64, tied=tied)
    tried = trial(model, planned, [1, 5, 9])
    exec(planned.code(), {"MODEL": str(tmp_path / "old"), "FOLDER": str(tmp_path / "new")})

    saved, changed = AutoTokenizer.from_pretrained(tmp_path / "new"), LlamaForCausalLM.from_pretrained(tmp_path / "new")
    assert saved.convert_tokens_to_ids(NEW) == list(planned.new_ids) and len(saved) == planned.size + 2
    weights = [changed.get_input_embeddings().weight, changed.get_output_embeddings().weight]
    for before, after in zip((model.get_input_embeddings().weight, model.get_output_embeddings().weight), weights):
        assert after.shape[0] == planned.rows_after == (49_216 if tied else 49_280)
        assert torch.equal(after[: planned.size], before[: planned.size])
        assert torch.allclose(after[list(planned.new_ids)], before[: planned.size].mean(dim=0), atol=1e-6)
    with torch.no_grad():
        logits = changed(torch.tensor([[1, 5, 9]])).logits[0, -1]
    shares = torch.softmax(logits, dim=0)[list(planned.new_ids)]
    assert tried.top_after == tuple(logits.topk(5).indices.tolist())
    assert abs(tried.new_mass - shares.sum().item()) < 1e-6 and tried.new_norm < tried.mean_norm
    assert len(tried.leftover_norms) == (0 if tied else 2) and tried.to_dict()["schema"] == "vocabulary-trial/1"


@pytest.mark.parametrize(
    ("tokens", "options", "kind"),
    [
        ([], {}, ErrorKind.InputInvalid),
        (["<a>", "<a>"], {}, ErrorKind.InputInvalid),
        ([" "], {}, ErrorKind.InputInvalid),
        (NEW, {"rows": 0}, ErrorKind.OptionInvalid),
        (NEW, {"pad_to_multiple_of": -8}, ErrorKind.OptionInvalid),
    ],
)
def test_an_impossible_plan_is_refused(tokens: list[str], options: dict[str, int], kind: ErrorKind) -> None:
    with pytest.raises(InspectorError) as caught:
        plan(tokenizer("bytes"), tokens, **options)
    assert caught.value.kind is kind
