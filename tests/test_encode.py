"""Encoding: byte-exact spans, flags from ids and spans, safe ids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inspector.encode as encode_module
from inspector.encode import TokenFlag, flag_names
from inspector.pipeline import inspect
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer


def tokens_of(text: str, tokenizer: str = "qwen3") -> list[dict]:
    return inspect([{"role": "user", "content": text}], tokenizer=tokenizer, template="raw").to_dict()["tokens"]


def test_a_character_split_over_tokens_has_exact_byte_spans() -> None:
    tokens = tokens_of("i ⭢ j")
    utf8 = "i ⭢ j".encode()
    assert [utf8[t["start"] : t["end"]].hex() for t in tokens] == [t["bytes"] for t in tokens]
    assert any("partial_char" in t["flags"] for t in tokens)


def test_flag_names_follow_the_contract() -> None:
    expected = (
        "special added unknown byte_fallback partial_char inserted from_content crosses_segment look_alike "
        "bos eos pad mask cls sep generation_prompt assistant"
    ).split()
    assert flag_names(2 ** len(expected) - 1) == expected
    assert flag_names(int(TokenFlag.SPECIAL | TokenFlag.EOS)) == ["special", "eos"]


def test_text_that_a_normalizer_rewrites_is_covered_or_named() -> None:
    result = inspect([{"role": "user", "content": "cafe\u0301 ok"}], tokenizer="qwen3", template="raw")
    encoding = result.encoding
    reach = np.zeros(len(result.rendered.utf8), dtype=bool)
    for start, end in zip(encoding.start.tolist(), encoding.end.tolist()):
        reach[start:end] = True
    named = sum(gap.end - gap.start for gap in encoding.uncovered)
    assert reach.sum() + named == len(reach)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60).filter(lambda text: text.isprintable() or "\n" in text))
def test_spans_partition_any_text_of_a_byte_level_tokenizer(text: str) -> None:
    result = inspect([{"role": "user", "content": text}], tokenizer="llama3", template="raw")
    encoding, utf8 = result.encoding, result.rendered.utf8
    spans = list(zip(encoding.start.tolist(), encoding.end.tolist()))
    assert b"".join(utf8[start:end] for start, end in spans) == utf8
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans))


def test_the_frame_has_one_row_a_token() -> None:
    encoding = inspect([{"role": "user", "content": "hi"}], tokenizer="bytes").encoding
    frame = encoding.to_frame()
    assert len(frame) == len(encoding) and list(frame["id"]) == encoding.input_ids.tolist()


@pytest.mark.parametrize(
    "text", ["a\u0323\u0302 Vie\u0323\u0302t", "cafe\u0301", "\u1112\u1161\u11ab글", "\u0958x\u0958", "e\u0301\u0301"]
)
def test_what_a_normalizer_composes_or_takes_apart_keeps_its_origin(text: str) -> None:
    encoding = inspect([{"role": "user", "content": text}], tokenizer="qwen3", template="raw").encoding
    assert not encoding.uncovered
    assert {encoding.token(i).path for i in range(len(encoding))} == {"messages[0].content"}
    assert not (encoding.flags & TokenFlag.INSERTED).any()


def test_text_that_the_vocabulary_does_not_have_is_lost_and_no_control_token_and_the_spelled_one_is_forged() -> None:
    unknown = [token["flags"] for token in tokens_of("a 🧮 [UNK] b", "minilm") if token["piece"] == "[UNK]"]
    assert unknown == [["special", "unknown"], ["special", "from_content"]]


def test_text_that_the_vocabulary_lacks_is_whole_in_the_safe_ids_and_no_run_of_placeholders() -> None:
    text = "[SEP] tide🧮x [UNK] 🧮🧮"
    request = [{"role": "user", "content": text}]
    encoding = inspect(request, tokenizer="minilm", template="raw").encoding
    assert encoding.safe_input_ids.tolist() == encoding.tokenizer.encode_plain(text).input_ids.tolist()
    lost = [{"role": "user", "content": "🧮 🧮 🧮 🧮"}]
    cut = inspect(lost, tokenizer="minilm", template="raw", context_window=2, policy="tokens_left")
    assert [broken["what"] for broken in cut.to_dict()["budget"]["broken"]] == ["cut_in_message"]


def test_flags_of_ids_that_lie_far_out_are_told_like_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(resolve_tokenizer("gemma3"))
    last = int(encode_module._id_flag_table(tokenizer)[0][-1])
    ids = np.arange(last - 3000, last + 3)
    dense = encode_module._id_flags(tokenizer, ids)
    monkeypatch.setattr(encode_module, "_dense_flags", lambda tokenizer: None)
    assert np.array_equal(encode_module._id_flags(tokenizer, ids), dense) and dense[-3] and not dense[-2:].any()
