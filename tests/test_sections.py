"""Section-wise encoding equals the whole encode, for every real tokenizer, with and without the cache."""

from __future__ import annotations

import random

import numpy as np
import pytest

from inspector.sources import resolve_tokenizer
from inspector.tokenizers import fast, load_tokenizer
from inspector.tokenizers.base import AddedToken
from inspector.tokenizers.sections import walls_of

REAL = ("smollm2", "qwen3", "llama3", "llama3.1", "gemma3", "deepseek-v3")
WORDS = (
    'the quick 天空 为什么 foo(x): x+1 \n\n\n  {"a":1.0} émoji 🌶 ．ＡＢＣ 12345 don\'t\t<|im <| |> < > ▁ e\u0301 \r\n <think> </s> '
    "<|im_start <start_of_turn> <|eot_id|> <｜User｜> <table> \u200b 한국어"
).split(" ")


def random_text(rng: random.Random, literals: list[str], words: int) -> str:
    parts = []
    for _ in range(words):
        parts.append(rng.choice(literals) if rng.random() < 0.15 else rng.choice(WORDS))
        parts.append(rng.choice(["", " ", "\n", "  "]))
    return "".join(parts)


@pytest.mark.parametrize("preset", REAL)
def test_sections_equal_the_whole_encode(preset: str) -> None:
    tokenizer = load_tokenizer(resolve_tokenizer(preset))
    literals = [token.content for token in tokenizer.added_tokens][:60]
    rng = random.Random(5)
    for _ in range(60):
        text = random_text(rng, literals, 200)
        whole = fast._encode(tokenizer._backend, text, tokenizer._bytes, tokenizer._shape.form)
        for _again in range(2):  # the second time from the cache
            pieces = tokenizer._sections.encode(text)
            assert pieces is not None
            assert pieces.input_ids.tolist() == whole.input_ids.tolist(), (preset, text)
            assert np.array_equal(pieces.start, whole.start) and np.array_equal(pieces.end, whole.end), (preset, text)


def test_an_edit_encodes_only_the_section_it_is_in() -> None:
    tokenizer = load_tokenizer(resolve_tokenizer("qwen3"))
    sections = tokenizer._sections
    sections.clear()
    text = "".join(f"<|im_start|>user\nmessage number {n}<|im_end|>\n" for n in range(200))
    sections.encode(text)
    before = set(sections._cache)
    edited = text.replace("message number 100<", "message number 100!<")
    result = sections.encode(edited)
    assert set(sections._cache) - before == {"message number 100!"}
    assert result.input_ids.tolist() == tokenizer._backend.encode(edited, add_special_tokens=False).ids


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.tokenizers.sections.CACHE_CHARS", 1000)
    sections = load_tokenizer(resolve_tokenizer("llama3"))._sections
    sections.clear()
    for number in range(100):
        sections.encode(f"<|eot_id|>some text that is number {number}<|eot_id|>")
    assert sum(map(len, sections._cache)) == sections._cached_chars <= 1000


def test_only_literals_that_nothing_can_reach_into_are_walls() -> None:
    tokens = [
        AddedToken(0, "<a>", True),
        AddedToken(1, "<b>", True, rstrip=True),  # takes white space with it
        AddedToken(2, "<c>", True, normalized=True),  # matched after normalisation
        AddedToken(3, "[x]", True),
        AddedToken(4, "y[x", False),  # may begin before [x] and end inside it
        AddedToken(5, "{d}", True),
        AddedToken(6, "{d}e", False),  # longer, begins the same
    ]
    assert list(walls_of(tokens).items()) == [("<a>", 0), ("y[x", 4), ("{d}e", 6)]  # special ones first


HEADS = (
    "user",
    "assistant",
    "a b",
    "",
    " ",
    "x?",
    "don't",
    "\t",
    "\r",
    "é",
    "e\u0301",
    "１",
    "²",
    "/",
    "12",
    "long " * 6,
)
BREAKS = ("\n", "\n\n", "\n\n\n", "\r\n", " \n", "\n ", "\n\n \n")
STARTS = ("Word", "'s", "'ll be", "1234", "²", "/x", "?", "*a", "\u0301a", "\u0338", "\u1161", "\u2028x", "\x1cx", "\x85", "天空",
          "<think>\n", "</think>\n\nA", "_x", "\u200bx", "🌶", "가", " ", "", "\n")  # fmt: skip


@pytest.mark.parametrize("preset", ["qwen3", "llama3.1"])
def test_a_first_line_parts_from_what_follows(preset: str) -> None:
    tokenizer = load_tokenizer(resolve_tokenizer(preset))
    assert tokenizer._sections._head is not None
    wall = {"qwen3": "<|im_start|>", "llama3.1": "<|end_header_id|>"}[preset]
    for head in HEADS:
        lines = [f"{wall}{head}{line}{start}" for line in BREAKS for start in STARTS]
        for text in (*lines, "".join(lines)):
            whole = fast._encode(tokenizer._backend, text, tokenizer._bytes, tokenizer._shape.form)
            pieces = tokenizer._sections.encode(text)
            assert pieces is not None and pieces.input_ids.tolist() == whole.input_ids.tolist(), (preset, text)
            assert np.array_equal(pieces.start, whole.start) and np.array_equal(pieces.end, whole.end), (preset, text)
            assert (
                len(tokenizer._sections.inner_ids(text.removeprefix(wall))) + 1 == len(pieces.input_ids)
                or wall in text[1:]
            )


def test_lines_part_only_where_pattern_and_added_tokens_let_them() -> None:
    found = {name: load_tokenizer(resolve_tokenizer(name))._sections._head for name in REAL}
    assert {name for name, head in found.items() if head is not None} == {"qwen3", "llama3", "llama3.1"}
    backend = load_tokenizer(resolve_tokenizer("qwen3"))._backend
    for token in (AddedToken(0, "a\nb", False), AddedToken(0, "word", False, lstrip=True)):
        assert not fast._lines_part(backend, [token])


def test_marks_of_the_text_that_was_encoded_last_are_those_of_any_text() -> None:
    for preset in ("qwen3", "llama3.1", "gemma3"):
        tokenizer = load_tokenizer(resolve_tokenizer(preset))
        literals, rng = [token.content for token in tokenizer.added_tokens][:60], random.Random(6)
        for _ in range(20):
            text = random_text(rng, literals, 60)
            tokenizer.sections.encode(text)
            last = tokenizer.sections.marks(text)
            tokenizer.sections.encode("<|im_end|>")
            other = tokenizer.sections.marks("".join(list(text)))  # an equal text, another object
            assert (last.ends, last.tokens) == (other.ends, other.tokens) and last.ends
