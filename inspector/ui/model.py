"""What the page's script may ask a model for: the verdict, a prompt's heat, a sampler's view, steps of a walk, what-ifs.

Each takes what serve.view takes, with `model` and `dtype`, and `backend`, the URL of a model server, where not this machine is to
compute: any on a page for oneself, on a page for others one that the operator listed; a walk, a heat, a sampler and what-ifs are of one pane. A newer call
of the same question of a page takes the place of the older one, which stops computing. Errors are values of the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inspector import limits, service
from inspector import modelservice as ask
from inspector.backends import Backend, load_backend
from inspector.errors import InspectorError
from inspector.job import DEFAULT_MODEL
from inspector.sandbox import CallCancelled
from inspector.ui.calls import answered, given_up, malformed, own_machine, text_of
from inspector.ui.serve import Asked, checked, options_of

TOP_K = 20
MOST_STEPS_A_CALL = 8
_LONGEST = 2000  # characters of a typed text


@dataclass(slots=True)
class _Run:
    """What a question is at. `turn`: its number on the page; `done`, `total`: tokens; `found`: rows of the answer that
    are there already."""

    turn: int = 0
    doing: str = "waiting"
    done: int = 0
    total: int = 0
    found: list[Any] = field(default_factory=list)
    cancel: threading.Event = field(default_factory=given_up)

    def report(self, doing: str, done: int = 0, total: int = 0, /) -> None:
        self.doing, self.done, self.total = doing, done, total


_runs: dict[str, _Run] = {}  # the newest call of each question of a page, while it runs
_Work = Callable[[dict[str, Any], Asked, ask.Asking, _Run], dict[str, Any]]


def verdict(request: Any) -> str:
    """Give `verdict/1` of all panes; `typed`: a token to watch."""
    from inspector.ui import payload

    def work(request: dict[str, Any], asked: Asked, asking: ask.Asking, _run: _Run) -> dict[str, Any]:
        sides = [options_of(asked, q) for q in range(len(asked.panes))]
        sessions = [f"page-{asked.child(q)}" for q in range(len(sides))]
        typed = _text(request.get("typed"))
        found = ask.ask_verdict(asked.fields, sides, asking, top_k=TOP_K, typed=typed, sessions=sessions)
        for side in found["sides"]:
            if side["error"] is not None:
                side["error"] = {"text": payload.error_text(InspectorError.from_dict(side["error"]))}
        return found

    return _answered("verdict", work, request)


def heat(request: Any) -> str:
    """Give `heat/1` of a pane."""

    def work(_request: dict[str, Any], asked: Asked, asking: ask.Asking, _run: _Run) -> dict[str, Any]:
        return ask.ask_heat(asked.fields, options_of(asked, 0), asking)

    return _answered("heat", work, request)


def sampler(request: Any) -> str:
    """Give `sampler/1` of a pane: `settings` null for those of the model; `appended`: ids after the prompt."""

    def work(request: dict[str, Any], asked: Asked, asking: ask.Asking, _run: _Run) -> dict[str, Any]:
        settings = request.get("settings")
        if settings is not None and not isinstance(settings, dict):
            raise malformed()
        appended = _ids(request.get("appended"))
        return ask.ask_sampler(
            asked.fields,
            options_of(asked, 0),
            asking,
            settings,
            top_k=TOP_K,
            ids=_ids(request.get("ids")),
            appended=appended,
        )

    return _answered("sampler", work, request)


def walk(request: Any) -> str:
    """Take a few steps: `{appended, chosen, text, tokens, limit}`; `{steps, stops}`."""

    def work(request: dict[str, Any], asked: Asked, asking: ask.Asking, _run: _Run) -> dict[str, Any]:
        tokens, limit = request.get("tokens"), request.get("limit")
        if not all(isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in (tokens, limit)):
            raise malformed()
        going = ask.Going(
            appended=tuple(_ids(request.get("appended"))),
            chosen=tuple(_ids(request.get("chosen"))),
            text=_text(request.get("text")),
            tokens=min(int(tokens), MOST_STEPS_A_CALL),  # type: ignore[arg-type]
            limit=min(int(limit), ask.MOST_STEPS),  # type: ignore[arg-type]
            stop_strings=tuple(_text(text) for text in (request.get("stop_strings") or [])[:8]),
        )
        return {"steps": list(ask.ask_walk(asked.fields, options_of(asked, 0), asking, going))}

    return _answered("walk", work, request)


def whatif(request: Any) -> str:
    """Give `whatif/1` of a pane; its rows come in the progress as they are found."""
    from inspector.ui import payload

    def work(_request: dict[str, Any], asked: Asked, asking: ask.Asking, run: _Run) -> dict[str, Any]:
        found = ask.ask_whatif(asked.fields, options_of(asked, 0), asking, each=run.found.append)
        for row in found["rows"]:
            if row["error"] is not None:
                row["error"] = payload.error_text(InspectorError.from_dict(row["error"]))
        return found

    return _answered("whatif", work, request)


def model_server(request: Any) -> str:
    """Say what a model server is and can give: `{session, backend}`; `server/1`."""
    return answered(
        lambda given, _session: ask.ask_server(_text(given.get("backend")), public=not own_machine()), request
    )


def model_progress(request: Any) -> str:
    """Say what a question is at: `{session, what}`; `{doing, done, total, found}`, or "null"."""
    run = _run_of(request)
    return text_of(
        None if run is None else {"doing": run.doing, "done": run.done, "total": run.total, "found": run.found}
    )


def model_cancel(request: Any) -> str:
    """Give up a question: `{session, what}`."""
    run = _run_of(request)
    if run is not None:
        run.cancel.set()
    return "null"


def _run_of(request: Any) -> _Run | None:
    return _runs.get(f"{request.get('session')}-{request.get('what')}") if isinstance(request, dict) else None


def _answered(what: str, work: _Work, request: Any) -> str:
    """Give what `work` gives with `error: null`, `{error: line, kind}`, or `{cancelled: true}`."""
    from inspector.ui import payload

    run, key = _Run(), None
    try:
        asked = checked(request)
        key = f"{asked.session}-{what}" + (f"-{asked.slots[0]}" if what == "heat" else "")
        run.turn = request["turn"] if isinstance(request.get("turn"), int) else 0
        other = _runs.get(key)
        if other is not None:
            if other.turn > run.turn:  # the network turned the order round
                raise CallCancelled
            other.cancel.set()
        _runs[key] = run
        asking = ask.Asking(
            str(request.get("model") or ("" if request.get("backend") else DEFAULT_MODEL)),
            _backend(request.get("backend")),
            dtype=str(request["dtype"]) if request.get("dtype") else None,
            session=f"page-{asked.child()}",
            local_files=own_machine(),
            report=run.report,
            cancel=run.cancel,
        )
        return text_of({**work(request, asked, asking, run), "error": None})
    except CallCancelled:
        return text_of({"cancelled": True})
    except InspectorError as error:
        return text_of({"error": payload.error_text(error), "kind": error.kind.name})
    finally:
        if key is not None and _runs.get(key) is run:
            del _runs[key]


def _backend(url: Any) -> Backend:
    """Give this machine's worker, or the server of that URL. Errors: OptionInvalid for one that this page may not ask."""
    return load_backend("openai", _text(url), public=not own_machine()) if url else service.model_worker()


def _ids(value: Any) -> list[int]:
    given = value or []
    if not isinstance(given, list) or len(given) > limits.in_force().logits_tokens:
        raise malformed()
    if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in given):
        raise malformed()
    return given


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST or any("\ud800" <= c <= "\udfff" for c in value):
        raise malformed()
    return value


FUNCTIONS = (
    verdict,
    heat,
    sampler,
    walk,
    whatif,
    model_server,
    model_progress,
    model_cancel,
)  # what the page's script may call
