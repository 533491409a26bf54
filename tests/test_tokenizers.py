"""Tokenizer families against their documents' known answers, the reference libraries, and their own properties."""

from __future__ import annotations

import itertools
import json
import os
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import sample_texts

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import TokenizerArtifact, load_tokenizer
from inspector.tokenizers.base import ArtifactFile, RawEncoding, Tokenizer
from inspector.tokenizers.bytetable import char_starts
from inspector.tokenizers.gguf import PRE_TOKENIZERS
from inspector.tokenizers.utf8_bytes import prefix_key

REAL = ("smollm2", "qwen3", "llama3", "llama3.1", "gemma3", "deepseek-v3")
RANKS = ("o200k", "cl100k", "p50k", "r50k")
TEACHING = ("fixture", "bytes")


def tokenizer(ref: str) -> Tokenizer:
    return load_tokenizer(resolve_tokenizer(ref))


def ids(raw: RawEncoding) -> list[int]:
    return raw.input_ids.tolist()


def controls(tok: Tokenizer) -> tuple[str, ...]:
    named = list(dict.fromkeys(tok.special_tokens.values()))
    return tuple(named + [token.content for token in tok.added_tokens[:: max(1, len(tok.added_tokens) // 12)]])


# --- known answers -----------------------------------------------------------------------------------------------

WORD, SUM, BIRTHDAY = "antidisestablishmentarianism", "2 + 2 = 4", "お誕生日おめでとう"
R50K_BIRTHDAY = [2515, 232, 45739, 243, 37955, 33768, 98, 2515, 232, 1792, 223, 30640, 30201, 29557]
R50K_BIRTHDAY_BYTES = "e381 8a e8aa 95 e7949f e697 a5 e381 8a e382 81 e381a7 e381a8 e38186"
KNOWN = [
    ("r50k", WORD, [415, 29207, 44390, 3699, 1042], [b"ant", b"idis", b"establishment", b"arian", b"ism"]),
    ("p50k", WORD, [415, 29207, 44390, 3699, 1042], [b"ant", b"idis", b"establishment", b"arian", b"ism"]),
    (
        "cl100k",
        WORD,
        [519, 85342, 34500, 479, 8997, 2191],
        [b"ant", b"idis", b"establish", b"ment", b"arian", b"ism"],
    ),
    (
        "o200k",
        WORD,
        [493, 129901, 376, 160388, 21203, 2367],
        [b"ant", b"idis", b"est", b"ablishment", b"arian", b"ism"],
    ),
    ("r50k", SUM, [17, 1343, 362, 796, 604], [b"2", b" +", b" 2", b" =", b" 4"]),
    ("p50k", SUM, [17, 1343, 362, 796, 604], [b"2", b" +", b" 2", b" =", b" 4"]),
    ("cl100k", SUM, [17, 489, 220, 17, 284, 220, 19], [b"2", b" +", b" ", b"2", b" =", b" ", b"4"]),
    ("o200k", SUM, [17, 659, 220, 17, 314, 220, 19], [b"2", b" +", b" ", b"2", b" =", b" ", b"4"]),
    ("r50k", BIRTHDAY, R50K_BIRTHDAY, [bytes.fromhex(part) for part in R50K_BIRTHDAY_BYTES.split()]),
    ("p50k", BIRTHDAY, R50K_BIRTHDAY, [bytes.fromhex(part) for part in R50K_BIRTHDAY_BYTES.split()]),
    (
        "cl100k",
        BIRTHDAY,
        [33334, 45918, 243, 21990, 9080, 33334, 62004, 16556, 78699],
        [
            bytes.fromhex(p)
            for p in ["e3818a", "e8aa", "95", "e7949f", "e697a5", "e3818a", "e38281", "e381a7", "e381a8e38186"]
        ],
    ),
    (
        "o200k",
        BIRTHDAY,
        [8930, 9697, 243, 128225, 8930, 17693, 4344, 48669],
        [
            bytes.fromhex(p)
            for p in ["e3818a", "e8aa", "95", "e7949fe697a5", "e3818a", "e38281", "e381a7", "e381a8e38186"]
        ],
    ),
    (
        "o200k",
        "tiktoken is great!",
        [83, 8251, 2488, 382, 2212, 0],
        [b"t", b"ikt", b"oken", b" is", b" great", b"!"],
    ),
    (
        "cl100k",
        "tiktoken is great!",
        [83, 1609, 5963, 374, 2294, 0],
        [b"t", b"ik", b"token", b" is", b" great", b"!"],
    ),
]


@pytest.mark.parametrize(("ref", "text", "expected", "pieces"), KNOWN)
def test_documented_ids_and_byte_splits_of_openai_encodings(ref, text, expected, pieces):
    tok = tokenizer(ref)
    raw = tok.encode(text)
    assert ids(raw) == expected
    assert [tok.token_bytes(i) for i in ids(raw)] == pieces
    data = text.encode()
    assert [data[a:b] for a, b in zip(raw.start.tolist(), raw.end.tolist())] == pieces
    assert tok.decode(expected) == data


FIXTURE_TEXT = "<bos><system>简洁回答</system><user>天空为什么是蓝色？</user><assistant>"
FIXTURE_IDS = [1, 2, 7, 3, 4, 8, 9, 10, 11, 12, 5, 6]


def content_of(text: str, *parts: str) -> list[tuple[int, int]]:
    data = text.encode()
    return [(data.index(part.encode()), data.index(part.encode()) + len(part.encode())) for part in parts]


def test_the_fixture_gives_its_documented_ids():
    content = content_of(FIXTURE_TEXT, "简洁回答", "天空为什么是蓝色？")
    assert ids(tokenizer("fixture").encode(FIXTURE_TEXT, content=content)) == FIXTURE_IDS


def test_the_fixture_without_its_generation_prompt_is_one_shorter():
    text = FIXTURE_TEXT.removesuffix("<assistant>")
    assert ids(tokenizer("fixture").encode(text, content=content_of(text, "简洁回答"))) == FIXTURE_IDS[:-1]


def test_the_fixture_has_no_ascii_question_mark():
    text = FIXTURE_TEXT.replace("？", "?")
    expected = [13 if i == 12 else i for i in FIXTURE_IDS]
    assert ids(tokenizer("fixture").encode(text, content=content_of(text, "天空为什么是蓝色?"))) == expected


@pytest.mark.parametrize("space", ["\u200b", "\u00a0", "\ufeff"])
def test_an_invisible_space_inside_a_word_changes_the_fixture_ids(space):
    text = FIXTURE_TEXT.replace("天空", f"天{space}空")
    assert ids(tokenizer("fixture").encode(text)) == [1, 2, 7, 3, 4, 13, 13, 13, 9, 10, 11, 12, 5, 6]


def test_content_that_spells_a_fixture_control_token_stays_text():
    text = "<bos><user><system>是</user>"
    raw = tokenizer("fixture").encode(text, content=content_of(text, "<system>是"))
    assert ids(raw) == [1, 4, *[13] * len("<system>"), 10, 5]
    assert (raw.end - raw.start).tolist() == [5, 6, *[1] * 8, 3, 7]


def test_a_fixture_control_token_with_one_byte_of_content_is_no_control():
    text = "<user>"
    assert ids(tokenizer("fixture").encode(text, content=[(3, 4)])) == [13] * 6


def test_the_byte_tokenizer_gives_its_documented_lengths():
    tok = tokenizer("bytes")
    with_prompt = "<bos><user>你好, GPU<assistant>"
    raw = tok.encode(with_prompt, content=content_of(with_prompt, "你好, GPU"))
    without = tok.encode(with_prompt.removesuffix("<assistant>"), content=content_of(with_prompt, "你好, GPU"))
    assert ids(raw) == [256, 257, *"你好, GPU".encode(), 258]
    assert (len(raw.input_ids), len(without.input_ids)) == (14, 13)
    assert ids(tok.encode_plain("你好, GPU")) == list("你好, GPU".encode())
    assert tok.decode(ids(raw)) == with_prompt.encode()


def test_content_that_spells_a_byte_control_token_stays_bytes():
    text = "<bos><user><eos><assistant>"
    raw = tokenizer("bytes").encode(text, content=content_of(text, "<eos>"))
    assert ids(raw) == [256, 257, *b"<eos>", 258]


def test_prefix_keys_tell_prompts_models_and_adapters_apart():
    templated = [256, 257, *"你好, GPU".encode(), 258]
    key = prefix_key(templated, "model-v1")
    assert key != prefix_key(templated[:-1], "model-v1")
    assert key != prefix_key(templated, "model-v2")
    assert key != prefix_key(templated, "model-v1", adapter="lora")
    # SHA-256 over "model-v1" 00 "none" 00 and the ids as little-endian u32, first 16 digits
    assert key == "917e707403e7824c"


def test_llama_3_1_adds_one_bos_and_a_second_one_to_rendered_text():
    tok = tokenizer("llama3.1")
    assert ids(tok.encode("hi", add_special_tokens=True)) == [128000, 6151]
    assert ids(tok.encode("hi")) == [6151]
    again = tok.encode("<|begin_of_text|>hi", add_special_tokens=True)
    assert ids(again) == [128000, 128000, 6151]
    assert list(zip(again.start.tolist(), again.end.tolist())) == [(0, 0), (0, 17), (17, 19)]
    assert ids(tokenizer("llama3").encode("hi", add_special_tokens=True)) == [6151]


def test_qwen3_has_fewer_entries_than_embedding_rows():
    tok = tokenizer("qwen3")
    assert (tok.vocab_size, tok.size) == (151643, 151669)


# --- the GGUF tokenizer ------------------------------------------------------------------------------------------


def test_smollm2_splits_every_digit_as_its_pre_tokenizer_says():
    tok = tokenizer("smollm2")
    assert tok.reconstructed
    for text in sample_texts(("12345", "x1y22z333", " 2024-02-29 ", "٣٤٥ १२३")):
        for token_id in ids(tok.encode(text)):
            piece = tok.token_bytes(token_id)
            digits = [byte for byte in piece if 0x30 <= byte <= 0x39]
            assert not digits or len(piece) == 1, (text, piece)


def test_smollm2_equals_gpt2_byte_level_bpe_with_digits_apart():
    from tokenizers import Tokenizer as Library
    from tokenizers import decoders, models, pre_tokenizers

    from inspector.tokenizers.gguf_metadata import read_metadata

    metadata = read_metadata(Path(resolve_tokenizer("smollm2").files[0].path))
    vocabulary = {piece: i for i, piece in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    reference = Library(models.BPE(vocab=vocabulary, merges=merges))
    digits, level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
    reference.decoder = decoders.ByteLevel()
    tok = tokenizer("smollm2")
    for text in sample_texts():
        assert ids(tok.encode_plain(text)) == reference.encode(text).ids, text


def test_smollm2_names_its_control_tokens_like_transformers():
    tok = tokenizer("smollm2")
    assert tok.special_tokens == {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|im_end|>",
    }
    assert tok.model_max_length == 8192
    assert ids(tok.encode("<|im_start|>user\n")) == [1, 4093, 198]
    assert "default" in tok.chat_templates


def test_a_gguf_with_an_unknown_pre_tokenizer_is_refused_by_name():
    from inspector.tokenizers.gguf import tokenizer_json

    assert "llama-bpe" not in PRE_TOKENIZERS
    with pytest.raises(InspectorError) as caught:
        tokenizer_json({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe"})
    assert caught.value.kind is ErrorKind.TokenizerInvalid
    assert "'llama-bpe'" in caught.value.message


# --- against the reference library -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference_of(tmp_path_factory):
    """Load the same files with transformers' generic fast tokenizer (never AutoTokenizer: see the traps)."""
    from transformers import PreTrainedTokenizerFast

    loaded = {}

    def load(ref: str):
        if ref not in loaded:
            folder = tmp_path_factory.mktemp(ref.replace(".", "_"))
            for file in resolve_tokenizer(ref).files:
                os.symlink(file.path, folder / file.name)
            loaded.clear()  # one at a time: they are large
            loaded[ref] = PreTrainedTokenizerFast.from_pretrained(folder)
        return loaded[ref]

    return load


@pytest.mark.parametrize("ref", [ref for ref in REAL if ref != "smollm2"])
def test_ids_sizes_and_special_tokens_equal_transformers(ref, reference_of):
    tok, reference = tokenizer(ref), reference_of(ref)
    texts = sample_texts(controls(tok))
    assert len(texts) >= 200
    for text in texts:
        for special in (False, True):
            ours, theirs = (
                ids(tok.encode(text, add_special_tokens=special)),
                reference(text, add_special_tokens=special),
            )
            assert ours == theirs.input_ids, (text, ours, theirs.input_ids)
    assert tok.special_tokens == reference.special_tokens_map
    assert list(tok.special_tokens) == list(reference.special_tokens_map)
    assert tok.special_token_ids == {
        name: reference.convert_tokens_to_ids(token) for name, token in reference.special_tokens_map.items()
    }
    assert (tok.vocab_size, tok.size) == (reference.vocab_size, len(reference))
    assert (tok.model_max_length or reference.model_max_length) == reference.model_max_length
    assert (tok.model_max_length is None) == (reference.model_max_length > 10**12)
    assert {t.content: (t.id, t.special) for t in tok.added_tokens} == {
        str(t): (i, t.special) for i, t in reference.added_tokens_decoder.items()
    }
    assert tok.chat_templates["default"] == reference.get_chat_template()


@pytest.mark.parametrize("ref", RANKS)
def test_ids_equal_tiktoken(ref, tmp_path, monkeypatch):
    import hashlib
    import inspect
    import re

    import tiktoken
    from tiktoken_ext import openai_public

    artifact = resolve_tokenizer(ref)
    name = artifact.settings["encoding"]
    source = inspect.getsource(openai_public.ENCODING_CONSTRUCTORS[name])
    address = re.search(r'"(\w+://[^"]+\.tiktoken)"', source)[1]
    os.symlink(artifact.files[0].path, tmp_path / hashlib.sha1(address.encode()).hexdigest())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    reference = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
    tok = tokenizer(ref)
    for text in sample_texts(controls(tok)):
        assert ids(tok.encode(text)) == reference.encode(text, allowed_special="all"), text
        assert ids(tok.encode_plain(text)) == reference.encode_ordinary(text), text
    assert tok.size == reference.n_vocab


# --- properties of every family ----------------------------------------------------------------------------------


def check_spans(tok: Tokenizer, text: str, raw: RawEncoding) -> None:
    """Spans are ordered and inside the text; a token whose bytes are the text's there covers exactly them."""
    data = text.encode()
    assert raw.input_ids.dtype == raw.start.dtype == raw.end.dtype == np.int64
    assert len(raw.input_ids) == len(raw.start) == len(raw.end)
    assert (raw.start <= raw.end).all() and (raw.start[1:] >= raw.start[:-1]).all(), (text, raw.start, raw.end)
    # a character that a normalizer made longer has more tokens than bytes: they share its last one
    assert (raw.start[1:] >= raw.end[:-1] - 1).all(), (text, raw.start, raw.end)
    assert not len(raw.end) or (raw.start[0] >= 0 and raw.end[-1] <= len(data))


@pytest.mark.parametrize("ref", REAL + RANKS)
def test_bytes_of_the_ids_are_the_normalised_text_and_spans_are_exact(ref):
    tok = tokenizer(ref)
    for text in sample_texts(controls(tok)):
        raw = tok.encode(text)
        check_spans(tok, text, raw)
        normal = (
            unicodedata.normalize("NFC", text)
            if ref == "qwen3"
            else text.replace("▁", " ")
            if ref == "gemma3"
            else text
        )
        lost = MISSING_BYTES if ref == "smollm2" else b""
        assert tok.decode(ids(raw)) == normal.encode().translate(None, lost), text
        if normal == text and not set(text.encode()) & set(lost):
            assert raw.start.tolist() == [0, *raw.end.tolist()][: len(raw.start)], text
            data = text.encode()
            spans = zip(ids(raw), raw.start.tolist(), raw.end.tolist())
            assert all(tok.token_bytes(i) == data[a:b] for i, a, b in spans), text


@pytest.mark.parametrize("ref", TEACHING)
def test_teaching_spans_partition_the_text(ref):
    tok = tokenizer(ref)
    for text in sample_texts(controls(tok)):
        raw = tok.encode(text)
        check_spans(tok, text, raw)
        assert raw.start.tolist() == [0, *raw.end.tolist()][: len(raw.start)]
        assert not len(raw.end) or raw.end[-1] == len(text.encode())


def test_a_normalised_character_leaves_no_token_with_another_characters_bytes():
    tok = tokenizer("qwen3")
    text = "e\u0301x 👍 e\u0301"
    raw = tok.encode(text)
    data = text.encode()
    pieces = [data[a:b] for a, b in zip(raw.start.tolist(), raw.end.tolist())]
    assert pieces[0] == "e\u0301".encode() and "👍".encode() in b"".join(pieces)
    assert pieces[1] == b"x"  # the mark belongs to the character that it was composed into
    check_spans(tok, text, raw)


def test_pieces_of_one_character_get_their_own_bytes_even_where_a_normalizer_changed_the_text():
    tok = tokenizer("qwen3")
    text = "e\u0301 \U00010348"  # é is composed by NFC; the Gothic letter is split over several tokens
    raw = tok.encode(text)
    data = text.encode()
    parts = [(tok.token_bytes(i), data[a:b]) for i, a, b in zip(ids(raw), raw.start.tolist(), raw.end.tolist())]
    split = [(own, covered) for own, covered in parts if own and set(own) <= set("\U00010348".encode())]
    assert len(split) >= 2 and all(own == covered for own, covered in split), parts


@pytest.mark.parametrize("ref", REAL + RANKS)
def test_encode_plain_equals_encode_where_no_added_token_is_spelled_and_never_gives_one_where_it_is(ref):
    tok = tokenizer(ref)
    special = {token.id for token in tok.added_tokens if token.special}
    spelled = tuple(token.content for token in tok.added_tokens)
    for text in sample_texts():
        if not any(content in text for content in spelled if content.strip("▁ \n\t")):
            assert ids(tok.encode_plain(text)) == ids(tok.encode(text)), text
    for control in controls(tok):
        text = f"a{control}b {control}"
        raw = tok.encode_plain(text)
        check_spans(tok, text, raw)
        assert not special & set(ids(raw)), (control, ids(raw))
        assert tok.decode(ids(raw)) == text.replace("▁", " ").encode() or ref != "gemma3"
        assert not special or special & set(ids(tok.encode(f"a{next(iter(tok.special_tokens.values()))}b")))


@pytest.mark.parametrize("ref", REAL + RANKS)
def test_stretches_between_control_tokens_join_to_the_whole(ref):
    tok = tokenizer(ref)
    control = next(iter(tok.special_tokens.values()))
    (control_id,) = ids(tok.encode(control))
    texts = sample_texts()
    for left, right in itertools.pairwise(texts):
        whole = tok.encode(left + control + right)
        parts = [*ids(tok.encode_stretch(left, first=True)), control_id, *ids(tok.encode_stretch(right, first=False))]
        assert ids(whole) == parts, (left, right)


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT)
def test_any_text_keeps_its_bytes(text):
    for ref in ("smollm2", "qwen3", "o200k"):
        tok = tokenizer(ref)
        raw = tok.encode(text)
        check_spans(tok, text, raw)
        normal = unicodedata.normalize("NFC", text) if ref == "qwen3" else text
        missing = MISSING_BYTES if ref == "smollm2" else b""
        assert tok.decode(ids(raw)) == normal.encode().translate(None, missing)


# SmolLM2's vocabulary has no piece for these bytes: text that holds them loses them.
MISSING_BYTES = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2])


def test_bytes_that_a_vocabulary_lacks_are_dropped_and_the_rest_keeps_its_place():
    tok = tokenizer("smollm2")
    text = "a\x16b\U00040000c"
    raw = tok.encode(text)
    data = text.encode()
    covered = [data[a:b] for a, b in zip(raw.start.tolist(), raw.end.tolist())]
    assert covered == [tok.token_bytes(i) for i in ids(raw)]
    assert b"".join(covered) == data.translate(None, MISSING_BYTES)


@settings(max_examples=100, deadline=None)
@given(ANY_TEXT)
def test_character_offsets_in_bytes_are_utf_8_prefix_lengths(text):
    assert char_starts(text).tolist() == [len(text[:i].encode()) for i in range(len(text) + 1)]


@pytest.mark.parametrize("ref", REAL + RANKS + TEACHING)
def test_a_lone_surrogate_is_refused_with_its_place(ref):
    with pytest.raises(InspectorError) as caught:
        tokenizer(ref).encode("ab\ud800")
    assert (caught.value.kind, caught.value.where) == (ErrorKind.UnencodableText, {"char": 2})


# --- hostile and foreign files -----------------------------------------------------------------------------------


def fast_artifact(folder: Path, table: object, config: object = None) -> TokenizerArtifact:
    files = []
    for name, value in (("tokenizer.json", table), ("tokenizer_config.json", config)):
        if value is not None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            (folder / name).write_bytes(data)
    artifact = resolve_tokenizer(str(folder))
    files = list(artifact.files)
    return replace(artifact, files=tuple(files))


FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def small_table(**parts) -> dict:
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "h": 3, "##i": 4, "hello": 5, ",": 6}
    table = {
        "version": "1.0",
        "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                "[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]},
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }
    return {**table, **parts}


def test_truncation_and_padding_baked_into_a_file_are_switched_off(tmp_path):
    tok = load_tokenizer(fast_artifact(tmp_path, small_table()))
    raw = tok.encode("Hello, hi hello", add_special_tokens=True)
    assert ids(raw) == [1, 5, 6, 3, 4, 5, 2]
    assert list(zip(raw.start.tolist(), raw.end.tolist())) == [
        (0, 0), (0, 5), (5, 6), (7, 8), (8, 9), (10, 15), (15, 15)
    ]  # fmt: skip
    assert tok.token_bytes(4) == b"i"


def test_a_configuration_names_tokens_that_the_file_lacks_and_they_become_special(tmp_path):
    config = {"eos_token": "<|end|>", "model_max_length": 1e30}
    tok = load_tokenizer(fast_artifact(tmp_path, small_table(), config))
    assert tok.special_tokens == {"eos_token": "<|end|>"}
    assert tok.model_max_length is None
    assert ids(tok.encode("hi<|end|>")) == [3, 4, 7]
    assert tok.size == tok.vocab_size + 1


def test_a_control_piece_that_the_model_itself_would_make_of_plain_text_is_taken_apart(tmp_path):
    pieces = ["<unk>", "</s>", "<", "/", "s", ">", "a", "▁", "▁a"]
    table = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": pieces[i], "special": True} | dict.fromkeys(FLAGS, False) for i in range(2)
        ],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": False,
            "vocab": [[piece, 0.0 if i < 2 else -float(i)] for i, piece in enumerate(pieces)],
        },
    }
    tok = load_tokenizer(fast_artifact(tmp_path, table, {"eos_token": "</s>", "unk_token": "<unk>"}))
    assert ids(tok.encode("a</s>a")) == [8, 1, 6]  # Metaspace "first": no prefix after the control token
    raw = tok.encode_plain("a</s>a</s>")
    assert 1 not in ids(raw) and tok.decode(ids(raw)) == b" a</s>a</s>"
    check_spans(tok, "a</s>a</s>", raw)
    assert raw.start.tolist() == [0, *raw.end.tolist()][: len(raw.start)]
    assert ids(tok.encode_plain("a", first=False)) == ids(tok.encode_stretch("a", first=False)) == [6]
    assert ids(tok.encode_plain("a")) == ids(tok.encode_stretch("a", first=True)) == [8]


