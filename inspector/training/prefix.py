"""Is what one turn sends a prefix of what the next turn sends? Where not: where they part, who wrote it, what it costs.

A server that keeps the keys and values of a prompt can reuse those of the tokens that the next prompt begins with, in
whole blocks. Nothing is served or cached here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inspector.editscript import common_prefix
from inspector.encode import Encoding
from inspector.errors import InspectorError
from inspector.messages import Conversation
from inspector.render import common_prefix as common_text
from inspector.training.growing import Told

BLOCK_SIZES = (1, 16, 128)
EXCERPT = 40  # characters

Assemble = Callable[[Conversation, bool], Encoding]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where an input is no prefix of the next one.

    Units: `token` indexes both, `byte` is a UTF-8 offset into both texts, where they differ first (None where only the
    ids do: the same text was cut otherwise). `line`, `path` are of the byte that stands there; `text` begins with the
    token that is another one.
    """

    token: int
    byte: int | None
    kind: str | None
    line: int | None
    path: str | None
    text: str
    next_kind: str | None
    next_line: int | None
    next_path: str | None
    next_text: str

    def to_dict(self) -> dict[str, Any]:
        """Give the `parts_at` object."""
        names = ("kind", "line", "path", "text")
        return {
            "token": self.token,
            "byte": self.byte,
            "this": {name: getattr(self, name) for name in names},
            "next": {name: getattr(self, f"next_{name}") for name in names},
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One input of the conversation, and how much of it the next one begins with.

    `messages`: how many messages it has; `asks`: it ends with a generation prompt. `shared_tokens` and `parting` are
    None in the last step, and where an input could not be rendered (`error`); `parting` also where no more of them were
    asked for.
    """

    messages: int
    asks: bool
    tokens: int | None
    shared_tokens: int | None = None
    parting: Parting | None = None
    error: str | None = None

    @property
    def is_prefix(self) -> bool | None:
        return None if self.shared_tokens is None else self.shared_tokens == self.tokens

    def reused(self, block_size: int) -> int | None:
        """Give how many tokens lie in whole shared blocks."""
        return None if self.shared_tokens is None else self.shared_tokens // block_size * block_size

    def to_dict(self) -> dict[str, Any]:
        return {
            "messages": self.messages,
            "asks": self.asks,
            "tokens": self.tokens,
            "is_prefix": self.is_prefix,
            "shared_tokens": self.shared_tokens,
            "reused": {str(size): self.reused(size) for size in BLOCK_SIZES},
            "parts_at": None if self.parting is None else self.parting.to_dict(),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class PrefixTable:
    """Every step of a conversation but the first `left_out`, and the keys of the last input's blocks."""

    steps: tuple[Step, ...]
    block_size: int
    model_revision: str
    adapter: str
    keys: tuple[str, ...]
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Give schema `prefix/1`."""
        return {
            "schema": "prefix/1",
            "steps": [step.to_dict() for step in self.steps],
            "block_size": self.block_size,
            "model_revision": self.model_revision,
            "adapter": self.adapter,
            "keys": list(self.keys),
        }


def prefix_table(
    conversation: Conversation,
    assemble: Assemble,
    *,
    block_size: int = 16,
    model_revision: str = "",
    adapter: str = "none",
    most_steps: int | None = None,
    most_partings: int | None = None,
    growing: Told | None = None,
    with_keys: bool = True,
) -> PrefixTable:
    """Compare the input of each step with that of the next; with `most_steps` only of the last steps, and with
    `most_partings` only the first inputs that part are told why.

    `assemble` renders and tokenizes messages, with a generation prompt or without. A step is a conversation as far as
    an assistant is asked (with a generation prompt), or has answered (without one). `growing` tells what inputs share
    without rendering each; the last one and those that part are rendered all the same, and if one of them were another
    text than was told, all would be. `with_keys` False leaves the keys out.
    Errors: none of the template: a step that it refuses has `error`, and is compared with nothing.
    """
    stops = _stops(conversation.messages)
    left_out = 0 if most_steps is None else max(0, len(stops) - most_steps)
    try:
        walk = _Walk(conversation, assemble, stops[left_out:], growing, most_partings)
        steps, last = walk.steps(), walk.encoding(len(walk.stops) - 1) if walk.stops else None
    except _Mistaken:
        walk = _Walk(conversation, assemble, stops[left_out:], None, most_partings)
        steps, last = walk.steps(), walk.encoding(len(walk.stops) - 1)
    keys: tuple[str, ...] = ()
    if last is not None and with_keys:
        keys = block_keys(last.input_ids.tolist(), block_size, model_revision, adapter)
    return PrefixTable(steps, block_size, model_revision, adapter, keys, left_out)


class _Mistaken(Exception):
    """An input that was told is another one when it is rendered."""


class _Walk:
    """The inputs of a conversation, step by step; the two that were rendered last are kept."""

    def __init__(
        self,
        conversation: Conversation,
        assemble: Assemble,
        stops: Sequence[tuple[int, bool]],
        growing: Told | None,
        most_partings: int | None,
    ) -> None:
        self.conversation, self.assemble, self.stops, self.growing = conversation, assemble, stops, growing
        self.partings_left = len(stops) if most_partings is None else most_partings
        self.ropes = [None if growing is None else growing.at(count, asks) for count, asks in stops]
        self.errors: dict[int, str] = {}
        self._kept: dict[int, Encoding | None] = {}

    def steps(self) -> tuple[Step, ...]:
        lengths = [self._length(index) for index in range(len(self.stops))]
        made = []
        for index, (count, asks) in enumerate(self.stops):
            error, following = self.errors.get(index), lengths[index + 1] if index + 1 < len(lengths) else None
            both = lengths[index] is not None and following is not None
            shared, parting = self._compared(index) if both else (None, None)
            made.append(Step(count, asks, lengths[index], shared, parting, error))
        return tuple(made)

    def encoding(self, index: int) -> Encoding | None:
        """Render and tokenize an input; None for one that the template refuses."""
        if index not in self._kept:
            count, asks = self.stops[index]
            try:
                found = self.assemble(replace(self.conversation, messages=self.conversation.messages[:count]), asks)
            except InspectorError as error:
                if error.kind.exit_code != 2:
                    raise
                self.errors[index] = error.one_line()
                found = None
            self._kept = {kept: value for kept, value in self._kept.items() if abs(kept - index) < 2} | {index: found}
            self._check(index, found)
        return self._kept[index]

    def _length(self, index: int) -> int | None:
        rope = self.ropes[index]
        if rope is not None and self.growing is not None:
            return self.growing.length(rope)
        found = self.encoding(index)
        return None if found is None else len(found)

    def _compared(self, index: int) -> tuple[int, Parting | None]:
        a, b = self.ropes[index : index + 2]
        if a is not None and b is not None and self.growing is not None:
            shared = self.growing.shared(a, b)
            if shared is not None and (shared == self.growing.length(a) or not self.partings_left):
                return shared, None
        this, following = self.encoding(index), self.encoding(index + 1)
        if this is None or following is None:
            raise _Mistaken
        shared, parting = compare_inputs(this, following)
        self.partings_left -= parting is not None and self.partings_left > 0
        return shared, parting

    def _check(self, index: int, found: Encoding | None) -> None:
        rope = self.ropes[index]
        if rope is None or self.growing is None:
            return
        if found is None or self.growing.text(rope) != found.rendered.text or self.growing.length(rope) != len(found):
            raise _Mistaken


def _stops(messages: Sequence[dict[str, Any]]) -> list[tuple[int, bool]]:
    """Give after how many messages something is sent: before each answer, and after it."""
    answers = [message.get("role") in ("assistant", "model") for message in messages]
    stops = []
    for index, answer in enumerate(answers):
        following = answers[index + 1] if index + 1 < len(answers) else None
        if answer or following or following is None:
            stops.append((index + 1, not answer))
    return stops


def compare_inputs(this: Encoding, following: Encoding) -> tuple[int, Parting | None]:
    """Give how many tokens two inputs share at their start, and where they part if the first is no prefix."""
    a, b = this.input_ids, following.input_ids
    shared = common_prefix(a, b)
    if shared == len(a):
        return shared, None
    return shared, _parting(this, following, shared)


def _parting(this: Encoding, following: Encoding, token: int) -> Parting:
    if "token_segments" in (this.rendered.kind, following.rendered.kind):
        return Parting(token, None, *_origin_of_token(this, token), "", *_origin_of_token(following, token), "")
    texts = (this.rendered.text, following.rendered.text)
    char = common_text(*texts)
    start = int(this.start[token])
    # Where the shorter text ends first, the next one goes on with it: only the last tokens were cut otherwise.
    byte = None if char == len(texts[0]) else len(texts[0][:char].encode("utf-8"))
    sides = [
        (*_origin_at(encoding, start if byte is None else byte), _excerpt(encoding, start))
        for encoding in (this, following)
    ]
    return Parting(token, byte, *sides[0], *sides[1])


def _excerpt(encoding: Encoding, byte: int) -> str:
    return encoding.rendered.utf8[byte : byte + 4 * EXCERPT].decode("utf-8", "replace")[:EXCERPT]


def _origin_at(encoding: Encoding, byte: int) -> tuple[str | None, int | None, str | None]:
    segments = encoding.rendered.segments
    row = int(np.searchsorted(segments.start, byte, side="right")) - 1
    if row < 0 or byte >= len(encoding.rendered.utf8):
        return None, None, None
    kind, path, line = segments.origin(row)
    return kind, line, path


def _origin_of_token(encoding: Encoding, index: int) -> tuple[str | None, int | None, str | None]:
    if index >= len(encoding):
        return None, None, None
    token = encoding.token(index)
    return token.kind, token.line, token.path


def prefix_key(token_ids: Sequence[int], model_revision: str, adapter: str = "none") -> str:
    """Give the key of a prefix: 16 hex digits of SHA-256 over model revision, adapter and every id as 4 bytes.

    >>> prefix_key([256, 257, 104, 105], "model-v1")
    '769014746b761a88'
    """
    digest = hashlib.sha256(f"{model_revision}\0{adapter}\0".encode())
    digest.update(np.asarray(token_ids, "<u4").tobytes())
    return digest.hexdigest()[:16]


def block_keys(
    token_ids: Sequence[int], block_size: int, model_revision: str, adapter: str = "none"
) -> tuple[str, ...]:
    """Give the key of the prefix up to the end of each whole block."""
    digest, keys = hashlib.sha256(f"{model_revision}\0{adapter}\0".encode()), []
    data = np.asarray(token_ids, "<u4").tobytes()
    for start in range(0, len(data) // 4 // block_size * block_size * 4, block_size * 4):
        digest.update(data[start : start + block_size * 4])
        keys.append(digest.copy().hexdigest()[:16])
    return tuple(keys)
