"""The inputs of a growing conversation, without rendering and tokenizing each as a whole: lengths, and how much two share.

Texts are trees whose equal parts are one object, so that two of them are compared from where they part. Every number is
that of the whole input; what cannot be told so is None, and the caller renders it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from inspector.editscript import common_prefix
from inspector.engines.base import TemplateCall
from inspector.engines.incremental import CannotTell, IncrementalTemplate, Refused
from inspector.render import common_prefix as common_text
from inspector.tokenizers.base import Tokenizer
from inspector.tokenizers.sections import Counted, SectionEncoder

Calls = Callable[[bool], TemplateCall]


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
        counted = rope.counted
        if counted.after is None:
            return len(self._sections.first_ids(counted.before))
        first = len(self._sections.first_ids(counted.before)) if counted.before else 0
        return first + counted.tokens + len(self._sections.inner_ids(counted.after))

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
        sides = [self._sections.ids_to_wall(counted.after, _texts(stack)) for stack in rest]
        same = common_prefix(*sides)
        if same == len(sides[0]) == len(sides[1]) and any(rest):
            return None  # other texts, the same tokens up to the next control token: what follows decides
        return first + counted.tokens + same

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


def _texts(stack: list[Rope]) -> Iterator[str]:
    """Give the leaves of what is left, in order."""
    todo = list(stack)
    while todo:
        part = todo.pop()
        if part.left is None or part.right is None:
            yield part.text
        else:
            todo += [part.right, part.left]


def growing_prompts(calls: Calls | None, tokenizer: Tokenizer) -> GrowingPrompts | None:
    """Give the inputs of a conversation as it grows; None for a tokenizer or a template that cannot be told of."""
    sections: Any = getattr(tokenizer, "sections", None)
    if calls is None or sections is None:
        return None
    try:
        return GrowingPrompts(calls, sections)
    except CannotTell:
        return None
