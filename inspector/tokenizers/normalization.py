"""Normalise a text and keep the place of every byte: which stretch of the source became which stretch of the result.

Only Unicode's canonical and compatibility forms are done here, as tokenizers that normalise in Python do them; the
normalizers of a tokenizer.json stay the library's.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = get_args(Form)
_HANGUL_PARTS = range(0x1161, 0x1200)  # vowels and trailing consonants, which join the letter before them
_COMPOSED = range(0xC0, 0x20000)  # what lies above decomposes to single ideographs only


@dataclass(frozen=True, slots=True, eq=False)
class Normalized:
    """A normalised text. `places`: int64[bytes + 1], the source byte at which each byte of the result begins.

    Inside a stretch that the form rewrote there is no such byte: its bytes are dealt out one for one, and the last
    one takes the rest, so that the whole source stays covered.
    """

    text: str
    places: np.ndarray


def form_of(name: str | None) -> Form | None:
    """Give the form of that name, or None for no name.

    Errors: ValueError for another name.
    """
    if name is None or name in FORMS:
        return cast("Form | None", name)
    raise ValueError(f"{name!r} is no Unicode form; one of {', '.join(FORMS)}")


def normalize(text: str, form: Form) -> Normalized:
    """Normalise `text` and align it with its source."""
    pairs = list(stretches(text, form))
    places = np.zeros(sum(len(after.encode()) for _before, after in pairs) + 1, np.int64)
    source = target = 0
    for before, after in pairs:
        size, made = len(before.encode()), len(after.encode())
        steps = np.arange(made) if size == made else np.minimum(np.arange(made), size)
        places[target : target + made] = source + steps
        source, target = source + size, target + made
    places[target] = source
    return Normalized("".join(after for _before, after in pairs), places)


def stretches(text: str, form: Form) -> Iterator[tuple[str, str]]:
    """Cut the text where the form cannot reach across; give each stretch before and after.

    What lies between stretches that the form could touch is one stretch.
    """
    touched = None if unicodedata.is_normalized(form, text) else _touched(text, form)
    done = 0
    for match in touched.finditer(text) if touched else ():
        if match.end() <= done:
            continue
        begin, end = match.start(), match.end()
        while begin > done and not _starts_anew(text[begin]):
            begin -= 1
        while end < len(text) and not _starts_anew(text[end]):
            end += 1
        if begin > done:
            yield text[done:begin], text[done:begin]
        for at in range(begin + 1, end + 1):
            if at == end or _starts_anew(text[at]):
                yield text[begin:at], unicodedata.normalize(form, text[begin:at])
                begin = at
        done = end
    if done < len(text):
        yield text[done:], text[done:]


def _touched(text: str, form: Form) -> re.Pattern[str] | None:
    """Match the runs of those characters of a text that the form changes, or that may join what stands before them."""
    found = [char for char in set(text) if not unicodedata.is_normalized(form, char) or not _starts_anew(char)]
    return re.compile(f"[{re.escape(''.join(sorted(found)))}]+") if found else None


def _starts_anew(char: str) -> bool:
    """Say whether nothing before this character can be composed with it."""
    return char < "\u0300" or (unicodedata.combining(char) == 0 and char not in _second_parts())


@functools.cache
def _second_parts() -> frozenset[str]:
    """List the characters that may join what stands before them: second parts of canonical compositions, and characters
    of class 0 that decompose to a mark (U+0F73) or to such a part first."""
    seconds = {chr(point) for point in _HANGUL_PARTS}
    decompositions = {chr(point): unicodedata.decomposition(chr(point)) for point in _COMPOSED}
    for parts in decompositions.values():
        if parts and not parts.startswith("<") and " " in parts:
            seconds.add(chr(int(parts.split()[1], 16)))
    firsts = {char: _first(parts) for char, parts in decompositions.items() if parts}
    return frozenset(seconds | {c for c, first in firsts.items() if first in seconds or unicodedata.combining(first)})


def _first(parts: str) -> str:
    codes = [part for part in parts.split() if not part.startswith("<")]
    char = chr(int(codes[0], 16))
    return unicodedata.normalize("NFKD", char)[0]
