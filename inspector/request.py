"""From bytes to a `ChatRequest`: strict, with a place for every fault, nothing repaired in silence.

This module knows which fields a chat request has and which JSON types they may hold. It does not know templates,
profiles or what a library would make of the values (messages.py); unknown extra fields pass, wrong types do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.json5text import as_strict
from inspector.jsontext import (
    JsonLimits,
    Place,
    SpelledFloat,
    SpelledInt,
    child_path,
    dumps,
    line_and_column,
    loads,
    locate,
    split_path,
)

__all__ = [
    "Change",
    "ChatRequest",
    "RequestLimits",
    "SpelledFloat",
    "SpelledInt",
    "at_path",
    "child_path",
    "dump_request",
    "parse_fields",
    "parse_request",
    "split_path",
]

KNOWN_KEYS = ("messages", "tools", "documents", "chat_template_kwargs")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request: UTF-8 bytes, nesting depth, messages, keys of one object."""

    max_bytes: int = 64_000_000
    max_depth: int = 64
    max_messages: int = 100_000
    max_object_keys: int = 100_000

    def json(self) -> JsonLimits:
        """Give the part that the JSON reader holds."""
        return JsonLimits(self.max_depth, self.max_object_keys)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done to the request: where, what, before, after, and by whom (parser, profile, library)."""

    path: str
    what: str
    before: Any
    after: Any
    by: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The request as given: plain JSON values, numbers with their spelling.

    `extra` holds every other key of an object request; `is_array` says that the request was a bare array of
    messages; `key_order` is the object's key order; `notes` flag what a person should see and nothing changed
    (`{"path", "what"}`: carriage returns inside text).
    """

    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    documents: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    is_array: bool = False
    changes: tuple[Change, ...] = ()
    notes: tuple[dict[str, str], ...] = ()
    key_order: tuple[str, ...] = ("messages",)

    def to_dict(self) -> dict[str, Any]:
        """Give the request as one object, keys in the order given; print it with `dump_request`."""
        return {key: getattr(self, key) if key in KNOWN_KEYS else self.extra[key] for key in self.key_order}


def parse_request(data: bytes, *, limits: RequestLimits | None = None) -> ChatRequest:
    """Parse a request: an array of messages, or an object with `messages` and other keys.

    Errors: InputInvalid, UnencodableText, InputTooLarge; `where` has path, line and column, or the byte offset.
    """
    limits = limits or RequestLimits()
    _check_size(len(data), limits)
    text, changes = _strip_bom(_decode(data))
    value = loads(text, limits=limits.json())
    return _located({"": _Source(text)}, False, lambda: _build_root(value, text, limits, changes))


def parse_fields(
    messages: str, tools: str = "", documents: str = "", arguments: str = "", *, limits: RequestLimits | None = None
) -> ChatRequest:
    """Parse the page's four editors; blank text means absent.

    The messages editor takes an array or a whole object request. What is no JSON is read as JSON5, which is a recorded
    change. A filled tools or documents editor then replaces
    that object's field, and the arguments editor's keys win over its `chat_template_kwargs`; each replacement is a
    recorded change.
    Errors: as `parse_request`; `where["field"]` names the editor that line and column belong to.
    """
    limits = limits or RequestLimits()
    texts = {"messages": messages, "tools": tools, "documents": documents, "arguments": arguments}
    _check_size(sum(len(text.encode(errors="surrogatepass")) for text in texts.values()), limits)
    stripped, changes = _strip_boms(texts)
    read = {name: _load_editor(name, text, limits) for name, text in stripped.items() if text.strip()}
    values = {name: value for name, (value, _source) in read.items()}
    if "messages" not in values:
        raise InspectorError(
            ErrorKind.InputInvalid,
            "the messages editor is empty",
            stage="request",
            where={"path": "messages", "field": "messages", "line": 1, "column": 1},
            remedy='write an array of messages: [{"role": "user", "content": "…"}]',
        )
    sources = {_ROOTS[name]: source for name, (_value, source) in read.items()}
    changes += tuple(change for name, (_value, source) in read.items() for change in source.changes(_ROOTS[name]))
    if isinstance(values["messages"], dict):
        sources[""] = sources.pop("messages")
    return _located(sources, True, lambda: _merge_editors(values, sources, limits, changes))


def dump_request(value: Any, indent: int | None = None) -> str:
    """Print any JSON value with numbers as spelled, non-ASCII text as is, and key order as given."""
    return dumps(value, indent)


