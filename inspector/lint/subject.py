"""What rules look at: one inspection, its probes, and indexes over who wrote what.

Everything is computed when it is first asked for, and once.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from inspector.encode import NO_SEGMENT, Encoding, TokenFlag
from inspector.lint.evidence import Evidence
from inspector.lint.probes import Outcome, Probes
from inspector.provenance import SegmentKind
from inspector.templatefacts import TemplateFacts, template_facts
from inspector.tokenizers.file_facts import Fact, remarks

if TYPE_CHECKING:
    from inspector.lint.capabilities import Card
    from inspector.pipeline import Inspection
    from inspector.render import Rendered
    from inspector.tokenizers.base import Tokenizer
    from inspector.vocabularies import VocabularySizes

_STEP = re.compile(r"[.\[]")
_MESSAGE = re.compile(r"messages\[(\d+)\]")
MAX_TURNS = 6  # of a long chat, the last ones are probed
TEMPLATE_KINDS = (int(SegmentKind.TEMPLATE), int(SegmentKind.SPECIAL))


class Subject:
    """One inspection under the eyes of the rules."""

    def __init__(self, inspection: Inspection, evidence: Evidence | None = None, probes: Probes | None = None) -> None:
        self.inspection = inspection
        self.evidence = evidence or Evidence()
        self.probes = probes or Probes(inspection)
        self.options, self.error = inspection.options, inspection.error
        self.tokenizer, self.template = inspection.tokenizer, inspection.template
        self.rendered, self.encoding = inspection.rendered, inspection.encoding
        rendered, request, conversation = inspection.rendered, inspection.request, inspection.conversation
        self.utf8: bytes = rendered.utf8 if rendered is not None else b""
        # Messages and tools as given; the template arguments that are passed.
        self.messages: list[dict[str, Any]] = request.messages if request is not None else []
        self.tools: list[Any] = (request.tools or []) if request is not None else []
        self.arguments: dict[str, Any] = conversation.kwargs if conversation is not None else {}
        # Every byte of the prompt has a known writer.
        self.traced = rendered is not None and rendered.kind == "bytes" and rendered.provenance == "traced"

    # --- what is there --------------------------------------------------------------------------------------------

    @property
    def chosen_template(self) -> bool:
        """The template was named or pasted, not the tokenizer's own."""
        return self.options.template is not None or self.options.template_text is not None

    @functools.cached_property
    def facts(self) -> TemplateFacts:
        """What is written in the template."""
        return template_facts(self.template.text) if self.template is not None else TemplateFacts(False)

    @functools.cached_property
    def card(self) -> Card:
        """What the template can do."""
        from inspector.lint.capabilities import capabilities

        return capabilities(self)

    # --- who wrote what -------------------------------------------------------------------------------------------

    @functools.cached_property
    def rows_of(self) -> dict[str, list[int]]:
        """Segment rows by path; what is derived from several fields is listed under each."""
        if self.rendered is None:
            return {}
        segments = self.rendered.segments
        listed: dict[str, list[int]] = {}
        for row, place in enumerate(segments.path.tolist()):
            if place >= 0:
                listed.setdefault(segments.paths[place], []).append(row)
        for path in [path for path in listed if ", " in path]:
            if segments.kind[listed[path][0]] == SegmentKind.DERIVED:
                for part in path.split(", "):
                    listed.setdefault(part, []).extend(listed[path])
        return listed

    @functools.cached_property
    def written(self) -> frozenset[str]:
        """Every path of which at least one byte is in the prompt, with all that hold it."""
        return written_of(self.rows_of)

    def covered(self, path: str) -> bool:
        """Say whether a field, or something inside it, is in the prompt."""
        return path in self.written

    def gone(self, path: str) -> bool:
        """Say whether the budget took this part of the request out: its absence is nobody's fault."""
        return bool(self._taken_out) and not self._taken_out.isdisjoint(written_of((path,)))

    @functools.cached_property
    def _taken_out(self) -> frozenset[str]:
        budget = self.inspection.budget
        if budget is None:
            return frozenset()
        return frozenset((*(entry.path for entry in budget.dropped), *(path for path, _tokens in budget.cut)))

    def written_bytes(self, path: str) -> int:
        """Count the bytes that come from a field and what is inside it."""
        if self.rendered is None:
            return 0
        segments = self.rendered.segments
        rows = {row for name, listed in self.rows_of.items() if _inside(name, path) for row in listed}
        return sum(int(segments.end[row] - segments.start[row]) for row in rows)

    def spans(self, path: str) -> list[tuple[int, int]]:
        """Give the byte ranges that come from a field."""
        if self.rendered is None:
            return []
        segments = self.rendered.segments
        return [(int(segments.start[row]), int(segments.end[row])) for row in sorted(set(self.rows_of.get(path, ())))]

    def kind_at(self, byte: int) -> int:
        """Give the kind of the segment that holds a byte; -1 outside."""
        if self.rendered is None or not 0 <= byte < len(self.utf8):
            return -1
        row = int(np.searchsorted(self.rendered.segments.start, byte, side="right")) - 1
        return int(self.rendered.segments.kind[row])

    def field_at(self, byte: int) -> str | None:
        """Give the field that wrote a byte, None for the template's own."""
        if self.rendered is None or not 0 <= byte < len(self.utf8):
            return None
        row = int(np.searchsorted(self.rendered.segments.start, byte, side="right")) - 1
        return self.rendered.segments.origin(row)[1]

    def line_at(self, byte: int) -> int | None:
        """Give the template line that wrote a byte."""
        return None if self.rendered is None else line_of(self.rendered, byte)

    @functools.cached_property
    def lost_messages(self) -> list[dict[str, Any] | None]:
        """Give each message whose content has text of which nothing is in the prompt; None for the others."""
        return [message if self._is_lost(index, message) else None for index, message in enumerate(self.messages)]

    def _is_lost(self, index: int, message: dict[str, Any]) -> bool:
        path = f"messages[{index}].content"
        if not self.traced or path in self.rows_of or self.covered(path):
            return False
        if not text_of(message.get("content")).strip():
            return False
        return not self.gone(path)

    def late_system(self, index: int) -> bool:
        """Say whether a message is a system message after another kind of message."""
        first = ("system", "developer")
        roles = [message.get("role") for message in self.messages[: index + 1]]
        return roles[-1] in first and any(role not in first for role in roles)

    @functools.cached_property
    def first_content(self) -> int:
        """Give the byte at which the first field of a message begins; the length where there is none."""
        if self.rendered is None:
            return 0
        segments = self.rendered.segments
        row = len(segments) - len(segments.kind.tobytes().lstrip(bytes(TEMPLATE_KINDS)))
        return int(segments.start[row]) if row < len(segments) else len(self.utf8)

    # --- tokens ---------------------------------------------------------------------------------------------------

    def special_id(self, name: str) -> int | None:
        """Give the id of a named special token, None where the tokenizer has none."""
        return None if self.tokenizer is None else self.tokenizer.special_token_ids.get(name)

    @functools.cached_property
    def ids(self) -> tuple[int, ...]:
        """The input ids."""
        return () if self.encoding is None else tuple(self.encoding.input_ids.tolist())

    @functools.cached_property
    def head(self) -> tuple[int, ...]:
        """The first two input ids."""
        return () if self.encoding is None else tuple(self.encoding.input_ids[:2].tolist())

    @functools.cached_property
    def forged(self) -> dict[str, list[int]]:
        """Tokens that control and were written wholly by content, by the field that wrote them."""
        listed: dict[str, list[int]] = {}
        for index in self.flagged(TokenFlag.FROM_CONTENT):
            if not int(self.encoding.flags[index]) & TokenFlag.CROSSES_SEGMENT and self._spells(index):  # type: ignore[union-attr]
                listed.setdefault(self.path_at(index) or "", []).append(index)
        return listed

    def _spells(self, index: int) -> bool:
        """The text spells the control token; the unknown token also stands for what cannot be spelled."""
        encoding = self.encoding
        if encoding is None or not int(encoding.flags[index]) & TokenFlag.UNKNOWN:
            return True
        text = self.utf8[int(encoding.start[index]) : int(encoding.end[index])]
        return text == encoding.tokenizer.token_bytes(int(encoding.input_ids[index]))

    def forged_text(self, path: str, tokens: list[int]) -> str:
        """Say which control tokens a field wrote."""
        tokenizer, encoding = self.tokenizer, self.encoding
        pieces = [tokenizer.piece(int(encoding.input_ids[index])) for index in tokens[:4]]  # type: ignore[union-attr]
        more = f" and {len(tokens) - 4} more" if len(tokens) > 4 else ""
        return (
            f"{path or 'content'} wrote {len(tokens)} control token{'s' * (len(tokens) > 1)}: {' '.join(pieces)}{more}"
        )

    def outside(self, path: str) -> bool:
        """Say whether a field holds what comes from outside the conversation: a tool's answer, a document, a schema."""
        index = message_of(path)
        if index is None:
            return not path.startswith("chat_template_kwargs")
        return index < len(self.messages) and self.messages[index].get("role") in ("tool", "function", "ipython")

    @functools.cached_property
    def turn_end(self) -> int | None:
        """The control id that ends an assistant turn, None where the template writes none."""
        from inspector.control import terminator

        encoding = self.answered_encoding()
        return None if encoding is None else terminator(encoding)

    @functools.cached_property
    def file_remarks(self) -> list[tuple[Fact, str]]:
        """What the tokenizer's file holds that bites. A preset's file is pinned: it is not read once more."""
        from inspector import presets

        if self.tokenizer is None:
            return []
        return _remarks(self.tokenizer, self.options.tokenizer not in presets.tokenizers())

    @functools.cached_property
    def uncut(self) -> Encoding | None:
        """The tokens before a cut at token level; None where nothing was cut so."""
        budget = self.inspection.budget
        if budget is None or self.encoding is None or not budget.budget.policy.value.startswith("tokens_"):
            return None
        whole = self.probes.encoding(self.probes.as_given())
        return whole if whole is not None and len(whole) > len(self.encoding) else None

    @functools.cached_property
    def sizes(self) -> VocabularySizes | None:
        """The tokenizer's sizes beside the model's."""
        from inspector.vocabularies import vocabulary_sizes

        return None if self.tokenizer is None else vocabulary_sizes(self.tokenizer, self.evidence.config)

    def answered_encoding(self) -> Encoding | None:
        """Tokens of a question with its answer, and nothing after it: where the template ends a turn."""
        chat = [{"role": "user", "content": "When is high tide?"}, {"role": "assistant", "content": "At noon."}]
        return self.probes.encoding(self.probes.chat("a question and its answer", chat, prompt=False, continuing=False))

    def flagged(self, flag: TokenFlag) -> list[int]:
        """List the tokens that have a flag."""
        if self.encoding is None or not self.any_flag & int(flag):
            return []
        return np.flatnonzero(self.encoding.flags & int(flag)).tolist()

    @functools.cached_property
    def any_flag(self) -> int:
        """The flags that some token has."""
        return 0 if self.encoding is None else int(np.bitwise_or.reduce(self.encoding.flags))

    @functools.cached_property
    def token_kinds(self) -> np.ndarray:
        """The kind of each token's first byte; -1 for inserted ones."""
        encoding = self.encoding
        if encoding is None:
            return np.empty(0, np.int64)
        kinds = np.append(encoding.rendered.segments.kind.astype(np.int64), -1)
        return kinds[np.where(encoding.segment == NO_SEGMENT, len(kinds) - 1, encoding.segment)]

    def path_at(self, index: int) -> str | None:
        """Give the field that a token comes from, or the first one that it covers."""
        encoding = self.encoding
        if encoding is None or encoding.segment[index] == NO_SEGMENT:
            return None
        segments = encoding.rendered.segments
        last = max(
            int(np.searchsorted(segments.start, encoding.end[index], side="left")), int(encoding.segment[index]) + 1
        )
        rows = range(int(encoding.segment[index]), last)
        return next((path for path in (segments.origin(row)[1] for row in rows) if path), None)

    def where_token(self, index: int) -> dict[str, Any]:
        """Give the place of a token: index, bytes, field."""
        encoding = self.encoding
        if encoding is None:
            return {}
        place: dict[str, Any] = {"token": index}
        if encoding.end[index] > encoding.start[index]:
            place |= {"start": int(encoding.start[index]), "end": int(encoding.end[index])}
        path = self.path_at(index)
        return {**place, "path": path} if path else place

    @functools.cached_property
    def adds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that the tokenizer itself puts before and after every text."""
        return added_ids(self.tokenizer)

    # --- turns ----------------------------------------------------------------------------------------------------

    @property
    def refused(self) -> bool:
        """The template, or the library around it, refused the request."""
        return self.rendered is None and self.error is not None and self.error.stage in ("render", "messages")

    @functools.cached_property
    def accepted_roles(self) -> tuple[str, ...]:
        """The usual roles that the template renders in a chat of ours."""
        call = {"id": "abcdefghi", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}
        user, answer = {"role": "user", "content": "When?"}, {"role": "assistant", "content": "At noon."}
        result = {"role": "tool", "tool_call_id": "abcdefghi", "name": "tide", "content": "3.2"}
        chats: dict[str, list[dict[str, Any]]] = {
            "system": [{"role": "system", "content": "Be brief."}, user],
            "developer": [{"role": "developer", "content": "Be brief."}, user],
            "user": [user],
            "assistant": [user, answer, user],
            "tool": [user, {"role": "assistant", "content": "", "tool_calls": [call]}, result],
        }
        given = {"continuing": False}
        taken = [role for role, chat in chats.items() if self.probes.chat(f"the role {role}", chat, **given).rendered]
        return tuple(taken)

    @functools.cached_property
    def broken_turns(self) -> tuple[BrokenTurn, ...]:
        """Answers after which the chat was no prefix of the chat as it is now; the last few of them."""
        whole = self.probes.as_given()
        if whole.rendered is None:
            return ()
        ends = [k for k, message in enumerate(self.messages[:-1]) if message.get("role") == "assistant"]
        return tuple(broken for k in ends[-MAX_TURNS:] if (broken := self._broken(k, whole.rendered)) is not None)

    def _broken(self, index: int, whole: Rendered) -> BrokenTurn | None:
        messages = self.probes.messages()[: index + 1]
        then = self.probes.outcome(
            f"up to messages[{index}]", messages=messages, prompt=False, continuing=False
        ).rendered
        if then is None:
            return None
        byte = common_bytes(then.utf8, whole.utf8)
        if byte == len(then.utf8):
            return None
        rows = np.flatnonzero((then.segments.end > byte) & ~np.isin(then.segments.kind, TEMPLATE_KINDS))
        return BrokenTurn(index, byte, then, whole, not len(rows))

    def turn(self, upto: int) -> Outcome:
        """Render the first messages as they were sent then, with a generation prompt."""
        name = f"the prompt before messages[{upto}]"
        return self.probes.outcome(name, messages=self.probes.messages()[:upto], prompt=True, continuing=False)

    def whole(self) -> Outcome:
        """Render all messages without a generation prompt."""
        return self.probes.outcome("without generation prompt", prompt=False, continuing=False)


@dataclass(frozen=True, slots=True, eq=False)
class BrokenTurn:
    """A chat up to an answer that is no prefix of the chat as it is now.

    `index`: the answer's message; `byte`: where they part; `tail`: nothing but what the template wrote at the very end
    of the shorter one is gone.
    """

    index: int
    byte: int
    then: Rendered
    now: Rendered
    tail: bool

    @property
    def before(self) -> bytes:
        """The shorter chat's bytes."""
        return self.then.utf8

    @property
    def line(self) -> int | None:
        """The template line that wrote the first byte that is gone."""
        return line_of(self.then, self.byte)


