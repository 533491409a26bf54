"""Counts that two parts of a scan can add up: exact numbers, each with the first rows that it counts.

Memory is bounded by how many lengths and how many names differ, never by how many rows there are. Which columns are
counted is summary.py's; nothing is read here. A row is one number: its file and its place in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

MOST_EXAMPLES = 8  # rows named beside a number
MOST_NAMES = 400  # different names of one tally; rows of the others are counted under OTHER
OTHER = "…"
PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
_PENDING = 1 << 17  # lengths that wait to be sorted in


class Entry:
    """What is counted under one name: rows, occurrences in them, and the first rows."""

    __slots__ = ("examples", "rows", "times")

    def __init__(self) -> None:
        self.rows, self.times = 0, 0
        self.examples: list[int] = []

    def add(self, rows: np.ndarray, times: int | None = None) -> None:
        """Count these rows, each once; `times`: what occurs in them together."""
        if len(rows):
            self.rows += len(rows)
            self.times += len(rows) if times is None else times
            self._take(rows if len(rows) <= MOST_EXAMPLES else np.partition(rows, MOST_EXAMPLES)[:MOST_EXAMPLES])

    def merge(self, other: Entry) -> None:
        """Take in the counts of other rows."""
        self.rows += other.rows
        self.times += other.times
        self._take(other.examples)

    def _take(self, rows: Iterable[int]) -> None:
        self.examples = heapq.nsmallest(MOST_EXAMPLES, {*self.examples, *map(int, rows)})


class Tally:
    """Entries by name."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[Any, Entry] = {}

    def add(self, names: pa.Array, rows: np.ndarray, times: np.ndarray | None = None) -> None:
        """Count `names[i]`, if it is one, for `rows[i]`, `times[i]` times. A name stands once beside the same row."""
        for name, at in grouped(names):
            self.at(name).add(rows[at], None if times is None else int(times[at].sum()))

    def at(self, name: Any) -> Entry:
        """Give the entry of a name, made when it is first asked for; one for all names beyond the most that are kept."""
        if name not in self.entries and len(self.entries) >= MOST_NAMES:
            name = OTHER
        if name not in self.entries:
            self.entries[name] = Entry()
        return self.entries[name]

    def merge(self, other: Tally) -> None:
        """Take in the counts of other rows."""
        for name, entry in other.entries.items():
            self.at(name).merge(entry)

    def ranked(self) -> list[tuple[Any, Entry]]:
        """Give names with entries: most rows first, then most occurrences, then by name."""
        return sorted(self.entries.items(), key=lambda each: (-each[1].rows, -each[1].times, str(each[0])))


def grouped(names: pa.Array) -> Iterator[tuple[Any, np.ndarray]]:
    """Give every name that occurs with the places where it does; null is none."""
    encoded = names.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    for k, name in enumerate(encoded.dictionary.to_pylist()):
        yield name, order[edges[k] : edges[k + 1]]


class Lengths:
    """How many rows have each length, and the first row that has it."""

    __slots__ = ("_counts", "_first", "_pending", "_values", "_waiting")

    def __init__(self) -> None:
        self._values = np.zeros(0, np.int64)  # the lengths that occur, rising
        self._counts = np.zeros(0, np.int64)
        self._first = np.zeros(0, np.int64)
        self._pending: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, lengths: np.ndarray, rows: np.ndarray) -> None:
        """Count rows of these lengths."""
        self._wait(lengths, np.ones(len(lengths), np.int64), rows)

    def merge(self, other: Lengths) -> None:
        """Take in the counts of other rows."""
        self._wait(*other._sorted())

    def _wait(self, values: np.ndarray, counts: np.ndarray, first: np.ndarray) -> None:
        self._pending.append((values, counts, first))
        self._waiting += len(values)
        if self._waiting > _PENDING:
            self._sorted()

    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self._pending:
            parts = [(self._values, self._counts, self._first), *self._pending]
            values, counts, first = (np.concatenate(columns) for columns in zip(*parts))
            self._values, place = np.unique(values, return_inverse=True)
            self._counts = np.zeros(len(self._values), np.int64)
            np.add.at(self._counts, place, counts)
            self._first = np.full(len(self._values), np.iinfo(np.int64).max)
            np.minimum.at(self._first, place, first)
            self._pending, self._waiting = [], 0
        return self._values, self._counts, self._first

    @property
    def rows(self) -> int:
        return int(self._sorted()[1].sum())

    @property
    def total(self) -> int:
        """The sum of all lengths."""
        values, counts, _first = self._sorted()
        return int(values @ counts)

    @property
    def span(self) -> tuple[int, int]:
        """The shortest and the longest length; (0, 0) of no rows."""
        values = self._sorted()[0]
        return (int(values[0]), int(values[-1])) if len(values) else (0, 0)

    def percentiles(self, wanted: Iterable[float] = PERCENTILES) -> list[tuple[float, int, int]]:
        """Give (p, length, a row of it): the least length that p % of the rows do not exceed; 0 is the shortest."""
        values, counts, first = self._sorted()
        if not len(values):
            return []
        upto = np.cumsum(counts)
        needed = [max(1, -(-int(upto[-1]) * round(p * 10) // 1000)) for p in wanted]
        at = np.searchsorted(upto, needed)
        return [(p, int(values[k]), int(first[k])) for p, k in zip(wanted, at)]

    def between(self, low: int, high: int) -> tuple[int, list[int]]:
        """Count rows of a length in [low, high), and give the first of each of some lengths there."""
        values, counts, first = self._sorted()
        part = slice(*np.searchsorted(values, [low, high]))
        return int(counts[part].sum()), heapq.nsmallest(MOST_EXAMPLES, first[part].tolist())

    def over(self, limits: Iterable[int]) -> list[tuple[int, int]]:
        """Give for each limit (rows longer than it, their tokens beyond it)."""
        values, counts, _first = self._sorted()
        limits = np.maximum(np.asarray(list(limits), np.int64), 0)
        rows = np.concatenate([np.cumsum(counts[::-1])[::-1], [0]])
        tokens = np.concatenate([np.cumsum((counts * values)[::-1])[::-1], [0]])
        at = np.searchsorted(values, limits, "right")
        return [(int(rows[k]), int(tokens[k] - limit * rows[k])) for k, limit in zip(at, limits)]

    def places(self, most: int) -> list[int]:
        """Give the lengths that occur, or at most `most` of them that hold equal shares of the range."""
        values = self._sorted()[0]
        if len(values) <= most:
            return values.tolist()
        low, high = max(1, int(values[0])), int(values[-1])
        return sorted({int(values[0]), *(round(low * (high / low) ** (k / (most - 1))) for k in range(most))})


def nice_edges(low: int, high: int, most: int = 32) -> list[int]:
    """Give edges of about `most` bins at most that hold all lengths: even steps where they lie close, else doubling ones.

    >>> nice_edges(0, 9, 5)
    [0, 2, 4, 6, 8, 10]
    >>> nice_edges(10, 5000, 10)
    [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    """
    if high < 20 * max(1, low) or high < most:
        step = next(s * 10**k for k in range(18) for s in (1, 2, 5) if (high - low + 1) <= most * s * 10**k)
        return list(range(low // step * step, (high // step + 1) * step + 1, step))
    first, last = max(1, low).bit_length() - 1, high.bit_length()
    each = 2 if (last - first) * 2 <= most else 1
    grown = {round(2 ** (k / each)) for k in range(first * each, last * each + 1)}
    return sorted(({0} if low == 0 else set()) | grown)
