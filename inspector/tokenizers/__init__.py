"""Tokenizer families behind one protocol (base.py). `FAMILIES` joins them; loading is cached by digest."""

from __future__ import annotations

import functools
import importlib

from inspector.tokenizers.base import AddedToken, ArtifactFile, RawEncoding, Tokenizer, TokenizerArtifact

# family -> module whose `load(artifact)` builds it; imported when first used, as some need heavy libraries.
FAMILIES = {
    "fast": "inspector.tokenizers.fast",
    "gguf": "inspector.tokenizers.gguf",
    "tiktoken": "inspector.tokenizers.tiktoken_ranks",
    "fixture": "inspector.tokenizers.fixture",
    "bytes": "inspector.tokenizers.utf8_bytes",
}
_KEPT = 8


def load_tokenizer(artifact: TokenizerArtifact) -> Tokenizer:
    """Build the tokenizer of an artifact, or return the one built before from the same digest.

    Errors: TokenizerInvalid, TokenizerRegexLimit, ArtifactMismatch, GgufInvalid, UnsupportedTokenizerClass.
    """
    return _load(_Key(artifact))


class _Key:
    """An artifact as a cache key: what it is, not where it lies."""

    __slots__ = ("artifact",)

    def __init__(self, artifact: TokenizerArtifact) -> None:
        self.artifact = artifact

    def _identity(self) -> tuple[str, str, str, str]:
        return self.artifact.family, self.artifact.digest, self.artifact.ref, self.artifact.id

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._identity() == other._identity()


@functools.lru_cache(maxsize=_KEPT)
def _load(key: _Key) -> Tokenizer:
    module = importlib.import_module(FAMILIES[key.artifact.family])
    return module.load(key.artifact)


__all__ = ["FAMILIES", "AddedToken", "ArtifactFile", "RawEncoding", "Tokenizer", "TokenizerArtifact", "load_tokenizer"]
