"""What the page's script may call about tokenizers apart from a conversation: stages, streams, comparisons, uploads.

Like serve.py: artifacts are found here (network and cache), everything foreign is parsed in a sandbox child, and errors
are values of the JSON string that each function gives.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from inspector import caller, presets, service
from inspector.errors import ErrorKind, InspectorError
from inspector.job import check_reference
from inspector.sources import visitors
from inspector.ui.calls import access, answered, call, malformed
from inspector.ui.loading import loading_difference
from inspector.ui.uploads import Uploads, beside, stored

MOST_STAGES = 8  # tokenizers traced in one call: one a pane
DEFAULT_TOKENIZERS = ("smollm2", "qwen3", "o200k", "cl100k", "llama3.1", "gemma3", "gpt-oss", "r50k", "bytes", "minilm")
NUM_DEFAULT = 4
MAX_TRAINING_CHARS = 5_000
MAX_MERGES = 200

_uploads = Uploads()
_fetching: dict[str, dict[str, Any]] = {}  # what a session's newest call here fetches, while it does


def stages(request: Any) -> str:
    """Trace `text` in each of `tokenizers`: `{"panes": [{"ref", "error", stages/1 for the page}]}`."""
    from inspector.ui.views import stages as page

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        text = _encodable(page.checked_text(request.get("text")))
        refs = _refs(request)[:MOST_STAGES]
        return {"panes": [{**or_error(partial(_stages_of, text, ref, session)), "ref": ref} for ref in refs]}

    return answered(work, request)


def _stages_of(text: str, ref: str, session: str) -> dict[str, Any]:
    artifact = tokenizer_of(ref, session)
    return {**_call("page_stages", (text, artifact), session), "tokenizer": artifact.id, "error": None}


def merges(request: Any) -> str:
    """Say which merge built a token of `tokenizer`, and which would join it to its neighbours: `ids` before, of, after."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        ids = request.get("ids")
        if not isinstance(ids, list) or len(ids) != 3 or type(ids[1]) is not int:
            raise malformed()
        if not all(i is None or (type(i) is int and 0 <= i < 2**31) for i in ids):
            raise malformed()
        return _call("page_merges", (ids, tokenizer_of(request.get("tokenizer"), session)), session)

    return answered(work, request)


def train(request: Any) -> str:
    """Learn `num_merges` byte-pair merges from `text`: `training/1`."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        text, count = request.get("text"), request.get("num_merges")
        if not isinstance(text, str) or not isinstance(count, int) or isinstance(count, bool):
            raise _option("num_merges", "the number of merges is no whole number", "write digits")
        if len(text) > MAX_TRAINING_CHARS or not 1 <= count <= MAX_MERGES:
            raise _option(
                "num_merges",
                f"{len(text):,} characters and {count} merges; the page learns 1 to {MAX_MERGES} merges from up to "
                f"{MAX_TRAINING_CHARS:,} characters",
                "give a shorter text, or fewer merges",
            )
        return _call("train", (_encodable(text), count), session)

    return answered(work, request)


def stream(request: Any) -> str:
    """Step through `ids` of `tokenizer`; options skip_special_tokens and stop_strings."""
    from inspector.ui.views import stream as page

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        ids, stops = page.checked_ids(request.get("ids")), page.checked_stops(request.get("stop_strings") or [])
        skip = bool(request.get("skip_special_tokens"))
        return _call("page_stream", (ids, tokenizer_of(request.get("tokenizer"), session), skip, stops), session)

    return answered(work, request)


def tokenizers(request: Any) -> str:
    """Compare `tokenizers` on `text`: the table, with `csv` true its CSV. What has no artifact is in `missing`."""
    from inspector.ui.views import tokenizers as page

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        text, refs, prices = page.checked(request.get("text"), request.get("tokenizers"), request.get("prices") or {})
        _encodable(text)
        found = {ref: or_error(partial(_artifact, ref, session)) for ref in refs}
        missing = [{"ref": ref, "error": entry["error"]} for ref, entry in found.items() if "artifact" not in entry]
        known = {ref: entry["artifact"] for ref, entry in found.items() if "artifact" in entry}
        answer = _call("page_tokenizers", (text, known, prices, bool(request.get("csv"))), session)
        return {**answer, "missing": missing + answer.get("missing", [])}

    return answered(work, request)


def differences(request: Any) -> str:
    """Say what bites about `tokenizer`: rows with verdicts (views/tokenizers.py)."""
    from inspector.ui.views import tokenizers as page

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        ref = _checked_ref(request.get("tokenizer"))
        found = service.differences(ref, loading=False, session=f"page-{session}", **access())
        error = None
        if ref in presets.tokenizers():
            entry = or_error(partial(_loading, ref))
            found, error = {**found, "loading": entry.get("loading")}, entry.get("error")
        return page.verdicts(found, error)

    return answered(work, request)


def catalogue(request: Any) -> str:
    """List the tokenizers of the catalogue with those that are cached, and those that are chosen at first."""

    def work(_request: dict[str, Any], _session: str) -> dict[str, Any]:
        rows = presets.catalogue()["tokenizers"]
        cached = {row["id"] for row in rows if row["cached"]}
        chosen = [name for name in DEFAULT_TOKENIZERS if name in cached][:NUM_DEFAULT]
        return {"tokenizers": [{key: row[key] for key in ("id", "title", "cached")} for row in rows], "chosen": chosen}

    return answered(work, request)


def fetching(request: Any) -> str:
    """Say what the session's newest call here fetches: `{"ref", "done", "total"}` (bytes), or `{"ref": null}`."""
    return answered(lambda _request, session: _fetching.get(session) or {"ref": None}, request)


