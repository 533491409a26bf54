"""Find the arguments that a chat template reads beyond what every template is given, from its syntax tree.

An argument is a name that is read where no assignment of the template can have reached it. What it may be (boolean, one of
some words, …) is read from how the template tests, compares, prints and defaults it. Nothing is rendered, and values that
a template computes are not followed further than `{% set y = x %}`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
from jinja2 import nodes

from inspector.contentformat import parse_template
from inspector.render import compile_error

TYPES = ("boolean", "string", "number", "list", "object", "unknown")
SPECIAL_TOKENS = "bos_token eos_token unk_token sep_token pad_token cls_token mask_token additional_special_tokens"
_GIVEN = frozenset(
    "messages tools documents add_generation_prompt continue_final_message raise_exception strftime_now self "
    f"conversation conversations chat_template tokenize null range dict lipsum cycler joiner namespace {SPECIAL_TOKENS}".split()
)
_IN_MACRO = ("caller", "varargs", "kwargs")


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """An argument that a template reads.

    `default` is what the template does without it (None: not evident); `choices` the strings that it is compared with;
    `guarded` says that the template tests whether it is given; `lines` are the template lines that read it.
    """

    name: str
    type: str
    default: Any
    choices: tuple[str, ...]
    guarded: bool
    lines: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the argument as a JSON value."""
        return {
            "name": self.name,
            "type": self.type,
            "default": self.default,
            "choices": list(self.choices),
            "guarded": self.guarded,
            "lines": list(self.lines),
        }


def template_arguments(text: str) -> tuple[TemplateArgument, ...]:
    """Give the arguments of a template, in the order in which it first reads them.

    Errors: TemplateSyntax, TemplateTooComplex.

    >>> [(a.name, a.type, a.default) for a in template_arguments("{% if thinking is defined and not thinking %}x{% endif %}")]
    [('thinking', 'boolean', True)]
    """
    try:
        tree = parse_template(text)
        reads = _Reads(tree)
        return tuple(_argument(name, reads) for name in reads.arguments())
    except (jinja2.TemplateError, RecursionError, ValueError) as error:
        raise compile_error(error, text) from error


# --- where names are read ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Use:
    """One read of a name: the node, and what holds it, innermost first."""

    node: nodes.Name
    holders: tuple[nodes.Node, ...]


