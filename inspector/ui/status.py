"""What the server says of itself: who it is for, what isolates the children, the limits, who runs and who waits.

Nothing in it is a visitor's, or a place on this machine. It is asked for at that moment: a sandbox that does not answer is
in it as what it is.
"""

from __future__ import annotations

import json
import time
from typing import Any

from inspector import __version__, limits, service
from inspector.errors import InspectorError
from inspector.sandbox import CallCancelled
from inspector.ui.admission import Admission, Bounds

SCHEMA = "status/1"
_BOUNDS = (
    "session_running",
    "session_waiting",
    "address_running",
    "address_waiting",
    "waiting",
    "wait_s",
    "body_bytes",
)
_ISOLATION = ("mechanism", "seccomp", "landlock", "rlimits", "refused", "dies_with_parent", "notes")
_started = time.monotonic()


def text(admission: Admission, under_way: dict[str, int]) -> str:
    """Give `status/1` as JSON text."""
    return json.dumps(status(admission, under_way))


def status(admission: Admission, under_way: dict[str, int]) -> dict[str, Any]:
    """Give `status/1`: mode, version, uptime_s, isolation (null with `error` where the sandbox does not answer), limits of a
    call, children, admission, model. `under_way`: requests that are being read or answered, answers that are being read."""
    isolation, error = None, None
    children: dict[str, Any] = {}
    try:
        found = service.sandbox().status()
        error = found["error"]
        isolation = {name: found[name] for name in _ISOLATION}
        children = {
            "running": found["running"],
            "live": found["children"],
            "warm": found["sessions"],
            "restarts": found["restarts"],
        }
    except (InspectorError, CallCancelled, RuntimeError, OSError) as fault:
        error = fault.one_line() if isinstance(fault, InspectorError) else "the sandbox does not answer"
    return {
        "schema": SCHEMA,
        "mode": limits.in_force().mode,
        "version": __version__,
        "uptime_s": int(time.monotonic() - _started),
        "isolation": isolation,
        "limits": limits.to_dict(limits.in_force()),
        "children": children,
        "admission": {**under_way, **admission.status(), **_bounds(admission.bounds)},
        "model": service.model_status(),
        "error": error,
    }


def _bounds(bounds: Bounds) -> dict[str, Any]:
    return {"places": bounds.places, "places_model": bounds.model_places} | {
        f"most_{name}": getattr(bounds, name) for name in _BOUNDS
    }