def test_a_blank_that_the_tokenizer_puts_before_a_piece_stands_for_no_byte(tmp_path):
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    token = {"id": 0, "content": "<s>", "special": True} | dict.fromkeys(FLAGS, False)
    vocabulary = {piece: i for i, piece in enumerate(["<s>", "▁", *"portide", "é"])}
    table = {
        "version": "1.0",
        "added_tokens": [token],
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    tok = load_tokenizer(fast_artifact(tmp_path, table, {"bos_token": "<s>"}))
    raw = tok.encode("o<s>é d")  # fault case MAP-05
    assert list(zip(map(tok.piece, ids(raw)), raw.start.tolist(), raw.end.tolist())) == [
        ("▁", 0, 0), ("o", 0, 1), ("<s>", 1, 4), ("▁", 4, 4), ("é", 4, 6), ("▁", 6, 7), ("d", 7, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "config"),
    [
        (b"", None),
        (b"\xff\xfe", None),
        (b"[1]", None),
        (b'{"version": "1.0"}', None),
        (b"[" * 100_000, None),
        (small_table(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}), None),
        (small_table(pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}), None),
        (small_table(), b"{"),
        (small_table(), [1]),
        (small_table(), {"eos_token": 5}),
        (small_table(), {"eos_token": {"content": None}}),
        (small_table(), {"added_tokens_decoder": {"x": {"content": "a"}}}),
        (small_table(), {"chat_template": 5}),
        (small_table(), {"chat_template": [{"name": "x"}]}),
    ],
)
def test_files_that_cannot_be_used_are_tokenizer_invalid(tmp_path, table, config):
    with pytest.raises(InspectorError) as caught:
        load_tokenizer(fast_artifact(tmp_path, table, config))
    assert caught.value.kind is ErrorKind.TokenizerInvalid
    assert "\n" not in caught.value.one_line()


