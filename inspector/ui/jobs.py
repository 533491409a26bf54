"""The page's two jobs in a sandbox child: the answer for both panes, and the record of each.

Payloads are pickles of our own process; answers are JSON text. Artifacts were fetched before (serve.py): nothing here
touches the network, and no model runs here.
"""

from __future__ import annotations

import pickle
from typing import Any


def view(payload: bytes) -> bytes:
    """Run a pickled (list of `pipeline.Job` or None, list of errors as `payload.pane_error` makes them)."""
    from inspector.ui import payload as answers

    jobs, errors = pickle.loads(payload)
    inspections = [None if job is None else _run(job) for job in jobs]
    return answers.view(inspections, _compared(inspections), errors)


def record(payload: bytes) -> bytes:
    """Give the record of each pickled `pipeline.Job` as readable JSON text; "" for a None."""
    from inspector.ui import payload as answers
    from inspector.ui.views import record as record_view

    jobs = pickle.loads(payload)
    return answers.dumps({"records": ["" if job is None else record_view.text(_run(job).to_dict()) for job in jobs]})


def _run(job: Any) -> Any:
    from inspector.pipeline import run

    return run(job)


def _compared(inspections: list[Any]) -> Any:
    if len(inspections) != 2 or any(i is None or i.encoding is None for i in inspections):
        return None
    from inspector.comparison import compare_inspections

    return compare_inspections(*inspections)
