"""Family `bytes`: one token a UTF-8 byte, ids 256-259 for control tokens, and the prefix key of its document.

It is no production tokenizer: it has no merges, no normalizer and no added-token rules.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

import numpy as np

from inspector.tokenizers.base import RawEncoding, TokenizerArtifact
from inspector.tokenizers.fast import utf8_or_raise
from inspector.tokenizers.teaching import TeachingTokenizer, written_by_content

CONTROL = {256: "<bos>", 257: "<user>", 258: "<assistant>", 259: "<eos>"}
_LITERALS = {text.encode(): token_id for token_id, text in CONTROL.items()}
_LITERAL = re.compile(b"|".join(map(re.escape, _LITERALS)))


def prefix_key(token_ids: Iterable[int], model_revision: str, adapter: str = "none") -> str:
    """Give the key under which a prefix of these ids may share cached state: 16 hex digits.

    >>> prefix_key([256, 257], "model-v1") == prefix_key([256, 257], "model-v2")
    False
    """
    payload = b"\0".join((model_revision.encode("utf-8"), adapter.encode("utf-8"), b""))
    payload += b"".join(int(token).to_bytes(4, "little") for token in token_ids)
    return hashlib.sha256(payload).hexdigest()[:16]


def load(artifact: TokenizerArtifact) -> BytesTokenizer:
    """Build the byte tokenizer with its template."""
    return BytesTokenizer(artifact)


class BytesTokenizer(TeachingTokenizer):
    """Bytes and four control tokens."""

    def __init__(self, artifact: TokenizerArtifact) -> None:
        pieces = [bytes([byte]) for byte in range(256)] + [text.encode() for text in CONTROL.values()]
        spellings = [f"<0x{byte:02X}>" for byte in range(256)] + list(CONTROL.values())
        super().__init__(artifact, pieces, spellings, tuple(CONTROL), {"bos_token": "<bos>", "eos_token": "<eos>"})

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode byte by byte; see TeachingTokenizer.encode."""
        data = utf8_or_raise(text)
        before = written_by_content(len(data), content)
        ids: list[np.ndarray] = []
        starts: list[np.ndarray] = []
        at = 0
        for match in _LITERAL.finditer(data):
            if before[match.end()] != before[match.start()]:
                continue  # content wrote a part of it: no control
            ids += [_byte_ids(data[at : match.start()]), np.array([_LITERALS[match[0]]], np.int64)]
            starts += [np.arange(at, match.start()), np.array([match.start()])]
            at = match.end()
        ids.append(_byte_ids(data[at:]))
        starts.append(np.arange(at, len(data)))
        start = np.concatenate(starts).astype(np.int64)
        return RawEncoding(np.concatenate(ids), start, np.append(start[1:], len(data))[: len(start)].astype(np.int64))


def _byte_ids(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).astype(np.int64)
