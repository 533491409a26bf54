"""Strings and numbers whose characters know where they came from.

A `Traced` is a `str` that carries *runs*: stretches of characters with the field (or template line) they were copied
from. Every `str` operation gives the same text as `str` and carries the runs along; what an operation rewrites
(a capitalised letter) becomes a `DERIVED` run that names the fields it was made from, and an escaped character
(a quote in JSON, `&lt;` in HTML) keeps its field but no offset. Nothing is guessed: text whose source was lost is
`DERIVED` without a path.

This module knows neither templates nor requests: engines/ decides what is wrapped, render.py turns runs into
segments. Trap: no attribute here may have a name that a template could read, so everything private starts with "_".
"""

from __future__ import annotations

import enum
import json
import operator
import re
import string
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import numpy as np
from markupsafe import Markup

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import child_path


class SegmentKind(enum.IntEnum):
    """Who wrote a stretch of the rendered text; the lower-case name is its spelling in `inspection/1`."""

    TEMPLATE = 0  # literal text, string constants and numbers that the template computed
    MESSAGE = 1  # a field of a message
    TOOL = 2  # a field of a tool
    DOCUMENT = 3  # a field of a document
    KWARG = 4  # a template argument
    SPECIAL = 5  # a special token that the tokenizer passes by name (bos_token, ...)
    CLOCK = 6  # strftime_now
    DERIVED = 7  # rewritten from the fields that its path names
    UNKNOWN = 8  # the traced text differs from the reference, nothing is known


class Origin:
    """A source of characters: one field of the request, one special token, the clock, or the template.

    `exact` says that a run's offset is a place in `text`, the field's own text; it is False for dict keys (their path
    is that of the value), for numbers printed otherwise than spelled, and for derived text. `inputs` are the paths a
    derived origin was made from. `owner` is the index of the message that a written field belongs to; a message's role
    and name are no part of what it says, so they have none. Compared by identity.
    """

    __slots__ = ("_respelled", "exact", "inputs", "kind", "owner", "path", "text")

    def __init__(
        self,
        kind: SegmentKind,
        path: str,
        text: str = "",
        exact: bool = False,
        owner: int = -1,
        inputs: tuple[str, ...] = (),
    ) -> None:
        self.kind, self.path, self.text, self.exact = kind, path, text, exact
        self.owner, self.inputs = owner, inputs
        self._respelled: Origin | None = None

    def respelled(self) -> Origin:
        """Give the origin of this field's characters where they are spelled otherwise (escaped): no verbatim copy."""
        if not self.exact:
            return self
        if self._respelled is None:
            self._respelled = Origin(self.kind, self.path, "", False, self.owner)
        return self._respelled

    def __reduce__(self) -> Any:
        if self is TEMPLATE:
            return "TEMPLATE"
        if self is UNKNOWN:
            return "UNKNOWN"
        return Origin, (self.kind, self.path, self.text, self.exact, self.owner, self.inputs)

    def __repr__(self) -> str:
        return f"Origin({self.kind.name}, {self.path!r})"


# One entry a run: characters, origin, offset (characters into the origin's text), and tag: the 1-based template line (0:
# not stamped yet) and IN_GENERATION. Plain tuples: making named ones is slower.
Runs = tuple[tuple[int, Origin, int, int], ...]

NOBODY = -1
TEMPLATE = Origin(SegmentKind.TEMPLATE, "")
UNKNOWN = Origin(SegmentKind.UNKNOWN, "")
_OWNED = re.compile(r"messages\[(\d+)\](?!\.(?:role|name)$)")


def owner_of(path: str) -> int:
    """Give the message that a field belongs to, NOBODY for roles, names and what is no message's.

    >>> owner_of("messages[2].tool_calls[0].function.name"), owner_of("messages[2].role")
    (2, -1)
    """
    match = _OWNED.match(path)
    return int(match[1]) if match else NOBODY


IN_GENERATION = 1 << 40  # set in a run's tag inside {% generation %}
LINE_MASK = IN_GENERATION - 1
MAX_NAMED_INPUTS = 8

_plain_str = str.__new__


@lru_cache(maxsize=4096)
def _derived_origin(inputs: tuple[str, ...]) -> Origin:
    named = ", ".join(inputs[:MAX_NAMED_INPUTS]) + (", …" if len(inputs) > MAX_NAMED_INPUTS else "")
    owner = owner_of(inputs[0]) if inputs else NOBODY
    return Origin(SegmentKind.DERIVED, named, owner=owner, inputs=inputs)


LOST = _derived_origin(())  # text whose source cannot be named


def _inputs_of(origin: Origin) -> tuple[str, ...]:
    if origin.kind is SegmentKind.DERIVED:
        return origin.inputs
    return (origin.path,) if origin.path else ()


def _blur(runs: Runs) -> Runs:
    """Give the runs of rewritten characters: no longer copies, but still made from the same fields."""
    return tuple(
        run if run[1] is TEMPLATE else (run[0], _derived_origin(_inputs_of(run[1])), 0, run[3]) for run in runs
    )


def make(text: str, runs: Runs) -> Traced:
    """Give a Traced with these runs, whose lengths must sum to the text's."""
    traced = _plain_str(Traced, text)
    traced._runs = runs
    return traced


def whole(text: str, origin: Origin, tag: int = 0) -> Traced:
    """Give a Traced that is a copy of all of the origin's text."""
    return make(text, ((len(text), origin, 0, tag),) if text else ())


def runs_of(text: str) -> Runs:
    """Give the runs of any string; a plain one has lost its source."""
    if isinstance(text, Traced):
        return text._runs
    return ((len(text), LOST, 0, 0),) if text else ()


