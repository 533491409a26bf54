"""Read a SentencePiece model file (a protocol buffer): pieces with scores and types, and how text is prepared.

Only the few fields that this tool shows are read; the library that encodes reads the file itself.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from inspector.errors import InspectorError
from inspector.tokenizers.config import invalid

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class PieceType(enum.IntEnum):
    """What a piece is, as the format numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never matched in text
    USER_DEFINED = 4  # matched whole wherever it occurs
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class SentencePiece:
    """One piece of the vocabulary; its place in the list is its id."""

    piece: str
    score: float
    type: PieceType


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """A SentencePiece model as far as this tool shows it. `kind`: "unigram", "bpe", "word" or "char"."""

    pieces: tuple[SentencePiece, ...]
    kind: str
    normalizer: str
    has_character_map: bool
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool


_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def read_model(data: bytes) -> SentencePieceModel:
    """Read the fields of a ModelProto.

    Errors: TokenizerInvalid with the byte.
    """
    pieces: list[SentencePiece] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                pieces.append(_piece(dict(_fields(value))))
            elif number == 2 and isinstance(value, bytes):
                trainer = dict(_fields(value))
            elif number == 3 and isinstance(value, bytes):
                normalizer = dict(_fields(value))
        kind = _KINDS[int(trainer.get(3, 1))]
    except InspectorError:
        raise
    except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise invalid(f"this is no SentencePiece model: {error}") from error
    if not pieces:
        raise invalid("this is no SentencePiece model: it has no pieces")
    name = normalizer.get(1, b"")
    return SentencePieceModel(
        tuple(pieces),
        kind,
        name.decode() if isinstance(name, bytes) else "",
        bool(normalizer.get(2)),
        bool(normalizer.get(3, 1)),
        bool(normalizer.get(4, 1)),
        bool(normalizer.get(5, 1)),
    )


def _piece(fields: dict[int, int | bytes]) -> SentencePiece:
    text, score = fields.get(1, b""), fields.get(2, b"\0\0\0\0")
    if not isinstance(text, bytes) or not isinstance(score, bytes):
        raise ValueError("a piece has no text")
    kind = PieceType(int(fields.get(3, 1)))
    return SentencePiece(text.decode("utf-8"), struct.unpack("<f", score)[0], kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Walk the fields of one message: number and value (varints as int, everything else as bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise invalid("this is no SentencePiece model", {"byte": at})
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise invalid("this is no SentencePiece model", {"byte": at})
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
