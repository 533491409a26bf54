"""What the page's script may call. Artifacts are found here; everything that a visitor wrote goes to a sandbox child.

Each function takes the JSON value that the script sends and gives a JSON string. Errors are values of that string,
never exceptions: Gradio would hide their text.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inspector import caller, service
from inspector.errors import ErrorKind, InspectorError
from inspector.job import Fields, Job, Options, make_options, prepare
from inspector.jsontext import loads
from inspector.sandbox import CallCancelled
from inspector.ui import editing
from inspector.ui.calls import access, admission, answered, call, given_up, malformed, own_machine, session_of, text_of

MOST_PANES = 6
MOST_NAMED = 64  # code points that are named in one answer
_FIELDS = ("messages", "tools", "documents", "arguments")
_CHOICES = ("tokenizer", "template", "profile", "policy", "clock")
_SLOT = re.compile(r"[0-9a-z]{1,8}")
_BASE = re.compile(r"[0-9a-f]{16}")


@dataclass(slots=True)
class _Run:
    """What the `view` of a pane is at. Units: `done` and `total` are bytes; `total` 0 where it is not known."""

    step: str = "artifacts"
    ref: str = ""
    done: int = 0
    total: int = 0
    cancel: threading.Event = field(default_factory=given_up)

    def begin(self, ref: str) -> None:
        if self.cancel.is_set():
            raise CallCancelled
        self.ref, self.done, self.total = ref, 0, 0

    def report(self, done: int, total: int, _label: str) -> None:
        self.done, self.total = done, total


_runs: dict[str, _Run] = {}  # the newest `view` of each pane, while it runs


def view(request: Any) -> str:
    """Inspect one pane: `{session, at, base, fields, panes: [pane]}`; the answer is `payload.answer`'s.

    `pane.slot` names it for as long as the page is open: it has a child of its own, so that a slow pane holds up no
    other. `at`: milliseconds since 1970, the clock of panes that have none; `base`: the answer that the page holds.
    "null" when a newer request took over.
    """
    return _view(request, safe=False)


def safe(request: Any) -> str:
    """Give one pane in its safe encoding, in the shape of `view`."""
    return _view(request, safe=True)


def _view(request: Any, *, safe: bool) -> str:
    from inspector.ui import payload

    run = _Run()
    child, pane = None, None
    try:
        asked = checked(request)
        child, pane = asked.child(), asked.panes[0]
        if not safe:
            _runs[child] = run
        run.begin(pane["tokenizer"])
        job = prepare(asked.fields, _options(pane, asked.now), run.report, local_files=own_machine())
        run.step = "rendering"
        return call("view", (job, asked.base, safe), child, supersede=not safe, cancel=run.cancel)
    except CallCancelled:
        return "null"
    except InspectorError as error:
        fault = payload.pane_error(error, None, _source_place(error, pane) if pane else None)
        return payload.dumps(payload.answer(None, None, [fault])[0]).decode()
    finally:
        if child is not None and _runs.get(child) is run:
            _runs.pop(child, None)


def comparison(request: Any) -> str:
    """Compare two panes that were shown: `{session, fields, panes: [A, B]}`; `{"comparison": ...}`, null if it failed.

    It runs in the child of the second pane, which has that pane at hand.
    """

    found = "null"
    try:
        asked = checked(request)
        jobs = [job_of(asked, q) for q in range(2)]
        found = call("view_comparison", jobs, asked.child(1))
    except (CallCancelled, InspectorError, IndexError):
        pass  # the panes themselves say what is wrong
    return f'{{"comparison": {found}}}'


def progress(request: Any) -> str:
    """Say what the `view` of a pane is at: `{step: artifacts | rendering, ref, done, total}`; `{step: queue, why, before}`
    where it waits for a place (Admission.waits); or "null"."""
    from inspector.ui import payload

    run = _run_of(request)
    names = ("step", "ref", "done", "total")
    said = {name: getattr(run, name) for name in names} if run is not None else _waits(request)
    return payload.dumps(said).decode()


def _waits(request: Any) -> dict[str, Any] | None:
    if not isinstance(request, dict):
        return None
    session, lane = str(request.get("session"))[:32], f"view {str(request.get('slot'))[:8]}"
    waits = admission().waits(caller.current().address, session, lane)
    return waits and {"step": "queue", **waits}


def cancel(request: Any) -> str:
    """Give up the `view` of a pane: its child is stopped. A download goes on, for the cache."""
    run = _run_of(request)
    if run is not None:
        run.cancel.set()
    return "null"


def _run_of(request: Any) -> _Run | None:
    return _runs.get(f"{request.get('session')}-{request.get('slot')}") if isinstance(request, dict) else None


def control(request: Any) -> str:
    """Give the tables of the Control view: `{"panes": [tables | {"error": text}]}`."""
    return _of_each_pane(request, "control", "panes", lambda text: {"error": text})


def record(request: Any) -> str:
    """Give the record of each pane as text: `{"records": [text]}`; an error's line where there is none."""
    from inspector.record import places_of
    from inspector.withheld import refuse_environment

    return _of_each_pane(
        request, "record", "records", lambda text: text, lambda job: (job, places_of(job)), refuse_environment
    )