class _Reads:
    """Every read of every name, and the reads that no assignment can have reached.

    `bound` are the names that may have been assigned; `hidden` those that a loop, macro or with-block makes its own.
    """

    def __init__(self, tree: nodes.Template) -> None:
        self.uses: dict[str, list[_Use]] = {}
        self.assigned: dict[str, list[nodes.Node | None]] = {}
        self._free: dict[str, None] = {}
        self._tests: list[nodes.Node] = []  # of the branches that the walk is in
        self._called = {id(call.node) for call in tree.find_all(nodes.Call)}
        macros = {macro.name for macro in tree.find_all(nodes.Macro)}
        self._outer = macros | {name for node in tree.body for name in _assigned_in(node)}
        self._body(tree.body, set(macros), frozenset())

    def arguments(self) -> list[str]:
        """Give the names of the arguments, in the order of their first read."""
        return [name for name in self._free if name not in _GIVEN]

    def _body(self, body: Sequence[nodes.Node], bound: set[str], hidden: frozenset[str]) -> None:
        for node in body:
            visit = getattr(self, f"_visit_{type(node).__name__.lower()}", None)
            if visit is not None:
                visit(node, bound, hidden)
            else:
                self._others(node, bound, hidden)

    def _others(self, node: nodes.Node, bound: set[str], hidden: frozenset[str]) -> None:
        """Read the expressions of a statement; its statements, if any, have a scope of their own."""
        for child in node.iter_child_nodes():
            if isinstance(child, nodes.Stmt):
                self._body([child], set(bound), hidden)
            else:
                self._read(child, (node,), bound, hidden)

    def _visit_assign(self, node: nodes.Assign, bound: set[str], hidden: frozenset[str]) -> None:
        self._read(node.node, (node,), bound, hidden)
        if isinstance(node.target, nodes.NSRef):
            return
        for name in _names(node.target):
            bound.add(name)
            if name not in hidden and not any(_only_if_given(test, name) for test in self._tests):
                self.assigned.setdefault(name, []).append(node.node if isinstance(node.target, nodes.Name) else None)

    def _visit_assignblock(self, node: nodes.AssignBlock, bound: set[str], hidden: frozenset[str]) -> None:
        self._body(node.body, set(bound), hidden)
        for name in _names(node.target):
            bound.add(name)
            if name not in hidden:
                self.assigned.setdefault(name, []).append(None)

    def _visit_if(self, node: nodes.If, bound: set[str], hidden: frozenset[str]) -> None:
        after: set[str] = set()
        for branch in (node, *node.elif_):
            self._read(branch.test, (branch,), bound, hidden)
            reached = set(bound)
            self._tests.append(branch.test)
            self._body(branch.body, reached, hidden)
            self._tests.pop()
            after |= reached
        otherwise = set(bound)
        self._body(node.else_, otherwise, hidden)
        bound |= after | otherwise

    def _visit_for(self, node: nodes.For, bound: set[str], hidden: frozenset[str]) -> None:
        self._read(node.iter, (node,), bound, hidden)
        own = {*_names(node.target), "loop"}
        inside, hides = bound | own, hidden | own
        if node.test is not None:
            self._read(node.test, (node,), inside, hides)
        self._body(node.body, set(inside), hides)
        self._body(node.else_, set(bound), hidden)

    def _visit_macro(self, node: nodes.Macro, bound: set[str], hidden: frozenset[str]) -> None:
        self._callable(node, bound, hidden)
        bound.add(node.name)

    def _visit_callblock(self, node: nodes.CallBlock, bound: set[str], hidden: frozenset[str]) -> None:
        self._read(node.call, (node,), bound, hidden)
        self._callable(node, bound, hidden)

    def _callable(self, node: Any, bound: set[str], hidden: frozenset[str]) -> None:
        """A body that runs when it is called: any assignment outside may have come before."""
        for value in node.defaults:
            self._read(value, (node,), bound, hidden)
        own = {*(name for arg in node.args for name in _names(arg)), *_IN_MACRO}
        self._body(node.body, bound | own | self._outer, hidden | own)

    def _visit_with(self, node: nodes.With, bound: set[str], hidden: frozenset[str]) -> None:
        for value in node.values:
            self._read(value, (node,), bound, hidden)
        own = {name for target in node.targets for name in _names(target)}
        self._body(node.body, bound | own, hidden | own)

    def _read(self, node: nodes.Node, holders: tuple[nodes.Node, ...], bound: set[str], hidden: frozenset[str]) -> None:
        if isinstance(node, nodes.Name):
            if node.name not in hidden and id(node) not in self._called:
                self.uses.setdefault(node.name, []).append(_Use(node, holders))
                if node.name not in bound:
                    self._free.setdefault(node.name)
            return
        for child in node.iter_child_nodes():
            self._read(child, (node, *holders), bound, hidden)


def _names(target: nodes.Node) -> Iterator[str]:
    if isinstance(target, nodes.Name):
        yield target.name
    yield from (name.name for name in target.find_all(nodes.Name))


def _assigned_in(node: nodes.Node) -> Iterator[str]:
    """Yield the names that a statement assigns in the scope it stands in."""
    if isinstance(node, nodes.Assign | nodes.AssignBlock):
        yield from _names(node.target)
    elif isinstance(node, nodes.If):
        for child in (*node.body, *node.elif_, *node.else_):
            yield from _assigned_in(child)


def _only_if_given(test: nodes.Node, name: str) -> bool:
    """True if a test cannot hold while the name is not given."""
    if isinstance(test, nodes.And):
        return _only_if_given(test.left, name) or _only_if_given(test.right, name)
    if isinstance(test, nodes.Test):
        return test.name == "defined" and _is_name(test.node, name)
    return _is_name(test, name)


