"""A bounded edit script between two sequences: always valid, and the shortest where the difference is of ordinary size.

Common ends are cut off, and a middle within `CELLS` comparisons is searched for the shortest script. A larger one is
first split at stretches that occur once in either side; what is still too large then becomes one replacement.
It knows nothing of tokens or rows: the elements only have to be hashable.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

CELLS = 400_000_000  # 20,000 differing elements a side: 0.1 to 0.3 s, and time grows with the product of the lengths

Operation = tuple[str, int, int, int, int]
"""(op, a0, a1, b0, b1): op is equal, insert, delete or replace; half-open ranges, each from where the last one ended."""


def edit_script(
    a: Sequence[Hashable], b: Sequence[Hashable], *, cells: int = CELLS, window: int = 8
) -> tuple[Operation, ...]:
    """Give the operations that turn `a` into `b`.

    `cells` bounds the comparisons of all searches together; `window` is the length of a stretch that may split a
    middle too large to be searched whole.

    >>> edit_script("token", "taken")
    (('equal', 0, 1, 0, 1), ('replace', 1, 2, 1, 2), ('equal', 2, 5, 2, 5))
    """
    keys_a, keys_b = _numbered(a, b)
    head = common_prefix(keys_a, keys_b)
    tail = common_prefix(keys_a[head:][::-1], keys_b[head:][::-1])
    end_a, end_b = len(a) - tail, len(b) - tail
    middle = _middle(keys_a[head:end_a], keys_b[head:end_b], cells, window)
    shifted = ((op, a0 + head, a1 + head, b0 + head, b1 + head) for op, a0, a1, b0, b1 in middle)
    return _joined([("equal", 0, head, 0, head), *shifted, ("equal", end_a, len(a), end_b, len(b))])


def common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    """Count equal leading elements of two integer arrays."""
    size = min(len(a), len(b))
    different = np.flatnonzero(a[:size] != b[:size])
    return int(different[0]) if len(different) else size


def first_difference(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Give the first index at which two sequences of anything differ, or the length of the shorter one.

    >>> first_difference("token", "taken"), first_difference([1, 2], [1, 2, 3])
    (1, 2)
    """
    return next((index for index, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def _numbered(*sides: Sequence[Hashable]) -> list[np.ndarray]:
    """Give every element a number, the same for equal ones: numbers are compared faster than what they stand for."""
    numbers: dict[Hashable, int] = {}
    return [np.array([numbers.setdefault(item, len(numbers)) for item in side], np.int64) for side in sides]


def _joined(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Leave empty operations out and join neighbours of one kind."""
    joined: list[Operation] = []
    for op, a0, a1, b0, b1 in operations:
        if joined and joined[-1][0] == op:
            joined[-1] = (op, joined[-1][1], a1, joined[-1][3], b1)
        elif a0 < a1 or b0 < b1:
            joined.append((op, a0, a1, b0, b1))
    return tuple(joined)


def _middle(a: np.ndarray, b: np.ndarray, cells: int, window: int) -> Iterator[Operation]:
    x = y = 0
    stretches = [] if len(a) * len(b) <= cells else _anchors(a, b, window)
    for a0, b0, size in [*stretches, (len(a), len(b), 0)]:
        cost = (a0 - x) * (b0 - y)
        yield from _between(a, b, (x, a0, y, b0), search=cost <= cells)
        cells -= cost if cost <= cells else 0
        yield ("equal", a0, a0 + size, b0, b0 + size)
        x, y = a0 + size, b0 + size


def _between(a: np.ndarray, b: np.ndarray, place: tuple[int, int, int, int], *, search: bool) -> Iterator[Operation]:
    a0, a1, b0, b1 = place
    if not search or a0 == a1 or b0 == b1:
        yield ("replace" if a0 < a1 and b0 < b1 else "delete" if a0 < a1 else "insert", *place)
        return
    for op in Levenshtein.opcodes(a[a0:a1].tolist(), b[b0:b1].tolist()):
        yield (op.tag, a0 + op.src_start, a0 + op.src_end, b0 + op.dest_start, b0 + op.dest_end)


def _anchors(a: np.ndarray, b: np.ndarray, window: int) -> list[tuple[int, int, int]]:
    """Give equal stretches (offset in a, offset in b, length), ascending in both: windows that occur once in either
    side, as many as stand in the same order."""
    hashes_a, places_a = _unique_windows(a, window)
    hashes_b, places_b = _unique_windows(b, window)
    _common, i, j = np.intersect1d(hashes_a, hashes_b, assume_unique=True, return_indices=True)
    pairs = np.stack((places_a[i], places_b[j]), axis=1)
    steps = np.arange(window)
    pairs = pairs[(a[pairs[:, :1] + steps] == b[pairs[:, 1:] + steps]).all(axis=1)]  # two windows may share a hash
    pairs = pairs[np.argsort(pairs[:, 0])]
    return _stretches(pairs[longest_rise(pairs[:, 1].tolist())].tolist(), window)


def _unique_windows(keys: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Give hash and offset of every window that no other one of the side equals. Shapes: uint64[k], int64[k]."""
    count = max(0, len(keys) - window + 1)
    hashes = np.zeros(count, np.uint64)
    for step in range(window):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + keys[step : step + count].astype(np.uint64)
    found, first, times = np.unique(hashes, return_index=True, return_counts=True)
    return found[times == 1], first[times == 1]


def longest_rise(values: Sequence[int]) -> list[int]:
    """Give the indices of a longest ascending subsequence of distinct values.

    >>> longest_rise([5, 1, 4, 2, 3])
    [1, 3, 4]
    """
    lows: list[int] = []  # the least last value of a rise of each length
    ends: list[int] = []  # its index
    before: list[int] = []
    for index, value in enumerate(values):
        length = bisect.bisect_left(lows, value)
        before.append(ends[length - 1] if length else -1)
        lows[length : length + 1], ends[length : length + 1] = [value], [index]
    rise: list[int] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        rise.append(index)
        index = before[index]
    return rise[::-1]


def _stretches(pairs: Iterable[tuple[int, int]], window: int) -> list[tuple[int, int, int]]:
    """Join windows that overlap on one diagonal; leave out one that overlaps on another."""
    found: list[tuple[int, int, int]] = []
    for x, y in pairs:
        a0, b0, size = found[-1] if found else (0, 0, 0)
        if x >= a0 + size and y >= b0 + size:
            found.append((x, y, window))
        elif x - a0 == y - b0:
            found[-1] = (a0, b0, x - a0 + window)
    return found
