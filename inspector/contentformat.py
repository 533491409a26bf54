"""Does a chat template loop over a message's content? Read from its syntax tree; nothing is rendered.

Flow of values is followed through names, namespaces, conditionals, filters, slices and macro parameters to a fixed
point, without regard to order or scope: a name that somewhere holds content counts everywhere. So the answer may err
only towards "yes, it reads parts".
"""

from __future__ import annotations

from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

_SEQUENCE, _MESSAGE, _CONTENT = "sequence", "message", "content"
_ONE_OF = ("first", "last", "random")


class _Generation(Extension):
    """Accept `{% generation %}` blocks as transformers does; only the body matters here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def parse_template(text: str) -> nodes.Template:
    """Parse a chat template with the blocks that transformers knows. Errors: jinja2's own, RecursionError."""
    environment = jinja2.Environment(extensions=[_Generation, loopcontrols], trim_blocks=True, lstrip_blocks=True)
    return environment.parse(text)


def iterates_content(template_text: str) -> bool:
    """Tell whether the template loops over the content of a message; False when it cannot be parsed."""
    try:
        tree = parse_template(template_text)
    except (jinja2.TemplateError, RecursionError, ValueError):  # ValueError: a number of too many digits
        return False
    return _Flow(tree).loops_over_content()


class _Flow:
    """What each name (or `namespace.attribute`) may hold: messages, one message, content."""

    def __init__(self, tree: nodes.Template) -> None:
        self.held: dict[str, set[str]] = {"messages": {_SEQUENCE}}
        self.macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
        self.loops = list(tree.find_all(nodes.For))
        self.assigns = list(tree.find_all(nodes.Assign))
        self.calls = [call for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Name)]

    def loops_over_content(self) -> bool:
        before = -1
        while before != (before := sum(map(len, self.held.values()))):
            self._pass()
        return any(_CONTENT in self.kinds(loop.iter) for loop in self.loops)

    def _pass(self) -> None:
        for assign in self.assigns:
            self._bind(assign.target, self.kinds(assign.node))
            if isinstance(assign.node, nodes.Call) and isinstance(assign.target, nodes.Name):
                for pair in assign.node.kwargs:  # set ns = namespace(items=message.content)
                    self._hold(f"{assign.target.name}.{pair.key}", self.kinds(pair.value))
        for loop in self.loops:
            if _SEQUENCE in self.kinds(loop.iter):
                self._bind(loop.target, {_MESSAGE})
        for call in self.calls:
            self._bind_parameters(call)

    def _bind_parameters(self, call: nodes.Call) -> None:
        macro = self.macros.get(call.node.name)  # type: ignore[attr-defined]
        if macro is None:
            return
        for parameter, value in zip(macro.args, call.args, strict=False):
            self._hold(parameter.name, self.kinds(value))
        for pair in call.kwargs:
            self._hold(str(pair.key), self.kinds(pair.value))

    def _bind(self, target: nodes.Node, kinds: set[str]) -> None:
        if isinstance(target, nodes.Name):
            self._hold(target.name, kinds)
        elif isinstance(target, nodes.NSRef):
            self._hold(f"{target.name}.{target.attr}", kinds)

    def _hold(self, name: str, kinds: set[str]) -> None:
        if kinds:
            self.held.setdefault(name, set()).update(kinds)

    def kinds(self, node: Any) -> set[str]:
        """Give what an expression may be."""
        if isinstance(node, nodes.Name):
            return self.held.get(node.name, set())
        if isinstance(node, nodes.Filter):
            return self._filtered(node)
        if isinstance(node, nodes.Getitem):
            return self._item(node)
        if isinstance(node, nodes.Getattr):
            return self._member(node.node, node.attr)
        if isinstance(node, nodes.CondExpr):
            return self.kinds(node.expr1) | self.kinds(node.expr2)
        if isinstance(node, nodes.And | nodes.Or | nodes.Add):
            return self.kinds(node.left) | self.kinds(node.right)
        if isinstance(node, nodes.Call):
            return self._called(node)
        return set()

    def _filtered(self, node: nodes.Filter) -> set[str]:
        kinds = self.kinds(node.node)
        if node.name in _ONE_OF:
            return {_MESSAGE} if _SEQUENCE in kinds else set()
        return kinds

    def _item(self, node: nodes.Getitem) -> set[str]:
        if isinstance(node.arg, nodes.Slice):
            return self.kinds(node.node)
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return self._member(node.node, node.arg.value)
        return {_MESSAGE} if _SEQUENCE in self.kinds(node.node) else set()

    def _member(self, owner: nodes.Expr, name: str) -> set[str]:
        if isinstance(owner, nodes.Name) and f"{owner.name}.{name}" in self.held:
            return self.held[f"{owner.name}.{name}"]
        return {_CONTENT} if name == "content" and _MESSAGE in self.kinds(owner) else set()

    def _called(self, node: nodes.Call) -> set[str]:
        method = node.node
        if isinstance(method, nodes.Getattr) and method.attr == "get" and node.args:
            key = node.args[0]
            return self._member(method.node, key.value) if isinstance(key, nodes.Const) else set()
        return set()
