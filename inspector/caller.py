"""Who asked for what this thread computes: what gives the work up, and who alone may share what it leaves behind.

A shell that serves several people sets it around a call; what is below reads it and decides nothing. Without a shell that
sets it, nothing gives up and all belongs to one person.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """One asking: `owner` names the visitor ("" where there is but one person), `address` the client, `cancel` is set
    when nobody waits for the answer any more. `give_way` lets others go first between two parts of a long call."""

    owner: str = ""
    address: str = ""
    cancel: threading.Event | None = None
    give_way: Callable[[], None] | None = None


_current: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 - it is frozen


def current() -> Caller:
    """Give the caller of this context; threads that are started here need a copy of the context."""
    return _current.get()


@contextlib.contextmanager
def asked_by(caller: Caller) -> Iterator[None]:
    """Let what runs inside know its caller."""
    token = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(token)
