"""One exchange with a model server that somebody named: which addresses may be asked, a deadline that holds, an error
for each way it can fail. Cancelling closes the connection, so that the server stops computing.

No redirect is followed, nothing is retried or kept. A key comes from the environment only; it is in no value's repr and
in no error. On a page for others only what the operator listed in the environment is asked, nothing a visitor names.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled

KEY_VARIABLE = "INSPECTOR_BACKEND_KEY"
"""The environment variable with the key that servers are sent as a bearer token."""
LIST_VARIABLE = "INSPECTOR_BACKEND_URLS"
"""The environment variable with the servers that the operator allows, separated by blanks. Where it is set, the key
goes to these only; a page for others asks these only."""

TIMEOUT_S = 120.0
CONNECT_S = 10.0
MAX_BYTES = 256 << 20
"""Of one answer. All log-probabilities of 262,144 tokens are about 30 MB of llama.cpp's JSON."""
_TICK_S = 0.05
_QUOTED = 200  # characters of a server's own message
_METADATA = tuple(
    ipaddress.ip_network(net)
    for net in ("169.254.0.0/16", "fe80::/10", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")
)
"""Link-local addresses, and those at which clouds hand out credentials."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that may be asked. `root`: scheme, host, port and path, without `/v1`; `listed`: by the operator."""

    root: str
    listed: bool
    key: str | None = field(default=None, repr=False, compare=False)

    @property
    def host(self) -> str:
        """Give the host's name or address."""
        return urlsplit(self.root).hostname or ""

    @property
    def is_loopback(self) -> bool:
        """Say whether it is this machine: such a server is never asked through a proxy."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer with status 200, read as JSON. Units: `ms` milliseconds from the request to its last byte."""

    value: Any
    ms: float


class Refused(Exception):
    """The server refused the request as such: `status` 400 to 422 but those that have an error of their own."""

    def __init__(self, status: int, message: str, value: Any) -> None:
        super().__init__(message)
        self.status, self.message, self.value = status, message, value


def endpoint(url: str, *, public: bool = False) -> Endpoint:
    """Check a server's address; `public`: a page for others asks for it. The key is read from the environment.

    Errors: OptionInvalid.

    >>> endpoint("http://127.0.0.1:8000/v1/").root
    'http://127.0.0.1:8000'
    """
    root = _root(url)
    known = [_root(each) for each in listed_urls()]
    if public and root not in known:
        raise _refused("this page asks only model servers that its operator listed", _choices(known), url=None)
    key = os.environ.get(KEY_VARIABLE) or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise _refused(f"the key in {KEY_VARIABLE} has a character that no header can carry", "set it again", url=root)
    return Endpoint(root, root in known, key if not known or root in known else None)


def listed_urls() -> tuple[str, ...]:
    """Give the servers that the operator listed in the environment."""
    return tuple(os.environ.get(LIST_VARIABLE, "").split())


def listed_roots() -> tuple[str, ...]:
    """Give the servers that the operator listed, as they may be shown: no address with a user or password is one.

    Errors: OptionInvalid for one that is no address.
    """
    return tuple(dict.fromkeys(map(_root, listed_urls())))


def _root(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as fault:
        raise _refused(f"{url[:80]!r} is no address: {fault}", _EXAMPLE, url=None) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refused(f"{url[:80]!r} is no address of a server", _EXAMPLE, url=None)
    if parts.username is not None or parts.query or parts.fragment:
        # not quoted: it may hold a key
        raise _refused("a server's address has no user, password, query or fragment", f"put a key into the environment variable {KEY_VARIABLE}", url=None)  # fmt: skip
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"


_EXAMPLE = "give one like http://127.0.0.1:8000 or https://models.example/v1"


def _choices(known: list[str]) -> str:
    return f"choose {' or '.join(known)}" if known else f"the operator lists servers in the environment variable {LIST_VARIABLE}"  # fmt: skip


def _refused(message: str, remedy: str, *, url: str | None) -> InspectorError:
    where = {"option": "backend_url"} | ({} if url is None else {"url": url})
    return InspectorError(ErrorKind.OptionInvalid, message, stage="logits", where=where, remedy=remedy)


# --- one exchange ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """A request under way."""

    server: Endpoint
    path: str
    body: Any
    timeout_s: float
    cancel: threading.Event | None
    stop: threading.Event = field(default_factory=threading.Event)
    received: int = 0

    @property
    def url(self) -> str:
        return self.server.root + self.path


def ask(
    server: Endpoint,
    path: str,
    body: Any = None,
    *,
    cancel: threading.Event | None = None,
    timeout_s: float | None = None,
) -> Answer:
    """Post `body` as JSON, or get, and give the answer. The exchange has a thread and an event loop of its own.

    Errors: Refused; CallCancelled; ServerUnreachable, ServerAuth, ServerModelMissing, ServerBusy, ServerError,
    TimeLimit, OutputTooLarge, OptionInvalid for an address that is not to be asked.
    """
    call = _Call(server, path, body, timeout_s or TIMEOUT_S, cancel)
    outcome: list[Any] = []
    thread = threading.Thread(target=_run, args=(call, outcome), daemon=True, name="model-server")
    started = time.perf_counter()
    thread.start()
    try:
        while thread.is_alive():
            thread.join(1.0)  # in steps, so that an interrupt from the keyboard is seen
    finally:
        call.stop.set()
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    status, headers, data = result
    return Answer(_value(call, status, headers, data), 1000 * (time.perf_counter() - started))


def _run(call: _Call, outcome: list[Any]) -> None:
    try:
        outcome.append(asyncio.run(_watched(call)))
    except BaseException as error:
        outcome.append(error)


async def _watched(call: _Call) -> tuple[int, dict[str, str], bytes]:
    """Run the exchange until it ends, is cancelled or is over its time; ending it early closes its connection."""
    deadline = time.monotonic() + call.timeout_s
    task = asyncio.ensure_future(_exchange(call))
    try:
        while not (await asyncio.wait({task}, timeout=_TICK_S))[0]:
            if call.stop.is_set() or (call.cancel is not None and call.cancel.is_set()):
                raise CallCancelled
            if time.monotonic() > deadline:
                raise _too_slow(call)
    except BaseException:
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        raise
    return task.result()


async def _exchange(call: _Call) -> tuple[int, dict[str, str], bytes]:
    import httpx2

    await _check_address(call.server)
    headers = {"User-Agent": "template-token-inspector", "Accept": "application/json"}
    if call.server.key:
        headers["Authorization"] = f"Bearer {call.server.key}"
    limits = httpx2.Timeout(call.timeout_s, connect=min(CONNECT_S, call.timeout_s))
    direct = call.server.is_loopback
    try:
        async with httpx2.AsyncClient(timeout=limits, follow_redirects=False, trust_env=not direct) as client:
            method, sent = ("GET", {}) if call.body is None else ("POST", {"json": call.body})
            async with client.stream(method, call.url, headers=headers, **sent) as response:
                fields = {name.lower(): value for name, value in response.headers.items()}
                return response.status_code, fields, await _read(call, response)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as fault:
        raise _transport_error(call, fault) from None


async def _read(call: _Call, response: Any) -> bytes:
    pieces = []
    async for piece in response.aiter_bytes():
        call.received += len(piece)
        if call.received > MAX_BYTES:
            raise _error(call, ErrorKind.OutputTooLarge, f"the answer has more than {MAX_BYTES:,} bytes", "ask for fewer log-probabilities")  # fmt: skip
        pieces.append(piece)
    return b"".join(pieces)


async def _check_address(server: Endpoint) -> None:
    """Refuse a server that nobody listed and whose name leads to a link-local or credential-giving address.

    A name that cannot be resolved here is left to the connection: a proxy may know it.
    """
    if server.listed:
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(server.host, None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for *_rest, address in found:
        known = ipaddress.ip_address(str(address[0]).partition("%")[0])
        plain = getattr(known, "ipv4_mapped", None) or known
        if any(plain in net for net in _METADATA if net.version == plain.version):
            raise _refused(
                f"{server.host} is {plain}, an address at which networks hand out credentials",
                f"if it really is a model server, list it in the environment variable {LIST_VARIABLE}",
                url=server.root,
            )


# --- what the answer means -------------------------------------------------------------------------------------------


def _value(call: _Call, status: int, headers: dict[str, str], data: bytes) -> Any:
    if 300 <= status < 400:
        place = urlsplit(headers.get("location", ""))
        to = f"{place.scheme}://{place.netloc.rpartition('@')[2]}" if place.netloc else "another path"
        raise _error(call, ErrorKind.ServerError, f"the server sends us on to {to} (status {status}); redirects are not followed", "give the address that it names, if you trust it")  # fmt: skip
    value = _json(data)
    if status in (401, 403):
        raise _auth_error(call, status)
    if status == 429 or (status == 503 and "load" in _message(value).lower()):
        raise _busy(call, status, headers, value)
    if status == 404:
        raise _missing(call, value)
    if value is _NOT_JSON:
        raise _no_json(call, status, headers, data)
    if 400 <= status < 500:
        raise Refused(status, _said(call, value), value)
    if status != 200:
        raise _error(call, ErrorKind.ServerError, f"the server failed with status {status}{_told(call, value)}", "look into its log; try again")  # fmt: skip
    return value


_NOT_JSON = object()


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _message(value: Any) -> str:
    """Find a server's own words: `error.message`, `error`, `message` or `detail`."""
    if isinstance(value, dict):
        error = value.get("error", value)
        found = error.get("message") or error.get("detail") if isinstance(error, dict) else error
        if isinstance(found, list) and found and isinstance(found[0], dict):  # FastAPI's list of what is wrong
            place = ".".join(map(str, found[0].get("loc", ())))
            return f"{place}: {found[0].get('msg')}"
        return found if isinstance(found, str) else ""
    return ""


def _said(call: _Call, value: Any) -> str:
    """A server's own words, bounded, on one line, without our key."""
    text = " ".join(_message(value).split())
    if call.server.key:
        text = text.replace(call.server.key, "…")
    return text[:_QUOTED]


def _told(call: _Call, value: Any) -> str:
    said = _said(call, value)
    return f": {said}" if said else ""


def _auth_error(call: _Call, status: int) -> InspectorError:
    # the server's words are not quoted: some repeat the key
    if call.server.key:
        return _error(call, ErrorKind.ServerAuth, f"the server refused the key of {KEY_VARIABLE} (status {status})", "set the key that this server gave you")  # fmt: skip
    why = (
        f": the key of {KEY_VARIABLE} goes only to the servers in {LIST_VARIABLE}"
        if os.environ.get(KEY_VARIABLE)
        else ""
    )
    return _error(call, ErrorKind.ServerAuth, f"the server wants a key (status {status}){why}", f"put it into the environment variable {KEY_VARIABLE}{f' and the server into {LIST_VARIABLE}' if why else ''}")  # fmt: skip


def _busy(call: _Call, status: int, headers: dict[str, str], value: Any) -> InspectorError:
    if status == 503:
        return _error(call, ErrorKind.ServerBusy, f"the server is not ready{_told(call, value)}", "wait until it has loaded its model")  # fmt: skip
    after = headers.get("retry-after", "")
    wait = f"; it asks to wait {after} s" if after.isdecimal() and len(after) < 7 else ""
    return _error(call, ErrorKind.ServerBusy, f"the server takes no more requests now (status 429){wait}{_told(call, value)}", "wait and try again")  # fmt: skip


def _missing(call: _Call, value: Any) -> InspectorError:
    said = _said(call, value)
    if "model" in said.lower():
        return _error(call, ErrorKind.ServerModelMissing, f"the server has no such model: {said}", "give --model a name that its /v1/models lists, or leave it out")  # fmt: skip
    return _error(call, ErrorKind.ServerError, f"the server has no {call.path}", "give the address under which its OpenAI-compatible API begins")  # fmt: skip


def _no_json(call: _Call, status: int, headers: dict[str, str], data: bytes) -> InspectorError:
    kind = headers.get("content-type", "").partition(";")[0].strip()[:60]
    if kind == "text/html" or data.lstrip()[:1] == b"<":
        return _error(call, ErrorKind.ServerError, f"a web page answered where an API should (status {status})", "give the address of the API itself; a login page or a proxy may stand before it")  # fmt: skip
    what = f"{kind or 'bytes'}, {len(data):,} bytes" if data else "nothing"
    return _error(call, ErrorKind.ServerError, f"the answer is no whole JSON (status {status}, {what})", "try again; look into the server's log")  # fmt: skip


def _transport_error(call: _Call, fault: Exception) -> InspectorError:
    import httpx2

    if isinstance(fault, httpx2.ConnectTimeout):
        return _error(call, ErrorKind.ServerUnreachable, f"no connection within {min(CONNECT_S, call.timeout_s):g} s", "check host and port, and that nothing between drops the packets")  # fmt: skip
    if isinstance(fault, httpx2.TimeoutException):
        return _too_slow(call)
    if isinstance(fault, httpx2.ConnectError | httpx2.ProxyError):
        return _error(call, ErrorKind.ServerUnreachable, f"no connection: {_reason(fault)}", "check that the server runs, and its host, port and scheme")  # fmt: skip
    if isinstance(fault, httpx2.InvalidURL | UnicodeError):
        return _error(call, ErrorKind.OptionInvalid, "the address cannot be asked", _EXAMPLE)
    when = f"after {call.received:,} bytes" if call.received else "before the answer"
    return _error(call, ErrorKind.ServerError, f"the connection broke {when}: {_reason(fault)}", "try again; look into the server's log")  # fmt: skip


def _reason(fault: BaseException) -> str:
    """Give the words of the first cause: the library's own are "All connection attempts failed"."""
    for _depth in range(8):
        group = getattr(fault, "exceptions", ())
        inner = group[0] if group else fault.__cause__ or fault.__context__
        if inner is None:
            break
        fault = inner
    said = (isinstance(fault, OSError) and fault.strerror) or str(fault)
    return " ".join(said.split())[:_QUOTED] or type(fault).__name__


def _too_slow(call: _Call) -> InspectorError:
    came = f"{call.received:,} bytes had come" if call.received else "nothing had come"
    return _error(call, ErrorKind.TimeLimit, f"the server took longer than the limit of {call.timeout_s:g} s; {came}", "use a shorter input, or raise the limit")  # fmt: skip


def _error(call: _Call, kind: ErrorKind, message: str, remedy: str) -> InspectorError:
    return InspectorError(kind, message, stage="logits", where={"url": call.url}, remedy=remedy)
