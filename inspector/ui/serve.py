"""What the page's script may call. Artifacts are found here; everything that a visitor wrote goes to a sandbox child.

Each function takes the JSON value that the script sends and gives a JSON string. Errors are values of that string,
never exceptions: Gradio would hide their text.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inspector import service
from inspector.errors import InspectorError
from inspector.job import DEFAULT_MODEL, Fields, Job, Options, make_options, prepare
from inspector.jsontext import loads
from inspector.sandbox import CallCancelled
from inspector.ui import editing
from inspector.ui.calls import access, call, malformed, own_machine, session_of

PANES = 2
TOP_K = 20
_FIELDS = ("messages", "tools", "documents", "arguments")


@dataclass(slots=True)
class _Run:
    """What the `view` of a session is at. Units: `done` and `total` are bytes; `total` 0 where it is not known."""

    step: str = "artifacts"
    pane: int = 0
    ref: str = ""
    done: int = 0
    total: int = 0
    cancel: threading.Event = field(default_factory=threading.Event)

    def begin(self, pane: int, ref: str) -> None:
        if self.cancel.is_set():
            raise CallCancelled
        self.pane, self.ref, self.done, self.total = pane, ref, 0, 0

    def report(self, done: int, total: int, _label: str) -> None:
        self.done, self.total = done, total


_runs: dict[str, _Run] = {}  # the newest `view` of each session, while it runs


def view(request: Any) -> str:
    """Inspect both panes and compare them; the answer is `payload.build`'s. "null" when a newer request took over."""
    from inspector.ui import payload

    run = _Run()
    try:
        session = _checked(request)[0]
        _runs[session] = run
        _session, jobs, errors = _prepared(request, shared_clock=True, run=run)
        if not any(jobs):
            return payload.dumps(payload.build([None] * PANES, None, errors)).decode()
        run.step = "rendering"
        return call("view", (jobs, errors), session, supersede=True, cancel=run.cancel)
    except CallCancelled:
        return "null"
    except InspectorError as error:
        return payload.dumps(payload.build([None] * PANES, None, [payload.pane_error(error, None)])).decode()
    finally:
        for key in [key for key, value in list(_runs.items()) if value is run]:
            _runs.pop(key, None)


def progress(request: Any) -> str:
    """Say what the session's `view` is at: `{step: artifacts | rendering, pane, ref, done, total}`, or "null"."""
    from inspector.ui import payload

    run = _run_of(request)
    names = ("step", "pane", "ref", "done", "total")
    return payload.dumps(None if run is None else {name: getattr(run, name) for name in names}).decode()


def cancel(request: Any) -> str:
    """Give up the session's `view`: its child is stopped. A download goes on, for the cache."""
    run = _run_of(request)
    if run is not None:
        run.cancel.set()
    return "null"


def _run_of(request: Any) -> _Run | None:
    session = request.get("session") if isinstance(request, dict) else None
    return _runs.get(session) if isinstance(session, str) else None


def safe(request: Any) -> str:
    """Give both panes in their safe encodings, in the shape of `view`."""
    from inspector.ui import payload

    try:
        session, jobs, errors = _prepared(request, shared_clock=True)
        if not errors:
            return call("safe", jobs, session)
    except InspectorError as error:
        errors = [payload.pane_error(error, None)]
    return payload.dumps(payload.build([None] * PANES, None, errors)).decode()


def control(request: Any) -> str:
    """Give the tables of the Control view: `{"panes": [tables | {"error": text}]}`."""
    from inspector.ui import payload

    try:
        session, jobs, errors = _prepared(request, shared_clock=True)
        if not errors:
            return call("control", jobs, session)
        texts = ["\n".join(error["text"] for error in errors if error["pane"] in (q, None)) for q in range(PANES)]
    except InspectorError as error:
        texts = [payload.error_text(error)] * PANES
    return payload.dumps({"panes": [{"error": text} for text in texts]}).decode()


def record(request: Any) -> str:
    """Give the record of each pane as text: `{"records": [text, text]}`; an error's line where there is none."""
    from inspector.ui import payload

    try:
        session, jobs, errors = _prepared(request, shared_clock=False)
        if not errors:
            return call("record", jobs, session)
        texts = ["\n".join(error["text"] for error in errors if error["pane"] in (q, None)) for q in range(PANES)]
    except InspectorError as error:
        texts = [payload.error_text(error)] * PANES
    return payload.dumps({"records": texts}).decode()


def logits(request: Any) -> str:
    """Give the next-token top-k of each pane: `{"panes": [logits of inspection/1 | {"error"}]}`."""
    from inspector.ui import payload
    from inspector.ui.views import logits as logits_view

    try:
        session, fields, panes = _checked(request)
        model = str(request.get("model") or DEFAULT_MODEL)
        sides = [_options(pane, None) for pane in panes]
        found = service.next_tokens(Fields(**fields), sides, model=model, top_k=TOP_K, session=f"page-{session}",
                                    local_files=own_machine())  # fmt: skip
        results = [(side["logits"], side["error"]) for side in found["sides"]]
        for options, (found_logits, _error) in zip(sides, results, strict=True):
            if found_logits is not None:
                _spell(options, found_logits["top"], session)
    except InspectorError as error:
        results = [(None, error.to_dict())] * PANES
    return payload.dumps(logits_view.answer(results)).decode()


