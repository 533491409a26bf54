"""The record of an inspection (`record/1`): all that another machine needs to make the same input, or to say where not.

It is canonical JSON (RFC 8785) with a digest of itself. That form sorts keys and rewrites numbers, so whatever depends
on the order of keys or on the spelling of a number - the request, template arguments, values before and after a change
- stands in it as JSON text. Nothing in it is a secret, a place on a machine, or a timing. Reading records is replay.py's.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import rfc8785

from inspector.job import Fields, Job
from inspector.jsontext import child_path
from inspector.provenance import plain
from inspector.request import ChatRequest, dump_request
from inspector.template import OWN_TEMPLATE
from inspector.withheld import (
    machine_places,
    public_reference,
    refuse_environment,
    refuse_secrets,
    without_places,
    without_secrets,
)

if TYPE_CHECKING:
    from inspector.encode import Encoding
    from inspector.media.report import MediaReport
    from inspector.messages import Conversation
    from inspector.pipeline import Inspection
    from inspector.request import Change
    from inspector.tokenizers.base import AddedToken, Tokenizer, TokenizerArtifact

SCHEMA = "record/1"
REQUEST_SCHEMA = "request/1"
LIBRARIES = (
    "transformers", "tokenizers", "jinja2", "markupsafe", "tiktoken", "regex", "mistral-common", "sentencepiece", "gguf",
    "safetensors", "huggingface_hub", "numpy", "pandas", "rapidfuzz", "rfc8785", "pyarrow", "gradio", "torch", "accelerate",
    "httpx2", "mcp", "uvicorn", "pillow", "platformdirs", "filelock", "limits", "typer", "rich", "minijinja", "xllamacpp",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a JSON value with its digest in it."""

    value: dict[str, Any]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of everything but the digest."""
        return self.value["digest"]

    def to_bytes(self) -> bytes:
        """Give the canonical JSON: what a record's file holds, to the byte."""
        return rfc8785.dumps(self.value)


def sealed(value: dict[str, Any]) -> Record:
    """Give a record's value its digest."""
    return Record({"schema": value["schema"], "digest": digest_of(value), **_without_digest(value)})


def digest_of(value: Mapping[str, Any]) -> str:
    """Hash a record's canonical JSON without its digest."""
    return hashlib.sha256(rfc8785.dumps(_without_digest(value))).hexdigest()


def _without_digest(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != "digest"}


def record(
    job: Job,
    *,
    digests_only: bool = False,
    ignore: Mapping[str, str] | None = None,
    places: tuple[str, ...] | None = None,
) -> Record:
    """Run a job and record it. With a budget the whole conversation is rendered too, so that a replay can tell a
    difference in rendering from one in what was kept. `places`: of the machine (`machine_places`), where this process
    does not know them.

    Errors: SecretFound. An error of the run is in the record.
    """
    from inspector.pipeline import run

    inspection = run(job)
    made = record_of(
        job, inspection, whole_of(job, inspection), digests_only=digests_only, ignore=ignore, places=places
    )
    refuse_environment(made.to_bytes().decode())
    return made


def places_of(job: Job) -> tuple[str, ...]:
    """Give the places of this machine that an error of a job might name."""
    return machine_places((file.path for file in job.tokenizer.files), (job.options.tokenizer, job.options.template))


def whole_of(job: Job, inspection: Inspection) -> Inspection:
    """Give the inspection of the same request at the same time without a budget."""
    from inspector.pipeline import run

    if job.options.context_window is None:
        return inspection
    return run(unbudgeted(job, inspection))


_WIDE = 1 << 40  # a window that nothing fills


def unbudgeted(job: Job, inspection: Inspection) -> Job:
    """Give the job of the whole conversation, at the time of its inspection.

    Images that count because there is a window go on counting: theirs is then one that nothing fills.
    """
    counted = job.options.media == "auto" and inspection.media is not None and inspection.media.media.expanded
    window = (
        {"context_window": _WIDE, "max_new_tokens": 0, "policy": "messages"} if counted else {"context_window": None}
    )
    return replace(job, options=replace(job.options, clock=inspection.clock, **window))