def test_a_rust_panic_is_tokenizer_invalid():
    from inspector.tokenizers.fast import guarded

    class Panic(BaseException):
        """As pyo3's PanicException: no Exception."""

    def boom():
        raise Panic("index out of bounds")

    with pytest.raises(InspectorError) as caught:
        guarded(boom, "encoding")
    assert caught.value.kind is ErrorKind.TokenizerInvalid

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(stop, "encoding")


def test_a_pattern_that_backtracks_too_long_has_its_own_kind(tmp_path):
    split = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    table = {"version": "1.0", "pre_tokenizer": split, "model": {"type": "BPE", "vocab": {"x": 0}, "merges": []}}
    tok = load_tokenizer(fast_artifact(tmp_path, table))
    with pytest.raises(InspectorError) as caught:
        tok.encode("x" * 60 + "c")
    assert caught.value.kind is ErrorKind.TokenizerRegexLimit


def test_a_file_that_changed_after_it_was_resolved_is_refused(tmp_path):
    artifact = fast_artifact(tmp_path, small_table())
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(InspectorError) as caught:
        load_tokenizer(artifact)
    assert caught.value.kind is ErrorKind.ArtifactMismatch


def test_an_artifact_survives_json_and_pickle():
    import pickle
    from dataclasses import asdict

    artifact = resolve_tokenizer("smollm2")
    again = asdict(artifact)
    again = TokenizerArtifact(
        **{**again, "files": tuple(ArtifactFile(**file) for file in json.loads(json.dumps(again["files"])))}
    )
    assert pickle.loads(pickle.dumps(artifact)) == again == artifact


