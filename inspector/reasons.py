"""Why two inspections differ in one region: a named reason, decided from evidence, and the sentence that says it.

Evidence is what the inspections hold: who wrote the bytes (segments), the requests and what was changed in them, the
options, the budget's decision, token flags, and the tokenizers' own normalizers and pre-tokenizers. A reason whose
evidence is missing is not given; `RULES` are tried in order, from causes that explain everything to what is merely seen.
Nothing is rendered or encoded.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.encode import NO_SEGMENT, Encoding, TokenFlag, control_mask
from inspector.errors import InspectorError
from inspector.hunks import Region
from inspector.pipeline import Inspection
from inspector.provenance import plain
from inspector.render import KIND_NAMES, SegmentKind
from inspector.request import at_path
from inspector.stages import split_text


class Reason(enum.Enum):
    """Why two inputs differ at one place; the value is `reason_code` in the JSON, `title` begins the sentence."""

    title: str

    def __new__(cls, code: str, title: str) -> Reason:
        member = object.__new__(cls)
        member._value_, member.title = code, title
        return member

    STOPPED = "stopped", "stopped"  # a side has an error, or no tokens
    TOKEN_SEGMENTS = "token_segments", "no text"  # one side's tokenizer encodes the request itself
    REQUEST = "request", "the request"  # the two requests hold other values at that path
    TEMPLATE_ARGUMENT = (
        "template_argument",
        "template argument",
    )  # an argument's value, or what the template does with it
    CLOCK = "clock", "the clock"  # both write the clock, or one of them a date of its own
    GENERATION_PROMPT = "generation_prompt", "generation prompt"  # only one side ends with it
    CONTINUED = "continued", "continued message"  # only one side leaves the final message open
    PROFILE = "profile", "profile"  # the profile or the library changed the field on one side only
    BUDGET = "budget", "budget"  # one side's budget dropped or cut it
    BOS = "bos", "BOS"  # another number of begin tokens at the start
    SPECIAL_TOKEN = "special_token", "special token"  # both write the same named special token, whose texts differ
    TERMINATOR = "terminator", "end of turn"  # only control tokens differ, after what a message says
    ROLE_NAME = "role_name", "role name"  # a role stands there under another name
    TRIMMED = "trimmed", "whitespace trimmed"  # blanks at an end of a field, which one side strips
    WHITESPACE = "whitespace", "whitespace"  # other blanks that the template writes
    NUMBER_SPELLING = "number_spelling", "number spelling"  # the same number of the request, spelled otherwise
    ESCAPING = "escaping", "escaping"  # the same field, its characters escaped otherwise
    JSON_OR_PYTHON = "json_or_python", "JSON or Python"  # the same value in JSON and in Python's spelling
    JSON_SPACING = "json_spacing", "JSON spacing"  # blanks between the parts of one JSON value
    KEY_ORDER = "key_order", "key order"  # the same object, its keys in another order
    REASONING_DROPPED = "reasoning_dropped", "reasoning left out"  # one side drops what a message holds as reasoning
    MESSAGE_DROPPED = "message_dropped", "message left out"  # one side writes nothing of that message
    SYSTEM_DEFAULT = "system_default", "default system prompt"  # a system text that no message gave
    TOOLS_LEFT_OUT = "tools_left_out", "tools left out"  # only one side writes tools at all
    TOOLS_PLACED = "tools_placed", "tools placed elsewhere"  # both write the tool, at other places
    TOOLS_RENDERED = "tools_rendered", "tools rendered otherwise"  # both write tools here, in other forms
    FIELD_LEFT_OUT = "field_left_out", "field left out"  # only one side writes that field
    FIELD_MOVED = "field_moved", "field elsewhere"  # both write the field, at other places
    FIELD_REWRITTEN = "field_rewritten", "field rewritten"  # both write the field here, one changed it
    ENGINE = "engine", "template engine"  # the engines differ, and the bytes are one engine's own
    TEMPLATE_TEXT = "template_text", "template text"  # the templates write other literal text
    INSERTED_TOKEN = "inserted_token", "inserted token"  # a token that stands for no byte, on one side only
    CONTROL_MATCHING = "control_matching", "control token matching"  # control token here, ordinary text there
    SEAM = "merge_across_seam", "merge across a seam"  # the same tokenizer, cut at another place
    NORMALIZER = "normalizer", "normalizer"  # the normalizers make other text of the same bytes
    PRE_TOKENIZER = "pre_tokenizer", "pre-tokenizer"  # the pre-tokenizers cut the same text into other pieces
    MERGES = "merges", "merges"  # the same pieces, which the models cut otherwise
    VOCABULARY = "vocabulary", "vocabulary"  # the same boundaries, under other ids
    UNKNOWN = "unknown", "unknown"  # no evidence names a reason


NOTHING = "nothing"
_TEMPLATE_KINDS = frozenset(("template", "special", "clock"))
_CONTENT_KINDS = frozenset(("message", "tool", "document", "kwarg", "derived"))
_ROLES = frozenset(
    b"system user assistant model tool developer human ipython function observation environment bot gpt".split()
)
_REASONING = re.compile(r"messages\[\d+\]\.(?:reasoning_content|thinking|reasoning)\b")
_CLOSERS = (b"</think>", b"[/THINK]", b"</thinking>")
_BLANKS = b" \t\r\n"
_NEAR = 64  # bytes of literal text between a region and the content beside it
_LEAF = 4096  # bytes of one field that are compared as a whole


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one source within a region. `field` is its byte offset in the field's own text, -1 for no copy."""

    kind: str
    path: str
    line: int
    text: bytes
    field: int

    @property
    def content(self) -> bool:
        return self.kind in _CONTENT_KINDS


