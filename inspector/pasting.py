"""What a person pastes into the messages editor, recognised and turned into what the four editors hold.

Read are JSON and JSON5, JSON Lines, Python literals and calls, curl commands, log lines of servers; in any of them an
OpenAI-style, Anthropic or Gemini body, a ShareGPT, Alpaca or prompt row, a bare message or a list of messages. Plain JSON messages are never touched, nor is text
that is none of these. Nothing is dropped without a note. Nothing is run, and nothing here fetches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.json5text import as_strict
from inspector.jsontext import child_path, dumps, line_and_column, loads
from inspector.logline import read_log
from inspector.messages import RESERVED_ARGUMENTS
from inspector.pythontext import read_python
from inspector.request import RequestLimits
from inspector.traffic import Note, alpaca, gemini, is_alpaca, is_gemini, is_prompt, prompt

# How it was written, and what it was; the page has a name for each.
FORMS = ("json", "json5", "jsonl", "python", "call", "curl", "log")
SHAPES = ("messages", "message", "openai", "anthropic", "sharegpt", "template", "gemini", "alpaca", "prompt")


@dataclass(frozen=True, slots=True)
class Pasted:
    """A recognised text: how it was written, what it was, the editors' texts, and what was done to get there."""

    form: str
    shape: str
    fields: dict[str, str]
    notes: tuple[Note, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON value that the page reads."""
        notes = [{"what": note.what, "name": note.name, "to": note.to} for note in self.notes]
        return {"form": self.form, "shape": self.shape, "fields": self.fields, "notes": notes}


def recognise(text: str, *, limits: RequestLimits | None = None) -> Pasted | None:
    """Recognise a pasted text; None for one that is to stay as it is.

    Errors: InputTooLarge; InputInvalid for a text of a known form whose body cannot be read.

    >>> recognise('{"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": []}').fields["tools"]
    '[]'
    >>> recognise('[{"role": "user", "content": "hi"}]') is None
    True
    """
    limits = limits or RequestLimits()
    _check_size(text, limits)
    text = text.removeprefix("\ufeff")
    for read in (_from_curl, _from_json, _from_lines, _from_log, _from_python):
        found = read(text, limits)
        if found is _PLAIN:
            return None
        if found is not None:
            shape = _shape_of(found)
            if shape is not None:
                return shape.pasted(found.form, limits)
            if found.form in ("curl", "call"):
                raise _error("the body holds no messages", 'give it messages: [{"role": …, "content": …}]')
            return None
    return None


def as_request(data: bytes, *, limits: RequestLimits | None = None) -> tuple[bytes, Pasted | None]:
    """Give a file's bytes as a request, and how they were recognised; None and the same bytes for one that is a request
    already, or nothing that is known. JSON5 and Python literals are left to the strict parser and its error.

    Errors: InputTooLarge; InputInvalid for a curl command or a log line whose body cannot be read.

    >>> as_request(b'{"instruction": "Add.", "input": "1, 2", "output": "3"}')[0]
    b'{"messages": [\\n  {\\n    "role": "user",\\n    "content": "Add.\\\\n\\\\n1, 2"\\n  },\\n  {\\n    "role": "assistant",\\n    "content": "3"\\n  }\\n]}'
    """
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"[" and b'"role"' in start:
        return data, None
    if start[:1] == b"{" and b'"messages"' in data and not any(mark in data for mark in _NOT_PLAIN):
        return data, None
    try:
        text = data.decode("utf-8")
        found = recognise(text, limits=limits)
    except UnicodeDecodeError:
        return data, None
    except InspectorError:
        if start[:1] in (b"[", b"{") or not re.match(rb"(?:[$>%] )?curl\s|.*(?:prompt|request)", start):
            return data, None  # the strict parser says what is wrong and where
        raise
    if found is None or found.form in ("json5", "python") or (found.form == "json" and found.shape in _STRICT):
        return data, None
    names = {"arguments": "chat_template_kwargs"}
    fields = ", ".join(f'"{names.get(name, name)}": {text}' for name, text in found.fields.items())
    return f"{{{fields}}}".encode("utf-8", "surrogatepass"), found


def row_fields(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Give the shape of a row of a dataset, and messages, tools, documents and arguments as far as it has them; None for
    one that is no conversation.

    >>> row_fields({"prompt": "2 + 2?", "completion": "4"})[1]["messages"][1]
    {'role': 'assistant', 'content': '4'}
    """
    shape = _shape_of(_Found("json", value))
    return None if shape is None else (shape.name, shape.fields)


def is_plain_row(value: Any) -> bool:
    """Say whether a row is read by the strict parser as it stands: an object with messages, none of Anthropic's."""
    return isinstance(value, dict) and _is_messages(value.get("messages")) and not _is_anthropic(value)


_STRICT = ("messages", "openai")  # what the strict parser reads itself
_NOT_PLAIN = (b'"system"', b'"input_schema"', b'"tool_use"', b'"tool_result"', b'"anthropic_version"', b'"source"', b'"body"', b"\n{")  # fmt: skip


@dataclass(slots=True)
class _Found:
    """A value that was read, and the notes of its reading."""

    form: str
    value: Any
    notes: list[Note] = field(default_factory=list)


_PLAIN = _Found("", None)  # what is to stay as it is


def _check_size(text: str, limits: RequestLimits) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the pasted text has {size:,} bytes; the limit is {limits.max_bytes:,}",
            stage="request",
            where={"bytes": size, "limit": limits.max_bytes},
            remedy=f"paste at most {limits.max_bytes:,} bytes",
        )


