"""Strict JSON text: every fault with its place, every number with its spelling.

Reading accepts exactly RFC 8259 and refuses what Python's reader lets through: duplicate keys, NaN and Infinity,
numbers that overflow, lone surrogates, unbounded depth. Text that is fine is read by the interpreter's C reader;
only text that is not fine is walked a second time, slowly, to say where and why. Nothing is repaired here, and what
the values mean is not this module's business (request.py's).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from inspector.errors import ErrorKind, InspectorError

MAX_DIGITS = 4300  # CPython's own default bound for turning digits into an int


class SpelledInt(int):
    """An int whose digits as given differ from `str` of it (`-0`); `spelling` keeps them."""

    spelling: str

    def __new__(cls, spelling: str) -> SpelledInt:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return (SpelledInt, (self.spelling,))


class SpelledFloat(float):
    """A float whose digits as given differ from `str` of it (`1.10`, `1e5`); `spelling` keeps them."""

    __slots__ = ("spelling",)
    spelling: str

    def __new__(cls, spelling: str) -> SpelledFloat:
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return (SpelledFloat, (self.spelling,))


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How deep a text may nest (an array in the root array is depth 2) and how many keys one object may have."""

    depth: int = 64
    object_keys: int = 100_000


# --- paths -----------------------------------------------------------------------------------------------------------

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH_STEP = re.compile(r'\.?([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def child_path(parent: str, key: str | int) -> str:
    """Spell the path of a member or an element: `messages[2].content`, `properties["a b"]`.

    >>> child_path(child_path("messages", 2), "content"), child_path("properties", "a b")
    ('messages[2].content', 'properties["a b"]')
    """
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if _IDENTIFIER.fullmatch(key):
        return f"{parent}.{key}" if parent else key
    return f"{parent}[{_visible(json.dumps(key, ensure_ascii=False))}]"


def split_path(path: str) -> tuple[str | int, ...]:
    """Split a path into its keys and indices; the inverse of `child_path`.

    Errors: InputInvalid when the text is not a path.
    """
    steps: list[str | int] = []
    pos = 0
    while pos < len(path):
        match = _PATH_STEP.match(path, pos)
        if not match:
            raise InspectorError(
                ErrorKind.InputInvalid,
                f'{path!r} is not a path: character {pos + 1} begins neither .name nor [index] nor ["key"]',
                stage="request",
                where={"path": path},
                remedy="spell it like messages[2].content",
            )
        name, index, quoted = match.groups()
        steps.append(name if name is not None else int(index) if index is not None else json.loads(quoted))
        pos = match.end()
    return tuple(steps)


def _visible(text: str) -> str:
    """Spell lone surrogates as escapes, so that the text can be printed."""
    return re.sub(r"[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", text)


Place = Callable[[int], tuple[int, int]]  # an offset's line and column, in the text as a person wrote it


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Give the 1-based line and column, in characters, of an offset; CRLF, LF and CR end a line."""
    breaks = list(re.finditer(r"\r\n|\r|\n", text[:offset]))
    return len(breaks) + 1, offset - (breaks[-1].end() if breaks else 0) + 1


# --- reading ---------------------------------------------------------------------------------------------------------


class _Refused(ValueError):
    """Raised inside the C reader's hooks; the scan afterwards says where and why."""


def _read_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused
    return SpelledInt(digits) if digits == "-0" else int(digits)


def _read_float(digits: str) -> float:
    if len(digits) > MAX_DIGITS:
        raise _Refused
    number = float(digits)
    if number - number != 0:
        raise _Refused
    return number if repr(number) == digits else SpelledFloat(digits)


def _refuse_constant(name: str) -> float:
    raise _Refused(name)


def loads(
    text: str,
    *,
    root: str | None = None,
    limits: JsonLimits | None = None,
    stage: str = "request",
    place: Place | None = None,
) -> Any:
    """Read a JSON text strictly.

    `root` is the path of the text's value; None: `messages` for an array, the empty path for anything else. `place` says
    where an offset stands for the person, if the text was made from another one.
    Errors: InputInvalid (syntax, duplicate keys, NaN, overflow, depth), InputTooLarge (keys of one object),
    UnencodableText (lone surrogates); `where` has line, column and path.
    """
    limits = limits or JsonLimits()
    _refuse_raw_surrogates(text, stage)
    if root is None:
        root = "messages" if text.lstrip(" \t\r\n").startswith("[") else ""
    try:
        value = _decoder(limits).decode(text)
    except (ValueError, RecursionError) as error:
        raise _explain(text, root, limits, stage, error, place) from None
    if _too_deep(value, limits.depth) or _holds_surrogate(text, value):
        raise _explain(text, root, limits, stage, None, place)
    return value


@functools.lru_cache(maxsize=16)
def _decoder(limits: JsonLimits) -> json.JSONDecoder:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs) or len(value) > limits.object_keys:
            raise _Refused
        return value

    return json.JSONDecoder(
        object_pairs_hook=members, parse_int=_read_int, parse_float=_read_float, parse_constant=_refuse_constant
    )