def at_path(request: ChatRequest, path: str) -> Any:
    """Give the value at a path of the request as given.

    Errors: InputInvalid when the request has no such place.
    """
    value: Any = {name: getattr(request, name) for name in KNOWN_KEYS} | request.extra
    for step in split_path(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise InspectorError(
                ErrorKind.InputInvalid,
                f"the request has nothing at {path}",
                stage="request",
                where={"path": path},
                remedy="use a path of the request as given",
            ) from None
    return value


# --- bytes to text ---------------------------------------------------------------------------------------------------


def _check_size(size: int, limits: RequestLimits) -> None:
    if size > limits.max_bytes:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the request has {size:,} bytes; the limit is {limits.max_bytes:,}",
            stage="request",
            where={"bytes": size, "limit": limits.max_bytes},
            remedy=f"send at most {limits.max_bytes:,} bytes",
        )


def _decode(data: bytes) -> str:
    foreign = _foreign_encoding(data)
    if foreign:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"the request is {foreign}, not UTF-8",
            stage="request",
            where={"byte": 0},
            remedy="save it as UTF-8",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = line_and_column(before, len(before))
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not valid UTF-8 ({error.reason})",
            stage="request",
            where={"byte": error.start, "line": line, "column": column},
            remedy="save the request as UTF-8",
        ) from None


def _foreign_encoding(data: bytes) -> str | None:
    """Name UTF-16 and UTF-32, by their byte order mark or by the zero bytes around the first ASCII character."""
    for mark, name in ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32")):
        if data.startswith(mark):
            return name
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    zeros = tuple(byte == 0 for byte in data[:4])
    if zeros in ((True, True, True, False), (False, True, True, True)):
        return "UTF-32"
    if zeros in ((True, False, True, False), (False, True, False, True)):
        return "UTF-16"
    return None


def _strip_bom(text: str, path: str = "$") -> tuple[str, tuple[Change, ...]]:
    if not text.startswith("\ufeff"):
        return text, ()
    return text[1:], (Change(path, "byte order mark removed", "\ufeff", "", "parser"),)


def _strip_boms(texts: dict[str, str]) -> tuple[dict[str, str], tuple[Change, ...]]:
    pairs = {name: _strip_bom(text, _ROOTS[name]) for name, text in texts.items()}
    return {name: text for name, (text, _) in pairs.items()}, tuple(c for _, changes in pairs.values() for c in changes)


# --- editors ---------------------------------------------------------------------------------------------------------

_ROOTS = {
    "messages": "messages",
    "tools": "tools",
    "documents": "documents",
    "arguments": "chat_template_kwargs",
}


@dataclass(frozen=True, slots=True)
class _Source:
    """Strict JSON text that was read; `place` and `json5` are set where it was made from JSON5."""

    text: str
    place: Place | None = None
    json5: tuple[str, ...] = ()

    def changes(self, root: str) -> tuple[Change, ...]:
        return (Change(root, "read as JSON5", list(self.json5), None, "parser"),) if self.json5 else ()


def _load_editor(name: str, text: str, limits: RequestLimits) -> tuple[Any, _Source]:
    root = None if name == "messages" else _ROOTS[name]
    try:
        try:
            return loads(text, root=root, limits=limits.json()), _Source(text)
        except InspectorError:
            source = _from_json5(text)
            if not source.json5:
                raise
        return loads(source.text, root=root, limits=limits.json(), place=source.place), source
    except InspectorError as error:
        error.where["field"] = name
        raise


def _from_json5(text: str) -> _Source:
    made = as_strict(text)
    return _Source(made.text, lambda offset: line_and_column(text, made.source(offset)), tuple(made.found))


def _located(sources: dict[str, _Source], editors: bool, build: Callable[[], ChatRequest]) -> ChatRequest:
    """Run `build`; give an error with a path the line and column in the text that holds it (root path -> text)."""
    try:
        return build()
    except InspectorError as error:
        path = error.where.get("path", "$")
        first = str(split_path(path)[0]) if path not in ("$", "") else ""
        root = first if first in sources else "" if "" in sources else "messages"
        source = sources[root]
        place = locate(source.text, _text_root(root, source.text), path, source.place)
        if place:
            error.where["line"], error.where["column"] = place
        if editors:
            error.where["field"] = next((name for name, known in _ROOTS.items() if known == root), "messages")
        raise


def _text_root(root: str, text: str) -> str:
    return "messages" if not root and text.lstrip().startswith("[") else root


