"""The way in: what of the server may be reached, how large a request may be, who runs next, and that nobody computes for
a client who has left.

It stands before Gradio. Calls of the page's script are answered here (`component_server`, the address that Gradio's own
script would use); calls of the named endpoints and of MCP go on to Gradio with a place in the same queue (`Call`), which
`served` takes when their function runs. Addresses of Gradio that the page does not need are closed.

Bodies are read in full before Gradio sees them, within bounds. It looks into a body for a session and the name of a
function, and writes nothing of it anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ipaddress
import itertools
import json
import math
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from inspector import limits
from inspector.caller import Caller, asked_by
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled
from inspector.ui import calls, rpc, status
from inspector.ui.admission import MODEL, PAGE, TICK_S, Admission, Bounds, busy, too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

API = "/gradio_api"
SLOT = "inspector.call"  # where a scope holds its Call
# What the page's files and the listing of the endpoints are read from; nothing here computes or keeps anything.
_READ = re.compile(
    rf"/|/config/?|/static/.+|/assets/.+|/svelte/.+|/theme\.css|/favicon\.ico|/robots\.txt|/manifest\.json|/pwa_icon(/\d+)?"
    rf"|{API}/(info/?|openapi\.json|theme\.css|startup-events|app_id/?|queue/status)"
)
_STREAM = re.compile(rf"{API}/(queue/data|call/(?:v2/)?[a-z_]+/(?P<event>[0-9a-f]{{32}}))")
_PAGE = re.compile(rf"{API}/component_server/?")
_JOIN = re.compile(rf"{API}/(queue/join|call/(?:v2/)?[a-z_]+/?)")
_DIRECT = re.compile(rf"{API}/(?:run|api)/[a-z_]+/?")
_SMALL = re.compile(rf"{API}/(cancel|reset/?)")
_MCP = re.compile(rf"{API}/mcp(/http)?/?")
# The fields that Gradio reads from a call: which each address wants, and of which type they are.
_WANTED = {"/cancel": ("session_hash", "fn_index", "event_id"), "/reset": ("event_id",), "/queue/join": ("session_hash", "fn_index", "data")}  # fmt: skip
_TYPES: dict[str, tuple[type, str]] = {
    "data": (list, "an array"), "fn_index": (int, "a whole number"), "trigger_id": (int, "a whole number"),
    "event_id": (str, "a text"), "oauth_token": (str, "a text"), "batched": (bool, "true or false"), "simple_format": (bool, "true or false"),
}  # fmt: skip
_HASH = re.compile(r"[\w-]{8,64}")  # of a client of Gradio: long enough that nobody guesses it
# Answered at once, by whoever asks: they read or set a flag.
LIGHT = frozenset(
    {
        "progress",
        "cancel",
        "cancel_findings",
        "fetching",
        "model_progress",
        "model_cancel",
        "page_closed",
        "scan_state",
        "scan_stop",
    }
)
# Where the newest question wins: at once, or after as long as live typing leaves an outdated one.
NEWEST = frozenset({"findings", "verdict", "heat", "sampler", "walk", "whatif"})
NEWEST_TYPED = frozenset({"view", "safe"})
# The lane that a light function gives up, where its call still waits for a place; None: all of the session.
_GIVES_UP: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "cancel": lambda asked: f"view {asked.get('slot')}",
    "cancel_findings": lambda asked: f"findings {asked.get('slot')}",
    "model_cancel": lambda asked: str(asked.get("what")).replace("-", " "),
    "page_closed": lambda asked: None,
}
MODEL_FUNCTIONS = frozenset({"verdict", "heat", "sampler", "walk", "whatif", "vocabulary_trial", "next_token"})
STATUS_S = 0.1
SLICE, SLOWEST = 1 << 18, 100_000  # of a large answer, bytes sent at once; bytes a second that a client must read
SHORT = 1 << 16  # bytes that are parsed at once, in no thread
UNREAD_S = 60.0  # how long Gradio keeps an answer that nobody fetches
DRAIN_S, DRAIN_TIMES = (
    5.0,
    4,
)  # a body over its bound is read on for a while, so that the client gets to read the answer


class _ClientGone(Exception):
    """The client has closed its connection."""


class _Held:
    """One request that an address has under way, and its bytes, until it is let go."""

    def __init__(self, by_address: Counter[str], requests: Counter[str], address: str, bounds: Bounds) -> None:
        self._by_address, self._requests, self._address, self._bounds, self._size = (
            by_address,
            requests,
            address,
            bounds,
            0,
        )
        self._requests[address] += 1

    def grow(self, size: int) -> None:
        """Errors: Busy where all that this address, or that everybody, has under way is too much."""
        if self._requests[self._address] > self._bounds.requests:
            raise busy(f"{self._bounds.requests} requests are under way from your address")
        self._by_address[self._address] += max(0, size - self._size)
        self._size = max(size, self._size)
        own, most = self._by_address[self._address], self._bounds.address_bytes
        if own > most or self._by_address.total() > self._bounds.total_bytes:
            raise busy(f"requests of {own:,} bytes are under way from your address")

    def close(self) -> None:
        self._by_address[self._address] -= self._size
        if self._by_address[self._address] <= 0:
            del self._by_address[self._address]
        self._size = 0
        self._requests[self._address] -= 1
        if self._requests[self._address] <= 0:
            del self._requests[self._address]


@dataclass(slots=True, eq=False)
class _Call:
    """A call of a named endpoint on its way through Gradio. `ticket` None: it gets one when its function runs (MCP)."""

    caller: Caller
    session: str
    ticket: Any = None
    taken: bool = False
    over: bool = False
    unheard: bool = False  # given up: nobody opened its stream
    size: int = 0  # bytes of its answer, or nearly
    event: str = ""  # Gradio's name of it, where it is queued
    read: bool = False  # or dropped


class Gate:
    """ASGI middleware around Gradio's app. `functions`: what the page's script may call, by name."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], functions: Mapping[str, Callable[[Any], str]], admission: Admission
    ) -> None:
        self.app, self.functions, self.admission = app, functions, admission
        self.bounds = admission.bounds
        self._bytes: Counter[str] = Counter()  # of bodies under way, by address
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._told: tuple[float, bytes] = (-math.inf, b"")  # when the status was asked for, and what it was
        self._telling = asyncio.Lock()
        self._sending: Counter[str] = Counter()  # bytes of answers, by address
        self._unread: list[_Call] = []  # whose answers wait in Gradio's queue, oldest first
        self._joined: dict[str, list[_Call]] = {}  # by session hash or event id, until they are over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, pass on, or refuse a request; what fails behind it is told without a word of the request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, address = False, client_of(scope)

        async def tell(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            if len(message.get("body", b"")) > SLICE:
                await self._sent(send, message, address)
            else:
                await send(message)

        try:
            await self._routed(scope, receive, tell)
        except _ClientGone:
            pass
        except Exception as fault:
            log_fault(fault)
            if not begun:
                await _error(tell, 500, fault_error())

    async def _sent(self, send: Send, message: Message, address: str) -> None:
        """Send a large answer in slices, each when the last was taken, so that it is known who does not read.

        Errors: _ClientGone where it takes too long.
        """
        body, last = message["body"], not message.get("more_body", False)
        size = len(body)
        self._sending[address] += size
        try:
            async with asyncio.timeout(self.bounds.body_s + size / SLOWEST):
                for start in range(0, size, SLICE):
                    part = bytes(memoryview(body)[start : start + SLICE])
                    end = last and start + SLICE >= size
                    await send({"type": message["type"], "body": part, "more_body": not end})
        except TimeoutError:
            raise _ClientGone from None
        finally:
            self._sending[address] -= size
            if self._sending[address] <= 0:
                del self._sending[address]

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].removeprefix(scope.get("root_path", "")) or "/", scope["method"]
        if calls.own_machine() and (stranger := _stranger(scope)):
            await _error(send, 403, stranger)
        elif method in ("GET", "HEAD") and path == "/status":
            await _answer(send, 200, await self._status())
        elif method == "OPTIONS" or (method in ("GET", "HEAD") and _READ.fullmatch(path)):
            await self._file(scope, receive, send)
        elif method == "POST" and _foreign(scope, path):
            await _error(send, 403, _malformed("it comes from another site's page"))
        elif method == "POST" and _PAGE.fullmatch(path):
            await self._page(scope, receive, send)
        elif method == "POST" and _JOIN.fullmatch(path):
            await self._program(scope, receive, send, queued=True)
        elif method == "POST" and _DIRECT.fullmatch(path):
            await self._program(scope, receive, send, queued=False)
        elif method == "POST" and _SMALL.fullmatch(path):
            await self._program(scope, receive, send, queued=None)
        elif method == "GET" and (stream := _STREAM.fullmatch(path)):
            await self._stream(scope, receive, send, stream["event"])
        elif _MCP.fullmatch(path):
            await self._assistant(scope, receive, send)
        else:
            await _error(send, 404, _closed())

    async def _file(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = client_of(scope)
        with contextlib.closing(_Held(self._bytes, self._requests, address, self.bounds)) as held:
            try:
                held.grow(0)
            except InspectorError as error:
                await self._refuse(send, error)
                return
            await self.app(scope, receive, send)

    async def _status(self) -> bytes:
        """Give the status as it is or was a moment ago, so that asking often costs nothing."""
        async with self._telling:
            if time.monotonic() - self._told[0] > STATUS_S:
                under_way = {
                    "requests": self._requests.total(),
                    "streams": sum(n for name, n in self._streams.items() if not name.startswith("of ")),
                }
                self._told = time.monotonic(), (await _in_thread(status.text, self.admission, under_way)).encode()
            return self._told[1]

    # ---- the page ---------------------------------------------------------------------------------------------------

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call of the page's script: a JSON string, errors in the form of its own function."""
        address = client_of(scope)
        with contextlib.closing(_Held(self._bytes, self._requests, address, self.bounds)) as held:
            try:
                told = _header(scope, b"x-inspector-size")
                if told.isdigit() and int(told[:18]) > self.bounds.body_bytes:  # the page did not send it
                    raise too_large(int(told[:18]), self.bounds.body_bytes)
                record = await _json(await self._read(scope, receive, held))
            except InspectorError as error:
                named = _header(scope, b"x-inspector-function")  # the body does not say it
                await self._say(send, self.functions.get(named), error)
                return
            await self._asked(record, address, scope, receive, send)

    async def _asked(self, record: Any, address: str, scope: Scope, receive: Receive, send: Send) -> None:
        name, data = (record.get("fn_name"), record.get("data")) if isinstance(record, dict) else (None, None)
        function = self.functions.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or function is None:
            await _error(send, 404, _closed())
            return
        asked = data if isinstance(data, dict) else {}
        session = str(asked.get("session"))[:32]
        cancel = threading.Event()
        caller = Caller("" if calls.own_machine() else f"page-{session}", address, cancel)
        with _watched(receive, cancel.set):
            if name in LIGHT:
                if name in _GIVES_UP:
                    lane = _GIVES_UP[name](asked)
                    self.admission.cancel_session(address, session, lane)
                await self._say(send, function, None, await _called(caller, function, data, scope))
                return
            try:
                ticket = self.admission.reserve(
                    caller, session, _lane(name, asked), pool=MODEL if name in MODEL_FUNCTIONS else PAGE,
                    after_s=_after_s(name), turn=asked["turn"] if isinstance(asked.get("turn"), int) else 0,
                )  # fmt: skip
                try:
                    await self._granted(ticket)
                    caller = replace(caller, give_way=lambda: self.admission.give_way(ticket))
                    text = await _called(caller, function, data, scope)
                finally:
                    self.admission.leave(ticket)
            except (InspectorError, CallCancelled) as error:
                if not cancel.is_set() or isinstance(error, InspectorError):
                    await self._say(send, function, error)
                return
        await self._say(send, function, None, text)

    async def _granted(self, ticket: Any) -> None:
        """Wait for a place without a thread. Errors: Busy, CallCancelled."""
        granted, waited = asyncio.wrap_future(ticket.granted), 0.0
        while not granted.done():
            await asyncio.wait([granted], timeout=TICK_S)
            waited += TICK_S
            self.admission.tick(ticket, waited)
        granted.result()

    async def _say(
        self, send: Send, function: Callable[[Any], str] | None, error: Exception | None, text: str = "null"
    ) -> None:
        """Send what a function gave, or an error in the shape of that function's own errors."""
        code, headers = 200, dict[str, str]()
        if error is not None:
            if isinstance(error, InspectorError):
                code, headers = self._code(error)
            if function is None:
                text = json.dumps({"error": _line(error), "kind": getattr(error, "kind", ErrorKind.Busy).name})
            else:
                text = await _in_thread(calls.refused, function, error)
        await _answer(send, code, json.dumps(text, ensure_ascii=False).encode(), headers)

    def _code(self, error: InspectorError) -> tuple[int, dict[str, str]]:
        if error.kind is ErrorKind.Busy:
            return 429, {"retry-after": str(self.admission.retry_s())}
        return {ErrorKind.InputTooLarge: 413, ErrorKind.TimeLimit: 408}.get(error.kind, 400), {}

    # ---- programs and assistants ------------------------------------------------------------------------------------

    async def _program(self, scope: Scope, receive: Receive, send: Send, *, queued: bool | None) -> None:
        """Pass a call of a named endpoint on to Gradio. `queued`: it is answered later; None: it calls nothing."""
        address = client_of(scope)
        with contextlib.ExitStack() as undone:
            held = undone.enter_context(contextlib.closing(_Held(self._bytes, self._requests, address, self.bounds)))
            try:
                body = await self._read(scope, receive, held)
                record = await _json(body)
                _check_fields(scope, record)
                own = self._own_hash(record, address)
                call = None if queued is None else self._reserved(address, own)
            except InspectorError as error:
                await self._refuse(send, error)
                return
            gone = asyncio.Event()
            replay = _replayed(body, gone)
            if call is None:
                await self.app(scope, replay, send)
                return
            scope[SLOT] = call
            undone.callback(self._let_go, call)
            if queued:
                key = await self._joined_as(scope, replay, send, call, own)
                if key is not None:
                    asyncio.get_running_loop().create_task(self._kept(scope["app"], key, call, undone.pop_all()))
                return

            def left() -> None:
                self.admission.cancel(call.ticket)
                gone.set()

            with _watched(receive, left):
                await self.app(scope, replay, send)

    def _let_go(self, call: _Call) -> None:
        """Give up the place of a call whose function never ran; one that runs has its child until `served` leaves."""
        if not call.taken:
            self.admission.leave(call.ticket)

    def _own_hash(self, record: Any, address: str) -> str | None:
        """Read under which name a client of Gradio wants its answers. Errors: OptionInvalid."""
        own = record.get("session_hash") if isinstance(record, dict) else None
        if own is None:
            return None
        if not (isinstance(own, str) and _HASH.fullmatch(own)):
            raise _malformed("session_hash is not 8 to 64 letters, digits, - or _")
        if any(call.caller.address != address for call in self._joined.get(own, ())):
            raise _malformed("that session_hash is another client's")
        return own

    async def _refuse(self, send: Send, error: InspectorError) -> None:
        code, headers = self._code(error)
        await _error(send, code, error, headers)

    def _reserved(self, address: str, own: str | None) -> _Call:
        """Errors: Busy."""
        session = f"program-{own or address}"
        caller = Caller("" if calls.own_machine() else session, address, threading.Event())
        lane = None if calls.own_machine() else "program"
        return _Call(caller, session, self.admission.reserve(caller, session, lane, ready=False))

    async def _joined_as(self, scope: Scope, receive: Receive, send: Send, call: _Call, own: str | None) -> str | None:
        """Have Gradio queue a call; give the name under which its answer can be read, None if Gradio would not."""
        code, body = 0, bytearray()

        async def tell(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
            await send(message)

        if own is not None:  # before Gradio can run it
            self._joined.setdefault(own, []).append(call)
        await self.app(scope, receive, tell)
        if code != 200:
            self._forget(own, call)
            return None
        event = call.event = str(json.loads(bytes(body)).get("event_id"))
        if own is not None:
            return own
        self._joined.setdefault(event, []).append(call)
        return event

    async def _kept(self, app: Any, key: str, call: _Call, held: contextlib.ExitStack) -> None:
        """Wait for the end of a queued call, then forget the answer that nobody fetches. One whose stream nobody reads is
        given up after a while."""
        waited = unheard = 0.0
        with held:
            while not call.over and (call.taken or waited < self.bounds.wait_s) and not call.ticket.cancel.is_set():
                await asyncio.sleep(0.25)
                waited += 0.25
                unheard = 0.0 if self._streams[f"of {key}"] else unheard + 0.25
                if unheard >= self.bounds.unheard_s and not call.over:
                    call.unheard = True
                    self.admission.drop_unheard(call.ticket)
        self._unread.append(call)
        self._drop_most(call.caller.address)
        waited = 0.0
        while not call.read and waited < UNREAD_S:
            await asyncio.sleep(0.25)
            waited += 0.25
        self._unread.remove(call)
        if not self._streams[f"of {key}"]:
            self._drop(app, key, call)
        self._forget(key, call)
        if key not in self._joined and not self._streams[f"of {key}"]:
            await self._read_out(app, key)

    def _drop_most(self, address: str) -> None:
        """Drop the oldest answers that nobody has read, of an address that has too many of them, and of all."""
        for of, most in ((address, self.bounds.answer_bytes), (None, self.bounds.answers_bytes)):
            waiting = [call for call in self._unread if not call.read and of in (None, call.caller.address)]
            left = sum(call.size for call in waiting)
            for call in waiting[:-1] if of else waiting:
                if left <= most:
                    break
                call.read = True
                left -= call.size

    @staticmethod
    def _drop(app: Any, key: str, call: _Call) -> None:
        """Take a call's messages out of Gradio's queue for a client, which may wait for others there."""
        queue = app.get_blocks()._queue
        messages = queue.pending_messages_per_session.get(key)
        for _ in range(messages.qsize() if messages is not None else 0):
            message = messages.get_nowait()
            if getattr(message, "event_id", None) != call.event:
                messages.put_nowait(message)
        pending = queue.pending_event_ids_session.get(key)
        if pending is not None:
            pending.discard(call.event)

    async def _read_out(self, app: Any, key: str) -> None:
        """Forget a client's queue of answers: they were read, or nobody comes for them."""
        self._joined.pop(key, None)
        queue = app.get_blocks()._queue
        queue.pending_messages_per_session.pop(key, None)
        await queue.clean_events(session_hash=key)

    def _forget(self, key: str | None, call: _Call) -> None:
        left = [each for each in self._joined.get(str(key), ()) if each is not call]
        if left:
            self._joined[str(key)] = left
        else:
            self._joined.pop(str(key), None)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, event: str | None) -> None:
        """Let a client read the answers to its own calls; when it leaves before their end they are given up."""
        address = client_of(scope)
        found = re.search(r"(?:^|&)session_hash=([\w-]{1,64})(?:&|$)", scope.get("query_string", b"").decode("latin-1"))
        key = event or (found[1] if found else "")
        waiting = self._joined.get(key, [])
        if not waiting or any(call.caller.address != address for call in waiting):
            await _error(send, 404, _closed())
            return
        if self._streams[address] >= self.bounds.streams:
            await self._refuse(send, busy(f"{self.bounds.streams} answers are being read from your address"))
            return
        gone = asyncio.Event()

        def left() -> None:
            gone.set()
            for call in self._joined.get(key, ()):
                if not call.over:
                    self.admission.cancel(call.ticket)

        async def ended() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        names = (address, f"of {key}")
        self._streams.update(names)
        try:
            with _watched(receive, left):
                await self.app(scope, ended, send)
        finally:
            for name in names:
                self._streams[name] -= 1
                if not self._streams[name]:
                    del self._streams[name]
            if all(call.over for call in waiting):
                for call in waiting:
                    call.read = True
                await self._read_out(scope["app"], key)

    async def _assistant(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request of an MCP client on; its tools run as calls of its address."""
        address = client_of(scope)
        if self._streams[address] >= self.bounds.streams:
            await self._refuse(send, busy(f"{self.bounds.streams} answers are being read from your address"))
            return
        with contextlib.closing(_Held(self._bytes, self._requests, address, self.bounds)) as held:
            try:
                body = await self._read(scope, receive, held)
            except InspectorError as error:
                await self._refuse(send, error)
                return
            if scope["method"] == "POST":
                message = await (_in_thread(_message, scope, body) if len(body) >= SHORT else _now(scope, body))
                if isinstance(message, rpc.Answer):
                    await _answer(send, message.status, message.body)
                    return
                body = message
            await self._tools(scope, body, address, receive, send)

    async def _tools(self, scope: Scope, body: bytes, address: str, receive: Receive, send: Send) -> None:
        cancel, gone = threading.Event(), asyncio.Event()
        session = f"mcp-{address}"

        def left() -> None:
            cancel.set()
            gone.set()

        scope[SLOT] = _Call(Caller("" if calls.own_machine() else session, address, cancel), session)
        self._streams[address] += 1
        try:
            with _watched(receive, left):
                await self.app(scope, _replayed(body, gone), send)
        finally:
            self._streams[address] -= 1
            if not self._streams[address]:
                del self._streams[address]

    # ---- bodies -----------------------------------------------------------------------------------------------------

    async def _read(self, scope: Scope, receive: Receive, held: _Held) -> bytes:
        """Read a body within its bounds.

        Errors: InputTooLarge; Busy where all that this address sends is too much; TimeLimit.
        """
        limit = self.bounds.body_bytes
        unread, address = self._sending[client_of(scope)], self.bounds.answer_bytes
        if unread > address or self._sending.total() > self.bounds.answers_bytes:
            raise busy(f"answers of {unread:,} bytes to your address are not read yet")
        declared = _header(scope, b"content-length")
        size = int(declared[:18]) if declared.isdigit() else 0
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self.bounds.body_s):
                while True:
                    if size > limit or len(body) > limit:
                        if more:
                            await self._drain(receive, limit)
                        raise too_large(size or None, limit)
                    held.grow(max(size, len(body)))
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGone
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if not more and len(body) <= limit:
                        return bytes(body)
        except TimeoutError:
            raise InspectorError(
                ErrorKind.TimeLimit,
                f"the request did not arrive within {self.bounds.body_s:g} s",
                stage="request",
                remedy="send it again",
            ) from None

    @staticmethod
    async def _drain(receive: Receive, limit: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                seen = 0
                more = True
                while more and seen < DRAIN_TIMES * limit:
                    message = await receive()
                    seen += len(message.get("body", b""))
                    more = message.get("more_body", False)


# ---- the function of a named endpoint ---------------------------------------------------------------------------------


@contextlib.contextmanager
def served(request: Any, name: str, admission: Admission) -> Iterator[Callable[[int], None]]:
    """Hold the place of a named endpoint's call while its function runs; `request` is what Gradio gives it. Gives what is
    told the answer's size.

    Errors: Busy, CallCancelled.
    """
    scope = getattr(getattr(request, "request", request), "scope", {})
    call: _Call | None = scope.get(SLOT)
    if call is None:  # asked from within this process
        yield lambda _size: None
        return
    call.taken = True

    def told(size: int) -> None:
        call.size = size

    ticket = call.ticket
    try:
        if ticket is None:
            ticket = admission.reserve(call.caller, call.session, pool=MODEL if name in MODEL_FUNCTIONS else PAGE)
        elif name in MODEL_FUNCTIONS:
            ticket.pool = MODEL  # it holds no place yet
        admission.wait(ticket)
        with asked_by(call.caller):
            yield told
    except CallCancelled:
        if call.unheard:
            raise _unheard(admission.bounds.unheard_s) from None
        raise
    finally:
        if ticket is not None:
            admission.leave(ticket)
        call.over = True


# ---- small things -----------------------------------------------------------------------------------------------------


def client_of(scope: Scope) -> str:
    """Name the client: its address, an IPv6 one by its network of 64 bits, which one subscriber has.

    Behind proxies that are known (INSPECTOR_PROXIES, 1 on a Space) it is the entry that the outermost of them wrote into
    X-Forwarded-For; what stands before it in that header is the client's own word. Elsewhere the header is not looked at.
    """
    peer = (scope.get("client") or ("unknown", 0))[0]
    proxies = os.environ.get("INSPECTOR_PROXIES", "1" if "SPACE_ID" in os.environ else "0")
    hops = int(proxies) if proxies.isdigit() else 0
    if hops:
        lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        entries = [entry.strip() for entry in ",".join(lines).split(",") if entry.strip()]
        peer = entries[-hops] if len(entries) >= hops else peer
    try:
        found = ipaddress.ip_address(peer)
    except ValueError:
        return "unknown"
    if found.version == 6:
        found = found.ipv4_mapped or found
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)


def _stranger(scope: Scope) -> InspectorError | None:
    """Refuse what does not come from this machine, on a page for the person at it: a request under another name than this
    machine's own, which a site's page can give itself (DNS rebinding), and one that a proxy took from elsewhere.

    Names that a person gave to a forwarded port are in INSPECTOR_HOSTS.
    """
    host = _header(scope, b"host").strip().lower()
    name = host[: host.find("]") + 1].strip("[]") if host.startswith("[") else host.partition(":")[0]
    given = {each.strip().lower() for each in os.environ.get("INSPECTOR_HOSTS", "").split(",")} - {""}
    if name in given:
        return None
    client = client_of(scope)
    if (name == "localhost" or name.endswith(".localhost") or _is_loopback(name)) and (
        client in ("unknown", "::/64") or _is_loopback(client)
    ):
        return None
    return InspectorError(
        ErrorKind.OptionInvalid,
        f"this page is for the person at its machine, and was asked as {name[:100]!r} by {client}",
        stage="request",
        where={"option": "Host"},
        remedy="open it as http://127.0.0.1; name a forwarded port's host in INSPECTOR_HOSTS; for others set INSPECTOR_MODE=public",
    )


def _is_loopback(text: str) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _foreign(scope: Scope, path: str) -> bool:
    """True of what a browser sends for another site's page: to this page's own functions always, and to anything of a page
    for oneself, which reaches what that site does not. Programs say nothing of this kind."""
    other = _header(scope, b"sec-fetch-site") in ("cross-site", "same-site")
    return other and (_PAGE.fullmatch(path) is not None or calls.own_machine())


def _after_s(name: str) -> float | None:
    """Say how long after a newer question of its lane came the older, if it runs, is given up; None: it is not."""
    return limits.in_force().supersede_after_s if name in NEWEST_TYPED else 0.0 if name in NEWEST else None


def _lane(name: str, asked: Mapping[str, Any]) -> str | None:
    if _after_s(name) is None:
        return None
    panes = asked.get("panes")
    slots = (
        [str(pane.get("slot"))[:8] for pane in panes[:8] if isinstance(pane, dict)] if isinstance(panes, list) else []
    )
    return " ".join([name, *slots] if name in ("view", "safe", "findings", "heat") else [name])


async def _json(body: bytes) -> Any:
    """Errors: OptionInvalid."""
    return _parsed(body) if len(body) < SHORT else await _in_thread(_parsed, body)


def _parsed(body: bytes) -> Any:
    """Errors: OptionInvalid."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _malformed("the body is no JSON") from None


async def _now(scope: Scope, body: bytes) -> bytes | rpc.Answer:
    return _message(scope, body)


def _message(scope: Scope, body: bytes) -> bytes | rpc.Answer:
    """Give the message of an MCP client as it is passed on, or what is answered instead."""
    try:
        record = _parsed(body)
    except InspectorError:
        return rpc.refused(None, rpc.PARSE, "the body is no JSON", "send one JSON-RPC 2.0 message")
    return rpc.checked(record, scope["app"].get_blocks().mcp_server_obj.tool_to_endpoint)


def _check_fields(scope: Scope, record: Any) -> None:
    """Check the fields that Gradio reads from a call; it would answer with a list of its own, or fail.

    Errors: OptionInvalid naming the field.
    """
    if not isinstance(record, dict):
        raise _malformed("the body is no JSON object")
    path = scope["path"].rstrip("/")
    if "/call/v2/" in path:
        return  # its fields are the endpoint's own parameters
    wanted = next((names for end, names in _WANTED.items() if path.endswith(end)), ("data",))
    for name in wanted:
        if record.get(name) is None:
            raise _malformed(f"{name} is missing")
    for name, (kind, named) in _TYPES.items():
        value = record.get(name)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise _malformed(f"{name} is not {named}")
    if record.get("fn_index") is not None and record["fn_index"] not in scope["app"].get_blocks().fns:
        raise _malformed("fn_index names no endpoint")


def _header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")


async def _called(caller: Caller, function: Callable[[Any], str], data: Any, scope: Scope) -> str:
    """Run a page function for its caller; a fault of ours is an error in the function's own shape."""

    def work() -> str:
        # Where the package `spaces` looks for the visitor on whose account a GPU is borrowed.
        LocalContext.request.set(gr.Request(gr.routes.fastapi.Request(scope)))
        LocalContext.blocks.set(scope["app"].get_blocks())
        with asked_by(caller):
            try:
                return function(data)
            except CallCancelled:
                return "null"
            except Exception as fault:
                log_fault(fault)
                return calls.refused(function, fault_error())

    return await _in_thread(work)


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a thread of its own, which does not hold up the end of the process as a pool's would."""
    done: asyncio.Future[Any] = (loop := asyncio.get_running_loop()).create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.cancelled():
            done.set_exception(error) if error is not None else done.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work, *arguments)
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=f"call-{next(_numbers)}", daemon=True).start()
    return await done


