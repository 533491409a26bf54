"""Tokenizer families behind one protocol (base.py). `FAMILIES` joins them; loading is cached by digest."""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Iterable

from inspector import limits, meter
from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import AddedToken, ArtifactFile, RawEncoding, Tokenizer, TokenizerArtifact

# family -> module whose `load(artifact)` builds it; imported when first used, as some need heavy libraries.
FAMILIES = {
    "fast": "inspector.tokenizers.fast",
    "gguf": "inspector.tokenizers.gguf",
    "tiktoken": "inspector.tokenizers.tiktoken_ranks",
    "mistral": "inspector.tokenizers.mistral",
    "sentencepiece": "inspector.tokenizers.sentencepieces",
    "trie": "inspector.tokenizers.trie",
    "fixture": "inspector.tokenizers.fixture",
    "bytes": "inspector.tokenizers.utf8_bytes",
}
_KEPT = 8


def family_of(names: Iterable[str]) -> str | None:
    """Tell the family of a tokenizer's files by their names, or None; the first that fits of those that one may have.

    A Mistral vocabulary is told by the version in its name (`tokenizer.model.v3`, `tekken.json`), as mistral-common
    tells it. Plain `.tiktoken` ranks need a pattern beside them, so they have no family by name.

    >>> family_of(["tokenizer.model", "tokenizer.json"]), family_of(["tokenizer.model.v3"]), family_of(["tekken.json"])
    ('fast', 'mistral', 'mistral')
    """
    found = list(names)
    for family, fits in _BY_NAME:
        if any(fits.fullmatch(name) for name in found):
            return family
    return None


_BY_NAME = (
    ("fast", re.compile(r"tokenizer\.json")),
    ("mistral", re.compile(r".*tekken.*\.json|.*\.model\.v\d+(m\d+)?")),
    ("sentencepiece", re.compile(r".*\.model")),
    ("trie", re.compile(r"rwkv_vocab.*\.txt")),
    ("gguf", re.compile(r".*\.gguf")),
)


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
    try:
        with meter.loading(key.artifact.id):
            _check_files(key.artifact)
            tokenizer: Tokenizer = module.load(key.artifact)
            _check_size(tokenizer)
            return tokenizer
    except InspectorError as error:
        raise _explained(error, key.artifact) from error


def _check_files(artifact: TokenizerArtifact) -> None:
    """Refuse files that are too large; of a GGUF only the metadata is read, which has bounds of its own."""
    for file in artifact.files if artifact.family != "gguf" else ():
        size = os.path.getsize(file.path)
        what, where = f"{file.name} has {size:,} bytes", {"file": file.name}
        limits.check(
            "tokenizer_bytes", size, what, ErrorKind.InputTooLarge, "source", "name a smaller tokenizer", where,
        )  # fmt: skip


def _check_size(tokenizer: Tokenizer) -> None:
    what = f"the vocabulary has {tokenizer.size:,} tokens"
    limits.check(
        "vocabulary", tokenizer.size, what, ErrorKind.InputTooLarge, "source", "name a smaller tokenizer",
    )  # fmt: skip


def _explained(error: InspectorError, artifact: TokenizerArtifact) -> InspectorError:
    """Say of which tokenizer it is the error, or what a file is that cannot be what its name says."""
    from inspector.sources import names  # which imports this module

    if error.kind in (ErrorKind.TokenizerInvalid, ErrorKind.GgufInvalid):
        for file in artifact.files:
            with open(file.path, "rb") as stream:
                head = stream.read(512)
            if names.looks_like_lfs_pointer(head):
                return names.pointer_instead(file.name, ref=artifact.ref)
            if names.looks_like_html(head):
                return names.html_instead(file.name, ref=artifact.ref)
    error.where = {"ref": artifact.ref, **error.where}
    return error


__all__ = [
    "FAMILIES",
    "AddedToken",
    "ArtifactFile",
    "RawEncoding",
    "Tokenizer",
    "TokenizerArtifact",
    "family_of",
    "load_tokenizer",
]
