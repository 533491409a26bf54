"""The edit script: valid on everything, shortest within the bound, near to it and quick beyond."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from inspector.editscript import Operation, common_prefix, edit_script

SHORT = st.lists(st.integers(0, 3), max_size=40)


def rebuilt(a: Sequence[int], b: Sequence[int], script: Sequence[Operation]) -> None:
    """Each operation follows on, says the truth, and is not empty; together they cover both sides."""
    x = y = 0
    for op, a0, a1, b0, b1 in script:
        assert (a0, b0) == (x, y) and a1 >= a0 and b1 >= b0
        shape = (a0 < a1, b0 < b1)
        expected = {"equal": (True, True), "replace": (True, True), "insert": (False, True), "delete": (True, False)}
        assert shape == expected[op], (op, a0, a1, b0, b1)
        assert op != "equal" or list(a[a0:a1]) == list(b[b0:b1])
        x, y = a1, b1
    assert (x, y) == (len(a), len(b))


def cost(script: Sequence[Operation]) -> int:
    return sum(max(a1 - a0, b1 - b0) for op, a0, a1, b0, b1 in script if op != "equal")


@given(SHORT, SHORT)
def test_within_the_bound_the_script_is_valid_and_as_short_as_levenshtein_says(a: list[int], b: list[int]) -> None:
    script = edit_script(a, b)
    rebuilt(a, b, script)
    assert cost(script) == Levenshtein.distance(a, b)


@given(SHORT, SHORT, st.integers(0, 60), st.integers(1, 4))
def test_beyond_the_bound_the_script_is_still_valid(a: list[int], b: list[int], cells: int, window: int) -> None:
    rebuilt(a, b, edit_script(a, b, cells=cells, window=window))


def test_the_elements_may_be_any_hashable_thing() -> None:
    assert edit_script([b"a", b"b"], [b"a", "b"]) == (("equal", 0, 1, 0, 1), ("replace", 1, 2, 1, 2))
    assert edit_script([], []) == () and edit_script([], [1]) == (("insert", 0, 0, 0, 1),)


def test_scattered_edits_in_a_large_sequence_are_found_exactly() -> None:
    random.seed(1)
    a = [random.randrange(5000) for _ in range(60_000)]
    b = list(a)
    for place in range(100, 60_000, 500):
        b[place] = -1
    script = edit_script(a, b, cells=1_000_000)
    rebuilt(a, b, script)
    assert cost(script) == len(range(100, 60_000, 500))


def test_two_large_sequences_without_anything_in_common_take_no_longer_than_two_small_ones() -> None:
    random.seed(2)
    small, large = ([random.randrange(150_000) for _ in range(size)] for size in (20_000, 200_000))
    other = [random.randrange(150_000) for _ in range(200_000)]
    seconds = []
    for a, b in ((small, other[:20_000]), (large, other)):
        began = time.perf_counter()
        rebuilt(a, b, edit_script(a, b))
        seconds.append(time.perf_counter() - began)
    assert seconds[1] < 20 * seconds[0] + 1, seconds  # a search of 200,000 a side would take 100 times as long


def test_common_prefix_counts_equal_leading_elements() -> None:
    arrays = [np.array(values, dtype=np.int64) for values in ([], [1, 2, 3], [1, 2, 4, 5])]
    assert common_prefix(arrays[0], arrays[1]) == 0
    assert common_prefix(arrays[1], arrays[2]) == 2
    assert common_prefix(arrays[1], arrays[1]) == 3
