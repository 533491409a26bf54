"""What the page's script may call about two panes side by side, beyond the line in their heads: every differing region.

Like serve.py: artifacts are found here, the comparison runs in a sandbox child, and errors are values of the JSON string.
"""

from __future__ import annotations

import json
from typing import Any

from inspector.sandbox import CallCancelled
from inspector.ui import serve
from inspector.ui.calls import answered, call, malformed


def hunks(request: Any) -> str:
    """List the differing regions of two panes: `{session, at, fields, panes: [A, B]}`; the answer is views/diff.py's.

    It runs in the child of the second pane, which has that pane at hand. "null" when a newer request took over.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        if len(asked.panes) != 2:
            raise malformed()
        jobs = [serve.job_of(asked, q) for q in range(2)]
        found = json.loads(call("page_hunks", jobs, asked.child(1), supersede=True))
        return dict(found)

    try:
        return answered(work, request)
    except CallCancelled:
        return "null"


FUNCTIONS = (hunks,)