class Side:
    """One inspection, and what is looked up in it more than once."""

    def __init__(self, name: str, inspection: Inspection, encoding: Encoding) -> None:
        self.name, self.inspection, self.encoding = name, inspection, encoding
        self.rendered = encoding.rendered
        self.utf8, self.segments = self.rendered.utf8, self.rendered.segments

    @functools.cached_property
    def first_shown(self) -> dict[str, int]:
        """Every path that wrote something, with the segment that shows it first, in order."""
        found: dict[str, int] = {}
        paths, first = np.unique(self.segments.path, return_index=True)
        for path, row in sorted(zip(paths.tolist(), first.tolist()), key=lambda pair: pair[1]):
            for name in self.segments.paths[path].split(", ") if path >= 0 else ():
                found.setdefault(name, row)
        return found

    @functools.cached_property
    def messages(self) -> set[int]:
        """The messages of which this side writes something but a role."""
        return {index for path in self.first_shown if (index := said_by(path)) is not None}

    def writes(self, message: int) -> bool:
        """True if this side writes anything of a message."""
        return message in self.messages or f"messages[{message}].role" in self.first_shown

    @functools.cached_property
    def tools(self) -> bool:
        """True if this side writes anything of the tools."""
        return any(path.startswith("tools[") for path in self.first_shown)

    @functools.cached_property
    def before_tools(self) -> set[int]:
        """The messages that stand before the first tool: where this side places them."""
        first = min((row for path, row in self.first_shown.items() if path.startswith("tools[")), default=0)
        return {i for path, row in self.first_shown.items() if row < first and (i := said_by(path)) is not None}

    def pieces(self, region: Region) -> tuple[Piece, ...]:
        """Give who wrote the region, in order."""
        if self.rendered.kind != "bytes":
            rows = self.encoding.segment[region.first : region.last].tolist()
            ids = self.encoding.input_ids[region.first : region.last].tolist()
            return tuple(self._piece(row, self.encoding.tokenizer.token_bytes(i)) for row, i in zip(rows, ids))
        return tuple(self._cut(row, region) for row in self._rows(region))

    def _rows(self, region: Region) -> range:
        starts = self.segments.start
        first = int(np.searchsorted(starts, region.start, side="right")) - 1
        return range(max(first, 0), int(np.searchsorted(starts, region.end, side="left"))) if region.end > region.start else range(0)  # fmt: skip

    def _cut(self, row: int, region: Region) -> Piece:
        start, end = int(self.segments.start[row]), int(self.segments.end[row])
        x, y = max(start, region.start), min(end, region.end)
        return self._piece(row, self.utf8[x:y], x - start)

    def _piece(self, row: int, text: bytes, offset: int = 0) -> Piece:
        kind, path, line = self.segments.origin(row) if row != NO_SEGMENT else ("unknown", None, None)
        field = int(self.segments.field_start[row]) if row != NO_SEGMENT else -1
        return Piece(kind, path or "", line or 0, text, field + offset if field >= 0 else -1)

    def beside(self, place: int, step: int) -> Piece | None:
        """Give the nearest content before (step -1) or after (step 1) a place, not far from it."""
        starts = self.segments.start
        row = int(np.searchsorted(starts, place, side="left")) - (1 if step < 0 else 0)
        if step > 0 and row > 0 and int(self.segments.end[row - 1]) > place:
            row -= 1
        while 0 <= row < len(starts):
            gap = place - int(self.segments.end[row]) if step < 0 else int(starts[row]) - place
            if gap > _NEAR:
                return None
            if KIND_NAMES[self.segments.kind[row]] in _CONTENT_KINDS:
                return self._cut(row, Region(int(starts[row]), int(self.segments.end[row])))
            row += step
        return None

    def leaf(self, region: Region, path: str) -> bytes | None:
        """Give the unbroken stretch of one field around a region, or beside an empty one; None where there is none."""
        wanted = [row for row in self._around(region) if self._path(row) == path]
        if not wanted:
            return None
        low, high = wanted[0], wanted[-1]
        limit = int(self.segments.start[low]) - _LEAF, int(self.segments.end[high]) + _LEAF
        while low > 0 and self._path(low - 1) == path and int(self.segments.start[low - 1]) > limit[0]:
            low -= 1
        while high + 1 < len(self.segments) and self._path(high + 1) == path and self.segments.end[high + 1] < limit[1]:
            high += 1
        return self.utf8[int(self.segments.start[low]) : int(self.segments.end[high])]

    def _around(self, region: Region) -> range:
        starts = self.segments.start
        first = int(np.searchsorted(self.segments.end, region.start, side="left"))
        return range(first, int(np.searchsorted(starts, max(region.end, region.start + 1), side="left")))

    def _path(self, row: int) -> str:
        path = int(self.segments.path[row])
        return self.segments.paths[path] if path >= 0 else ""

    @functools.lru_cache(maxsize=64)  # noqa: B019 - a Side lives as long as one comparison
    def children(self, parent: str) -> tuple[str, ...]:
        """Give the members of an object of the request in the order in which this side writes them."""
        found: dict[str, None] = {}
        for path in self.first_shown:
            if path.startswith(parent) and path[len(parent) : len(parent) + 1] in (".", "["):
                found.setdefault(parent + (_STEP.match(path, len(parent)) or [""])[0])
        return tuple(found)

    def given(self, path: str) -> Any:
        """Give the request's value at a path; None if it has none."""
        try:
            return None if self.inspection.request is None else at_path(self.inspection.request, path)
        except InspectorError:
            return None

    def field_bytes(self, path: str) -> bytes | None:
        """Give the text of a field of the request."""
        value = self.given(path)
        return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None

    def token_text(self, region: Region) -> bytes:
        """Give the bytes of the tokens that hold a region."""
        first, last = self._holding(region)
        return self.utf8[int(self.encoding.start[first]) : int(self.encoding.end[last - 1])] if first < last else b""

    def flags(self, region: Region) -> list[int]:
        """Give the flags of the tokens that hold a region and are not blank."""
        first, last = self._holding(region)
        spans = zip(self.encoding.start[first:last].tolist(), self.encoding.end[first:last].tolist())
        flags = self.encoding.flags[first:last].tolist()
        return [flag for flag, (x, y) in zip(flags, spans) if self.utf8[x:y].strip(_BLANKS)]

    def _holding(self, region: Region) -> tuple[int, int]:
        if region.start == region.end:
            return 0, 0
        first = int(np.searchsorted(self.encoding.end, region.start, side="right"))
        return first, max(first, int(np.searchsorted(self.encoding.start, region.end, side="left")))


