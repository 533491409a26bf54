"""Family `tiktoken`: byte-pair ranks with a pattern and special tokens, run by the tiktoken library.

The ranks are a verified file. Pattern and special tokens come from the installed package (`settings.encoding`) or are
a person's own (`settings.pattern` and `settings.special_tokens`). The package's own download never runs.
"""

from __future__ import annotations

import base64
import binascii
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from inspector.sources.cache import read_verified
from inspector.tokenizers import bytetable
from inspector.tokenizers.base import AddedToken, ArtifactFile, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable
from inspector.tokenizers.config import chat_templates_of, invalid
from inspector.tokenizers.fast import guarded, utf8_or_raise
from inspector.tokenizers.normalization import Form, form_of, normalize

_MAX_ID = 1 << 24  # a hostile file could otherwise ask for a table of any size


def load(artifact: TokenizerArtifact) -> TiktokenTokenizer:
    """Build the encoding that the artifact's settings describe.

    Errors: TokenizerInvalid if the installed package expects other ranks, or the settings do not fit; ArtifactMismatch.
    """
    settings = artifact.settings
    name = settings.get("encoding")
    parameters = (
        guarded(lambda: _parameters(name, artifact), f"tiktoken cannot build {name}") if name else own(artifact)
    )
    return TiktokenTokenizer(artifact, parameters)


def _parameters(name: str, artifact: TokenizerArtifact) -> dict[str, Any]:
    """Call the package's constructor with its loader replaced by one that reads the verified file.

    A copy of the function gets the replaced global: the package stays as it is for everybody else. A constructor that
    calls another of the package (o200k_harmony calls o200k_base) gets a copy of that too.
    """
    from tiktoken_ext import openai_public

    constructors = openai_public.ENCODING_CONSTRUCTORS
    if name not in constructors:
        raise invalid(
            f"the installed tiktoken has no encoding {name!r}", {"encoding": name}, f"one of {', '.join(constructors)}"
        )
    own_globals = {
        **constructors[name].__globals__,
        "load_tiktoken_bpe": lambda url, expected_hash=None: _checked_ranks(artifact, expected_hash),
    }
    for other, constructor in constructors.items():
        own_globals[constructor.__name__] = types.FunctionType(constructor.__code__, own_globals, other)
    return own_globals[constructors[name].__name__]()


def own(artifact: TokenizerArtifact) -> dict[str, Any]:
    """Give the parameters of an encoding whose pattern and special tokens stand in the settings.

    Errors: TokenizerInvalid naming the setting.
    """
    settings = artifact.settings
    special = {str(text): _id(token_id, text) for text, token_id in (settings.get("special_tokens") or {}).items()}
    for group in settings.get("numbered_special_tokens") or ():
        special |= {group["spelling"].format(i): group["first"] + i for i in range(group["count"])}
    if not isinstance(settings.get("pattern"), str):
        raise invalid("an encoding of its own needs a pattern", {"setting": "pattern"}, "give settings.pattern")
    ranks = read_ranks(_rank_file(artifact))
    taken = set(ranks.values()) & set(special.values())
    if taken or len(set(special.values())) != len(special):
        raise invalid(
            f"two tokens have the id {min(taken, default='of a special token')}", {"setting": "special_tokens"}
        )
    return {
        "name": settings.get("name", artifact.id),
        "pat_str": settings["pattern"],
        "mergeable_ranks": ranks,
        "special_tokens": special,
    }


