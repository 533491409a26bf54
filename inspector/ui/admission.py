"""Whose call runs next: a bounded number of places, and a fair order among those who wait for one.

A call belongs to a *lane* (one kind of question of one pane), a lane to a session, a session to a client's address.
One call of a lane runs and one waits: where the newest wins, the older gives way to it, else the newer is refused. Calls
without a lane are bounded by their session alone.
A session runs few at a time and an address few, whatever its number of sessions; places go round robin over the
addresses that wait, and at each over its sessions. Who waits too long, and who would make a queue too long, is told so
(Busy) and may try again; where all queues together are full, the last call of whoever has most waiting gives way.

A call that runs has one child of the sandbox at a time, and never do more run than there may be children: who has a place
must not wait for a child. One that asks about several panes gives way between them.

Nothing is computed here and no request is looked at. Thread-safe; locks are held for moments.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from typing import Any

from inspector.caller import Caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled

PAGE, MODEL = "page", "model"  # the two sets of places: forward passes take long and take turns anyway
_CORES = os.cpu_count() or 1
TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is admitted; `children`: places of both kinds that are taken at a time. Of the places for models an address has at most half. Units: calls; `wait_s` seconds; `body_bytes` of one request, `address_bytes` of all that one
    address has under way, `total_bytes` of all addresses, `body_s` seconds for one to arrive; `streams`: answers that an address reads at a time,
    `requests`: of all kinds that it has under way; `unheard_s`: how long a queued call goes on while nobody reads its stream; `answer_bytes`: of answers that it has not read yet, `answers_bytes` that all have not."""

    places: int
    model_places: int
    children: int
    session_running: int
    session_waiting: int
    address_running: int
    address_waiting: int
    waiting: int
    wait_s: float
    body_bytes: int
    address_bytes: int
    total_bytes: int
    body_s: float
    streams: int
    requests: int
    answer_bytes: int
    answers_bytes: int
    unheard_s: float


# For oneself: nothing that a person does comes near these.
LOCAL = Bounds(
    places=max(16, 4 * _CORES), model_places=8, children=max(16, 4 * _CORES) + 8, session_running=16, session_waiting=256, address_running=32, address_waiting=1024,
    waiting=1024, wait_s=600.0, body_bytes=256 << 20, address_bytes=1 << 30, total_bytes=4 << 30, body_s=600.0, streams=1024, requests=4096,
    answer_bytes=1 << 30, answers_bytes=4 << 30, unheard_s=600.0,
)  # fmt: skip
# For strangers: of the children that there may be (4 a core), two are for those that a model's call needs. A page with six panes asks for six at a time and compares five: eleven wait at most.
PUBLIC = Bounds(
    places=max(2, 4 * _CORES - 2), model_places=2, children=max(4, 4 * _CORES), session_running=2, session_waiting=16, address_running=max(2, 2 * _CORES - 1), address_waiting=48,
    waiting=256, wait_s=20.0, body_bytes=4 << 20, address_bytes=32 << 20, total_bytes=256 << 20, body_s=30.0, streams=32, requests=128,
    answer_bytes=16 << 20, answers_bytes=64 << 20, unheard_s=5.0,
)  # fmt: skip


@dataclass(slots=True, eq=False)
class _Ticket:
    """One call that waits, runs, or is over. `granted` is done when it runs or never will. `ready`: it wants its place
    now; a call that another queue still holds (Gradio's) only keeps its place in ours."""

    caller: Caller
    session: str
    lane: tuple[str, str, str] | None
    pool: str
    after_s: float | None
    turn: int
    cancel: threading.Event
    ready: bool = True
    number: int = 0
    granted: Future[None] = field(default_factory=Future)
    running: bool = False

    @property
    def address(self) -> str:
        return self.caller.address


