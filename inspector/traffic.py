"""Requests and rows of other kinds as OpenAI-style messages: Gemini bodies, Alpaca rows, prompt/completion rows, and
prompts that a template has rendered already.

Each function gives the editors' values and adds what it did to `notes`; what has no place in a request is dropped with a
note, never silently. No template is guessed: a rendered prompt is cut into turns only where its whole text has one of
the known layouts, else it stays one text. Reading JSON, Python and log lines is done elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import dumps


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was done: `what` is moved, converted, dropped or unread; `name` what it was done to, `to` its new
    place or form."""

    what: str
    name: str
    to: str = ""


Fields = dict[str, Any]


# --- Gemini ----------------------------------------------------------------------------------------------------------

_CAMEL = re.compile(r"_([a-z])")
_TYPES = ("OBJECT", "STRING", "INTEGER", "NUMBER", "BOOLEAN", "ARRAY", "NULL", "TYPE_UNSPECIFIED")


def is_gemini(body: dict[str, Any]) -> bool:
    """Say whether a body is one of Gemini's: contents with parts, or contents beside what only Gemini names so."""
    contents = body.get("contents")
    rows = contents if isinstance(contents, list) else [contents]
    if "contents" not in body or "messages" in body or not rows:
        return False
    beside = {_camel(name) for name in body} & {"systemInstruction", "generationConfig", "safetySettings", "toolConfig"}
    return any(isinstance(row, dict) and isinstance(row.get("parts"), list | dict) for row in rows) or (
        bool(beside) and all(isinstance(row, str) for row in rows)
    )


def gemini(body: dict[str, Any], notes: list[Note]) -> Fields:
    """Convert a body of `generateContent`, keys in camelCase or snake_case."""
    body = {_camel(name): value for name, value in body.items()}
    messages: list[dict[str, Any]] = []
    system = body.get("systemInstruction")
    if system:
        messages.append({"role": "system", "content": _text_or_parts(_parts(system), notes)})
        notes.append(Note("converted", "systemInstruction", "messages[0]"))
    contents = body["contents"]
    notes.append(Note("converted", "contents", "messages"))
    for row in contents if isinstance(contents, list) else [contents]:
        messages += _gemini_turn(row, notes)
    fields: Fields = {"messages": messages}
    if isinstance(body.get("tools"), list):
        fields["tools"] = [made for tool in body["tools"] for made in _gemini_tools(tool, notes)]
    notes += [Note("dropped", name) for name in body if name not in ("contents", "systemInstruction", *fields)]
    return fields


def _camel(name: str) -> str:
    return _CAMEL.sub(lambda found: found[1].upper(), name)


def _parts(row: Any) -> list[dict[str, Any]]:
    """Give a content's parts with camelCase keys; a string is one text."""
    if isinstance(row, dict):
        row = row.get("parts", [row] if "text" in row else [])
    rows = row if isinstance(row, list) else [row]
    return [
        {_camel(name): value for name, value in part.items()} if isinstance(part, dict) else {"text": part}
        for part in rows
    ]


_GEMINI_ROLES = {"model": "assistant", "function": "tool"}


def _gemini_turn(row: Any, notes: list[Note]) -> list[dict[str, Any]]:
    """Give one content as messages: results of functions come first, each as a message of its own."""
    parts = _parts(row)
    said = row.get("role", "user") if isinstance(row, dict) else "user"
    if said == "model":
        notes.append(Note("converted", "role model", "role assistant"))
    results = [_gemini_result(part["functionResponse"], notes) for part in parts if "functionResponse" in part]
    calls = [_gemini_call(part["functionCall"], notes) for part in parts if "functionCall" in part]
    thoughts = [str(part.get("text", "")) for part in parts if part.get("thought") is True]
    notes += [Note("dropped", "thoughtSignature") for part in parts if "thoughtSignature" in part]
    if thoughts:
        notes.append(Note("converted", "thought", "reasoning_content"))
    others = [
        part
        for part in parts
        if not {"functionResponse", "functionCall"} & part.keys() and part.get("thought") is not True
    ]
    if results and not (others or calls or thoughts):
        return results
    turn: dict[str, Any] = {"role": _GEMINI_ROLES.get(said, said) if isinstance(said, str) else said}
    turn["content"] = _text_or_parts(others, notes) if others else ""
    if thoughts:
        turn["reasoning_content"] = "\n".join(thoughts)
    return [*results, {**turn, **({"tool_calls": calls} if calls else {})}]


def _text_or_parts(parts: list[dict[str, Any]], notes: list[Note]) -> Any:
    """Give parts as content: one text as text, several as parts."""
    made = [_gemini_part(part, notes) for part in parts]
    if len(made) == 1 and made[0].keys() == {"type", "text"}:
        return made[0]["text"]
    return made


