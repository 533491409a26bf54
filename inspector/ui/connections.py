"""Connections to the page's server: how long one may stay without a whole request, how many there may be, what is logged.

Gradio starts uvicorn with settings of its own, which bound none of it. A connection that has not sent the head of its next
request within `HEAD_S` is ended; an address has at most `OF_ADDRESS`, all together as many as leave this process files to
work with. Whoever would be one too many takes the place of a connection without a whole request: the one that has waited
longest, of its own address or of the address that has most of them. Requests are for gate.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sys
import time
from collections import Counter, OrderedDict
from typing import Any

from uvicorn import config as uvicorn_config
from uvicorn.protocols.http.h11_impl import H11Protocol

from inspector.ui.gate import client_of

HEAD_S = 15.0
OF_ADDRESS = 256  # gate.py lets an address have 128 requests under way and 32 answers being read
MOST_FILES = 16_384
_OWN_FILES = 512  # for pipes and sockets of children, the cache and its locks
_LOG_S = 60.0
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CLIENTS_FAULTS = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")


def bound() -> None:
    """Have every server that uvicorn starts in this process use these connections, and raise the number of files."""
    raise_files()
    uvicorn_config.HTTP_PROTOCOLS["auto"] = f"{__name__}:Connection"


def raise_files() -> None:
    """Raise the soft limit of open files to the hard one, up to `MOST_FILES`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Give how many there may be: the files this process may open, less those that its work needs."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    soft = MOST_FILES if soft == resource.RLIM_INFINITY else min(soft, MOST_FILES)
    return max(16, soft - min(_OWN_FILES, soft // 2))


class Connections:
    """The open connections of one server. Not thread-safe: its event loop's alone."""

    def __init__(self, most: int, of_address: int) -> None:
        self.most, self.of_address = most, of_address
        self.open = 0
        self._by_address: Counter[str] = Counter()
        self._unfinished: dict[str, OrderedDict[Connection, None]] = {}  # by address, the longest waiting first

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False if it is one too many and none gives way."""
        address, given_way = connection.address, True
        if address and self._by_address[address] >= self.of_address:
            given_way = self._end_oldest(address)
        if given_way and self.open >= self.most:
            given_way = bool(self._unfinished) and self._end_oldest(
                max(self._unfinished, key=lambda each: len(self._unfinished[each]))
            )
        self.open += 1
        self._by_address[address] += 1
        return given_way

    def leave(self, connection: Connection) -> None:
        """Count a connection no more."""
        self.finished(connection)
        self.open -= 1
        self._by_address[connection.address] -= 1
        if self._by_address[connection.address] <= 0:
            del self._by_address[connection.address]

    def unfinished(self, connection: Connection) -> None:
        """Note that a connection has begun to wait for the head of a request."""
        self._unfinished.setdefault(connection.address, OrderedDict()).setdefault(connection)

    def finished(self, connection: Connection) -> None:
        """Note that it waits no more."""
        waiting = self._unfinished.get(connection.address)
        if waiting is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._unfinished[connection.address]

    def _end_oldest(self, address: str) -> bool:
        oldest = next(iter(self._unfinished.get(address, ())), None)
        if oldest is None:
            return False
        oldest.end()
        return True


class Connection(H11Protocol):
    """uvicorn's protocol for HTTP with these bounds; a WebSocket, which the page does not have, is not opened."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _logger
        self.ws_protocol_class = None
        self.address = ""
        self._deadline: asyncio.TimerHandle | None = None
        held = vars(self.server_state)  # one for each server
        self._all: Connections = held.setdefault("inspector", Connections(most_connections(), OF_ADDRESS))
        if self.loop.get_exception_handler() is None:
            self.loop.set_exception_handler(_told)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit a connection, or end it."""
        super().connection_made(transport)
        self.address = counted_address(self.client)
        if self._all.admit(self):
            self._wait()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take data; the head of a request has its time from its first byte."""
        super().data_received(data)
        if self._idle():
            self._wait()
        else:
            self._done()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        self._done()
        self._all.leave(self)
        super().connection_lost(exc)

    def end(self) -> None:
        """End the connection at once."""
        self._done()
        self.transport.abort()

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_S, self._late)
            self._all.unfinished(self)

    def _done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._all.finished(self)

    def _late(self) -> None:
        if self._idle():
            self.end()


def counted_address(client: tuple[str, int] | None) -> str:
    """Name the address whose connections are counted; "" for a proxy, which holds those of many.

    Proxies are the peers that uvicorn takes X-Forwarded-For from, and all peers where INSPECTOR_PROXIES says so.
    """
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
    proxies = os.environ.get("INSPECTOR_PROXIES", "1" if "SPACE_ID" in os.environ else "0")
    if client is None or trusted == "*" or client[0] in trusted.replace(",", " ").split() or proxies.strip("0"):
        return ""
    return client_of({"client": client, "headers": []})


class _Quiet(logging.Filter):
    """Drops what any client can have written as often as it likes."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_CLIENTS_FAULTS)


_logger = logging.getLogger("uvicorn.error.connections")
_logger.addFilter(_Quiet())
_logged_at = float("-inf")


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a loop says; that files have run out, which asyncio says thousands of times a second, once a minute."""
    global _logged_at
    fault = context.get("exception")
    if not (isinstance(fault, OSError) and fault.errno in _OUT_OF_FILES):
        loop.default_exception_handler(context)
    elif time.monotonic() - _logged_at > _LOG_S:
        _logged_at = time.monotonic()
        line = f"no connection can be accepted for now: {fault.strerror}; raise the limit of open files (ulimit -n)"
        print(line, file=sys.stderr, flush=True)
