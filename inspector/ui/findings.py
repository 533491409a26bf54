"""What the page's script may call for its Findings tab: a pane's findings, and giving one up.

A page has one child for the findings of all its panes, apart from those that answer while a person types.
"""

from __future__ import annotations

import threading
from typing import Any

from inspector import service
from inspector.errors import InspectorError
from inspector.sandbox import CallCancelled
from inspector.ui.calls import call, given_up, malformed, own_machine, text_of
from inspector.ui.serve import _options, checked

_runs: dict[str, threading.Event] = {}  # of each pane, what gives its newest call up


def findings(request: Any) -> str:
    """Check one pane with every rule: what `serve.view` takes, and `ignore: {rule: reason}`.

    The answer is `views.findings.answer`'s, or `{"lint": null, "error": line}`; "null" when it was given up, as a call
    is when a newer one of the same pane comes.
    """
    from inspector.ui import payload

    gone = given_up()
    pane = None
    try:
        asked = checked(request)
        ignore = _reasons(request.get("ignore"))
        pane = asked.child()
        _give_up(pane)
        _runs[pane] = gone
        job = service.lint_job(
            asked.fields, _options(asked.panes[0], asked.now), ignore=ignore, local_files=own_machine()
        )
        return call("page_findings", job, f"{asked.session}-findings", cancel=gone)
    except CallCancelled:
        return "null"
    except InspectorError as error:
        return text_of({"lint": None, "error": payload.error_text(error)})
    finally:
        if pane is not None and _runs.get(pane) is gone:
            del _runs[pane]


def cancel_findings(request: Any) -> str:
    """Give up the findings of a pane, `{session, slot}`."""
    if isinstance(request, dict):
        _give_up(f"{request.get('session')}-{request.get('slot')}")
    return "null"


def _give_up(pane: str) -> None:
    run = _runs.get(pane)
    if run is not None:
        run.set()


def _reasons(given: Any) -> dict[str, str]:
    """Read the rules that a person silenced, with their reasons.

    Errors: OptionInvalid for another shape; rules that do not exist are refused where they are checked.
    """
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(reason, str) for reason in given.values()):
        raise malformed()
    return given


FUNCTIONS = (findings, cancel_findings)  # what the page's script may call
