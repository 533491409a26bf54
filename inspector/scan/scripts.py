"""Which script the letters of a text are of, for counting tokens by language block. Coarse on purpose.

Blocks, not a language detector: Latin letters may be any of fifty languages, and Han is not told from Kanji.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.scan.columns import SCRIPTS

# First code point of each stretch, and its script; up to the next one. Rounded to blocks of the Unicode standard.
_STRETCHES = (
    (0x0000, "common"), (0x0041, "latin"), (0x005B, "common"), (0x0061, "latin"), (0x007B, "common"),
    (0x00AA, "latin"), (0x00AB, "common"), (0x00B5, "latin"), (0x00B6, "common"), (0x00BA, "latin"),
    (0x00BB, "common"), (0x00C0, "latin"), (0x00D7, "common"), (0x00D8, "latin"), (0x00F7, "common"),
    (0x00F8, "latin"), (0x02B9, "common"), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "other"),
    (0x0590, "hebrew"), (0x0600, "arabic"), (0x0700, "other"), (0x0750, "arabic"), (0x0780, "other"),
    (0x08A0, "arabic"), (0x0900, "indic"), (0x0E00, "thai"), (0x0E80, "other"), (0x1100, "hangul"),
    (0x1200, "other"), (0x1C80, "cyrillic"), (0x1C90, "other"), (0x1D00, "latin"), (0x1D2B, "other"),
    (0x1E00, "latin"), (0x1F00, "greek"), (0x2000, "common"), (0x20D0, "other"), (0x2100, "common"),
    (0x2600, "emoji"), (0x27C0, "common"), (0x2C60, "latin"), (0x2C80, "other"), (0x2DE0, "cyrillic"),
    (0x2E00, "common"), (0x2E80, "han"), (0x3000, "common"), (0x3005, "han"), (0x3008, "common"),
    (0x3040, "kana"), (0x3100, "han"), (0x3130, "hangul"), (0x3190, "han"), (0x31F0, "kana"),
    (0x3200, "han"), (0xA000, "other"), (0xA640, "cyrillic"), (0xA6A0, "other"), (0xA720, "latin"),
    (0xA800, "other"), (0xA8E0, "indic"), (0xA900, "other"), (0xA960, "hangul"), (0xA980, "other"),
    (0xAC00, "hangul"), (0xD7FC, "other"), (0xF900, "han"), (0xFB00, "latin"), (0xFB13, "other"),
    (0xFB1D, "hebrew"), (0xFB50, "arabic"), (0xFE00, "common"), (0xFE70, "arabic"), (0xFEFF, "common"),
    (0xFF21, "latin"), (0xFF3B, "common"), (0xFF41, "latin"), (0xFF5B, "common"), (0xFF66, "kana"),
    (0xFFA0, "hangul"), (0xFFE0, "common"), (0x10000, "other"), (0x1F000, "emoji"), (0x1FB00, "common"),
    (0x20000, "han"), (0x32000, "other"),
)  # fmt: skip
# Codes such that the largest of a token's characters is its script: `common` gives way to any letter.
CODES = ("common", *(name for name in SCRIPTS if name != "common"))
_STARTS = np.array([start for start, _name in _STRETCHES], np.uint32)
_CODE = np.array([CODES.index(name) for _start, name in _STRETCHES], np.uint8)


def _code_of(points: np.ndarray) -> np.ndarray:
    return _CODE[np.searchsorted(_STARTS, points, side="right") - 1]


_LOW = _code_of(np.arange(0x10000, dtype=np.uint32))  # by code point: a table is ten times as fast as a search
_ASCII = _LOW[:128].tobytes() + bytes(128)
_ASCII_BYTES = bytes(range(128))


def byte_scripts(text: str, utf8: bytes) -> np.ndarray:
    """Give the script code of the character that each byte belongs to.

    Shapes: uint8[len(utf8)].

    >>> [CODES[code] for code in byte_scripts("a é", "a é".encode())]
    ['latin', 'common', 'latin', 'latin']
    """
    codes = np.frombuffer(utf8.translate(_ASCII), np.uint8)
    if len(text) == len(utf8):
        return codes
    codes, data = codes.copy(), np.frombuffer(utf8, np.uint8)
    beyond = utf8.translate(None, _ASCII_BYTES)  # what is left is a text too
    points = np.frombuffer(beyond.decode().encode("utf-32-le"), "<u4")
    found = _LOW[np.minimum(points, len(_LOW) - 1)]
    high = np.flatnonzero(points >= len(_LOW))
    found[high] = _code_of(points[high])
    first = (np.frombuffer(beyond, np.uint8) & 0xC0) != 0x80
    codes[np.flatnonzero(data >= 0x80)] = found[np.cumsum(first) - 1]
    return codes


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Tokens of a text. Shapes: start, end int64[n]. Units: UTF-8 bytes, half-open."""

    text: str
    utf8: bytes
    start: np.ndarray
    end: np.ndarray


def scripts_of(rows: Sequence[Spans]) -> list[dict[str, int]]:
    """Count the tokens of each text by the script of their letters; inserted ones are left out.

    All texts are looked at as one: a call of numpy costs more than what it does for the bytes of a row.
    """
    if not rows:
        return []
    codes = byte_scripts("".join(row.text for row in rows), b"".join(row.utf8 for row in rows))
    sizes = np.array([len(row.utf8) for row in rows], np.int64)
    counts = [len(row.start) for row in rows]
    begins = np.repeat(np.cumsum(sizes) - sizes, counts)
    start = np.concatenate([row.start for row in rows]) + begins
    end = np.minimum(np.concatenate([row.end for row in rows]), np.repeat(sizes, counts)) + begins
    whole = start < end
    edges = np.stack((start[whole], end[whole]), axis=1).ravel()
    largest = np.maximum.reduceat(np.append(codes, np.uint8(0)), edges)[::2] if len(edges) else edges
    kinds = len(CODES)
    cells = np.repeat(np.arange(len(rows)) * kinds, counts)[whole] + largest
    tally = np.bincount(cells, minlength=len(rows) * kinds).reshape(len(rows), kinds)
    return [{CODES[code]: number for code, number in enumerate(row) if number} for row in tally.tolist()]
