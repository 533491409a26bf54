"""Family `tiktoken`: an encoding of the tiktoken package, built from verified rank files.

The pattern and the special tokens are taken from the installed package at run time; its own download never runs.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.sources.cache import read_verified
from inspector.tokenizers import bytetable
from inspector.tokenizers.base import AddedToken, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable
from inspector.tokenizers.config import invalid
from inspector.tokenizers.fast import guarded, utf8_or_raise


def load(artifact: TokenizerArtifact) -> TiktokenTokenizer:
    """Build the encoding that the preset names.

    Errors: TokenizerInvalid if the installed package expects other ranks; ArtifactMismatch.
    """
    name = artifact.settings["encoding"]
    parameters = guarded(lambda: _parameters(name, artifact), f"tiktoken cannot build {name}")
    return TiktokenTokenizer(artifact, parameters)


def _parameters(name: str, artifact: TokenizerArtifact) -> dict[str, Any]:
    """Call the package's constructor with its loader replaced by one that reads the verified file.

    A copy of the function gets the replaced global: the package stays as it is for everybody else.
    """
    from tiktoken_ext import openai_public

    constructor = openai_public.ENCODING_CONSTRUCTORS[name]
    own = {
        **constructor.__globals__,
        "load_tiktoken_bpe": lambda url, expected_hash=None: _ranks(artifact, expected_hash),
    }
    return types.FunctionType(constructor.__code__, own, name)()


def _ranks(artifact: TokenizerArtifact, expected_hash: str | None) -> dict[bytes, int]:
    import base64

    file = next(file for file in artifact.files if file.name.endswith(".tiktoken"))
    if file.sha256 != expected_hash:
        raise invalid(f"the installed tiktoken expects ranks {expected_hash}, the preset pins {file.sha256}")
    lines = (line.split() for line in read_verified(file).splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


class TiktokenTokenizer:
    """A byte-pair encoding over raw bytes; it has no chat template and inserts nothing."""

    control_needs_template = False
    reconstructed = False
    model_max_length = None

    def __init__(self, artifact: TokenizerArtifact, parameters: dict[str, Any]) -> None:
        import tiktoken

        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.chat_templates: dict[str, str] = {}
        ranks, special = parameters["mergeable_ranks"], parameters["special_tokens"]
        self._encoding = guarded(lambda: tiktoken.Encoding(**parameters), "tiktoken cannot build the encoding")
        self.size = self._encoding.n_vocab
        self.vocab_size = len(ranks)
        self.special_tokens = {"eos_token": "<|endoftext|>"}
        self.special_token_ids = {"eos_token": special["<|endoftext|>"]}
        self.added_tokens = tuple(AddedToken(i, text, special=True) for text, i in sorted(special.items(), key=_by_id))
        pieces = [b""] * self.size
        for piece, token_id in [*ranks.items(), *((text.encode(), i) for text, i in special.items())]:
            pieces[token_id] = piece
        self._bytes = ByteTable(pieces)

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode with every special token matched in the text (`allowed_special="all"`)."""
        utf8_or_raise(text)
        return self._spans(guarded(lambda: self._encoding.encode_to_numpy(text, allowed_special="all"), "tiktoken"))

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode with special tokens as plain text, as `encode_ordinary` does."""
        utf8_or_raise(text)
        return self._spans(guarded(lambda: self._encoding.encode_to_numpy(text, disallowed_special=()), "tiktoken"))

    def encode_ordinary(self, text: str) -> list[int]:
        """Encode with special tokens as plain text: tiktoken's `encode_ordinary`."""
        return self._encoding.encode_ordinary(text)

    def encode_allowing_all(self, text: str) -> list[int]:
        """Encode with every special token matched: tiktoken's `encode(allowed_special="all")`."""
        return self._encoding.encode(text, allowed_special="all")

    def encode_refusing(self, text: str) -> list[int]:
        """Encode as tiktoken's `encode` does by default.

        Errors: ValueError when the text spells a special token (`disallowed_special="all"`).
        """
        return self._encoding.encode(text)

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode a stretch; a first piece is not treated apart."""
        return self.encode(text)

    def _spans(self, ids: np.ndarray) -> RawEncoding:
        ids = ids.astype(np.int64)
        return RawEncoding(ids, *bytetable.spans_from_ends(self._bytes.ends(ids)))

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._bytes.pieces[token_id] if 0 <= token_id < self.size else b""

    def piece(self, token_id: int) -> str:
        """Spell the bytes of an id in the byte-level alphabet (the rank files have no spelling of their own)."""
        if any(token.id == token_id for token in self.added_tokens):
            return self.token_bytes(token_id).decode()
        return "".join(_CHAR_OF_BYTE[byte] for byte in self.token_bytes(token_id))

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say False: every byte is an ordinary token here."""
        return False

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids."""
        return self._bytes.join([i for i in ids if 0 <= i < self.size])


_CHAR_OF_BYTE = {byte: char for char, byte in bytetable.byte_of_char().items()}


def _by_id(entry: tuple[str, int]) -> int:
    return entry[1]