def _merge_editors(
    values: dict[str, Any], sources: dict[str, _Source], limits: RequestLimits, changes: tuple[Change, ...]
) -> ChatRequest:
    whole = values["messages"]
    if not isinstance(whole, dict):
        if not isinstance(whole, list):
            raise _wrong(whole, "messages", "an array of messages or an object with messages")
        whole = {"messages": whole}
    merged, made = dict(whole), list(changes)
    for name in ("tools", "documents"):
        if name in values:
            if merged.get(name) is not None:
                made.append(Change(name, f"replaced by the {name} editor", merged[name], values[name], "parser"))
            merged[name] = values[name]
    if "arguments" in values:
        merged["chat_template_kwargs"] = _merge_arguments(merged, values["arguments"], made)
    bare = isinstance(values["messages"], list) and values.keys() == {"messages"}
    return _build(merged, "".join(source.text for source in sources.values()), limits, tuple(made), is_array=bare)


def _merge_arguments(merged: dict[str, Any], arguments: Any, made: list[Change]) -> dict[str, Any]:
    _require(arguments, "chat_template_kwargs", _OBJECT)
    given = merged.get("chat_template_kwargs")
    if given is None:
        return dict(arguments)
    _require(given, "chat_template_kwargs", _OBJECT)
    for name in arguments.keys() & given.keys():
        path = child_path("chat_template_kwargs", name)
        made.append(Change(path, "replaced by the arguments editor", given[name], arguments[name], "parser"))
    return {**given, **arguments}


# --- types -----------------------------------------------------------------------------------------------------------

_NAMES = {str: "a string", bool: "true or false", type(None): "null", list: "an array", dict: "an object"}
_STRING, _ARRAY, _OBJECT = (str,), (list,), (dict,)
_STRING_OR_NULL, _ARRAY_OR_NULL, _OBJECT_OR_NULL = (str, type(None)), (list, type(None)), (dict, type(None))

_Fields = dict[str, tuple[type, ...]]

# Types a known field may hold. Content objects are read by some templates (`content is mapping`), and null parts
# come from Arrow-aligned data; anything not listed passes as it is.
MESSAGE_FIELDS: _Fields = {
    "role": _STRING,
    "content": (str, list, dict, type(None)),
    "name": _STRING_OR_NULL,
    "tool_call_id": _STRING_OR_NULL,
    "tool_calls": _ARRAY_OR_NULL,
    "reasoning_content": (str, list, type(None)),
    "reasoning": (str, list, type(None)),
    "thinking": (str, list, type(None)),
}
PART_FIELDS: _Fields = {"type": _STRING, "text": _STRING_OR_NULL}
CALL_FIELDS: _Fields = {"id": _STRING_OR_NULL, "type": _STRING_OR_NULL, "function": _OBJECT_OR_NULL}
FUNCTION_CALL_FIELDS: _Fields = {"name": _STRING, "arguments": (str, dict, type(None))}
TOOL_FIELDS: _Fields = {"type": _STRING_OR_NULL, "function": _OBJECT_OR_NULL}
FUNCTION_FIELDS: _Fields = {"name": _STRING, "description": _STRING_OR_NULL, "parameters": _OBJECT_OR_NULL}


def _name_of(value: Any) -> str:
    return _NAMES.get(type(value), "a number")


def _wrong(value: Any, path: str, wanted: str) -> InspectorError:
    found = _name_of(value)
    return InspectorError(
        ErrorKind.InputInvalid,
        f"{path or 'the request'} must be {wanted}, found {found}",
        stage="request",
        where={"path": path or "$"},
        remedy=f"make {path or 'the request'} {wanted}",
    )


def _require(value: Any, path: str, types: tuple[type, ...]) -> None:
    if type(value) not in types:
        raise _wrong(value, path, " or ".join(_NAMES[kind] for kind in types))


def _require_fields(value: dict[str, Any], path: str, fields: _Fields) -> None:
    for key, item in value.items():
        if key in fields and type(item) not in fields[key]:
            break
    else:
        return
    for key, types in fields.items():  # in the order of the fields, whatever that of the keys: the first is named
        if key in value:
            _require(value[key], child_path(path, key), types)


def _build_root(value: Any, text: str, limits: RequestLimits, changes: tuple[Change, ...]) -> ChatRequest:
    if isinstance(value, list):
        return _build({"messages": value}, text, limits, changes, is_array=True)
    if not isinstance(value, dict):
        raise _wrong(value, "", 'an array of messages or an object with "messages"')
    return _build(value, text, limits, changes, is_array=False)