def record_of(
    job: Job,
    inspection: Inspection,
    whole: Inspection,
    *,
    digests_only: bool = False,
    ignore: Mapping[str, str] | None = None,
    places: tuple[str, ...] | None = None,
) -> Record:
    """Record an inspection of a job; `whole` is the same without a budget (`whole_of`).

    `digests_only` leaves out what the artifacts' authors wrote: the template's text and the rows of the added tokens.
    `ignore`: rules silenced, with reasons.
    Errors: SecretFound.
    """
    request, conversation = inspection.request, inspection.conversation
    if places is None:
        places = places_of(job)
    error = inspection.error.to_dict() if inspection.error is not None else None
    own = len(request.changes) if request is not None else 0
    return sealed(
        {
            "schema": SCHEMA,
            "request": _request(job, request),
            "messages": None if conversation is None else _messages(conversation, conversation.changes[own:]),
            "media": _media(request, inspection.media),
            "media_rule": None if inspection.media is None else _media_rule(inspection.media),
            "injected": _injected(job, inspection),
            "options": _options(job),
            "template": _template(inspection, not digests_only),
            "rendered": _rendered(whole),
            "tokenizer": _tokenizer(job.tokenizer, inspection.tokenizer, not digests_only),
            "tokens": _tokens(whole.encoding),
            "budget": None if inspection.budget is None else inspection.budget.to_dict(),
            "inputs": _inputs(inspection),
            "silenced": _silenced(inspection, ignore or {}),
            "error": _plain_text(without_places(error, places)),
            "versions": library_versions(),
        }
    )


# --- the request ----------------------------------------------------------------------------------------------------


def _request(job: Job, request: ChatRequest | None) -> dict[str, Any]:
    given = job.request if isinstance(job.request, bytes) else None
    withheld: list[dict[str, str]] = []
    if request is None:
        text, data = None, given if given is not None else "\n".join(_editors(job.request)).encode("utf-8", "replace")
        refuse_secrets(data.decode("utf-8", "replace"), "$")
    else:
        for name, part in (("messages", request.messages), ("tools", request.tools), ("documents", request.documents),
                           ("chat_template_kwargs", request.chat_template_kwargs), ("--set", job.options.arguments)):  # fmt: skip
            refuse_secrets(part, name)
        whole = replace(request, extra=without_secrets(dict(request.extra), "", withheld))
        text = dump_request(whole.messages if whole.is_array else whole.to_dict())
        data = given if given is not None else text.encode("utf-8")
    return {
        "schema": REQUEST_SCHEMA,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "decoding": {
            "encoding": "utf-8",
            "errors": "strict",  # the only policy: what is no UTF-8, and a lone surrogate, is refused
            "byte_order_mark": data.startswith(b"\xef\xbb\xbf"),
            "replacement_characters": [] if request is None else replacement_characters(request),
        },
        "text": text,
        "undecoded": base64.b64encode(data).decode() if request is None else None,
        "changes": [] if request is None else _changes(request.changes),
        "withheld": withheld,
    }


def _editors(fields: Any) -> tuple[str, ...]:
    return astuple(fields) if isinstance(fields, Fields) else ()


def replacement_characters(request: ChatRequest) -> list[str]:
    """Give the paths of strings that hold U+FFFD: what an earlier decoder may have put for bytes that were no UTF-8."""
    return [path for path, text in _strings(request.to_dict(), "") if "\ufffd" in text]


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(item, child_path(path, key))


def _changes(changes: tuple[Change, ...]) -> list[dict[str, Any]]:
    return [
        {"path": c.path, "what": c.what, "before": dump_request(c.before), "after": dump_request(c.after), "by": c.by}
        for c in changes
    ]


def _messages(conversation: Conversation, changes: tuple[Change, ...]) -> dict[str, Any]:
    """Give what the template was handed, where that is not the request as given, and what was done to make it."""
    handed = plain({
        "messages": conversation.messages, "tools": conversation.tools, "documents": conversation.documents,
        "chat_template_kwargs": conversation.kwargs,
    })  # fmt: skip
    refuse_secrets([[change.before, change.after] for change in changes], "changes")
    return {"text": dump_request(handed) if changes else None, "changes": _changes(changes)}


# --- media ----------------------------------------------------------------------------------------------------------

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*?);base64,(.*)", re.DOTALL)
_MEDIA_TYPES = ("image", "audio", "video", "file", "document", "input_audio")


