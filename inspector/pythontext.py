"""Python source read without running it: literals as JSON values, and the arguments of a chat call.

`read_python` knows `ast.literal_eval`'s values (and names that the same text assigns), nothing else: an f-string, a call or
an operator is refused with its place. Floats keep their digits where JSON can spell them so. The parser builds large
trees, so this runs in a sandbox child only.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import SpelledFloat, SpelledInt

MAX_CHARACTERS = 1_000_000  # a tree takes a few hundred bytes a character
_JSON_NUMBER = re.compile(rb"(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare)
_WHAT = {ast.JoinedStr: "an f-string", ast.Call: "a call", ast.Set: "a set", ast.Lambda: "a lambda",
         ast.ListComp: "a comprehension", ast.DictComp: "a comprehension", ast.Attribute: "an attribute",
         ast.Subscript: "a subscript"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PythonText:
    """What a Python text says: one literal (`value`), or the arguments of a chat call or of assignments (`arguments`).

    `call` names the function called, "" for assignments; `positional` are the call's unnamed arguments.
    """

    value: Any = None
    arguments: dict[str, Any] | None = None
    positional: tuple[Any, ...] = ()
    call: str = ""
    notes: tuple[str, ...] = ()


def read_python(text: str, max_depth: int = 64) -> PythonText | None:
    """Read a literal, `name = literal` lines, or a call with `messages`; None for a text that is none of these.

    Errors: InputInvalid with line and column for what is no literal, and for a nesting deeper than `max_depth`.

    >>> read_python("[{'role': 'user', 'content': 'a' 'b', 'n': (1.50, None)}]").value
    [{'role': 'user', 'content': 'ab', 'n': [1.5, None]}]
    >>> read_python("client.chat.completions.create(model=NAME, messages=[])").arguments
    {'messages': []}
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_CHARACTERS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"Python text of {len(text):,} characters; the limit is {MAX_CHARACTERS:,}",
            stage="request",
            where={"characters": len(text), "limit": MAX_CHARACTERS},
            remedy="paste JSON, or a shorter text",
        )
    tree = _parse(text)
    return None if tree is None else _Reader(text, max_depth).read(tree)


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        if "too many nested" in str(error.msg):
            raise _refused("nested deeper than Python's own parser allows", error.lineno, error.offset) from None
        return None
    except (MemoryError, RecursionError):
        raise _refused("nested deeper than Python's own parser allows", 1, 1) from None
    except ValueError:  # a null character, or an integer of too many digits
        return None


def _refused(message: str, line: int | None, column: int | None, remedy: str = "") -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid,
        message,
        stage="request",
        where={"line": line or 1, "column": column or 1},
        remedy=remedy or "write the value itself",
    )


