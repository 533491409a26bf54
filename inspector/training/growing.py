"""The inputs of a growing conversation, without rendering and tokenizing each as a whole: lengths, and how much two share.

Texts are trees whose equal parts are one object, so that two of them are compared from where they part; of a short
conversation they are rendered each, without provenance. Every number is that of the whole
input; what cannot be told so is None, and the caller renders it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from inspector.editscript import common_prefix
from inspector.engines.base import TemplateCall
from inspector.engines.incremental import CannotTell, IncrementalTemplate, PlainTemplate, Refused
from inspector.render import common_prefix as common_text
from inspector.tokenizers.base import Tokenizer
from inspector.tokenizers.sections import Counted, Marks, SectionEncoder

Calls = Callable[[bool], TemplateCall]
PLAIN_MESSAGES = 40  # up to which inputs are rendered each: twice as many cost four times as much


class Rope:
    """A text as a tree, with its tokens counted. Equal trees of one pool are one object."""

    __slots__ = ("chars", "counted", "left", "right", "text")

    def __init__(self, text: str, left: Rope | None, right: Rope | None, counted: Counted) -> None:
        self.text, self.left, self.right, self.counted = text, left, right, counted
        self.chars = counted.chars


class _Pool:
    """Makes ropes; the same leaf or pair once."""

    def __init__(self, sections: SectionEncoder) -> None:
        self.sections = sections
        self._leaves: dict[str, Rope] = {}
        self._pairs: dict[tuple[int, int], Rope] = {}

    def leaf(self, text: str) -> Rope:
        known = self._leaves.get(text)
        if known is None:
            known = self._leaves[text] = Rope(text, None, None, self.sections.counted(text))
        return known

    def pair(self, a: Rope, b: Rope) -> Rope:
        if not a.chars or not b.chars:
            return b if b.chars else a
        known = self._pairs.get((id(a), id(b)))
        if known is None:
            counted = self.sections.joined(a.counted, b.counted)
            known = self._pairs[id(a), id(b)] = Rope("", a, b, counted)
        return known


class GrowingPrompts:
    """The inputs of the first messages of one conversation, each one message longer than the last.

    Errors of the constructor: CannotTell for a template that is not followed.
    """

    def __init__(self, calls: Calls, sections: SectionEncoder) -> None:
        self._pool = _Pool(sections)
        self._sections = sections
        self._templates = {
            asks: IncrementalTemplate(calls(asks), self._pool.leaf, self._pool.pair) for asks in (False, True)
        }

    def at(self, count: int, asks: bool) -> Rope | None:
        """Give the input of the first `count` messages; None where it has to be rendered. Counts must not fall."""
        template = self._templates[asks]
        try:
            template.grow(count)
            return template.render()
        except (CannotTell, Refused):
            return None

    def length(self, rope: Rope) -> int:
        """Count all tokens."""
        return _length(rope.counted, self._sections)

    def text(self, rope: Rope) -> str:
        """Give the text itself."""
        return "".join(_texts([rope]))

    def shared(self, a: Rope, b: Rope) -> int | None:
        """Count the tokens that two inputs begin with alike; None where it cannot be told."""
        begin, rest = self._common(a, b)
        counted = begin.counted
        if counted.after is None:
            return None
        first = len(self._sections.first_ids(counted.before)) if counted.before else 0
        shared = _shared(counted.after, (_texts(rest[0]), _texts(rest[1])), self._sections, differ=any(rest))
        return None if shared is None else first + counted.tokens + shared

    def _common(self, a: Rope, b: Rope) -> tuple[Rope, tuple[list[Rope], list[Rope]]]:
        """Give what two texts begin with alike, and what is left of each, last part first."""
        begin, left, right = self._pool.leaf(""), [a], [b]
        while left and right:
            x, y = left.pop(), right.pop()
            if x is y:
                begin = self._pool.pair(begin, x)
            elif x.left is not None and x.right is not None and (x.chars >= y.chars or y.left is None):
                left += [x.right, x.left]
                right.append(y)
            elif y.left is not None and y.right is not None:
                right += [y.right, y.left]
                left.append(x)
            else:
                same = common_text(x.text, y.text)
                begin = self._pool.pair(begin, self._pool.leaf(x.text[:same]))
                left += [self._pool.leaf(x.text[same:])] if same < x.chars else []
                right += [self._pool.leaf(y.text[same:])] if same < y.chars else []
                if same < min(x.chars, y.chars):
                    break
        return begin, (left, right)


class _Input:
    """A rendered text, and how many characters it begins with as the text does that is known."""

    __slots__ = ("before", "last", "rest", "same", "text")

    def __init__(self, text: str, same: int) -> None:
        self.text, self.same = text, same
        # Once they are counted: the tokens up to the last control token, the text after it (None: there is no such
        # token), and the ids of that (of all).
        self.before = 0
        self.rest: str | None = None
        self.last: np.ndarray | None = None


class PlainPrompts:
    """The inputs of the first messages of a short conversation, each rendered: for few messages that is less work than
    following a template from one input to the next. Of one of them nothing but its tokens is made, and only where it is
    not `whole`, the text of all messages."""

    def __init__(self, calls: Calls, sections: SectionEncoder) -> None:
        self._calls, self._sections = calls, sections
        self._known: dict[tuple[int, bool], _Input | None] = {}
        self.whole, self._marks = "", Marks([], [])

    def know(self, count: int, asks: bool, text: str) -> None:
        """Take the text of the input of all messages, which is rendered already."""
        self.whole, self._marks = text, self._sections.marks(text)
        self._known[count, asks] = _Input(text, len(text))

    def call(self, count: int, asks: bool) -> TemplateCall:
        """Give what the template is given for the first `count` messages."""
        call = self._calls(asks)
        return replace(call, messages=call.messages[:count])

    def at(self, count: int, asks: bool) -> _Input | None:
        """Give the input of the first `count` messages; None where the template refuses them."""
        if (count, asks) not in self._known:
            self._known[count, asks] = self._rendered(count, asks)
        return self._known[count, asks]

    def _rendered(self, count: int, asks: bool) -> _Input | None:
        try:
            text = self._template.text(count, asks)
        except Exception:
            return None  # the caller renders it and says why
        if " at 0x" in text:
            return None  # a printed object's address, perhaps: the caller's render has zeros there
        return _Input(text, len(text) if self.whole.startswith(text) else common_text(text, self.whole))

    @functools.cached_property
    def _template(self) -> PlainTemplate:
        return PlainTemplate(self._calls(False))

    def length(self, given: _Input) -> int:
        """Count all tokens."""
        last = self._last_ids(given)
        return given.before + len(last)

    def _last_ids(self, given: _Input) -> np.ndarray:
        if given.last is None:
            sections = self._sections
            given.before, given.rest = sections.beyond(self._marks, given.text, given.same)
            given.last = sections.first_ids(given.text) if given.rest is None else sections.inner_ids(given.rest)
        return given.last

    def text(self, given: _Input) -> str:
        """Give the text itself."""
        return given.text

    def shared(self, a: _Input, b: _Input) -> int | None:
        """Count the tokens that two inputs begin with alike; None where it cannot be told."""
        same = self.common(a, b)
        if same == len(a.text):
            ids = self._last_ids(a)
            if a.rest is None:
                return None
            shared = self._sections.shared(ids, b.text, same - len(a.rest))
            return None if shared is None and a.text != b.text else a.before + (len(ids) if shared is None else shared)
        counted, after = self._sections.beyond(self._marks, a.text, a.same, same)
        if after is None:
            return None
        shared = _shared(after, ([a.text[same:]], [b.text[same:]]), self._sections, differ=True)
        return None if shared is None else counted + shared

    def common(self, a: _Input, b: _Input) -> int:
        """Count the characters that two inputs begin with alike. One that leaves the known text before the other does
        leaves the other one there, too."""
        if a.same != b.same:
            return min(a.same, b.same)
        return a.same + common_text(a.text[a.same :], b.text[b.same :])


def _length(counted: Counted, sections: SectionEncoder) -> int:
    if counted.after is None:
        return len(sections.first_ids(counted.before))
    first = len(sections.first_ids(counted.before)) if counted.before else 0
    return first + counted.tokens + len(sections.inner_ids(counted.after))


def _shared(
    after: str, rest: tuple[Iterable[str], Iterable[str]], sections: SectionEncoder, *, differ: bool
) -> int | None:
    """Count the tokens after the last control token that two texts share: what both go on with, and the rest of each."""
    sides = [sections.ids_to_wall(after, texts) for texts in rest]
    same = common_prefix(*sides)
    if same == len(sides[0]) == len(sides[1]) and differ:
        return None  # other texts, the same tokens up to the next control token: what follows decides
    return same


def _texts(stack: list[Rope]) -> Iterator[str]:
    """Give the leaves of what is left, in order."""
    todo = list(stack)
    while todo:
        part = todo.pop()
        if part.left is None or part.right is None:
            yield part.text
        else:
            todo += [part.right, part.left]


class Told(Protocol):
    """What tells of the inputs of a growing conversation; what it gives for an input is its own."""

    def at(self, count: int, asks: bool) -> Any | None:
        """Give the input of the first `count` messages; None where it has to be rendered."""
        ...

    def length(self, given: Any, /) -> int:
        """Count all tokens."""
        ...

    def text(self, given: Any, /) -> str:
        """Give the text itself."""
        ...

    def shared(self, a: Any, b: Any) -> int | None:
        """Count the tokens that two inputs begin with alike; None where it cannot be told."""
        ...


def growing_prompts(calls: Calls | None, tokenizer: Tokenizer) -> Told | None:
    """Give the inputs of a conversation as it grows; None for a tokenizer or a template that cannot be told of."""
    sections: Any = getattr(tokenizer, "sections", None)
    if calls is None or sections is None:
        return None
    if len(calls(False).messages) <= PLAIN_MESSAGES:
        return PlainPrompts(calls, sections)
    try:
        return GrowingPrompts(calls, sections)
    except CannotTell:
        return None
