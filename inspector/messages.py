"""From a `ChatRequest` to the `Conversation` that a template is given, under a profile, with every change recorded.

A profile does what the named program does to a request before it renders: `transformers` drops message keys whose
value is null; `vllm` also turns tool-call arguments given as JSON text into values and joins text parts for
templates that read strings; `openai` checks the body's own conventions and changes nothing. Reasoning fields are
copied under their other names by the library while it renders: that is listed here and done in render.py. Strings
are wrapped with their path (provenance.py); nothing is rendered here.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import child_path, holds_spelled, loads, shorten
from inspector.provenance import Origin, SegmentKind, Traced, TracedFloat, TracedInt, concat, derive, trace
from inspector.request import Change, ChatRequest, SpelledFloat, SpelledInt

PROFILES = ("transformers", "vllm", "openai")

# Names that apply_chat_template, render_jinja_template or the template's own data take; a test holds this to their
# signatures. transformers lets a caller's keyword arguments override all of them.
RESERVED_ARGUMENTS = frozenset(
    "self conversation conversations messages tools documents chat_template add_generation_prompt "
    "continue_final_message tokenize sanitize_control_tokens padding truncation max_length return_tensors return_dict "
    "return_assistant_tokens_mask tokenizer_kwargs".split()
)
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_REASONING = frozenset(REASONING_FIELDS)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a template is given. Leaves are traced; their paths index the request as given.

    `changes` lists everything done to the request so far, the parser's own changes first.
    """

    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    documents: list[Any] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


def canonicalize(
    request: ChatRequest,
    profile: str = "transformers",
    *,
    arguments: dict[str, Any] | None = None,
    template_text: str | None = None,
) -> Conversation:
    """Give the conversation that the profile's program would hand to the template.

    `arguments` (options' `--set`) win over the request's `chat_template_kwargs`. `template_text` lets `vllm` tell
    whether the template reads strings or parts; without it no parts are joined.
    Errors: OptionInvalid (profile, a reserved name in `arguments`), InputInvalid (a reserved name in the request's
    `chat_template_kwargs`, arguments that are not JSON, a broken convention of the `openai` profile).
    """
    _check_profile(profile)
    changes: list[Change] = list(request.changes)
    kwargs = _merge_kwargs(request.chat_template_kwargs, arguments or {}, changes)
    if profile == "openai":
        check_openai(request)
    parts = {"tools": request.tools, "documents": request.documents, "chat_template_kwargs": kwargs}
    for name, value in {**parts, "messages": request.messages}.items():
        _note_numbers(value, name, changes)
    traced = {name: trace(value, name) for name, value in parts.items()}
    join = profile == "vllm" and template_text is not None and content_format(template_text) == "string"
    messages = [
        _message(message, f"messages[{index}]", profile, join, changes)
        for index, message in enumerate(request.messages)
    ]
    return Conversation(messages, traced["tools"], traced["documents"], traced["chat_template_kwargs"], tuple(changes))


def _check_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"unknown profile {profile!r}; profiles are {', '.join(PROFILES)}",
            stage="messages",
            where={"option": "profile"},
            remedy=f"choose one of {', '.join(PROFILES)}",
        )


# --- keyword arguments -----------------------------------------------------------------------------------------------


