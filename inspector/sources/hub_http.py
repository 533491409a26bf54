"""A small HTTP client for the Hub: a deadline that holds, bounded sizes, redirects to known hosts only.

The Hub's own library retries for a minute, waits without end for a server that drips, follows every redirect and
keeps half files; so requests are made here. Nothing is cached here, and nothing is read from the environment but
proxies. A token goes to the endpoint itself and never to a host that it redirects to.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

DEADLINE_S = 10.0
"""For an answer to begin, for the whole of a JSON answer, and between any two pieces of a file."""
MIN_BYTES_PER_S = 50_000
"""A file that comes slower than this on average is given up once the deadline has passed."""
MAX_JSON_BYTES = 16 << 20
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_STORAGE = (".huggingface.co", ".hf.co")  # where the Hub keeps large files; only over https
_POLL_S = 0.1
_CHUNK = 1 << 16
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


class TooSlow(Exception):
    """The server did not answer, or not fast enough, before the deadline."""


class BadAnswer(Exception):
    """The connection broke, or the answer is none that the Hub gives. The text says which."""


class TooLarge(Exception):
    """The answer has more bytes than it may have."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `headers` have lower-case names; `body` is empty where it went into a file."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the endpoint. `target` None keeps the body in memory; `limit`: bytes the file may have."""

    endpoint: str
    path: str
    form: dict[str, Any] | None = None
    token: str | None = field(default=None, repr=False)
    target: Path | None = None
    limit: int = MAX_JSON_BYTES
    on_bytes: Callable[[int], None] | None = None


@dataclass(slots=True)
class _Progress:
    """How far a request has come; written by its thread, read by the one that waits."""

    started: float
    begun: float = 0.0
    last: float = 0.0
    received: int = 0
    stop: bool = False
    reply: Reply | None = None
    failure: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def too_slow(self, is_file: bool) -> bool:
        now = time.monotonic()
        if not self.begun or not is_file:
            return now - self.started > DEADLINE_S
        average = self.received / max(now - self.begun, 1e-6)
        return now - self.last > DEADLINE_S or (now - self.begun > DEADLINE_S and average < MIN_BYTES_PER_S)


def perform(request: Request) -> Reply:
    """Make a request in a thread of its own and wait for it, no longer than the deadline allows.

    Errors: TooSlow, BadAnswer, TooLarge; OSError where the target cannot be written.
    """
    progress = _Progress(time.monotonic())
    threading.Thread(target=_work, args=(request, progress), daemon=True).start()
    while not progress.done.wait(_POLL_S):
        if progress.too_slow(request.target is not None):
            progress.stop = True
            what = f"{progress.received:,} bytes came" if progress.received else "no answer came"
            raise TooSlow(f"{what} within {time.monotonic() - progress.started:.1f} s")
        if request.on_bytes:
            request.on_bytes(progress.received)
    if progress.failure is not None:
        raise progress.failure
    if progress.reply is None:
        raise BadAnswer("the request ended without an answer")
    return progress.reply


def _work(request: Request, progress: _Progress) -> None:
    import httpx2

    try:
        progress.reply = _follow(request, progress)
    except httpx2.TimeoutException:
        progress.failure = TooSlow(f"no answer came within {DEADLINE_S:g} s")
    except httpx2.HTTPError as error:
        progress.failure = BadAnswer(f"the connection failed: {error or type(error).__name__}")
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        progress.failure = BadAnswer(f"the answer cannot be followed: {error}")
    except (TooSlow, BadAnswer, TooLarge, OSError) as error:
        progress.failure = error
    finally:
        progress.done.set()


def _follow(request: Request, progress: _Progress) -> Reply:
    url = request.endpoint + request.path
    for _ in range(_MAX_REDIRECTS + 1):
        reply = _once_more(request, url, progress)
        location = reply.headers.get("location", "")
        if reply.status not in _REDIRECTS or not location:
            return reply
        url = urljoin(url, location)
        if not _may_follow(request.endpoint, url):
            raise BadAnswer(f"it redirects to {urlsplit(url).hostname or 'nowhere'}, which is none of the Hub's hosts")
    raise BadAnswer(f"it redirects more than {_MAX_REDIRECTS} times")


def _may_follow(endpoint: str, url: str) -> bool:
    parts = urlsplit(url)
    if _origin(url) == _origin(endpoint):
        return True
    host = (parts.hostname or "").lower()
    return parts.scheme == "https" and parts.port in (None, 443) and f".{host}".endswith(_STORAGE)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port


def _once_more(request: Request, url: str, progress: _Progress) -> Reply:
    """Ask, and ask again once if a kept connection turns out to have been closed before any answer: all requests here
    only read."""
    import httpx2

    received = progress.received
    try:
        return _once(request, url, progress)
    except httpx2.RemoteProtocolError:
        if progress.received != received or progress.stop:
            raise
        return _once(request, url, progress)


def _once(request: Request, url: str, progress: _Progress) -> Reply:
    headers = {"Accept-Encoding": "identity", "User-Agent": "template-token-inspector"}
    if request.token and _origin(url) == _origin(request.endpoint):
        headers["Authorization"] = f"Bearer {request.token}"
    client = _client(DEADLINE_S, tuple(os.environ.get(name, os.environ.get(name.lower())) for name in _PROXIES))
    method = "GET" if request.form is None else "POST"
    with client.stream(method, url, data=request.form, headers=headers) as response:
        fields = {name.lower(): value for name, value in response.headers.items()}
        progress.begun = progress.last = time.monotonic()
        if response.status_code != 200 or request.target is None:
            return Reply(response.status_code, fields, _in_memory(response, progress, MAX_JSON_BYTES))
        with request.target.open("wb") as out:
            _into(out, response, progress, request.limit)
        return Reply(response.status_code, fields, b"")


def _in_memory(response: Any, progress: _Progress, limit: int) -> bytes:
    pieces: list[bytes] = []
    for piece in _pieces(response, progress, limit):
        pieces.append(piece)
    return b"".join(pieces)


def _into(out: IO[bytes], response: Any, progress: _Progress, limit: int) -> None:
    for piece in _pieces(response, progress, limit):
        out.write(piece)


def _pieces(response: Any, progress: _Progress, limit: int) -> Any:
    for piece in response.iter_raw(_CHUNK):
        progress.received += len(piece)
        progress.last = time.monotonic()
        if progress.stop:
            raise TooSlow("it was given up")
        if progress.received > limit:
            raise TooLarge(f"the answer has more than {limit:,} bytes")
        yield piece


@functools.lru_cache(maxsize=4)
def _client(deadline: float, _environment: tuple[str | None, ...]) -> Any:
    """One connection pool for each set of proxies: making the TLS context takes longer than a request."""
    import httpx2

    return httpx2.Client(timeout=deadline, follow_redirects=False)
