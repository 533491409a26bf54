"""A client as the page's script and as programs are: calls of page functions and of named endpoints, each with its end.

A call ends in an answer, in a typed error, in a typed refusal because the server is busy, or it is lost: nothing else
may come. The bytes of every response are searched for what no response may hold.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

BUSY_KINDS = ("Busy",)
BUSY_WAITS_S = (0.2, 0.4, 0.8, 1.6, 3.2)  # between the tries of a call that was refused as busy
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class End:
    """How a call ended: `what` is answer, error, busy or lost; `kind` that of the error; `leaks` what it may not hold."""

    what: str
    kind: str = ""
    value: Any = None
    why: str = ""
    seconds: float = 0.0
    status: int = 0
    busy: int = 0  # times that it was refused as busy before
    leaks: tuple[str, ...] = ()


@dataclass(slots=True)
class Client:
    """One session: a connection that is kept, and the names that the page would have."""

    url: str
    component: int
    places: Sequence[str] = ()
    session: str = field(default_factory=lambda: secrets.token_hex(16))
    address: str = "127.0.0.1"  # where it comes from: any of 127.0.0.0/8 is this machine, and another visitor
    timeout_s: float = TIMEOUT_S
    _connection: http.client.HTTPConnection | None = None

    def page(self, name: str, request: Any, *, again: bool = True) -> End:
        """Call a page function, as the page's script does."""
        body = {"data": request, "fn_name": name, "component_id": self.component, "session_hash": self.session[:12]}
        return self._asked(lambda: self._page(body), again, str(request))

    def endpoint(self, name: str, given: dict[str, Any], *, again: bool = True) -> End:
        """Call a named endpoint through the queue."""
        return self._asked(lambda: self._endpoint(name, given), again, str(given))

    def raw(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Exchange bytes; once more on a kept connection that the server has closed meanwhile."""
        kept = self._connection is not None
        try:
            return self._exchange(method, path, body, headers or {})
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            if not kept:
                raise
            return self._exchange(method, path, body, headers or {})

    def leave(self) -> None:
        """Close the page."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            self.page("page_closed", {"session": self.session})
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def _exchange(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            parts = urlsplit(self.url)
            self._connection = http.client.HTTPConnection(
                str(parts.hostname), parts.port, timeout=self.timeout_s, source_address=(self.address, 0)
            )
        try:
            self._connection.request(method, path, body or None, {"Content-Type": "application/json", **headers})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self.close()
            raise

    def _asked(self, ask: Any, again: bool, sent: str) -> End:
        began, busy = time.monotonic(), 0
        leaks: list[str] = []
        while True:
            try:
                status, text, value = ask()
                end = _end(value, status, text)
                leaks += [place for place in self.places if place in text and place not in sent]
            except (OSError, http.client.HTTPException, ValueError) as error:
                end = End("lost", why=f"{type(error).__name__}: {error}")
            if end.what != "busy" or not again or busy == len(BUSY_WAITS_S):
                break
            time.sleep(BUSY_WAITS_S[busy])
            busy += 1
        seconds = time.monotonic() - began
        return End(end.what, end.kind, end.value, end.why, seconds, end.status, busy, tuple(leaks))

    def _page(self, body: dict[str, Any]) -> tuple[int, str, Any]:
        status, data = self.raw("POST", "/gradio_api/component_server", json.dumps(body).encode())
        text = data.decode()
        value = json.loads(text)
        return status, text, json.loads(value) if isinstance(value, str) else value

    def _endpoint(self, name: str, given: dict[str, Any]) -> tuple[int, str, Any]:
        path = f"/gradio_api/call/v2/{name}"
        status, data = self.raw("POST", path, json.dumps(given).encode())
        value = json.loads(data)
        if status != 200 or "event_id" not in value:
            return status, data.decode(), value
        status, stream = self.raw("GET", f"{path}/{value['event_id']}")
        text = stream.decode()
        lines = text.splitlines()
        event = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), "")
        told = next((line.removeprefix("data: ") for line in lines if line.startswith("data: ")), "")
        if event == "heartbeat":
            lines = lines[lines.index(f"data: {told}") + 1 :]
            event = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), "")
            told = next((line.removeprefix("data: ") for line in lines if line.startswith("data: ")), "")
        if event != "complete":
            raise ValueError(f"the stream ended with {event or 'nothing'}: {told[:200]}")
        return status, text, json.loads(json.loads(told)[0])


def _end(value: Any, status: int, text: str) -> End:
    """Tell how a call ended by what came."""
    if value is None and status == 200:
        return End("answer", "superseded", None, status=status)
    if not isinstance(value, dict):
        return End("lost", why=f"status {status}: {text[:200]}", status=status)
    kind = kind_of(value)
    if kind in BUSY_KINDS:
        return End("busy", kind, value, status=status)
    if kind:
        return End("error", kind, value, status=status)
    if status != 200:
        return End("lost", why=f"status {status}: {text[:200]}", status=status)
    return End("answer", "", value, status=status)


def kind_of(value: dict[str, Any]) -> str:
    """The kind of the error of an answer; "" where there is none."""
    error = value.get("error")
    if isinstance(error, dict):
        return str(error.get("kind", ""))
    if error:
        return str(value.get("kind", "")) or "untyped"
    errors = value.get("errors")  # a view's
    return str(errors[0]["kind"]) if isinstance(errors, list) and errors else ""


def send_only(client: Client, name: str, request: Any) -> socket.socket:
    """Send a call of a page function and read nothing; whoever closes the socket has left."""
    parts = urlsplit(client.url)
    body = json.dumps(
        {"data": request, "fn_name": name, "component_id": client.component, "session_hash": "0" * 12}
    ).encode()
    sock = socket.create_connection((str(parts.hostname), parts.port or 80), 10, (client.address, 0))
    head = f"POST /gradio_api/component_server HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body)
    return sock
