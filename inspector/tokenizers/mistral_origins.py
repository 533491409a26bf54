"""Tell where the ids of a Mistral request came from, by watching which texts its encoder encodes.

The encoder is not changed and not imitated: each text it passes to its tokenizer is recorded, found again in the ids,
and compared with what the request's fields give when joined as the format joins them. A text that is not so composed
is `unknown`, never guessed.
"""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inspector.provenance import SegmentKind, plain
from inspector.tokenizers.bytetable import char_starts

if TYPE_CHECKING:
    from inspector.messages import Conversation


@dataclass(frozen=True, slots=True)
class Stretch:
    """One id with its origin. `field_start`: byte in that field's text, -1 where it is no copy; `assistant`: the model
    writes it."""

    id: int
    kind: SegmentKind
    path: str | None = None
    field_start: int = -1
    assistant: bool = False


class Call(NamedTuple):
    """A text that the encoder encoded, and the ids it got."""

    text: str
    ids: list[int]


class Watcher:
    """Stands in for the library's text tokenizer during one request, and keeps what was encoded."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode(self, s: str, bos: bool, eos: bool) -> list[int]:
        """Encode, and record."""
        ids = self._tokenizer.encode(s, bos=bos, eos=eos)
        self.calls.append(Call(s, list(ids)))
        return ids


class _Part(NamedTuple):
    """Characters of a text and the field they copy (path None: the format wrote them)."""

    text: str
    path: str | None
    owner: int = -1
    exact: bool = True
    kind: SegmentKind = SegmentKind.MESSAGE


def describe_calls(ids: list[int], calls: Sequence[Call], conversation: Conversation, tokenizer: Any) -> list[Stretch]:
    """Give one Stretch an id."""
    reader = _Reader(conversation)
    special = {token.id for token in tokenizer.added_tokens if token.special}
    stretches: list[Stretch] = []
    for call in calls:
        at = _find(ids, call.ids, len(stretches), special)
        if at is None:
            return [*stretches, *(Stretch(i, SegmentKind.UNKNOWN) for i in ids[len(stretches) :])]
        stretches += _marks(ids[len(stretches) : at], tokenizer, stretches)
        mark = tokenizer.piece(ids[at - 1]) if at else ""
        parts = reader.parts(call.text, mark)
        stretches += _place(call, parts, tokenizer, reader)
    return [*stretches, *_marks(ids[len(stretches) :], tokenizer, stretches)]


def _find(ids: list[int], wanted: list[int], begin: int, special: set[int]) -> int | None:
    """Find where the ids of a call begin: only control ids may stand before them."""
    at = begin
    while ids[at : at + len(wanted)] != wanted:
        if at >= len(ids) or ids[at] not in special:
            return None
        at += 1
    return at


def _marks(ids: Sequence[int], tokenizer: Any, before: Sequence[Stretch]) -> list[Stretch]:
    """Describe control ids that the format wrote; an end mark after assistant content is the model's."""
    named = {tokenizer.special_token_ids.get("bos_token"), tokenizer.special_token_ids.get("eos_token")}
    made: list[Stretch] = []
    for token_id in ids:
        last = made[-1] if made else (before[-1] if before else None)
        ends = token_id == tokenizer.special_token_ids.get("eos_token") and last is not None and last.assistant
        kind = SegmentKind.SPECIAL if token_id in named else SegmentKind.TEMPLATE
        calls_tool = tokenizer.piece(token_id) in ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")
        made.append(Stretch(token_id, kind, assistant=ends or calls_tool))
    return made


def _place(call: Call, parts: list[_Part] | None, tokenizer: Any, reader: _Reader) -> Iterator[Stretch]:
    """Give each id of a call the origin of its first byte that a field wrote, or of its first byte."""
    raw = tokenizer.encode(call.text)
    if parts is None or raw.input_ids.tolist() != call.ids:
        yield from (Stretch(i, SegmentKind.UNKNOWN) for i in call.ids)
        return
    starts = char_starts(call.text)
    begins = list(itertools.accumulate((len(part.text) for part in parts), initial=0))
    edges = starts[np.array(begins, np.int64)].tolist()
    for token_id, start, end in zip(call.ids, raw.start.tolist(), raw.end.tolist()):
        number = _owner(parts, edges, start, max(end, start + 1))
        part = parts[number]
        kind = part.kind if part.path else SegmentKind.TEMPLATE
        copied = part.path is not None and part.exact and end > start
        offset = max(start - edges[number], 0) if copied else -1
        yield Stretch(token_id, kind, part.path, offset, reader.is_assistant(part.owner))


