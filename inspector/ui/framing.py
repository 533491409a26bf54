"""Who may put the page into a frame: everybody the embedded form (`?embed=1`), only this site the whole page.

On a Space the whole page is itself shown in a frame of the Hub.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
_HUB = ("https://huggingface.co", "https://*.hf.space")


class Framing:
    """ASGI middleware that adds `frame-ancestors` to the page."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass everything on; the answer to the page's own address gets the header."""
        if scope["type"] != "http" or scope.get("path") != "/":
            await self.app(scope, receive, send)
            return
        header = (b"content-security-policy", policy(scope.get("query_string", b"").decode("latin-1")).encode())

        async def send_with_header(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self.app(scope, receive, send_with_header)


def policy(query: str) -> str:
    """Give the policy for a query string.

    >>> policy("embed=1&model=qwen3")
    'frame-ancestors *'
    >>> policy("")
    "frame-ancestors 'self'"
    """
    if parse_qs(query).get("embed") == ["1"]:
        return "frame-ancestors *"
    return " ".join(["frame-ancestors 'self'", *(_HUB if "SPACE_ID" in os.environ else ())])
