"""Run the jobs of jobs.py in forked children with limits, so that no hostile template or file is parsed in this process.

`Sandbox.start()` launches a *zygote*: a fresh single-threaded interpreter with a scrubbed environment that preloads
the template and tokenizer code and then forks one child for each request, or keeps one child for each session.

    caller ──fork, kill, reap (fixed records, SCM_RIGHTS)──▶ zygote ──fork──▶ child
       └───────────────────one framed request, one framed answer──────────────▶┘

The caller keeps the wall clock and owns the child's socket; the zygote is the child's parent, kills and reaps it, and
reports how it ended; the child carries the rlimits. A death becomes a typed `InspectorError`, never an exception of
this process. When the caller dies, the zygote reads EOF and ends; when the zygote dies, the kernel ends the children.

A child may read the interpreter, this package, the cache's artifacts and what its call names beside (`readable`: the
uploads of one page), or with `own_files` the files of the person at this machine; it has no network and starts no process (confinement.py; `status()` says what of it this system has). It runs
nothing that is not in the job table, and the caller unpickles nothing that a child sent.
The far side is zygote.py.

A subprocess, not os.fork: it is sound whatever threads the caller has, and it warms up while the caller goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import itertools
import json
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from inspector.confinement import ARTIFACTS, readable_places
from inspector.errors import ErrorKind, InspectorError
from inspector.jobs import JOBS
from inspector.limits import LOCAL, MIB, Limits, or_raise
from inspector.limits import to_dict as limits_dict
from inspector.meter import CALLER_GRACE_S, EXIT_TIME, NOTHING, Activity, Clock, cpu_limit, wall_limit
from inspector.processes import (
    ENVIRONMENT_NAMES,
    ENVIRONMENT_PREFIXES,
    ENVIRONMENT_SET,
    FRAME,
    Frame,
    allowed_environment,
    boot_command,
    pack_frame,
    read_exactly,
)
from inspector.sources.cache import cache_dir
from inspector.zygote import EXIT_MEMORY, FORK, REAP, RECORD, RELEASE, REPORT, answer_too_large, memory_limit

# All that a job imports: what is missing here, every fresh child imports again. No torch among it.
PRELOAD = (
    "transformers.utils.chat_template_utils",
    "tokenizers",
    "inspector.jobs",
    "inspector.answers",
    "inspector.pipeline",
    "inspector.comparison",
    "inspector.openai_count",
    "inspector.media.families",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "inspector.tokenizers.fast",
    "inspector.tokenizers.gguf",
    "inspector.tokenizers.tiktoken_ranks",
    "inspector.ui.payload",
    "inspector.ui.views.record",
)

START_S = 60.0  # from asking for a child to its first byte; covers the zygote's own start on a slow disk
FORK_S = 8.0  # the same of a zygote that has been ready before: longer, and it hangs
REAP_S = 5.0
MOST_NOTES = 1000  # of what it is at, from one child in one request
TICK_S = 0.05  # how often a cancellation is looked at
STDERR_TAIL = 8192
PING_S = 1.0  # how long `status` waits for the zygote


class CallCancelled(Exception):
    """The caller gave the call up, or a newer `supersede` call of the same session took its place."""


class _ZygoteGone(Exception):
    """The zygote does not answer any more; its children are gone with it."""


class _NotBegun(Exception):
    """The child ended before it began the job: that may be run again. `error` says how it ended."""

    def __init__(self, error: InspectorError) -> None:
        self.error = error


class _Zygote:
    """The zygote process as its caller sees it. Thread-safe."""

    def __init__(
        self,
        jobs: Mapping[str, str],
        preload: tuple[str, ...],
        warm: str | None,
        own_files: bool,
        tokenizers: tuple[str, ...],
    ) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._broken = False  # its socket failed: it is dead or dying, whatever the process table still says
        self._ctl, theirs = socket.socketpair()
        self._ctl.settimeout(REAP_S)
        self._asked = False  # a ping that was not answered yet
        self.ready = False  # it has answered once
        cache = cache_dir()
        with contextlib.suppress(OSError):
            (cache / ARTIFACTS).mkdir(
                parents=True, exist_ok=True
            )  # a child can be let into a folder only if it is there
        config = {
            "ctl": theirs.fileno(),
            "jobs": dict(jobs),
            "preload": preload,
            "warm": warm,
            "tokenizers": tokenizers,
            "readable": readable_places(str(cache), own_files=own_files),
            "withheld": "" if own_files else str(cache),
        }
        try:
            self.process = subprocess.Popen(
                boot_command("inspector.zygote", "zygote_main", config),
                env=allowed_environment(ENVIRONMENT_NAMES, ENVIRONMENT_PREFIXES, ENVIRONMENT_SET),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the caller's business
                cwd="/",
            )
        finally:
            theirs.close()

    def alive(self) -> bool:
        return not self._broken and self.process.poll() is None

    def fork(self, once: bool, limits: Limits, readable: tuple[str, ...]) -> _Child:
        """Ask for a child; its HELLO comes over its own socket."""
        ours, theirs = socket.socketpair()
        stderr_read, stderr_write = os.pipe()
        number = next(self._numbers)
        try:
            with self._lock:
                self._ctl.settimeout(REAP_S)
                socket.send_fds(self._ctl, [RECORD.pack(FORK, number)], [theirs.fileno(), stderr_write])
        except OSError as fault:
            ours.close()
            os.close(stderr_read)
            self._give_up()
            raise _ZygoteGone from fault
        finally:
            theirs.close()
            os.close(stderr_write)
        ours.setblocking(False)
        os.set_blocking(stderr_read, False)
        return _Child(self, number, ours, stderr_read, limits, once, readable)

    def reap(self, number: int, timeout_s: float = REAP_S) -> tuple[int, float]:
        """Kill and reap a child; gives its wait status and CPU seconds."""
        with self._lock:
            try:
                self._ctl.settimeout(timeout_s)
                self._ctl.sendall(RECORD.pack(REAP, number))
                found = -1
                while found != number:  # answers to pings come before it
                    found, status, cpu_s = REPORT.unpack(read_exactly(self._ctl, REPORT.size))
                self.ready = True
                return status, cpu_s
            except (OSError, EOFError) as fault:
                self._give_up()
                raise _ZygoteGone from fault

    def answers(self, timeout_s: float) -> bool:
        """Say whether it answers in time. One that does not is left alone: it may be slow, and the next call finds out."""
        ends = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            return False
        try:
            if not self._asked:
                self._ctl.settimeout(timeout_s)
                self._ctl.sendall(RECORD.pack(REAP, 0))  # there is no child 0
                self._asked = True
            self._ctl.settimeout(max(0.01, ends - time.monotonic()))
            self._asked = len(self._ctl.recv(REPORT.size, socket.MSG_PEEK)) < REPORT.size
            if not self._asked:
                read_exactly(self._ctl, REPORT.size)
            return not self._asked
        except (OSError, EOFError):
            return False
        finally:
            self._lock.release()

    def release(self, number: int) -> None:
        """Have a child killed and reaped without waiting for it."""
        with self._lock:
            try:
                self._ctl.settimeout(REAP_S)
                self._ctl.sendall(RECORD.pack(RELEASE, number))
            except OSError:
                self._give_up()

    def _give_up(self) -> None:
        """End a zygote that is out of step: a report that comes late would answer the wrong question."""
        self._broken = True
        with contextlib.suppress(OSError):
            self.process.kill()

    def close(self) -> None:
        """End the zygote and with it every child."""
        with self._lock:
            self._ctl.close()
        try:
            self.process.wait(REAP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True, eq=False)
class _Child:
    """One forked child: the caller's ends of its socket and of its standard error."""

    zygote: _Zygote
    number: int
    sock: socket.socket
    stderr: int
    limits: Limits
    once: bool
    readable: tuple[str, ...]
    pid: int | None = None
    calls: int = 0
    used_at: float = 0.0

    def usable(self, limits: Limits, readable: tuple[str, ...], zygote: _Zygote) -> bool:
        """True if the warm child may take another request under these limits."""
        held = (limits.memory_mb, limits.max_files) == (self.limits.memory_mb, self.limits.max_files)
        same = (
            self.zygote is zygote and held and self.readable == readable
        )  # what cannot be raised again; the rest comes with each request
        fresh = self.calls < limits.max_calls and time.monotonic() - self.used_at < limits.idle_s
        return same and fresh and not self.hung_up()

    def hung_up(self) -> bool:
        """A warm child says nothing between requests: readable means dead, or out of step."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Kill it, close our ends, and let the zygote reap it in its own time."""
        if self.pid is not None and self.zygote.alive():  # not reaped yet: the number is its own still
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self.sock.close()
        if self.stderr >= 0:
            os.close(self.stderr)
            self.stderr = -1
        self.zygote.release(self.number)
        self._reap_orphan()

    def _reap_orphan(self) -> None:
        """Reap what a dead zygote left to us, where we are process 1 and nobody else does."""
        if self.pid is not None and not self.zygote.alive() and os.getpid() == 1:
            deadline = time.monotonic() + 1
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                    time.sleep(0.01)


