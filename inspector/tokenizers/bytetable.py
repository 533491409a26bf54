"""Bytes of every id, and byte-exact spans of a token sequence, for any vocabulary.

Nothing here encodes text. Spans are computed by arithmetic on byte lengths; the library's character offsets are
needed only where a normalizer changed the text.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from operator import itemgetter
from typing import Literal

import numpy as np

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
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
    """Bytes of every id of a vocabulary: a list, or a dictionary where the ids lie far apart."""

    __slots__ = ("lengths", "pieces")

    def __init__(self, pieces: list[bytes] | dict[int, bytes]) -> None:
        self.pieces = pieces
        self.lengths: np.ndarray | _SparseLengths = (
            _SparseLengths(pieces) if isinstance(pieces, dict) else np.fromiter(map(len, pieces), np.int32, len(pieces))
        )

    def get(self, token_id: int) -> bytes:
        """Give the bytes of an id; nothing for one that the vocabulary does not have."""
        if isinstance(self.pieces, dict):
            return self.pieces.get(token_id, b"")
        return self.pieces[token_id] if 0 <= token_id < len(self.pieces) else b""

    def join(self, ids: Sequence[int]) -> bytes:
        """Give the bytes of the ids, one after the other."""
        if len(ids) < 2:
            return b"".join(self.pieces[i] for i in ids)
        return b"".join(itemgetter(*ids)(self.pieces))

    def ends(self, ids: np.ndarray) -> np.ndarray:
        """Give each token's end if the tokens' bytes lie one after the other. Shapes: int64[n] -> int64[n]."""
        return np.cumsum(self.lengths[ids], dtype=np.int64)


class _SparseLengths:
    """Lengths by id, taken like an array's, without room for the ids that are not there. Shapes: int64[n] -> int32[n]."""

    __slots__ = ("ids", "values")

    def __init__(self, pieces: dict[int, bytes]) -> None:
        self.ids = np.array(sorted(pieces), np.int64)
        self.values = np.array([len(pieces[i]) for i in self.ids.tolist()], np.int32)

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        return self.values[np.searchsorted(self.ids, ids)]


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


def composed(offsets: np.ndarray, text: str, form: Form) -> np.ndarray:
    """Extend character offsets over what a normalizer composed into the character before: `e` and U+0301 are both `é`.

    The library's offsets name only the first of the characters that became one. `form` is the normalizer's Unicode
    form. Shapes: int64[n, 2] -> int64[n, 2].
    """
    offsets = offsets.copy()
    reach = np.maximum.accumulate(offsets[:, 1])
    following = np.append(offsets[1:, 0], len(text))
    for row in np.flatnonzero(following > reach).tolist():
        before, gap_end = int(reach[row]), int(following[row])
        joined = text[before - 1 : gap_end] if before else ""
        if not joined or len(unicodedata.normalize(form, joined)) >= len(joined):
            continue
        while row >= 0 and offsets[row, 1] == before:
            offsets[row, 1] = gap_end
            row -= 1
    return offsets


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
    follows = np.zeros(len(ids), bool)
    follows[1:] = (start[1:] < end[:-1]) & (end[1:] > start[1:])
    first = np.flatnonzero(~follows)
    if len(first):
        odd = _place_runs(follows, first, ids, start, end, data, table)
        bounds = np.append(first, len(ids))
        for run in odd.tolist():
            _deal_out(slice(int(bounds[run]), int(bounds[run + 1])), ids, start, end, data, table)
    return start, end


def _place_runs(
    follows: np.ndarray,
    first: np.ndarray,
    ids: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    data: bytes,
    table: ByteTable,
) -> np.ndarray:
    """Place every run whose bytes are the text's bytes there; return the numbers of the runs that are not so.

    A run is a token and those after it that share its characters: `follows` bool[n] says which do, `first` int64[r]
    where each run begins.
    """
    lengths = table.lengths[ids].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    run = np.cumsum(~follows) - 1
    room = np.maximum.reduceat(end, first) - start[first]
    total = np.add.reduceat(lengths, first)
    several = np.bincount(run, minlength=len(first)) > 1
    shift = (start[first] - begins[first])[run]
    moved = (several & (total == room))[run]
    wrong = _differing_tokens(np.flatnonzero(moved), lengths, begins, shift, table.join(ids.tolist()), data)
    unequal = np.zeros(len(first), bool)
    unequal[run[wrong]] = True
    moved &= ~unequal[run]
    start[moved], end[moved] = (begins + shift)[moved], (begins + lengths + shift)[moved]
    return np.flatnonzero(unequal | (several & (total != room)) | (room > total))


def _differing_tokens(
    tokens: np.ndarray, lengths: np.ndarray, begins: np.ndarray, shift: np.ndarray, joined: bytes, data: bytes
) -> np.ndarray:
    """Give those of the tokens whose bytes differ from the text's at `begins + shift`, byte by byte at once."""
    owner = np.repeat(tokens, lengths[tokens])
    skipped = np.cumsum(lengths[tokens]) - lengths[tokens]
    place = np.arange(len(owner)) - np.repeat(skipped, lengths[tokens]) + begins[owner]
    own = np.frombuffer(joined, np.uint8)[place]
    return np.unique(owner[own != np.frombuffer(data, np.uint8)[place + shift[owner]]])


def _deal_out(run: slice, ids: np.ndarray, start: np.ndarray, end: np.ndarray, data: bytes, table: ByteTable) -> None:
    """Give the tokens of one run their bytes where a normalizer or a missing piece made them differ."""
    pieces = [table.pieces[i] for i in ids[run].tolist()]
    position, limit = int(start[run.start]), int(end[run].max())
    prefix = _prefix(pieces, data[position:limit])
    rest = pieces[prefix:]
    own = _own_bytes(rest, position, limit, data) or _by_length(rest, position, limit)
    start[run], end[run] = zip(*[(position, position)] * prefix, *own)


def _prefix(run: list[bytes], own: bytes) -> int:
    """Say whether the run begins with a token that the tokenizer put there: a blank alone, before what is all the text
    there (`▁` and `t` for "t", by a Metaspace with "always")."""
    return int(len(run) > 1 and run[0] == b" " and b"".join(run[1:]) == own)


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
    """Deal the bytes out by the pieces' lengths, at least one to each: every token stands for something there.

    Where there are more tokens than bytes, those at the end share the last byte.
    """
    spans = []
    for index, piece in enumerate(run):
        later = len(run) - index - 1
        start = min(position, limit - 1)
        end = max(start + 1, min(start + len(piece), limit - later)) if later else limit
        spans.append((start, end))
        position = end
    return spans
