r"""Encode the text between control tokens piece by piece, with a table of pieces: words come again, their ids need no model.

The library cuts such a text by the tokenizer's own pattern and runs the model on each piece apart, so the ids of a text
are those of its pieces one after the other. Here the same pattern cuts (by `regex` in place of the library's
Oniguruma), and a piece that was seen before is looked up; a new one goes through the library's own model. Why that
is the same:

* only pre-tokenizers listed here are taken, patterns whose constructs mean the same in both engines, and only a model
  without dropout; a normalizer may be NFC alone, and only text that is NFC already is cut here;
* engines know other versions of Unicode: a character is taken once both have put it into the same classes (`\p{L}`,
  `\s`, ...) of the pattern; a text with another character is the library's;
* a text that spells an added token is the library's, and so is a long one, where a pattern may run out of its budget;
* one text in `CHECK_EVERY` is encoded by the library too; a difference, which would be a mistake here, is said in a
  warning, and the library encodes from then on.

The test of this module sweeps every code point and random texts. Spans and added tokens are not known here.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from inspector.tokenizers.bytetable import ByteTable

MAX_PIECES = 100_000  # of one tokenizer, then the table begins anew: about 20 MB
MAX_PIECE = 32  # characters; longer pieces rarely come again
MAX_TEXT = 20_000  # characters
CHECK_EVERY = 256

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
NUMBERS = (r"\p{N}", r"\p{N}{1,3}")  # a digit each, or three
WORDS = tuple(  # cl100k, Llama 3, Qwen
    rf"{_ENDINGS}|{_BEFORE}\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}" for number in NUMBERS
)
CASES = (  # o200k
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDINGS}?|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDINGS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}"
)
IDEOGRAPHS = "[一-龥\u3040-ゟ゠-ヿ]+"  # DeepSeek, which cuts by numbers, by these, and then by
MARKED = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    rf"|{_BLANKS}"
).replace(r"\r\n", "\r\n")  # written so, as characters
PATTERNS = frozenset((*NUMBERS, *WORDS, CASES, IDEOGRAPHS, MARKED))
# The library's own, of GPT-2.
BYTE_LEVEL = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGITS = r"\p{N}"  # as the library's `Digits` cuts
COVERING = frozenset((*WORDS, CASES, BYTE_LEVEL))  # each character is in one of the last alternatives
_CLASS = re.compile(r"\\p\{\w+\}|\\s")
_SET = re.compile(r"\[[^\]]*\]|\\p\{\w+\}|\\[sS]")
_FOLDED = re.compile(r"\(\?i:([^()]*)\)")


class PieceEncoder:
    """Ids of texts between control tokens. `encode` gives the library's ids of several such texts, `literals` are the
    added tokens, with one of which a text is the library's, `table` has the bytes of the ids. Safe to use from several
    threads."""

    def __init__(
        self,
        backend: LibraryTokenizer,
        patterns: Sequence[str],
        literals: Sequence[str],
        encode: Callable[[list[str]], list[list[int]]],
        table: ByteTable,
        *,
        composes: bool,
    ) -> None:
        import regex

        self._library, self._composes = encode, composes
        self._cuts = [regex.compile(f"({pattern})") for pattern in patterns]
        whole = len(patterns) == 1 and patterns[0] in COVERING
        self._whole = regex.compile(patterns[0]) if whole else None
        self._whole_ascii = re.compile(ascii_pattern(patterns[0])) if whole else None
        self._literals = re.compile("|".join(map(re.escape, literals))) if literals else None
        self._classes = [(name, regex.compile(name)) for pattern in patterns for name in classes_of(pattern)]
        self._digits = regex.compile(DIGITS)
        self._pieces = _Pieces(backend, table)
        self._known: set[str] = set()
        self._ascii = self._know({chr(code) for code in range(128)})
        self._texts = 0
        self._trusted = True

    def encode(self, texts: list[str]) -> tuple[list[np.ndarray], bool]:
        """Give the ids of each text, int64[n], and whether their bytes are known to be those of the texts."""
        found = [self._ids(text) for text in texts]
        told = [ids for ids in found if ids is not None]
        if len(told) == len(texts):
            return told, self._pieces.exact
        others = iter(self._library([text for text, ids in zip(texts, found) if ids is None]))
        return [np.array(next(others), np.int64) if ids is None else ids for ids in found], False

    def _ids(self, text: str) -> np.ndarray | None:
        if not self._trusted or len(text) > MAX_TEXT or not self._is_known(text):
            return None
        if self._literals is not None and self._literals.search(text) is not None:
            return None
        # Bytes: to join them takes a third of the time that an array of as many numbers takes.
        ids = np.frombuffer(b"".join(map(self._pieces.__getitem__, self.cut(text))), np.int64)
        self._texts += 1
        return ids if self._texts % CHECK_EVERY else self._checked(text, ids)

    def cut(self, text: str) -> list[str]:
        """Cut a text as the pre-tokenizer does."""
        if self._whole is not None and self._whole_ascii is not None:
            return self._whole_ascii.findall(text) if text.isascii() else self._whole.findall(text)
        pieces = [text]
        for pattern in self._cuts:
            pieces = [part for piece in pieces for part in pattern.split(piece) if part]
        return pieces

    def _is_known(self, text: str) -> bool:
        """Say whether both engines see the same in every character, and the normalizer would leave the text alone."""
        if text.isascii():
            return self._ascii
        if not self._known.issuperset(text) and not self._know(set(text).difference(self._known)):
            return False
        return not self._composes or unicodedata.is_normalized("NFC", text)

    def _know(self, chars: set[str]) -> bool:
        """Put each character into the classes of the pattern by both engines; say whether they agree about all.

        A character that Python's Unicode does not have may be composed by a library that knows it.
        """
        told = "".join(sorted(chars))
        agreed = {char for char in chars if unicodedata.category(char) not in ("Cn", "Cs")}
        for name, pattern in self._classes:
            agreed -= set(pattern.findall(told)) ^ _members(name, told)
        agreed -= set(self._digits.findall(told)) ^ _numbers(told)
        self._known |= agreed
        return len(agreed) == len(chars)

    def _checked(self, text: str, ids: np.ndarray) -> np.ndarray:
        theirs = np.array(self._library([text])[0], np.int64)
        if not np.array_equal(theirs, ids):
            self._trusted = False
            message = "a text was cut into other pieces than the library's: what was encoded before may be wrong"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return theirs


class _Pieces(dict[str, bytes]):
    """Ids of pieces, eight bytes each. What is missing goes through the model, as the pre-tokenizer would give it to it.

    `exact`: the bytes of every piece's ids were the piece's own.
    """

    def __init__(self, backend: LibraryTokenizer, table: ByteTable) -> None:
        self._model = LibraryTokenizer(backend.model)  # shared, no copy of the vocabulary; nothing cuts
        self._model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._table, self.exact = table, True

    def __missing__(self, piece: str) -> bytes:
        ids = self._model.encode(piece, add_special_tokens=False).ids
        if self._table.join(ids) != piece.encode():
            self.exact = False
        made = np.array(ids, np.int64).tobytes()
        if len(piece) <= MAX_PIECE:
            if len(self) >= MAX_PIECES:
                self.clear()
            self[piece] = made
        return made


def _members(name: str, chars: str) -> set[str]:
    """Give those of the characters that the library's engine has in a class."""
    found = pre_tokenizers.Split(Regex(name), "removed", invert=True).pre_tokenize_str(chars)
    return {char for part, _span in found for char in part}


