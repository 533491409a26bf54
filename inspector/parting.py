"""Where two records part: compared stage by stage, up to the first difference, with its place and what may explain it.

A pure function of two JSON values of `record/1`. Nothing is rendered or tokenized here, and records are neither read
nor made (replay.py, record.py). Library versions are named where they differ and are no difference: what they change
shows in a stage.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inspector.editscript import first_difference
from inspector.errors import InspectorError
from inspector.jsontext import JsonLimits, child_path, loads
from inspector.record import media_of, unordered

LIMITS = JsonLimits(depth=1000, object_keys=1_000_000)
Value = dict[str, Any]


class Stage(enum.StrEnum):
    """Where two records may part, in the order in which they are compared."""

    FIXTURE = "fixture"  # this program gives the ids that can be worked by hand
    REQUEST = "request"  # bytes to text: encoding, and what was done with bytes that are none
    MESSAGES = "messages"  # what was asked, and what the profile made of it
    MEDIA = "media"  # pictures, sounds and files in it
    INJECTED = "injected"  # clock, time zone, arguments, tools, documents
    RENDER = "render"  # template and rendered bytes
    TOKENIZE = "tokenize"  # tokenizer and ids
    BUDGET = "budget"  # what was kept, cut and dropped
    INPUTS = "inputs"  # what the model receives: ids, mask, positions


class Outcome(enum.StrEnum):
    """What came of a stage."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REACHED = "not reached"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two records part. `path` is a place in the record, `where` in the stage's own terms."""

    stage: Stage
    path: str
    message: str
    a: Any = None
    b: Any = None
    where: dict[str, Any] | None = None
    causes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "stage": str(self.stage),
            "path": self.path,
            "message": self.message,
            "a": self.a,
            "b": self.b,
            "where": self.where or {},
            "causes": list(self.causes),
        }


@dataclass(frozen=True, slots=True)
class StageResult:
    """What came of one stage, and why where it is not plain."""

    stage: Stage
    outcome: Outcome
    why: str = ""

    def to_dict(self) -> dict[str, str]:
        return {"stage": str(self.stage), "outcome": str(self.outcome), "why": self.why}


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer to whether two records are of the same input (`replay/1`). `a` and `b` are their digests."""

    a: str | None
    b: str | None
    stages: tuple[StageResult, ...]
    difference: Difference | None = None
    allowed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str | None, str | None], ...] = ()
    error: InspectorError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of schema `replay/1`."""
        return {
            "schema": "replay/1",
            "a": self.a,
            "b": self.b,
            "equal": None if self.error is not None else self.difference is None,
            "stages": [row.to_dict() for row in self.stages],
            "difference": None if self.difference is None else self.difference.to_dict(),
            "allowed": list(self.allowed),
            "notes": list(self.notes),
            "versions": [{"name": name, "a": a, "b": b} for name, a, b in self.versions],
            "error": None if self.error is None else self.error.to_dict(),
        }


# --- comparing ------------------------------------------------------------------------------------------------------

_STAGE_OF_ERROR = {
    "request": Stage.REQUEST, "options": Stage.MESSAGES, "messages": Stage.MESSAGES,
    "media": Stage.MEDIA, "template": Stage.RENDER,
    "render": Stage.RENDER, "source": Stage.TOKENIZE, "tokenizer": Stage.TOKENIZE, "encode": Stage.TOKENIZE,
    "budget": Stage.BUDGET, "tensors": Stage.INPUTS, "sandbox": Stage.RENDER,
}  # fmt: skip


def compare_records(a: Value, b: Value, *, allowed: Sequence[str] = (), decoded: bool = False) -> Replay:
    """Compare two records stage by stage, up to the first difference that is not at an `allowed` path.

    `decoded`: B was made from A's text, so that there is nothing to say about decoding.
    """
    rows = [StageResult(Stage.FIXTURE, Outcome.SKIPPED, "nothing was run")]
    found: Difference | None = None
    passed: dict[str, str] = {}
    stopped = False
    for stage in list(Stage)[1:]:
        if found is not None or stopped:
            rows.append(StageResult(stage, Outcome.NOT_REACHED))
            continue
        if stage is Stage.REQUEST and decoded:
            rows.append(StageResult(stage, Outcome.SKIPPED, "the text is the record's own"))
            continue
        for difference in (*_COMPARE[stage](a, b), *_errors(stage, a, b)):
            said = next((path for path in allowed if difference.path == path or _within(difference.path, path)), None)
            if said is None:
                found = difference
                break
            passed[said] = f"{said} differs, as was said"
        failed = [_failed_at(side) for side in (a, b)]
        if found is not None:
            rows.append(StageResult(stage, Outcome.DIFFERENT, found.message))
        elif failed == [stage, stage]:
            rows.append(StageResult(stage, Outcome.EQUAL, f"both stop here: {a['error']['kind']}"))
            stopped = True
        elif _absent(stage, a, b):
            rows.append(StageResult(stage, Outcome.NOT_REACHED, "one side stopped before it, at a later check"))
        else:
            rows.append(StageResult(stage, Outcome.EQUAL))
    versions = _versions(a, b)
    if found is not None:
        found = _with_causes(found, a, b, versions)
    return Replay(
        a["digest"],
        b["digest"],
        tuple(rows),
        found,
        tuple(allowed),
        (*passed.values(), *_notes(a, b, decoded, found)),
        versions,
    )