def _media(request: ChatRequest | None, report: MediaReport | None) -> list[dict[str, Any]]:
    """Give the media by the place of their bytes: digests, and what was measured and decided of each."""
    rows = {row["path"]: {**row, "measured": None} for row in media_of(request.messages, "messages")} if request else {}
    for item, said in zip(report.media.items, report.items_dict()) if report is not None else ():
        known = {"path": item.part.place, "media_type": None, "bytes": None, "sha256": None}
        why = "; ".join(item.notes) or None
        row = rows.setdefault(item.part.place, {**known, "why": why, "measured": None})
        row["measured"] = _plain_text({"part": item.part.path, **{name: said[name] for name in _MEASURED}})
    return list(rows.values())


_MEASURED = ("kind", "source", "identity", "decoding", "plan", "positions", "memory", "estimate", "notes", "error")


def _media_rule(report: MediaReport) -> dict[str, Any]:
    said = report.rule_dict()
    return _plain_text({name: said[name] for name in ("rule", "expanded", "literal", "written", "typed")})


def media_of(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """Give the digest of every picture, sound or file that stands in a value as base64; a link is named without one."""
    if isinstance(value, dict):
        for key, item in value.items():
            at = child_path(path, key)
            found = _medium(value, key, item)
            if found is not None:
                yield {"path": at, **found}
            else:
                yield from media_of(item, at)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from media_of(item, child_path(path, index))


def _medium(parent: dict[str, Any], key: str, text: Any) -> dict[str, Any] | None:
    if not isinstance(text, str):
        return None
    url = _DATA_URL.fullmatch(text)
    if url is not None:
        return _digest_of_base64(url[3], url[1] or None)
    typed = parent.get("type") in _MEDIA_TYPES or "media_type" in parent or "format" in parent
    if key in ("data", "base64") and typed:
        stated = parent.get("media_type") or parent.get("format")
        return _digest_of_base64(text, stated if isinstance(stated, str) else None)
    if key == "url" and re.match(r"(?:https?|gs|s3|file):", text):
        return {"media_type": None, "bytes": None, "sha256": None, "why": "a link: what it leads to may change"}
    return None


def _digest_of_base64(text: str, media_type: str | None) -> dict[str, Any]:
    try:
        data = base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except (binascii.Error, ValueError):
        return {"media_type": media_type, "bytes": None, "sha256": None, "why": "it is not base64"}
    return {"media_type": media_type, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "why": None}


# --- what is injected, options, artifacts ---------------------------------------------------------------------------


def _injected(job: Job, inspection: Inspection) -> dict[str, Any]:
    request, clock = inspection.request, inspection.clock
    offset = clock.utcoffset()
    return {
        "clock": clock.isoformat(),
        "clock_from": "now" if job.options.clock is None else "given",
        "time_zone": None if offset is None else clock.strftime("%z"),
        "arguments": dump_request(job.options.arguments),
        "tools": None if request is None else _listed(request.tools),
        "documents": None if request is None else _listed(request.documents),
    }


def _listed(value: list[Any] | None) -> dict[str, Any] | None:
    """Count a catalogue and hash it as a set of JSON values: the order of keys shows where it is rendered."""
    return None if value is None else {"count": len(value), "sha256": _hash(unordered(value))}


def unordered(value: Any) -> str:
    """Write a JSON value so that equal values are equal texts, whatever the order of keys and the spelling of numbers."""
    return json.dumps(_respelled(value), sort_keys=True, ensure_ascii=True)


def _respelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _respelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_respelled(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _options(job: Job) -> dict[str, Any]:
    options = job.options
    return {
        "tokenizer": public_reference(options.tokenizer),
        "template": public_reference(options.template),
        "name": options.name,
        "add_generation_prompt": options.add_generation_prompt,
        "continue_final_message": options.continue_final_message,
        "profile": options.profile,
        "engine": options.engine,
        "context_window": options.context_window,
        "max_new_tokens": options.max_new_tokens,
        "policy": options.policy,
        "whole_turns": options.whole_turns,
        "document_order": list(options.document_order),
        "first_turns": options.first_turns,
        "media": options.media,
        "media_rule": options.media_rule,
        "image_tokens": options.image_tokens,
    }


def _template(inspection: Inspection, with_text: bool) -> dict[str, Any] | None:
    template = inspection.template
    if template is None:
        return None
    if with_text:
        refuse_secrets(template.text, "template")
    ref = public_reference(template.ref)
    return {
        "ref": ref,
        "id": template.id if ref == template.ref else public_reference(template.id),
        "revision": template.revision or None,
        "name": template.name,
        "file": re.split(r"[/\\]", template.file)[-1] or None,
        "digest": template.digest,
        "bytes": len(template.text.encode("utf-8")),
        "text": template.text if with_text else None,
        "own": template.ref.endswith(OWN_TEMPLATE) and inspection.options.template is None,
    }


def _tokenizer(artifact: TokenizerArtifact, tokenizer: Tokenizer | None, with_rows: bool) -> dict[str, Any]:
    loaded = None
    if tokenizer is not None:
        names = tokenizer.special_tokens
        loaded = {
            "vocab_size": tokenizer.vocab_size,
            "size": tokenizer.size,
            "model_max_length": tokenizer.model_max_length,
            "special_tokens": {
                name: {"text": text, "id": tokenizer.special_token_ids.get(name)} for name, text in names.items()
            },
            "added_tokens": _added(tokenizer.added_tokens, with_rows),
        }
    return {
        "ref": public_reference(artifact.ref),
        "id": public_reference(artifact.id),
        "family": artifact.family,
        "digest": artifact.digest,
        "files": {re.split(r"[/\\]", file.name)[-1]: file.sha256 for file in artifact.files},
        "settings_sha256": _hash(unordered(artifact.settings)),
        "reconstructed": artifact.reconstructed,
        "loaded": loaded,
    }


_ADDED = ("id", "content", "special", "lstrip", "rstrip", "normalized", "single_word")
MOST_ADDED = 512  # rows of the table that are listed; the digest is of all


def _added(tokens: tuple[AddedToken, ...], with_rows: bool) -> dict[str, Any]:
    rows = [{name: getattr(token, name) for name in _ADDED} for token in sorted(tokens, key=lambda token: token.id)]
    return {"total": len(rows), "sha256": _hash(unordered(rows)), "listed": rows[:MOST_ADDED] if with_rows else []}


# --- text and tokens ------------------------------------------------------------------------------------------------


def _rendered(whole: Inspection) -> dict[str, Any] | None:
    rendered = whole.rendered
    if rendered is None or whole.encoding is None:
        return None
    refuse_secrets(rendered.text, "rendered")
    segments = [
        {name: row[name] for name in ("start", "end", "kind", "path", "line", "ids")}
        for row in rendered.segments.to_dicts()
    ]
    text = None if rendered.kind == "token_segments" else rendered.text
    return {"kind": rendered.kind, "text": text, "sha256": rendered.sha256, "segments": segments}


def _tokens(encoding: Encoding | None) -> dict[str, Any] | None:
    if encoding is None:
        return None
    return {name: getattr(encoding, name).tolist() for name in ("input_ids", "start", "end")}


def _inputs(inspection: Inspection) -> dict[str, Any] | None:
    encoding, tensors, rendered = inspection.encoding, inspection.inputs, inspection.rendered
    if encoding is None or tensors is None or rendered is None:
        return None
    cut = inspection.budget is not None and rendered.kind == "bytes"
    return {
        "text": rendered.text if cut else None,
        "sha256": rendered.sha256,
        "input_ids": tensors.input_ids[0].tolist(),
        "attention_mask": tensors.attention_mask[0].tolist(),
        "position_ids": tensors.position_ids[0].tolist(),
        "lengths": tensors.lengths.tolist(),
        "padding_side": tensors.padding_side.value,
        "assistant_mask": encoding.assistant_mask.tolist(),
        "assistant_mask_from": encoding.assistant_mask_from,
        "safe_input_ids": encoding.safe_input_ids.tolist(),
        "uncovered": [{"start": gap.start, "end": gap.end, "why": gap.why} for gap in encoding.uncovered],
    }


def _silenced(inspection: Inspection, ignore: Mapping[str, str]) -> list[dict[str, str]]:
    from inspector.lint import ignored_by

    rules = {**ignored_by(inspection), **ignore}
    return [{"rule": rule, "reason": str(reason)} for rule, reason in sorted(rules.items())]


def _plain_text(value: Any) -> Any:
    """Spell what canonical JSON cannot hold: lone surrogates as escapes, numbers beyond 2**53 as text."""
    if isinstance(value, dict):
        return {_plain_text(key): _plain_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_text(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    return value


@functools.lru_cache(maxsize=1)
def library_versions() -> dict[str, str | None]:
    """Give the version of Python, of Unicode and of every library; null where one is not installed."""
    from inspector.pipeline import versions

    return {**versions(), **{name: _version(name) for name in LIBRARIES}}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
