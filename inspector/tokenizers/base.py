"""The protocol that every tokenizer family implements, and the record that says which files it is made of.

A family module neither fetches files (sources/ does) nor renders templates. It turns text into ids and tells, for
every id, its piece, its bytes and its standing (special, added).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file of an artifact in the local cache: its name, where it lies, and the SHA-256 it must have."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class TokenizerArtifact:
    """Everything needed to build a tokenizer, without the network. Picklable and JSON-able.

    `family` is a key of tokenizers.FAMILIES ("fast", "tiktoken", "fixture", "bytes", ...); `settings` are the
    family's own plain values from the preset (pattern and special tokens of a tiktoken encoding, the template a
    preset carries, the context window, ...); `digest` identifies the tokenizer: SHA-256 over the sorted lines
    "name sha256" of `files` and the canonical JSON of `settings`.
    """

    ref: str
    id: str
    family: str
    digest: str
    files: tuple[ArtifactFile, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    context_window: int | None = None
    reconstructed: bool = False


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token matched as a whole before the model sees the text; `special` marks control meaning."""

    id: int
    content: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    single_word: bool = False

    @property
    def blank(self) -> bool:
        """True for runs of white space that a vocabulary adds only for length (Gemma's `\\n\\n`): ordinary text."""
        return not self.special and not self.content.strip(" \t\r\n▁")


@dataclass(frozen=True, slots=True, eq=False)
class RawEncoding:
    """Ids of a text with the place of each.

    Shapes: all arrays int64[n]. Units: `start`/`end` are UTF-8 byte offsets into the given text, half-open; a token
    that stands for no byte of it (inserted by the tokenizer) has start == end. A token that holds part of a
    character has exactly its own bytes, not the character's.
    """

    input_ids: np.ndarray
    start: np.ndarray
    end: np.ndarray


class Tokenizer(Protocol):
    """What every family gives. All byte values are UTF-8; ids are ints in range(size). Hashed by identity."""

    ref: str
    id: str
    digest: str
    files: dict[str, str]  # name -> sha256
    vocab_size: int  # without added tokens, as transformers' `vocab_size`
    size: int  # with them, as `len(tokenizer)`
    model_max_length: int | None  # None where the config holds a sentinel or nothing
    special_tokens: dict[str, str]  # transformers' special_tokens_map: bos_token, eos_token, ...
    special_token_ids: dict[str, int]  # the same names -> ids
    added_tokens: tuple[AddedToken, ...]
    chat_templates: dict[str, str]  # name -> Jinja text ("default", "tool_use", ...); empty if none
    reconstructed: bool
    # True: ids of control tokens come only from bytes that the template wrote (teaching tokenizers)
    control_needs_template: bool

    def __hash__(self) -> int: ...

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode like the reference library does. `content`: byte ranges written by content; only tokenizers with
        `control_needs_template` look at it."""
        ...

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode a stretch with added-token matching off, blank ones apart; `first` says whether it starts the whole text
        (a first-piece prefix is then applied as for a whole text)."""
        ...

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode a stretch with added-token matching on, as it would come out inside a whole text."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Bytes the id stands for: a special token's literal, `Ġa` -> b" a", `<0x0A>` -> b"\\n"; b"" if none."""
        ...

    def piece(self, token_id: int) -> str:
        """The vocabulary's own spelling of the id (`Ġtide`, `▁tide`, `<|im_end|>`)."""
        ...

    def is_byte_fallback(self, token_id: int) -> bool:
        """True for `<0xNN>` pieces of a vocabulary with byte fallback."""
        ...

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes that the ids stand for, one after the other. A decoder may show more: WordPiece's puts blanks between
        words that the ids do not hold, which decode.py steps through."""
        ...