class _Ending(enum.Enum):
    """How an exchange with a child ended."""

    ANSWERED = "answered"
    WALL = "the wall clock ran out"
    CANCELLED = "the caller gave it up"
    OVERSIZE = "it announced more than it may answer"
    GARBLED = "it does not keep to the protocol"
    DIED = "its socket was closed"
    NOT_BEGUN = "its socket was closed before it began the job"
    NOT_STARTED = "it never said hello"


class _Exchange:
    """One request to a child and its answer, under a wall clock. Reads standard error all along, keeps its tail."""

    def __init__(self, child: _Child, request: bytes, limits: Limits, stop: Callable[[], bool] | None) -> None:
        self.child, self.limits, self.stop = child, limits, stop
        told = b"" if child.pid is not None else pack_frame(Frame.READABLE, json.dumps(child.readable).encode())
        self.unsent = memoryview(told + request)
        self.received = bytearray()
        self.stderr_tail = b""
        self.begun = False
        self.activity, self.notes = Activity(), 0
        self.kind, self.body, self.size = 0, b"", 0
        self.poll = select.poll()
        self.poll.register(child.sock, select.POLLIN | select.POLLOUT)
        self.poll.register(child.stderr, select.POLLIN)
        self.clock = Clock(time.monotonic)
        self._start_clock(
            (FORK_S if child.zygote.ready else START_S) if child.pid is None else limits.wall_s + CALLER_GRACE_S
        )

    def _start_clock(self, seconds: float) -> None:
        self.clock.start(seconds, self.limits.load_wall_s)

    def run(self) -> _Ending:
        """Drive the exchange to its end."""
        while True:
            if self.stop and self.stop():
                return _Ending.CANCELLED
            left = self.clock.ends - time.monotonic()
            if left <= 0:
                return _Ending.NOT_STARTED if self.child.pid is None else _Ending.WALL
            for fd, event in self.poll.poll(1000 * (min(left, TICK_S) if self.stop else left)):
                if fd == self.child.stderr:
                    self._read_stderr()
                elif ending := self._step(event):
                    return ending

    def _step(self, event: int) -> _Ending | None:
        try:
            if event & select.POLLOUT and self.unsent:
                self.unsent = self.unsent[self.child.sock.send(self.unsent[:MIB]) :]
            if not self.unsent:
                self.poll.modify(self.child.sock, select.POLLIN)
            if event & (select.POLLIN | select.POLLHUP | select.POLLERR):
                return self._receive()
        except BlockingIOError:
            return None
        except OSError:
            return self._died()
        return None

    def _receive(self) -> _Ending | None:
        data = self.child.sock.recv(MIB)
        if not data:
            return self._died()
        self.received += data
        while len(self.received) >= FRAME.size:
            self.kind, self.size = FRAME.unpack_from(self.received)
            if self.size > self.limits.answer_bytes + MIB:  # an ERROR frame may be larger than a tiny answer bound
                return _Ending.OVERSIZE
            if len(self.received) < FRAME.size + self.size:
                return None
            body = bytes(memoryview(self.received)[FRAME.size : FRAME.size + self.size])
            del self.received[: FRAME.size + self.size]
            if self.child.pid is not None and self.kind == Frame.BEGUN and not self.begun:
                self.begun = True
                continue
            if self.begun and self.kind == Frame.DOING:
                if not self._told(body):
                    return _Ending.GARBLED
                continue
            if self.child.pid is not None:
                self.body = body
                return _Ending.ANSWERED
            (self.child.pid,) = struct.unpack("!I", body)
            self.child.zygote.ready = True
            self._start_clock(self.limits.wall_s + CALLER_GRACE_S)
        return None

    def _told(self, body: bytes) -> bool:
        """Take note of what the child is at; loading a tokenizer has time of its own, over all of the request's."""
        try:
            was, self.activity = self.activity, Activity.from_bytes(body)
        except (ValueError, RecursionError):
            return False
        self.clock.turn(was, self.activity)
        self.notes += 1
        return self.notes <= MOST_NOTES

    def _read_stderr(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.child.stderr, 65536)
            self.stderr_tail = (self.stderr_tail + data)[-STDERR_TAIL:]
            if not data:
                self.poll.unregister(self.child.stderr)

    def _died(self) -> _Ending:
        with contextlib.suppress(KeyError, OSError):
            self._read_stderr()
        if self.child.pid is None:
            return _Ending.NOT_STARTED
        return _Ending.DIED if self.begun else _Ending.NOT_BEGUN


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of a child: the frames, and the folders that it may read beside what all may."""

    framed: bytes
    readable: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Session:
    """A session's warm child and the calls that wait for it."""

    child: _Child | None = None
    busy: bool = False
    waiting: int = 0
    newest: int = 0  # ticket of the newest supersede call
    newest_at: float = 0.0