def _error(message: str, remedy: str, where: dict[str, Any] | None = None) -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid, message, stage="request", where=where or {"field": "messages"}, remedy=remedy
    )


# --- forms -----------------------------------------------------------------------------------------------------------


def _read_json(text: str, limits: RequestLimits) -> tuple[str, Any]:
    """Read JSON, or else JSON5: which of them, and the value."""
    try:
        return "json", loads(text, limits=limits.json())
    except InspectorError:
        made = as_strict(text)
        if not made.found:
            raise
    place = lambda offset: line_and_column(text, made.source(offset))  # noqa: E731
    return "json5", loads(made.text, limits=limits.json(), place=place)


def _from_json(text: str, limits: RequestLimits) -> _Found | None:
    if text.lstrip()[:1] not in ("[", "{", "/"):
        return None
    try:
        form, value = _read_json(text, limits)
    except InspectorError:
        return None
    return _PLAIN if _is_messages(value) else _Found(form, value)


def _from_lines(text: str, limits: RequestLimits) -> _Found | None:
    """Read JSON Lines: messages, or one conversation a line, of which the first is taken."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) < 2 or not lines[0][1].lstrip().startswith("{"):
        return None
    try:
        if _shape_of(_Found("jsonl", [loads(lines[0][1], limits=limits.json())])) is None:
            return None
        rows = [loads(line, limits=limits.json()) for _number, line in lines]
    except InspectorError:
        return None
    return _Found("jsonl", rows) if all(isinstance(row, dict) for row in rows) else None


def _from_log(text: str, limits: RequestLimits) -> _Found | None:
    found = read_log(text, limits.json())
    return None if found is None else _Found("log", found.value, [Note("dropped", name) for name in found.dropped])


def _from_python(text: str, limits: RequestLimits) -> _Found | None:
    if not re.search(r"\bmessages\b|\brole\b|apply_chat_template|\bfrom\b", text) and text.lstrip()[:1] not in (
        "[",
        "{",
        "(",
    ):
        return None
    read = read_python(text, limits.max_depth)
    if read is None:
        return None
    notes = [Note("unread", name) for name in read.notes]
    if read.arguments is None:
        return _Found("python", read.value, notes)
    arguments = dict(read.arguments)
    if read.call.endswith("apply_chat_template"):
        return _Found("call", _template_call(arguments, read.positional, notes), notes)
    extra = arguments.pop("extra_body", None)
    return _Found("call" if read.call else "python", {**arguments, **(extra if isinstance(extra, dict) else {})}, notes)


def _template_call(arguments: dict[str, Any], positional: tuple[Any, ...], notes: list[Note]) -> dict[str, Any]:
    """Make a body of `apply_chat_template`'s arguments: what the library does not take itself is the template's."""
    conversation = arguments.pop("conversation", positional[0] if positional else [])
    body: dict[str, Any] = {"messages": conversation}
    kwargs: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in ("tools", "documents"):
            body[name] = value
        elif name in RESERVED_ARGUMENTS:
            notes.append(Note("dropped", name))
        else:
            kwargs[name] = value
    return {**body, **({"chat_template_kwargs": kwargs} if kwargs else {})}


_WORD = re.compile(
    r"""(?P<blank>(?:[ \t\r\n]|\\\r?\n)++)|(?P<plain>[^\s'"\\$|;&<>]++)|'(?P<single>[^']*+)'|\$'(?P<ansi>(?:[^'\\]|\\[\s\S])*+)'
    |"(?P<double>(?:[^"\\]|\\[\s\S])*+)"|\\(?P<escaped>[\s\S])|(?P<dollar>\$)|(?P<end>[|;&<>])""",
    re.VERBOSE,
)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ANSI_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|([\s\S]))")
_DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json")