def _within(path: str, parent: str) -> bool:
    return path.startswith((f"{parent}.", f"{parent}["))


def _failed_at(side: Value) -> Stage | None:
    return None if side["error"] is None else _STAGE_OF_ERROR.get(side["error"]["stage"], Stage.INPUTS)


def _errors(stage: Stage, a: Value, b: Value) -> Iterator[Difference]:
    """Say that one side stops at this stage, or that both do for other reasons."""
    failed = [_failed_at(side) == stage for side in (a, b)]
    if not any(failed):
        return
    errors = [side["error"] if at else None for side, at in zip((a, b), failed)]
    kept = [error and {name: error[name] for name in ("kind", "stage", "where")} for error in errors]
    if kept[0] != kept[1]:
        words = [f"{error['kind']}: {error['message']}" if error else "no error" for error in errors]
        place = next((error["where"] for error in reversed(errors) if error and error["where"]), None)
        yield Difference(stage, "error", f"{words[0]} then, {words[1]} now", kept[0], kept[1], place)


_SECTIONS = {Stage.MESSAGES: "messages", Stage.RENDER: "rendered", Stage.TOKENIZE: "tokens", Stage.INPUTS: "inputs"}


def _absent(stage: Stage, a: Value, b: Value) -> bool:
    name = _SECTIONS.get(stage)
    return name is not None and (a[name] is None) != (b[name] is None)


def _request(a: Value, b: Value) -> Iterator[Difference]:
    yield from _keys(Stage.REQUEST, "request", a["request"], b["request"], ("schema",))
    one, other = a["request"]["decoding"], b["request"]["decoding"]
    if a["request"]["text"] is None or b["request"]["text"] is None:
        return  # the error says it
    for path in _first_of_only_one(one["replacement_characters"], other["replacement_characters"]):
        side = "then" if path in one["replacement_characters"] else "now"
        message = f"{path} holds U+FFFD {side}: bytes that are no UTF-8 were replaced in one of the two"
        lists = (one["replacement_characters"], other["replacement_characters"])
        at = "request.decoding.replacement_characters"
        yield Difference(Stage.REQUEST, at, message, lists[0], lists[1], {"path": path})
    yield from _keys(Stage.REQUEST, "request.decoding", one, other, ("encoding", "errors", "byte_order_mark"))


def _messages(a: Value, b: Value) -> Iterator[Difference]:
    yield from _keys(Stage.MESSAGES, "options", a["options"], b["options"], ("profile",))
    texts = [side["request"]["text"] for side in (a, b)]
    if None not in texts:
        yield from _other_value(Stage.MESSAGES, "request.text", *map(_parsed, texts))
    if a["messages"] is None or b["messages"] is None:
        return
    for index, (one, other) in enumerate(_pairs(a["messages"]["changes"], b["messages"]["changes"])):
        if one is None or other is None or any(one[key] != other[key] for key in ("path", "what", "by")):
            row = one or other or {}
            message = f"{row['path']}: {row['what']} (by the {row['by']}) {'then' if one else 'now'} only"
            yield Difference(Stage.MESSAGES, f"messages.changes[{index}]", message, one, other, {"path": row["path"]})
    handed = [side["messages"]["text"] for side in (a, b)]
    if None not in handed:
        yield from _other_value(Stage.MESSAGES, "messages.text", *map(_parsed, handed))


_MEASURED = ("identity", "plan", "positions", "memory")