def _merge_kwargs(given: dict[str, Any], chosen: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    for name in given:
        _refuse_reserved(name, ErrorKind.InputInvalid, {"path": child_path("chat_template_kwargs", name)})
    for name, value in chosen.items():
        _refuse_reserved(name, ErrorKind.OptionInvalid, {"option": "--set", "name": name})
        if name in given:
            path = child_path("chat_template_kwargs", name)
            changes.append(Change(path, "replaced by the option", given[name], value, "parser"))
    return {**given, **chosen}


def _refuse_reserved(name: str, kind: ErrorKind, where: dict[str, Any]) -> None:
    if name in RESERVED_ARGUMENTS:
        raise InspectorError(
            kind,
            f"the template argument {name!r} is reserved: the library takes it for itself",
            stage="messages",
            where=where,
            remedy=f"remove {name}; use the request's own field or the option of that name",
        )


# --- one message -----------------------------------------------------------------------------------------------------


def _message(message: dict[str, Any], path: str, profile: str, join: bool, changes: list[Change]) -> dict[str, Any]:
    kept = message if profile == "openai" else _drop_nulls(message, path, changes)
    traced: dict[str, Any] = trace(kept, path)
    if profile == "vllm":
        _read_arguments(kept, traced, path, changes)
        if join:
            _join_text(kept, traced, path, changes)
    _note_reasoning(kept, path, changes)
    return traced


def _drop_nulls(message: dict[str, Any], path: str, changes: list[Change]) -> dict[str, Any]:
    if None not in message.values():
        return message
    for key, value in message.items():
        if value is None:
            changes.append(Change(child_path(path, key), "null key dropped", None, None, "library"))
    return {key: value for key, value in message.items() if value is not None}


def _note_reasoning(message: dict[str, Any], path: str, changes: list[Change]) -> None:
    if _REASONING.isdisjoint(message):
        return
    source = next((name for name in REASONING_FIELDS if message.get(name) is not None), None)
    if source is None:
        return
    for name in ("thinking", "reasoning_content"):
        if name not in message or (name == "reasoning_content" and message[name] is None):
            what = f"copied from {source}"
            changes.append(Change(child_path(path, name), what, None, message[source], "library"))


def _note_numbers(value: Any, path: str, changes: list[Change]) -> None:
    """Record each number that the library will print otherwise than it is spelled."""
    if isinstance(value, SpelledInt | SpelledFloat):
        plain = repr(float(value)) if isinstance(value, SpelledFloat) else repr(int(value))
        changes.append(Change(path, "number respelled", value.spelling, plain, "library"))
    elif isinstance(value, dict | list) and holds_spelled(value):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _note_numbers(item, child_path(path, key), changes)


# --- vllm ------------------------------------------------------------------------------------------------------------


def _read_arguments(message: dict[str, Any], traced: dict[str, Any], path: str, changes: list[Change]) -> None:
    """Replace tool-call arguments given as JSON text by their value; its strings keep their place in that text."""
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call.get("function")
        text = function.get("arguments") if isinstance(function, dict) else None
        if not isinstance(text, str):
            continue
        place = f"{path}.tool_calls[{index}].function.arguments"
        value = _arguments_value(text, place)
        inner: list[Change] = []  # numbers have no path of their own here: they lie inside the text at `place`
        _note_numbers(value, place, inner)
        changes += [replace(change, path=place) for change in inner]
        changes.append(Change(place, "JSON text read as a value", text, value, "profile"))
        source = traced["tool_calls"][index]["function"]["arguments"]
        traced["tool_calls"][index]["function"]["arguments"] = read_traced(source, place) if text.strip() else {}


def _arguments_value(text: str, path: str) -> Any:
    if not text.strip():
        return {}  # vLLM reads empty arguments as no arguments
    try:
        return loads(text, root="arguments", stage="messages")
    except InspectorError as error:
        where = {"path": path, "line": error.where.get("line"), "column": error.where.get("column")}
        raise InspectorError(
            error.kind,
            f"arguments are not a JSON text: {error.message}",
            stage="messages",
            where={key: item for key, item in where.items() if item is not None},
            remedy=error.remedy,
        ) from None


def _join_text(message: dict[str, Any], traced: dict[str, Any], path: str, changes: list[Change]) -> None:
    """Join a content of text parts only with line feeds, as vLLM does for templates that read strings."""
    parts = message.get("content")
    if not isinstance(parts, list) or not all(_is_text(part) for part in parts):
        return
    texts = [part if isinstance(part, str) else part["text"] for part in traced["content"]]
    seams = [derive("\n", before, after) for before, after in itertools.pairwise(texts)]
    joined = concat(piece for pair in itertools.zip_longest(texts, seams, fillvalue="") for piece in pair)
    traced["content"] = joined
    changes.append(Change(child_path(path, "content"), "text parts joined", parts, str.__str__(joined), "profile"))


def _is_text(part: Any) -> bool:
    if isinstance(part, str):
        return True
    return part.get("type") in ("text", "input_text", "output_text") and isinstance(part.get("text"), str)


# --- JSON text inside a traced string --------------------------------------------------------------------------------

_TOKEN = re.compile(r'[ \t\r\n]*([\[\]{}:,]|"(?:[^"\\]++|\\.)*+"|[^ \t\r\n\[\]{}:,"]+)', re.DOTALL)
_PIECE = re.compile(r"(?:\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u....|\\.|[^\\]+", re.DOTALL)


def read_traced(source: Traced, path: str) -> Any:
    """Read the JSON text of a traced string, valid as `loads` says, into a value whose strings are cuts of it.

    Unescaped characters keep their offset in the text; an escape's character is derived from the escape.
    """
    tokens = ((match[1], match.start(1)) for match in _TOKEN.finditer(str.__str__(source)))
    return _read_value(source, path, tokens, *next(tokens))


def _read_value(source: Traced, path: str, tokens: Iterator[tuple[str, int]], token: str, start: int) -> Any:
    if token == "{":
        return dict(_read_members(source, path, tokens))
    if token == "[":
        return list(_read_items(source, path, tokens))
    if token[0] == '"':
        return _cut_string(source, start, token)
    value = loads(token, root="arguments")
    if value is None or isinstance(value, bool):
        return value
    # Not exact: a number prints from its origin's first character, and this one lies somewhere inside the field.
    origin = Origin(SegmentKind.MESSAGE, path, token, False)
    return TracedInt(value, origin) if isinstance(value, int) else TracedFloat(value, origin)


def _read_members(source: Traced, path: str, tokens: Iterator[tuple[str, int]]) -> Iterator[tuple[Any, Any]]:
    for token, start in tokens:
        if token == "}":
            return
        if token == ",":
            continue
        key = _cut_string(source, start, token)
        next(tokens)  # the colon
        yield key, _read_value(source, path, tokens, *next(tokens))


def _read_items(source: Traced, path: str, tokens: Iterator[tuple[str, int]]) -> Iterator[Any]:
    for token, start in tokens:
        if token == "]":
            return
        if token != ",":
            yield _read_value(source, path, tokens, token, start)


def _cut_string(source: Traced, start: int, token: str) -> Traced:
    inside = source[start + 1 : start + len(token) - 1]
    if "\\" not in token:
        return inside
    cuts = []
    for match in _PIECE.finditer(token, 1, len(token) - 1):
        cut = source[start + match.start() : start + match.end()]
        cuts.append(derive(json.loads(f'"{match[0]}"'), cut) if match[0].startswith("\\") else cut)
    return concat(cuts)


# --- content format --------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def content_format(template_text: str) -> str:
    """Tell whether a template reads message content as parts ("openai") or as text ("string"), as vLLM asks.

    It reads parts when it loops over a message's content, directly or through names, namespaces and macro
    parameters. A template that cannot be parsed reads nothing: "string"; rendering reports its fault.
    """
    from inspector.contentformat import iterates_content

    return "openai" if iterates_content(template_text) else "string"


# --- openai ----------------------------------------------------------------------------------------------------------

OPENAI_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
OPENAI_PARTS = ("text", "image_url", "input_audio", "file", "refusal")


def check_openai(request: ChatRequest) -> None:
    """Check the conventions of an OpenAI request body.

    Known roles and part types; tool calls with distinct ids and arguments that are a string holding a JSON object;
    each tool message answering a call of the assistant turn before it, and no call left unanswered when another
    message follows; tools of type function with a name.
    Errors: InputInvalid with the path of the first breach.
    """
    pending: dict[str, str] = {}  # call id -> path, of the assistant turn that is being answered
    for index, message in enumerate(request.messages):
        path = f"messages[{index}]"
        _check_role_and_content(message, path)
        if message["role"] == "tool":
            _answer(message, path, pending)
            continue
        for call_id, call_path in pending.items():
            raise _breach(
                call_path,
                f"the call {shorten(repr(call_id))} has no tool message before {path}",
                "add its tool message",
            )
        pending = _check_calls(message, path)
    _check_openai_tools(request.tools or [])


def _breach(path: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid, f"{path}: {message}", stage="messages", where={"path": path}, remedy=remedy
    )


def _check_role_and_content(message: dict[str, Any], path: str) -> None:
    role, content = message["role"], message.get("content")
    if role not in OPENAI_ROLES:
        raise _breach(f"{path}.role", f"unknown role {shorten(repr(role))}", f"use one of {', '.join(OPENAI_ROLES)}")
    if content is None and role not in ("assistant", "function"):
        raise _breach(f"{path}.content", f"a {role} message needs content", "write a string or an array of parts")
    instead = ("tool_calls", "function_call", "refusal", "audio")
    if content is None and role == "assistant" and not any(message.get(key) for key in instead):
        raise _breach(f"{path}.content", "null content without tool_calls", "write content or tool_calls")
    if isinstance(content, dict):
        raise _breach(f"{path}.content", "content is an object", "write a string or an array of parts")
    for index, part in enumerate(content if isinstance(content, list) else []):
        _check_part(part, f"{path}.content[{index}]")


def _check_part(part: Any, path: str) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in OPENAI_PARTS:
        raise _breach(path, f"unknown part type {shorten(repr(kind))}", f"use one of {', '.join(OPENAI_PARTS)}")
    if kind != "input_audio" and kind not in part:
        raise _breach(child_path(path, kind), f"a {kind} part needs the field {kind}", f"add {kind}")
    if kind == "input_audio" and not isinstance(part.get(kind), dict):
        raise _breach(child_path(path, kind), "an input_audio part needs an object", "add input_audio")
    if kind == "text" and not isinstance(part["text"], str):
        raise _breach(f"{path}.text", "text is not a string", "write a string")


def _check_calls(message: dict[str, Any], path: str) -> dict[str, str]:
    calls = message.get("tool_calls")
    if calls is None:
        return {}
    if message["role"] != "assistant":
        raise _breach(f"{path}.tool_calls", "only assistant messages call tools", "remove tool_calls")
    if not calls:
        raise _breach(f"{path}.tool_calls", "tool_calls is empty", "remove tool_calls")
    ids: dict[str, str] = {}
    for index, call in enumerate(calls):
        place = f"{path}.tool_calls[{index}]"
        _check_call(call, place)
        if call["id"] in ids:
            raise _breach(
                f"{place}.id", f"the id {shorten(repr(call['id']))} is used twice", "give each call its own id"
            )
        ids[call["id"]] = place
    return ids


def _check_call(call: dict[str, Any], path: str) -> None:
    if not call.get("id"):
        raise _breach(f"{path}.id", "a tool call needs an id", "add id")
    if call.get("type") != "function":
        raise _breach(f"{path}.type", f"the type is {shorten(repr(call.get('type')))}", 'write "type": "function"')
    function = call.get("function") or {}
    if not function.get("name"):
        raise _breach(f"{path}.function.name", "a tool call needs a function name", "add name")
    place, arguments = f"{path}.function.arguments", function.get("arguments")
    if not isinstance(arguments, str):
        raise _breach(place, "arguments must be a string that holds a JSON object", "quote the object as JSON text")
    if not isinstance(loads_arguments(arguments, place), dict):
        raise _breach(place, "arguments hold JSON that is not an object", "write a JSON object")


def loads_arguments(text: str, path: str) -> Any:
    """Read the JSON text of a tool call's arguments strictly; errors carry the path of the field."""
    if not text.strip():
        raise _breach(path, "arguments are empty", 'write "{}" for no arguments')
    return _arguments_value(text, path)


def _answer(message: dict[str, Any], path: str, pending: dict[str, str]) -> None:
    call_id = message.get("tool_call_id")
    if not call_id:
        raise _breach(f"{path}.tool_call_id", "a tool message needs a tool_call_id", "add the id of its call")
    if call_id not in pending:
        message_ = f"no open call of the assistant turn before it has the id {shorten(repr(call_id))}"
        raise _breach(f"{path}.tool_call_id", message_, "copy the id of the call that it answers")
    del pending[call_id]


def _check_openai_tools(tools: list[Any]) -> None:
    for index, tool in enumerate(tools):
        path = f"tools[{index}]"
        if tool.get("type") != "function":
            raise _breach(f"{path}.type", f"the type is {shorten(repr(tool.get('type')))}", 'write "type": "function"')
        if not (tool.get("function") or {}).get("name"):
            raise _breach(f"{path}.function.name", "a tool needs a function name", "add name")