# --- what they may be ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Evidence:
    """What the uses of one name say."""

    types: list[str] = field(default_factory=list)  # strongest use first is decided by _ORDER
    weak: list[str] = field(default_factory=list)  # truth, print: what many types allow
    choices: dict[str, None] = field(default_factory=dict)
    defaults: list[Any] = field(default_factory=list)
    computed_default: bool = False
    without: list[bool] = field(default_factory=list)  # the truth that tests find when the name is not given
    guarded: bool = False


_NONE = object()
_TESTS = {
    "true": "boolean", "false": "boolean", "boolean": "boolean", "string": "string", "number": "number",
    "integer": "number", "float": "number", "mapping": "object", "sequence": "list",
}  # fmt: skip
_TEXT_FILTERS = frozenset("upper lower trim capitalize title replace indent urlencode wordwrap striptags".split())
_TEXT_METHODS = frozenset(
    "strip lstrip rstrip split lower upper title startswith endswith replace splitlines format".split()
)
_NUMBER_FILTERS = frozenset("int float abs round".split())
_LIST_FILTERS = frozenset("join map select selectattr reject rejectattr first last list sort".split())
_MAPPING_METHODS = frozenset("items keys values get".split())


def _argument(name: str, reads: _Reads) -> TemplateArgument:
    evidence = _Evidence()
    lines = {use.node.lineno for use in reads.uses[name]}
    for known in (name, *_aliases(name, reads)):
        for use in reads.uses.get(known, ()):
            _look(use, evidence)
    for value in reads.assigned.get(name, ()):
        _assigned_value(name, value, evidence)
    kind = _kind(evidence)
    return TemplateArgument(
        name=name,
        type=kind,
        default=_default(kind, evidence),
        choices=tuple(evidence.choices) if kind == "string" else (),
        guarded=evidence.guarded,
        lines=tuple(sorted(lines)),
    )


def _aliases(name: str, reads: _Reads) -> list[str]:
    """Give the names that are only ever set to this one: `{% set y = x %}`, with or without a default."""
    found = []
    for other, values in reads.assigned.items():
        if other != name and values and all(value is not None and _passes(value) == name for value in values):
            found.append(other)
    return found


def _passes(value: nodes.Node | None) -> str | None:
    """Give the name whose value an expression passes on, if it does nothing else with it."""
    if isinstance(value, nodes.Filter) and value.name in ("default", "d"):
        return _passes(value.node)
    if isinstance(value, nodes.CondExpr):
        arms = [arm for arm in (value.expr1, value.expr2) if not isinstance(arm, nodes.Const)]
        return _passes(arms[0]) if len(arms) == 1 else None
    return value.name if isinstance(value, nodes.Name) else None


def _look(use: _Use, evidence: _Evidence) -> None:
    """Take from one use what it says; a filter's result says something of what it was given only if it is a default."""
    node: nodes.Node = use.node
    holders = use.holders
    while holders and isinstance(holders[0], nodes.Filter) and holders[0].name in ("default", "d"):
        if holders[0].node is not node:
            return
        _note_default(holders[0].args[0] if holders[0].args else None, evidence)
        evidence.guarded = True
        node, holders = holders[0], holders[1:]
    if holders:
        _LOOKS.get(type(holders[0]), _look_otherwise)(node, holders, use, evidence)


