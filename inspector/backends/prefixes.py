"""Keys and values of prompts that were read, kept so that the next prompt with the same beginning reads its end only.

A kept prefix is a tuple of tensors, one pair a layer, that nobody writes into: transformers' cache joins new keys to old
ones in a new tensor, so two prompts may go on from one prefix, and a shorter one is a view of a longer one.
What one visitor's prompts left is used for that visitor's alone (caller.py): the time that an answer takes, and how much of it
was read before, would tell others what was asked.
This module runs no model and decides no answer; it forgets the least recently used when its bound of bytes is full.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector import caller
from inspector.editscript import common_prefix

KEPT_BYTES = 1 << 30
ANSWER_BYTES = 64 << 20
_Key = tuple[str, bytes]  # whose, and the ids


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Keys and values of `ids`. `layers`: one (keys, values) a layer, [1, heads, T, head_dim]; None for a layer that shares another's."""

    ids: np.ndarray
    layers: tuple[tuple[Any, Any] | None, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(part.numel() * part.element_size() for pair in self.layers if pair is not None for part in pair)

    def view(self, length: int) -> Prefix:
        """Give the first `length` tokens, without a copy."""
        layers = tuple(pair and (pair[0][..., :length, :], pair[1][..., :length, :]) for pair in self.layers)
        return Prefix(self.ids[:length], layers)


class Prefixes:
    """What one model has read lately. Thread-safe."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, Prefix] = OrderedDict()
        self._answers: OrderedDict[_Key, np.ndarray] = OrderedDict()

    def longest(self, input_ids: np.ndarray) -> Prefix | None:
        """Give the longest kept beginning of `input_ids` that leaves at least one token to read, or None."""
        with self._lock:
            owner = caller.current().owner
            best, best_key = 0, (owner, b"")
            for key, prefix in self._kept.items():
                if key[0] != owner:
                    continue
                shared = shared_length(prefix.ids, input_ids[:-1])
                if shared > best:
                    best, best_key = shared, key
            if not best:
                return None
            self._kept.move_to_end(best_key)
            return self._kept[best_key].view(best)

    def keep(self, prefix: Prefix) -> None:
        """Keep a prefix in place of those that it begins with."""
        with self._lock:
            own = _key(prefix.ids)
            for key, old in list(self._kept.items()):
                if (
                    key[0] == own[0]
                    and len(old.ids) <= len(prefix.ids)
                    and shared_length(old.ids, prefix.ids) == len(old.ids)
                ):
                    del self._kept[key]
            self._kept[own] = prefix
            while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > self._max_bytes:
                self._kept.popitem(last=False)
            if prefix.nbytes > self._max_bytes:
                del self._kept[own]

    def answer(self, input_ids: np.ndarray) -> np.ndarray | None:
        """Give the logits after exactly these tokens, if they were computed lately."""
        with self._lock:
            key = _key(input_ids)
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def keep_answer(self, input_ids: np.ndarray, logits: np.ndarray) -> None:
        """Keep the logits after these tokens."""
        with self._lock:
            self._answers[_key(input_ids)] = logits
            while len(self._answers) * logits.nbytes > ANSWER_BYTES and len(self._answers) > 1:
                self._answers.popitem(last=False)

    def clear(self) -> None:
        """Forget everything, to give its memory back."""
        with self._lock:
            self._kept.clear()
            self._answers.clear()


def _key(ids: np.ndarray) -> _Key:
    return caller.current().owner, ids.tobytes()


def shared_length(a: Sequence[int] | np.ndarray, b: Sequence[int] | np.ndarray) -> int:
    """Give how many leading ids are equal.

    >>> shared_length([1, 2, 3], [1, 2, 4, 5])
    2
    """
    return common_prefix(np.asarray(a), np.asarray(b))
