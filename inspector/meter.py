"""What a child of the sandbox is at, and the clock that it runs against.

The pipeline says when it renders a template and load_tokenizer when it loads one; in a process that is no child that
costs nothing. In a child (zygote.py) the caller is told, so that an error can name the template or tokenizer, and
loading has its own time beside the request's, over all tokenizers of one request.

Of CPU time there are three clocks, each a little later than the one before: a Python handler that still says at which
line of the template the time ran out, a signal that kills (SIGVTALRM), and the kernel's own limit in whole seconds
(RLIMIT_CPU). Of wall time there are two: the same handler, and the caller, who kills. What holds the interpreter in native
code meets the second one of each. The handler ends the child too: nothing here lets one run on.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.limits import Limits, in_force, or_raise
from inspector.processes import Frame, pack_frame

EXIT_TIME = 72  # how a child ends whose time ran out and that could not say so
GRACE_S = 0.2  # from the handler's clock of CPU time to the one that kills
CALLER_GRACE_S = 0.4  # likewise of wall time: where the machine is busy the child may have to wait for its turn
MOST_TOLD = 64  # renders of one request that the caller is told of; then it is told nothing more of them
MOST_CHARS = 200

TEMPLATE, TOKENIZER = "template", "tokenizer"


@dataclass(frozen=True, slots=True)
class Activity:
    """What a request is at: `what` is "template", "tokenizer" or "", `name` which one."""

    what: str = ""
    name: str = ""

    def to_bytes(self) -> bytes:
        """Write it for the caller."""
        return json.dumps([self.what, self.name[:MOST_CHARS]]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Activity:
        """Read what a child wrote, who may be hostile.

        Errors: ValueError.
        """
        found = json.loads(data) if len(data) < 10 * MOST_CHARS else None
        if not isinstance(found, list) or len(found) != 2 or not all(isinstance(text, str) for text in found):
            raise ValueError("not an activity")
        what, name = found
        printable = "".join(char if char.isprintable() else "\ufffd" for char in name[:MOST_CHARS])
        return cls(what if what in (TEMPLATE, TOKENIZER) else "", printable)


NOTHING = Activity()
_meter: Meter | None = None


@contextlib.contextmanager
def rendering(name: str) -> Iterator[None]:
    """Say that the template of this name is rendered.

    Errors: MemoryLimit with the limit, in a child, where the render itself only knows that no memory was left.
    """
    try:
        with _during(Activity(TEMPLATE, name)):
            yield
    except InspectorError as error:
        if error.kind is not ErrorKind.MemoryLimit or _meter is None:
            raise
        for each in (error, error.__cause__, error.__context__):  # their frames hold what filled the memory
            traceback.clear_frames(each.__traceback__ if each is not None else None)
        raise memory_limit(name, error) from None


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
    """Say that the tokenizer of this name is loaded: that has time of its own."""
    with _during(Activity(TOKENIZER, name)):
        yield


@contextlib.contextmanager
def _during(activity: Activity) -> Iterator[None]:
    meter = _meter
    if meter is None:
        yield
        return
    before = meter.activity
    meter.turn_to(activity)
    try:
        yield
    finally:
        meter.turn_to(before)


class Clock:
    """When a request's time ends by one clock, and what loading tokenizers has left besides."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.ends = self._load_left = self._load_began = 0.0

    def start(self, seconds: float, load: float) -> None:
        """Begin a request that has so many seconds, and so many more for loading."""
        self.ends, self._load_left = self._now() + seconds, load

    def left(self) -> float:
        """Give the seconds until the end: a timer takes no 0."""
        return max(0.001, self.ends - self._now())

    def turn(self, was: Activity, activity: Activity) -> None:
        """Put off the end by what loading may take, and take back what it left."""
        now = self._now()
        if was.what == TOKENIZER:
            used = min(now - self._load_began, self._load_left)
            self.ends -= self._load_left - used
            self._load_left -= used
        if activity.what == TOKENIZER:
            self._load_began = now
            self.ends += self._load_left


