"""Every handed case of generation prompts, histories, batches, cuts, masks and media, by its id, with the right value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pictures import data_url, picture

from inspector.lint import lint
from inspector.pipeline import Inspection, inspect
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.training.batch import pad_batch
from inspector.training.labels import make_labels, seam
from inspector.training.prefix import Step, prefix_table

LINES = (Path(__file__).parent / "data/faults.jsonl").read_text("utf-8").splitlines()
FAULTS = {fault["id"]: fault for fault in map(json.loads, LINES)}
KINDS = ("GEN", "HIST", "BATCH", "TRUNC", "MASK", "MM")
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"  # fmt: skip
CHECKS: dict[str, Callable[[dict[str, Any], Any], None]] = {}


def check(action: Callable[[dict[str, Any], Any], None]) -> Callable[[dict[str, Any], Any], None]:
    CHECKS[action.__name__.upper().replace("_", "-")] = action
    return action


def look(messages: list[Any], source: str | None = CHATML, **options: Any) -> Inspection:
    request = {"messages": messages, "chat_template_kwargs": options.pop("arguments", {})}
    found = inspect(request, **{"tokenizer": "qwen3", "template_text": source, **options})
    assert isinstance(found, Inspection) and found.error is None, found.error
    return found


def rules(inspection: Inspection) -> set[str]:
    return {finding.rule for finding in lint(inspection).findings}


def steps(messages: list[Any], template: str, tokenizer: str = "bytes") -> tuple[Step, ...]:
    from inspector.job import make_options, prepare
    from inspector.pipeline import begin

    given = begin(prepare(json.dumps(messages).encode(), make_options(tokenizer=tokenizer, template_text=template)))
    return prefix_table(given.conversation, given.assemble).steps


@check
def gen_03(case: dict[str, Any], seen: Any) -> None:
    found = look(case["messages"], case["template"])
    start, end = found.rendered.generation_prompt
    assert found.rendered.utf8[start:end].decode() == seen["generation_prompt"]
    assert "generation-prompt-opens-thinking" in rules(found)


@check
def gen_04(case: dict[str, Any], seen: Any) -> None:
    prompt = look(case["messages"][:1], case["template"]).rendered.text
    full = look(case["messages"], case["template"], add_generation_prompt=False).rendered.text
    assert (prompt, full) == (seen["prompt"], seen["full"])
    asked, _answered = steps(case["messages"], case["template"])
    assert asked.is_prefix is False and asked.parting.byte == len("<user>When is high tide?<assistant>")


@check
def gen_05(case: dict[str, Any], seen: Any) -> None:
    found = look(case["messages"], case["template"], continue_final_message=True)
    assert found.rendered.text == seen["rendered"] and "prefill-changed" in rules(found)


@check
def gen_06(case: dict[str, Any], seen: Any) -> None:
    continued = look(case["messages"], case["template"], continue_final_message=True)
    assert continued.rendered.text == seen["continue"] and "continue-header-differs" in rules(continued)
    assert look(case["messages"][:1], case["template"]).rendered.text == seen["generate"]


@check
def gen_07(case: dict[str, Any], seen: Any) -> None:
    found = look(case["messages"][:2], case["template"], tokenizer="smollm2", add_generation_prompt=False)
    assert found.rendered.text == seen["turn1"].replace("<eos>", "<|im_end|>")
    assert [step.is_prefix for step in steps(case["messages"], case["template"], "smollm2")][1] is False


@check
def gen_09(case: dict[str, Any], seen: Any) -> None:
    found = seam(case["prompt"], case["completion"], load_tokenizer(resolve_tokenizer("qwen3")))
    assert [len(found.prompt_ids) + len(found.completion_ids), len(found.joint_ids)] == seen["n"]
    assert list(found.joint_ids[-len(seen["joint"]) :]) == seen["joint"] and not found.equal


@check
def gen_10(case: dict[str, Any], seen: Any) -> None:
    encode = load_tokenizer(resolve_tokenizer("llama3")).encode
    assert encode(case["text"]).input_ids.tolist() == seen["trailing_space"]
    assert encode("to be or not").input_ids.tolist() == seen["natural"]
    found = look([{"role": "user", "content": case["text"]}], "{{ messages[0].content }}", tokenizer="llama3")
    assert "prompt-ends-in-space" in rules(found)


@check
def hist_01(case: dict[str, Any], seen: Any) -> None:
    _asked, answered, _again = steps(case["messages"], case["template"])
    assert answered.is_prefix is False and answered.parting.text.startswith("<think>count hours")
    assert answered.parting.byte == len("<user>When is high tide?<e><assistant>")


@check
def hist_04(case: dict[str, Any], seen: Any) -> None:
    template = "{% for m in messages %}" + case["template"] + "{% endfor %}"
    assert look(case["messages"], template, add_generation_prompt=False).rendered.text == seen["transformers_5.23"]
    dropped = look([{"role": "assistant", "content": "x"}], template, add_generation_prompt=False)
    assert dropped.rendered.text == seen["raw_jinja"]


@check
def hist_05(case: dict[str, Any], seen: Any) -> None:
    given = look(case["messages"], case["template"], arguments=case["chat_template_kwargs"])
    assert given.rendered.text == look(case["messages"], case["template"]).rendered.text
    assert "argument-unread" in rules(given)


@check
def hist_06(case: dict[str, Any], seen: Any) -> None:
    for arguments in case["kwargs"]:
        found = look([{"role": "user", "content": "x"}], case["template"], arguments=arguments)
        assert found.rendered.text == seen[repr(arguments["enable_thinking"])]


@check
def hist_07(case: dict[str, Any], seen: Any) -> None:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "tide", "arguments": {}}}
    asked, _words, *others = case["messages"]
    chat = [
        asked,
        {"role": "assistant", "content": "", "reasoning_content": "look it up", "tool_calls": [call]},
        *others,
    ]
    template = look(chat, None).template.text
    found = steps(chat, template, "qwen3")
    assert [step.is_prefix for step in found[1:4]] == [True, True, False] and found[3].reused(16) < found[3].tokens


@check
def batch_01(case: dict[str, Any], seen: Any) -> None:
    rows = [load_tokenizer(resolve_tokenizer("qwen3")).encode(text).input_ids.tolist() for text in case["texts"]]
    right = pad_batch(rows, 0, padding_side=_side("right"))
    assert right.last_positions.tolist() == [len(row) - 1 for row in rows]


@check
def batch_02(case: dict[str, Any], seen: Any) -> None:
    rows = [load_tokenizer(resolve_tokenizer("qwen3")).encode(text).input_ids.tolist() for text in case["texts"]]
    left = pad_batch(rows, 0, padding_side=_side("left"))
    shorter = len(rows[1]) - len(rows[0])
    assert left.position_ids[0, shorter:].tolist() == list(range(len(rows[0])))
    assert left.last_positions.tolist() == [len(rows[1]) - 1] * 2


def _side(name: str) -> Any:
    from inspector.tensors import PaddingSide

    return PaddingSide(name)


@check
def trunc_01(case: dict[str, Any], seen: Any) -> None:
    chat = [{"role": "user", "content": "one two three four five six seven eight nine ten"}]
    whole = look(chat)
    cut = look(chat, context_window=len(whole.encoding) - 3, policy="tokens_right")
    assert whole.rendered.text.endswith(seen["full_tail"]) and cut.rendered.text.endswith(seen["cut_tail"])
    assert "generation_prompt_lost" in {entry.what.value for entry in cut.budget.broken}


@check
def trunc_02(case: dict[str, Any], seen: Any) -> None:
    chat = [case["messages"][0], {"role": "user", "content": "one two three four five six"}]
    template = "{{ bos_token }}" + CHATML
    whole = look(chat, template, tokenizer="smollm2")
    tail = load_tokenizer(resolve_tokenizer("smollm2")).encode(seen["head_after_cut"]).input_ids
    cut = look(chat, template, tokenizer="smollm2", context_window=len(tail), policy="tokens_left")
    assert cut.rendered.text == seen["head_after_cut"] and len(cut.encoding) < len(whole.encoding)
    assert "bos_lost" in {entry.what.value for entry in cut.budget.broken}
    assert {entry.path for entry in cut.budget.dropped} == {"messages[0]", "messages[1]"}


@check
def mask_01(case: dict[str, Any], seen: Any) -> None:
    found = look(case["messages"], add_generation_prompt=False)
    labels = make_labels(found.encoding, case["messages"], generation_tag_only=True)
    assert labels.num_trained == seen["mask_sum"] == 0 and "no-generation-tag" in rules(found)


@check
def mask_03(case: dict[str, Any], seen: Any) -> None:
    template = (
        "{% macro said(m) %}{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}{% for m in messages %}"
        "[{{ m.role }}]{% if m.role == 'assistant' %}{% set text = said(m) %}{{ text }}{% else %}{{ m.content }}{% endif %}"
        "{% endfor %}"
    )
    found = look(case["messages"], template, tokenizer="bytes", add_generation_prompt=False)
    first, last = found.rendered.assistant_spans[0]
    assert found.rendered.text == seen["render"] and found.rendered.utf8[first:last].decode() == seen["want"]


@check
def mask_04(case: dict[str, Any], seen: Any) -> None:
    chat = [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three four five six seven"}]
    template = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"  # fmt: skip
    found = look(chat, template, add_generation_prompt=False)
    cut = look(
        chat, template, add_generation_prompt=False, context_window=len(found.encoding) - 2, policy="tokens_right"
    )
    assert int(found.encoding.assistant_mask.sum()) == seen["full"]
    assert int(cut.encoding.assistant_mask.sum()) == seen["truncated"]


@check
def mm_01(case: dict[str, Any], seen: Any) -> None:
    found = look(case["messages"], case["template"])
    assert "[{'type': 'text', 'text': 'When" in found.rendered.text and "parts-printed" in rules(found)
    assert found.rendered.text.startswith(seen.split("When")[0])


@check
def mm_03(case: dict[str, Any], seen: Any) -> None:
    shown = {"type": "image", "image": data_url(picture((256, 256)))}
    chat = [{"role": "user", "content": [shown, case["messages"][0]["content"][1]]}]
    written, counted = (look(chat, None, template="trl-qwen3-vl", media=how) for how in ("written", "expanded"))
    assert counted.media.media.items[0].positions == 64 == len(counted.encoding) - len(written.encoding) + 1
    assert look(chat, None, template="trl-qwen3-vl", context_window=2000).budget.input_tokens == len(counted.encoding)
    typed = look(chat, None, template="trl-qwen3-vl", media="expanded", image_tokens=100)
    assert len(typed.encoding) == len(written.encoding) + 99


@check
def mm_04(case: dict[str, Any], seen: Any) -> None:
    shown = {"type": "image", "image": data_url(picture((256, 256)))}
    chat = [{"role": "user", "content": [shown, {"type": "text", "text": "what?"}]}]
    whole = len(look(chat, None, template="trl-qwen3-vl", media="expanded").encoding)
    cut = look(chat, None, template="trl-qwen3-vl", context_window=whole - 14, policy="tokens_left")
    broken = [(entry.what.value, entry.path) for entry in cut.budget.broken]
    assert ("cut_in_placeholders", "messages[0].content[0]") in broken and "media-cut" in rules(cut)


@pytest.mark.parametrize("name", [name for name in FAULTS if name.startswith(KINDS)])
def test_a_case_has_its_right_value(name: str) -> None:
    CHECKS[name](FAULTS[name]["minimal_input"], FAULTS[name].get("observed"))