def _id(value: Any, text: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_ID:
        raise invalid(f"{value!r} is no id of the special token {text!r}", {"setting": "special_tokens"})
    return value


def _rank_file(artifact: TokenizerArtifact) -> ArtifactFile:
    file = next((file for file in artifact.files if file.name.endswith(".tiktoken")), None)
    if file is None:
        raise invalid("the artifact has no .tiktoken file", {"ref": artifact.ref})
    return file


def _checked_ranks(artifact: TokenizerArtifact, expected_hash: str | None) -> dict[bytes, int]:
    file = _rank_file(artifact)
    if file.sha256 != expected_hash:
        raise invalid(f"the installed tiktoken expects ranks {expected_hash}, the preset pins {file.sha256}")
    return read_ranks(file)


def read_ranks(file: ArtifactFile) -> dict[bytes, int]:
    """Read a `.tiktoken` file: one line a token, its bytes in base64, then its rank.

    Errors: TokenizerInvalid with the line; ArtifactMismatch.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_verified(file).splitlines(), 1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise invalid(f"line {number} is not a token and its rank", {"file": file.name, "line": number}) from error
    if not ranks or not 0 <= max(ranks.values()) < _MAX_ID or len(set(ranks.values())) != len(ranks):
        raise invalid("the ranks are not distinct numbers from 0 up", {"file": file.name})
    return ranks


def write_ranks(ranks: dict[bytes, int]) -> bytes:
    """Write ranks as the `.tiktoken` file that `read_ranks` reads."""
    rows = sorted(ranks.items(), key=_by_id_bytes)
    return b"".join(base64.b64encode(token) + b" " + str(rank).encode() + b"\n" for token, rank in rows)


class TiktokenTokenizer:
    """A byte-pair encoding over raw bytes; it inserts nothing."""

    control_needs_template = False
    reconstructed = False
    byte_pieces = True  # a piece is its bytes: nothing is written between or before pieces when they are joined

    def __init__(self, artifact: TokenizerArtifact, parameters: dict[str, Any]) -> None:
        import tiktoken

        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.chat_templates = _templates(artifact)
        self.model_max_length = artifact.context_window
        self.ranks: dict[bytes, int] = parameters["mergeable_ranks"]
        self.pattern: str = parameters["pat_str"]
        self.form: Form | None = form_of(artifact.settings.get("normalizer"))
        special = parameters["special_tokens"]
        self._encoding = guarded(lambda: tiktoken.Encoding(**parameters), "tiktoken cannot build the encoding")
        self.size = self._encoding.n_vocab
        self.vocab_size = len(self.ranks)
        eos = artifact.settings.get("eos_token", "<|endoftext|>")
        self.special_tokens = {"eos_token": eos} if eos in special else {}
        self.special_token_ids = {name: special[text] for name, text in self.special_tokens.items()}
        self.added_tokens = tuple(AddedToken(i, text, special=True) for text, i in sorted(special.items(), key=_by_id))
        self._special_ids = frozenset(special.values())
        pieces = [b""] * self.size
        for piece, token_id in [*self.ranks.items(), *((text.encode(), i) for text, i in special.items())]:
            pieces[token_id] = piece
        self._bytes = ByteTable(pieces)

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode with every special token matched in the text (`allowed_special="all"`)."""
        return self._encode(text, allowed_special="all")

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode with special tokens as plain text, as `encode_ordinary` does."""
        return self._encode(text, disallowed_special=())

    def _encode(self, text: str, **options: Any) -> RawEncoding:
        size = len(utf8_or_raise(text))
        if self.form is None:
            return self._spans(self._ids(text, options))
        normal = normalize(text, self.form)
        raw = self._spans(self._ids(normal.text, options))
        if len(normal.places) == size + 1 and normal.text == text:
            return raw
        return RawEncoding(raw.input_ids, normal.places[raw.start], normal.places[raw.end])

    def _ids(self, text: str, options: dict[str, Any]) -> np.ndarray:
        return guarded(lambda: self._encoding.encode_to_numpy(text, **options), "tiktoken")

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
        if token_id in self._special_ids:
            return self.token_bytes(token_id).decode()
        return "".join(_CHAR_OF_BYTE[byte] for byte in self.token_bytes(token_id))

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say False: every byte is an ordinary token here."""
        return False

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids."""
        return self._bytes.join([i for i in ids if 0 <= i < self.size])


_CHAR_OF_BYTE = {byte: char for char, byte in bytetable.byte_of_char().items()}


def _templates(artifact: TokenizerArtifact) -> dict[str, str]:
    return chat_templates_of({f.name: read_verified(f) for f in artifact.files if f.name.endswith(".jinja")})


def _by_id(entry: tuple[str, int]) -> int:
    return entry[1]


def _by_id_bytes(entry: tuple[bytes, int]) -> int:
    return entry[1]