class Meter:
    """The clock of this process, which is a child."""

    def __init__(self, sock: socket.socket) -> None:
        global _meter
        self.activity = Activity()
        self._sock = sock
        self._running = self._sending = False
        self._limits: Limits | None = None
        self._cpu, self._wall = Clock(time.process_time), Clock(time.monotonic)
        self._told = 0
        signal.signal(signal.SIGPROF, self._ran_out)
        signal.signal(signal.SIGALRM, self._ran_out)
        _meter = self

    def start(self, limits: Limits, *, once: bool) -> None:
        """Start the clock of a request. `once`: no request follows, so the kernel's limit may be final."""
        self._limits, self._told, self.activity = limits, 0, Activity()
        self._cpu.start(limits.cpu_s, limits.load_cpu_s)
        self._wall.start(limits.wall_s, limits.load_wall_s)
        self._running = True
        self._arm(final=self._cpu.ends + limits.load_cpu_s if once else None)

    def stop(self) -> None:
        """Stop the clock before the answer is sent."""
        self._running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def turn_to(self, activity: Activity) -> None:
        """Begin something else: tell the caller, and set the clock for it."""
        if not self._running or activity == self.activity:
            return
        was, self.activity = self.activity, activity
        if TOKENIZER in (was.what, activity.what):
            for clock in (self._cpu, self._wall):
                clock.turn(was, activity)
            self._arm()
        self._tell(was)

    def _tell(self, was: Activity) -> None:
        loads = TOKENIZER in (was.what, self.activity.what)
        if not loads and self._told > MOST_TOLD:
            return
        known = self.activity if loads or self._told < MOST_TOLD else Activity()
        self._told += not loads
        self._sending = True
        self._sock.sendall(pack_frame(Frame.DOING, known.to_bytes()))
        self._sending = False

    def _arm(self, final: float | None = None) -> None:
        """Set the clocks of this process; `final`: CPU seconds that nothing moves any more."""
        import resource

        left = self._cpu.left()
        signal.setitimer(signal.ITIMER_PROF, left)
        signal.setitimer(signal.ITIMER_VIRTUAL, left + GRACE_S)
        signal.setitimer(signal.ITIMER_REAL, self._wall.left())
        soft = math.ceil(self._cpu.ends + GRACE_S)
        try:
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            if final is not None:
                hard = math.ceil(final + GRACE_S) + 1
            if hard != resource.RLIM_INFINITY:
                soft = min(soft, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise

    def _ran_out(self, number: int, frame: FrameType | None) -> None:
        """Say where the time ran out, and end."""
        if not self._running:
            return
        try:
            if not self._sending and self._limits is not None:
                limit = cpu_limit if number == signal.SIGPROF else wall_limit
                error = limit(self._limits, self.activity, _template_line(frame))
                self._sock.sendall(pack_frame(Frame.ERROR, json.dumps(error.to_dict()).encode()))
        finally:
            os._exit(EXIT_TIME)


def _template_line(frame: FrameType | None) -> int | None:
    """Give the line of the template whose compiled code is on the stack."""
    while frame is not None:
        if frame.f_code.co_filename == "<template>":
            template, line = frame.f_globals.get("__jinja_template__"), frame.f_lineno
            return None if template is None or line is None else int(template.get_corresponding_lineno(line))
        frame = frame.f_back
    return None


# --------------------------------------------------------------------------------- errors, of the child and its caller


def cpu_limit(limits: Limits, activity: Activity, line: int | None = None) -> InspectorError:
    """Make the error of a request whose CPU time ran out."""
    if activity.what == TOKENIZER:
        message = f"loading the tokenizer {activity.name} used up its {limits.load_cpu_s:g} s of CPU time"
        return _time_limit("load_cpu_s", activity, message)
    if activity.what == TEMPLATE:
        at = "" if line is None else f" and was at line {line}"
        message = f"the template {activity.name} used up all of the request's {limits.cpu_s:g} s of CPU time{at}"
        return _time_limit(_setting(limits, "cpu_s"), activity, message, line)
    message = f"the request used up all of its {limits.cpu_s:g} s of CPU time"
    return _time_limit(_setting(limits, "cpu_s"), activity, message)


def wall_limit(limits: Limits, activity: Activity, line: int | None = None) -> InspectorError:
    """Make the error of a request that took too long."""
    if activity.what == TOKENIZER:
        message = f"loading the tokenizer {activity.name} took longer than the limit of {limits.load_wall_s:g} s"
        return _time_limit("load_wall_s", activity, message)
    if activity.what == TEMPLATE:
        at = "" if line is None else f" and was at line {line}"
        message = f"the template {activity.name} took longer than the request's limit of {limits.wall_s:g} s{at}"
    else:
        message = f"the request took longer than the limit of {limits.wall_s:g} s"
    return _time_limit(_setting(limits, "wall_s"), activity, message, line)


def _setting(limits: Limits, name: str) -> str:
    """Name the field that a request's time is from: heavy jobs have another (Limits.for_job)."""
    heavy = f"heavy_{name}"
    return heavy if getattr(limits, name) == getattr(limits, heavy) else name


def memory_limit(template: str, error: InspectorError) -> InspectorError:
    """Say in the error of a template that found no more memory how much a child has."""
    return InspectorError(
        ErrorKind.MemoryLimit,
        f"the template {template} needs more than the limit of {in_force().memory_mb:,} MiB of memory",
        stage=error.stage,
        where=error.where | {"template": template, "limit": "memory_mb"},
        remedy=or_raise(error.remedy, "memory_mb"),
    )


_REMEDIES = {
    TEMPLATE: "make the template's loops or the conversation smaller",
    TOKENIZER: "use a smaller tokenizer file",
    "": "make the input smaller",
}


def _time_limit(name: str, activity: Activity, message: str, line: int | None = None) -> InspectorError:
    where: dict[str, Any] = {} if line is None else {"line": line}
    if activity.what:
        where[activity.what] = activity.name
    remedy = _REMEDIES[activity.what]
    if name.endswith("wall_s"):
        remedy += ", try again when the machine is less busy"
    return InspectorError(
        ErrorKind.TimeLimit,
        message,
        stage={TEMPLATE: "render", TOKENIZER: "encode"}.get(activity.what, "sandbox"),
        where=where | {"limit": name},
        remedy=or_raise(remedy, name),
    )