def line_of(rendered: Rendered, byte: int) -> int | None:
    """Give the template line that wrote a byte, or the last one."""
    if not len(rendered.segments):
        return None
    row = int(rendered.segments.start.searchsorted(byte, side="right")) - 1
    return int(rendered.segments.line[max(row, 0)]) or None


def excerpt(utf8: bytes, byte: int, size: int = 40) -> str:
    """Give the text from a byte on, as far as it fits a message; a mark that begins before it is shown whole.

    >>> excerpt(b"hi<|im_end|>", 4)
    '<|im_end|>'
    """
    begin = max((utf8.rfind(mark, max(byte - 20, 0), byte) for mark in (b"<", b"[")), default=-1)
    if begin >= 0 and not re.search(rb"[>\]\s]", utf8[begin:byte]):
        byte = begin
    return utf8[byte : byte + size].decode("utf-8", "ignore")


@functools.lru_cache(maxsize=16)
def added_ids(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the ids that encoding with special tokens puts before and after a text."""
    if tokenizer is None:
        return (), ()
    bare = tokenizer.encode("a").input_ids.tolist()
    full = tokenizer.encode("a", add_special_tokens=True).input_ids.tolist()
    for before in range(len(full) - len(bare) + 1):
        if full[before : before + len(bare)] == bare:
            return tuple(full[:before]), tuple(full[before + len(bare) :])
    return (), ()


@functools.lru_cache(maxsize=16)
def _remarks(tokenizer: Tokenizer, reading: bool) -> list[tuple[Fact, str]]:
    return remarks(tokenizer, reading=reading)


def written_of(paths: Any) -> frozenset[str]:
    """Give the paths and all that hold them.

    >>> sorted(written_of(["messages[0].content"]))
    ['messages', 'messages[0]', 'messages[0].content']
    """
    return frozenset(itertools.chain.from_iterable(map(_holders, paths)))


@functools.lru_cache(maxsize=4096)
def _holders(path: str) -> tuple[str, ...]:
    return path, *(path[: match.start()] for match in _STEP.finditer(path))


def _inside(path: str, holder: str) -> bool:
    return path == holder or path.startswith((f"{holder}.", f"{holder}["))


def message_of(path: str) -> int | None:
    """Give the message that a path lies in.

    >>> message_of("messages[2].content"), message_of("tools[0]")
    (2, None)
    """
    match = _MESSAGE.match(path)
    return int(match[1]) if match else None


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every scalar in a JSON value with its path."""
    from inspector.jsontext import child_path

    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def tool_calls(message: dict[str, Any]) -> list[Any]:
    """Give the tool calls of a message, none for what is no list."""
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def function_of(call: Any) -> dict[str, Any]:
    """Give the function object of a tool call or a tool."""
    function = call.get("function") if isinstance(call, dict) else None
    return function if isinstance(function, dict) else {}


def argument_texts(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield the tool-call arguments that are given as text, with their path."""
    for index, message in enumerate(subject.messages):
        for at, call in enumerate(tool_calls(message)):
            arguments = function_of(call).get("arguments")
            if isinstance(arguments, str):
                yield f"messages[{index}].tool_calls[{at}].function.arguments", arguments


def json_of(text: str) -> Any:
    """Give the JSON object that a text spells, None where it spells none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def with_arguments(message: dict[str, Any], change: Callable[[Any], Any]) -> tuple[dict[str, Any], list[int]]:
    """Give a message whose tool-call arguments are changed where `change` gives a value, and which calls were."""
    touched, calls = [], []
    for at, call in enumerate(tool_calls(message)):
        function = function_of(call)
        value = change(function["arguments"]) if "arguments" in function else None
        calls.append(call if value is None else {**call, "function": {**function, "arguments": value}})
        touched += [at] if value is not None else []
    return ({**message, "tool_calls": calls} if touched else message), touched


def call_ids(messages: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    """Give every id that calls and results have, with the message and path where it first stands."""
    ids: dict[str, tuple[int, str]] = {}
    for index, message in enumerate(messages):
        for at, call in enumerate(tool_calls(message)):
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                ids.setdefault(call["id"], (index, f"messages[{index}].tool_calls[{at}].id"))
        if isinstance(message.get("tool_call_id"), str):
            ids.setdefault(message["tool_call_id"], (index, f"messages[{index}].tool_call_id"))
    return ids


def paths_of(rendered: Rendered) -> set[str]:
    """Give every path of which a byte is in a prompt; what is derived counts for each of its sources."""
    segments = rendered.segments
    used = {segments.paths[place] for place in set(segments.path.tolist()) if place >= 0}
    return {part for path in used for part in (path, *path.split(", "))}


def rewritten(subject: Subject, form: Literal["NFC", "NFKC"]) -> list[tuple[int, str, str]]:
    """List the stretches that a Unicode form changes and the tokens spell in the changed form: byte, before, after."""
    from inspector.tokenizers.normalization import stretches

    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes" or unicodedata.is_normalized(form, encoding.rendered.text):
        return []
    found, byte, places = [], 0, _Places(encoding)
    for before, after in stretches(encoding.rendered.text, form):
        size = len(before) if before.isascii() else len(before.encode())
        if before != after and not (size != len(after.encode()) and places.keep_length(byte, byte + size)):
            spelled = places.spelled(byte, byte + size)
            if before.encode() not in spelled and _common(after, spelled):
                found.append((byte, before, after))
        byte += size
    return found


@functools.lru_cache(maxsize=1 << 18)
def _size(tokenizer: Tokenizer, token_id: int) -> int:
    return len(tokenizer.token_bytes(token_id))


class _Places:
    """Which tokens lie over a stretch, and what they spell."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._start, self._end = encoding.start, np.maximum.accumulate(encoding.end)
        ids, at = np.unique(encoding.input_ids, return_inverse=True)
        sizes = np.array([_size(encoding.tokenizer, token_id) for token_id in ids.tolist()], dtype=np.int64)
        other = sizes[at] != encoding.end - encoding.start
        self._other = np.concatenate(([0], np.cumsum(other)))

    def _tokens(self, start: int, end: int) -> tuple[int, int]:
        first = int(np.searchsorted(self._end, start, side="right"))
        return first, int(np.searchsorted(self._start, end, side="left"))

    def keep_length(self, start: int, end: int) -> bool:
        """Say whether every token over these bytes has as many as it spells: none was made longer or shorter."""
        first, last = self._tokens(start, end)
        return bool(self._other[max(first, last)] == self._other[first])

    def spelled(self, start: int, end: int) -> bytes:
        """Give what the tokens over these bytes spell."""
        ids = self._encoding.input_ids[slice(*self._tokens(start, end))].tolist()
        return b"".join(self._encoding.tokenizer.token_bytes(token_id) for token_id in ids)


def _common(after: str, spelled: bytes) -> bool:
    return after.encode() in spelled or after.strip().encode() in spelled


def points(text: str) -> str:
    """Spell text with its code points.

    >>> points("a\\u200b")
    "'a\\\\u200b' (U+0061 U+200B)"
    """
    listed = " ".join(f"U+{ord(char):04X}" for char in text[:8])
    return f"{text[:8]!r} ({listed}{' …' if len(text) > 8 else ''})"


def is_part(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Say whether a sequence is a proper beginning or end of another."""
    if not part or len(part) >= len(whole):
        return False
    return part == whole[: len(part)] or part == whole[len(whole) - len(part) :]


def text_of(content: Any) -> str:
    """Give the text of a content: itself, or its text parts joined."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict))
    return "".join(text for text in texts if isinstance(text, str))


def common_bytes(a: bytes, b: bytes) -> int:
    """Count the bytes that two texts share at their start."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return size
    left, right = np.frombuffer(a[:size], np.uint8), np.frombuffer(b[:size], np.uint8)
    return int(np.argmax(left != right))