_UNIT = re.compile(r"(?:messages|tools|documents)\[\d+\]")
_STEP = re.compile(r'\.[^.\[]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\]')


def said_by(path: str) -> int | None:
    """Give the message that a field belongs to; a role says nothing."""
    match = re.match(r"messages\[(\d+)\](?!\.role$)", path)
    return int(match[1]) if match else None


def _parent(path: str) -> str:
    steps = list(_STEP.finditer(path))
    return path[: steps[-1].start()] if steps else ""


@dataclass(frozen=True, slots=True)
class Part:
    """One side of one region."""

    side: Side
    region: Region
    text: bytes
    pieces: tuple[Piece, ...]

    @property
    def kinds(self) -> set[str]:
        return {piece.kind for piece in self.pieces}

    @property
    def paths(self) -> list[str]:
        """The fields of the request that wrote here, in order."""
        found = {name: None for piece in self.pieces if piece.content for name in piece.path.split(", ") if name}
        return list(found)


@dataclass(frozen=True, slots=True)
class Case:
    """One region of two inspections, and what is known of the two as wholes."""

    facts: Facts
    a: Part
    b: Part

    @property
    def parts(self) -> tuple[tuple[Part, Part], ...]:
        """Each part with the other one."""
        return (self.a, self.b), (self.b, self.a)

    @property
    def has_text(self) -> bool:
        return any(part.side.rendered.kind == "bytes" for part in (self.a, self.b))

    def shared_paths(self) -> list[str]:
        return [path for path in self.a.paths if path in self.b.paths]


class Facts:
    """What is known of two inspections as wholes, and the way from a region to its reason."""

    def __init__(self, a: Inspection, b: Inspection) -> None:
        if a.encoding is None or b.encoding is None:
            raise ValueError("an inspection without tokens has no regions")
        self.a, self.b = Side("A", a, a.encoding), Side("B", b, b.encoding)
        self.same_tokenizer = a.encoding.tokenizer.digest == b.encoding.tokenizer.digest
        self.same_request = _request_of(a) == _request_of(b)
        self.changed = {change[0] for change in _changes_of(a) ^ _changes_of(b)}
        self.arguments = _arguments_apart(a, b)
        self.dropped = tuple(_dropped_by(side) for side in (a, b))
        self.only = _only_option(a, b, self)

    def case(self, a: Region, b: Region) -> Case:
        """Give one region with the text and the writers of both sides."""
        return Case(self, self._part(self.a, a), self._part(self.b, b))

    def _part(self, side: Side, region: Region) -> Part:
        pieces = side.pieces(region)
        return Part(side, region, b"".join(piece.text for piece in pieces), pieces)


def explain(case: Case) -> tuple[Reason, str]:
    """Give the reason of a region and the sentence that says it, with the numbers of both sides."""
    same_text = case.a.text == case.b.text
    rules = TOKEN_RULES if same_text else RULES if case.has_text else SEGMENT_RULES
    found = ((reason, rule(case)) for reason, rule in rules)
    reason, detail = next(((r, d) for r, d in found if d is not None), (Reason.UNKNOWN, ""))
    opening = "same text, other ids; " if same_text and case.has_text else ""
    return reason, f"{opening}{reason.title}: {detail or both(case)} ({_sizes(case)})"


# --- words ---------------------------------------------------------------------------------------------------------


def both(case: Case) -> str:
    """Say what each side writes, and who wrote it."""
    return "; ".join(f"{part.side.name} writes {wrote(part)}" for part in (case.a, case.b))


def wrote(part: Part) -> str:
    """Quote a side's text with its writers."""
    if not part.text and part.region.first == part.region.last:
        return NOTHING
    return f"{excerpt(part)} ({writers(part)})" if part.text else NOTHING


def excerpt(part: Part, length: int = 24) -> str:
    """Quote what begins there, from the control token that holds it on."""
    start, text = part.region.start, part.text
    if part.side.rendered.kind == "bytes":
        holding = part.side.flags(part.region)
        if holding and control_mask(np.array(holding))[0]:
            whole = part.side.token_text(part.region)
            text = whole if len(whole) < 4 * length or not text else whole[: 4 * length]
        elif part.side.utf8[start : start + 1] and part.side.utf8[start] & 0xC0 == 0x80:
            text = part.text
    shown = text[: 4 * length].decode("utf-8", "replace")
    return repr(shown[:length] + ("…" if len(shown) > length or len(text) > 4 * length else ""))


def writers(part: Part, most: int = 3) -> str:
    """Name the sources of a side, each once, with the template lines that wrote them."""
    lines: dict[str, list[int]] = {}
    for piece in part.pieces:
        known = lines.setdefault(_source(piece), [])
        if piece.line and piece.line not in known:
            known.append(piece.line)
    named = [f"{source}, {_lines(numbers)}" if numbers else source for source, numbers in lines.items()]
    return ", ".join(named[:most]) + (", …" if len(named) > most else "")


def _source(piece: Piece) -> str:
    source = {"template": "template text", "special": f"special token {piece.path}", "clock": "the clock"}
    return source.get(piece.kind, piece.path or piece.kind)


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:4])) + (", …" if len(numbers) > 4 else "")
    return f"template line{'s' if len(numbers) > 1 else ''} {shown}"


