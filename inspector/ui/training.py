"""What the page's script may call about budgets, labels, batches, prefixes and new tokens.

Like serve.py: artifacts are found here, everything runs in sandbox children, and errors are values of the JSON string.
A page has one child for the budgets of all its panes and one for the rest, apart from those that answer while a person
types.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from inspector import presets, service
from inspector.errors import InspectorError
from inspector.job import Fields, prepare, without_window
from inspector.sandbox import CallCancelled
from inspector.ui import serve
from inspector.ui.calls import access, answered, call, malformed, own_machine
from inspector.ui.tools import or_error, tokenizer_of
from inspector.ui.views import tensors as tensors_view
from inspector.ui.views import training as training_view

MOST_LENGTH = 10_000_000


def budget(request: Any) -> str:
    """Fit the conversation of every pane into its window: what `view` takes, and `known`: keys of the pictures at hand.

    The answer is `{"panes": [views.budget.answer | {"error"}]}`; "null" when a newer request took over.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        known = request.get("known")
        if not isinstance(known, list) or len(known) != len(asked.panes):
            raise malformed()
        jobs = [or_error(partial(_job, asked, q)) for q in range(len(asked.panes))]
        ready = [(entry["job"], key) for entry, key in zip(jobs, known) if "job" in entry]
        found = iter(json.loads(call("page_budget", ready, f"{asked.session}-budget", supersede=True))["panes"])
        panes = [next(found) if "job" in entry else entry for entry in jobs]
        return {"panes": [{**pane, "window": _window(entry)} for pane, entry in zip(panes, jobs)]}

    try:
        return answered(work, request)
    except CallCancelled:
        return "null"


def _job(asked: serve.Asked, q: int) -> dict[str, Any]:
    return {"job": serve.job_of(asked, q)}


def _window(entry: dict[str, Any]) -> int | None:
    return entry["job"].tokenizer.context_window if "job" in entry else None


def labels(request: Any) -> str:
    """Label the conversation of every pane, whatever its window is: what `view` takes, `mode`, `max_length`, `tag_only`.

    The answer is `{"panes": [views.training.labels | {"error"}]}`.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        longest = _number(request, "max_length", MOST_LENGTH)
        how = (_word(request, "mode"), longest, bool(request.get("tag_only")))
        return _each_pane(asked, "page_labels", f"{asked.session}-training", how)

    return answered(work, request)


def prefix(request: Any) -> str:
    """Compare every pane's steps: what `view` takes, `block_size`, `model_revision`, `adapter`.

    The answer is `{"panes": [prefix/1 with `left_out` | {"error"}]}`.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        block = _number(request, "block_size", MOST_LENGTH)
        how = (16 if block is None else block, _word(request, "model_revision"), _word(request, "adapter"))
        return _each_pane(asked, "page_prefix", f"{asked.session}-prefix", how)

    return answered(work, request)


def _each_pane(asked: serve.Asked, job: str, child: str, how: tuple[Any, ...]) -> dict[str, Any]:
    jobs = [or_error(partial(_job, asked, q)) for q in range(len(asked.panes))]
    ready = [(without_window(entry["job"]), *how) for entry in jobs if "job" in entry]
    found = iter(json.loads(call(job, ready, child))["panes"])
    return {"panes": [next(found) if "job" in entry else entry for entry in jobs]}


def batch(request: Any) -> str:
    """Lay rows out as one batch: what `view` takes, and `of` (the pane whose tokenizer it is), `others` (whether the
    others are rows too), `text` (further conversations, JSON Lines), `side`, `packed`, `pad_id`, `mode`.

    The answer is `{"rows": [{"name", "tokens", "error"}], "batch": views.tensors.batch | packed | null}`.
    """

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        of = request.get("of")
        if not isinstance(of, int) or not 0 <= of < len(asked.panes):
            raise malformed()
        rows: list[dict[str, Any]]
        beside: list[dict[str, Any]]
        rows, beside = _pane_rows(asked, of, bool(request.get("others")))
        for number, line in enumerate(tensors_view.conversations(request.get("text")), 1):
            entry = or_error(partial(_pasted, asked, of, line))
            (rows if "job" in entry else beside).append({"name": f"#{number}", **entry})
        how = (
            _word(request, "side"),
            _number(request, "pad_id", 2**31),
            bool(request.get("packed")),
            _word(request, "mode"),
        )
        given = ([(row["name"], row["job"]) for row in rows], *how)
        found = json.loads(call("page_batch", given, f"{asked.session}-training"))
        return {**found, "rows": [*found["rows"], *beside]}

    return answered(work, request)


