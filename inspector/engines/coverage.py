"""Which lines of a template belong to which stretch of statements that run together.

A template's code is cut into blocks: statements that run one after the other, or not at all. The compiled template sets
one flag a block, and the blocks whose flag is set give the lines that ran. A line is code if a tag stands on it or if
literal text on it is written; all lines of one tag run together, whatever a conditional expression inside it skips.
Nothing is rendered or compiled here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, nodes

_LEAVES = (nodes.Break, nodes.Continue)
_ALONE = (
    nodes.Assign, nodes.Break, nodes.Continue, nodes.ExprStmt, nodes.Include, nodes.Import, nodes.FromImport,
    nodes.Extends,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Coverage:
    """Template lines, 1-based: those with code, and those of each block in the order of its flag."""

    code: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]

    def ran(self, flags: bytes | bytearray) -> tuple[int, ...]:
        """Give the lines of the blocks whose flag is set."""
        return tuple(sorted({line for flag, lines in zip(flags, self.blocks) if flag for line in lines}))


@dataclass(frozen=True, slots=True)
class _Tag:
    """One `{% … %}` (its first word) or `{{ … }}` (""), and the lines it stands on."""

    word: str
    first: int
    last: int

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


class _Mismatch(Exception):
    """The tags of the text are not those of the tree."""


class LinePlan:
    """The lines of each statement of a tree, found by reading text and tree side by side.

    `own` maps a statement to its lines; `before` maps a body to the lines that ran if the body is entered though no
    statement stands for them: the tests of the `elif`s before it, and its `else`. Both by identity. Where text and tree
    do not agree the lines that the tree names are used.
    """

    def __init__(self, environment: Environment, text: str, tree: nodes.Template) -> None:
        self.own: dict[int, tuple[int, ...]] = {}
        self.before: dict[int, tuple[int, ...]] = {}
        self._tags = list(_tags(environment, text))
        self._at = 0
        try:
            self._body(tree.body)
            if self._at != len(self._tags):
                raise _Mismatch
        except _Mismatch:
            self.before.clear()
            self.own = {id(node): (node.lineno,) for node in tree.find_all(nodes.Stmt)}
            self.own |= {id(node): tuple(_text_lines(node)) or (node.lineno,) for node in tree.find_all(nodes.Output)}

    def lines_of(self, run: Sequence[nodes.Node]) -> set[int]:
        """Give the lines of statements that run together."""
        return {line for node in run for line in self.own.get(id(node), ())}

    def _take(self, word: str) -> _Tag:
        if self._at == len(self._tags) or self._tags[self._at].word != word:
            raise _Mismatch
        self._at += 1
        return self._tags[self._at - 1]

    def _comes(self, word: str) -> bool:
        return self._at < len(self._tags) and self._tags[self._at].word == word

    def _body(self, body: Sequence[nodes.Node]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: Any) -> None:
        if isinstance(node, nodes.Output):
            self.own[id(node)] = tuple(self._printed(node))
        elif isinstance(node, nodes.If):
            self._if(node)
        elif isinstance(node, nodes.For):
            self.own[id(node)] = tuple(self._take("for").lines)
            self._body(node.body)
            self._otherwise(node, ())
            self._take("endfor")
        elif isinstance(node, nodes.Scope):
            self._body(node.body)  # Jinja's own wrapper: no tag stands for it
        elif isinstance(node, _ALONE):
            self.own[id(node)] = tuple(self._take(_word(node)).lines)
        else:
            self._enclosing(node)

    def _printed(self, node: nodes.Output) -> Iterator[int]:
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                yield from _data_lines(child)
            else:
                yield from self._take("").lines

    def _if(self, node: nodes.If) -> None:
        self.own[id(node)] = tuple(self._take("if").lines)
        self._body(node.body)
        tested: tuple[int, ...] = ()
        for branch in node.elif_:
            tested += tuple(self._take("elif").lines)
            self.before[id(branch.body)] = tested
            self._body(branch.body)
        self._otherwise(node, tested)
        self._take("endif")

    def _otherwise(self, node: Any, tested: tuple[int, ...]) -> None:
        """Take the `else`, if there is one; where it would tell that tests or the tag ran, an empty one is added."""
        if self._comes("else"):
            tested += tuple(self._take("else").lines)
        if tested and not node.else_:
            node.else_ = [nodes.Output([])]
            self.own[id(node.else_[0])] = ()
            self.before[id(node.else_)] = tested
            return
        self.before[id(node.else_)] = tested
        self._body(node.else_)

    def _enclosing(self, node: Any) -> None:
        word = self._tags[self._at].word if self._at < len(self._tags) else ""
        if not word or not hasattr(node, "body"):
            raise _Mismatch
        self.own[id(node)] = tuple(self._take(word).lines)
        self._body(node.body)
        self._take(f"end{word}")


def straight_runs(body: Sequence[nodes.Node]) -> list[list[nodes.Node]]:
    """Cut a body after each statement that may leave it (`break`, `continue`); what remains runs together."""
    runs: list[list[nodes.Node]] = [[]]
    for node in body:
        runs[-1].append(node)
        if isinstance(node, _LEAVES) or any(node.find(kind) is not None for kind in _LEAVES):
            runs.append([])
    return runs if runs[-1] or len(runs) == 1 else runs[:-1]


def _word(node: nodes.Node) -> str:
    names: dict[type[nodes.Node], str] = {nodes.Assign: "set", nodes.ExprStmt: "do", nodes.FromImport: "from"}
    return names.get(type(node), type(node).__name__.lower())


def _tags(environment: Environment, text: str) -> Iterator[_Tag]:
    word, first = "", 0
    wants_word = False
    for line, kind, value in environment.lexer.tokeniter(text, None):
        if kind in ("block_begin", "variable_begin"):
            word, first, wants_word = "", line, kind == "block_begin"
        elif kind == "name" and wants_word:
            word, wants_word = value, False
        elif kind in ("block_end", "variable_end"):
            yield _Tag(word, first, line)


def _data_lines(data: nodes.TemplateData) -> Iterator[int]:
    for number, _piece in enumerate(re.findall(r"[^\n]*\n|[^\n]+", data.data)):
        yield data.lineno + number


def _text_lines(node: nodes.Output) -> Iterator[int]:
    for child in node.nodes:
        yield from _data_lines(child) if isinstance(child, nodes.TemplateData) else (child.lineno,)
