"""Whose turn it is: one forward pass at a time, first come first served.

A request takes a turn for each of its chunks and goes behind those who wait, so a short prompt passes a long one after
one chunk. It computes nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

TICK_S = 0.05


class Turns:
    """A fair lock: `threading.Lock` lets the one who gave it back take it again before those who wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the head has the turn

    @contextlib.contextmanager
    def turn(self, check: Callable[[], None]) -> Iterator[None]:
        """Wait for the turn and hold it. `check` is called while waiting; what it raises ends the wait."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            with self._changed:
                while self._queue[0] is not ticket:
                    self._changed.wait(TICK_S)
                    check()
            yield
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def waiting(self) -> int:
        """Give the number of those who have the turn or wait for it."""
        with self._changed:
            return len(self._queue)