def _media(a: Value, b: Value) -> Iterator[Difference]:
    yield from _media_rows(a, b)
    if a["media"] or b["media"]:
        yield from _keys(Stage.MEDIA, "options", a["options"], b["options"], ("media", "media_rule", "image_tokens"))
    one, other = a.get("media_rule"), b.get("media_rule")
    if one is not None and other is not None:
        if one["rule"] is not None and other["rule"] is not None:
            yield from _keys(Stage.MEDIA, "media_rule.rule", one["rule"], other["rule"], list(one["rule"]))
        yield from _keys(Stage.MEDIA, "media_rule", one, other, ("rule", "expanded", "literal"))


def _measured(row: Value) -> Value:
    """Give what was decided of a medium; what decoded it is a version, and named as one."""
    said = row.get("measured") or {}
    decoding = {key: item for key, item in (said.get("decoding") or {}).items() if key != "decoder"}
    return {**{name: said.get(name) for name in _MEASURED}, "decoding": decoding}


def _media_rows(a: Value, b: Value) -> Iterator[Difference]:
    rows = [{row["path"]: row for row in side["media"]} for side in (a, b)]
    for path in dict.fromkeys([*rows[0], *rows[1]]):
        one, other = (side.get(path) for side in rows)
        if one is None or other is None:
            message = f"{path} is there {'then' if one else 'now'} only"
        elif one.get("sha256") != other.get("sha256"):
            message = (f"{path} has other bytes ({one.get('bytes')} then, {other.get('bytes')} now): encoded again, "
                       "turned or replaced")  # fmt: skip
        else:
            first, second = _measured(one), _measured(other)
            both = one.get("measured") and other.get("measured")  # an older record has none
            names = [name for name in first if both and first[name] != second[name]]
            names += [name for name in ("media_type", "why") if one[name] != other[name]]
            if not names:
                continue
            message = f"{path} is handled otherwise: {', '.join(names)}"
        yield Difference(Stage.MEDIA, child_path("media", path), message, one, other, {"path": path})


def _injected(a: Value, b: Value) -> Iterator[Difference]:
    one, other = a["injected"], b["injected"]
    yield from _keys(Stage.INJECTED, "injected", one, other, ("clock", "time_zone"))
    yield from _other_value(
        Stage.INJECTED, "injected.arguments", *(_parsed(side["arguments"]) for side in (one, other))
    )
    if (one["tools"] is not None and other["tools"] is not None) or (a["error"] is None and b["error"] is None):
        yield from _keys(Stage.INJECTED, "injected", one, other, ("tools", "documents"))


def _render(a: Value, b: Value) -> Iterator[Difference]:
    options = ("engine", "name", "add_generation_prompt", "continue_final_message")
    yield from _keys(Stage.RENDER, "options", a["options"], b["options"], options)
    place = _rendered_place(a["rendered"], b["rendered"])
    one, other = a["template"], b["template"]
    if one is not None and other is not None and one["digest"] != other["digest"]:
        names = [_template_name(side) for side in (one, other)]
        line = _other_line(one["text"], other["text"])
        where = {**({"template_line": line} if line else {}), **(place[0] if place else {})}
        said = (
            f"; {place[1]}" if place else "; this request renders the same" if a["rendered"] and b["rendered"] else ""
        )
        message = f"the template is another: {names[0]} then, {names[1]} now{said}"
        yield Difference(Stage.RENDER, "template.digest", message, one["digest"], other["digest"], where)
    if (one is None) != (other is None) and a["rendered"] and b["rendered"]:
        yield Difference(Stage.RENDER, "template", "only one of the two has a template", bool(one), bool(other))
    if place:
        text = a["rendered"]["kind"] == "bytes"
        path = "rendered.text" if text else "rendered.segments"
        yield Difference(Stage.RENDER, path, place[1], a["rendered"]["sha256"], b["rendered"]["sha256"], place[0])