_numbers = itertools.count(1)


@contextlib.contextmanager
def _watched(receive: Receive, left: Callable[[], Any]) -> Iterator[None]:
    """Call `left` when the client goes while this is open. The body must have been read."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left()

    task = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        task.cancel()


def _replayed(body: bytes, gone: asyncio.Event) -> Receive:
    """Make a receive that gives a body that was read, and then says when the client is gone."""
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        for part in parts:
            return part
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive


async def _answer(send: Send, code: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    named = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **(headers or {}),
    }
    listed = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": code, "headers": listed})
    await send({"type": "http.response.body", "body": body})


async def _error(send: Send, code: int, error: InspectorError, headers: Mapping[str, str] | None = None) -> None:
    """Answer a program: the error as an object, and as the line under the name where clients of Gradio look."""
    value = {"error": error.to_dict(), "detail": _line(error)}
    await _answer(send, code, calls.text_of(value).encode(), headers)


def _line(error: Exception) -> str:
    from inspector.ui import payload

    return payload.error_text(error) if isinstance(error, InspectorError) else "a newer call took the place of this one"


def log_fault(fault: BaseException) -> None:
    """Write where a fault of ours arose: its type and the lines of code. Its message may quote what somebody pasted."""
    place, last = fault.__traceback__, None
    lines = []
    while place is not None:
        last = place.tb_frame.f_code
        lines.append(f"{last.co_filename.rpartition('/')[2]}:{place.tb_lineno} {last.co_name}")
        place = place.tb_next
    print(f"fault {type(fault).__name__}: {' < '.join(reversed(lines[-8:]))}", file=sys.stderr, flush=True)


def fault_error() -> InspectorError:
    """Make the error of a fault of ours."""
    return InspectorError(
        ErrorKind.WorkerCrashed,
        "the page's server failed on this request",
        stage="sandbox",
        remedy="this is a fault of the tool: please report it",
    )


def _unheard(seconds: float) -> InspectorError:
    return InspectorError(
        ErrorKind.TimeLimit,
        f"the call was dropped: nobody opened the stream of its answer within {seconds:g} s",
        stage="sandbox",
        where={"limit": "unheard_s"},
        remedy="call again, and open its stream at once",
    )


def _malformed(why: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, f"the call is malformed: {why}", stage="options", remedy=f"see {API}/info"
    )


def _closed() -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, "there is nothing at this address", stage="options", remedy=f"see {API}/info"
    )