def _sizes(case: Case) -> str:
    return ", ".join(
        f"{part.side.name} {len(part.text)} bytes in {_count(part.region.last - part.region.first, 'token')}"
        for part in (case.a, case.b)
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- the two as wholes ---------------------------------------------------------------------------------------------


def _request_of(inspection: Inspection) -> Any:
    return None if inspection.request is None else inspection.request.to_dict()


def _changes_of(inspection: Inspection) -> set[tuple[str, str]]:
    changes = inspection.conversation.changes if inspection.conversation is not None else ()
    return {(change.path, change.what) for change in changes if change.by != "parser"}


def _arguments_of(inspection: Inspection) -> dict[str, Any]:
    return {} if inspection.conversation is None else plain(inspection.conversation.kwargs)


def _arguments_apart(a: Inspection, b: Inspection) -> dict[str, str]:
    """Give the arguments that differ, each with a phrase for both sides."""
    first, second = _arguments_of(a), _arguments_of(b)
    names = [name for name in {**first, **second} if first.get(name, ...) != second.get(name, ...)]
    return {name: f"{name} is {_shown(first, name)} in A and {_shown(second, name)} in B" for name in names}


def _shown(arguments: dict[str, Any], name: str) -> str:
    if name not in arguments:
        return "not given"
    text = json.dumps(arguments[name], ensure_ascii=False, default=str)
    return text if len(text) <= 40 else text[:39] + "…"


def _dropped_by(inspection: Inspection) -> frozenset[str]:
    decision = inspection.budget
    if decision is None:
        return frozenset()
    return frozenset((*(drop.path for drop in decision.dropped), *(path for path, _lost in decision.cut)))


def _only_option(a: Inspection, b: Inspection, facts: Facts) -> tuple[Reason, str] | None:
    """Give the one option that the two differ in, if everything else that decides an input is the same."""
    templates = [side.template.digest if side.template else None for side in (a, b)]
    if not facts.same_tokenizer or not facts.same_request or templates[0] != templates[1]:
        return None
    x, y = a.options, b.options
    if x.engine != y.engine:
        return None
    windows = [(o.context_window, o.max_new_tokens, o.policy) if o.context_window else None for o in (x, y)]
    found = [
        (Reason.TEMPLATE_ARGUMENT, ", ".join(facts.arguments.values())) if facts.arguments else None,
        (Reason.GENERATION_PROMPT, "") if x.add_generation_prompt != y.add_generation_prompt else None,
        (Reason.CONTINUED, "") if x.continue_final_message != y.continue_final_message else None,
        (Reason.CLOCK, f"A reads {a.clock.isoformat()}, B {b.clock.isoformat()}") if a.clock != b.clock else None,
        (Reason.PROFILE, f"A has the profile {x.profile}, B {y.profile}") if x.profile != y.profile else None,
        (Reason.BUDGET, f"A has {_window(a)}, B {_window(b)}") if windows[0] != windows[1] else None,
    ]
    causes = [cause for cause in found if cause is not None]
    return causes[0] if len(causes) == 1 else None


def _window(inspection: Inspection) -> str:
    options = inspection.options
    if options.context_window is None:
        return "no window"
    return f"{options.context_window - options.max_new_tokens} tokens for input by {options.policy}"


# --- rules for other text ------------------------------------------------------------------------------------------
# Each gives None (not this), or what follows the title; "" stands for what both sides write.


def _request(case: Case) -> str | None:
    if case.facts.same_request:
        return None
    for path in (*case.a.paths, *case.b.paths):
        if case.facts.a.given(path) != case.facts.b.given(path):
            return f"{path} is not the same in the two requests; {both(case)}"
    return None


def _only(reason: Reason) -> Callable[[Case], str | None]:
    def rule(case: Case) -> str | None:
        if case.facts.only is None or case.facts.only[0] is not reason:
            return None
        return f"{case.facts.only[1]}; {both(case)}" if case.facts.only[1] else both(case)

    return rule


def _bos(case: Case) -> str | None:
    counts = [leading_bos(part.side.encoding) for part in (case.a, case.b)]
    if counts[0] == counts[1]:
        return None
    for part, other in case.parts:
        leading = counts[0 if part is case.a else 1]
        end = int(part.side.encoding.end[leading - 1]) if leading else 0
        if part.text and part.region.end <= end and not other.text:
            return f"A begins {_bos_phrase(case, counts[0], True)}, B {_bos_phrase(case, counts[1], False)}"
    return None


def leading_bos(encoding: Encoding) -> int:
    """Count the begin tokens that an input starts with."""
    other = np.flatnonzero((encoding.flags & TokenFlag.BOS) == 0)
    return int(other[0]) if len(other) else len(encoding)


def _bos_phrase(case: Case, count: int, named: bool) -> str:
    """Say "without <bos>", "with one <bos>", or the same without the token's name."""
    begun = next(p.side.encoding for p in (case.a, case.b) if leading_bos(p.side.encoding))
    name = f" {begun.token(0).piece}" if named else ""
    return f"with {'one' if count == 1 else count}{name}" if count else f"without{name}"


def _generation_prompt(case: Case) -> str | None:
    for part, other in case.parts:
        prompt = part.side.rendered.generation_prompt
        if not part.text or prompt is None or other.side.rendered.generation_prompt is not None:
            continue
        if part.region.start >= prompt[0] and not other.text:
            names = part.side.name, other.side.name
            return f"{names[0]} ends with it, {names[1]} does not; {both(case)}"
    return None


def _continued(case: Case) -> str | None:
    options = [part.side.inspection.options.continue_final_message for part in (case.a, case.b)]
    at_end = all(part.region.end == len(part.side.utf8) for part in (case.a, case.b))
    return "" if options[0] != options[1] and at_end else None


def _clock(case: Case) -> str | None:
    kinds = [part.kinds or _kinds_at(part) for part in (case.a, case.b)]
    if "clock" not in kinds[0] | kinds[1] or not all(kind <= {"clock", "template", "kwarg"} for kind in kinds):
        return None
    if kinds[0] == kinds[1] == {"clock"}:
        times = [part.side.inspection.clock.isoformat() for part in (case.a, case.b)]
        how = f"A reads {times[0]}, B {times[1]}" if times[0] != times[1] else "the same time in different formats"
        return f"{how}; {both(case)}"
    whole = any(kind == {"clock"} for kind in kinds) and all(any(map(_digit, part.text)) for part in (case.a, case.b))
    return f"one side writes a date of its own; {both(case)}" if whole else None


def _digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _kinds_at(part: Part) -> set[str]:
    """Give who wrote the bytes on both sides of an empty region, if it was one."""
    around = {KIND_NAMES[part.side.segments.kind[row]] for row in part.side._around(part.region)}
    return around if "clock" in around else set()


def _argument(case: Case) -> str | None:
    for part in (case.a, case.b):
        for piece in part.pieces:
            name = _argument_name(piece.path) if piece.kind == "kwarg" else ""
            if name in case.facts.arguments:
                return f"{case.facts.arguments[name]}; {both(case)}"
    return None


def _argument_name(path: str) -> str:
    match = re.match(r"(?:chat_template_kwargs)?\.?([A-Za-z_]\w*)", path)
    return match[1] if match else path


def _budget(case: Case) -> str | None:
    for number, (part, _other) in enumerate(case.parts):
        dropped = case.facts.dropped[1 - number]
        units = [unit for path in part.paths if (unit := (_UNIT.match(path) or [""])[0]) in dropped]
        if units:
            other = "B" if number == 0 else "A"
            return f"{other}'s budget of {_window(case.b.side.inspection if number == 0 else case.a.side.inspection)} leaves {units[0]} out"  # fmt: skip
    return None


def _profile(case: Case) -> str | None:
    for path in (*case.a.paths, *case.b.paths):
        changed = next((place for place in case.facts.changed if path == place or _within(path, place)), None)
        if changed is not None:
            profiles = [part.side.inspection.options.profile for part in (case.a, case.b)]
            return f"{changed} was changed on one side only (A {profiles[0]}, B {profiles[1]}); {both(case)}"
    return None


def _within(path: str, place: str) -> bool:
    return path.startswith(place) and path[len(place)] in ".["


def _reasoning(case: Case) -> str | None:
    for part, other in case.parts:
        for piece in part.pieces:
            if _is_reasoning(piece, part.side) and not _shows_reasoning(piece, other):
                return f"{other.side.name} leaves out the reasoning of messages[{said_by(piece.path)}]; {both(case)}"
    return None


def _is_reasoning(piece: Piece, side: Side) -> bool:
    if _REASONING.match(piece.path):
        return True
    field = side.field_bytes(piece.path) if piece.kind == "message" and piece.field >= 0 else None
    return field is not None and any(piece.field < field.find(closer) for closer in _CLOSERS)


def _shows_reasoning(piece: Piece, other: Part) -> bool:
    """True if the other side shows reasoning of that message too, under any name."""
    index = said_by(piece.path)
    if _REASONING.match(piece.path):
        names = ("reasoning_content", "thinking", "reasoning")
        return any(f"messages[{index}].{name}" in other.side.first_shown for name in names)
    segments = other.side.segments
    rows = [row for row in range(len(segments)) if other.side._path(row) == piece.path]
    return any(int(segments.field_start[row]) <= piece.field < int(segments.field_start[row]) + int(segments.end[row] - segments.start[row]) for row in rows)  # fmt: skip


def _message_dropped(case: Case) -> str | None:
    for part, other in case.parts:
        said = (index for path in part.paths if (index := said_by(path)) is not None)
        gone = next((index for index in said if not other.side.writes(index)), None)
        if gone is not None:
            return f"{other.side.name} writes nothing of messages[{gone}]; {both(case)}"
    return None


def _trimmed(case: Case) -> str | None:
    for part, other in case.parts:
        if not part.text or part.text.strip(_BLANKS) or other.text.strip(_BLANKS):
            continue
        for piece in part.pieces:
            field = part.side.field_bytes(piece.path) if piece.kind == "message" and piece.field >= 0 else None
            if field is None or not field.strip(_BLANKS):
                continue
            place = "end" if piece.field + len(piece.text) == len(field) else "start" if piece.field == 0 else ""
            if place and piece.path in other.side.first_shown:
                what = f"{part.side.name} keeps {piece.text[:24]!r} at the {place} of {piece.path}"
                return f"{what}, {other.side.name} strips it ({writers(part)})"
    return None


def _whitespace(case: Case) -> str | None:
    if case.a.text.strip(_BLANKS) or case.b.text.strip(_BLANKS):
        return None
    for part, other in case.parts:
        if part.text and not other.text:
            return f"{part.side.name} writes {part.text[:24].decode()!r}, {other.side.name} does not ({writers(part)})"
    return ""


def _number(case: Case) -> str | None:
    for path, x, y in _leaves(case):
        try:
            if x != y and float(x) == float(y):
                return f"{path} is written as {x.decode()} in A and as {y.decode()} in B"
        except ValueError:
            continue
    return None


def _leaves(case: Case) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield each field that stands at the region on both sides, with what is written of it there."""
    for path in dict.fromkeys((*case.a.paths, *case.b.paths)):
        x, y = case.a.side.leaf(case.a.region, path), case.b.side.leaf(case.b.region, path)
        if x is not None and y is not None and all(_inside_leaf(part, path) for part in (case.a, case.b)):
            yield path, x, y


def _inside_leaf(part: Part, path: str) -> bool:
    """True if nothing but the field wrote here, quotes apart."""
    return all(piece.path == path or not piece.text.strip(b"\"'\\") for piece in part.pieces)


def _escaping(case: Case) -> str | None:
    for path, x, y in _leaves(case):
        if x != y and _readings(x) & _readings(y):
            return f"{path} is escaped otherwise; {both(case)}"
    return None


def _readings(text: bytes) -> set[str]:
    """Give the texts that a written field may stand for: as it is, read as JSON, read as HTML."""
    plain_text = text.decode("utf-8", "replace")
    inner = plain_text[1:-1] if plain_text[:1] == plain_text[-1:] == '"' and len(plain_text) > 1 else plain_text
    found = {plain_text, inner, html.unescape(inner)}
    with contextlib.suppress(ValueError):
        found.add(json.loads(f'"{inner}"', strict=False))
    return found


_PYTHON = {b"true": b"True", b"false": b"False", b"null": b"None", b'"': b"'"}
_PYTHON |= {python: spelled for spelled, python in _PYTHON.items()}


def _json_or_python(case: Case) -> str | None:
    x, y = (_word(part) or part.text for part in (case.a, case.b))
    if _PYTHON.get(x) == y and (_in_value(case) or "derived" in case.a.kinds | case.b.kinds):
        return f"A writes {x.decode()}, B {y.decode()} ({writers(case.a) or writers(case.b)})"
    return None


def _in_value(case: Case) -> bool:
    """True if the region lies in the same structured value of the request on both sides."""
    shared = set(_neighbours(case.a)) & set(_neighbours(case.b))
    return any(_structured(path) for path in shared)


def _neighbours(part: Part) -> list[str]:
    near = (part.side.beside(part.region.start, -1), part.side.beside(part.region.end, 1))
    return [*(piece.path for piece in near if piece is not None), *part.paths]


def _structured(path: str) -> bool:
    """True for what lies inside a tool, a document, an argument, or a message's list or object."""
    return path.startswith(("tools[", "documents[")) or len(_STEP.findall(path)) > 2


def _json_spacing(case: Case) -> str | None:
    if case.a.text.strip(_BLANKS) or case.b.text.strip(_BLANKS) or not _in_value(case):
        return None
    edges = [(p.side.utf8[: p.region.start].rstrip(_BLANKS)[-1:], p.side.utf8[p.region.end :].lstrip(_BLANKS)[:1]) for p in (case.a, case.b)]  # fmt: skip
    if edges[0] != edges[1] or not any(edge and edge in b"{}[],:" for edge in edges[0]):
        return None
    spelled = [f"{part.side.name} writes {part.text[:24].decode()!r}" for part in (case.a, case.b)]
    return f"{spelled[0]}, {spelled[1]} between {edges[0][0].decode()!r} and {edges[0][1].decode()!r} ({writers(case.a) or writers(case.b)})"  # fmt: skip


def _key_order(case: Case) -> str | None:
    for path in dict.fromkeys((*case.a.paths, *case.b.paths)):
        if (path in case.a.paths) == (path in case.b.paths) or not all(path in p.side.first_shown for p in (case.a, case.b)):  # fmt: skip
            continue
        parent = _parent(path)
        while _structured(f"{parent}.x"):
            orders = [_common_order(side.children(parent), other.children(parent)) for side, other in ((case.a.side, case.b.side), (case.b.side, case.a.side))]  # fmt: skip
            if orders[0] != orders[1]:
                names = [", ".join(child[len(parent) :].lstrip(".") for child in order[:6]) for order in orders]
                return f"{parent} has its keys as {names[0]} in A and as {names[1]} in B"
            parent = _parent(parent)
    return None


def _common_order(own: Iterable[str], other: Iterable[str]) -> list[str]:
    known = set(other)
    return [child for child in own if child in known and not child.endswith("]")]


def _tools_left_out(case: Case) -> str | None:
    return _tools(case, lambda path, other: not other.side.tools, "writes no tools")


def _tools_placed(case: Case) -> str | None:
    return _tools(
        case,
        lambda path, other: other.side.tools and case.a.side.before_tools != case.b.side.before_tools,
        "writes its tools elsewhere",
    )


def _tools(case: Case, test: Callable[[str, Part], bool], words: str) -> str | None:
    for part, other in case.parts:
        for path in part.paths:
            if path.startswith("tools[") and test(path, other):
                return f"{part.side.name} writes {path} here, {other.side.name} {words}; {both(case)}"
    return None


def _tools_rendered(case: Case) -> str | None:
    among = [_among_tools(part) for part in (case.a, case.b)]
    has = ["tool" in part.kinds for part in (case.a, case.b)]
    if (has[0] or among[0]) and (has[1] or among[1]):
        return ""
    return "" if any(has) and case.a.side.tools and case.b.side.tools else None


def _among_tools(part: Part) -> bool:
    near = (part.side.beside(part.region.start, -1), part.side.beside(part.region.end, 1))
    return all(piece is not None and piece.kind == "tool" for piece in near)


def _role_name(case: Case) -> str | None:
    words = [_role_word(part) for part in (case.a, case.b)]
    if not all(words) or words[0] == words[1]:
        return None
    if (
        not all(word.lower() in _ROLES for word in words)
        or _speaker(case.a) is None
        or _speaker(case.a) != _speaker(case.b)
    ):
        return None
    named = [f"{word.decode()!r} ({writers(part)})" for word, part in zip(words, (case.a, case.b))]
    return f"A writes {named[0]}, B {named[1]}"


def _speaker(part: Part) -> str | None:
    """Give what is said next: a message, another field, or "" at the end of the text; None if nothing is near."""
    after = part.side.beside(part.region.end, 1)
    if after is None:
        return "" if len(part.side.utf8) - part.region.end <= _NEAR else None
    return (_UNIT.match(after.path) or [after.path])[0]


def _role_word(part: Part) -> bytes:
    """Give the whole word that holds the region, if a control token or a line's begin stands before it; else b""."""
    word = _word(part)
    start = part.region.start - word.find(part.text)
    edge = part.side.utf8[max(start - 1, 0) : start]
    return word if edge in (b"", b"\n", b">", b"|", b"]") else b""


def _word(part: Part) -> bytes:
    """Give the whole word that holds the region; b"" if the region is no part of one word."""
    utf8, region = part.side.utf8, part.region
    if not re.fullmatch(rb"\w+", part.text):
        return b""
    before = re.search(rb"\w*$", utf8[max(region.start - 32, 0) : region.start])
    after = re.match(rb"\w*", utf8[region.end : region.end + 32])
    return (before[0] if before else b"") + part.text + (after[0] if after else b"")


def _special_token(case: Case) -> str | None:
    names = [{piece.path for piece in part.pieces if piece.kind == "special"} for part in (case.a, case.b)]
    shared = sorted(names[0] & names[1])
    if not shared or not all(part.kinds <= {"special"} for part in (case.a, case.b)):
        return None
    texts = [part.side.encoding.tokenizer.special_tokens.get(shared[0], "") for part in (case.a, case.b)]
    return f"{shared[0]} is {texts[0]} in A and {texts[1]} in B"


def _terminator(case: Case) -> str | None:
    seen = False
    for part in (case.a, case.b):
        if not part.text.strip(_BLANKS):
            continue
        flags = part.side.flags(part.region)
        if not flags or not control_mask(np.array(flags)).all() or "message" in part.kinds:
            return None
        ends = any(flag & TokenFlag.EOS for flag in flags)
        before = part.side.beside(part.region.start, -1)
        follows = before is not None and before.kind == "message" and not before.path.endswith(".role")
        seen = seen or ends or (follows and _ENDING.search(part.side.token_text(part.region)) is not None)
    return "" if seen else None


_ENDING = re.compile(rb"end|eo[stm]_|eo[stm]\b|</s>|<\|return\|>", re.IGNORECASE)


def _system_default(case: Case) -> str | None:
    request = case.a.side.inspection.request
    if not case.facts.same_request or request is None or not request.messages:
        return None
    if request.messages[0].get("role") in ("system", "developer") or case.a.side.tools or case.b.side.tools:
        return None
    for part, _other in case.parts:
        pure = part.kinds and part.kinds <= {"template", "clock", "special"}
        if pure and len(re.findall(rb"[A-Za-z]", part.text)) >= 12 and _before_messages(part) and _in_system(part):
            return f"no message gives a system prompt; {both(case)}"
    return None


def _before_messages(part: Part) -> bool:
    segments = part.side.segments
    first = np.flatnonzero(segments.kind == int(SegmentKind.MESSAGE))
    return not len(first) or part.region.end <= int(segments.start[first[0]])


def _in_system(part: Part) -> bool:
    """True if the turn that the region stands in is a system turn, by the word before or in it."""
    text = part.side.utf8[max(part.region.start - 400, 0) : part.region.end].lower()
    roles = list(re.finditer(rb"(?:>|\||\n|^|\])\s*(system|developer|user|assistant|model)\b", text))
    return any(match[1] in (b"system", b"developer") for match in roles) or b"<<sys>>" in text


def _fields(part: Part) -> list[str]:
    """Give the fields that wrote here, but for roles: a template may as well write those itself."""
    return [path for path in part.paths if not path.endswith(".role")]


def _field_left_out(case: Case) -> str | None:
    for part, other in case.parts:
        gone = [path for path in _fields(part) if path not in other.side.first_shown]
        if gone:
            return f"{other.side.name} never writes {gone[0]}; {both(case)}"
    return None


def _field_rewritten(case: Case) -> str | None:
    shared = [path for path in (*case.shared_paths(), *(path for path, x, y in _leaves(case) if x != y)) if not path.endswith(".role")]  # fmt: skip
    return f"{shared[0]} is not written in the same way; {both(case)}" if shared else None


def _field_moved(case: Case) -> str | None:
    for part, other in case.parts:
        moved = [path for path in _fields(part) if path in other.side.first_shown]
        if moved:
            return f"{other.side.name} writes {moved[0]} at another place; {both(case)}"
    return None


def _engine(case: Case) -> str | None:
    engines = [part.side.inspection.options.engine for part in (case.a, case.b)]
    if engines[0] == engines[1] or not any("unknown" in part.kinds for part in (case.a, case.b)):
        return None
    return f"A was rendered by {engines[0]}, B by {engines[1]}; {both(case)}"


def _template_text(case: Case) -> str | None:
    if not any(part.kinds & _TEMPLATE_KINDS for part in (case.a, case.b)):
        return None
    at_end = [part.region.start == len(part.side.utf8) for part in (case.a, case.b)]
    for (part, _other), ended in zip(case.parts, reversed(at_end)):
        if ended:
            return f"{part.side.name} goes on where the other ends: {wrote(part)}"
    return ""


def _role_left_out(case: Case) -> str | None:
    for part, other in case.parts:
        roles = [path for path in part.paths if path.endswith(".role")]
        if roles:
            return f"{part.side.name} writes {roles[0]} here, {other.side.name} does not; {both(case)}"
    return None


def _no_text(case: Case) -> str | None:
    kinds = [part.side.rendered.kind for part in (case.a, case.b)]
    if kinds[0] == kinds[1]:
        return None
    name = "A" if kinds[0] == "token_segments" else "B"
    return f"{name}'s tokenizer encodes the request itself: there is no text to compare"


RULES: tuple[tuple[Reason, Callable[[Case], str | None]], ...] = (
    (Reason.TOKEN_SEGMENTS, _no_text),
    (Reason.REQUEST, _request),
    (Reason.TEMPLATE_ARGUMENT, _only(Reason.TEMPLATE_ARGUMENT)),
    (Reason.GENERATION_PROMPT, _only(Reason.GENERATION_PROMPT)),
    (Reason.CONTINUED, _only(Reason.CONTINUED)),
    (Reason.CLOCK, _only(Reason.CLOCK)),
    (Reason.PROFILE, _only(Reason.PROFILE)),
    (Reason.BUDGET, _only(Reason.BUDGET)),
    (Reason.BOS, _bos),
    (Reason.SPECIAL_TOKEN, _special_token),
    (Reason.GENERATION_PROMPT, _generation_prompt),
    (Reason.CONTINUED, _continued),
    (Reason.CLOCK, _clock),
    (Reason.TEMPLATE_ARGUMENT, _argument),
    (Reason.BUDGET, _budget),
    (Reason.PROFILE, _profile),
    (Reason.REASONING_DROPPED, _reasoning),
    (Reason.MESSAGE_DROPPED, _message_dropped),
    (Reason.TRIMMED, _trimmed),
    (Reason.NUMBER_SPELLING, _number),
    (Reason.ESCAPING, _escaping),
    (Reason.JSON_OR_PYTHON, _json_or_python),
    (Reason.KEY_ORDER, _key_order),
    (Reason.JSON_SPACING, _json_spacing),
    (Reason.WHITESPACE, _whitespace),
    (Reason.TOOLS_LEFT_OUT, _tools_left_out),
    (Reason.TOOLS_PLACED, _tools_placed),
    (Reason.TOOLS_RENDERED, _tools_rendered),
    (Reason.ROLE_NAME, _role_name),
    (Reason.TERMINATOR, _terminator),
    (Reason.SYSTEM_DEFAULT, _system_default),
    (Reason.FIELD_LEFT_OUT, _field_left_out),
    (Reason.FIELD_REWRITTEN, _field_rewritten),
    (Reason.FIELD_MOVED, _field_moved),
    (Reason.ENGINE, _engine),
    (Reason.TEMPLATE_TEXT, _template_text),
    (Reason.FIELD_LEFT_OUT, _role_left_out),
)


_OF_SEGMENTS = frozenset(
    (Reason.REQUEST, Reason.TEMPLATE_ARGUMENT, Reason.GENERATION_PROMPT, Reason.CONTINUED, Reason.PROFILE, Reason.BUDGET,
     Reason.MESSAGE_DROPPED, Reason.TOOLS_LEFT_OUT, Reason.FIELD_LEFT_OUT)
)  # fmt: skip
# Where tokenizers encode requests themselves there is no text: only what paths and options tell.
SEGMENT_RULES = (
    *((reason, rule) for reason, rule in RULES if reason in _OF_SEGMENTS and rule is not _generation_prompt),
    (Reason.FIELD_REWRITTEN, lambda case: case.shared_paths()[0] if case.shared_paths() else None),
    (Reason.TEMPLATE_TEXT, lambda case: "" if case.a.kinds | case.b.kinds else None),
)


# --- rules for other tokens of the same text -----------------------------------------------------------------------


def _tokens(part: Part) -> slice:
    return slice(part.region.first, part.region.last)


def _inserted(case: Case) -> str | None:
    flags = [part.side.encoding.flags[_tokens(part)] for part in (case.a, case.b)]
    inserted = [(column & TokenFlag.INSERTED) != 0 for column in flags]
    if case.a.side.rendered.kind != "bytes" or not (inserted[0].any() or inserted[1].any()):
        return None
    ids = [part.side.encoding.input_ids[_tokens(part)] for part in (case.a, case.b)]
    if ids[0][~inserted[0]].tolist() != ids[1][~inserted[1]].tolist() and case.facts.same_tokenizer:
        return None
    names = [", ".join(part.side.encoding.tokenizer.piece(i) for i in column[mask].tolist()) or NOTHING for part, column, mask in zip((case.a, case.b), ids, inserted)]  # fmt: skip
    return f"A adds {names[0]}, B {names[1]}: it stands for no byte of the text"


def _control(case: Case) -> str | None:
    for part, other in case.parts:
        mine, others = (control_mask(p.side.encoding.flags[_tokens(p)]) for p in (part, other))
        if mine.any() and not others.any():
            token = part.side.encoding.token(part.region.first + int(np.flatnonzero(mine)[0]))
            return f"{token.piece} is one control token in {part.side.name} and ordinary text in {other.side.name}"
    return None


def _seam(case: Case) -> str | None:
    if not case.facts.same_tokenizer:
        return None
    return f"the same tokenizer, cut at other places; {_boundaries(case)}"


def _vocabulary(case: Case) -> str | None:
    spans = [(e.start[_tokens(p)] - p.region.start, e.end[_tokens(p)] - p.region.start) for p in (case.a, case.b) for e in (p.side.encoding,)]  # fmt: skip
    if not all(np.array_equal(x, y) for x, y in zip(*spans)):
        return None
    ids = [part.side.encoding.input_ids[_tokens(part)][:4].tolist() for part in (case.a, case.b)]
    return f"the same pieces have other ids: A {ids[0]}, B {ids[1]}"


def _boundaries(case: Case) -> str:
    texts = []
    for part in (case.a, case.b):
        encoding = part.side.encoding
        spans = list(zip(encoding.start[_tokens(part)].tolist(), encoding.end[_tokens(part)].tolist()))[:6]
        shown = "|".join(part.side.utf8[x:y].decode("utf-8", "replace") for x, y in spans)
        texts.append(f"{part.side.name} cuts {shown!r}")
    return ", ".join(texts)


def _normalizer(case: Case) -> str | None:
    a, b = (_split(part) for part in (case.a, case.b))
    if a[0].replace("▁", " ").strip() == b[0].replace("▁", " ").strip():
        return None
    return f"A makes {a[0][:40]!r} of it, B {b[0][:40]!r}"


def _pre_tokenizer(case: Case) -> str | None:
    a, b = (_split(part) for part in (case.a, case.b))
    return None if a[1] == b[1] else f"the pieces before the model differ; {_boundaries(case)}"


def _merges(case: Case) -> str | None:
    return f"the same text cut by other merges or another vocabulary; {_boundaries(case)}"


def _split(part: Part, around: int = 24) -> tuple[str, list[int]]:
    """Normalise and pre-tokenize a region with some text around it, up to control tokens; give the pieces' begins in it."""
    encoding, utf8 = part.side.encoding, part.side.utf8
    low, high = part.region.first, part.region.last
    while (
        low > 0
        and part.region.start - int(encoding.start[low - 1]) <= around
        and not control_mask(encoding.flags[low - 1])
    ):
        low -= 1
    while high < len(encoding) and int(encoding.end[high]) - part.region.end <= around and not control_mask(encoding.flags[high]):  # fmt: skip
        high += 1
    start, end = int(encoding.start[low]), int(encoding.end[high - 1])
    while start > 0 and utf8[start] & 0xC0 == 0x80:
        start -= 1
    text = utf8[start : max(end, start)].decode("utf-8", "ignore")
    normalized, begins = split_text(text, encoding.tokenizer, first=start == 0)
    lead = utf8[start : part.region.start].decode("utf-8", "ignore")
    before = len(lead) + (len(normalized) - len(text) if normalized.startswith("▁") and not text.startswith((" ", "▁")) else 0)  # fmt: skip
    shown = normalized[before : before + len(part.text.decode("utf-8", "ignore"))]
    return shown, [at - before for at in begins if 0 < at - before < len(shown)]


TOKEN_RULES: tuple[tuple[Reason, Callable[[Case], str | None]], ...] = (
    (Reason.TOKEN_SEGMENTS, _no_text),
    (Reason.INSERTED_TOKEN, _inserted),
    (Reason.CONTROL_MATCHING, _control),
    (Reason.SEAM, _seam),
    (Reason.VOCABULARY, _vocabulary),
    (Reason.NORMALIZER, _normalizer),
    (Reason.PRE_TOKENIZER, _pre_tokenizer),
    (Reason.MERGES, _merges),
)