def _of_each_pane(
    request: Any,
    job: str,
    name: str,
    failed: Callable[[str], Any],
    payload_of: Callable[[Job], Any] = lambda job: job,
    check: Callable[[str], None] = lambda answer: None,
) -> str:
    """Run a job for every pane, each in its own child; join their lists `name`, with `failed(line)` for an error.

    A stranger's place is for one child: pane after pane, and others go first in between.

    `payload_of`: what a child is given; `check` may refuse its answer.
    """
    from inspector.ui import payload

    def one(asked: Asked, q: int) -> str:
        try:
            if in_turn is not None and q:
                in_turn()
            answer = call(job, payload_of(job_of(asked, q)), asked.child(q))
            check(answer)
            return _only(answer, name)
        except InspectorError as error:
            return text_of(failed(payload.error_text(error)))

    try:
        asked = checked(request)
    except InspectorError as error:
        return payload.dumps({name: [failed(payload.error_text(error))]}).decode()
    in_turn = caller.current().give_way
    if not own_machine():
        return _listed(name, [one(asked, q) for q in range(len(asked.panes))])
    with ThreadPoolExecutor(len(asked.panes)) as pool:
        asking = [pool.submit(copy_context().run, one, asked, q) for q in range(len(asked.panes))]
    return _listed(name, [each.result() for each in asking])


def _only(answer: str, name: str) -> str:
    """Give the text of the one entry of a child's list `name`, unread.

    Errors: WorkerCrashed where it is another text.
    """
    begin, end = f'{{"{name}": [', "]}"
    if not (answer.startswith(begin) and answer.endswith(end)):
        raise InspectorError(
            ErrorKind.WorkerCrashed, "the child's answer is not what was asked", stage="sandbox", remedy="try again"
        )
    return answer[len(begin) : -len(end)]


def _listed(name: str, entries: list[str]) -> str:
    return f'{{"{name}": [{", ".join(entries)}]}}'


def estimate(request: Any) -> str:
    """Estimate the prompt tokens an OpenAI model bills: `{"count": OpenAICount as JSON | null, "error": ... | null}`."""
    from inspector.ui import payload

    try:
        asked = checked(request)
        editors = Fields(asked.fields.messages, asked.fields.tools)
        count = service.count(editors, str(request.get("openai_model")), session=f"page-{asked.session}")
    except InspectorError as error:
        place = None if error.stage == "request" else "openai_model"
        return payload.dumps({"count": None, "error": payload.pane_error(error, None, place)}).decode()
    return payload.dumps({"count": count, "error": None}).decode()


def job_of(asked: Asked, q: int) -> Job:
    """Find the artifacts of a pane.

    Errors: those of `prepare`, OptionInvalid.
    """
    return prepare(asked.fields, options_of(asked, q), local_files=own_machine())


