"""What the two teaching tokenizers share: a fixed vocabulary whose control tokens only the template can write.

Neither normalises text, inserts a token or needs a file of a vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inspector.sources.cache import read_verified
from inspector.tokenizers.base import AddedToken, RawEncoding, TokenizerArtifact
from inspector.tokenizers.config import chat_templates_of


class TeachingTokenizer:
    """A tokenizer given by a list of pieces; `control` are the ids that only template-written bytes become."""

    control_needs_template = True
    reconstructed = False

    def __init__(
        self,
        artifact: TokenizerArtifact,
        pieces: Sequence[bytes],
        spellings: Sequence[str],
        control: Sequence[int],
        special_tokens: dict[str, str],
    ) -> None:
        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.chat_templates = chat_templates_of({file.name: read_verified(file) for file in artifact.files})
        self.model_max_length: int | None = artifact.context_window
        self._pieces, self._spellings = tuple(pieces), tuple(spellings)
        self._control = tuple(control)
        self.size = len(pieces)
        self.vocab_size = len(pieces) - len(control)
        self.special_tokens = special_tokens
        self.special_token_ids = {name: spellings.index(text) for name, text in special_tokens.items()}
        self.added_tokens = tuple(AddedToken(i, spellings[i], special=True) for i in control)

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode; a control token's text becomes its id only where no byte of it lies in `content`.

        `add_special_tokens` inserts nothing: the template writes every control token.
        """
        raise NotImplementedError

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode as content: no control token can come out."""
        return self.encode(text, content=((0, len(text.encode("utf-8"))),))

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode as template text."""
        return self.encode(text)

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._pieces[token_id] if 0 <= token_id < self.size else b""

    def piece(self, token_id: int) -> str:
        """Give the vocabulary's spelling of an id."""
        return self._spellings[token_id] if 0 <= token_id < self.size else ""

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say False: neither vocabulary has byte fallback."""
        return False

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids."""
        return b"".join(self.token_bytes(i) for i in ids)


def written_by_content(length: int, content: Sequence[tuple[int, int]]) -> np.ndarray:
    """Count, for every byte offset, how many bytes before it content wrote. Shapes: int64[length + 1]."""
    mine = np.zeros(length + 1, np.int64)
    for start, end in content:
        mine[start + 1 : end + 1] = 1
    return np.cumsum(mine)