def derive(text: str, *sources: str) -> Traced:
    """Give a Traced for text that was made from the sources in a way that cannot be followed."""
    runs = [run for source in sources for run in runs_of(source)]
    if not text:
        return make(text, ())
    foreign = [run for run in runs if run[1] is not TEMPLATE]
    tag = runs[0][3] & LINE_MASK if runs and not foreign else 0
    if runs and all(run[3] & IN_GENERATION for run in runs):
        tag |= IN_GENERATION
    if runs and not foreign:
        return make(text, ((len(text), TEMPLATE, 0, tag),))
    inputs = dict.fromkeys(path for run in foreign for path in _inputs_of(run[1]))
    return make(text, ((len(text), _derived_origin(tuple(inputs)), 0, tag),))


def _cut(runs: Runs, start: int, end: int) -> Runs:
    """Give the runs of characters start..end (0 <= start <= end <= length)."""
    if start >= end:
        return ()
    if len(runs) == 1:
        _, origin, offset, tag = runs[0]
        return ((end - start, origin, offset + start, tag),)
    out = []
    position = 0
    for chars, origin, offset, tag in runs:
        low = start - position if start > position else 0
        position += chars
        if position > start:
            high = chars if position <= end else chars - (position - end)
            out.append((high - low, origin, offset + low, tag))
            if position >= end:
                break
    return tuple(out)


def _extend(out: list[tuple[int, Origin, int, int]], runs: Runs) -> None:
    """Append runs, joining the seam where the first continues the last."""
    if not runs:
        return
    if out:
        chars, origin, offset, tag = out[-1]
        first = runs[0]
        if first[1] is origin and first[3] == tag and first[2] == offset + chars:
            out[-1] = (chars + first[0], origin, offset, tag)
            out.extend(runs[1:])
            return
    out.extend(runs)


def _joined(pieces: Iterable[Runs]) -> Runs:
    out: list[tuple[int, Origin, int, int]] = []
    for runs in pieces:
        _extend(out, runs)
    return tuple(out)


def _merged(runs: Iterable[tuple[int, Origin, int, int]]) -> Runs:
    """Join every run that continues the one before it."""
    out: list[tuple[int, Origin, int, int]] = []
    last_origin, last_tag, last_end = None, -1, -1
    for run in runs:
        chars, origin, offset, tag = run
        if origin is last_origin and offset == last_end and tag == last_tag:
            before = out[-1]
            out[-1] = (before[0] + chars, origin, before[2], tag)
        else:
            out.append(run)
            last_origin, last_tag = origin, tag
        last_end = offset + chars
    return tuple(out)


MANY_RUNS = 16  # above this, seams are merged: a template that adds character to character stays linear
_get_runs = attrgetter("_runs")


def add(items: tuple[Any, ...]) -> Any:
    """Do `a + b + c + ...`; strings are joined at once, anything else is added as Python adds it."""
    for item in items:
        if type(item) is not Traced:
            return computed(reduce(operator.add, items), *items)
    runs = tuple(chain.from_iterable(map(_get_runs, items)))
    return make("".join(items), _merged(runs) if len(runs) > MANY_RUNS else runs)


def add_parts(items: tuple[Any, ...]) -> Any:
    """Do what `add` does for an output: strings may stay apart, `concat` and `assemble` join them."""
    for item in items:
        if type(item) is not Traced:
            return traced_str(computed(reduce(operator.add, items), *items))
    return items


def flattened(parts: Iterable[Any]) -> tuple[list[str], list[int]]:
    """Give the strings of a template's outputs and the line of each (0: it knows its own).

    An output is a string, a (string, line) pair, or a (tuple of strings, line) pair.
    """
    texts: list[str] = []
    lines: list[int] = []
    for part in parts:
        if type(part) is tuple:
            text, line = part
            if type(text) is tuple:
                texts += text
                lines += (line,) * len(text)
            elif text:
                texts.append(text)
                lines.append(line)
        elif part:
            texts.append(part)
            lines.append(0)
    return texts, lines


def concat(parts: Iterable[Any]) -> Traced:
    """Join the outputs of a template (the environment's `concat`); runs that no line wrote yet get their output's."""
    texts, lines = flattened(parts)
    runs: list[tuple[int, Origin, int, int]] = []
    for text, line in zip(texts, lines):
        own = runs_of(text)
        if line:
            own = tuple(run if run[3] & LINE_MASK else (run[0], run[1], run[2], run[3] | line) for run in own)
        runs += own
    return make("".join(texts), _merged(runs) if len(runs) > MANY_RUNS else tuple(runs))


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """A whole rendered text with its runs as columns, not merged.

    Shapes: chars, offset, tag int64[n], one entry a run, beside `origins`. Units: characters.
    """

    text: str
    chars: np.ndarray
    origins: tuple[Origin, ...]
    offset: np.ndarray
    tag: np.ndarray


def assemble(parts: Iterable[Any]) -> RunTable:
    """Do what `concat` does, for the whole of a render at once."""
    texts, lines = flattened(parts)
    try:
        held = list(map(_get_runs, texts))
    except AttributeError:  # some part is a plain str
        held = list(map(runs_of, texts))
    runs = list(chain.from_iterable(held))
    stamp = column(lines)
    if len(runs) != len(texts) or () in held:
        stamp = np.repeat(stamp, column(list(map(len, held))))
    chars, origins, offset, tag = zip(*runs) if runs else ((), (), (), ())
    columns = column((*chars, *offset, *tag)).reshape(3, -1)
    tags = np.where(columns[2] & LINE_MASK, columns[2], columns[2] | stamp)
    return RunTable("".join(texts), columns[0], origins, columns[1], tags)


def column(values: Sequence[int]) -> np.ndarray:
    """Give integers as int64, read-only. Packing is twice as fast as numpy's own conversion."""
    return np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)