def _spell(options: Options, rows: list[dict[str, Any]], session: str) -> None:
    """Add the bytes of each row's token (base64), so that the page shows it as in its token flow."""
    from inspector.sources import resolve_tokenizer

    artifact = resolve_tokenizer(options.tokenizer, **access())
    spelled = json.loads(call("token_bytes", (artifact, [row["id"] for row in rows]), session))
    for row, text in zip(rows, spelled, strict=True):
        row["bytes"] = text


def estimate(request: Any) -> str:
    """Estimate the prompt tokens an OpenAI model bills: `{"count": OpenAICount as JSON | null, "error": ... | null}`."""
    from inspector.ui import payload

    try:
        session, fields, _panes = _checked(request)
        editors = Fields(fields["messages"], fields["tools"])
        count = service.count(editors, str(request.get("openai_model")), session=f"page-{session}")
    except InspectorError as error:
        place = None if error.stage == "request" else "openai_model"
        return payload.dumps({"count": None, "error": payload.pane_error(error, None, place)}).decode()
    return payload.dumps({"count": count, "error": None}).decode()


def _prepared(
    request: Any, *, shared_clock: bool, run: _Run | None = None
) -> tuple[str, list[Job | None], list[dict[str, Any]]]:
    """Find the artifacts of every pane: the session, a job or None a pane, and the errors of those that have none."""
    from inspector.ui import payload

    session, fields, panes = _checked(request)
    now = datetime.now().astimezone() if shared_clock else None
    jobs: list[Job | None] = []
    errors: list[dict[str, Any]] = []
    for q, pane in enumerate(panes):
        if run is not None:
            run.begin(q, pane["tokenizer"])
        try:
            report = None if run is None else run.report
            jobs.append(prepare(Fields(**fields), _options(pane, now), report, local_files=own_machine()))
        except InspectorError as error:
            jobs.append(None)
            errors.append(payload.pane_error(error, q, _source_place(error, pane)))
    return session, jobs, errors


def _source_place(error: InspectorError, pane: dict[str, Any]) -> str | None:
    """Say which of a pane's two references an artifact error is about: the tokenizer is resolved first."""
    if error.stage != "source":
        return None
    if not pane["template"]:
        return "tokenizer"
    for place in ("tokenizer", "template"):
        if error.where.get("ref") == pane[place][:200] != "":
            return place
    from inspector.sources import resolve_tokenizer

    try:
        resolve_tokenizer(pane["tokenizer"], **access())
    except InspectorError:
        return "tokenizer"
    return "template"


def _checked(request: Any) -> tuple[str, dict[str, str], list[dict[str, Any]]]:
    """Check the shape of what came over the wire; a page of ours never fails here.

    Errors: OptionInvalid.
    """
    try:
        session, fields, panes = session_of(request), request["fields"], request["panes"]
        sound = (
            _texts(fields, _FIELDS)
            and len(panes) == PANES
            and all(_texts(pane, ("tokenizer", "template", "profile", "policy", "clock")) for pane in panes)
        )
    except (TypeError, KeyError, AttributeError):
        sound = False
    if not sound:
        raise malformed()
    return session, {name: fields[name] for name in _FIELDS}, panes


def _texts(value: dict[str, Any], names: Iterable[str]) -> bool:
    return all(isinstance(value[name], str) for name in names)


def _options(pane: dict[str, Any], now: datetime | None) -> Options:
    """Read a pane's options.

    Errors: OptionInvalid naming the field.
    """
    text, engine = pane.get("template_text"), pane.get("engine")
    return make_options(
        tokenizer=pane["tokenizer"],
        template=pane["template"] or None,
        template_text=text if isinstance(text, str) else None,
        name=str(pane.get("template_name") or "") or None,
        arguments=_arguments(pane.get("arguments")),
        add_generation_prompt=bool(pane.get("add_generation_prompt", True)),
        clock=pane["clock"] or now,
        profile=pane["profile"],
        policy=pane["policy"],
        context_window=whole_number("context_window", pane.get("context_window")),
        max_new_tokens=whole_number("max_new_tokens", pane.get("max_new_tokens")) or 0,
        **({"engine": engine} if isinstance(engine, str) and engine else {}),
    )


def _arguments(given: Any) -> dict[str, Any]:
    """Read a pane's own template arguments, an object or its JSON text; they win over the shared ones.

    Errors: InputInvalid, OptionInvalid.
    """
    if given is None or given == "":
        return {}
    value = loads(given, root="chat_template_kwargs") if isinstance(given, str) else given
    if not isinstance(value, dict):
        from inspector.ui.payload import option_error

        raise option_error("arguments", "a pane's arguments are no JSON object", 'write {"name": value, ...}')
    return value


def whole_number(option: str, text: Any) -> int | None:
    """Read a whole number as typed; None when the field is empty.

    Errors: OptionInvalid.

    >>> whole_number("context_window", "4_096"), whole_number("context_window", "")
    (4096, None)
    """
    written = str(text or "").strip()
    if not written:
        return None
    if not re.fullmatch(r"[0-9][0-9_, ]{0,18}", written):
        from inspector.ui.payload import option_error

        raise option_error(option, f"{written[:40]!r} is not a whole number", "write digits, or leave the field empty")
    return int(re.sub("[_, ]", "", written))


FUNCTIONS = (
    view,
    safe,
    control,
    logits,
    record,
    estimate,
    progress,
    cancel,
    *editing.FUNCTIONS,
)  # what the page's script may call
