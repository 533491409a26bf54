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
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from inspector import caller, limits, service
from inspector.answers import escaped
from inspector.errors import ErrorKind, InspectorError
from inspector.limits import Mode
from inspector.sandbox import CallCancelled
from inspector.sources import visitors
from inspector.ui import logs, memory
from inspector.ui.admission import LOCAL, PUBLIC, Admission, Bounds

_SESSION = re.compile(r"[0-9a-f]{32}")
_own_machine = False  # until start() knows the address
_admission: Admission | None = None
_refusal: ContextVar[Exception | None] = ContextVar("refusal", default=None)


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
    logs.install()
    memory.give_back()
    service.sandbox(own_files=_own_machine)
    visitors.remove_left()


def own_machine() -> bool:
    """Say whether the page is for the person at this machine, so that it may reach this machine's files and token."""
    return _own_machine


def admission() -> Admission:
    """Give the queue of this process's calls, with the bounds of who the page is for."""
    global _admission
    if _admission is None:
        in_force = limits.in_force()
        bounds = LOCAL if in_force.mode is Mode.LOCAL else _fitted(PUBLIC, in_force.children)
        text = max(bounds.body_bytes, 2 * in_force.request_bytes)  # of JSON within JSON: a quote takes two characters
        _admission = Admission(replace(bounds, body_bytes=text, address_bytes=max(bounds.address_bytes, 2 * text)))
    return _admission


def _fitted(bounds: Bounds, children: int) -> Bounds:
    """Let no more run than there may be children: who has a place must not wait for one again."""
    places = max(1, children - bounds.model_places)
    return replace(bounds, places=places, children=max(1, children), address_running=max(1, places // 2))


def refused(function: Callable[[Any], str], error: Exception) -> str:
    """Give the answer of a page function that was not let in: the error, in the shape of that function's own errors."""
    token = _refusal.set(error)
    try:
        return function({})
    finally:
        _refusal.reset(token)


def given_up() -> threading.Event:
    """Give the event that is set when nobody waits for this call's answer any more."""
    return caller.current().cancel or threading.Event()


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

    Errors: OptionInvalid; why the call was not let in.
    """
    refusal = _refusal.get()
    if refusal is not None:
        raise refusal
    session = request.get("session") if isinstance(request, dict) else None
    if not isinstance(session, str) or _SESSION.fullmatch(session) is None:
        raise malformed()
    return session


def call(job: str, value: Any, session: str, *, supersede: bool = False, cancel: threading.Event | None = None) -> str:
    """Run a job of `jobs.JOBS` in the session's sandbox child; give its answer, JSON text."""
    answer = service.sandbox().call(
        job,
        pickle.dumps(value),
        session=f"page-{session}",
        supersede=supersede,
        cancel=cancel or caller.current().cancel,
        readable=service.readable(),
    )
    return escaped(answer.decode("utf-8", "surrogatepass"))


def text_of(value: Any) -> str:
    """Write an answer as JSON text that can be sent."""
    return escaped(json.dumps(value, ensure_ascii=False, allow_nan=False))


def answered(work: Callable[[dict[str, Any], str], dict[str, Any]], request: Any) -> str:
    """Give what `work(request, session)` gives, with `error: null`; or `{error: line, kind}`."""
    from inspector.ui import payload

    try:
        return text_of({**work(request, session_of(request)), "error": None})
    except InspectorError as error:
        return json.dumps({"error": payload.error_text(error), "kind": error.kind.name})
    except CallCancelled:
        return json.dumps({"error": "a newer call took the place of this one", "kind": ErrorKind.Busy.name})


def page_closed(request: Any) -> str:
    """End what a page leaves behind when it is closed: `{session}`. Its children end; what it still asks is given up."""

    def work(_request: dict[str, Any], session: str) -> dict[str, Any]:
        from inspector.ui import tools

        tools.forget(session)
        service.sandbox().end_sessions(f"page-{session}")
        return {}

    return answered(work, request)


FUNCTIONS = (page_closed,)
