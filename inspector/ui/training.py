"""What the page's script may call about budgets, labels, batches, prefixes and new tokens.

Like serve.py: artifacts are found here, everything runs in sandbox children, and errors are values of the JSON string.
A page has one child for the budgets of all its panes and one for the rest, apart from those that answer while a person
types.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from inspector.sandbox import CallCancelled
from inspector.ui import serve
from inspector.ui.calls import answered, call, malformed
from inspector.ui.tools import _or_error


def budget(request: Any) -> str:
    """Fit the conversation of every pane into its window: what `view` takes, and `known`: keys of the pictures at hand.

    The answer is `{"panes": [views.budget.answer | {"error"}]}`; "null" when a newer request took over.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        known = request.get("known")
        if not isinstance(known, list) or len(known) != len(asked.panes):
            raise malformed()
        jobs = [_or_error(partial(_job, asked, q)) for q in range(len(asked.panes))]
        ready = [(entry["job"], key) for entry, key in zip(jobs, known) if "job" in entry]
        found = iter(json.loads(call("page_budget", ready, f"{asked.session}-budget", supersede=True))["panes"])
        panes = [next(found) if "job" in entry else entry for entry in jobs]
        return {"panes": [{**pane, "window": _window(entry)} for pane, entry in zip(panes, jobs)]}

    try:
        return answered(work, request)
    except CallCancelled:
        return "null"


def _job(asked: Any, q: int) -> dict[str, Any]:
    return {"job": serve.job_of(asked, q)}


def _window(entry: dict[str, Any]) -> int | None:
    return entry["job"].tokenizer.context_window if "job" in entry else None


# What the page's script may call.
FUNCTIONS = (budget,)
