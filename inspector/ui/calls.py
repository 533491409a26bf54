"""What every function that the page's script may call has in common: who asks, what may be reached, how work gets to a child.

A page function takes one JSON value and gives one JSON string; errors are values of that string. None is defined here
(serve.py and its neighbours define them).
"""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

from inspector import limits, service
from inspector.errors import ErrorKind, InspectorError
from inspector.limits import Mode

_SURROGATE = re.compile("[\ud800-\udfff]")  # as an escape, JSON text can be sent
_SESSION = re.compile(r"[0-9a-f]{32}")
_own_machine = False  # until start() knows the address


def start(host: str | None = None) -> None:
    """Choose the limits of this page and start its sandbox, which gets ready in its own process meanwhile.

    `host`: the address the page will be bound to. Only a page for oneself, in local mode on a loopback address and not
    on a Space, may name files of this machine. A wrong setting ends the program with one line.
    """
    global _own_machine
    address = host or os.environ.get("GRADIO_SERVER_NAME")
    try:
        mode = limits.choose(address).mode
    except InspectorError as error:
        raise SystemExit(error.one_line()) from None
    _own_machine = mode is Mode.LOCAL and limits.is_loopback(address) and "SPACE_ID" not in os.environ
    service.sandbox(own_files=_own_machine)


def own_machine() -> bool:
    """Say whether the page is for the person at this machine, so that it may reach this machine's files and token."""
    return _own_machine


def access() -> dict[str, Any]:
    """Give the arguments of `sources.resolve_*`: on a page for others a reference reaches neither files nor our token."""
    return {"token": None if _own_machine else False, "local": _own_machine}


def malformed() -> InspectorError:
    """Make the error of a request that no page of ours sends."""
    return InspectorError(
        ErrorKind.OptionInvalid, "the page sent a malformed request", stage="options", remedy="reload the page"
    )


def session_of(request: Any) -> str:
    """Give the page's session, 32 hexadecimal digits.

    Errors: OptionInvalid.
    """
    session = request.get("session") if isinstance(request, dict) else None
    if not isinstance(session, str) or _SESSION.fullmatch(session) is None:
        raise malformed()
    return session


def call(job: str, value: Any, session: str, *, supersede: bool = False, cancel: threading.Event | None = None) -> str:
    """Run a job of `jobs.JOBS` in the session's sandbox child; give its answer, JSON text."""
    answer = service.sandbox().call(
        job, pickle.dumps(value), session=f"page-{session}", supersede=supersede, cancel=cancel
    )
    return escaped(answer.decode("utf-8", "surrogatepass"))


def text_of(value: Any) -> str:
    """Write an answer as JSON text that can be sent."""
    return escaped(json.dumps(value, ensure_ascii=False, allow_nan=False))


def escaped(text: str) -> str:
    """Write lone surrogates of JSON text as escapes, which can be sent."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def answered(work: Callable[[dict[str, Any], str], dict[str, Any]], request: Any) -> str:
    """Give what `work(request, session)` gives, with `error: null`; or `{error: line, kind}`."""
    from inspector.ui import payload

    try:
        return text_of({**work(request, session_of(request)), "error": None})
    except InspectorError as error:
        return json.dumps({"error": payload.error_text(error), "kind": error.kind.name})