def _too_deep(value: Any, depth: int) -> bool:
    level = [value] if type(value) in (dict, list) else []
    for _ in range(depth):
        if not level:
            return False
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) in (dict, list)
        ]
    return bool(level)


_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _holds_surrogate(text: str, value: Any) -> bool:
    if not _SURROGATE_ESCAPE.search(text):
        return False
    return bool(_SURROGATE.search(json.dumps(value, ensure_ascii=False)))


def _refuse_raw_surrogates(text: str, stage: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line, column = line_and_column(text, error.start)
        raise InspectorError(
            ErrorKind.UnencodableText,
            f"U+{ord(text[error.start]):04X} is half of a surrogate pair and has no UTF-8 form",
            stage=stage,
            where={"line": line, "column": column},
            remedy="remove the character or write the whole pair",
        ) from None


def _explain(
    text: str, root: str, limits: JsonLimits, stage: str, error: Exception | None, place: Place | None
) -> InspectorError:
    """Find the first fault of a text that the C reader refused."""
    scan = _Scan(text, root, limits, place=place)
    fault = scan.first_fault()
    if fault is not None:
        return fault.as_error(scan.place, stage)
    if isinstance(error, json.JSONDecodeError):
        line, column = scan.place(error.pos)
        return InspectorError(
            ErrorKind.InputInvalid, error.msg, stage=stage, where={"line": line, "column": column}, remedy="correct it"
        )
    return InspectorError(
        ErrorKind.RecursionLimit,
        "the interpreter's stack or number limits are too small to read this JSON text",
        stage=stage,
        remedy="call from a shallower stack",
    )


def locate(text: str, root: str, path: str, place: Place | None = None) -> tuple[int, int] | None:
    """Give line and column where the value at `path` begins, or of its nearest ancestor in the text; `place` as in `loads`."""
    steps, base = split_path(path) if path != "$" else (), split_path(root)
    for length in range(len(steps), len(base) - 1, -1):
        scan = _Scan(text, root, JsonLimits(depth=10**9, object_keys=10**9), steps[len(base) : length], place)
        scan.first_fault()
        if scan.found is not None:
            return scan.place(scan.found)
    return None


# --- the slow scan ---------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_STRING_PREFIX = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_WORD = re.compile(r"[^\W\d]\w*|-Infinity")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)|[^\\]", re.DOTALL)
_LITERALS = ("true", "false", "null")
_FOREIGN_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null", "nil": "null"}
_SIGNS = {
    "'": 'JSON strings take double quotes: "…"',
    "“": 'use straight double quotes "…"',
    "”": 'use straight double quotes "…"',
    "‘": 'use straight double quotes "…"',
    "’": 'use straight double quotes "…"',
    "/": "JSON has no comments: remove // and /* */",
    "#": "JSON has no comments: remove the line that starts with #",
    "<": "this looks like HTML or a template: paste JSON",
    "+": "a JSON number has no leading +",
    ".": "a JSON number needs a digit before the point: 0.5",
    "`": "JSON strings take double quotes, not backticks",
}


@dataclass(slots=True)
class _Fault:
    kind: ErrorKind
    offset: int
    path: str
    message: str
    remedy: str
    where: dict[str, Any] = field(default_factory=dict)

    def as_error(self, place: Place, stage: str) -> InspectorError:
        line, column = place(self.offset)
        where = {"path": self.path or "$", "line": line, "column": column, **self.where}
        return InspectorError(self.kind, self.message, stage=stage, where=where, remedy=self.remedy)


class _Found(Exception):
    def __init__(self, fault: _Fault | None) -> None:
        self.fault = fault


@dataclass(slots=True)
class _Frame:
    is_object: bool
    key: str | int | None
    seen: dict[str, int] = field(default_factory=dict)

    @property
    def close(self) -> str:
        return "}" if self.is_object else "]"


class _Scan:
    """Walk a text without recursion until its first fault, or until the value at `target`."""

    def __init__(
        self,
        text: str,
        root: str,
        limits: JsonLimits,
        target: tuple[str | int, ...] | None = None,
        place: Place | None = None,
    ) -> None:
        self.text, self.root, self.limits, self.target = text, root, limits, target
        self.place = place or (lambda offset: line_and_column(text, offset))
        self.stack: list[_Frame] = []
        self.found: int | None = None

    def first_fault(self) -> _Fault | None:
        try:
            self._walk()
        except _Found as found:
            return found.fault
        return None

    def _walk(self) -> None:
        pos, expect = self._skip(0), self._value
        while True:
            step = expect(pos)
            if step is None:
                return
            pos, expect = self._skip(step[0]), step[1]

    def _skip(self, pos: int) -> int:
        return _SPACE.match(self.text, pos).end()  # type: ignore[union-attr]

    def _path(self) -> str:
        path = self.root
        for frame in self.stack:
            path = path if frame.key is None else child_path(path, frame.key)
        return path

    def _fail(
        self,
        offset: int,
        message: str,
        remedy: str,
        kind: ErrorKind = ErrorKind.InputInvalid,
        where: dict[str, Any] | None = None,
    ) -> None:
        raise _Found(_Fault(kind, offset, self._path(), message, remedy, where or {}))

    def _value(self, pos: int) -> tuple[int, Any]:
        if self.target is not None and len(self.stack) == len(self.target) and self._at_target():
            self.found = pos
            raise _Found(None)
        char = self.text[pos : pos + 1]
        if char in ("[", "{"):
            return self._open(pos, char)
        return self._scalar(pos, char), self._after

    def _at_target(self) -> bool:
        return tuple(frame.key for frame in self.stack) == self.target

    def _open(self, pos: int, char: str) -> tuple[int, Any]:
        if len(self.stack) >= self.limits.depth:
            self._fail(
                pos,
                f"nested deeper than the limit of {self.limits.depth} levels",
                f"flatten the value to at most {self.limits.depth} levels",
                where={"limit": self.limits.depth},
            )
        frame = _Frame(char == "{", None if char == "{" else 0)
        inside = self._skip(pos + 1)
        if self.text[inside : inside + 1] == frame.close:
            return inside + 1, self._after
        self.stack.append(frame)
        return inside, self._key if frame.is_object else self._value

    def _scalar(self, pos: int, char: str) -> int:
        if char == '"':
            return self._string(pos)[0]
        number = _NUMBER.match(self.text, pos)
        if number:
            return self._number(pos, number)
        word = _WORD.match(self.text, pos)
        if word and word[0] in _LITERALS:
            return word.end()
        return self._no_value(pos, word)

    def _no_value(self, pos: int, word: re.Match[str] | None) -> int:
        if word and word[0] in ("NaN", "Infinity", "-Infinity"):
            self._fail(pos, f"{word[0]} is not a JSON value", "write a finite number, a string, or null")
        if word and word[0] in _FOREIGN_WORDS:
            self._fail(pos, f"expected a value, found {word[0]}", f"write {_FOREIGN_WORDS[word[0]]}")
        self._fail(pos, f"expected a value, found {self._found_text(pos)}", self._hint(pos, "write a JSON value here"))
        return pos

    def _number(self, pos: int, match: re.Match[str]) -> int:
        digits, end = match[0], match.end()
        if self.text[end : end + 1].isdigit():
            self._fail(pos, "a number begins with a needless 0", "remove the leading zeros")
        if self.text[end : end + 1] == ".":
            self._fail(end, "a digit must follow the decimal point", "write 1.0 rather than 1.")
        if len(digits) > MAX_DIGITS:
            self._fail(
                pos,
                f"a number of {len(digits)} characters; the limit is {MAX_DIGITS}",
                "write it as a string",
                where={"limit": MAX_DIGITS},
            )
        if (match[1] or match[2]) and float(digits) in (float("inf"), float("-inf")):
            self._fail(
                pos, f"the number {shorten(digits)} is too large: it would become infinite", "write it as a string"
            )
        return end

    def _string(self, pos: int) -> tuple[int, str]:
        match = _STRING.match(self.text, pos)
        if not match:
            self._broken_string(pos)
        raw = match[0]  # type: ignore[index]
        if "\\" not in raw:
            return match.end(), raw[1:-1]  # type: ignore[union-attr]
        if _SURROGATE_ESCAPE.search(raw):
            self._check_surrogates(pos, raw)
        return match.end(), json.loads(raw)  # type: ignore[union-attr]

    def _broken_string(self, pos: int) -> None:
        end = _STRING_PREFIX.match(self.text, pos).end()  # type: ignore[union-attr]
        char = self.text[end : end + 1]
        if not char:
            self._fail(pos, "the string that begins here is never closed", 'add the missing "')
        if char == "\\":
            shown = self.text[end : end + (6 if self.text[end + 1 : end + 2] == "u" else 2)]
            self._fail(end, f"{shown!r} is not a JSON escape", "write \\\\ for a backslash, \\uXXXX for a code unit")
        name = {"\n": "line break", "\r": "carriage return", "\t": "tab"}.get(
            char, f"control character U+{ord(char):04X}"
        )
        escape = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, f"\\u{ord(char):04x}")
        self._fail(end, f"a raw {name} inside a string", f'write {escape} (or close the string with ")')

    def _check_surrogates(self, pos: int, raw: str) -> None:
        high: tuple[int, int, int] | None = None  # offset, index in characters of the decoded string, code unit
        index = 0
        for match in _ESCAPE.finditer(raw, 1, len(raw) - 1):
            unit = int(match[1], 16) if match[1] else 0
            if high and not 0xDC00 <= unit <= 0xDFFF:
                self._lone(*high)
            if not high and 0xDC00 <= unit <= 0xDFFF:
                self._lone(pos + match.start(), index, unit)
            if high:
                high = None  # the pair is one character, already counted
                continue
            high = (pos + match.start(), index, unit) if 0xD800 <= unit <= 0xDBFF else None
            index += 1
        if high:
            self._lone(*high)

    def _lone(self, offset: int, index: int, unit: int) -> None:
        self._fail(
            offset,
            f"\\u{unit:04x} is half of a surrogate pair and has no UTF-8 form (character {index} of the string)",
            "write the whole pair (\\ud83d\\ude00) or remove it",
            ErrorKind.UnencodableText,
            {"index": index, "code_point": f"U+{unit:04X}"},
        )

    def _key(self, pos: int) -> tuple[int, Any]:
        frame = self.stack[-1]
        frame.key = None
        if self.text[pos : pos + 1] != '"':
            hint = self._hint(pos, 'put the key in double quotes: "key": …')
            self._fail(pos, f"expected a key in double quotes, found {self._found_text(pos)}", hint)
        end, key = self._string(pos)
        frame.key = key
        if key in frame.seen:
            self._duplicate(pos, frame.seen[key], key)
        frame.seen[key] = pos
        if len(frame.seen) > self.limits.object_keys:
            self._too_many_keys(pos)
        colon = self._skip(end)
        if self.text[colon : colon + 1] != ":":
            self._fail(
                colon, f"expected : after the key, found {self._found_text(colon)}", self._hint(colon, "write :")
            )
        return colon + 1, self._value

    def _duplicate(self, pos: int, first: int, key: str) -> None:
        line, column = self.place(first)
        self._fail(
            pos,
            f"DuplicateKey: {shorten(self._path())} is given twice, first at line {line} column {column}",
            f"keep one {shorten(_visible(json.dumps(key, ensure_ascii=False)))} in this object",
            where={"first_line": line, "first_column": column},
        )

    def _too_many_keys(self, pos: int) -> None:
        limit = self.limits.object_keys
        self.stack[-1].key = None
        self._fail(
            pos,
            f"more than {limit:,} keys in one object",
            f"send at most {limit:,} keys",
            ErrorKind.InputTooLarge,
            {"limit": limit},
        )

    def _after(self, pos: int) -> tuple[int, Any] | None:
        if not self.stack:
            self._check_end(pos)
            return None
        frame, char = self.stack[-1], self.text[pos : pos + 1]
        if char == frame.close:
            self.stack.pop()
            return pos + 1, self._after
        if char != ",":
            found, hint = self._found_text(pos), self._hint(pos, f"write , or {frame.close} here")
            self._fail(pos, f"expected , or {frame.close}, found {found}", hint)
        following = self._skip(pos + 1)
        if self.text[following : following + 1] == frame.close:
            self._fail(pos, f"a trailing comma before {frame.close}", "remove the comma")
        if not frame.is_object:
            frame.key += 1  # type: ignore[operator]
        return following, self._key if frame.is_object else self._value

    def _check_end(self, pos: int) -> None:
        if pos == len(self.text):
            return
        lines = self.text[pos] in "[{" and "\n" in self.text[:pos]
        hint = "wrap JSON Lines into one array: [ … , … ]" if lines else "remove the text after the value"
        self._fail(pos, f"text after the JSON value: {self._found_text(pos)}", self._hint(pos, hint))

    def _found_text(self, pos: int) -> str:
        if pos >= len(self.text):
            return "the end of the text"
        word = _WORD.match(self.text, pos)
        return shorten(word[0]) if word else repr(self.text[pos])

    def _hint(self, pos: int, otherwise: str) -> str:
        return _SIGNS.get(self.text[pos : pos + 1], otherwise)