class Sandbox:
    """Runs jobs in children. Thread-safe; one for a process is enough."""

    def __init__(
        self,
        limits: Limits,
        jobs: Mapping[str, str],
        preload: tuple[str, ...],
        warm: str | None,
        own_files: bool,
        tokenizers: tuple[str, ...] = (),
    ) -> None:
        self.limits = limits
        self.jobs = dict(jobs)
        self.restarts = 0
        self._start = (self.jobs, preload, warm, own_files, tokenizers)
        self._changed = threading.Condition()  # guards all that follows
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # least recently used first
        self._live = 0
        self._closed = False
        self._facts: dict[str, Any] | None = None  # what the self-test said, of the zygote `_tested`
        self._tested: _Zygote | None = None
        self._sweeper: threading.Thread | None = None
        self._zygote = _Zygote(*self._start)

    @classmethod
    def start(
        cls,
        limits: Limits = LOCAL,
        *,
        jobs: Mapping[str, str] = JOBS,
        preload: tuple[str, ...] = PRELOAD,
        warm: str | None = "inspector.jobs:warm",
        own_files: bool = False,
        tokenizers: tuple[str, ...] = (),
    ) -> Sandbox:
        """Launch the zygote and return at once; it warms up meanwhile, and the first call waits for it.

        `own_files`: the children may read this machine's files, because the person at it names them; never for others.
        `tokenizers`: presets that the zygote loads if their files are here, so that every child has them.
        """
        sandbox = cls(limits, jobs, preload, warm, own_files, tokenizers)
        atexit.register(sandbox.close)
        return sandbox

    def call(
        self,
        job: str,
        payload: bytes,
        *,
        session: str | None = None,
        wall_s: float | None = None,
        limits: Limits | None = None,
        cancel: threading.Event | None = None,
        supersede: bool = False,
        readable: Sequence[str] = (),
    ) -> bytes:
        """Run `job` of the table on `payload` in a child and give its answer.

        Without `session` the child is fresh and ends with the answer. With it, the session's own child answers, one
        request at a time, and stays warm until it is idle for `idle_s`, has had `max_calls` requests, ran into a
        limit, died, or was the least recently used when a child was needed.

        `supersede` is for live typing (the latest wins): of the session's waiting calls only the newest is run. A call
        that already runs is left to finish, because killing it would also throw away the caches it has loaded; only
        after `supersede_after_s` is it killed. The older calls raise `CallCancelled`.

        `readable`: folders that this call's child may read beside what all may; a session's child that may read others
        gives way to a new one.

        Errors: InspectorError of the job itself, or TimeLimit, MemoryLimit, RecursionLimit, OutputTooLarge,
        InputTooLarge, WorkerCrashed; CallCancelled.
        """
        limits = (limits or self.limits).for_job(job)
        limits = replace(limits, wall_s=wall_s) if wall_s is not None else limits
        if job not in self.jobs:
            raise ValueError(f"no job {job!r} in the job table")
        if len(payload) > limits.payload_bytes:
            raise _input_too_large(len(payload), limits.payload_bytes)
        request = _Request(_pack_request(job, payload, limits, once=session is None), tuple(readable))
        if session is None:
            return self._with_new_zygote(lambda: self._call_fresh(request, limits, cancel))
        with self._turn(session, limits, cancel, supersede) as (state, stop):
            return self._with_new_zygote(lambda: self._call_session(state, request, limits, stop))

    def _with_new_zygote(self, attempt: Callable[[], bytes]) -> bytes:
        """Run the attempt; once more if the zygote or the child turned out to be gone before the job began."""
        with contextlib.suppress(_ZygoteGone, _NotBegun):
            return attempt()
        try:
            return attempt()
        except _ZygoteGone:
            raise _cannot_start() from None
        except _NotBegun as gone:
            raise gone.error from None

    def _call_fresh(self, request: _Request, limits: Limits, cancel: threading.Event | None) -> bytes:
        stop = cancel.is_set if cancel else None
        child = self._new_child(limits, stop, request.readable, once=True)
        try:
            return self._exchange(child, request.framed, limits, stop)
        finally:
            self._drop(child)

    def _call_session(
        self, state: _Session, request: _Request, limits: Limits, stop: Callable[[], bool] | None
    ) -> bytes:
        if state.child and not (self._zygote.alive() and state.child.usable(limits, request.readable, self._zygote)):
            self._retire(state)
        used = state.child is not None and state.child.calls > 0
        began = time.monotonic()
        try:
            return self._ask_session(state, request, limits, stop)
        except InspectorError as error:
            left = limits.wall_s - (time.monotonic() - began)
            if error.kind is not ErrorKind.MemoryLimit or not used or left <= 0:
                raise
        # What the child had kept of earlier requests may have filled it: once more in a new one, in the time that is left.
        return self._ask_session(state, request, replace(limits, wall_s=left), stop)

    def _ask_session(
        self, state: _Session, request: _Request, limits: Limits, stop: Callable[[], bool] | None
    ) -> bytes:
        if state.child is None:
            state.child = self._new_child(limits, stop, request.readable, once=False)
        try:
            return self._exchange(state.child, request.framed, limits, stop)
        except InspectorError as error:
            if error.stage == "sandbox" or error.kind.exit_code == 4:
                self._retire(state)
            raise
        except BaseException:
            self._retire(state)
            raise
        finally:
            if state.child:
                state.child.calls += 1
                state.child.used_at = time.monotonic()

    @contextlib.contextmanager
    def _turn(
        self, session: str, limits: Limits, cancel: threading.Event | None, supersede: bool
    ) -> Iterator[tuple[_Session, Callable[[], bool] | None]]:
        """Wait until no other call of the session runs."""
        with self._changed:
            state = self._sessions.setdefault(session, _Session())
            self._sessions.move_to_end(session)
            if supersede:
                state.newest += 1
                state.newest_at = time.monotonic()
                self._changed.notify_all()
            ticket = state.newest if supersede else math.inf
            state.waiting += 1
            try:
                while state.busy:
                    if ticket < state.newest or (cancel and cancel.is_set()):
                        raise CallCancelled
                    self._changed.wait(TICK_S if cancel else None)
                if ticket < state.newest:
                    raise CallCancelled
                state.busy = True
            finally:
                state.waiting -= 1
                self._forget_if_empty(session, state)

        def stop() -> bool:
            stale = ticket < state.newest and time.monotonic() - state.newest_at > limits.supersede_after_s
            return stale or bool(cancel and cancel.is_set())

        try:
            yield state, stop if supersede or cancel else None
        finally:
            with self._changed:
                state.busy = False
                self._forget_if_empty(session, state)
                self._start_sweeper()
                self._changed.notify_all()

    def _forget_if_empty(self, session: str, state: _Session) -> None:
        if state.child is None and not state.busy and not state.waiting and self._sessions.get(session) is state:
            del self._sessions[session]

    def _exchange(self, child: _Child, request: bytes, limits: Limits, stop: Callable[[], bool] | None) -> bytes:
        exchange = _Exchange(child, request, limits, stop)
        ending = exchange.run()
        if ending is _Ending.ANSWERED and exchange.kind == Frame.OK and exchange.size <= limits.answer_bytes:
            return exchange.body
        if ending is _Ending.ANSWERED and exchange.kind == Frame.ERROR:
            raise _error_from_child(exchange.body)
        if ending is _Ending.CANCELLED:
            raise CallCancelled
        if ending is _Ending.WALL:
            raise wall_limit(limits, exchange.activity)
        if ending is _Ending.GARBLED:
            raise _crashed("the child does not keep to the protocol", "this is a fault of the tool: please report it")
        if ending is _Ending.OVERSIZE or ending is _Ending.ANSWERED:
            raise answer_too_large(exchange.size, limits.answer_bytes)
        raise self._death(child, ending, limits, exchange)

    def _death(self, child: _Child, ending: _Ending, limits: Limits, exchange: _Exchange) -> InspectorError:
        try:
            status, cpu_s = child.zygote.reap(child.number)
        except _ZygoteGone:
            if ending is _Ending.NOT_STARTED:
                raise  # the job never ran: the call is made again with a new zygote
            return _crashed("the sandbox's own process ended while the request ran", "try again; a new one is started")
        if ending is _Ending.NOT_STARTED:
            return _crashed("no process could be started for the request", "free memory or processes and try again")
        error = death_error(status, cpu_s, limits, exchange.stderr_tail, exchange.activity)
        if ending is _Ending.NOT_BEGUN:
            raise _NotBegun(error)
        return error

    def _new_child(
        self, limits: Limits, stop: Callable[[], bool] | None, readable: tuple[str, ...], *, once: bool
    ) -> _Child:
        """Reserve one of `children` places, retiring an idle session's child if need be, and fork."""
        deadline = time.monotonic() + max(limits.wall_s, self.limits.wall_s)
        with self._changed:
            while self._live >= self.limits.children:
                if self._evict_one():
                    continue
                if stop and stop():
                    raise CallCancelled
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _no_place(self.limits.children)
                self._changed.wait(min(left, TICK_S) if stop else left)
            zygote = self._running_zygote()
            self._live += 1
        try:
            return zygote.fork(once, limits, readable)
        except BaseException:
            self._free_place()
            raise

    def _running_zygote(self) -> _Zygote:
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        if not self._zygote.alive():
            self._zygote.close()
            self._zygote = _Zygote(*self._start)
            self.restarts += 1
            self._retire_dead()
        return self._zygote

    def _retire_dead(self) -> None:
        """Retire warm children that have ended, by themselves or with their zygote. Needs the lock."""
        for session, state in list(self._sessions.items()):
            if state.child and not state.busy and (state.child.hung_up() or state.child.zygote is not self._zygote):
                self._retire(state)
                self._forget_if_empty(session, state)

    def _evict_one(self) -> bool:
        """Retire the child of the least recently used idle session. Needs the lock."""
        for session, state in self._sessions.items():
            if state.child and not state.busy and not state.waiting:
                del self._sessions[session]
                self._retire(state)
                return True
        return False

    def _retire(self, state: _Session) -> None:
        child, state.child = state.child, None
        if child:
            self._drop(child)

    def _drop(self, child: _Child) -> None:
        child.close()
        self._free_place()

    def _free_place(self) -> None:
        with self._changed:
            self._live -= 1
            self._changed.notify_all()

    def _start_sweeper(self) -> None:
        if self._sweeper is None and not self._closed:
            self._sweeper = threading.Thread(target=self._sweep, name="sandbox-sweeper", daemon=True)
            self._sweeper.start()

    def _sweep(self) -> None:
        """Retire the children of sessions that were idle for `idle_s`."""
        with self._changed:
            while not self._closed:
                self._changed.wait(max(TICK_S, self.limits.idle_s / 4))
                old = time.monotonic() - self.limits.idle_s
                idle = [key for key, state in self._sessions.items() if state.child and not state.busy]
                for key in idle:
                    state = self._sessions[key]
                    if state.child and state.child.used_at < old and not state.waiting:
                        del self._sessions[key]
                        self._retire(state)

    def end_session(self, session: str) -> None:
        """Forget a session whose visitor has left; a call of it that still runs is left to finish."""
        with self._changed:
            state = self._sessions.get(session)
            if state and not state.busy and not state.waiting:
                del self._sessions[session]
                self._retire(state)

    def end_sessions(self, beginning: str) -> None:
        """Forget all sessions whose names begin so."""
        with self._changed:
            found = [session for session in self._sessions if session.startswith(beginning)]
        for session in found:
            self.end_session(session)

    def status(self) -> dict[str, Any]:
        """Say what isolates the children and how many there are. Runs a self-test in a child, once for each zygote.

        `rlimits` are the values really in force on a child (None: no limit); `notes` say what is missing. Where no child
        can be had, `error` says why, and what a self-test says is None.
        """
        error = self._test_once()
        zygote = self._zygote
        if error is None and zygote.ready and zygote.alive() and not zygote.answers(PING_S):
            error = _crashed(f"the sandbox's own process has not answered for {PING_S:g} s", "try again in a moment")
        facts = self._facts or {"rlimits": {}, "refused": {}, "seccomp": None, "landlock": None}
        in_force: dict[str, int | None] = facts["rlimits"]
        notes = [f"RLIMIT_{name} is not in force on this system" for name, value in in_force.items() if value is None]
        refused: dict[str, bool] = facts["refused"]
        notes += [f"{what} is not refused to the children on this system" for what, no in refused.items() if not no]
        with self._changed:
            self._retire_dead()
            warm = sum(state.child is not None for state in self._sessions.values())
            return {
                "mode": self.limits.mode.value,
                "mechanism": "zygote",
                "running": not self._closed and self._zygote.alive() and error is None,
                "error": None if error is None else error.one_line(),
                "rlimits": in_force,
                "seccomp": facts["seccomp"],
                "landlock": facts["landlock"],
                "refused": refused,
                "dies_with_parent": sys.platform == "linux",
                "limits": limits_dict(self.limits),
                "children": self._live,
                "sessions": warm,
                "restarts": self.restarts,
                "notes": notes,
            }

    def _test_once(self) -> InspectorError | None:
        """Run the self-test if this zygote has not run it; a zygote that died is started anew for it."""
        if self._closed:
            return _crashed("the sandbox is closed", "start the program again")
        zygote = self._zygote
        if self._facts is not None and self._tested is zygote and zygote.alive():
            return None
        try:
            self._facts = json.loads(self.call("self_test", b"", wall_s=self.limits.wall_s))
            self._tested = self._zygote
        except InspectorError as error:
            if (
                error.where.get("limit") == "children"
            ):  # too busy for a test: what the last one said of this system holds
                return None
            self._facts = None
            return error
        return None

    def wait_ready(self, timeout_s: float = START_S) -> None:
        """Block until the zygote has warmed up. Errors: WorkerCrashed if it cannot start."""
        try:
            self._zygote.reap(0, timeout_s)
        except _ZygoteGone:
            raise _cannot_start() from None

    def close(self) -> None:
        """End every child and the zygote. Calls that still run fail with WorkerCrashed."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            for state in self._sessions.values():
                if not state.busy:
                    self._retire(state)
            self._changed.notify_all()
        atexit.unregister(self.close)
        self._zygote.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _pack_request(job: str, payload: bytes, limits: Limits, *, once: bool) -> bytes:
    header = {"job": job, "once": once, "limits": asdict(limits)}
    return pack_frame(Frame.REQUEST, json.dumps(header).encode()) + pack_frame(Frame.PAYLOAD, payload)


# ---------------------------------------------------------------------------------------------------------- errors


def _error_from_child(body: bytes) -> InspectorError:
    """Rebuild a child's error. The child may be hostile: whatever is not an error of ours is a crash."""
    try:
        record = json.loads(body)
        texts = (record["kind"], record["message"], record["stage"], record["remedy"])
        if not all(isinstance(text, str) for text in texts) or not isinstance(record["where"], dict | None):
            raise TypeError
        return InspectorError.from_dict(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _crashed("the child's answer is not an error record", "this is a fault of the tool: please report it")


def death_error(
    status: int, cpu_s: float, limits: Limits, stderr_tail: bytes = b"", activity: Activity = NOTHING
) -> InspectorError:
    """Say why a child died, from its wait status, its CPU time and what it last wrote to standard error."""
    number = os.WTERMSIG(status) if status >= 0 and os.WIFSIGNALED(status) else 0
    clocks = (signal.SIGXCPU, signal.SIGVTALRM, signal.SIGPROF)
    if number in clocks or (number == signal.SIGKILL and cpu_s >= limits.cpu_s):
        return cpu_limit(limits, activity)
    out_of_memory = (b"memory allocation of", b"std::bad_alloc", b"MemoryError", b"out of memory")
    if number == signal.SIGABRT and any(text in stderr_tail for text in out_of_memory):
        return memory_limit(limits.memory_mb)
    if number in (signal.SIGABRT, signal.SIGSEGV) and b"overflowed its stack" in stderr_tail:
        return InspectorError(
            ErrorKind.RecursionLimit,
            "the input nests deeper than the native stack",
            stage="sandbox",
            remedy="nest the messages, tools, template or pattern less deeply",
        )
    if number == signal.SIGKILL:
        return _crashed(
            "the child was killed from outside (SIGKILL), most likely because the machine ran out of memory",
            "free memory, or make the input smaller",
        )
    if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        return _crashed(f"the child was ended from outside ({signal.Signals(number).name})", "try again")
    if number:
        name = signal.Signals(number).name
        return _crashed(f"the child died by {name} on this input", "the template or tokenizer file breaks the library")
    code = os.WEXITSTATUS(status) if status >= 0 else "unknown"
    if code == EXIT_MEMORY:
        return memory_limit(limits.memory_mb)
    if code == EXIT_TIME:
        return cpu_limit(limits, activity)
    return _crashed(f"the child ended without an answer (exit code {code})", "try again")


def _crashed(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.WorkerCrashed, message, stage="sandbox", remedy=remedy)


def _cannot_start() -> InspectorError:
    return _crashed(
        "the sandbox's own process cannot start; its message is on standard error",
        "check that the packages of requirements.txt are installed",
    )


def _no_place(limit: int) -> InspectorError:
    return InspectorError(
        ErrorKind.TimeLimit,
        f"all {limit} children were busy for the whole waiting time",
        stage="sandbox",
        where={"limit": "children"},
        remedy=or_raise("try again", "children"),
    )


def _input_too_large(size: int, limit: int) -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge,
        f"the request has {size:,} bytes; the limit is {limit:,}",
        stage="sandbox",
        where={"limit": "payload_bytes"},
        remedy=or_raise("make the request or the file smaller", "payload_bytes"),
    )
