"""Bytes of every id, and byte-exact spans of a token sequence, for any vocabulary.

Nothing here encodes text. Spans are computed by arithmetic on byte lengths; the library's character offsets are
needed only where a normalizer changed the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from operator import itemgetter

import numpy as np

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPIECE_SPACE = "▁"


@functools.cache
def byte_of_char() -> dict[str, int]:
    """Give the byte that each character of a byte-level vocabulary stands for (GPT-2's printable alphabet)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(rest)}


def byte_level(piece: str) -> bytes:
    """Give the bytes of a byte-level piece; a piece outside the alphabet stands for its own text."""
    table = byte_of_char()
    try:
        return bytes([table[char] for char in piece])
    except KeyError:
        return utf8(piece)


def sentence_piece(piece: str) -> bytes:
    """Give the bytes of a SentencePiece-like piece: `▁` is a space, `<0x0A>` one byte."""
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else utf8(piece.replace(_SPIECE_SPACE, " "))


def is_byte_piece(piece: str) -> bool:
    """Say whether a piece is spelled `<0xNN>`."""
    return _BYTE_PIECE.fullmatch(piece) is not None


def utf8(text: str) -> bytes:
    """Encode a piece; a lone surrogate in a hostile vocabulary becomes U+FFFD."""
    return text.encode("utf-8", "replace")


class ByteTable:
    """Bytes of every id of a vocabulary."""

    __slots__ = ("lengths", "pieces")

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.lengths = np.fromiter(map(len, pieces), np.int32, len(pieces))

    def join(self, ids: Sequence[int]) -> bytes:
        """Give the bytes of the ids, one after the other."""
        if len(ids) < 2:
            return b"".join(self.pieces[i] for i in ids)
        return b"".join(itemgetter(*ids)(self.pieces))

    def ends(self, ids: np.ndarray) -> np.ndarray:
        """Give each token's end if the tokens' bytes lie one after the other. Shapes: int64[n] -> int64[n]."""
        return np.cumsum(self.lengths[ids], dtype=np.int64)


def spans_from_ends(ends: np.ndarray, shift: int = 0, length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Turn ends into (start, end), moved left by `shift` bytes that are not in the text, clipped to it."""
    start = np.empty_like(ends)
    start[:1] = 0
    start[1:] = ends[:-1]
    if shift:
        start, ends = np.maximum(start - shift, 0), np.maximum(ends - shift, 0)
    return (start, ends) if length is None else (np.minimum(start, length), np.minimum(ends, length))


def char_starts(text: str) -> np.ndarray:
    """Give the byte offset of every character, and the text's length at the end. Shapes: int64[len(text) + 1]."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths, dtype=np.int64)])


def spans_from_chars(
    ids: np.ndarray, offsets: np.ndarray, text: str, data: bytes, table: ByteTable
) -> tuple[np.ndarray, np.ndarray]:
    """Turn character offsets (int64[n, 2]) into byte spans; pieces of one character get their exact bytes.

    A run of tokens that share characters is dealt the bytes that are its own there. Where a normalizer changed them
    there are no such bytes: they are then dealt out by the tokens' lengths, and the last token takes the rest.
    """
    starts_by_char = char_starts(text)
    offsets = np.clip(offsets, 0, len(text))
    start, end = starts_by_char[offsets[:, 0]], starts_by_char[offsets[:, 1]]
    shared = np.zeros(len(ids), bool)
    shared[:-1] = (start[1:] < end[:-1]) & (end[1:] > start[1:])
    partial = end - start > table.lengths[ids]  # a byte of its characters is not in the vocabulary and was dropped
    done = -1
    for index in np.flatnonzero(shared | partial).tolist():
        if index > done:
            done = _deal_out(index, ids, start, end, data, table)
    return start, end


def _deal_out(first: int, ids: np.ndarray, start: np.ndarray, end: np.ndarray, data: bytes, table: ByteTable) -> int:
    """Give the run of overlapping tokens that starts at `first` its bytes; return the run's last index."""
    last, limit = first, int(end[first])
    while last + 1 < len(ids) and start[last + 1] < limit and end[last + 1] > start[last + 1]:
        last += 1
        limit = max(limit, int(end[last]))
    run = [table.pieces[i] for i in ids[first : last + 1].tolist()]
    spans = _own_bytes(run, int(start[first]), limit, data) or _by_length(run, int(start[first]), limit)
    start[first : last + 1], end[first : last + 1] = zip(*spans)
    return last


def _own_bytes(run: list[bytes], position: int, limit: int, data: bytes) -> list[tuple[int, int]] | None:
    """Find the pieces one after the other in `data[position:limit]`; None if one is not there."""
    spans = []
    for piece in run:
        found = data.find(piece, position, limit)
        if found < 0:
            return None
        position = found + len(piece)
        spans.append((found, position))
    return spans


def _by_length(run: list[bytes], position: int, limit: int) -> list[tuple[int, int]]:
    spans = []
    for piece in run:
        spans.append((position, min(position + len(piece), limit)))
        position = spans[-1][1]
    spans[-1] = (spans[-1][0], limit)
    return spans
