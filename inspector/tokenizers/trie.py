"""Family `trie`: a fixed list of byte strings, matched greedily, the longest first (RWKV World).

No merges, no pattern, no special tokens: nothing in the file has control meaning. The file's lines are read as
literals; nothing of it is evaluated.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from inspector.sources.cache import read_verified
from inspector.tokenizers import bytetable
from inspector.tokenizers.base import AddedToken, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable
from inspector.tokenizers.config import decode_text, invalid
from inspector.tokenizers.fast import utf8_or_raise

_MAX_LINE = 4096
_MAX_ID = 1 << 24


def load(artifact: TokenizerArtifact) -> TrieTokenizer:
    """Build the tokenizer of a vocabulary file.

    Errors: TokenizerInvalid with the line; ArtifactMismatch.
    """
    file = next((file for file in artifact.files if file.name.endswith(".txt")), None)
    if file is None:
        raise invalid("the artifact has no vocabulary file (.txt)", {"ref": artifact.ref})
    return TrieTokenizer(artifact, read_vocabulary(decode_text(read_verified(file), file.name), file.name))


def read_vocabulary(text: str, name: str = "vocabulary") -> dict[bytes, int]:
    """Read lines `ID LITERAL LENGTH`, the literal a quoted text or bytes, the length in bytes.

    Errors: TokenizerInvalid with the line; also if a byte has no entry of its own, for then some text has no tokens.
    """
    ids: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines() if "\r" in text else text.split("\n"), 1):
        if line:
            token_id, piece = _entry(line, number, name)
            ids[piece] = token_id
    lacking = [byte for byte in range(256) if bytes([byte]) not in ids]
    if lacking:
        raise invalid(f"the byte 0x{lacking[0]:02x} has no entry of its own", {"file": name})
    if len(set(ids.values())) != len(ids):
        raise invalid("two entries have the same id", {"file": name})
    return ids


def _entry(line: str, number: int, name: str) -> tuple[int, bytes]:
    where = {"file": name, "line": number}
    head, _, rest = line.partition(" ")
    literal, _, size = rest.rpartition(" ")
    if len(line) > _MAX_LINE or not head.isdecimal() or not size.isdecimal() or int(head) >= _MAX_ID:
        raise invalid(f"line {number} is not ID LITERAL LENGTH", where)
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise invalid(f"line {number} holds no quoted text", where) from error
    piece = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(piece, bytes) or len(piece) != int(size) or not piece:
        raise invalid(f"line {number}: the literal does not have {size} bytes", where)
    return int(head), piece


class TrieTokenizer:
    """Greedy longest match over the bytes of the text."""

    control_needs_template = False
    reconstructed = False
    byte_pieces = True

    def __init__(self, artifact: TokenizerArtifact, ids: dict[bytes, int]) -> None:
        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.chat_templates: dict[str, str] = {}
        self.model_max_length = artifact.context_window
        self.special_tokens: dict[str, str] = {}
        self.special_token_ids: dict[str, int] = {}
        self.added_tokens: tuple[AddedToken, ...] = ()
        self.vocab_size = len(ids)
        self.size = max(ids.values()) + 1
        self._ids = ids
        self._lengths = _lengths_by_head(ids)
        pieces = [b""] * self.size
        for piece, token_id in ids.items():
            pieces[token_id] = piece
        self._bytes = ByteTable(pieces)

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode; there is nothing to insert and nothing that controls."""
        ids = np.array(self.match(utf8_or_raise(text)), np.int64)
        return RawEncoding(ids, *bytetable.spans_from_ends(self._bytes.ends(ids)))

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode as `encode` does."""
        return self.encode(text)

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode as `encode` does. A stretch must not be cut where an entry could span the cut."""
        return self.encode(text)

    def match(self, data: bytes) -> list[int]:
        """Give the ids of the longest entries, one after the other."""
        ids, at = [], 0
        while at < len(data):
            for length in self._lengths.get(data[at : at + 2], (1,)):
                token_id = self._ids.get(data[at : at + length])
                if token_id is not None:
                    break
            else:
                length, token_id = 1, self._ids[data[at : at + 1]]
            ids.append(token_id)
            at += length
        return ids

    def candidates(self, data: bytes) -> list[tuple[bytes, int]]:
        """Give every entry that `data` begins with, the longest first."""
        lengths = (*self._lengths.get(data[:2], ()), 1)
        return [(data[:n], self._ids[data[:n]]) for n in lengths if n <= len(data) and data[:n] in self._ids]

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._bytes.pieces[token_id] if 0 <= token_id < self.size else b""

    def piece(self, token_id: int) -> str:
        """Spell an id as text, or as `b'\\xe4'` where its bytes are no whole characters."""
        data = self.token_bytes(token_id)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return repr(data)

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say False: every byte is an ordinary entry."""
        return False

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids."""
        return self._bytes.join([i for i in ids if 0 <= i < self.size])


def _lengths_by_head(ids: dict[bytes, int]) -> dict[bytes, tuple[int, ...]]:
    """Group the lengths of entries of two bytes and more by their first two bytes, the longest first."""
    lengths: dict[bytes, set[int]] = defaultdict(set)
    for piece in ids:
        if len(piece) > 1:
            lengths[piece[:2]].add(len(piece))
    return {head: tuple(sorted(found, reverse=True)) for head, found in lengths.items()}