class _Reader:
    """Takes runs off the front, in one pass however many pieces are taken."""

    __slots__ = ("_index", "_runs", "_used")

    def __init__(self, runs: Runs) -> None:
        self._runs, self._index, self._used = runs, 0, 0

    def take(self, chars: int) -> Runs:
        """Give the runs of the next characters."""
        out = []
        while chars:
            length, origin, offset, tag = self._runs[self._index]
            step = min(chars, length - self._used)
            out.append((step, origin, offset + self._used, tag))
            self._used += step
            chars -= step
            if self._used == length:
                self._index, self._used = self._index + 1, 0
        return tuple(out)


def substitute(source: str, pattern: re.Pattern[str], spell: Callable[[str], str]) -> tuple[str, Runs]:
    """Escape each match of a pattern; what is between keeps its runs, what is escaped its field but no offset."""
    reader = _Reader(runs_of(source))
    texts: list[str] = []
    out: list[tuple[int, Origin, int, int]] = []
    done = 0
    for match in pattern.finditer(source):
        found = match.group()
        spelled = spell(found)
        if spelled == found:
            continue
        start, end = match.span()
        _extend(out, reader.take(start - done))
        runs = reader.take(end - start)
        texts += (str.__getitem__(source, slice(done, start)), spelled)
        if spelled:
            out.append((len(spelled), *_escaped_source(runs)))
        done = end
    if not done:
        return source, runs_of(source)
    texts.append(str.__getitem__(source, slice(done, None)))
    _extend(out, reader.take(len(source) - done))
    return "".join(texts), tuple(out)


def _escaped_source(runs: Runs) -> tuple[Origin, int, int]:
    if len(runs) == 1:
        return runs[0][1].respelled(), 0, runs[0][3]
    return derive("x", make("x" * sum(run[0] for run in runs), runs))._runs[0][1:]


def _changed_in_place(source: Traced, text: str) -> Traced:
    """Give text of a case method: characters that stayed keep their source, the others are derived from it."""
    if text == source:
        return source
    if len(text) != len(source):
        return source._like_text(derive(text, source))
    reader = _Reader(source._runs)
    out: list[tuple[int, Origin, int, int]] = []
    start = 0
    same = [a == b for a, b in zip(text, str.__str__(source))]
    for position in range(1, len(text) + 1):
        if position == len(text) or same[position] != same[start]:
            runs = reader.take(position - start)
            _extend(out, runs if same[start] else _blur(runs))
            start = position
    return source._like(text, tuple(out))


def align(text: str, source: str) -> Traced:
    """Give runs to text that holds the source once, padded or cut (`%10s`, `{:>8}`, `center`)."""
    if isinstance(source, Traced) and text == source:
        return make(text, source._runs)
    start = text.find(source) if source else -1
    if start >= 0 and text.count(source) == 1:
        before, after = text[:start], text[start + len(source) :]
        return concat((pad(before), source, pad(after)))
    if text and source.startswith(text):
        return make(text, _cut(runs_of(source), 0, len(text)))
    return derive(text, source)


def pad(text: str) -> Traced:
    """Give filler that the template asked for: it counts as written by the template's line."""
    return whole(text, TEMPLATE)