# --- uploads -------------------------------------------------------------------------------------------------------------


def upload(request: Any) -> str:
    """Take one part of a visitor's files: `{first, name, data: base64}`; give the size so far."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        if request.get("first"):
            _uploads.begin(session)
        return {"size": _uploads.add(session, request.get("name"), request.get("data"))}

    return answered(work, request)


def uploaded(request: Any) -> str:
    """End an upload: its reference, its names, whether it holds a tokenizer, and whether a template."""

    def work(_request: dict[str, Any], session: str) -> dict[str, Any]:
        from inspector.sources import resolve_files, resolve_tokenizer
        from inspector.tokenizers import family_of

        since = time.monotonic()
        with _uploads.turn(session):
            given = _uploads.take(session)
            ref = stored(given, since)
            names = sorted(file.name for file in resolve_files(ref, (), local=False)[1])
            holds = {"tokenizer": family_of(names) is not None, "template": _has_template(ref, names)}
            if not any(holds.values()):
                resolve_tokenizer(ref, local=False)  # says what is missing
            return {"ref": ref, "names": names, "left_out": beside(given), **holds}

    return answered(work, request)


def _has_template(ref: str, names: list[str]) -> bool:
    """Say whether files hold a template.

    Errors: as resolve_template, apart from TemplateMissing.
    """
    from inspector.sources import resolve_template
    from inspector.sources.names import TEMPLATE_FILES

    if not any(name in TEMPLATE_FILES or name.endswith((".jinja", ".gguf")) for name in names):
        return False
    try:
        return bool(resolve_template(ref, local=False).text)
    except InspectorError as error:
        if error.kind is ErrorKind.TemplateMissing:
            return False
        raise


# --- shared --------------------------------------------------------------------------------------------------------------


def _call(job: str, value: Any, session: str) -> dict[str, Any]:
    return json.loads(call(job, value, session))


def forget(session: str) -> None:
    """Drop what a session sent: what it did not finish, and on a page for others what it did."""
    _uploads.drop(session)
    owner = caller.current().owner
    if owner:
        visitors.UPLOADS.forget(owner)


def _refs(request: dict[str, Any]) -> list[str]:
    refs = request.get("tokenizers")
    return [_checked_ref(ref) for ref in refs] if isinstance(refs, list) else []


def _checked_ref(ref: Any) -> str:
    if not isinstance(ref, str) or not ref:
        raise _option("tokenizer", "no tokenizer is named", "choose one")
    check_reference("tokenizer", ref)
    return ref


def _artifact(ref: str, session: str) -> dict[str, Any]:
    return {"artifact": tokenizer_of(ref, session)}


def _loading(ref: str) -> dict[str, Any]:
    return {"loading": loading_difference(ref)}


def _encodable(text: str) -> str:
    """Give the text.

    Errors: UnencodableText for a lone surrogate, which no tokenizer takes.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InspectorError(
            ErrorKind.UnencodableText,
            f"character {error.start + 1} of the text is U+{ord(text[error.start]):04X}, half of a character",
            stage="encode",
            where={"option": "text"},
            remedy="delete it",
        ) from None
    return text


def tokenizer_of(ref: Any, session: str) -> Any:
    """Find a tokenizer's files, saying meanwhile what is fetched."""
    from inspector.sources import resolve_tokenizer

    name = _checked_ref(ref)
    run = {"ref": name, "done": 0, "total": 0}
    _fetching[session] = run
    try:
        return resolve_tokenizer(name, lambda done, total, _label: run.update(done=done, total=total), **access())
    finally:
        if _fetching.get(session) is run:
            del _fetching[session]


def or_error(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    from inspector.ui import payload

    try:
        return work()
    except InspectorError as error:
        return {"error": payload.error_text(error)}


def _option(name: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": name}, remedy=remedy)


# What the page's script may call.
FUNCTIONS = (stages, merges, train, stream, tokenizers, differences, catalogue, fetching, upload, uploaded)
