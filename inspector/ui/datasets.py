"""What the page's script may call about a scanned dataset: its summary, and one of its rows as the page's inputs.

Only a page for oneself reads folders. Tables and rows are read in a child; summary.py and picked.py say what they hold.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector import presets, service
from inspector.errors import ErrorKind, InspectorError
from inspector.ui.calls import answered, given_up, malformed, own_machine

if TYPE_CHECKING:
    from inspector.scan.picked import Picked

MOST_PATH = 4096


def datasets(request: Any) -> str:
    """List the scans that this machine has seen, newest first: `{scans: [{id, folder}]}`; none on a page for others."""
    from inspector.scan.picked import known_scans

    return answered(lambda _request, _session: {"scans": known_scans() if own_machine() else []}, request)


def dataset_open(request: Any) -> str:
    """Open the scan in `folder`, its place or id: `{folder, summary: scan-summary/1}`."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        from inspector.scan.picked import remember_scan

        folder = _folder(request)
        summary = _in_child("scan_summary", pickle.dumps(str(folder)), session)
        remember_scan(folder, summary["scan"]["id"])
        return {"folder": str(folder), "summary": summary}

    return answered(work, request)


def dataset_row(request: Any) -> str:
    """Give row `row` of `file` of the scan in `folder`: `{form, fields, options, panes, tools}`, what the page's inputs are to hold."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        from inspector.scan.picked import pick

        file, row = request.get("file"), request.get("row")
        if not isinstance(file, str) or len(file) > MOST_PATH or type(row) is not int:
            raise malformed()
        picked = pick(_folder(request), file, row)
        found = _in_child("scan_row", picked.payload(), session)
        return {"fields": found["fields"], "form": found["form"], **page_inputs(picked)}

    return answered(work, request)


def page_inputs(picked: Picked) -> dict[str, Any]:
    """Give what the page's inputs hold for a row: options, a pane a side, and whether the scan brought tools of its own."""
    options, windows = picked.plan["sides"][0]["options"], picked.plan["windows"]
    return {
        "options": {
            "clock": options["clock"] or "",
            "profile": options["profile"],
            "add_generation_prompt": options["add_generation_prompt"],
            "context_window": str(windows[0]) if windows else "",
            "max_new_tokens": str(options["max_new_tokens"] or ""),
            "policy": options["policy"],
            "whole_turns": options["whole_turns"],
            "media": options["media"],
        },
        "panes": [_pane(*refs, side) for refs, side in zip(picked.refs, picked.plan["sides"])],
        "tools": picked.plan["tools"] is not None,
    }


def _pane(tokenizer: str, template: str | None, side: dict[str, Any]) -> dict[str, str]:
    revision, options = (side["template"] or {}).get("revision"), side["options"]
    listed = template in presets.templates() and revision
    return {
        "tokenizer": tokenizer,
        "template": f"{template}@{revision}" if listed else template or "",
        "template_name": options["name"] or "",
        "pane_engine": "" if options["engine"] == "jinja2" else options["engine"],
        "pane_arguments": json.dumps(options["arguments"], ensure_ascii=False) if options["arguments"] else "",
    }


def _folder(request: dict[str, Any]) -> Path:
    from inspector.scan.picked import folder_of

    folder = request.get("folder")
    if not isinstance(folder, str) or not folder.strip() or len(folder) > MOST_PATH:
        raise malformed()
    if not own_machine():
        raise InspectorError(
            ErrorKind.OptionInvalid, "this page is for others: it reads no folder of its machine", stage="source",
            where={"option": "folder"}, remedy="open the scan on a page of your own: python -m inspector serve",
        )  # fmt: skip
    return folder_of(folder.strip())


def _in_child(job: str, payload: bytes, session: str) -> dict[str, Any]:
    name = f"page-{session}-dataset"
    answer = json.loads(service.sandbox().call(job, payload, session=name, supersede=True, cancel=given_up()))
    if answer.get("error"):
        raise InspectorError.from_dict(answer["error"])
    return answer


FUNCTIONS = (datasets, dataset_open, dataset_row)