class Traced(str):
    """A `str` whose characters know their origin; behaves as `str` in every other way.

    `==`, `hash`, `in`, `find`, `startswith`, ... are inherited, so that lookups and tests cost what they cost for `str`.
    """

    __slots__ = ("_runs",)
    _runs: Runs

    def __new__(cls, text: Any = "", runs: Runs | None = None) -> Traced:
        """Wrap text; without runs it keeps those that the text has."""
        plain_text = text if isinstance(text, str) else str(text)
        traced = _plain_str(cls, plain_text)
        traced._runs = runs_of(plain_text) if runs is None else runs
        return traced

    def _like(self, text: str, runs: Runs) -> Traced:
        return make(text, runs)

    def _like_text(self, text: Traced) -> Traced:
        return text

    def _arg(self, text: str) -> str:
        return text

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> Any:
        return type(self), (str.__str__(self), self._runs)

    def _slice(self, start: int, end: int) -> Traced:
        if start == 0 and end == str.__len__(self):
            return self
        return self._like(str.__getitem__(self, slice(start, end)), _cut(self._runs, start, end))

    def __getitem__(self, key: Any) -> Traced:
        text = str.__getitem__(self, key)
        if not isinstance(key, slice):
            index = key.__index__()
            index += len(self) if index < 0 else 0
            return self._like(text, _cut(self._runs, index, index + 1))
        start, end, step = key.indices(len(self))
        if step == 1:
            return self._slice(start, max(start, end))
        places = range(start, end, step)
        if len(self._runs) > 1 and step < 0:
            return self._like(text, _joined(reversed([_cut(self._runs, i, i + 1) for i in reversed(places)])))
        return self._like(text, _joined(_cut(self._runs, i, i + 1) for i in places))

    def __iter__(self) -> Iterator[Traced]:
        reader = _Reader(self._runs)
        for char in str.__iter__(self):
            yield self._like(char, reader.take(1))

    def __add__(self, other: str) -> Traced:
        if not isinstance(other, str):
            return NotImplemented
        other = self._arg(other)
        runs = self._runs + runs_of(other)
        return self._like(str.__add__(self, other), _merged(runs) if len(runs) > MANY_RUNS else runs)

    def __radd__(self, other: str) -> Traced:
        if not isinstance(other, str):
            return NotImplemented
        other = self._arg(other)
        runs = runs_of(other) + self._runs
        return self._like(str.__add__(other, self), _merged(runs) if len(runs) > MANY_RUNS else runs)

    def __mul__(self, count: Any) -> Traced:
        text = str.__mul__(self, count)
        if text is NotImplemented:
            return NotImplemented
        return self._like(text, self._runs * (len(text) // len(self) if self else 0))

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Traced:
        return _percent(self, values)

    def __rmod__(self, template: Any) -> Any:
        if not isinstance(template, str):
            return NotImplemented
        return _percent(make(template, runs_of(template)), self)

    def lstrip(self, chars: str | None = None, /) -> Traced:
        return self._slice(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> Traced:
        return self._slice(0, len(str.rstrip(self, chars)))

    def strip(self, chars: str | None = None, /) -> Traced:
        text = str.strip(self, chars)
        if len(text) == len(self):
            return self
        start = len(self) - len(str.lstrip(self, chars)) if text else 0
        return self._like(text, _cut(self._runs, start, start + len(text)))

    def removeprefix(self, prefix: str, /) -> Traced:
        return self._slice(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> Traced:
        return self._slice(0, len(str.removesuffix(self, suffix)))

    def _pieces(self, pieces: Sequence[str], separator: str | None) -> list[Traced]:
        """Give runs to the pieces of a split, which lie one after the other in this text."""
        reader = _Reader(self._runs)
        out = []
        done = 0
        for piece in pieces:
            start = str.index(self, piece, done) if separator is None else done
            reader.take(start - done)
            out.append(self._like(piece, reader.take(len(piece))))
            done = start + len(piece)
            if separator is not None and done < len(self):
                reader.take(len(separator))
                done += len(separator)
        return out

    def split(self, sep: str | None = None, maxsplit: Any = -1) -> list[Traced]:  # type: ignore[override]
        return self._pieces(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: Any = -1) -> list[Traced]:  # type: ignore[override]
        pieces = str.rsplit(self, sep, maxsplit)
        if sep is not None:
            return self._pieces(pieces, sep)
        # Trap: with a maxsplit the first piece keeps inner blanks, so the pieces are found from the end.
        out: list[Traced] = []
        end = len(self)
        for piece in reversed(pieces):
            start = str.rindex(self, piece, 0, end)
            out.append(self._slice(start, start + len(piece)))
            end = start
        return out[::-1]

    def splitlines(self, keepends: Any = False) -> list[Traced]:  # type: ignore[override]
        reader = _Reader(self._runs)
        out = []
        for line, full in zip(str.splitlines(self, keepends), str.splitlines(self, True)):
            out.append(self._like(line, reader.take(len(line))))
            reader.take(len(full) - len(line))
        return out

    def partition(self, sep: str, /) -> tuple[Traced, Traced, Traced]:
        start = len(str.partition(self, sep)[0])
        end = min(start + len(sep), len(self))
        return self._slice(0, start), self._slice(start, end), self._slice(end, len(self))

    def rpartition(self, sep: str, /) -> tuple[Traced, Traced, Traced]:
        head, found, _ = str.rpartition(self, sep)
        start, end = len(head), len(head) + len(found)
        return self._slice(0, start), self._slice(start, end), self._slice(end, len(self))

    def replace(self, old: str, new: str, count: Any = -1, /) -> Traced:
        new = self._arg(new)
        text = str.replace(self, old, new, count)
        if text == self:
            return self
        reader = _Reader(self._runs)
        inserted = runs_of(new)
        out: list[tuple[int, Origin, int, int]] = []
        left, done = (count.__index__() if count >= 0 else len(self) + 1), 0
        while left and done <= len(self):
            start = str.find(self, old, done)
            if start < 0:
                break
            _extend(out, reader.take(start - done))
            _extend(out, inserted)
            reader.take(len(old))
            done, left = start + len(old), left - 1
            if not old:
                step = min(1, len(self) - done)
                _extend(out, reader.take(step))
                done += 1
        if done < len(self):
            _extend(out, reader.take(len(self) - done))
        return self._like(text, tuple(out))

    def join(self, items: Iterable[str], /) -> Traced:
        kept = [self._arg(item) if isinstance(item, str) else item for item in items]
        text = str.join(self, kept)
        out: list[tuple[int, Origin, int, int]] = []
        for position, item in enumerate(kept):
            if position:
                _extend(out, self._runs)
            _extend(out, runs_of(item))
        return self._like(text, tuple(out))

    def lower(self) -> Traced:
        return _changed_in_place(self, str.lower(self))

    def upper(self) -> Traced:
        return _changed_in_place(self, str.upper(self))

    def title(self) -> Traced:
        return _changed_in_place(self, str.title(self))

    def capitalize(self) -> Traced:
        return _changed_in_place(self, str.capitalize(self))

    def swapcase(self) -> Traced:
        return _changed_in_place(self, str.swapcase(self))

    def casefold(self) -> Traced:
        return _changed_in_place(self, str.casefold(self))

    def _padded(self, text: str, left: int, fill: str) -> Traced:
        if len(text) == len(self):
            return self
        right = len(text) - len(self) - left
        fill_runs = runs_of(fill) if isinstance(fill, Traced) else ((1, TEMPLATE, 0, 0),)
        return self._like(text, (*(fill_runs * left), *self._runs, *(fill_runs * right)))

    def ljust(self, width: Any, fillchar: str = " ", /) -> Traced:
        return self._padded(str.ljust(self, width, fillchar), 0, fillchar)

    def rjust(self, width: Any, fillchar: str = " ", /) -> Traced:
        text = str.rjust(self, width, fillchar)
        return self._padded(text, len(text) - len(self), fillchar)

    def center(self, width: Any, fillchar: str = " ", /) -> Traced:
        text = str.center(self, width, fillchar)
        total = len(text) - len(self)
        return self._padded(text, total // 2 + (total & width.__index__() & 1), fillchar)

    def zfill(self, width: Any, /) -> Traced:
        text = str.zfill(self, width)
        sign = 1 if self[:1] in ("+", "-") and len(text) > len(self) else 0
        zeros = ((len(text) - len(self), TEMPLATE, 0, 0),) if len(text) > len(self) else ()
        return self._like(text, (*_cut(self._runs, 0, sign), *zeros, *_cut(self._runs, sign, len(self))))

    def expandtabs(self, tabsize: Any = 8) -> Traced:
        text = str.expandtabs(self, tabsize)
        reader = _Reader(self._runs)
        out: list[tuple[int, Origin, int, int]] = []
        column, size = 0, tabsize.__index__()
        for char in str.__iter__(self):
            runs = reader.take(1)
            if char == "\t":
                width = size - column % size if size > 0 else 0
                _extend(out, ((width, *_blur(runs)[0][1:]),) if width else ())
                column += width
            else:
                _extend(out, runs)
                column = 0 if char in "\r\n" else column + 1
        return self._like(text, tuple(out))

    def translate(self, table: Any, /) -> Traced:
        reader = _Reader(self._runs)
        out: list[tuple[int, Origin, int, int]] = []
        for char in str.__iter__(self):
            new, runs = str.translate(char, table), reader.take(1)
            if new == char:
                _extend(out, runs)
            elif new:
                _extend(out, ((len(new), *_blur(runs)[0][1:]),))
        return self._like(str.translate(self, table), tuple(out))

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return TracedBytes(str.encode(self, encoding, errors), self)

    def format(self, *args: Any, **kwargs: Any) -> Traced:
        return format_traced(self, args, kwargs, string.Formatter())

    def format_map(self, mapping: Any, /) -> Traced:
        return format_traced(self, (), mapping, string.Formatter())


class TracedMarkup(Traced, Markup):  # type: ignore[misc]
    """A `Markup` that carries runs: what `|safe` and `|e` give. Escapes what is joined to it, as Markup does."""

    __slots__ = ()

    def __new__(cls, text: Any = "", runs: Runs | None = None) -> TracedMarkup:
        if hasattr(text, "__html__"):
            text = text.__html__()
        plain_text = text if isinstance(text, str) else traced_str(text)
        traced = _plain_str(cls, plain_text)
        traced._runs = runs_of(plain_text) if runs is None else runs
        return traced

    def _like(self, text: str, runs: Runs) -> Traced:
        traced = _plain_str(type(self), text)
        traced._runs = runs
        return traced

    def _like_text(self, text: Traced) -> Traced:
        return self._like(text, text._runs)

    def _arg(self, text: str) -> str:
        return escape_html(text)

    def __str__(self) -> str:
        return make(str.__str__(self), self._runs)

    def __radd__(self, other: str) -> Traced:  # type: ignore[override]
        return Traced.__radd__(self, other)

    def __mod__(self, values: Any) -> Traced:  # type: ignore[override]
        text = Markup.__mod__(Markup(str.__str__(self)), values)
        sources = values if isinstance(values, tuple) else (values,)
        lost = derive(str.__str__(text), self, *(s for s in map(traced_str, sources)))
        return self._like_text(lost)

    def format(self, *args: Any, **kwargs: Any) -> Traced:  # type: ignore[override]
        text = Markup(str.__str__(self)).format(*args, **kwargs)
        return self._like_text(derive(str.__str__(text), self, *map(traced_str, (*args, *kwargs.values()))))

    def format_map(self, mapping: Any, /) -> Traced:  # type: ignore[override]
        text = Markup(str.__str__(self)).format_map(mapping)
        return self._like_text(derive(str.__str__(text), self, *map(traced_str, mapping.values())))

    def unescape(self) -> Traced:
        return derive(Markup.unescape(Markup(str.__str__(self))), self)

    def striptags(self) -> Traced:
        return derive(Markup.striptags(Markup(str.__str__(self))), self)

    @classmethod
    def escape(cls, text: Any, /) -> TracedMarkup:
        return escape_html(text)


class TracedBytes(bytes):
    """What `encode` gives: bytes that remember the text they came from, for `decode`."""

    _source: Traced

    def __new__(cls, data: bytes, source: Traced) -> TracedBytes:
        made = bytes.__new__(cls, data)
        made._source = source
        return made

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Traced:
        text = bytes.decode(self, encoding, errors)
        return self._source if text == self._source else derive(text, self._source)

    def __str__(self) -> str:
        return derive(bytes.__repr__(self), self._source)

    def __reduce__(self) -> Any:
        return TracedBytes, (bytes(self), self._source)


def computed(value: Any, *operands: Any) -> Any:
    """Give a number that was computed from operands; it names the request's numbers and texts among them.

    Anything else comes back as it is.
    """
    for operand in operands:
        if isinstance(operand, _TELLING):
            break
    else:
        return value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value
    inputs = dict.fromkeys(path for operand in operands for path in _paths_in(operand))
    if not inputs:
        return value
    origin = _derived_origin(tuple(inputs))
    return TracedInt(value, origin) if isinstance(value, int) else TracedFloat(value, origin)


def _paths_in(operand: Any) -> Iterator[str]:
    if isinstance(operand, (TracedInt, TracedFloat)):
        yield from _inputs_of(operand._origin)
    elif isinstance(operand, Traced):
        for run in operand._runs:
            if run[1] is not TEMPLATE:
                yield from _inputs_of(run[1])


class TracedInt(int):
    """An integer of the request: computes as `int`, and carries its path when printed."""

    _origin: Origin

    def __new__(cls, value: int, origin: Origin) -> TracedInt:
        made = int.__new__(cls, value)
        made._origin = origin
        return made

    def __str__(self) -> str:
        return whole(int.__repr__(self), self._origin)

    __repr__ = __str__

    def __reduce__(self) -> Any:
        return TracedInt, (int(self), self._origin)


class TracedFloat(float):
    """A floating-point number of the request: computes as `float`, and carries its path when printed."""

    __slots__ = ("_origin",)
    _origin: Origin

    def __new__(cls, value: float, origin: Origin) -> TracedFloat:
        made = float.__new__(cls, value)
        made._origin = origin
        return made

    def __str__(self) -> str:
        return whole(float.__repr__(self), self._origin)

    __repr__ = __str__

    def __reduce__(self) -> Any:
        return TracedFloat, (float(self), self._origin)


_TELLING = (TracedInt, TracedFloat, Traced)  # operands that can name where they come from


class TracedList(list):
    """A list of the request: behaves as `list`, and knows its path, so that the booleans and nulls in it have one."""

    __slots__ = ("_origin",)
    _origin: Origin

    def __reduce__(self) -> Any:
        return _traced_list, (list(self), self._origin)


def _traced_list(items: list[Any], origin: Origin) -> TracedList:
    made = TracedList(items)
    made._origin = origin
    return made


class NamedAtom:
    """A boolean or null of the request on its way to be printed, which is all that can be done with it."""

    __slots__ = ("_origin", "_value")

    def __init__(self, value: bool | None, origin: Origin) -> None:
        self._value, self._origin = value, origin

    def __str__(self) -> str:
        return whole(str(self._value), self._origin)


def named(value: Any, key: Any) -> Any:
    """Name a boolean or null that is about to be printed by its key in an object of the request."""
    if value is None or value is True or value is False:
        home = _home_of(key, None)
        return value if home is None else NamedAtom(value, home)
    return value


def named_member(value: Any, holder: Any, key: Any) -> Any:
    """Do what `named` does for a value that was looked up in an object or list."""
    if value is None or value is True or value is False:
        if type(holder) is dict:
            return named(value, next((own for own in holder if own == key), None))
        if type(holder) is TracedList and type(key) is int:
            return NamedAtom(value, _item_origin(holder._origin, key % len(holder)))
    return value


def _item_origin(origin: Origin, index: int) -> Origin:
    return Origin(origin.kind, f"{origin.path}[{index}]", owner=origin.owner)


# --- wrapping and unwrapping ------------------------------------------------------------------------------------

_ROOT_KINDS = {
    "messages": SegmentKind.MESSAGE,
    "tools": SegmentKind.TOOL,
    "documents": SegmentKind.DOCUMENT,
    "chat_template_kwargs": SegmentKind.KWARG,
}
_ROOT_NAME = re.compile(r"[A-Za-z_]+")


def trace(value: Any, path: str) -> Any:
    """Wrap every string, number and dict key of a JSON value with its path; the path's root gives the kind.

    Errors: InputInvalid for a value that JSON cannot hold, or a path whose root is no part of a request.
    """
    kind, owner = _whose(path)
    return _trace(value, path, kind, owner)


@lru_cache(maxsize=4096)
def _whose(path: str) -> tuple[SegmentKind, int]:
    """Give the kind and the owner of a path; the same few come with every request."""
    root = _ROOT_NAME.match(path)
    if root is None or root.group() not in _ROOT_KINDS:
        raise InspectorError(
            ErrorKind.InputInvalid, f"{path!r} does not start with a part of the request", stage="messages"
        )
    return _ROOT_KINDS[root.group()], owner_of(path)


_SILENT_KEYS = ("role", "name")
_MESSAGE_PATH = re.compile(r"messages\[\d+\]")


def _trace(value: Any, path: str, kind: SegmentKind, owner: int) -> Any:
    if isinstance(value, str):
        text = str.__str__(value)
        traced = _plain_str(Traced, text)
        traced._runs = ((len(text), Origin(kind, path, text, True, owner), 0, 0),) if text else ()
        return traced
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return _trace_dict(value, path, kind, owner)
    if isinstance(value, (list, tuple)):
        if path == "messages":
            return [_trace(item, f"{path}[{index}]", kind, index) for index, item in enumerate(value)]
        items = [_trace(item, f"{path}[{index}]", kind, owner) for index, item in enumerate(value)]
        return _traced_list(items, Origin(kind, path, owner=owner))
    if isinstance(value, (int, float)):
        return _trace_number(value, path, kind, owner)
    raise InspectorError(
        ErrorKind.InputInvalid,
        f"{path} is a {type(value).__name__}, which JSON cannot hold",
        stage="messages",
        where={"path": path},
        remedy=f"give {path} as text, a number, a boolean, null, a list or an object",
    )


@lru_cache(maxsize=4096)
def _member(key: str) -> str:
    """Give what a key adds to its object's path; the same few keys come again and again."""
    return child_path("x", key)[1:]


def _trace_dict(value: dict[Any, Any], path: str, kind: SegmentKind, owner: int) -> dict[Any, Any]:
    out = {}
    is_message = owner != NOBODY and _MESSAGE_PATH.fullmatch(path) is not None
    for key, item in value.items():
        held_by = NOBODY if is_message and key in _SILENT_KEYS else owner
        if is_message and len(key) <= _SHORT:
            name, inner = _key_of(key, path, kind, held_by)
        else:
            name, inner = _key_of.__wrapped__(key, path, kind, held_by)
        if is_message and key == "role" and type(item) is str and len(item) <= _SHORT:
            out[name] = _short_text(item, inner, kind, held_by)
        else:
            out[name] = _trace(item, inner, kind, held_by)
    return out


_SHORT = 32  # characters up to which a message's keys and its role are remembered: every request has the same


@lru_cache(maxsize=4096)
def _key_of(key: str, path: str, kind: SegmentKind, owner: int) -> tuple[Traced, str]:
    """Give a key of the object at a path, and the path of its value."""
    inner = path + _member(key)
    return make(key, ((len(key), Origin(kind, inner, "", False, owner), 0, 0),) if key else ()), inner


@lru_cache(maxsize=4096)
def _short_text(text: str, path: str, kind: SegmentKind, owner: int) -> Traced:
    return cast(Traced, _trace(text, path, kind, owner))


def _trace_number(value: int | float, path: str, kind: SegmentKind, owner: int) -> TracedInt | TracedFloat:
    text = int.__repr__(value) if isinstance(value, int) else float.__repr__(value)
    as_printed = getattr(value, "spelling", text) == text
    origin = Origin(kind, path, text, as_printed, owner)
    return TracedInt(value, origin) if isinstance(value, int) else TracedFloat(value, origin)


def plain(value: Any) -> Any:
    """Give the same structure in exact str, int, float, bool, None, list and dict."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return value


# --- printing values --------------------------------------------------------------------------------------------


def traced_str(value: Any) -> str:
    """Do what `str(value)` does, and carry what the value's leaves know."""
    cls = type(value)
    if cls is Traced:
        return value
    if cls is str:
        return value
    text = str(value)
    if isinstance(text, Traced) or not text:
        return text
    if cls is int or cls is float:
        return whole(text, TEMPLATE)
    if cls in (dict, list, tuple, TracedList):
        return _spelled(value, text, _PythonSpelling())
    return text


class _PythonSpelling:
    """How Python prints containers."""

    item_separator, key_separator = ", ", ": "
    _special = re.compile(r"[^ !#-&(-\[\]-~]")

    def text(self, value: str) -> tuple[str, Runs]:
        spelled = str.__repr__(value)
        quote = spelled[0]
        if len(spelled) == len(value) + 2 and spelled[1:-1] == value:
            inner, runs = spelled[1:-1], runs_of(value)
        else:
            # The quote is chosen from the whole text; a neighbouring quote makes repr choose the same one per character.
            helper = "'" if quote == '"' else ""
            inner, runs = substitute(value, self._special, lambda c: self._character(c, quote, helper))
        return f"{quote}{inner}{quote}", ((1, TEMPLATE, 0, 0), *runs, (1, TEMPLATE, 0, 0))

    @staticmethod
    def _character(char: str, quote: str, helper: str) -> str:
        if char in "'\"":
            return "\\" + char if char == quote else char
        return repr(char)[1:-1]

    def atom(self, value: Any) -> str:
        return repr(value)

    def key(self, key: Any) -> str:
        return repr(key)

    def open_close(self, value: Any) -> tuple[str, str]:
        if isinstance(value, dict):
            return "{", "}"
        if isinstance(value, tuple):
            return "(", ",)" if len(value) == 1 else ")"
        return "[", "]"

    def items(self, value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        return value.items()

    def line_break(self, depth: int) -> str:
        return ""


class _JsonSpelling:
    """How `json.dumps` prints, with the options that templates pass."""

    def __init__(self, ensure_ascii: Any, indent: Any, separators: Any, sort_keys: Any) -> None:
        if separators is not None:
            self.item_separator, self.key_separator = separators
        else:
            self.item_separator, self.key_separator = ", " if indent is None else ",", ": "
        self._encode = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
        self._special = re.compile(r'[\\"]|[^ -~]' if ensure_ascii else r'[\x00-\x1f\\"]')
        self._indent = indent if indent is None or isinstance(indent, str) else " " * indent
        self._sort_keys = sort_keys

    def text(self, value: str) -> tuple[str, Runs]:
        spelled = self._encode(value)
        if len(spelled) == len(value) + 2:
            runs = runs_of(value)
        else:
            _, runs = substitute(value, self._special, lambda c: self._encode(c)[1:-1])
        return spelled, ((1, TEMPLATE, 0, 0), *runs, (1, TEMPLATE, 0, 0))

    def atom(self, value: Any) -> str:
        return json.dumps(value)

    def key(self, key: Any) -> str:
        return f'"{json.dumps(key)}"'

    def open_close(self, value: Any) -> tuple[str, str]:
        return ("{", "}") if isinstance(value, dict) else ("[", "]")

    def items(self, value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        return sorted(value.items()) if self._sort_keys else value.items()

    def line_break(self, depth: int) -> str:
        return "" if self._indent is None else "\n" + self._indent * depth


class _Printer:
    """Writes a value's text piece by piece, each piece with the runs of the leaf that it spells."""

    def __init__(self, spelling: Any) -> None:
        self._spelling = spelling
        self._texts: list[str] = []
        self._runs: list[tuple[int, Origin, int, int]] = []

    def result(self) -> Traced:
        return make("".join(self._texts), tuple(self._runs))

    def _structure(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self._runs.append((len(text), TEMPLATE, 0, 0))

    def write(self, value: Any, home: Origin | None = None, depth: int = 0) -> None:
        """Write one value; `home` is the origin of the dict key that it is the value of, where that is known."""
        if isinstance(value, str):
            text, runs = self._spelling.text(value)
            self._texts.append(text)
            self._runs.extend(runs)
        elif isinstance(value, dict):
            self._dict(value, home, depth)
        elif isinstance(value, (list, tuple)):
            self._list(value, home, depth)
        elif isinstance(value, (TracedInt, TracedFloat)):
            text = self._spelling.atom(value)
            self._texts.append(text)
            self._runs.append((len(text), value._origin, 0, 0))
        else:
            self._atom(value, home)

    def _atom(self, value: Any, home: Origin | None) -> None:
        text = str.__str__(self._spelling.atom(value))
        if not text:
            return
        if home is None:
            home = TEMPLATE if type(value) in (int, float) else LOST
        self._texts.append(text)
        self._runs.append((len(text), home, 0, 0))

    def _dict(self, value: dict[Any, Any], home: Origin | None, depth: int) -> None:
        spelling = self._spelling
        opening, closing = spelling.open_close(value)
        gap = opening + spelling.line_break(depth + 1) if value else opening
        for key, item in spelling.items(value):
            self._structure(gap)
            if isinstance(key, str):
                self.write(key)
            else:
                self._structure(spelling.key(key))
            self._structure(spelling.key_separator)
            self.write(item, _home_of(key, home), depth + 1)
            gap = spelling.item_separator + spelling.line_break(depth + 1)
        self._structure(spelling.line_break(depth) + closing if value else opening + closing)

    def _list(self, value: Sequence[Any], home: Origin | None, depth: int) -> None:
        spelling = self._spelling
        opening, closing = spelling.open_close(value)
        gap = opening + spelling.line_break(depth + 1) if value else opening
        if type(value) is TracedList:
            home = value._origin
        for index, item in enumerate(value):
            self._structure(gap)
            inner = None
            if home is not None and (item is None or item is True or item is False or isinstance(item, (list, dict))):
                inner = _item_origin(home, index)
            self.write(item, inner, depth + 1)
            gap = spelling.item_separator + spelling.line_break(depth + 1)
        self._structure(spelling.line_break(depth) + closing if value else opening + closing)


def _home_of(key: Any, parent: Origin | None) -> Origin | None:
    """Give the origin of a dict key of the request, which names the value's path; None for other keys."""
    if not isinstance(key, Traced):
        return None
    if not key:  # no character to carry an origin
        return None if parent is None else Origin(parent.kind, child_path(parent.path, ""), owner=parent.owner)
    origin = key._runs[0][1]
    if len(key._runs) > 1 or origin.exact or origin.kind in (SegmentKind.DERIVED, SegmentKind.TEMPLATE):
        return None
    return origin


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(key)
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, (TracedInt, TracedFloat)):
        yield str(value)


def _spelled(value: Any, text: str, spelling: Any) -> Traced:
    """Give runs to the text that the real printer made; where ours differs, all of it is derived from the leaves."""
    printer = _Printer(spelling)
    printer.write(value)
    printed = printer.result()
    return printed if printed == text else derive(text, *_leaves(value))


def dump_json(
    value: Any, ensure_ascii: Any = False, indent: Any = None, separators: Any = None, sort_keys: Any = False
) -> Traced:
    """Do what transformers' `tojson` filter does, and carry each leaf's path into the JSON text."""
    if type(value) is NamedAtom:
        return whole(json.dumps(value._value), value._origin)
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return _spelled(value, text, _JsonSpelling(ensure_ascii, indent, separators, sort_keys))


_HTML = re.compile(r"[&<>\"']")
_HTML_SPELLING = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"}


def escape_html(value: Any) -> TracedMarkup:
    """Do what `markupsafe.escape` does, and carry the characters that need no escape."""
    if hasattr(value, "__html__"):
        return value if isinstance(value, TracedMarkup) else TracedMarkup(value.__html__())
    text, runs = substitute(traced_str(value), _HTML, _HTML_SPELLING.__getitem__)
    return TracedMarkup(text, runs)


# --- formatting -------------------------------------------------------------------------------------------------

_PERCENT = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?(?P<spec>[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[hlL]?)(?P<kind>[diouxXeEfFgGcrsa%])"
)


def _percent(template: Traced, values: Any) -> Traced:
    """Do `template % values`; arguments printed as they are keep their runs."""
    text = str.__mod__(template, values)
    parts: list[str] = []
    done, position = 0, 0
    arguments = values if isinstance(values, tuple) else (values,)
    for match in _PERCENT.finditer(template):
        parts.append(template[done : match.start()])
        done = match.end()
        if match["kind"] == "%":
            parts.append(make("%", template[match.start() : match.start() + 1]._runs))
            continue
        if "*" in match["spec"]:
            return derive(text, template, *_leaves(list(arguments)))
        if match["name"] is not None:
            value = values[match["name"]]
        else:
            value, position = (arguments[position] if position < len(arguments) else ""), position + 1
        parts.append(_percent_piece(match, value))
    parts.append(template[done:])
    result = concat(parts)
    return result if result == text else derive(text, template, *_leaves(list(arguments)), *_leaves(values))


def _percent_piece(match: re.Match[str], value: Any) -> str:
    spelled = f"%{match['spec']}{match['kind']}" % (value,)
    if match["kind"] in "di" and isinstance(value, (TracedInt, str)):
        return align(spelled, traced_str(value))
    if match["kind"] == "s":
        return align(spelled, traced_str(value))
    if match["kind"] == "r":
        return align(spelled, _spelled(value, repr(value), _PythonSpelling()))
    return derive(spelled, *_leaves(value)) if any(_leaves(value)) else pad(spelled)


def format_traced(
    template: Traced, args: Sequence[Any], kwargs: Mapping[str, Any], formatter: string.Formatter
) -> Traced:
    """Do `template.format(*args, **kwargs)` with this formatter's field look-up; values printed as they are keep their runs."""
    text = formatter.vformat(str.__str__(template), args, kwargs)
    try:
        result = concat(_format_parts(template, args, kwargs, formatter))
    except (ValueError, LookupError, TypeError, AttributeError):
        return derive(text, template, *_leaves([list(args), dict(kwargs)]))
    return result if result == text else derive(text, template, *_leaves([list(args), dict(kwargs)]))


def _format_parts(
    template: Traced, args: Sequence[Any], kwargs: Mapping[str, Any], formatter: string.Formatter
) -> Iterator[str]:
    done, automatic = 0, 0
    for literal, name, spec, conversion in formatter.parse(str.__str__(template)):
        start = str.find(template, literal, done)
        if literal and start >= 0:
            yield template[start : start + len(literal)]
            done = start + len(literal)
        if name is None:
            continue
        if name == "" or name[0] in ".[":
            name, automatic = f"{automatic}{name}", automatic + 1
        if spec and "{" in spec:
            spec = formatter.vformat(spec, args, kwargs)
        value, _ = formatter.get_field(name, args, kwargs)
        yield _format_piece(value, spec or "", conversion)


def _format_piece(value: Any, spec: str, conversion: str | None) -> str:
    if conversion == "s":
        value = traced_str(value)
    elif conversion in ("r", "a"):
        spelled = repr(value) if conversion == "r" else ascii(value)
        value = _spelled(value, spelled, _PythonSpelling())
    shown = format(value, spec)
    source = traced_str(value)
    if isinstance(source, Traced) and source:
        return align(shown, source)
    return pad(shown) if isinstance(value, (int, float)) and not isinstance(value, bool) else shown