GGUF_START = b"GGUF" + (3).to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "magic"),
        (b"GGUF", "header"),
        (b"GGML" + bytes(40), "magic"),
        (b"GGUF" + u32(9) + bytes(40), "version"),
        (GGUF_START + u64(1 << 60) + u64(1), "counts"),
        (GGUF_START + u64(0) + u64(1 << 60), "counts"),
        (GGUF_START + u64(0) + u64(1) + u64(1 << 62), "key 0"),
        (GGUF_START + u64(0) + u64(1) + u64(40) + b"short", "key 0"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"\xff" + u32(4) + u32(0), "key 0"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"k" + u32(99) + u32(0), "k"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"k" + u32(9) + u32(9) + u64(5), "k"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"k" + u32(9) + u32(4) + u64(1 << 62), "k"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"k" + u32(9) + u32(8) + u64(15_000_000), "k"),
        (GGUF_START + u64(0) + u64(1) + u64(1) + b"k" + u32(8) + u64(1 << 40) + bytes(9), "k"),
        (GGUF_START + u64(0) + u64(2) + (u64(1) + b"k" + u32(4) + u32(0)) * 2, "k"),
    ],
)
def test_a_hostile_gguf_header_is_refused_with_offset_and_field(tmp_path, data, field):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(InspectorError) as caught:
        load_tokenizer(resolve_tokenizer(f"gguf:{path}"))
    assert caught.value.kind is ErrorKind.GgufInvalid
    assert caught.value.where["field"] == field and 0 <= caught.value.where["byte"] <= len(data)


@pytest.mark.full
@pytest.mark.parametrize("ref", REAL)
def test_a_hundred_thousand_tokens_cost_little_more_than_the_encode_itself(ref):
    import time

    tok = tokenizer(ref)
    text = "".join(sample_texts())[:20_000] * 12
    library = tok._backend

    def best(action) -> float:
        times = []
        for _ in range(4):
            started = time.perf_counter()
            action()
            times.append(time.perf_counter() - started)
        return min(times)

    bare = best(lambda: library.encode(text, add_special_tokens=False).ids)
    assert best(lambda: tok.encode(text)) < 1.6 * bare