class Admission:
    """The calls of one server."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.refused = self.admitted = self.unheard = 0
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, OrderedDict[str, list[_Ticket]]] = OrderedDict()  # longest not served first
        self._lanes: dict[tuple[str, str, str], _Ticket] = {}  # that run
        self._running: Counter[tuple[str, ...]] = Counter()  # by pool, its addresses, and their sessions
        self._places = {PAGE: bounds.places, MODEL: bounds.model_places}
        # How many of an address and of a session run at a time.
        self._most = {
            PAGE: (bounds.address_running, bounds.session_running),
            MODEL: (max(1, bounds.model_places // 2), max(1, bounds.model_places // 2)),
        }

    def reserve(
        self,
        caller: Caller,
        session: str,
        lane: str | None = None,
        *,
        pool: str = PAGE,
        after_s: float | None = None,
        turn: int = 0,
        ready: bool = True,
    ) -> _Ticket:
        """Join the queue. `after_s`: in this lane the newest call wins, and one that runs is given up so long after a newer
        one came. `turn`: the order in which the page asked, where the network may have turned it round.

        Errors: Busy; CallCancelled where a newer call of the lane waits already.
        """
        key = None if lane is None else (caller.address, session, lane)
        ticket = _Ticket(
            caller, session, key, pool, after_s, turn, caller.cancel or threading.Event(), ready, next(self._numbers)
        )
        with self._lock:
            older = [each for each in self._of(ticket.address, session) if key is not None and each.lane == key]
            before = [*older, *([self._lanes[key]] if key in self._lanes else ())]
            if any(each.turn > turn for each in before):
                raise CallCancelled
            if len(before) > 1 and after_s is None:
                raise self._busy("one of your calls is running and one already waits")
            for each in older if after_s is not None else ():
                self._refuse(each, CallCancelled())
            self._check(ticket)
            self._waiting.setdefault(ticket.address, OrderedDict()).setdefault(session, []).append(ticket)
            self._grant()
        return ticket

    def wait(self, ticket: _Ticket) -> None:
        """Wait for the place of a ticket. Errors: Busy, CallCancelled."""
        with self._lock:
            ticket.ready = True
            self._grant()
        waited = 0.0
        while True:
            try:
                return ticket.granted.result(TICK_S)
            except NotInTime:
                if ticket.granted.done():
                    continue
                waited += TICK_S
                self.tick(ticket, waited)

    def tick(self, ticket: _Ticket, waited_s: float) -> None:
        """Look after a ticket that has waited so long: the older call of its lane, its own end, the bound of waiting."""
        with self._lock:
            older = self._lanes.get(ticket.lane) if ticket.lane else None
            if ticket.running or ticket.granted.done():
                return
            if older is not None and ticket.after_s is not None and waited_s >= ticket.after_s:
                older.cancel.set()
            if ticket.cancel.is_set():
                self._refuse(ticket, CallCancelled())
            elif waited_s >= self.bounds.wait_s:
                self._refuse(ticket, self._busy(f"no place came free within {self.bounds.wait_s:g} s"))

    def cancel(self, ticket: _Ticket) -> None:
        """Give a call up: it leaves the queue, or what it runs is told to stop."""
        ticket.cancel.set()
        with self._lock:
            if not ticket.running and not ticket.granted.done():
                self._refuse(ticket, CallCancelled())

    def drop_unheard(self, ticket: _Ticket) -> None:
        """Give a call up whose client never came for the answer."""
        with self._lock:
            self.unheard += 1
        self.cancel(ticket)

    def cancel_session(self, address: str, session: str, lane: str | None = None) -> None:
        """Give up what a session asked: all, or what waits in one of its lanes."""
        with self._lock:
            for ticket in self._of(address, session):
                if lane is None or (ticket.lane is not None and ticket.lane[2] == lane):
                    ticket.cancel.set()
                    self._refuse(ticket, CallCancelled())
            running = [ticket for key, ticket in self._lanes.items() if lane is None and key[:2] == (address, session)]
        for ticket in running:
            ticket.cancel.set()

    def leave(self, ticket: _Ticket) -> None:
        """Give the place back, or up."""
        with self._lock:
            if ticket.running:
                self._stop(ticket)
            elif not ticket.granted.done():
                self._refuse(ticket, CallCancelled())
            self._grant()

    def give_way(self, ticket: _Ticket) -> None:
        """Give the place back to whoever waits and wait for another, before the next part of a long call.

        Errors: Busy, CallCancelled; then there is no place, until another try.
        """
        with self._lock:
            if ticket.running and not self._waiting:
                return
            if ticket.cancel.is_set():
                raise CallCancelled
            if ticket.running:
                self._stop(ticket)
            ticket.granted = Future()
            self._waiting.setdefault(ticket.address, OrderedDict()).setdefault(ticket.session, []).append(ticket)
            self._grant()
        self.wait(ticket)

    def waits(self, address: str, session: str, lane: str) -> dict[str, Any] | None:
        """Say why a session's call of that lane waits for a place and how many calls of its address were there before it;
        None where none waits. `why`: "own" where as many of its address run as may, "others" where all places are taken.
        """
        with self._lock:
            own = [ticket for queue in self._waiting.get(address, {}).values() for ticket in queue]
            mine = next((each for each in own if each.session == session and each.lane and each.lane[2] == lane), None)
            if mine is None:
                return None
            most_address, most_session = self._most[mine.pool]
            full = self._running[("address", mine.pool, address)] >= most_address
            full = full or self._running[("session", mine.pool, address, session)] >= most_session
            full = full or mine.lane in self._lanes
            before = sum(each.number < mine.number for each in own)
            return {"why": "own" if full else "others", "before": before}

    def retry_s(self) -> int:
        """Say in how many seconds another try is worth it."""
        waiting = sum(1 for _ticket in self._all())
        return min(10, 1 + math.ceil(waiting / (2 * self.bounds.places)))

    def status(self) -> dict[str, int]:
        """Count the calls that run and wait, those admitted, refused and dropped unheard since the start."""
        with self._lock:
            running = {pool: self._running[("pool", pool)] for pool in self._places}
            waiting = sum(1 for _ticket in self._all())
        return {
            "running": running[PAGE],
            "running_model": running[MODEL],
            "waiting": waiting,
            "admitted": self.admitted,
            "refused": self.refused,
            "unheard": self.unheard,
        }

    # ---- with the lock held ---------------------------------------------------------------------------------------

    def _all(self) -> Iterator[_Ticket]:
        for sessions in self._waiting.values():
            for queue in sessions.values():
                yield from queue

    def _of(self, address: str, session: str) -> list[_Ticket]:
        sessions: Mapping[str, list[_Ticket]] = self._waiting.get(address, {})
        return list(sessions.get(session, ()))

    def _check(self, ticket: _Ticket) -> None:
        """Errors: Busy."""
        own = self._waiting.get(ticket.address, OrderedDict())
        of_address = sum(map(len, own.values()))
        if len(own.get(ticket.session, ())) >= self.bounds.session_waiting:
            raise self._busy(f"this page already has {self.bounds.session_waiting} questions waiting")
        if of_address >= self.bounds.address_waiting:
            raise self._busy(f"{self.bounds.address_waiting} questions from your address are already waiting")
        if sum(1 for _each in self._all()) >= self.bounds.waiting:
            heaviest = max(self._waiting.values(), key=lambda sessions: sum(map(len, sessions.values())))
            most = max(heaviest.values(), key=len)
            if sum(map(len, heaviest.values())) <= of_address + 1:
                raise self._busy(f"{self.bounds.waiting} questions are waiting")
            self._refuse(most[-1], self._busy("others had to be let in"))

    def _busy(self, why: str) -> InspectorError:
        self.refused += 1
        return busy(why)

    def _refuse(self, ticket: _Ticket, error: Exception) -> None:
        self._forget(ticket)
        if not ticket.granted.done():
            ticket.granted.set_exception(error)

    def _forget(self, ticket: _Ticket) -> None:
        sessions = self._waiting.get(ticket.address)
        if sessions is None or ticket.session not in sessions:
            return
        sessions[ticket.session] = [each for each in sessions[ticket.session] if each is not ticket]
        if not sessions[ticket.session]:
            del sessions[ticket.session]
        if not sessions:
            del self._waiting[ticket.address]

    def _grant(self) -> None:
        while (ticket := self._next()) is not None:
            self._waiting[ticket.address].move_to_end(ticket.session)
            self._waiting.move_to_end(ticket.address)
            self._forget(ticket)
            ticket.running = True
            if ticket.lane:
                self._lanes[ticket.lane] = ticket
            self._running.update(_counted(ticket))
            self.admitted += 1
            ticket.granted.set_result(None)

    def _stop(self, ticket: _Ticket) -> None:
        ticket.running = False
        if ticket.lane:
            self._lanes.pop(ticket.lane, None)
        for key in _counted(ticket):
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    def _next(self) -> _Ticket | None:
        if sum(self._running[("pool", pool)] for pool in self._places) >= self.bounds.children:
            return None
        free = {pool for pool, places in self._places.items() if self._running[("pool", pool)] < places}
        if not free:
            return None
        for address, sessions in self._waiting.items():
            pools = {pool for pool in free if self._running[("address", pool, address)] < self._most[pool][0]}
            for session, queue in sessions.items() if pools else ():
                open_to = {
                    pool for pool in pools if self._running[("session", pool, address, session)] < self._most[pool][1]
                }
                for ticket in queue if open_to else ():
                    if (
                        ticket.ready
                        and ticket.pool in open_to
                        and (ticket.lane is None or ticket.lane not in self._lanes)
                    ):
                        return ticket
        return None


def _counted(ticket: _Ticket) -> tuple[tuple[str, ...], ...]:
    of_pool = ("pool", ticket.pool)
    return of_pool, ("address", ticket.pool, ticket.address), ("session", ticket.pool, ticket.address, ticket.session)


def busy(why: str) -> InspectorError:
    """Make the error of a call that was not admitted."""
    return InspectorError(
        ErrorKind.Busy,
        f"the page is busy: {why}",
        stage="sandbox",
        where={"limit": "admission"},
        remedy="try again in a moment",
    )


def too_large(size: int | None, limit: int) -> InspectorError:
    """Make the error of a request whose body is over the limit."""
    given = "more than that" if size is None else f"{size:,}"
    return InspectorError(
        ErrorKind.InputTooLarge,
        f"the request's limit is {limit:,} bytes, and it has {given}",
        stage="request",
        where={"limit": limit},
        remedy="send fewer or shorter messages",
    )