def _from_curl(text: str, limits: RequestLimits) -> _Found | None:
    if not re.match(r"\s*(?:[$>%]\s+)?curl\s", text):
        return None
    words = list(_shell_words(text))
    bodies, dropped = _curl_data(words[words.index("curl") + 1 :])
    if not bodies:
        raise _error("the curl command has no body", "give it with -d '…' (a here-document or a file is not read)")
    if any(body.startswith("@") for body in bodies):
        raise _error("the body of the curl command is in a file", "paste the file's text itself")
    body = "&".join(bodies) if len(bodies) > 1 else bodies[0]
    try:
        _form, value = _read_json(body, limits)
    except InspectorError as error:
        where: dict[str, Any] = {name: error.where[name] for name in ("line", "column", "path") if name in error.where}
        raise _error(f"the body of the curl command: {error.message}", error.remedy, where | {"in": "body"}) from None
    return _Found("curl", value, [Note("dropped", name) for name in dropped])


def _shell_words(text: str) -> Iterator[str]:
    """Split the first command of a text into words as a POSIX shell does; variables stay as written."""
    position, word, begun = 0, list[str](), False
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise _error("the curl command has a quote that is never closed", "close the quote")
        kind, part = match.lastgroup, match[match.lastgroup or 0]
        if kind in ("blank", "end"):
            if begun:
                yield "".join(word)
            word, begun = [], False
            if kind == "end":
                return
        else:
            begun = True
            word.append(_unquoted(kind, part))
        position = match.end()
    if begun:
        yield "".join(word)


def _unquoted(kind: str | None, part: str) -> str:
    if kind == "double":
        return re.sub(r'\\(?:\r?\n|([$`"\\]))', lambda found: found[1] or "", part)
    if kind == "ansi":
        return _ANSI_ESCAPE.sub(_ansi, part)
    return part


def _ansi(found: re.Match[str]) -> str:
    digits = found[1] or found[2] or found[3]
    code = int(digits, 16) if digits else int(found[4], 8) if found[4] else None
    if code is None:
        return _ANSI.get(found[5], found[5])
    return chr(code) if code < 0x110000 else "\ufffd"


def _curl_data(words: list[str]) -> tuple[list[str], list[str]]:
    """Give the bodies of a curl command, and what else it says, without values: a header may hold a key."""
    bodies, dropped = [], []
    remaining = iter(words)
    for word in remaining:
        name, equals, rest = word.partition("=")
        if word in _DATA:
            bodies.append(next(remaining, ""))
        elif equals and name in _DATA:
            bodies.append(rest)
        elif word.startswith("-d") and not word.startswith("--"):
            bodies.append(word[2:])
        elif word in ("-H", "--header", "-X", "--request", "-u", "--user", "-o", "--output", "--url", "-A", "-b", "-e"):
            next(remaining, None)
            dropped.append({"-H": "headers", "--header": "headers", "--url": "URL"}.get(word, word))
        elif not word.startswith("-"):
            dropped.append("URL")
    return bodies, list(dict.fromkeys(dropped))


# --- shapes ----------------------------------------------------------------------------------------------------------


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)


def _is_turns(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(i, dict) and "from" in i and "value" in i for i in value)
    )


@dataclass(slots=True)
class _Shape:
    """A request on its way into the editors."""

    name: str
    fields: dict[str, Any]
    notes: list[Note]

    def pasted(self, form: str, limits: RequestLimits) -> Pasted:
        moved = [Note("moved", note_name, to) for to, note_name in (("messages", "messages"), ("tools", "tools"),
                 ("documents", "documents"), ("arguments", "chat_template_kwargs")) if to in self.fields]  # fmt: skip
        texts = {name: dumps(value, 2) for name, value in self.fields.items()}
        for text in texts.values():
            _check_size(text, limits)
        return Pasted(form, self.name, texts, tuple(dict.fromkeys([*moved, *self.notes])))