def _gemini_part(part: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        notes += [Note("dropped", name) for name in part if name not in ("text", "type", "thought", "thoughtSignature")]
        return {"type": "text", "text": part["text"]}
    for name in ("inlineData", "fileData"):
        source = part.get(name)
        if isinstance(source, dict):
            source = {_camel(key): value for key, value in source.items()}
            kind = str(source.get("mimeType", ""))
            url = source.get("fileUri") or f"data:{kind};base64,{source.get('data', '')}"
            made = {"image": "image_url", "audio": "audio_url", "video": "video_url"}.get(kind.partition("/")[0])
            notes.append(Note("converted", name, made or "file"))
            return {"type": made, made: {"url": url}} if made else {"type": "file", "file": {"file_id": url}}
    notes.append(Note("unread", f"part {', '.join(part)[:40]}"))
    return part


def _gemini_call(call: Any, notes: list[Note]) -> dict[str, Any]:
    call = call if isinstance(call, dict) else {}
    notes.append(Note("converted", "functionCall", "tool_calls"))
    function = {"name": call.get("name", ""), "arguments": call.get("args", {})}
    return {**({"id": call["id"]} if call.get("id") else {}), "type": "function", "function": function}


def _gemini_result(result: Any, notes: list[Note]) -> dict[str, Any]:
    result = result if isinstance(result, dict) else {}
    notes.append(Note("converted", "functionResponse", "role tool"))
    message: dict[str, Any] = {"role": "tool", "name": result.get("name", "")}
    if result.get("id"):
        message["tool_call_id"] = result["id"]
    return {**message, "content": dumps(result.get("response", {}))}


def _gemini_tools(tool: Any, notes: list[Note]) -> list[dict[str, Any]]:
    tool = {_camel(name): value for name, value in tool.items()} if isinstance(tool, dict) else {}
    rows = tool.get("functionDeclarations")
    notes += [Note("dropped", f"tools: {name}") for name in tool if name != "functionDeclarations"]
    if not isinstance(rows, list):
        return []
    notes.append(Note("converted", "functionDeclarations", "tools"))
    return [{"type": "function", "function": _declared(row, notes)} for row in rows if isinstance(row, dict)]


def _declared(row: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    row = {_camel(name): value for name, value in row.items()}
    function: dict[str, Any] = {name: row[name] for name in ("name", "description") if name in row}
    schema = row.get("parametersJsonSchema", row.get("parameters"))
    notes += [
        Note("dropped", name)
        for name in row
        if name not in ("name", "description", "parameters", "parametersJsonSchema")
    ]
    return function if schema is None else {**function, "parameters": _json_schema(schema, notes)}


def _json_schema(schema: Any, notes: list[Note]) -> Any:
    """Spell the types of OpenAPI's schemas as JSON Schema does; a property may be named "type" itself."""
    if isinstance(schema, list):
        return [_json_schema(item, notes) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "type" and isinstance(value, str) and value in _TYPES:
            notes.append(Note("converted", f"type {value}", value.lower()))
            made[name] = value.lower()
        elif name in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            made[name] = {key: _json_schema(item, notes) for key, item in value.items()}
        elif name in ("enum", "const", "default", "example", "examples", "required"):
            made[name] = value
        else:
            made[name] = _json_schema(value, notes)
    return made


# --- rows of data sets -----------------------------------------------------------------------------------------------


def is_alpaca(row: dict[str, Any]) -> bool:
    """Say whether a row has an instruction, and an output or an input."""
    return isinstance(row.get("instruction"), str) and any(
        isinstance(row.get(name), str) for name in ("output", "input", "response")
    )


def alpaca(row: dict[str, Any], notes: list[Note]) -> Fields:
    """Convert an Alpaca row. Instruction and input become one message, a blank line between; there is no one rule for
    that among trainers, so it is said."""
    messages: list[dict[str, Any]] = []
    used = {"instruction"}
    if isinstance(row.get("system"), str) and row["system"]:
        messages.append({"role": "system", "content": row["system"]})
        used.add("system")
    pairs = row.get("history")
    if isinstance(pairs, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        used.add("history")
        if pairs:
            notes.append(Note("converted", "history", "messages"))
        for question, answer in pairs:
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    more = row.get("input")
    used |= {"input"} if isinstance(more, str) else set()
    asked = f"{row['instruction']}\n\n{more}" if isinstance(more, str) and more else row["instruction"]
    name = "instruction, a blank line, input" if isinstance(more, str) and more else "instruction"
    notes.append(Note("converted", name, f"messages[{len(messages)}].content"))
    messages.append({"role": "user", "content": asked})
    answer = next((key for key in ("output", "response") if isinstance(row.get(key), str)), None)
    if answer is not None:
        used.add(answer)
        if row[answer]:
            notes.append(Note("converted", answer, "role assistant"))
            messages.append({"role": "assistant", "content": row[answer]})
    notes += [Note("dropped", key) for key in row if key not in used]
    return {"messages": messages}


# --- prompts ---------------------------------------------------------------------------------------------------------

_BESIDE_PROMPT = ("model", "max_tokens", "n_predict", "temperature", "completion", "chosen", "prompt_token_ids",
                  "sampling_params", "stream", "stop", "logprobs", "echo")  # fmt: skip


def is_prompt(body: dict[str, Any]) -> bool:
    """Say whether a value is a completion's body or a prompt/completion row."""
    prompt = body.get("prompt")
    if isinstance(prompt, str) or _are_messages(prompt) or _are_ids(prompt):
        return any(name in body for name in _BESIDE_PROMPT)
    return prompt is None and _are_ids(body.get("prompt_token_ids"))


def _are_messages(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) and "role" in row for row in value)


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, int) for row in value)


def prompt(body: dict[str, Any], notes: list[Note]) -> Fields:
    """Convert a prompt and what follows it. Errors: InputInvalid for token ids without their text."""
    given = body.get("prompt")
    if not isinstance(given, str) and not _are_messages(given):
        raise InspectorError(
            ErrorKind.InputInvalid,
            "the prompt is token ids only: messages cannot be had from them",
            stage="request",
            where={"field": "messages"},
            remedy="look at the ids with the command decode, or log the prompt's text",
        )
    messages: list[dict[str, Any]] = _messages_of(given, notes) if isinstance(given, str) else list(given)
    used = {"prompt"}
    for name in ("completion", "chosen"):
        answer = body.get(name)
        if isinstance(answer, str) or _are_messages(answer):
            notes.append(Note("converted", name, "role assistant"))
            messages += [{"role": "assistant", "content": answer}] if isinstance(answer, str) else list(answer)
            used.add(name)
            break
    fields: Fields = {"messages": messages}
    if isinstance(body.get("tools"), list):
        fields["tools"] = body["tools"]
    notes += [Note("dropped", name) for name in body if name not in {*used, *fields} and body[name] is not None]
    return fields


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a family of templates writes turns. `turn` matches one, `opened` the start of an answer; named groups."""

    name: str
    begin: re.Pattern[str]
    turn: re.Pattern[str]
    opened: re.Pattern[str]
    roles: Callable[[str], str]


def _layout(name: str, begin: str, head: str, end: str, tail: str, model: str = "assistant") -> _Layout:
    turn = re.compile(f"{head}(?P<text>(?:(?!{end})[\\s\\S])*+){end}{tail}")
    return _Layout(name, re.compile(begin), turn, re.compile(head), lambda role: "assistant" if role == model else role)


_LAYOUTS = (
    _layout("ChatML", r"(?:<\|endoftext\|>)?", r"<\|im_start\|>(?P<role>\w{1,32})\n", r"<\|im_end\|>", r"\n?"),
    _layout("Llama 3", r"(?:<\|begin_of_text\|>)?", r"<\|start_header_id\|>(?P<role>\w{1,32})<\|end_header_id\|>\n\n",
            r"<\|eot_id\|>", ""),
    _layout("Gemma", r"(?:<bos>)?", r"<start_of_turn>(?P<role>\w{1,32})\n", r"<end_of_turn>", r"\n?", "model"),
    _layout("Phi", "", r"<\|(?P<role>system|user|assistant|tool)\|>\n?", r"<\|end\|>", r"\n?"),
)  # fmt: skip


def turns_of(text: str) -> tuple[str, list[dict[str, str]], str | None] | None:
    """Cut a rendered prompt into turns: the layout's name, the messages, and the role of an answer that was opened.

    None unless the whole text is turns of one layout.

    >>> turns_of("<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n")
    ('ChatML', [{'role': 'user', 'content': 'hi'}], 'assistant')
    """
    for layout in _LAYOUTS:
        begun = layout.begin.match(text)
        at, messages = begun.end() if begun else 0, list[dict[str, str]]()
        while (found := layout.turn.match(text, at)) is not None:
            messages.append({"role": layout.roles(found["role"]), "content": found["text"]})
            at = found.end()
        opened = layout.opened.fullmatch(text, at)
        if messages and (at == len(text) or opened is not None):
            return layout.name, messages, layout.roles(opened["role"]) if opened else None
    return None


def _messages_of(text: str, notes: list[Note]) -> list[dict[str, Any]]:
    found = turns_of(text)
    if found is None:
        notes.append(Note("converted", "prompt", "messages[0].content: choose the template raw"))
        return [{"role": "user", "content": text}]
    name, turns, opened = found
    messages: list[dict[str, Any]] = [*turns]
    notes.append(Note("converted", f"prompt, {len(messages)} turns of {name}", "messages"))
    if opened is not None:
        notes.append(Note("dropped", f"generation prompt of {opened}"))
    return messages
