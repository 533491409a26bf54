"""Replay a record: first the fixture that can be worked by hand, then stage by stage up to the first difference.

A replay makes a fresh record of what the old one describes, and parting.py compares the two. Nothing is rendered or
tokenized here: the caller gives `Make`, which does it in a sandboxed child or in its own process.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.job import Options
from inspector.jsontext import loads
from inspector.parting import LIMITS, Difference, Outcome, Replay, Stage, StageResult, Value, compare_records
from inspector.record import SCHEMA, digest_of, sealed
from inspector.withheld import is_local

if TYPE_CHECKING:
    from inspector.lint.evidence import Sent

MAX_RECORD_BYTES = 256_000_000


# --- reading --------------------------------------------------------------------------------------------------------


def read_record(data: bytes) -> Value:
    """Read a record and check its schema and its digest; how its JSON is laid out does not matter.

    Errors: RecordInvalid.
    """
    if len(data) > MAX_RECORD_BYTES:
        raise _invalid(f"it has {len(data):,} bytes, the limit is {MAX_RECORD_BYTES:,}", "record a smaller request")
    try:
        value = loads(data.decode("utf-8"), root="record", limits=LIMITS, stage="record")
    except UnicodeDecodeError as error:
        raise _invalid(f"byte {error.start} is no UTF-8", "give the file as it was written") from None
    except InspectorError as error:
        raise _invalid(f"{error.message} ({error.place()})", "give the file as it was written") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        said = "it is no record" if not isinstance(schema, str) else f"its schema is {schema[:40]!r}"
        raise _invalid(f"{said}; {SCHEMA} is read here", "write one with `inspect REQUEST --record FILE`")
    try:
        digest = digest_of(value)
    except ValueError as error:
        raise _invalid(str(error), "give the file as it was written") from None
    if digest != value.get("digest"):
        raise _invalid(
            "it was changed after it was sealed: its digest is not its own", "take the file as it was written"
        )
    _check_shape(value)
    return value


_KEYS = {
    "request": dict, "media": list, "injected": dict, "options": dict, "tokenizer": dict, "silenced": list,
    "versions": dict,
}  # fmt: skip
_NULLABLE = ("messages", "template", "rendered", "tokens", "budget", "inputs", "error")


def _check_shape(value: Value) -> None:
    """Errors: RecordInvalid. The digest shows that nothing was changed, not that it was made here."""
    sound = all(isinstance(value.get(key), kind) for key, kind in _KEYS.items())
    if not sound or not all(key in value and isinstance(value[key], dict | None) for key in _NULLABLE):
        raise _invalid(
            "keys of the schema are missing", "`python -m inspector schema record/1` says what must be there"
        )


def _invalid(why: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.RecordInvalid, f"the record cannot be read: {why}", stage="record", remedy=remedy)


# --- replaying ------------------------------------------------------------------------------------------------------

Make = Callable[[bytes, dict[str, Any]], Value]  # request, options of job.make_options -> record/1

_FIXTURE = (
    '[{"role":"system","content":"简洁回答"},{"role":"user","content":"%s"}]',
    "天空为什么是蓝色？",
    [1, 2, 7, 3, 4, 8, 9, 10, 11, 12, 5, 6],
)
_FIXTURE_CASES = (  # content of the user, whether there is a generation prompt, ids
    (_FIXTURE[1], True, _FIXTURE[2]),
    (_FIXTURE[1], False, _FIXTURE[2][:-1]),
    ("天空为什么是蓝色?", True, [1, 2, 7, 3, 4, 8, 9, 10, 11, 13, 5, 6]),
    ("天\u200b空为什么是蓝色？", True, [1, 2, 7, 3, 4, 13, 13, 13, 9, 10, 11, 12, 5, 6]),
    ("<system>", True, [1, 2, 7, 3, 4, *[13] * len("<system>"), 5, 6]),
)
AGAINST = {
    "template": ("template.digest",),
    "tokenizer": ("tokenizer.digest", "tokenizer.family", "tokenizer.files", "tokenizer.loaded", "tokenizer.settings_sha256"),
    "engine": ("options.engine",),
    "profile": ("options.profile",),
    "policy": ("options.policy",),
    "clock": ("injected.clock", "injected.time_zone"),
}  # fmt: skip


def replay(
    value: Value,
    make: Make,
    *,
    request: bytes | None = None,
    places: dict[str, str] | None = None,
    against: dict[str, str] | None = None,
) -> Replay:
    """Check the fixture, make the record's input again, and compare stage by stage.

    `request`: the request's bytes, instead of the record's own text. `places`: where "tokenizer" and "template" are to
    be had here; they must be the recorded ones. `against`: names of `AGAINST` with another value; that they differ is
    no difference, what they change is one.
    Errors: RecordInvalid where the record does not hold what is needed, OptionInvalid; those of `make`.
    """
    against = against or {}
    allowed = tuple(path for name in against for path in AGAINST[_known(name)])
    wrong = fixture_difference(make)
    if wrong is not None:
        rest = (StageResult(stage, Outcome.NOT_REACHED) for stage in list(Stage)[1:])
        stages = (StageResult(Stage.FIXTURE, Outcome.DIFFERENT, wrong.message), *rest)
        return Replay(value["digest"], None, stages, wrong, allowed)
    fresh = make(
        request if request is not None else recorded_request(value), replay_options(value, places or {}, against)
    )
    own_bytes = request is None and value["request"]["undecoded"] is None
    compared = compare_records(value, fresh, allowed=allowed, decoded=own_bytes)
    stages = (StageResult(Stage.FIXTURE, Outcome.EQUAL), *compared.stages[1:])
    return Replay(compared.a, compared.b, stages, compared.difference, allowed, compared.notes, compared.versions)


def fixture_difference(make: Make) -> Difference | None:
    """Work the fixture of fourteen entries; give its first wrong answer."""
    for content, prompt, expected in _FIXTURE_CASES:
        made = make((_FIXTURE[0] % content).encode(), {"tokenizer": "fixture", "add_generation_prompt": prompt})
        ids = (made["inputs"] or {}).get("input_ids")
        if ids != expected:
            message = f"the fixture gives {ids} for {content!r}, by hand it is {expected}"
            return Difference(Stage.FIXTURE, "inputs.input_ids", message, expected, ids)
    return None


def recorded_request(value: Value) -> bytes:
    """Give the request as the record holds it."""
    request = value["request"]
    if isinstance(request.get("text"), str):
        return request["text"].encode("utf-8", "surrogatepass")
    return base64.b64decode(request.get("undecoded") or "")


def replay_options(value: Value, places: dict[str, str], against: dict[str, str]) -> dict[str, Any]:
    """Give the options that make a record's input again.

    Errors: RecordInvalid for an artifact of another machine that is not named, and a template of which only the digest
    was recorded and that has no reference.
    """
    options, injected = value["options"], value["injected"]
    known = {entry.name for entry in fields(Options)}
    chosen = {**{name: item for name, item in options.items() if name in known}, "clock": injected["clock"], "arguments": loads(injected["arguments"], root="arguments"),
              "document_order": tuple(options["document_order"])}  # fmt: skip
    chosen["tokenizer"] = places.get("tokenizer") or against.get("tokenizer") or options["tokenizer"]
    if is_local(chosen["tokenizer"]):
        raise _elsewhere("tokenizer", chosen["tokenizer"])
    chosen |= _template_options(value, places.get("template") or against.get("template"))
    return chosen | {name: against[name] for name in ("engine", "profile", "policy", "clock") if name in against}


def _template_options(value: Value, named: str | None) -> dict[str, Any]:
    if named is not None:
        return {"template": named, "template_text": None}
    template, ref = value["template"], value["options"]["template"]
    if template is None or template["own"] or (ref and not is_local(ref) and template["revision"] != "edited"):
        return {"template": ref, "template_text": None}
    if ref is None and template["ref"] == "raw":  # a tokenizer without a template
        return {"template": None, "template_text": None}
    if template["text"] is not None:
        return {"template": ref if ref and not is_local(ref) else None, "template_text": template["text"]}
    raise _elsewhere("template", template["ref"])


def _elsewhere(what: str, ref: str) -> InspectorError:
    return InspectorError(
        ErrorKind.RecordInvalid,
        f"the record's {what} is {ref!r}, which lay on the machine that made it, and the record holds its digest only",
        stage="record",
        where={"path": f"{what}.ref"},
        remedy=f"say where it lies here: --{what} REF; it is checked against the recorded digest",
    )


def _known(name: str) -> str:
    if name not in AGAINST:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{name!r} is none of {', '.join(AGAINST)}",
            stage="options",
            where={"option": "--against"},
            remedy="write --against template=REF or --against tokenizer=REF",
        )
    return name


def as_sent(value: Value, sent: Sent) -> Value:
    """Give a record in which text, ids, mask and positions are what a program really sent; a padded row without its padding."""
    parts = {"rendered": value["rendered"], "tokens": value["tokens"], "inputs": value["inputs"]}
    if None in parts.values():
        raise _invalid("it stopped before there was an input", "compare what was sent with a record that has one")
    inputs = dict(parts["inputs"])
    if sent.text is not None:
        sha256 = hashlib.sha256(sent.text.encode("utf-8", "surrogatepass")).hexdigest()
        inputs |= {"sha256": sha256, "text": sent.text}
        if value["budget"] is None:
            parts["rendered"] = {**parts["rendered"], "kind": "bytes", "text": sent.text, "sha256": sha256}
    rows = {name: getattr(sent, name) and getattr(sent, name)[sent.row] for name in _SENT}
    if any(row is not None and len(row) > len(inputs["input_ids"]) for row in rows.values()):
        rows = {name: sent.own(name) for name in _SENT}
    inputs |= {name: list(row) for name, row in rows.items() if row is not None}
    if rows["input_ids"] is not None:
        inputs["lengths"] = [len(inputs["input_ids"])]
        if value["budget"] is None:
            parts["tokens"] = {**parts["tokens"], "input_ids": inputs["input_ids"]}
    return sealed({**value, **parts, "inputs": inputs}).value


_SENT = ("input_ids", "attention_mask", "position_ids", "assistant_mask")
