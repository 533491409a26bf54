"""Labels, batches and prefixes: the fault cases with the right value, and what transformers does as the oracle."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_chats import random_request

from inspector.encode import Encoding
from inspector.errors import ErrorKind, InspectorError
from inspector.job import make_options, prepare
from inspector.messages import Conversation
from inspector.pipeline import inspect, run
from inspector.sources import resolve_tokenizer
from inspector.tensors import PaddingSide
from inspector.tokenizers import load_tokenizer
from inspector.training.batch import Cell, pack_rows, pad_batch
from inspector.training.labels import AlarmKind, LabelMode, Labels, collated, make_labels, seam
from inspector.training.prefix import BLOCK_SIZES, PrefixTable, block_keys, prefix_key, prefix_table

LINES = (Path(__file__).parent / "data/faults.jsonl").read_text("utf-8").splitlines()
FAULTS = {fault["id"]: fault for fault in map(json.loads, LINES)}
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TAGGED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
)
CHAT = [
    {"role": "user", "content": "one two"},
    {"role": "assistant", "content": "three four"},
    {"role": "user", "content": "five"},
    {"role": "assistant", "content": "six seven eight"},
]


def labels_of(messages: list[dict[str, Any]], template: str | None, tokenizer: str = "qwen3", **how: Any) -> Labels:
    given = inspect(
        messages, tokenizer=tokenizer, template_text=template, add_generation_prompt=False
    ).raise_for_error()
    return make_labels(given.encoding, messages, **how)


def kinds(labels: Labels) -> list[str]:
    return [alarm.kind.value for alarm in labels.alarms]


def trained(labels: Labels) -> list[str]:
    return [text for _start, _end, on, text in labels.runs if on]


# --- labels -----------------------------------------------------------------------------------------------------------


def test_mask_01_without_the_tag_transformers_trains_nothing_and_provenance_does() -> None:
    messages = FAULTS["MASK-01"]["minimal_input"]["messages"]
    tagless = labels_of(messages, CHATML, generation_tag_only=True)
    assert tagless.num_trained == FAULTS["MASK-01"]["observed"]["mask_sum"] == 0 and tagless.source is None
    assert kinds(tagless) == ["all_masked"] and "no {% generation %} tag" in tagless.alarms[0].why
    ours = labels_of(messages, CHATML)
    assert trained(ours) == ["At noon.<|im_end|>"] and ours.source == "provenance" and ours.alarms == ()


def test_mask_03_a_tag_inside_a_macro_and_a_capture_covers_the_answer() -> None:
    template = (
        "{% macro turn(m) %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{% endmacro %}{% set out %}{% for m in messages %}{{ turn(m) }}{% endfor %}"
        "{% endset %}{{ out }}"
    )
    labels = labels_of(FAULTS["MASK-03"]["minimal_input"]["messages"], template, tokenizer="bytes")
    assert trained(labels) == [FAULTS["MASK-03"]["observed"]["want"]] and labels.source == "generation"
    assert kinds(labels) == ["stop_not_trained"]  # the template writes no token that ends the turn


def test_mask_04_truncation_keeps_the_labels_of_what_is_left() -> None:
    whole = labels_of(CHAT, TAGGED)
    end = int(np.flatnonzero(whole.labels != -100)[-1]) + 1
    cut = labels_of(CHAT, TAGGED, max_length=end - 2)
    assert cut.num_trained == whole.num_trained - 2 and np.array_equal(cut.labels, whole.labels[: end - 2])
    assert kinds(cut) == ["truncated_mask"] and cut.alarms[0].token == end - 2
    nothing = labels_of(CHAT, TAGGED, max_length=3)
    assert kinds(nothing) == ["all_masked", "truncated_mask"]
    with pytest.raises(InspectorError) as caught:
        labels_of(CHAT, TAGGED, max_length=0)
    assert caught.value.kind is ErrorKind.OptionInvalid


@pytest.mark.parametrize("template", [CHATML, TAGGED])
def test_modes_train_the_assistant_the_last_turn_or_all(template: str) -> None:
    assert trained(labels_of(CHAT, template)) == ["three four<|im_end|>", "six seven eight<|im_end|>"]
    assert trained(labels_of(CHAT, template, mode=LabelMode.LAST_TURN)) == ["six seven eight<|im_end|>"]
    everything = labels_of(CHAT, template, mode=LabelMode.ALL)
    assert np.array_equal(everything.labels, everything.input_ids) and everything.alarms == ()
    value = everything.to_dict()
    assert value["num_trained"] == value["num_tokens"] == len(value["labels"])


def test_labels_equal_transformers_mask_where_the_template_has_the_tag() -> None:
    tokenizer = load_tokenizer(resolve_tokenizer("qwen3"))
    rng = random.Random(4)
    for _ in range(12):
        chat = [m for m in random_request(rng)["messages"] if m["role"] in ("user", "assistant", "system")]
        chat = [{"role": m["role"], "content": m["content"] if isinstance(m["content"], str) else "x"} for m in chat]
        given = tokenizer.library_tokenizer.apply_chat_template(
            chat, chat_template=TAGGED, return_dict=True, return_assistant_tokens_mask=True
        )
        labels = labels_of(chat, TAGGED)
        expected = [i if on else -100 for i, on in zip(given["input_ids"], given["assistant_masks"])]
        assert labels.labels.tolist() == expected


def test_an_untrained_stop_token_and_a_trained_role_are_alarms() -> None:
    no_stop = TAGGED.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
    labels = labels_of(CHAT, no_stop)
    assert kinds(labels) == ["stop_not_trained"] * 2
    assert [labels.input_ids[alarm.token] for alarm in labels.alarms] == [151645, 151645]
    assert [alarm.path for alarm in labels.alarms] == ["messages[1]", "messages[3]"]
    header = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<|im_start|>assistant\n{{ m.content }}"
        "<|im_end|>\n{% endgeneration %}{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    )
    assert kinds(labels_of(CHAT, header)) == ["role_header_trained"] * 2


def test_reasoning_that_the_template_leaves_out_is_an_alarm() -> None:
    chat: list[dict[str, Any]] = [
        CHAT[0],
        {"role": "assistant", "content": "four", "reasoning_content": "count"},
        CHAT[2],
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nsix"},
    ]
    strips = CHATML.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
    found = [alarm for alarm in labels_of(chat, strips).alarms if alarm.kind is AlarmKind.REASONING_NEVER_TRAINED]
    assert [alarm.path for alarm in found] == ["messages[1].reasoning_content", "messages[3].content"]
    kept = CHATML.replace("{{ m.content }}", "{{ m.reasoning_content or '' }}{{ m.content }}")
    assert kinds(labels_of(chat, kept)) == []


def test_a_collator_that_masks_padding_by_its_id_masks_the_real_eos() -> None:
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    tokenizer = load_tokenizer(resolve_tokenizer("llama3"))
    labels = labels_of(CHAT, CHATML.replace("<|im_end|>", "{{ eos_token }}"), tokenizer="llama3")
    assert "pad_is_eos_masks_eos" in kinds(labels)
    library = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer._backend, eos_token=tokenizer.special_tokens["eos_token"]
    )
    library.pad_token = library.eos_token
    batch = DataCollatorForLanguageModeling(library, mlm=False, return_tensors="np")(
        [{"input_ids": labels.input_ids.tolist()}]
    )
    assert batch["labels"][0].tolist() == collated(labels.input_ids, library.pad_token_id).tolist()
    assert (collated(labels.labels, library.pad_token_id) != labels.labels).sum() == 2


def test_gen_09_a_prompt_and_a_completion_tokenized_apart_are_not_the_joint_ids() -> None:
    case, seen = FAULTS["GEN-09"]["minimal_input"], FAULTS["GEN-09"]["observed"]
    found = seam(case["prompt"], case["completion"], load_tokenizer(resolve_tokenizer("qwen3")))
    apart = [*found.prompt_ids, *found.completion_ids]
    assert [len(apart), len(found.joint_ids)] == seen["n"] and not found.equal
    assert (
        apart[-len(seen["separate"]) :] == seen["separate"]
        and list(found.joint_ids[-len(seen["joint"]) :]) == seen["joint"]
    )
    assert found.crossing is not None and found.joint_ids[found.crossing] == 36611
    template = "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}<|im_end|>{% else %}{{ m.content }}{% endif %}{% endfor %}"
    chat = [{"role": "user", "content": case["prompt"]}, {"role": "assistant", "content": case["completion"]}]
    labels = labels_of(chat, template)
    assert kinds(labels) == ["seam_merge"] and labels.input_ids[labels.alarms[0].token] == 36611


# --- batches ----------------------------------------------------------------------------------------------------------

ROWS = [[5, 6, 2], [7, 8, 9, 10, 11, 2], [2]]


@pytest.mark.parametrize("side", list(PaddingSide))
def test_padding_is_that_of_transformers_and_tells_padding_from_eos(side: PaddingSide) -> None:
    tokenizer = load_tokenizer(resolve_tokenizer("smollm2")).library_tokenizer
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, side.value
    pad = tokenizer.pad_token_id
    rows = [[pad if i == 2 else i for i in row] for row in ROWS]
    given = tokenizer.pad({"input_ids": rows}, return_tensors="np")
    batch = pad_batch(rows, pad, padding_side=side, eos_id=pad)
    assert np.array_equal(batch.input_ids, given["input_ids"]) and batch.pad_is_eos
    assert np.array_equal(batch.attention_mask, given["attention_mask"])
    assert (batch.cells == Cell.EOS).sum() == 3 and (batch.cells == Cell.PAD).sum() == 8
    assert batch.position_ids[0][batch.attention_mask[0] == 1].tolist() == [0, 1, 2]
    left = side is PaddingSide.LEFT
    assert batch.shifts.tolist() == ([3, 0, 5] if left else [0, 0, 0])
    assert batch.last_positions.tolist() == ([5, 5, 5] if left else [2, 5, 0])
    assert len(batch.to_dict()["remarks"]) == 2


def tiny(kind: str) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=32, n_layer=2, n_head=2)).eval()
    size = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 64}
    return LlamaForCausalLM(LlamaConfig(**size, num_hidden_layers=2, num_attention_heads=2)).eval()


def run_model(model: Any, **arrays: Any) -> np.ndarray:
    import torch

    with torch.no_grad():
        return model(**{name: torch.as_tensor(value) for name, value in arrays.items()}).logits.numpy()


def test_batch_01_the_last_column_of_right_padding_is_not_the_next_token() -> None:
    model, batch = tiny("llama"), pad_batch(ROWS[:2], 0, padding_side=PaddingSide.RIGHT)
    alone = run_model(model, input_ids=[ROWS[0]])[0, -1]
    together = run_model(model, input_ids=batch.input_ids, attention_mask=batch.attention_mask)[0]
    assert abs(together[batch.last_positions[0]] - alone).max() < 1e-5 < 0.01 < abs(together[-1] - alone).max()


def test_batch_02_left_padding_needs_positions_from_the_mask() -> None:
    model, batch = tiny("gpt2"), pad_batch(ROWS[:2], 0)
    alone = run_model(model, input_ids=[ROWS[0]])[0, -1]
    given = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    right = run_model(model, **given, position_ids=batch.position_ids)[0, -1]
    wrong = run_model(model, **given, position_ids=batch.unmasked_position_ids)[0, -1]
    assert abs(right - alone).max() < 1e-5 < 0.01 < abs(wrong - alone).max() and batch.shifts[0] == 3


def test_packing_is_that_of_transformers_and_its_mask_keeps_rows_apart() -> None:
    from transformers import DataCollatorWithFlattening

    collator = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True, return_tensors="np")
    given, packed = collator([{"input_ids": row} for row in ROWS]), pack_rows(ROWS)
    for name, ours in (
        ("input_ids", packed.input_ids),
        ("labels", packed.labels),
        ("position_ids", packed.position_ids),
    ):
        assert given[name][0].tolist() == ours.tolist()
    assert given["seq_idx"][0].tolist() == packed.sequence_ids.tolist()
    assert given["cu_seq_lens_q"].tolist() == packed.boundaries.tolist()
    model, mask = tiny("llama"), packed.mask()
    assert packed.leaks == np.tri(len(mask)).sum() - mask.sum() and packed.to_dict()["leaks"] == packed.leaks
    bias = np.where(mask, 0.0, np.finfo(np.float32).min).astype(np.float32)[None, None]
    together = run_model(
        model, input_ids=packed.input_ids[None], position_ids=packed.position_ids[None], attention_mask=bias
    )[0]
    for row, start in zip(ROWS, packed.boundaries.tolist()):
        assert abs(together[start : start + len(row)] - run_model(model, input_ids=[row])[0]).max() < 1e-5


def test_a_batch_without_rows_or_with_odd_labels_is_refused() -> None:
    for action in (
        lambda: pad_batch([], 0),
        lambda: pack_rows([[1, 2]], [[1]]),
        lambda: pad_batch([[1]], 0, labels=[]),
    ):
        with pytest.raises(InspectorError) as caught:
            action()
        assert caught.value.kind is ErrorKind.InputInvalid


# --- prefixes ---------------------------------------------------------------------------------------------------------


def table(messages: list[dict[str, Any]], template: str | None, tokenizer: str = "qwen3", **how: Any) -> PrefixTable:
    options = {"tokenizer": tokenizer, "template_text": template, "clock": "2026-01-31T09:30:00"}

    def assemble(conversation: Conversation, asks: bool) -> Encoding:
        part = json.dumps(messages[: len(conversation.messages)]).encode()
        return run(prepare(part, make_options(**options, add_generation_prompt=asks))).raise_for_error().encoding

    return prefix_table(Conversation(list(messages)), assemble, **how)


def test_hist_01_stripped_reasoning_parts_the_turns_at_the_line_that_strips_it() -> None:
    case = FAULTS["HIST-01"]["minimal_input"]
    template = case["template"].replace("{% for m in messages %}<", "\n{% for m in messages %}<")
    asked, answered, again = table(case["messages"], template, "bytes").steps
    assert asked.is_prefix and asked.shared_tokens == asked.tokens and (answered.messages, answered.asks) == (2, False)
    assert answered.is_prefix is False and again.is_prefix is None
    parting = answered.parting
    assert parting.text.startswith("<think>count hours") and parting.next_text.startswith("At noon.")
    merged = table(case["messages"], template, "qwen3").steps[0]  # `><` is one token: the last id is another one
    assert merged.is_prefix is False and merged.parting.byte is None and merged.parting.text == ">"
    assert (parting.line, parting.next_path) == (2, "messages[1].content")
    assert answered.reused(1) == answered.shared_tokens == parting.token and answered.reused(128) == 0
    assert parting.byte == len(b"<user>When is high tide?<e><assistant>")


def test_hist_07_the_prefix_holds_in_a_tool_loop_and_is_lost_at_the_next_question() -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "tide", "arguments": {}}}
    chat = [
        {"role": "user", "content": "When is high tide?"},
        {"role": "assistant", "content": "", "reasoning_content": "look it up", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "name": "tide", "content": "3.2"},
        {"role": "assistant", "content": "3.2"},
        {"role": "user", "content": "ok"},
    ]
    steps = table(chat, None).steps
    assert [(step.messages, step.asks) for step in steps] == [(1, True), (2, False), (3, True), (4, False), (5, True)]
    assert [step.is_prefix for step in steps[1:4]] == [True, True, False]
    assert steps[3].parting.text.startswith("<think>\nlook it up") and steps[3].parting.line is not None


def test_gen_04_a_generation_prompt_that_the_answer_does_not_repeat_is_no_prefix() -> None:
    case = FAULTS["GEN-04"]
    asked, _answered = table(case["minimal_input"]["messages"], case["minimal_input"]["template"], "bytes").steps
    same = len("<user>When is high tide?<assistant>")
    assert asked.is_prefix is False and asked.parting.byte == same
    assert asked.parting.text.startswith("<assistant><think>") and asked.parting.next_text == "<assistant>At noon."


def test_gen_07_an_eos_after_the_whole_chat_is_where_the_turns_part() -> None:
    case = FAULTS["GEN-07"]["minimal_input"]
    _asked, answered, _again = table(case["messages"], case["template"], "smollm2").steps
    assert (
        answered.is_prefix is False
        and answered.parting.kind == "special"
        and answered.parting.text.endswith("><|im_end|>")
    )
    assert answered.parting.token == answered.tokens - 2 and answered.parting.next_text.startswith("><user>")


def test_a_refused_step_is_told_and_compared_with_nothing() -> None:
    refuses = "{% if messages|length == 1 %}{{ raise_exception('two at least') }}{% endif %}" + CHATML
    steps = table(CHAT, refuses).steps
    assert "two at least" in steps[0].error and steps[0].tokens is None and steps[0].is_prefix is None
    assert steps[1].is_prefix is True and steps[1].to_dict()["reused"]["16"] == steps[1].tokens // 16 * 16


def seed_key(token_ids: list[int], model_revision: str, adapter: str = "none") -> str:
    """As the course defines it."""
    payload = model_revision.encode() + b"\0" + adapter.encode() + b"\0"
    payload += b"".join(token.to_bytes(4, "little") for token in token_ids)
    return hashlib.sha256(payload).hexdigest()[:16]


def test_block_keys_are_those_of_all_ids_up_to_the_blocks_end() -> None:
    ids = [random.Random(1).randrange(150_000) for _ in range(300)]
    assert prefix_key(ids, "v1", "lora") == seed_key(ids, "v1", "lora")
    for size in BLOCK_SIZES:
        expected = tuple(seed_key(ids[:end], "v1") for end in range(size, len(ids) + 1, size))
        assert block_keys(ids, size, "v1") == expected
    last = table(CHAT, CHATML, model_revision="v1")
    assert last.keys and last.to_dict()["keys"][0] == seed_key(
        inspect(CHAT, tokenizer="qwen3", template_text=CHATML, add_generation_prompt=False).encoding.input_ids.tolist()[
            :16
        ],
        "v1",
    )