def options_of(asked: Asked, q: int) -> Options:
    """Read the options of a pane.

    Errors: OptionInvalid naming the field.
    """
    return _options(asked.panes[q], asked.now)


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What came over the wire, checked. Panes are named by their slots; `now` is the clock of panes without one."""

    session: str
    fields: Fields
    panes: tuple[dict[str, Any], ...]
    slots: tuple[str, ...]
    now: datetime
    base: str | None = None

    def child(self, q: int = 0) -> str:
        """Give the name of the sandbox session of a pane."""
        return f"{self.session}-{self.slots[q]}"


def checked(request: Any) -> Asked:
    """Check the shape of what came over the wire; a page of ours never fails here.

    Errors: OptionInvalid.
    """
    session = session_of(request)
    try:
        fields, panes = request["fields"], request["panes"]
        sound = _texts(fields, _FIELDS) and isinstance(panes, list) and 0 < len(panes) <= MOST_PANES
        sound = sound and all(_texts(pane, _CHOICES) for pane in panes)
        slots = tuple(str(pane.get("slot", q)) for q, pane in enumerate(panes)) if sound else ()
        base, now = request.get("base"), _moment(request.get("at"))
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError, OSError):
        sound = False
    if not sound or not all(_SLOT.fullmatch(slot) for slot in slots):
        raise malformed()
    if base is not None and not (isinstance(base, str) and _BASE.fullmatch(base)):
        raise malformed()
    return Asked(session, Fields(**{name: fields[name] for name in _FIELDS}), tuple(panes), slots, now, base)


def _moment(at: Any) -> datetime:
    """Give the time that the page names, so that panes asked for one by one show the same; else now."""
    if at is None:
        return datetime.now().astimezone()
    return datetime.fromtimestamp(float(at) / 1000).astimezone()


def _texts(value: dict[str, Any], names: Iterable[str]) -> bool:
    return all(isinstance(value[name], str) for name in names)


def _options(pane: dict[str, Any], now: datetime) -> Options:
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
        **_budget_options(pane),
        media=str(pane.get("media") or "auto"),
        image_tokens=whole_number("image_tokens", pane.get("image_tokens")),
        **({"engine": engine} if isinstance(engine, str) and engine else {}),
    )


def _budget_options(pane: dict[str, Any]) -> dict[str, Any]:
    """Read what a budget's policy is told besides: whole_turns, first_turns, document_order.

    Errors: OptionInvalid naming the field.
    """
    first = whole_number("first_turns", pane.get("first_turns"))
    return {
        "whole_turns": bool(pane.get("whole_turns")),
        "first_turns": 1 if first is None else first,
        "document_order": index_list("document_order", pane.get("document_order")),
    }


def index_list(option: str, text: Any) -> tuple[int, ...]:
    """Read indices as typed.

    Errors: OptionInvalid.

    >>> index_list("document_order", "2, 0,1")
    (2, 0, 1)
    """
    words = [word.strip() for word in str(text or "").split(",") if word.strip()]
    wrong = next((word for word in words if not re.fullmatch("[0-9]{1,6}", word)), None)
    if wrong is not None:
        from inspector.ui.payload import option_error

        raise option_error(option, f"{wrong[:40]!r} is no index", "write numbers from 0, parted by commas: 2, 0, 1")
    return tuple(map(int, words))


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


def names(request: Any) -> str:
    """Name the code points of a short text: `{"names": ["U+0041 LATIN CAPITAL LETTER A"]}`, one a character."""
    from inspector.stages import code_points

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        text = request.get("text")
        if not isinstance(text, str) or len(text) > MOST_NAMED:
            raise malformed()
        return {"names": code_points(text)}

    return answered(work, request)


FUNCTIONS = (
    names,
    view,
    comparison,
    safe,
    control,
    record,
    estimate,
    progress,
    cancel,
    *editing.FUNCTIONS,
)  # what the page's script may call
