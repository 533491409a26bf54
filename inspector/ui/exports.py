"""What the page's script may call to take panes away as files (exports/): one file, or several in a zip.

Like serve.py: artifacts are found here, the export is made in a sandbox child, and errors are values.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from typing import Any

from inspector import limits, service
from inspector.errors import ErrorKind
from inspector.exports import find_export
from inspector.exports.base import File
from inspector.ui import serve
from inspector.ui.calls import answered, call

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
    remedy = "use python -m inspector export, or export a shorter request"
    what = f"the export has {len(data):,} bytes"
    limits.check("export_bytes", len(data), what, ErrorKind.OutputTooLarge, "sandbox", remedy)
    return data


FUNCTIONS = (export_panes,)