def _numbers(chars: str) -> set[str]:
    """Give those of the characters that the library's `Digits` sets apart. No letter `a` is among them."""
    found = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(f"a{'a'.join(chars)}a")
    return {part for part, _span in found if len(part) == 1} - {"a"}


def classes_of(pattern: str) -> list[str]:
    """Give the classes of characters that a pattern asks for, letters whose case does not count among them.

    >>> classes_of(r"(?i:'t)|\\p{L}+|\\s+(?!\\S)")
    ['(?i:t)', '\\\\p{L}', '\\\\s']
    """
    letters = {char for group in _FOLDED.findall(pattern) for char in group if char.isalpha()}
    return sorted({f"(?i:{char})" for char in letters} | set(_CLASS.findall(pattern)))


def ascii_pattern(pattern: str) -> str:
    """Write a pattern for ASCII text, with the classes spelled as the library's engine has them: `re`, which lacks them,
    cuts such text in half the time."""
    ascii_only = "".join(map(chr, range(128)))

    def spelled(found: re.Match[str]) -> str:
        return re.escape("".join(sorted(_members(found[0], ascii_only))))

    def as_set(found: re.Match[str]) -> str:
        if found[0][0] == "[":
            return _CLASS.sub(spelled, found[0])
        return f"[{spelled(found)}]"

    return _SET.sub(as_set, pattern)


def patterns_of(steps: Sequence[dict[str, Any]], model: models.Model) -> list[str] | None:
    """Give the patterns by which a pre-tokenizer cuts, one after the other; None for one that is not followed here.

    `steps`: those of the pre-tokenizer, sequences unrolled.
    """
    if not isinstance(model, models.BPE) or model.dropout or not steps:
        return None
    *before, level = steps
    if level.get("type") != "ByteLevel" or level.get("add_prefix_space"):
        return None
    patterns: list[str] = []
    for step in before:
        pattern = _pattern(step)
        if pattern is None:
            return None
        patterns.append(pattern)
    if level.get("use_regex"):
        patterns.append(BYTE_LEVEL)
    return patterns or None


def _pattern(step: dict[str, Any]) -> str | None:
    if step.get("type") == "Digits" and step.get("individual_digits"):
        return DIGITS
    if step.get("type") != "Split" or step.get("behavior") != "Isolated" or step.get("invert"):
        return None
    given = step.get("pattern")
    pattern = given.get("Regex") if isinstance(given, dict) else None
    return pattern if pattern in PATTERNS else None
