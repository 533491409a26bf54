"""Incremental decoding equals whole decoding, for every family and every Unicode block; and what a stream shows."""

from __future__ import annotations

import functools
import json
import random

import pytest
from texts import all_blocks, many_texts

from inspector.decode import IncrementalDecoder, Joining, clean_up, decode_whole, joining_of, stream_steps, unfinished
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.base import Tokenizer

FAMILY = {
    "fast, byte level": "qwen3",
    "fast, byte fallback": "gemma2",
    "fast, WordPiece": "minilm",
    "gguf": "smollm2",
    "tiktoken": "o200k",
    "ranks of one's own": "qwen3.6",
    "mistral, SentencePiece": "mistral-v3",
    "mistral, tekken": "mistral-tekken",
    "trie": "rwkv-world",
    "fixture": "fixture",
    "bytes": "bytes",
}
sampled = pytest.mark.parametrize("number", [1_500, pytest.param(10_000, marks=pytest.mark.full)])


@functools.lru_cache(maxsize=2)
def tokenizer(ref: str) -> Tokenizer:
    return load_tokenizer(resolve_tokenizer(ref))


def pushed(ids: list[int], tok: Tokenizer, **options) -> tuple[list[bytes], bytes]:
    decoder = IncrementalDecoder(tok, **options)
    out = [decoder.push(token_id) for token_id in ids]
    return out, decoder.finish(strict=False)


@functools.cache
def beginnings() -> frozenset[bytes]:
    """Every proper beginning of the UTF-8 form of some character."""
    points = (point for point in range(0x80, 0x110000) if not 0xD800 <= point < 0xE000)
    return frozenset(form[:n] for point in points for form in (chr(point).encode(),) for n in range(1, len(form)))


def tail(data: bytes) -> bytes:
    """The bytes at the end that may still become a character, from the definition."""
    return next((data[-n:] for n in (3, 2, 1) if data[-n:] in beginnings() and len(data) >= n), b"")


@sampled
@pytest.mark.parametrize("family", FAMILY)
def test_pushes_join_to_the_whole_on_random_ids(family, number):
    tok, rng = tokenizer(FAMILY[family]), random.Random(11)
    hard = [i for i in range(tok.size) if unfinished(tok.token_bytes(i)) or tok.token_bytes(i)[:1] >= b"\x80"]
    for _ in range(number):
        pool = hard if hard and rng.random() < 0.5 else range(tok.size)
        ids = [rng.choice(pool) for _ in range(rng.randint(0, 10))]
        skip = rng.random() < 0.3
        out, rest = pushed(ids, tok, skip_special_tokens=skip)
        assert b"".join(out) + rest == decode_whole(ids, tok, skip_special_tokens=skip), ids
        decoder, given = IncrementalDecoder(tok), b""
        for at, token_id in enumerate(ids):
            given += decoder.push(token_id)
            prefix = decode_whole(ids[: at + 1], tok)
            assert given + decoder.held == prefix and decoder.held == tail(prefix), (ids, at)


@pytest.mark.parametrize("family", FAMILY)
def test_every_unicode_block_comes_out_whole(family):
    tok = tokenizer(FAMILY[family])
    blocks = all_blocks()
    assert len(blocks) > 500
    for text in blocks[:: 1 if family in ("tiktoken", "gguf") else 9]:
        ids = tok.encode(text).input_ids.tolist()
        out, rest = pushed(ids, tok)
        whole = decode_whole(ids, tok)
        assert b"".join(out) + rest == whole
        assert (rest == b"" and all(part == part.decode().encode() for part in out)) or family == "gguf", text


def library_text(tok: Tokenizer, ids: list[int]) -> str:
    """What the family's own library decodes."""
    if hasattr(tok, "processor"):
        return tok.processor.decode(ids)
    if hasattr(tok, "model_tokens"):
        return tok._backend.decode(ids, skip_special_tokens=False)
    return tok._encoding.decode([i - getattr(tok, "num_special", 0) for i in ids])


@pytest.mark.parametrize(
    "ref", ["qwen3", "gemma2", "minilm", "smollm2", "o200k", "qwen3.6", "mistral-v1", "mistral-v3", "mistral-tekken"]
)
def test_the_whole_is_what_the_library_decodes(ref):
    tok = tokenizer(ref)
    for text in many_texts(250, tuple(t.content for t in tok.added_tokens[3:8])):
        ids = tok.encode(text).input_ids.tolist()
        assert decode_whole(ids, tok).decode("utf-8", "replace") == library_text(tok, ids), text


def test_families_join_their_pieces_differently():
    joining = {ref: joining_of(tokenizer(ref)) for ref in ("qwen3", "gemma2", "minilm", "mistral-v1", "rwkv-world")}
    assert joining == {
        "qwen3": Joining.BYTES,
        "gemma2": Joining.BYTES,
        "minilm": Joining.WORDS,
        "mistral-v1": Joining.STRIP_FIRST_SPACE,
        "rwkv-world": Joining.BYTES,
    }


def test_the_end_inside_a_character_is_an_error_with_its_bytes():
    tok = tokenizer("bytes")
    decoder = IncrementalDecoder(tok)
    assert [decoder.push(byte) for byte in b"a\xe5\xa4"] == [b"a", b"", b""]
    assert decoder.held == b"\xe5\xa4"
    with pytest.raises(InspectorError) as caught:
        decoder.finish()
    assert (caught.value.kind, caught.value.stage) == (ErrorKind.InputInvalid, "decode")
    assert caught.value.where == {"bytes": "e5a4"}
    assert decoder.finish() == b""