def _tokenize(a: Value, b: Value) -> Iterator[Difference]:
    one, other = a["tokenizer"], b["tokenizer"]
    token = _first_other_id(a["tokens"], b["tokens"])
    where = {} if token is None else _token_place(a["tokens"], b["tokens"], token)
    said = f"; the ids part at token {token}" if token is not None else "; this request gives the same ids" if a["tokens"] and b["tokens"] else ""  # fmt: skip
    for name in dict.fromkeys([*one["files"], *other["files"]]):
        if one["files"].get(name) != other["files"].get(name):
            path = (
                child_path("tokenizer.files", name) if name.isidentifier() else f"tokenizer.files[{json.dumps(name)}]"
            )
            message = f"{name} of the tokenizer has other bytes{said}"
            yield Difference(Stage.TOKENIZE, path, message, one["files"].get(name), other["files"].get(name), where)
    yield from _keys(Stage.TOKENIZE, "tokenizer", one, other, ("family", "settings_sha256", "digest"), where)
    if one["loaded"] is not None and other["loaded"] is not None:
        names = ("vocab_size", "size", "model_max_length", "special_tokens")
        yield from _keys(Stage.TOKENIZE, "tokenizer.loaded", one["loaded"], other["loaded"], names, where)
        tables = (one["loaded"]["added_tokens"], other["loaded"]["added_tokens"])
        yield from _keys(Stage.TOKENIZE, "tokenizer.loaded.added_tokens", *tables, ("total", "sha256"), where)
    if token is not None:
        ids = [_at(side["tokens"]["input_ids"], token) for side in (a, b)]
        message = f"token {token} is {ids[0]} then, {ids[1]} now"
        yield Difference(Stage.TOKENIZE, f"tokens.input_ids[{token}]", message, ids[0], ids[1], where)
    if a["tokens"] is not None and b["tokens"] is not None:
        for name in ("start", "end"):
            yield from _other_item(Stage.TOKENIZE, f"tokens.{name}", a["tokens"][name], b["tokens"][name], "token")


_WINDOW = ("context_window", "max_new_tokens", "policy", "whole_turns", "document_order", "first_turns")
_BUDGET = ("max_input_tokens", "required_tokens", "input_tokens", "broken", "checks")


def _budget(a: Value, b: Value) -> Iterator[Difference]:
    one, other = a["budget"], b["budget"]
    broken = _newly_broken(one, other)
    names = _WINDOW if one or other else _WINDOW[:1]  # without a window the others are not read
    for difference in _keys(Stage.BUDGET, "options", a["options"], b["options"], names):
        yield (
            replace(difference, message=f"{difference.message}; {broken[0]}", where=broken[1]) if broken else difference
        )
    if one is None or other is None:
        if one is not other and a["error"] is None and b["error"] is None:
            yield Difference(Stage.BUDGET, "budget", "only one of the two was fitted into a window", one, other)
        return
    fates = [_fates(decision) for decision in (one, other)]
    for path in dict.fromkeys([*fates[0], *fates[1]]):
        if fates[0].get(path) != fates[1].get(path):
            words = [fate.get(path, "not there") for fate in fates]
            message = f"{path} is {words[0]} then, {words[1]} now" + (f"; {broken[0]}" if broken else "")
            yield Difference(Stage.BUDGET, "budget", message, words[0], words[1], {"path": path})
    yield from _keys(Stage.BUDGET, "budget", one, other, _BUDGET)


def _inputs(a: Value, b: Value) -> Iterator[Difference]:
    one, other = a["inputs"], b["inputs"]
    if one is None or other is None:
        return
    if one["sha256"] != other["sha256"]:
        x, y = (side["inputs"]["text"] or (side["rendered"] or {}).get("text") for side in (a, b))
        where, message = ({}, "the rendered text is another") if x is None or y is None else _text_place(x, y)
        yield Difference(Stage.INPUTS, "inputs.text", message, one["sha256"], other["sha256"], where)
    for name in ("input_ids", "attention_mask", "position_ids", "lengths"):
        yield from _other_item(Stage.INPUTS, f"inputs.{name}", one[name], other[name], "position")
    yield from _keys(Stage.INPUTS, "inputs", one, other, ("padding_side", "assistant_mask_from"))
    for name in ("assistant_mask", "safe_input_ids", "uncovered"):
        yield from _other_item(Stage.INPUTS, f"inputs.{name}", one[name], other[name], "position")


_COMPARE: dict[Stage, Callable[[Value, Value], Iterable[Difference]]] = {
    Stage.REQUEST: _request,
    Stage.MESSAGES: _messages,
    Stage.MEDIA: _media,
    Stage.INJECTED: _injected,
    Stage.RENDER: _render,
    Stage.TOKENIZE: _tokenize,
    Stage.BUDGET: _budget,
    Stage.INPUTS: _inputs,
}


# --- finding places -------------------------------------------------------------------------------------------------


def _keys(
    stage: Stage, path: str, a: Value, b: Value, names: Iterable[str], where: dict[str, Any] | None = None
) -> Iterator[Difference]:
    for name in names:
        if name not in a or name not in b:
            continue  # a key that an older record does not have
        one, other = a[name], b[name]
        if one != other:
            message = f"{path}.{name} is {_short(one)} then, {_short(other)} now"
            yield Difference(stage, f"{path}.{name}", message, one, other, where)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _pairs(a: list[Any], b: list[Any]) -> list[tuple[Any, Any]]:
    size = max(len(a), len(b))
    return [(a[k] if k < len(a) else None, b[k] if k < len(b) else None) for k in range(size)]