class _Reader:
    def __init__(self, text: str, max_depth: int) -> None:
        self.lines, self.max_depth = text.encode("utf-8", "surrogatepass").split(b"\n"), max_depth
        self.names: dict[str, ast.expr] = {}
        self.notes: list[str] = []
        self.values = 0

    def read(self, tree: ast.Module) -> PythonText | None:
        body = tree.body
        if (
            len(body) == 1
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.List | ast.Dict | ast.Tuple)
        ):
            return PythonText(value=self.value(body[0].value), notes=tuple(self.notes))
        for statement in body:
            target, value = _assignment(statement)
            if target and value is not None:
                self.names[target] = value
        call = _chat_call(tree)
        if call is not None:
            return self._call(call)
        wanted = {name: value for name, value in self.names.items() if name in ("messages", "tools", "documents")}
        if "messages" in wanted:
            return PythonText(arguments={k: self.value(v) for k, v in wanted.items()}, notes=tuple(self.notes))
        if len(body) == 1 and len(self.names) == 1:
            [only] = self.names.values()
            if isinstance(only, ast.List | ast.Dict | ast.Tuple):
                return PythonText(value=self.value(only), notes=tuple(self.notes))
        return None

    def _call(self, call: ast.Call) -> PythonText:
        arguments: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                self.notes.append("**")
            elif keyword.arg in ("messages", "tools", "documents", "system"):
                arguments[keyword.arg] = self.value(keyword.value)
            else:  # an option, often a name or a call: what cannot be read is only not taken over
                try:
                    arguments[keyword.arg] = self.value(keyword.value)
                except InspectorError:
                    self.notes.append(keyword.arg)
        positional = tuple(self.value(node) for node in call.args[:1])
        return PythonText(arguments=arguments, positional=positional, call=_called(call), notes=tuple(self.notes))

    def value(self, node: ast.expr, depth: int = 1, seen: frozenset[str] = frozenset()) -> Any:
        """Give a literal as a JSON value; recursion is bounded by `max_depth`, and what names repeat by MAX_CHARACTERS."""
        self.values += 1
        if self.values > MAX_CHARACTERS:
            raise self._at(node, f"more than {MAX_CHARACTERS:,} values", "write fewer")
        if isinstance(node, ast.Name) and node.id in self.names and node.id not in seen:
            return self.value(self.names[node.id], depth + 1, seen | {node.id})
        if isinstance(node, ast.List | ast.Tuple | ast.Dict) and depth > self.max_depth:
            raise self._at(node, f"nested deeper than the limit of {self.max_depth} levels", "flatten the value")
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(item, depth + 1, seen) for item in node.elts]
        if isinstance(node, ast.Dict):
            return self._members(node, depth, seen)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self._signed(node)
        if isinstance(node, ast.Constant):
            return self._constant(node)
        raise self._at(node, f"{_name(node)} is not a literal")

    def _members(self, node: ast.Dict, depth: int, seen: frozenset[str]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, item in zip(node.keys, node.values):
            if key is None:
                raise self._at(item, "** is not a literal")
            name = self.value(key, depth + 1, seen)
            if not isinstance(name, str):
                raise self._at(key, "a key that is no string", "write the key as a string: JSON has no other keys")
            if name in members:
                raise self._at(key, f"DuplicateKey: {name[:80]!r} is given twice", "keep one of them")
            members[name] = self.value(item, depth + 1, seen)
        return members

    def _signed(self, node: ast.UnaryOp) -> Any:
        operand = node.operand
        if not isinstance(operand, ast.Constant) or type(operand.value) not in (int, float):
            raise self._at(node, f"{_name(node)} is not a literal")
        number = self._constant(operand)
        if isinstance(node.op, ast.UAdd):
            return number
        if isinstance(number, SpelledFloat):
            return SpelledFloat(f"-{number.spelling}")
        return SpelledInt("-0") if type(number) is int and number == 0 else -number

    def _constant(self, node: ast.Constant) -> Any:
        value = node.value
        if value is None or isinstance(value, str | bool):
            return value
        if isinstance(value, int):
            return value
        if not isinstance(value, float):
            raise self._at(node, f"{type(value).__name__} {ast.unparse(node)[:40]} has no JSON form", "write a string")
        if value - value != 0:
            raise self._at(node, "the number is too large: it would become infinite", "write it as a string")
        spelling = self.lines[node.lineno - 1][node.col_offset : node.end_col_offset]
        return (
            SpelledFloat(spelling.decode())
            if _JSON_NUMBER.fullmatch(spelling) and spelling.decode() != repr(value)
            else value
        )

    def _at(self, node: ast.expr, message: str, remedy: str = "") -> InspectorError:
        line = self.lines[node.lineno - 1][: node.col_offset]
        return _refused(message, node.lineno, len(line.decode("utf-8", "replace")) + 1, remedy)


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return "", None


def _chat_call(tree: ast.Module) -> ast.Call | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = any(keyword.arg == "messages" for keyword in node.keywords)
            if named or (
                isinstance(node.func, ast.Attribute) and node.func.attr == "apply_chat_template" and node.args
            ):
                return node
    return None


def _called(call: ast.Call) -> str:
    function = call.func
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else "call"
    )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return f"the name {node.id[:80]}"
    if isinstance(node, _OPERATORS):
        return "an operation"
    return _WHAT.get(type(node), "this")
