"""Comparison: first difference, its reason, edit script, shared prefix, on real revision pairs."""

from __future__ import annotations

import json

import pytest
from conversations import CONVERSATIONS, conversation

from inspector import compare, inspect
from inspector.comparison import compare_inspections

CLOCK = "2026-01-31T09:30:00"
PAIRS = {
    "qwq-32b": ("smollm2,qwq-32b", "smollm2,qwq-32b@16488a"),
    "qwen3-0.6b": ("qwen3,qwen3-0.6b", "qwen3,qwen3-0.6b@a55ee1"),
    "deepseek-r1-distill-qwen-32b": (
        "deepseek-v3,deepseek-r1-distill-qwen-32b",
        "deepseek-v3,deepseek-r1-distill-qwen-32b@56a144",
    ),
}
HELLO = [{"role": "user", "content": "When is high tide?"}]


def check(result: object) -> None:
    """The edit script rebuilds B from A, and the first difference is where the texts part."""
    a, b = result.a.encoding, result.b.encoding
    ids_a, ids_b = a.input_ids.tolist(), b.input_ids.tolist()
    same = a.tokenizer.digest == b.tokenizer.digest
    place_a = place_b = 0
    for op, a0, a1, b0, b1 in result.token_diff:
        assert (a0, b0) == (place_a, place_b)
        if op == "equal":
            spelled_a, spelled_b = (
                [side.tokenizer.token_bytes(token_id) for token_id in side.input_ids[x:y].tolist()]
                for side, x, y in ((a, a0, a1), (b, b0, b1))
            )
            assert spelled_a == spelled_b and (not same or ids_a[a0:a1] == ids_b[b0:b1])
        place_a, place_b = a1, b1
    assert (place_a, place_b) == (len(ids_a), len(ids_b))
    first, utf8_a, utf8_b = result.first_difference, result.a.rendered.utf8, result.b.rendered.utf8
    assert (first is None) == (utf8_a == utf8_b and ids_a == ids_b and same)
    if first is not None and first.byte is not None:
        assert utf8_a[: first.byte] == utf8_b[: first.byte]
        assert utf8_a[first.byte : first.byte + 1] != utf8_b[first.byte : first.byte + 1]
    assert first is None or first.reason


@pytest.mark.parametrize("pair", PAIRS)
def test_the_revision_pairs_compare_on_every_conversation(pair: str) -> None:
    different = 0
    for name in CONVERSATIONS:
        result = compare(conversation(name), *PAIRS[pair], clock=CLOCK)
        if result.a.error is None and result.b.error is None:
            check(result)
            different += not result.equal_bytes
    assert different >= (1 if pair == "qwen3-0.6b" else 5), different


def test_the_qwen3_pair_differs_only_with_parts() -> None:
    assert compare(HELLO, *PAIRS["qwen3-0.6b"]).first_difference is None
    parts = [{"role": "user", "content": [{"type": "text", "text": "When is high tide?"}]}]
    sides = compare(parts, *PAIRS["qwen3-0.6b"])
    assert not sides.equal_bytes or sides.a.error is not None or sides.b.error is not None


def test_the_reason_names_template_lines_ends_clock_bos_and_space() -> None:
    line = compare(HELLO, *PAIRS["qwq-32b"]).first_difference
    assert "A goes on where the other ends: " in line.reason and "(template text, template line 62)" in line.reason
    content = "{{ messages[0].content }}"
    cases = {
        "clock: the same time in different formats": (
            "{{ strftime_now('%Y') }}" + content,
            "{{ strftime_now('%d') }}" + content,
        ),
        "whitespace": ("[ " + content, "[" + content),
        "BOS": ("{{ bos_token }}" + content, content),
        "A writes": ("<a>" + content, "<b>{{ messages[0].role }}"),
        "goes on where": (content + "!", content),
    }
    for words, (text_a, text_b) in cases.items():
        first = compare(HELLO, {"template_text": text_a}, {"template_text": text_b}, clock=CLOCK).first_difference
        assert words in first.reason, (words, first.reason)


def test_the_same_text_under_other_vocabularies_is_said_to_be_that() -> None:
    result = compare(HELLO, "o200k", "cl100k")
    assert result.equal_bytes and not result.equal_ids and result.first_difference.byte is None
    assert result.first_difference.reason.startswith("same text, other ids; vocabulary: ")
    check(result)


def test_a_side_that_stops_is_named_with_its_error() -> None:
    result = compare(HELLO, {"template_text": "{{ raise_exception('no') }}"}, {"tokenizer": "bytes"})
    assert "A stopped at render" in result.first_difference.reason
    json.dumps(result.to_dict())


def test_equal_sides_have_no_difference_and_share_everything() -> None:
    result = compare(HELLO, "bytes", "bytes")
    assert result.equal_ids and result.first_difference is None
    assert result.shared_prefix_tokens == len(result.a.encoding)
    assert [op for op, *_rest in result.token_diff] == ["equal"]


@pytest.mark.parametrize(
    ("templates", "reason"),
    [
        (("hi", "{{ bos_token }}hi"), "BOS: A begins without <|begin_of_text|>, B with one ("),
        (("{{ bos_token }}hi", "hi"), "BOS: A begins with one <|begin_of_text|>, B without ("),
    ],
)
def test_a_missing_bos_is_named(templates: tuple[str, str], reason: str) -> None:
    a, b = (
        inspect([{"role": "user", "content": "x"}], tokenizer="llama3.1", template_text=text, clock=CLOCK)
        for text in templates
    )
    assert compare_inspections(a, b).first_difference.reason.startswith(reason)


def test_an_excerpt_begins_with_the_whole_control_token_and_other_tokenizers_are_said() -> None:
    a, b = (
        inspect([{"role": "user", "content": "x"}], tokenizer=tokenizer, template_text=text, clock=CLOCK)
        for tokenizer, text in (("qwen3", "<|im_start|>"), ("smollm2", "<|im_end|>"))
    )
    reason = compare_inspections(a, b).first_difference.reason
    assert "A writes '<|im_start|>'" in reason and "B writes '<|im_end|>'" in reason
    assert reason.endswith("; the tokenizers differ: an id means another token on each side")


def test_the_reason_is_that_of_the_place_also_after_tokens_that_only_have_other_ids() -> None:
    first = compare(HELLO, "smollm2", {"tokenizer": "o200k", "template": "chatml"}, clock=CLOCK).first_difference
    assert first.byte is not None and first.token_a > 0
    assert not first.reason.startswith("same text") and "one control token" not in first.reason, first.reason
