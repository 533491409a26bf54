"""The table of pieces gives the library's ids: its pieces are the pre-tokenizer's, for every character and random texts."""

from __future__ import annotations

import json
import random
import re
import shutil
import string
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import regex

from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer, pieces
from inspector.tokenizers.bytetable import ByteTable
from inspector.tokenizers.pieces import PieceEncoder

REAL = ("smollm2", "qwen3", "llama3.1", "gpt-oss", "deepseek-v3")
ASCII = "".join(map(chr, range(128)))
CONTEXTS = ("a{}b", "1{}2", " {} ", "'{}'t", "!{}\n", "\n{}a", "{}{}", "A{}'S", "  {}", "中{}")


def encoder(preset: str) -> PieceEncoder:
    """Give a new table of pieces of a preset's tokenizer."""
    tokenizer = load_tokenizer(resolve_tokenizer(preset))

    def library(texts: list[str]) -> list[list[int]]:
        return [found.ids for found in tokenizer._backend.encode_batch_fast(texts, add_special_tokens=False)]

    made = tokenizer._by_piece(tokenizer._backend, library)
    assert made is not None
    return made


def own_pieces(preset: str, text: str) -> list[str]:
    """Cut a text by the library's pre-tokenizer."""
    cut = load_tokenizer(resolve_tokenizer(preset))._backend.pre_tokenizer.pre_tokenize_str(text)
    edges = sorted({span[0] for _piece, span in cut} | {len(text)})
    return [text[a:b] for a, b in pairwise(edges)]


def characters(count: int | None) -> list[str]:
    """Give every character, or a sample of those that Unicode has and all of the first 1,000."""
    every = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    if count is None:
        return every
    return [
        *every[:1000],
        *random.Random(3).sample([char for char in every if unicodedata.category(char) != "Cn"], count),
    ]


def check_characters(preset: str, chars: list[str]) -> None:
    made = encoder(preset)
    told = [char for char in chars if made._is_known(char) or char in made._known]
    assert len(told) > 0.99 * sum(unicodedata.category(char) not in ("Cn", "Co", "Cs") for char in chars)
    for begin in range(0, len(told), 500):
        some = told[begin : begin + 500]
        for context in CONTEXTS:
            text = "".join(context.format(*[char] * context.count("{}")) for char in some)
            assert made.cut(text) == own_pieces(preset, text), (preset, context, some[0])


@pytest.mark.parametrize("preset", REAL)
def test_a_sample_of_characters_is_cut_as_the_library_cuts(preset: str) -> None:
    check_characters(preset, characters(400))


@pytest.mark.full
@pytest.mark.parametrize("preset", REAL)
def test_every_character_is_cut_as_the_library_cuts(preset: str) -> None:
    check_characters(preset, characters(None))


@pytest.mark.parametrize("pattern", sorted(pieces.COVERING))
def test_ascii_is_cut_alike_by_either_pattern(pattern: str) -> None:
    rng = random.Random(4)
    whole, ascii_only = regex.compile(pattern), re.compile(pieces.ascii_pattern(pattern))
    for _ in range(3000):
        text = "".join(rng.choices(string.printable if rng.random() < 0.8 else ASCII, k=rng.randrange(1, 40)))
        assert whole.findall(text) == ascii_only.findall(text)
        assert "".join(whole.findall(text)) == text


def random_text(rng: random.Random, literals: list[str]) -> str:
    parts = []
    for _ in range(rng.randrange(1, 20)):
        kind = rng.random()
        if kind < 0.01 and literals:
            parts.append(rng.choice(literals))
        elif kind < 0.03:
            parts.append(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)))))
        elif kind < 0.5:
            parts.append(
                rng.choice(
                    (" ", "  ", "\n", "\r\n", "\t", "\u3000", "'", "'S", "'ſ", "/", "e\u0301", "\u1100\u1161", "\u212b")
                )
            )
        else:
            parts.append(
                rng.choice(
                    ("word", "Word", "WORDs", "123", "4", "日本語", "привет", "!!", "_x", "don't", "ǅ", "ʰa", "²")
                )
            )
    return "".join(parts)  # fmt: skip


@pytest.mark.parametrize("preset", REAL)
def test_ids_of_random_texts_are_the_librarys(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_PIECES", 300)  # the table begins anew on the way
    made, rng = encoder(preset), random.Random(8)
    literals = [token.content for token in load_tokenizer(resolve_tokenizer(preset)).added_tokens]
    texts = [random_text(rng, literals) for _ in range(400)]
    told = [made._ids(text) for text in texts]
    assert sum(ids is not None for ids in told) > 100
    encoded, exact = made.encode(texts)
    assert [ids.tolist() for ids in encoded] == made._library(texts) and not exact  # some were the library's
    assert len(made._pieces) <= 300
    for text, ids in zip(texts, told):
        assert ids is None or ids.tolist() == made._library([text])[0], (preset, text)


def test_what_is_not_known_to_be_the_same_is_the_librarys() -> None:
    made = encoder("qwen3")
    assert made._ids("plain text") is not None
    for text in ("e\u0301", "an <|im_end|> in it", "x" * (pieces.MAX_TEXT + 1), "\U000e0fff"):
        assert made._ids(text) is None, text
    newer = next(char for char in reversed(characters(None)) if unicodedata.category(char) == "Cn")
    assert made._ids(newer) is None


def test_an_added_token_that_the_normalizer_composes_is_the_librarys(tmp_path: Path) -> None:
    for file in resolve_tokenizer("qwen3").files:
        shutil.copy(file.path, tmp_path / file.name)
    held = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    token = {**held["added_tokens"][-1], "id": held["added_tokens"][-1]["id"] + 1, "content": "cafe\u0301", "normalized": True, "special": False}  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps({**held, "added_tokens": [*held["added_tokens"], token]}), "utf-8")  # fmt: skip
    tokenizer = load_tokenizer(resolve_tokenizer(str(tmp_path)))
    made = tokenizer._by_piece(tokenizer._backend, lambda texts: [[-1] for _ in texts])
    for text in ("caf\u00e9", "un caf\u00e9 noir", "un cafe\u0301 noir"):
        ids = tokenizer._backend.encode(text, add_special_tokens=False).ids
        assert token["id"] in ids and made.encode([text])[0][0].tolist() == [-1]
        assert tokenizer.encode(text).input_ids.tolist() == ids


def test_a_wrong_piece_is_noticed_and_ends_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "CHECK_EVERY", 1)
    made = encoder("qwen3")
    made._pieces["tide"] = np.array([1, 2], np.int64).tobytes()
    with pytest.warns(RuntimeWarning, match="other pieces"):
        encoded, _exact = made.encode(["tide"])
    assert [ids.tolist() for ids in encoded] == made._library(["tide"])
    assert made._ids("harbour") is None


def test_bytes_of_other_ids_than_a_pieces_own_are_noticed() -> None:
    made = encoder("qwen3")
    assert made.encode(["a harbour tide, 潮", "at noon"])[1]
    lost = made._pieces._table.pieces
    made._pieces._table = ByteTable([b"?", *lost[1:]])  # as in a vocabulary that lacks a byte: "!" is id 0
    assert not made.encode(["noon!"])[1] and not made.encode(["a harbour tide"])[1]


def test_other_pre_tokenizers_have_no_table() -> None:
    for preset in ("gemma3", "minilm"):
        tokenizer = load_tokenizer(resolve_tokenizer(preset))
        assert tokenizer._by_piece(tokenizer._backend, lambda texts: []) is None