def _owner(parts: Sequence[_Part], edges: Sequence[int], start: int, end: int) -> int:
    """Choose among the parts that a token's bytes overlap: the first that a field wrote, else the first."""
    first = max(bisect.bisect_right(edges, start) - 1, 0)
    last = min(max(bisect.bisect_left(edges, end), first + 1), len(parts))
    overlapped = [n for n in range(first, last) if edges[n] < edges[n + 1]]
    return next((n for n in overlapped if parts[n].path), overlapped[0] if overlapped else min(first, len(parts) - 1))


_USER, _ASSISTANT, _SYSTEM, _TOOL = "user", "assistant", "system", "tool"
_TOOL_MARKS = ("[AVAILABLE_TOOLS]",)
_RESULT_MARKS = ("[TOOL_RESULTS]", "[TOOL_CONTENT]")
_CALL_MARKS = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")
_JOINS = ("\n\n", "")


class _Reader:
    """The request's fields in order, and how far the encoder has come."""

    def __init__(self, conversation: Conversation) -> None:
        self._messages: list[dict[str, Any]] = plain(conversation.messages)
        self._tools: list[Any] = plain(conversation.tools) or []
        self._roles = [_SYSTEM if m.get("role") == "developer" else m.get("role") for m in self._messages]
        numbered = list(enumerate(self._roles))
        self._runs = [
            (role, [i for i, _role in group]) for role, group in itertools.groupby(numbered, key=lambda pair: pair[1])
        ]
        self._run = self._system = self._result = self._caller = 0

    def is_assistant(self, owner: int) -> bool:
        """Say whether an assistant message owns the text."""
        return owner >= 0 and self._roles[owner] == _ASSISTANT

    def parts(self, text: str, mark: str) -> list[_Part] | None:
        """Say of which fields a text is composed; None if it is composed in no way that is known."""
        if mark in _TOOL_MARKS:
            return self._tool_list(text)
        if mark in _CALL_MARKS:
            return self._tool_call(text, mark)
        if mark in _RESULT_MARKS:
            return self._tool_result(text)
        if mark == "[SYSTEM_PROMPT]":
            return self._system_message(text)
        role = _USER if mark == "[INST]" or text.startswith("[INST] ") or mark.startswith("[IMG") else _ASSISTANT
        return self._message(text, role)

    def _fields(self, index: int) -> list[_Part]:
        """The text fields of one message's content."""
        content, path = self._messages[index].get("content"), f"messages[{index}].content"
        if isinstance(content, str):
            return [_Part(content, path, index)] if content else []
        parts = content if isinstance(content, list) else []
        return [
            _Part(part["text"], f"{path}[{number}].text", index)
            for number, part in enumerate(parts)
            if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]
        ]

    def _message(self, text: str, role: str) -> list[_Part] | None:
        for number in range(self._run, len(self._runs)):
            if self._runs[number][0] != role:
                continue
            fields = [field for index in self._runs[number][1] for field in self._fields(index)]
            whole = self._composed(text, fields)
            if whole is not None:
                self._run = number + 1
                return whole
            for field in fields:
                if field.text == text:
                    self._run = number
                    return [field]
        system = self._all_system()
        return _matching(text, [*system, _Part("\n\n", None)]) if system else None

    def _composed(self, text: str, fields: list[_Part]) -> list[_Part] | None:
        """Try the ways in which the formats join fields: with the system prompt in front, inside `[INST] … [/INST]`."""
        system = self._all_system()
        for join in _JOINS:
            joined = _joined(fields, join)
            for start in ([], [*system, _Part("\n\n", None)]) if system else ([],):
                body = [*start, *joined]
                for candidate in (body, [_Part("[INST] ", None), *body, _Part(" [/INST]", None)]):
                    found = _matching(text, candidate)
                    if found is not None:
                        return found
        return None

    def _all_system(self) -> list[_Part]:
        indexes = [i for i, role in enumerate(self._roles) if role == _SYSTEM]
        return _joined([field for i in indexes for field in self._fields(i)], "\n\n")

    def _system_message(self, text: str) -> list[_Part] | None:
        indexes = [i for i, role in enumerate(self._roles) if role == _SYSTEM]
        for number in range(self._system, len(indexes)):
            fields = self._fields(indexes[number])
            for candidate in (*(_joined(fields, join) for join in _JOINS), *([field] for field in fields)):
                if candidate and _matching(text, candidate):
                    self._system = number + (len(candidate) > 1 or len(fields) == 1)
                    return candidate
        return None

    def _tool_list(self, text: str) -> list[_Part] | None:
        """Cut a JSON list of tools into its elements."""
        spans = _elements(text)
        if spans is None or len(spans) != len(self._tools):
            return None
        return _cut(text, [(a, b, f"tools[{i}]", -1) for i, (a, b) in enumerate(spans)], SegmentKind.TOOL)

    def _tool_call(self, text: str, mark: str) -> list[_Part] | None:
        calls = [
            (index, number, call)
            for index, message in enumerate(self._messages)
            for number, call in enumerate(message.get("tool_calls") or ())
        ]
        spans = _elements(text) if mark == "[TOOL_CALLS]" else None
        names = [json.loads(text[a:b]).get("name") for a, b in spans] if spans else []
        for at in range(self._caller, len(calls)):
            group = calls[at : at + len(names)] if names else calls[at : at + 1]
            function = group[0][2].get("function") or {}
            if names and [entry[2].get("function", {}).get("name") for entry in group] == names:
                self._caller = at + len(names)
                rows = [(a, b, f"messages[{i}].tool_calls[{n}]", i) for (a, b), (i, n, _c) in zip(spans or (), group)]
                return _cut(text, rows, SegmentKind.MESSAGE)
            path = f"messages[{group[0][0]}].tool_calls[{group[0][1]}]"
            for key, value in (("function.name", function.get("name")), ("id", group[0][2].get("id"))):
                if not names and value == text:
                    self._caller = at
                    return [_Part(text, f"{path}.{key}", group[0][0])]
            if not names and mark == "[ARGS]":
                self._caller = at + 1
                return [_Part(text, f"{path}.function.arguments", group[0][0], exact=False)]
        return None

    def _tool_result(self, text: str) -> list[_Part] | None:
        indexes = [i for i, role in enumerate(self._roles) if role == _TOOL]
        for number in range(self._result, len(indexes)):
            index = indexes[number]
            if text == self._messages[index].get("tool_call_id"):
                self._result = number
                return [_Part(text, f"messages[{index}].tool_call_id", index)]
            for field in self._fields(index):
                for spelling in dict.fromkeys(
                    (field.text, _normal_json(field.text), json.dumps(field.text, ensure_ascii=False)[1:-1])
                ):
                    at = text.find(spelling)
                    if at >= 0:
                        self._result = number + 1
                        exact = spelling == field.text
                        piece = _Part(spelling, field.path, index, exact)
                        return [_Part(text[:at], None), piece, _Part(text[at + len(spelling) :], None)]
        return None