@pytest.mark.parametrize("token_id", [-1, 260, 10**9])
def test_an_id_that_the_tokenizer_does_not_have_is_refused(token_id):
    with pytest.raises(InspectorError) as caught:
        IncrementalDecoder(tokenizer("bytes")).push(token_id)
    assert caught.value.where == {"token": token_id}


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"", 0), (b"a", 0), (b"\xc3", 1), (b"\xc3\xa9", 0), (b"\xe5\xa4", 2), (b"\xf0\x9f\x8c", 3), (b"\xff", 0), (b"\xc0", 0),
        (b"\xed\xa0", 0), (b"\xed\x9f", 2), (b"\xf4\x90", 0), (b"\xf4\x8f", 2), (b"\xe0\x80", 0), (b"\xf5", 0), (b"\x80\x80\x80\x80", 0),
    ],
)  # fmt: skip
def test_only_a_true_beginning_of_a_character_is_held_back(data, number):
    assert unfinished(data) == number == len(tail(data))


# --- the stream ------------------------------------------------------------------------------------------------------------


def test_uni_01_an_emoji_of_four_tokens_is_shown_once_and_never_as_a_replacement_character():
    tok = tokenizer("bytes")
    stream = stream_steps(list("🌶".encode()), tok)
    assert [step.shown for step in stream.steps] == ["", "", "", "🌶"]
    assert [step.held.hex() for step in stream.steps] == ["f0", "f09f", "f09f8c", ""]
    assert all(step.alone == "�" and step.alone_is_wrong for step in stream.steps)
    assert stream.text == "🌶" and stream.alone == "�" * 4 and stream.leftover == b""


def test_a_space_that_decode_takes_off_a_lone_token_is_told():
    tok = tokenizer("mistral-v3")
    ids = tok.encode("the cat").input_ids.tolist()
    stream = stream_steps(ids, tok)
    assert stream.text == "the cat" and stream.alone == "thecat"
    assert [step.alone_is_wrong for step in stream.steps] == [False, True]


def test_special_tokens_are_skipped_or_shown():
    tok = tokenizer("qwen3")
    ids = tok.encode("<|im_start|>user\nhi<think><|im_end|>").input_ids.tolist()
    shown, skipped = (stream_steps(ids, tok, skip_special_tokens=skip) for skip in (False, True))
    assert shown.text == shown.with_special_tokens == "<|im_start|>user\nhi<think><|im_end|>"
    assert skipped.text == shown.without_special_tokens == "user\nhi<think>"  # added, not special: stays
    assert [step.skipped for step in skipped.steps] == [True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("text", "stops", "shown", "stopped_by"),
    [
        ("one two STOP three", ["STOP"], "one two ", "STOP"),
        ("one two STO three", ["STOP"], "one two STO three", ""),
        ("aab", ["ab"], "a", "ab"),
        ("é🌶x", ["🌶"], "é", "🌶"),
        ("hello", ["lo", "l"], "he", "l"),
        ("hello", ["xx", "ello", "hell"], "", "hell"),
        ("STO", ["STOP"], "STO", ""),
        ("hello", [""], "hello", ""),
    ],
)
@pytest.mark.parametrize("ref", ["bytes", "o200k", "mistral-v3"])
def test_stop_strings_are_found_across_tokens_and_inside_them(ref, text, stops, shown, stopped_by):
    tok = tokenizer(ref)
    stream = stream_steps(tok.encode(text).input_ids.tolist(), tok, stop_strings=stops)
    assert (stream.text, stream.stopped_by) == (shown, stopped_by)


def test_what_may_be_a_stop_string_is_held_back_until_it_is_not():
    tok = tokenizer("bytes")
    steps = stream_steps(list(b"a</b"), tok, stop_strings=["</s>"]).steps
    assert [(step.shown, step.held_for_stop) for step in steps] == [("a", ""), ("", "<"), ("", "</"), ("</b", "")]


def test_any_stream_shows_what_a_search_in_the_whole_text_gives():
    tok, rng = tokenizer("bytes"), random.Random(5)
    for _ in range(400):
        text = "".join(rng.choices("abé", k=rng.randint(0, 14)))
        stops = ["".join(rng.choices("abé", k=rng.randint(1, 3))) for _ in range(rng.randint(0, 2))]
        stream = stream_steps(list(text.encode()), tok, stop_strings=stops)
        ends = [(at + len(stop), at) for stop in stops if (at := text.find(stop)) >= 0]
        assert stream.text == (text[: min(ends)[1]] if ends else text), (text, stops)


def test_map_04_clean_up_is_a_change_beside_the_text_as_transformers_once_made_it():
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

    tok = tokenizer("qwen3")
    stream = stream_steps(tok.encode("x != y , ok").input_ids.tolist(), tok)
    assert (stream.text, stream.cleaned) == ("x != y , ok", "x!= y, ok")
    assert stream.to_dict()["clean_up_changes"] is True
    for text in many_texts(250, (" n't 's", " do not . , ? ' m")):
        assert clean_up(text) == PreTrainedTokenizerBase.clean_up_tokenization(None, text)


def test_a_stream_is_a_json_value():
    tok = tokenizer("o200k")
    for text in many_texts(250)[::20]:
        value = stream_steps(tok.encode(text).input_ids.tolist(), tok, stop_strings=["a"]).to_dict()
        assert json.loads(json.dumps(value))["schema"] == "stream/1"
    assert stream_steps([], tok).to_dict()["text"] == ""