def _first_of_only_one(a: list[str], b: list[str]) -> list[str]:
    return [path for path in [*a, *b] if (path in a) != (path in b)][:1]


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _parsed(text: str) -> Any:
    value = loads(text, root="request", limits=LIMITS)
    return {"messages": value} if isinstance(value, list) else value


def _other_value(stage: Stage, path: str, a: Any, b: Any) -> Iterator[Difference]:
    """Compare JSON values, not their spelling: the order of keys and the digits of a number show in the rendering."""
    found = _value_place(_without_media(a), _without_media(b), "")
    if found is not None:
        at, one, other = found
        message = f"{at or 'the request'} is {_short(one)} then, {_short(other)} now"
        yield Difference(stage, path, message, one, other, {"path": at})


def _without_media(value: Any) -> Any:
    """Give a value with the base64 of pictures and sounds left out: their bytes are another stage's."""
    places = {row["path"] for row in media_of(value, "") if row["sha256"] is not None}
    return _left_out(value, "", places) if places else value


def _left_out(value: Any, path: str, places: set[str]) -> Any:
    if path in places:
        return "(media)"
    if isinstance(value, dict):
        return {key: _left_out(item, child_path(path, key), places) for key, item in value.items()}
    if isinstance(value, list):
        return [_left_out(item, child_path(path, index), places) for index, item in enumerate(value)]
    return value


def _value_place(a: Any, b: Any, path: str) -> tuple[str, Any, Any] | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys([*a, *b]):
            if (key in a) != (key in b):
                if a.get(key) is None and b.get(key) is None and not path:
                    continue  # a field of the request that is null, or not there
                return child_path(path, key), a.get(key), b.get(key)
            found = _value_place(a[key], b[key], child_path(path, key))
            if found is not None:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for index, (one, other) in enumerate(zip(a, b)):
            found = _value_place(one, other, child_path(path, index))
            if found is not None:
                return found
        if len(a) != len(b):
            index = min(len(a), len(b))
            return child_path(path, index), _at(a, index), _at(b, index)
        return None
    return None if unordered(a) == unordered(b) else (path, a, b)


def _other_item(stage: Stage, path: str, a: list[Any], b: list[Any], unit: str) -> Iterator[Difference]:
    index = _first_other(a, b)
    if index is not None:
        one, other = _at(a, index), _at(b, index)
        message = f"{path}[{index}] is {_short(one)} then, {_short(other)} now"
        yield Difference(stage, f"{path}[{index}]", message, one, other, {unit: index})


