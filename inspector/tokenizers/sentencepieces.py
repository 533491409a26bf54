"""Family `sentencepiece`: a `.model` file, run by the sentencepiece library from verified bytes.

As in that library, control pieces are never matched in text, and nothing is inserted. What a chat format puts around
a text is not in the file (mistral.py knows one such format).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.errors import ErrorKind, InspectorError
from inspector.sources.cache import read_verified
from inspector.tokenizers import bytetable
from inspector.tokenizers.base import AddedToken, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable
from inspector.tokenizers.config import chat_templates_of, invalid
from inspector.tokenizers.fast import guarded, utf8_or_raise
from inspector.tokenizers.sp_model import PieceType, SentencePieceModel, read_model

_NAMED = {"bos_token": "bos_id", "eos_token": "eos_id", "unk_token": "unk_id", "pad_token": "pad_id"}


def load(artifact: TokenizerArtifact) -> SentencePieceTokenizer:
    """Build the tokenizer of a SentencePiece model.

    Errors: TokenizerInvalid, ArtifactMismatch, ArtifactUnavailable where the library is not installed.
    """
    file = next((file for file in artifact.files if ".model" in file.name), None)
    if file is None:
        raise invalid("the artifact has no SentencePiece model", {"ref": artifact.ref})
    return SentencePieceTokenizer(artifact, read_verified(file))


def library() -> Any:
    """Import the sentencepiece library.

    Errors: ArtifactUnavailable.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise InspectorError(
            ErrorKind.ArtifactUnavailable,
            "the library sentencepiece is not installed",
            stage="source",
            remedy="pip install sentencepiece",
        ) from error
    return sentencepiece


class SentencePieceTokenizer:
    """A SentencePiece model. Read-only after construction."""

    control_needs_template = False
    reconstructed = False
    byte_pieces = False

    def __init__(self, artifact: TokenizerArtifact, data: bytes) -> None:
        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.model_max_length = artifact.context_window
        self.chat_templates = chat_templates_of(
            {f.name: read_verified(f) for f in artifact.files if f.name.endswith((".jinja", "_config.json"))}
        )
        self.model: SentencePieceModel = read_model(data)
        self.processor = guarded(lambda: library().SentencePieceProcessor(model_proto=data), "sentencepiece")
        pieces = self.model.pieces
        self.size = self.vocab_size = len(pieces)
        ids = {name: getattr(self.processor, method)() for name, method in _NAMED.items()}
        self.special_token_ids = {name: i for name, i in ids.items() if i >= 0}
        self.special_tokens = {name: pieces[i].piece for name, i in self.special_token_ids.items()}
        self.added_tokens = tuple(
            AddedToken(i, entry.piece, special=entry.type is PieceType.CONTROL)
            for i, entry in enumerate(pieces)
            if entry.type in (PieceType.CONTROL, PieceType.USER_DEFINED)
        )
        self._bytes = ByteTable([_piece_bytes(entry.piece, entry.type) for entry in pieces])

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode as the library does: control pieces are no text."""
        data = utf8_or_raise(text)
        ids = np.array(guarded(lambda: self.processor.encode(text), "sentencepiece"), np.int64)
        joined = self._bytes.join(ids.tolist())
        shift = len(joined) - len(data)
        if joined == data or (shift == 1 and joined[:1] == b" " and joined[1:] == data):
            return RawEncoding(ids, *bytetable.spans_from_ends(self._bytes.ends(ids), shift))
        return RawEncoding(ids, *self._spans_from_library(text, data, ids))

    def _spans_from_library(self, text: str, data: bytes, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Place the tokens of a text that the normalizer changed, by the library's character offsets.

        The library gives the bytes of one character to their last piece: the others get the same span first.
        """
        mapping = guarded(lambda: self.processor.encode_as_offset_mapping(text), "sentencepiece")
        offsets = np.array(mapping["offsets"], np.int64).reshape(-1, 2)
        for index in range(len(offsets) - 2, -1, -1):
            if self.is_byte_fallback(int(ids[index])) and offsets[index, 0] == offsets[index, 1]:
                offsets[index] = offsets[index + 1]
        return bytetable.spans_from_chars(ids, offsets, text, data, self._bytes)

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode as `encode` does: nothing in a text is a control piece."""
        return self.encode(text)

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode as `encode` does."""
        return self.encode(text)

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._bytes.pieces[token_id] if 0 <= token_id < self.size else b""

    def piece(self, token_id: int) -> str:
        """Give the vocabulary's spelling of an id."""
        return self.model.pieces[token_id].piece if 0 <= token_id < self.size else ""

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say whether the id is a `<0xNN>` piece."""
        return 0 <= token_id < self.size and self.model.pieces[token_id].type is PieceType.BYTE

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids; the library also takes the space off the front, if it put one there."""
        return self._bytes.join([i for i in ids if 0 <= i < self.size])


def _piece_bytes(piece: str, kind: PieceType) -> bytes:
    if kind in (PieceType.CONTROL, PieceType.UNKNOWN):
        return bytetable.utf8(piece)
    return bytetable.sentence_piece(piece)
