"""What a chat template's syntax tree says about it, for rules and the capability card; nothing is rendered.

Facts are lists of what is written and where. What a template *does* with a request is asked by rendering (lint/probes.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """One use of the filter `tojson`: its line and the arguments that are constants."""

    line: int
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Default:
    """A value that the template sets itself where the caller gives none."""

    name: str
    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """What is written in a template. Lines are 1-based.

    `names`: variables that the caller has to pass; `fields`: keys and attributes that are read, of whatever;
    `tags`: extension tags with their first line; `printed`: constants that are printed and no string;
    `null_filters`: lines where null goes into a string filter; `private`: namespace attributes that begin with "_";
    `defaults`: names set to a constant under a condition; `concatenated`: lines where what `tojson` or `safe` gives
    is joined with `+` or `~`; `strings`: every string constant.
    """

    parsed: bool
    names: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    tags: tuple[tuple[str, int], ...] = ()
    json: tuple[JsonStyle, ...] = ()
    printed: tuple[tuple[str, int], ...] = ()
    null_filters: tuple[int, ...] = ()
    private: tuple[tuple[str, int], ...] = ()
    defaults: tuple[Default, ...] = ()
    concatenated: tuple[int, ...] = ()
    strings: frozenset[str] = frozenset()


class _Generation(Extension):
    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


GLOBALS = frozenset(
    "range dict lipsum cycler joiner namespace raise_exception strftime_now loop self true false none True False None".split()
)
_TAGS = re.compile(r"\{%-?\+?\s*(generation|break|continue)\b")


@functools.lru_cache(maxsize=256)
def template_facts(text: str) -> TemplateFacts:
    """Read the facts off a template; one that cannot be parsed has none."""
    environment = jinja2.Environment(extensions=[_Generation, loopcontrols], trim_blocks=True, lstrip_blocks=True)
    try:
        tree = environment.parse(text)
        return _facts(tree, text)
    except (jinja2.TemplateError, RecursionError, SyntaxError, ValueError):
        return TemplateFacts(False)


def _facts(tree: nodes.Template, text: str) -> TemplateFacts:
    return TemplateFacts(
        parsed=True,
        names=frozenset(meta.find_undeclared_variables(tree)) - GLOBALS,
        fields=frozenset(_fields(tree)),
        functions=frozenset(call.node.name for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)),
        tags=tuple(_tags(text)),
        json=tuple(_json(tree)),
        printed=tuple(_printed(tree)),
        null_filters=tuple(_null_filters(tree)),
        private=tuple(_private(tree)),
        defaults=tuple(_defaults(tree)),
        concatenated=tuple(_concatenated(tree)),
        strings=frozenset(const.value for const in tree.find_all(nodes.Const) if isinstance(const.value, str)),
    )


def _fields(tree: nodes.Template) -> Iterator[str]:
    for attribute in tree.find_all(nodes.Getattr):
        yield attribute.attr
    for item in tree.find_all(nodes.Getitem):
        if isinstance(item.arg, nodes.Const) and isinstance(item.arg.value, str):
            yield item.arg.value
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr == "get" and call.args:
            key = call.args[0]
            if isinstance(key, nodes.Const) and isinstance(key.value, str):
                yield key.value


def _tags(text: str) -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for match in _TAGS.finditer(text):
        if match[1] not in seen:
            seen.add(match[1])
            yield match[1], text.count("\n", 0, match.start()) + 1


def _json(tree: nodes.Template) -> Iterator[JsonStyle]:
    for filter_ in tree.find_all(nodes.Filter):
        if filter_.name == "tojson":
            names = ("ensure_ascii", "indent", "separators", "sort_keys")
            given: list[tuple[Any, Any]] = list(zip(names, filter_.args))
            given += [(pair.key, pair.value) for pair in filter_.kwargs]
            yield JsonStyle(filter_.lineno, tuple((key, _constant(value)) for key, value in given))


def _constant(node: nodes.Expr) -> Any:
    try:
        return node.as_const()
    except nodes.Impossible:
        return "computed"


def _printed(tree: nodes.Template) -> Iterator[tuple[str, int]]:
    for output in tree.find_all(nodes.Output):
        for child in output.nodes:
            if (isinstance(child, nodes.Const) and not isinstance(child.value, str | int | float)) or (
                isinstance(child, nodes.Const) and isinstance(child.value, bool)
            ):
                yield repr(child.value), child.lineno
            elif isinstance(child, nodes.List | nodes.Tuple | nodes.Dict):
                yield type(child).__name__.lower(), child.lineno


_OF_TEXT = frozenset("trim upper lower title capitalize replace string e escape urlencode wordwrap indent".split())


def _null_filters(tree: nodes.Template) -> Iterator[int]:
    for filter_ in tree.find_all(nodes.Filter):
        if filter_.name in _OF_TEXT and isinstance(filter_.node, nodes.Const) and filter_.node.value is None:
            yield filter_.lineno


def _private(tree: nodes.Template) -> Iterator[tuple[str, int]]:
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name == "namespace":
            yield from ((pair.key, call.lineno) for pair in call.kwargs if pair.key.startswith("_"))
    for reference in tree.find_all(nodes.NSRef):
        if reference.attr.startswith("_"):
            yield reference.attr, reference.lineno


def _defaults(tree: nodes.Template) -> Iterator[Default]:
    for condition in tree.find_all(nodes.If):
        for assign in nodes.Block("", condition.body + condition.else_, False, False).find_all(nodes.Assign):
            if isinstance(assign.target, nodes.Name) and isinstance(assign.node, nodes.Const):
                yield Default(assign.target.name, assign.node.value, assign.lineno)
    for assign in tree.find_all(nodes.Assign):
        if isinstance(assign.target, nodes.Name) and isinstance(assign.node, nodes.CondExpr):
            for arm in (assign.node.expr1, assign.node.expr2):
                if isinstance(arm, nodes.Const):
                    yield Default(assign.target.name, arm.value, assign.lineno)
    for filter_ in tree.find_all(nodes.Filter):
        if filter_.name not in ("default", "d") or not isinstance(filter_.node, nodes.Name):
            continue
        if filter_.args and isinstance(filter_.args[0], nodes.Const):
            yield Default(filter_.node.name, filter_.args[0].value, filter_.lineno)
    for either in tree.find_all(nodes.Or):
        if isinstance(either.left, nodes.Name) and isinstance(either.right, nodes.Const):
            yield Default(either.left.name, either.right.value, either.lineno)


def _concatenated(tree: nodes.Template) -> Iterator[int]:
    """Follow names that hold what `tojson` or `safe` gave to where they are joined with other text."""
    marked: set[str] = set()
    for _pass in range(3):
        for assign in tree.find_all(nodes.Assign):
            if isinstance(assign.target, nodes.Name) and _is_markup(assign.node, marked):
                marked.add(assign.target.name)
    for add in tree.find_all(nodes.Add):
        if _is_markup(add.left, marked) or _is_markup(add.right, marked):
            yield add.lineno
    for concat in tree.find_all(nodes.Concat):
        if any(_is_markup(node, marked) for node in concat.nodes):
            yield concat.lineno


def _is_markup(node: nodes.Node | None, marked: set[str]) -> bool:
    if isinstance(node, nodes.Filter):
        return node.name in ("tojson", "safe")
    if isinstance(node, nodes.CondExpr):
        return _is_markup(node.expr1, marked) or _is_markup(node.expr2, marked)
    if isinstance(node, nodes.Add):
        return _is_markup(node.left, marked) or _is_markup(node.right, marked)
    return isinstance(node, nodes.Name) and node.name in marked