def _first_other(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    return None if a == b else first_difference(a, b)


def _first_other_id(a: Value | None, b: Value | None) -> int | None:
    return None if a is None or b is None else _first_other(a["input_ids"], b["input_ids"])


def _token_place(a: Value, b: Value, token: int) -> dict[str, Any]:
    byte = next((side["start"][token] for side in (a, b) if token < len(side["start"])), None)
    return {"token": token, **({} if byte is None else {"byte": byte})}


def _rendered_place(a: Value | None, b: Value | None) -> tuple[dict[str, Any], str] | None:
    if a is None or b is None:
        return None
    if "token_segments" in (a["kind"], b["kind"]):
        ids = [[token for row in side["segments"] for token in row["ids"] or ()] for side in (a, b)]
        token = _first_other(*ids)
        if token is None and a["kind"] == b["kind"]:
            return None
        return {"token": token}, f"the tokenizer's own encoding of the request parts at token {token}"
    if a["sha256"] == b["sha256"]:
        return None
    where, message = _text_place(a["text"], b["text"])
    for name, side in (("a", a), ("b", b)):
        where[name] = next(({key: row[key] for key in ("kind", "path", "line")} for row in side["segments"]
                            if row["start"] <= where["byte"] < row["end"]), None)  # fmt: skip
    writer = where["b"] or where["a"]
    by = f", written by {writer['path'] or 'template line ' + str(writer['line'])}" if writer else ""
    return where, message + by


def _text_place(a: str, b: str) -> tuple[dict[str, Any], str]:
    at = _first_other(a, b) or 0
    shown = [repr(text[max(0, at - 12) : at + 24]) for text in (a, b)]
    byte = len(a[:at].encode("utf-8", "surrogatepass"))
    return {"byte": byte}, f"the rendered text parts at byte {byte}: {shown[0]} then, {shown[1]} now"


def _template_name(template: Value) -> str:
    revision = f"@{template['revision'][:12]}" if template["revision"] else ""
    return f"{template['id']}{revision} ({template['digest'][:12]})"


def _other_line(a: str | None, b: str | None) -> int | None:
    if a is None or b is None:
        return None
    index = _first_other(a.splitlines(keepends=True), b.splitlines(keepends=True))
    return None if index is None else index + 1


def _fates(decision: Value) -> dict[str, str]:
    return {
        **dict.fromkeys(decision["kept"], "kept"),
        **{row["path"]: f"cut by {row['tokens_lost']} tokens" for row in decision["cut"]},
        **{row["path"]: "dropped" for row in decision["dropped"]},
    }


def _newly_broken(a: Value | None, b: Value | None) -> tuple[str, dict[str, Any]] | None:
    """Say what one decision breaks and the other does not; parted tool pairs first."""
    lists = [[(row["what"], row["path"]) for row in (side or {}).get("broken", ())] for side in (a, b)]
    for when, own, others in (("now", lists[1], lists[0]), ("then", lists[0], lists[1])):
        for what, path in sorted(own, key=lambda row: row[0] != "tool_pair_parted"):
            if (what, path) not in others:
                return f"{what} at {path or 'the end'} {when} only", {"path": path, "broken": what}
    return None


# --- what else is said ----------------------------------------------------------------------------------------------


def _versions(a: Value, b: Value) -> tuple[tuple[str, str | None, str | None], ...]:
    one, other = a["versions"], b["versions"]
    names = dict.fromkeys([*one, *other])
    return tuple((n, one.get(n), other.get(n)) for n in names if one.get(n) != other.get(n))


def _with_causes(
    found: Difference, a: Value, b: Value, versions: tuple[tuple[str, str | None, str | None], ...]
) -> Difference:
    causes = _spelled_otherwise(a, b) if found.path.startswith("rendered") else []
    relevant = {
        Stage.RENDER: ("inspector", "python", "transformers", "jinja2", "markupsafe", "minijinja", "unicode"),
        Stage.TOKENIZE: ("inspector", "tokenizers", "tiktoken", "sentencepiece", "mistral-common", "regex", "unicode"),
    }.get(found.stage, ("inspector",))
    causes += [
        f"{name} {one or 'none'} then, {other or 'none'} now" for name, one, other in versions if name in relevant
    ]
    return replace(found, causes=tuple(causes))


def _spelled_otherwise(a: Value, b: Value) -> list[str]:
    """Name where two requests that are equal as values are spelled otherwise: key order, digits of a number."""
    one, other = (side["request"]["text"] for side in (a, b))
    if one is None or other is None or one == other:
        return []
    place = _spelling_place(_parsed(one), _parsed(other), "")
    return [f"the request is spelled otherwise: {place}"] if place else []


def _spelling_place(a: Any, b: Any, path: str) -> str | None:
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            return f"the keys of {path or 'the request'} are in another order"
        return next((found for key in a if (found := _spelling_place(a[key], b[key], child_path(path, key)))), None)
    if isinstance(a, list) and isinstance(b, list):
        pairs = enumerate(zip(a, b))
        return next((found for k, (x, y) in pairs if (found := _spelling_place(x, y, child_path(path, k)))), None)
    spelled = [getattr(value, "spelling", repr(value)) for value in (a, b)]
    return None if spelled[0] == spelled[1] else f"{path} is written {spelled[0][:40]} then, {spelled[1][:40]} now"


def _notes(a: Value, b: Value, decoded: bool, found: Difference | None) -> list[str]:
    """Say what differs and does not reach the model."""
    notes = []
    if decoded or (found is not None and found.stage in (Stage.REQUEST, Stage.MESSAGES)):
        pass
    elif a["request"]["sha256"] != b["request"]["sha256"] and a["request"]["text"] == b["request"]["text"]:
        notes.append("request.sha256: the bytes of the request differ, what was read is the same")
    elif a["request"]["text"] != b["request"]["text"]:
        notes.append("request.text: the request is spelled otherwise")
    one, other = a["template"], b["template"]
    if one and other and one["digest"] == other["digest"] and _template_name(one) != _template_name(other):
        notes.append(f"template: the same text is {_template_name(one)} then, {_template_name(other)} now")
    if a["silenced"] != b["silenced"]:
        notes.append("silenced: other rules were silenced")
    return notes