def _joined(fields: Sequence[_Part], join: str) -> list[_Part]:
    made: list[_Part] = []
    for field in fields:
        made += [_Part(join, None), field] if made and join else [field]
    return made


def _matching(text: str, parts: list[_Part]) -> list[_Part] | None:
    """Give the parts if they spell the text, also where the format cut spaces off the end."""
    whole = "".join(part.text for part in parts)
    if whole == text:
        return parts
    if parts and whole.rstrip(" ") == text:
        lost = len(whole) - len(text)
        kept = parts[-1].text[: len(parts[-1].text) - lost]
        return [*parts[:-1], parts[-1]._replace(text=kept)] if lost <= len(parts[-1].text) else None
    return None


def _elements(text: str) -> list[tuple[int, int]] | None:
    """Find where the elements of a JSON list stand in its text."""
    decoder, spans, at = json.JSONDecoder(), [], 1
    if not text.startswith("["):
        return None
    try:
        while text[at : at + 1] not in ("]", ""):
            _value, end = decoder.raw_decode(text, at)
            spans.append((at, end))
            at = end + len(text[end:]) - len(text[end:].lstrip(", "))
    except ValueError:
        return None
    return spans


def _cut(text: str, rows: Sequence[tuple[int, int, str, int]], kind: SegmentKind) -> list[_Part]:
    parts, at = [], 0
    for start, end, path, owner in rows:
        parts += [_Part(text[at:start], None), _Part(text[start:end], path, owner, False, kind)]
        at = end
    return [*parts, _Part(text[at:], None)]


def _normal_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
