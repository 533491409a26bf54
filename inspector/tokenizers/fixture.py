"""Family `fixture`: the hand-checkable vocabulary of fourteen entries, longest match, no normalisation.

One `<unk>` stands for each code point that no entry matches. It does not imitate any real tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inspector.tokenizers.base import RawEncoding, TokenizerArtifact
from inspector.tokenizers.fast import utf8_or_raise
from inspector.tokenizers.teaching import TeachingTokenizer, written_by_content

VOCABULARY = (
    "<pad>",
    "<bos>",
    "<system>",
    "</system>",
    "<user>",
    "</user>",
    "<assistant>",
    "简洁回答",
    "天空",
    "为什么",
    "是",
    "蓝色",
    "？",
    "<unk>",
)
CONTROL = (0, 1, 2, 3, 4, 5, 6, 13)
_UNK = 13


def load(artifact: TokenizerArtifact) -> FixtureTokenizer:
    """Build the fixture tokenizer with its template."""
    return FixtureTokenizer(artifact)


class FixtureTokenizer(TeachingTokenizer):
    """Longest match over `VOCABULARY`."""

    def __init__(self, artifact: TokenizerArtifact) -> None:
        pieces = [entry.encode("utf-8") for entry in VOCABULARY]
        named = {"bos_token": "<bos>", "unk_token": "<unk>", "pad_token": "<pad>"}
        super().__init__(artifact, pieces, VOCABULARY, CONTROL, named)
        self._longest_first = sorted(enumerate(VOCABULARY), key=lambda entry: -len(entry[1]))

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode by longest match; see TeachingTokenizer.encode."""
        data = utf8_or_raise(text)
        before = written_by_content(len(data), content)
        ids: list[int] = []
        ends: list[int] = []
        at = byte = 0
        while at < len(text):
            token_id, chars = self._match(text, at, byte, before)
            byte += len(text[at : at + chars].encode("utf-8"))
            at += chars
            ids.append(token_id)
            ends.append(byte)
        return RawEncoding(
            np.array(ids, np.int64), np.array([0, *ends][: len(ends)], np.int64), np.array(ends, np.int64)
        )

    def _match(self, text: str, at: int, byte: int, before: np.ndarray) -> tuple[int, int]:
        """Give id and length in characters of the longest entry at a place; (<unk>, 1) if there is none."""
        for token_id, entry in self._longest_first:
            if not text.startswith(entry, at):
                continue
            if token_id in CONTROL and before[byte + len(self._pieces[token_id])] != before[byte]:
                continue  # content wrote a part of it: no control
            return token_id, len(entry)
        return _UNK, 1
