"""What the page's script may call to open a record: what it puts into the page's fields, and whether it replays here.

Records are read and compared by replay.py and parting.py; this module only says what goes where on the page.
"""

from __future__ import annotations

from typing import Any

from inspector import limits, service
from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import loads
from inspector.parting import LIMITS
from inspector.replay import read_record
from inspector.request import dump_request
from inspector.ui.calls import answered, malformed, own_machine
from inspector.withheld import is_local

_EDITORS = {"messages": "messages", "tools": "tools", "documents": "documents", "arguments": "chat_template_kwargs"}


def open_record(request: Any) -> str:
    """Read the record in `text` and replay it: `{digest, outcome: equal|different|failed, stage, line, notes, fields,
    options, pane}`; the last three are what the page's inputs are to hold."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        text = request.get("text")
        if not isinstance(text, str):
            raise malformed()
        what, remedy = f"the record has {len(text):,} characters", "open it with python -m inspector replay"
        limits.check("record_chars", len(text), what, ErrorKind.InputTooLarge, "request", remedy)
        value = read_record(text.encode("utf-8", "surrogatepass"))
        replayed = _replayed(value, session)
        if value["options"]["continue_final_message"]:
            replayed["notes"].append("continue_final_message: the page has no such choice")
        return {"digest": value["digest"], **replayed, **page_inputs(value, moved=replayed["moved"])}

    return answered(work, request)


def _replayed(value: dict[str, Any], session: str) -> dict[str, Any]:
    from inspector.ui.payload import error_text

    try:
        result = service.replay(value, session=f"page-{session}-record", local_files=own_machine())
    except InspectorError as error:
        return {"outcome": "failed", "stage": None, "line": error_text(error), "notes": [], "moved": True}
    difference = result["difference"]
    if difference is None:
        return {"outcome": "equal", "stage": None, "line": "", "notes": result["notes"], "moved": False}
    moved = difference["path"] == "template.digest"
    named = {"stage": difference["stage"], "line": f"{difference['path']}: {difference['message']}"}
    return {"outcome": "different", **named, "notes": result["notes"], "moved": moved}


def page_inputs(value: dict[str, Any], *, moved: bool = False) -> dict[str, Any]:
    """Give what the page's inputs hold for a record. `moved`: its template's reference gives no longer its text, so the
    text stands for it, if the record has it."""
    options, template = value["options"], value["template"]
    ref, text = options["template"], None
    if template is not None and not template["own"]:
        pasted = template["ref"] == "pasted" or template["revision"] == "edited" or is_local(ref)
        text = template["text"] if pasted or moved else None
    elif template is not None and moved:
        text = template["text"]
    return {
        "fields": _fields(value),
        "options": {
            "clock": value["injected"]["clock"],
            "profile": options["profile"],
            "add_generation_prompt": options["add_generation_prompt"],
            "context_window": _number(options["context_window"]),
            "max_new_tokens": _number(options["max_new_tokens"] or None),
            "policy": options["policy"],
            "whole_turns": options["whole_turns"],
            "first_turns": _number(None if options.get("first_turns", 1) == 1 else options["first_turns"]),
            "document_order": ", ".join(map(str, options["document_order"])),
            "media": options.get("media", "auto"),
            "image_tokens": _number(options.get("image_tokens")),
        },
        "pane": {
            "tokenizer": options["tokenizer"],
            "template": _listed(ref, template),
            "template_text": text,
            "template_name": options["name"] or "",
            "pane_engine": "" if options["engine"] == "jinja2" else options["engine"],
        },
    }


def _listed(ref: str | None, template: dict[str, Any] | None) -> str:
    """Give the reference as the page's list has it: a catalogue's id with the revision that was meant."""
    if ref and template is not None and ref == template["id"] and template["revision"]:
        return f"{ref}@{template['revision']}"
    return ref or ""


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _fields(value: dict[str, Any]) -> dict[str, str]:
    """Give the texts of the four editors: each part in its own, or the whole request in the first one where it has
    other keys. Template arguments that were given beside the request win, as they did."""
    text = value["request"]["text"]
    if text is None:
        return dict.fromkeys(_EDITORS, "")
    request = loads(text, root="request", limits=LIMITS)
    request = {"messages": request} if isinstance(request, list) else request
    beside = loads(value["injected"]["arguments"], root="arguments", limits=LIMITS)
    arguments = {**(request.get("chat_template_kwargs") or {}), **beside}
    if set(request) - set(_EDITORS.values()):
        return {"messages": _text(request), "tools": "", "documents": "", "arguments": _text(beside or None)}
    parts = {**request, "chat_template_kwargs": arguments or None}
    return {field: _text(parts.get(key)) for field, key in _EDITORS.items()}


def _text(value: Any) -> str:
    return "" if value is None else dump_request(value, 2)


FUNCTIONS = (open_record,)