def _build(
    value: dict[str, Any], text: str, limits: RequestLimits, changes: tuple[Change, ...], *, is_array: bool
) -> ChatRequest:
    _check_messages(value, limits)
    for name in ("tools", "documents"):
        _require(value.get(name), name, _ARRAY_OR_NULL)
    _check_tools(value.get("tools") or [])
    for index, document in enumerate(value.get("documents") or []):
        _require(document, f"documents[{index}]", _OBJECT)
    _require(value.get("chat_template_kwargs"), "chat_template_kwargs", _OBJECT_OR_NULL)
    if value.get("chat_template_kwargs", {}) is None:
        changes += (Change("chat_template_kwargs", "null read as no arguments", None, {}, "parser"),)
    return ChatRequest(
        messages=value["messages"],
        tools=value.get("tools"),
        documents=value.get("documents"),
        chat_template_kwargs=value.get("chat_template_kwargs") or {},
        extra={key: item for key, item in value.items() if key not in KNOWN_KEYS},
        is_array=is_array,
        changes=changes,
        notes=_carriage_returns(value, text),
        key_order=tuple(value),
    )


def _check_messages(value: dict[str, Any], limits: RequestLimits) -> None:
    if "messages" not in value:
        lone = "role" in value  # a message without its brackets
        raise _missing("messages", "an array of messages", "put the message in [ ]" if lone else "add messages")
    messages = value["messages"]
    _require(messages, "messages", _ARRAY)
    if len(messages) > limits.max_messages:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the request has {len(messages):,} messages; the limit is {limits.max_messages:,}",
            stage="request",
            where={"path": "messages", "messages": len(messages), "limit": limits.max_messages},
            remedy=f"send at most {limits.max_messages:,} messages",
        )
    if not messages:
        raise InspectorError(
            ErrorKind.InputInvalid,
            "messages must hold at least one message (transformers refuses an empty conversation)",
            stage="request",
            where={"path": "messages"},
            remedy='add one: {"role": "user", "content": "…"}',
        )
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]")


def _missing(path: str, wanted: str, remedy: str = "") -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid,
        f"{path} is missing; it must be {wanted}",
        stage="request",
        where={"path": path},
        remedy=remedy or f"add {path}",
    )


def _check_message(message: Any, path: str) -> None:
    _require(message, path, _OBJECT)
    if "role" not in message:
        raise _missing(f"{path}.role", "a string")
    _require_fields(message, path, MESSAGE_FIELDS)
    if len(message) == 1:  # nothing but a role: every template would fail or print an empty turn
        raise _missing(f"{path}.content", "a string, an array of parts, or null")
    if type(message.get("content")) is list:
        _check_parts(message["content"], f"{path}.content")
    for index, call in enumerate(message.get("tool_calls") or []):
        _check_call(call, f"{path}.tool_calls[{index}]")


def _check_parts(parts: list[Any], path: str) -> None:
    for index, part in enumerate(parts):
        _require(part, f"{path}[{index}]", (dict, str))
        if type(part) is dict:
            _require_fields(part, f"{path}[{index}]", PART_FIELDS)


def _check_call(call: Any, path: str) -> None:
    _require(call, path, _OBJECT)
    _require_fields(call, path, CALL_FIELDS)
    if call.get("function") is not None:
        _require_fields(call["function"], f"{path}.function", FUNCTION_CALL_FIELDS)


def _check_tools(tools: list[Any]) -> None:
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        _require(tool, path, _OBJECT)
        _require_fields(tool, path, TOOL_FIELDS)
        if tool.get("function") is not None:
            _require_fields(tool["function"], f"{path}.function", FUNCTION_FIELDS)


# --- notes -----------------------------------------------------------------------------------------------------------

_CR_ESCAPE = re.compile(r"\\r|\\u000[dD]")


def _carriage_returns(value: dict[str, Any], text: str) -> tuple[dict[str, str], ...]:
    """Flag strings that hold carriage returns: kept as given, and other tokens than a bare line feed."""
    if not _CR_ESCAPE.search(text):
        return ()
    notes: list[dict[str, str]] = []
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack:
        item, path = stack.pop()
        if isinstance(item, str):
            notes += [{"path": path, "what": what} for what in _cr_kinds(item)]
        elif isinstance(item, dict):
            stack += reversed([(child, child_path(path, key)) for key, child in item.items()])
        elif isinstance(item, list):
            stack += reversed([(child, child_path(path, index)) for index, child in enumerate(item)])
    return tuple(notes)


def _cr_kinds(text: str) -> list[str]:
    pairs = text.count("\r\n")
    alone = text.count("\r") - pairs
    kinds = [f"{pairs} CRLF line ending{'s' * (pairs != 1)} kept"] if pairs else []
    return kinds + ([f"{alone} carriage return{'s' * (alone != 1)} without line feed kept"] if alone else [])