def shorten(text: str) -> str:
    """Cut a text to what fits into a one-line message."""
    return text if len(text) <= 80 else f"{text[:77]}… ({len(text)} characters)"


# --- printing --------------------------------------------------------------------------------------------------------

_CONTAINERS = (dict, list, tuple)


def dumps(value: Any, indent: int | None = None) -> str:
    """Print JSON: key order and non-ASCII text as they are, numbers as spelled.

    Parts without a spelled number go through the interpreter's own printer whole.
    Errors: ValueError for NaN or infinity, which JSON has not.
    """
    if type(value) in (SpelledInt, SpelledFloat):
        return str(value.spelling)
    if not isinstance(value, _CONTAINERS) or not holds_spelled(value):
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    if isinstance(value, dict):
        parts = (f"{json.dumps(str(key), ensure_ascii=False)}: {dumps(item, indent)}" for key, item in value.items())
        return _bracket("{", parts, "}", indent)
    return _bracket("[", (dumps(item, indent) for item in value), "]", indent)


def _bracket(open_: str, parts: Iterable[str], close: str, indent: int | None) -> str:
    if indent is None:
        return f"{open_}{', '.join(parts)}{close}"
    pad = " " * indent  # printed strings hold no raw line break, so every "\n" here is the printer's own
    return open_ + ",".join(f"\n{pad}" + part.replace("\n", "\n" + pad) for part in parts) + f"\n{close}"


def holds_spelled(value: Any) -> bool:
    """Tell whether a container holds a spelled number at any depth."""
    level = [value]
    while level:  # level by level, so that the interpreter's own loops do the work
        items = list(chain.from_iterable(x.values() if isinstance(x, dict) else x for x in level))
        kinds = set(map(type, items))
        if SpelledInt in kinds or SpelledFloat in kinds:
            return True
        containers = {kind for kind in kinds if issubclass(kind, _CONTAINERS)}
        level = [item for item in items if type(item) in containers] if containers else []
    return False
