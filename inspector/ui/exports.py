"""What the page's script may call to take panes away as files (exports/): one file, or several in a zip.

Like serve.py: artifacts are found here, the export is made in a sandbox child, and errors are values.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from typing import Any

from inspector import service
from inspector.errors import ErrorKind, InspectorError
from inspector.exports import find_export
from inspector.exports.base import File
from inspector.ui import serve
from inspector.ui.calls import answered, call, own_machine

MOST_OWN_FILE, MOST_FILE = 200_000_000, 12_000_000  # bytes that are sent: to oneself, to strangers
_TIME = (2020, 1, 1, 0, 0, 0)  # of every file in a zip: the same input is the same zip


def export_panes(request: Any) -> str:
    """Export one pane, or two as a comparison: `{session, at, fields, panes: [A] | [A, B], form}`; `{data: base64}`.

    It runs in the child of the last pane.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked, form = serve.checked(request), str(request.get("form"))
        export = find_export(form, len(asked.panes))
        jobs = tuple(serve.job_of(asked, q) for q in range(len(asked.panes)))
        files = service.exported(json.loads(call("export", (jobs, form), asked.child(len(jobs) - 1))))
        data = _zip(files) if export.folder else files[0].data
        return {"data": base64.b64encode(_bounded(data)).decode("ascii")}

    return answered(work, request)


def _zip(files: tuple[File, ...]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name, _TIME), file.data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _bounded(data: bytes) -> bytes:
    """Errors: OutputTooLarge."""
    most = MOST_OWN_FILE if own_machine() else MOST_FILE
    if len(data) <= most:
        return data
    raise InspectorError(
        ErrorKind.OutputTooLarge,
        f"the export has {len(data):,} bytes, the limit of this page is {most:,}",
        stage="sandbox",
        where={"limit": most},
        remedy="use python -m inspector export, or export a shorter request",
    )


FUNCTIONS = (export_panes,)