def _shape_of(found: _Found) -> _Shape | None:
    value, notes = found.value, list(found.notes)
    if isinstance(value, list) and value and not _is_messages(value) and not _is_turns(value):
        value = _first_row(value, notes)
    if isinstance(value, dict) and isinstance(value.get("body"), dict) and "messages" in value["body"]:
        notes += [Note("dropped", name) for name in value if name != "body"]  # a line of a batch file
        value = value["body"]
    if isinstance(value, dict) and isinstance(value.get("request"), dict) and is_gemini(value["request"]):
        notes += [Note("dropped", name) for name in value if name != "request"]  # a line of a Gemini batch
        value = value["request"]
    if _is_messages(value):
        return _Shape("messages", {"messages": value}, notes) if value else None
    if _is_turns(value):
        return _sharegpt({"conversations": value}, "conversations", notes)
    if not isinstance(value, dict):
        return None
    for name in ("conversations", "conversation"):
        if _is_turns(value.get(name)):
            return _sharegpt(value, name, notes)
        if "messages" not in value and value.get(name) and _is_messages(value[name]):
            value = {"messages": value[name], **{key: item for key, item in value.items() if key != name}}
    if isinstance(value.get("messages"), list) and _is_messages(value["messages"]):
        return _anthropic(value, notes) if _is_anthropic(value) else _openai(value, notes)
    if isinstance(value.get("role"), str) and len(value) > 1 and "parts" not in value:
        return _Shape("message", {"messages": [value]}, notes)
    for name, is_such, convert in _OTHERS:
        if is_such(value):
            return _Shape(name, convert(value, notes), notes)
    return None


_OTHERS = (("gemini", is_gemini, gemini), ("alpaca", is_alpaca, alpaca), ("prompt", is_prompt, prompt))


def _first_row(rows: list[Any], notes: list[Note]) -> Any:
    """Take the first of several conversations; the others are noted."""
    if not all(isinstance(row, dict) for row in rows):
        return None
    if len(rows) > 1:
        notes.append(Note("dropped", f"rows 2–{len(rows)}"))
    return rows[0]


def _openai(body: dict[str, Any], notes: list[Note]) -> _Shape:
    fields: dict[str, Any] = {"messages": body["messages"]}
    if isinstance(body.get("tools"), list):
        fields["tools"] = body["tools"]
    elif isinstance(body.get("functions"), list):
        fields["tools"] = [{"type": "function", "function": each} for each in body["functions"]]
        notes.append(Note("converted", "functions", "tools"))
    if isinstance(body.get("documents"), list):
        fields["documents"] = body["documents"]
    if isinstance(body.get("chat_template_kwargs"), dict):
        fields["arguments"] = body["chat_template_kwargs"]
    taken = {"messages", "functions", *(name for name in ("tools", "documents") if name in fields)}
    taken |= {"chat_template_kwargs"} if "arguments" in fields else set()
    notes += [Note("dropped", name) for name in body if name not in taken and body[name] is not None]
    return _Shape("messages" if body.keys() == {"messages"} else "openai", fields, notes)


# --- Anthropic -------------------------------------------------------------------------------------------------------

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def _is_anthropic(body: dict[str, Any]) -> bool:
    tools = body.get("tools")
    return (
        isinstance(body.get("system"), str | list)
        or "anthropic_version" in body
        or (isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools))
        or any(_kind(block) in _BLOCKS or _has_source(block) for m in body["messages"] for block in _blocks(m))
    )


def _blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _kind(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, dict) else ""


def _has_source(block: Any) -> bool:
    return _kind(block) == "image" and isinstance(block.get("source"), dict)


def _anthropic(body: dict[str, Any], notes: list[Note]) -> _Shape:
    messages: list[dict[str, Any]] = []
    system = body.get("system")
    if isinstance(system, str) or (isinstance(system, list) and system):
        messages.append({"role": "system", "content": _content(system, notes)})
        notes.append(Note("converted", "system", "messages[0]"))
    for message in body["messages"]:
        messages += _turn(message, notes)
    fields: dict[str, Any] = {"messages": messages}
    if isinstance(body.get("tools"), list):
        fields["tools"] = [made for tool in body["tools"] if (made := _anthropic_tool(tool, notes)) is not None]
    notes += [Note("dropped", name) for name in body if name not in ("system", "messages", *fields)]
    return _Shape("anthropic", fields, notes)


