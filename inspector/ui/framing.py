"""The headers of every answer: what a browser may load and run, and who may put the page into a frame.

The page's own address gets a policy that lets its inline scripts run by their hashes, so that no script that came in as
text runs; `unsafe-eval` stays, because Gradio makes a component's script from text, and inline style, because its parts
are placed by it. Everything else is data: nothing in it may be loaded or framed. Nothing comes from another host.

Everybody may frame the embedded form (`?embed=1`), only this site the whole page; on a Space that is itself in a frame of
the Hub.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
_HUB = ("https://huggingface.co", "https://*.hf.space")
_INLINE = re.compile(rb"<script(?:\s[^>]*)?>(.*?)</script>", re.S)
_PAGE = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'{hashes}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; {framing}"
)
_DATA = "default-src 'none'; frame-ancestors 'none'; sandbox"
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"camera=(), microphone=(), geolocation=(), payment=(), usb=(), serial=(), midi=(), display-capture=(), "
        b"accelerometer=(), gyroscope=(), magnetometer=()",
    ),
)
_OWN = {name for name, _value in _ALWAYS} | {b"content-security-policy", b"server"}


class Framing:
    """ASGI middleware that adds the headers, after everything behind it has set its own."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass everything on; an answer gets the headers, the page's own one the policy that fits it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope.get("path") == "/" and scope["method"] == "GET":
            await self._page(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            await send(_headed(message, _DATA) if message["type"] == "http.response.start" else message)

        await self.app(scope, receive, send_with_headers)

    async def _page(self, scope: Scope, receive: Any, send: Any) -> None:
        """Hold the page back until all of it is there: the hashes of its scripts stand in its header."""
        start: MutableMapping[str, Any] = {}
        body = bytearray()

        async def hold(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                said = _PAGE.format(
                    hashes=hashes(bytes(body)), framing=policy(scope.get("query_string", b"").decode("latin-1"))
                )
                await send(_headed(start, said))
                await send({"type": "http.response.body", "body": bytes(body)})

        await self.app(scope, receive, hold)


def _headed(message: MutableMapping[str, Any], said: str) -> MutableMapping[str, Any]:
    kept = [header for header in message.get("headers", ()) if header[0].lower() not in _OWN]
    return {**message, "headers": [*kept, *_ALWAYS, (b"content-security-policy", said.encode("latin-1"))]}


@lru_cache(maxsize=8)
def hashes(page: bytes) -> str:
    """Name the inline scripts of a page as a policy does.

    >>> hashes(b"<script>1</script><script src=a.js></script>")
    " 'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s='"
    """
    found = dict.fromkeys(hashlib.sha256(script).digest() for script in _INLINE.findall(page) if script)
    return "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in found)


def policy(query: str) -> str:
    """Give the part of the policy about frames for a query string.

    >>> policy("embed=1&model=qwen3")
    'frame-ancestors *'
    >>> policy("")
    "frame-ancestors 'self'"
    """
    if parse_qs(query).get("embed") == ["1"]:
        return "frame-ancestors *"
    return " ".join(["frame-ancestors 'self'", *(_HUB if "SPACE_ID" in os.environ else ())])