def _look_otherwise(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    _truth(node, holders, use, evidence)


def _look_test(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    test: Any = holders[0]
    if test.node is not node:
        return
    if test.name in ("defined", "undefined"):
        evidence.guarded = True
    elif test.name in _TESTS:
        evidence.types.append(_TESTS[test.name])
        if test.name in ("true", "false"):
            _note_truth(test.name == "true", holders[1:], use, evidence)


def _look_compare(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    compare: Any = holders[0]
    if compare.expr is node and len(compare.ops) == 1:
        operand = compare.ops[0]
        constants = _constants(operand.expr)
        _compared(operand.op, constants, evidence)
        if operand.op in ("eq", "ne") and isinstance(constants[0], bool):
            _note_truth(constants[0] == (operand.op == "eq"), holders[1:], use, evidence)


def _look_operand(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    operand, compare = holders[0], holders[1]
    if not isinstance(operand, nodes.Operand) or not isinstance(compare, nodes.Compare):
        return
    if operand.op in ("in", "notin"):
        evidence.weak.append("list")
    else:
        _compared(operand.op, _constants(compare.expr), evidence)


def _constants(node: nodes.Expr) -> list[Any]:
    items = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    return [item.value if isinstance(item, nodes.Const) else _NONE for item in items]


def _compared(op: str, constants: list[Any], evidence: _Evidence) -> None:
    for value in constants:
        if isinstance(value, bool):
            evidence.types.append("boolean")
        elif isinstance(value, str) and op in ("eq", "ne", "in", "notin"):
            evidence.types.append("string")
            if value:
                evidence.choices.setdefault(value)
        elif isinstance(value, int | float):
            evidence.types.append("number")


def _look_filter(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    filter_: Any = holders[0]
    if filter_.node is not node:
        evidence.weak.append("string")
    elif filter_.name in _TEXT_FILTERS:
        evidence.types.append("string")
        if filter_.name in ("lower", "trim", "upper"):  # compared after it: reasoning_effort|lower == "low"
            _look_after(filter_, holders[1:], use, evidence)
    elif filter_.name in _NUMBER_FILTERS:
        evidence.types.append("number")
    elif filter_.name in _LIST_FILTERS:
        evidence.types.append("list")
    elif filter_.name in ("length", "count"):
        evidence.weak.append("list")
    elif filter_.name == "string":
        evidence.weak.append("string")


def _look_after(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    if holders and isinstance(holders[0], nodes.Compare):
        _look_compare(node, holders, use, evidence)


def _look_member(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    member: Any = holders[0]
    if member.node is not node:
        return
    called = len(holders) > 1 and isinstance(holders[1], nodes.Call) and holders[1].node is member
    if isinstance(member, nodes.Getitem):
        constant = isinstance(member.arg, nodes.Const) and isinstance(member.arg.value, str)
        evidence.types.append("object") if constant else evidence.weak.append("list")
    elif called and member.attr in _TEXT_METHODS:
        evidence.types.append("string")
        _look_after(holders[1], holders[2:], use, evidence)
    elif not called or member.attr in _MAPPING_METHODS:
        evidence.types.append("object")


def _look_for(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    loop: Any = holders[0]
    if loop.iter is node:
        evidence.types.append("list")
    else:
        _truth(node, holders, use, evidence)


def _look_print(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    evidence.weak.append("string")


def _look_choice(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    """`x if x is defined else DEFAULT`, and `… if x else …`."""
    choice: Any = holders[0]
    if choice.test is node:
        _truth(node, holders, use, evidence)
        return
    other = choice.expr2 if choice.expr1 is node else choice.expr1
    if any(name.name == use.node.name for name in (choice.test, *choice.test.find_all(nodes.Name)) if isinstance(name, nodes.Name)):  # fmt: skip
        _note_default(other, evidence)
    _look_value(choice, holders[1:], use, evidence)


def _look_or(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    either: Any = holders[0]
    if not _in_test(holders) and either.left is node and isinstance(either.right, nodes.Const):
        _note_default(either.right, evidence)
        _look_value(either, holders[1:], use, evidence)
    else:
        _truth(node, holders, use, evidence)


def _look_value(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    if holders and isinstance(holders[0], nodes.Output | nodes.Add | nodes.Concat):
        evidence.weak.append("string")


_LOOKS: dict[type, Any] = {
    nodes.Test: _look_test,
    nodes.Compare: _look_compare,
    nodes.Operand: _look_operand,
    nodes.Filter: _look_filter,
    nodes.Getattr: _look_member,
    nodes.Getitem: _look_member,
    nodes.For: _look_for,
    nodes.Output: _look_print,
    nodes.Concat: _look_print,
    nodes.Add: _look_print,
    nodes.CondExpr: _look_choice,
    nodes.Or: _look_or,
}


def _truth(node: nodes.Node, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    """A truth test."""
    guarded = any(_guard(holder, use.node.name) is not None for holder in holders)
    if not _in_test(holders) and not guarded:
        return
    evidence.weak.append("boolean")
    if guarded or not isinstance(holders[0], nodes.Not):
        _note_truth(True, holders, use, evidence)
    else:
        evidence.without.append(False)  # `not x` holds without x as it does with a false one


def _note_truth(holds_for: bool, holders: tuple[nodes.Node, ...], use: _Use, evidence: _Evidence) -> None:
    """Note which value acts like none at all, for a test that one truth value passes and a missing value does not.

    `x is defined and …` fails without x, `x is not defined or …` passes.
    """
    for holder in holders:
        if isinstance(holder, nodes.Not):
            holds_for = not holds_for
            continue
        passes = _guard(holder, use.node.name)
        if passes is not None:
            evidence.without.append(holds_for if passes else not holds_for)
            return
    if any(isinstance(holder, nodes.Not) for holder in holders):
        holds_for = not holds_for
    evidence.without.append(not holds_for)


def _guard(holder: nodes.Node, name: str) -> bool | None:
    """Tell whether `… and …` or `… or …` that asks for the name passes without it; None if it does not ask."""
    if isinstance(holder, nodes.And) and _asks_defined(holder, name):
        return False
    return True if isinstance(holder, nodes.Or) and _asks_undefined(holder, name) else None


def _asks_defined(node: nodes.Node, name: str) -> bool:
    negated = {id(not_.node) for not_ in node.find_all(nodes.Not)}
    return any(
        test.name == "defined" and id(test) not in negated and _is_name(test.node, name)
        for test in node.find_all(nodes.Test)
    )


def _asks_undefined(node: nodes.Node, name: str) -> bool:
    negated = {id(not_.node) for not_ in node.find_all(nodes.Not)}
    return any(
        (test.name == "undefined" or (test.name == "defined" and id(test) in negated)) and _is_name(test.node, name)
        for test in node.find_all(nodes.Test)
    )


def _is_name(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _in_test(holders: tuple[nodes.Node, ...]) -> bool:
    """True if only `and`, `or` and `not` stand between the place and a test, or a `not` makes it one."""
    for holder, outer in itertools.pairwise(holders):
        if isinstance(holder, nodes.Not):
            return True
        if not isinstance(holder, nodes.And | nodes.Or):
            return isinstance(holder, nodes.CondExpr | nodes.If | nodes.For)
        if isinstance(outer, nodes.CondExpr) and outer.test is not holder:
            return False
    return isinstance(holders[-1], nodes.If | nodes.For | nodes.Not)


def _note_default(value: nodes.Node | None, evidence: _Evidence) -> None:
    try:
        constant = value.as_const() if isinstance(value, nodes.Expr) else None
    except nodes.Impossible:
        evidence.computed_default = True
        return
    if constant is not None:
        evidence.defaults.append(constant)


def _assigned_value(name: str, value: nodes.Node | None, evidence: _Evidence) -> None:
    """An argument that the template sets itself: a constant is its default, where it is not given."""
    if value is None:
        evidence.computed_default = True
    elif isinstance(value, nodes.Const | nodes.List | nodes.Dict):
        _note_default(value, evidence)
    elif not any(isinstance(node, nodes.Name) and node.name == name for node in (value, *value.find_all(nodes.Name))):
        evidence.computed_default = True


def _type_of(value: Any) -> str:
    for kind, name in ((bool, "boolean"), (str, "string"), (int | float, "number"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "list" if isinstance(value, list | tuple) else "unknown"


def _kind(evidence: _Evidence) -> str:
    """Decide: constants that it is compared with or falls back to, then what only one type allows, then the rest."""
    if evidence.choices:
        return "string"
    stated = [kind for kind in map(_type_of, evidence.defaults) if kind != "unknown"]
    for kinds in (evidence.types, stated):
        if kinds:
            return max(dict.fromkeys(kinds), key=kinds.count)
    for kind in ("list", "string", "boolean"):
        if kind in evidence.weak:
            return kind
    return "unknown"


def _default(kind: str, evidence: _Evidence) -> Any:
    fitting = [value for value in evidence.defaults if _type_of(value) == kind]
    if evidence.computed_default:
        return None
    if fitting:
        first = fitting[0]
        return (list(first) if isinstance(first, tuple) else first) if all(v == first for v in fitting) else None
    if kind == "boolean" and evidence.without:
        return evidence.without[0] if len(set(evidence.without)) == 1 else None
    return None