def _turn(message: dict[str, Any], notes: list[Note]) -> list[dict[str, Any]]:
    """Give one message as OpenAI-style messages: results of tools come first, each as a message of its own."""
    blocks = _blocks(message)
    if not any(_kind(block) in _BLOCKS for block in blocks):
        return [{**message, "content": _content(message.get("content"), notes)}]
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    results = [_result(block, notes) for block in blocks if _kind(block) == "tool_result"]
    calls = [_call(block) for block in blocks if _kind(block) == "tool_use"]
    thoughts = [str(block.get("thinking", "")) for block in blocks if _kind(block) == "thinking"]
    if calls:
        notes.append(Note("converted", "tool_use", "tool_calls"))
    if results:
        notes.append(Note("converted", "tool_result", "role tool"))
    if thoughts:
        notes.append(Note("converted", "thinking", "reasoning_content"))
        notes += (
            [Note("dropped", "signature")] if any("signature" in b for b in blocks if _kind(b) == "thinking") else []
        )
    if any(_kind(block) == "redacted_thinking" for block in blocks):
        notes.append(Note("dropped", "redacted_thinking"))
    others = [block for block in blocks if _kind(block) not in _BLOCKS]
    if results and not (others or calls or thoughts):
        return results
    turn = {"role": message["role"], "content": _content(others, notes) if others else "", **rest}
    if thoughts:
        turn["reasoning_content"] = "\n".join(thoughts)
    return [*results, {**turn, **({"tool_calls": calls} if calls else {})}]


def _content(content: Any, notes: list[Note]) -> Any:
    """Give a content's blocks as parts; a single text block as its text."""
    if not isinstance(content, list):
        return content
    parts = [_part(block, notes) for block in content]
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}:
        return parts[0]["text"]
    return parts


def _part(block: Any, notes: list[Note]) -> Any:
    if not isinstance(block, dict):
        return block
    if "cache_control" in block:
        notes.append(Note("dropped", "cache_control"))
        block = {key: value for key, value in block.items() if key != "cache_control"}
    if not _has_source(block):
        return block
    source = block["source"]
    notes.append(Note("converted", "image", "image_url"))
    url = source.get("url") or f"data:{source.get('media_type', '')};base64,{source.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _call(block: dict[str, Any]) -> dict[str, Any]:
    function = {"name": block.get("name", ""), "arguments": block.get("input", {})}
    return {"id": block.get("id", ""), "type": "function", "function": function}


def _result(block: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    notes += [
        Note("dropped", name) for name in block if name not in ("type", "tool_use_id", "content", "cache_control")
    ]
    content = _content(block.get("content", ""), notes)
    return {"role": "tool", "tool_call_id": block.get("tool_use_id", ""), "content": content}


def _anthropic_tool(tool: Any, notes: list[Note]) -> Any:
    if not isinstance(tool, dict) or "input_schema" not in tool:
        named = tool.get("name") if isinstance(tool, dict) else None
        notes.append(Note("dropped", f"tools: {str(named)[:40]}"))
        return None
    notes.append(Note("converted", "input_schema", "parameters"))
    notes += [Note("dropped", name) for name in tool if name not in ("name", "description", "input_schema", "type")]
    function = {key: tool[key] for key in ("name", "description") if key in tool}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}


# --- ShareGPT --------------------------------------------------------------------------------------------------------

_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
          "model": "assistant", "bing": "assistant", "bard": "assistant", "system": "system", "tool": "tool",
          "observation": "tool", "function_response": "tool", "function_call": "assistant", "tool_call": "assistant"}  # fmt: skip


def _sharegpt(row: dict[str, Any], name: str, notes: list[Note]) -> _Shape:
    notes += [Note("converted", "from", "role"), Note("converted", "value", "content")]
    turns = [_sharegpt_turn(turn, notes) for turn in row[name]]
    system = row.get("system")
    if isinstance(system, str) and system:
        turns.insert(0, {"role": "system", "content": system})
        notes.append(Note("converted", "system", "messages[0]"))
    fields: dict[str, Any] = {"messages": turns}
    tools = _json_or_none(row.get("tools"))
    if isinstance(tools, list):
        fields["tools"] = [tool if isinstance(tool, dict) and "function" in tool else
                           {"type": "function", "function": tool} for tool in tools]  # fmt: skip
    notes += [Note("dropped", key) for key in row if key not in (name, *fields) and not (key == "system" and system)]
    return _Shape("sharegpt", fields, notes)


def _sharegpt_turn(turn: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    said, value = str(turn["from"]), turn["value"]
    rest = {key: item for key, item in turn.items() if key not in ("from", "value")}
    role = _ROLES.get(said.lower())
    if role is None:
        notes.append(Note("unread", child_path("from", said[:40])))
    if said.lower() in ("function_call", "tool_call"):
        call = _json_or_none(value)
        if isinstance(call, dict) and "name" in call:
            notes.append(Note("converted", said, "tool_calls"))
            function = {"name": call["name"], "arguments": call.get("arguments", {})}
            return {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"type": "function", "function": function}],
                **rest,
            }
    return {"role": role or said, "content": value, **rest}


def _json_or_none(value: Any) -> Any:
    """Read a string that holds JSON; a value that is none is itself."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except InspectorError:
        return None