def _pane_rows(asked: serve.Asked, of: int, others: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the rows that are panes, and those that cannot be rows: ids of another tokenizer mean other tokens.

    Errors: those of the pane `of`.
    """
    chosen = serve.job_of(asked, of)
    rows: list[dict[str, Any]] = [{"name": chr(65 + of), "job": chosen}]
    beside: list[dict[str, Any]] = []
    for q in range(len(asked.panes)) if others else ():
        if q == of:
            continue
        entry = {"name": chr(65 + q), **or_error(partial(_job, asked, q))}
        if "job" in entry and entry["job"].tokenizer.digest != chosen.tokenizer.digest:
            other = entry["job"].tokenizer.id
            entry = {
                "name": entry["name"],
                "error": f"{other} is another tokenizer than {chosen.tokenizer.id}: no row of this batch",
            }
        (rows if "job" in entry else beside).append(entry)
    return rows, beside


def _pasted(asked: serve.Asked, of: int, line: str) -> dict[str, Any]:
    fields = Fields(line, "", "", asked.fields.arguments)
    return {"job": prepare(fields, serve.options_of(asked, of), local_files=own_machine())}


def vocabulary(request: Any) -> str:
    """Plan new tokens: `{session, tokenizer, tokens, rows, multiple, tied}`; the answer is views.training.vocabulary's,
    with `rows_from`: given, catalogue, config or null."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        artifact = tokenizer_of(request.get("tokenizer"), session)
        tokens = training_view.checked_tokens(request.get("tokens"))
        rows, tied, source = _known_rows(request)
        given = (artifact, tokens, rows, _number(request, "multiple", MOST_LENGTH), tied)
        return {**json.loads(call("page_vocabulary", given, f"{session}-training")), "rows_from": source}

    return answered(work, request)


def vocabulary_trial(request: Any) -> str:
    """Try new tokens in `model` after the input of the one pane given; what `vocabulary` and `view` take.

    The answer is `vocabulary-trial/1` with the pieces of its ids.
    """

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        asked = serve.checked(request)
        tokens = training_view.checked_tokens(request.get("tokens"))
        rows, tied, source = _known_rows(request)
        return service.vocabulary_trial(
            asked.fields,
            serve.options_of(asked, 0),
            tokens,
            model=_word(request, "model"),
            rows=rows if source == "given" else None,
            pad_to_multiple_of=_number(request, "multiple", MOST_LENGTH),
            tied=tied,
            session=f"page-{session}-training",
            local_files=own_machine(),
        )

    return answered(work, request)


def _known_rows(request: dict[str, Any]) -> tuple[int | None, bool | None, str | None]:
    """Give the model's rows, whether its embeddings are tied, and how the rows are known: as given, else by the catalogue,
    else by the config.json beside the tokenizer."""
    tied = {"yes": True, "no": False}.get(_word(request, "tied"))
    rows = _number(request, "rows", MOST_LENGTH)
    if rows is not None:
        return rows, tied, "given"
    ref = request.get("tokenizer")
    preset = presets.tokenizers().get(str(ref))
    if preset is not None:
        return preset.embedding_rows, tied, None if preset.embedding_rows is None else "catalogue"
    config = _config(str(ref))
    from inspector.vocabularies import embedding_rows

    stated = config.get("tie_word_embeddings")
    rows = embedding_rows(config)
    return rows, stated if tied is None and isinstance(stated, bool) else tied, None if rows is None else "config"


def _config(ref: str) -> dict[str, Any]:
    """Read the config.json beside a tokenizer; empty where there is none to be had."""
    from inspector.sources import read_verified, resolve_files
    from inspector.tokenizers.config import parse_object

    try:
        _pinned, found = resolve_files(ref, ("config.json",), **access())
        return parse_object(read_verified(found[0]), found[0].name) if found else {}
    except InspectorError:
        return {}  # rows are then not known, and the plan says so


def _word(request: dict[str, Any], name: str) -> str:
    value = request.get(name, "")
    if not isinstance(value, str) or len(value) > 300:
        raise malformed()
    return value


def _number(request: dict[str, Any], name: str, most: int) -> int | None:
    """Read a whole number as typed; None where there is none.

    Errors: OptionInvalid.
    """
    value = serve.whole_number(name, request.get(name))
    if value is not None and value > most:
        from inspector.ui.payload import option_error

        raise option_error(name, f"{value:,} is more than {most:,}", "give a smaller number")
    return value


# What the page's script may call.
FUNCTIONS = (budget, labels, prefix, batch, vocabulary, vocabulary_trial)
