"""The reference engine: transformers' own Jinja, and beside it the same Jinja with provenance.

`reference` calls transformers' `render_jinja_template` and nothing else (of a template that is rendered again and again
with sparing.py's copy of its sandbox, which gives the same answers); its text is the truth. `render_traced` runs a
sandbox configured like transformers' whose strings carry their origin. This module does not compare the two, and
does not turn exceptions into InspectorErrors: render.py does.

How the traced run differs inside: literals are `Traced` with their template line, every output is a (text, line) pair,
`concat` joins runs, filters that would lose runs are replaced by ones that keep them, and attribute look-ups on the
request's own types take a short cut. None of it may change a byte.
"""

from __future__ import annotations

import re
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial, wraps
from types import BuiltinMethodType, FrameType, MethodType, SimpleNamespace
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.compiler import operators as _operators
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.lexer import TokenStream, newline_re
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Namespace, pass_environment, pass_eval_context
from transformers.utils import chat_template_utils

from inspector.engines.base import TemplateCall, TracedRender, cut_at_tag, shown_messages
from inspector.engines.coverage import Coverage, LinePlan, straight_runs
from inspector.engines.sparing import often, sparing_render
from inspector.errors import clipped
from inspector.provenance import (
    IN_GENERATION,
    LINE_MASK,
    TEMPLATE,
    Origin,
    SegmentKind,
    Traced,
    TracedFloat,
    TracedInt,
    TracedMarkup,
    add,
    add_parts,
    assemble,
    computed,
    concat,
    derive,
    dump_json,
    escape_html,
    flattened,
    format_traced,
    make,
    named,
    named_member,
    runs_of,
    traced_str,
    whole,
)

# --- the reference ----------------------------------------------------------------------------------------------

_clock_lock = threading.RLock()
_library: Any = chat_template_utils  # its `datetime` is replaced, and its private compiler is called


@contextmanager
def fixed_clock(clock: datetime) -> Iterator[None]:
    """Let transformers' strftime_now read this clock.

    It calls `datetime.now()` through its module's global, so that is what is replaced, for one thread at a time.
    """
    naive = clock.replace(tzinfo=None)  # datetime.now() has no zone: `%Z` is empty
    with _clock_lock:
        real = _library.datetime
        _library.datetime = SimpleNamespace(now=lambda: naive)
        try:
            yield
        finally:
            _library.datetime = real


def reference(call: TemplateCall) -> str:
    """Render with transformers' `render_jinja_template` (which strips our traced types down to plain ones). A template
    that is rendered again and again takes the short cuts of sparing.py, which change no answer.

    Errors: whatever the template or transformers raises, unchanged.
    """
    if often(call.text):
        try:
            return _rendered(sparing_render(), call)
        except Exception:
            pass  # an error is told as the library raises it
    return _rendered(_library.render_jinja_template, call)


def _rendered(render: Callable[..., Any], call: TemplateCall) -> str:
    with fixed_clock(call.clock):
        rendered, _ = render(
            conversations=[call.messages],
            tools=call.tools,
            documents=call.documents,
            chat_template=call.text,
            continue_final_message=call.continue_final_message,
            add_generation_prompt=call.add_generation_prompt,
            **{**call.special_tokens, **call.kwargs},
        )
    return rendered[0]


render_text = reference  # the name that every engine's function has


def limits(call: TemplateCall) -> tuple[str, ...]:
    """Give what this engine cannot take of the call: nothing."""
    return ()


def compile_reference(text: str) -> jinja2.Template:
    """Compile as transformers does, from its cache. Errors: jinja2's and Python's own."""
    return _library._compile_jinja_template(text)


def without_generation_prompt(call: TemplateCall) -> TemplateCall:
    """Give the same call with add_generation_prompt off."""
    return replace(call, add_generation_prompt=False)


def is_syntax_error(error: BaseException) -> bool:
    """True for what Jinja's parser and compiler say about a template."""
    return isinstance(error, jinja2.TemplateSyntaxError)


def is_security_error(error: BaseException) -> bool:
    """True for what the sandbox forbids."""
    return isinstance(error, jinja2.exceptions.SecurityError)


def is_raised_by_template(error: BaseException) -> bool:
    """True for `raise_exception`, which raises the base class itself."""
    return type(error) is jinja2.TemplateError


_OTHERS = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def _holds(tree: nodes.Template, kinds: tuple[type[nodes.Node], ...]) -> bool:
    return any(tree.find(kind) is not None for kind in kinds)


def is_undefined(error: BaseException) -> bool:
    """Say whether a name or field that is not there was used."""
    return isinstance(error, jinja2.exceptions.UndefinedError)


def is_too_wide_range(error: BaseException) -> bool:
    """True for a range beyond what Jinja's sandbox gives."""
    return isinstance(error, OverflowError) and "MAX_RANGE" in str(error)


def touched_dunder(error: BaseException) -> bool:
    """True where an undefined error is about a double-underscore name: a look into Python's own objects."""
    return is_undefined(error) and re.search(r"has no attribute '__\w+__'$", str(error)) is not None


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a template, from 1; None: not known. `depth`: how many nodes lie in each other there; 0: not known."""

    line: int | None = None
    column: int | None = None
    depth: int = 0


def failing_place(text: str, error: BaseException) -> Place:
    """Tell where parser or compiler gave a template up. Jinja's parser knows lines only, Python's compiler neither."""
    environment = compile_reference("").environment
    stated = getattr(error, "lineno", None) if is_syntax_error(error) else None
    token, line, column = _last_token(environment, text)
    if token is None:
        deepest, depth = _deepest(environment, text)
        return Place(stated or deepest, depth=depth)
    found = re.search(r"^unexpected char .* at (\d+)$", str(getattr(error, "message", None) or error))
    if found:
        column = int(found[1]) - text.rfind("\n", 0, int(found[1]))
        return Place(stated, column)
    return Place(stated or line, column if stated in (None, line) else None)


def _last_token(environment: jinja2.Environment, text: str) -> tuple[Any, int, int | None]:
    """Parse again with tokens that know their column; give the one that the parser stopped at, None if it does not."""
    source = "\n".join(newline_re.split(text)[::2])
    places: dict[int, tuple[Any, int]] = {}  # by identity; the token is kept so that its id stays its own
    at = 0

    def raw() -> Iterator[tuple[int, str, str]]:
        nonlocal at
        for line, kind, value in environment.lexer.tokeniter(text, None):
            at = max(source.find(value, at), at)
            yield line, kind, value
            at += len(value)

    def placed() -> Iterator[Any]:
        for token in environment.lexer.wrap(raw()):
            places[id(token)] = token, at
            yield token

    parser = Parser(environment, "")
    try:
        parser.stream = TokenStream(placed(), None, None)
        parser.parse()
    except (jinja2.TemplateSyntaxError, RecursionError) as error:
        token = parser.stream.current
        held = places.get(id(token))
        known = held is not None and not _in_lexer(error)
        return token, token.lineno, held[1] - source.rfind("\n", 0, held[1]) if held and known else None
    except ValueError:  # digits that are no integer for Python
        return parser.stream.current, parser.stream.current.lineno, None
    return None, 0, None


def _in_lexer(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_name == "tokeniter"


def _deepest(environment: jinja2.Environment, text: str) -> tuple[int | None, int]:
    """Give line and depth of the node that lies deepest in the tree: what Python's compiler cannot nest."""
    try:
        level: list[nodes.Node] = [environment.parse(text)]
    except (jinja2.TemplateError, RecursionError, ValueError):
        return None, 0
    line, depth, arms = None, 0, 0
    while level:
        line, depth = level[0].lineno or line, depth + 1
        arms = max(
            [arms, *(len(node.elif_) for node in level if isinstance(node, nodes.If))]
        )  # else in else for Python
        level = [child for node in level for child in node.iter_child_nodes()]
    return line, depth + arms


def needs_loader(error: BaseException, text: str) -> bool:
    """True if the template includes, imports or extends another, which chat templates cannot."""
    if not isinstance(error, (TypeError, jinja2.TemplateNotFound)) or "loader" not in str(error):
        return isinstance(error, jinja2.TemplateNotFound)
    return _holds(_compile(text).template.environment.parse(text), _OTHERS)


# --- code generation --------------------------------------------------------------------------------------------

PROMPT_MARK = make("", ())  # put out where the block guarded by add_generation_prompt begins
_REBOUND = ("escape", "Markup", "Macro", "str_join", "markup_join")


class _TracedCode(CodeGenerator):
    """Writes literals with their line and outputs as (text, line) pairs; control flow stays Jinja's."""

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        self._literals: list[str] = []
        self._unprinted = set(map(id, _unprinted_constants(node)))
        self._only_printed = set(map(id, _only_printed(node)))
        self._key_of = {id(name): key for name, key in _values_of_items(node)}
        self._prompt_block = prompt_block(node)
        environment: Any = self.environment
        environment.prompt_known = self._prompt_block is not None or not _mentions_prompt(node)
        environment.prompt_tail = _text_after(node, self._prompt_block)
        self._plan = LinePlan(environment, environment.source, node)
        self._blocks: list[tuple[int, ...]] = []
        self._loops: dict[int, tuple[int, str]] = {}  # body of a loop -> its number, the name it binds
        self._loop_count = 0
        super().visit_Template(node, frame)
        code = {line for lines in self._blocks for line in lines}
        environment.coverage = Coverage(tuple(sorted(code)), tuple(self._blocks))
        environment.loop_count = self._loop_count
        for line in self._literals:
            self.writeline(line)
        for name in _REBOUND:  # shadows what the generated module imported from jinja2.runtime
            self.writeline(f"{name} = environment.traced_{name}")
        for name in ("traced_str", "add", "add_parts", "prompt_mark", "named", "look_up_named"):
            self.writeline(f"{name} = environment.{name}")

    def _literal(self, text: str, line: int, spans_lines: bool) -> str:
        name = f"literal_{len(self._literals)}"
        self._literals.append(f"{name} = environment.traced_literal({text!r}, {line}, {spans_lines})")
        return name

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:
        if isinstance(node.value, str) and id(node) not in self._unprinted:
            self.write(self._literal(node.value, node.lineno, False))
        else:
            super().visit_Const(node, frame)

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:
        name = self._literal(node.data, node.lineno, True)
        if frame.eval_ctx.volatile:
            self.write(f"(Markup if context.eval_ctx.autoescape else identity)({name})")
        elif frame.eval_ctx.autoescape:
            self.write(f"Markup({name})")
        else:
            self.write(name)

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:
        if frame.require_output_check:
            if self.has_known_extends:
                return
            self.writeline("if parent_template is None:")
            self.indent()
        for child in node.nodes:
            self._output(child, frame)
        if frame.require_output_check:
            self.outdent()

    def _output(self, child: nodes.Expr, frame: Frame) -> None:
        self.writeline("yield (" if frame.buffer is None else f"{frame.buffer}.append((", child)
        if isinstance(child, nodes.TemplateData):
            self.visit(child, frame)
        elif isinstance(child, nodes.Const):
            # As Jinja does when it compiles: what is known of autoescape now decides, even where it may change.
            text = str(jinja2.runtime.escape(child.value)) if frame.eval_ctx.autoescape else str(child.value)
            self.write(self._literal(text, child.lineno, False))
        elif isinstance(child, nodes.Add) and not frame.eval_ctx.volatile and not frame.eval_ctx.autoescape:
            self._sum("add_parts", child, frame)
            self.write(f", {child.lineno}")
        else:
            self._printed(child, frame)
            self.write(f", {child.lineno}")
        self.write(")" if frame.buffer is None else "))")

    def _printed(self, child: nodes.Expr, frame: Frame) -> None:
        if frame.eval_ctx.volatile:
            self.write("(escape if context.eval_ctx.autoescape else traced_str)(")
        else:
            self.write("escape(" if frame.eval_ctx.autoescape else "traced_str(")
        self.visit(child, frame)
        self.write(")")

    def visit_Name(self, node: nodes.Name, frame: Frame) -> None:
        key = self._key_of.get(id(node)) if id(node) in self._only_printed else None
        if key is None:
            super().visit_Name(node, frame)
            return
        self.write("named(")
        super().visit_Name(node, frame)
        self.write(f", {frame.symbols.ref(key)})")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        if id(node) not in self._only_printed:
            super().visit_Getattr(node, frame)
            return
        self.write("look_up_named(environment.getattr, ")
        self.visit(node.node, frame)
        self.write(f", {node.attr!r})")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if id(node) not in self._only_printed or isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("look_up_named(environment.getitem, ")
        self.visit(node.node, frame)
        self.write(", ")
        self.visit(node.arg, frame)
        self.write(")")

    def visit_Add(self, node: nodes.BinExpr, frame: Frame) -> None:
        self._sum("add", node, frame)

    def _sum(self, function: str, node: nodes.Expr, frame: Frame) -> None:
        """Write `a + b + c` as one call, so that strings are joined once."""
        items: list[nodes.Expr] = []
        while isinstance(node, nodes.Add):
            items.append(node.right)
            node = node.left
        items.append(node)
        self.write(f"{function}((")
        for item in reversed(items):
            self.visit(item, frame)
            self.write(", ")
        self.write("))")

    def visit_If(self, node: nodes.If, frame: Frame) -> None:
        if node is self._prompt_block and frame.buffer is None:
            self.writeline("yield prompt_mark", node)
        super().visit_If(node, frame)

    def write_commons(self) -> None:
        super().write_commons()
        self.writeline("ran = context.ran")
        self.writeline("at = context.at")

    def blockvisit(self, body: Any, frame: Frame) -> None:
        """Flag each stretch of statements that runs as a whole, and note the item of a loop whose body this is."""
        extra = self._plan.before.get(id(body), ())
        for run in straight_runs(body):
            self.writeline(f"ran[{len(self._blocks)}] = 1")
            self._blocks.append(tuple({*extra, *self._plan.lines_of(run)}))
            extra = ()
            if id(body) in self._loops:
                number, name = self._loops.pop(id(body))
                self.writeline(f"at[{number}] = {frame.symbols.ref(name)}")
            super().blockvisit(run, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        number = self._loop_count
        if isinstance(node.target, nodes.Name):
            self._loop_count += 1
            self._loops[id(node.body)] = number, node.target.name
        super().visit_For(node, frame)
        if isinstance(node.target, nodes.Name):
            self.writeline(f"at[{number}] = None")

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:
        self.write(f" {_operators[node.op]} ")
        self.visit(node.expr, frame)


def _unprinted_constants(tree: nodes.Template) -> Iterator[nodes.Node]:
    """Yield constants that are only compared or looked up with, so that they can stay plain and fast."""
    for compare in tree.find_all(nodes.Compare):
        yield compare.expr
        yield from (operand.expr for operand in compare.ops)
    for item in tree.find_all(nodes.Getitem):
        yield item.arg


def _only_printed(tree: nodes.Template) -> Iterator[nodes.Node]:
    """Yield expressions whose value goes nowhere but into text."""
    for output in tree.find_all(nodes.Output):
        for child in output.nodes:
            yield from _arms(child)
    for concat_ in tree.find_all(nodes.Concat):
        for child in concat_.nodes:
            yield from _arms(child)
    for filter_ in tree.find_all(nodes.Filter):
        if filter_.name in ("tojson", "string") and filter_.node is not None:
            yield from _arms(filter_.node)


def _arms(node: nodes.Node) -> Iterator[nodes.Node]:
    if isinstance(node, nodes.CondExpr):
        yield from _arms(node.expr1)
        if node.expr2 is not None:
            yield from _arms(node.expr2)
    else:
        yield node


def _values_of_items(tree: nodes.Template) -> Iterator[tuple[nodes.Name, str]]:
    """Yield each use of `v` inside `{% for k, v in ….items() %}`, with `k`, where neither name is bound again."""
    for loop in tree.find_all(nodes.For):
        names = [part.name for part in getattr(loop.target, "items", ()) if isinstance(part, nodes.Name)]
        if len(names) != 2 or not _gives_items(loop.iter):
            continue
        key, value = names
        uses = [name for name in nodes.Block("", loop.body, False, False).find_all(nodes.Name) if name.name in names]
        if all(name.ctx == "load" for name in uses):
            yield from ((name, key) for name in uses if name.name == value)


def _gives_items(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Call):
        return isinstance(node.node, nodes.Getattr) and node.node.attr == "items" and not node.args
    return isinstance(node, nodes.Filter) and node.name in ("items", "dictsort")


def _reads_prompt(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == "add_generation_prompt"


def _mentions_prompt(tree: nodes.Node) -> bool:
    return any(_reads_prompt(name) for name in tree.find_all(nodes.Name))


def prompt_block(tree: nodes.Template) -> nodes.If | None:
    """Give the last statement if it is `{% if add_generation_prompt … %}` and nothing else reads that name.

    Then without the flag the output would be all that comes before it, plus the literal text after it: no second
    render is needed to know what the flag added.
    """
    body = [node for node in tree.body if not _is_blank(node)]
    if not body or not isinstance(body[-1], nodes.If):
        return None
    last = body[-1]
    reads = sum(_reads_prompt(name) for name in tree.find_all(nodes.Name))
    if last.else_ or last.elif_ or reads != 1 or not _needs_prompt(last.test):
        return None
    return None if _holds(tree, (*_OTHERS, nodes.Block)) else last


def _text_after(tree: nodes.Template, last: nodes.If | None) -> str:
    """Give the blanks that the template writes after the block."""
    after = tree.body[tree.body.index(last) + 1 :] if last is not None else []
    return "".join(data.data for output in after for data in output.find_all(nodes.TemplateData))


def _is_blank(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Output) and all(
        isinstance(child, nodes.TemplateData) and not child.data.strip() for child in node.nodes
    )


def _needs_prompt(test: nodes.Node) -> bool:
    """True if the test cannot hold while add_generation_prompt is False."""
    if isinstance(test, nodes.And):
        return _needs_prompt(test.left) or _needs_prompt(test.right)
    return _reads_prompt(test)


# --- the environment --------------------------------------------------------------------------------------------

_BASE_NAMES = {
    Traced: frozenset(dir(str)),
    TracedMarkup: frozenset(dir(jinja2.runtime.Markup)),
    TracedInt: frozenset(dir(int)),
    TracedFloat: frozenset(dir(float)),
    dict: frozenset(dir(dict)),
}
_DICT_NAMES = _BASE_NAMES[dict]
_PLAIN_METHODS = frozenset(name for name in dir(str) if not name.startswith("_") and not name.startswith("format"))
_DICT_METHODS = frozenset(("get", "items", "keys", "values", "copy", "fromkeys"))
_MISSING: Any = object()
_LOOP_NAMES = frozenset(name for name in dir(LoopContext) if name[0] != "_" and name not in ("changed", "cycle"))
_blocked: ContextVar[dict[tuple[str, int], None] | None] = ContextVar("blocked", default=None)


class _Generation(Extension):
    """`{% generation %}`: marks what is put out inside it as written by the assistant."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        text = caller()
        runs = tuple((chars, origin, offset, tag | IN_GENERATION) for chars, origin, offset, tag in runs_of(text))
        return TracedMarkup(text, runs) if isinstance(text, TracedMarkup) else make(text, runs)


class _TracedMacro(Macro):
    def _invoke(self, arguments: list[Any], autoescape: bool) -> str:
        text = self._func(*arguments)
        return TracedMarkup(text) if autoescape else text


class _TracedFormatter(SandboxedFormatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        return traced_str(value) if conversion == "s" else super().convert_field(value, conversion)


def _literal(text: str, line: int, spans_lines: bool) -> Traced:
    """Give a literal whose characters know their template line; template data can span lines, a constant does not."""
    if not spans_lines or "\n" not in text:
        return whole(text, TEMPLATE, line)
    runs, offset = [], 0
    for number, piece in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text)):
        runs.append((len(piece), TEMPLATE, offset, line + number))
        offset += len(piece)
    return make(text, tuple(runs))


def _str_join(items: Any) -> Traced:
    return concat(map(traced_str, items))


def _markup_join(items: Any) -> str:
    parts = [item if isinstance(item, str) else traced_str(item) for item in items]
    if any(hasattr(part, "__html__") for part in parts):
        return TracedMarkup("").join(parts)
    return concat(parts)


def _look_up_named(look_up: Callable[[Any, Any], Any], holder: Any, key: Any) -> Any:
    return named_member(look_up(holder, key), holder, key)


class _TracedContext(Context):
    """Holds what a render notes of itself: a flag for each block that ran, and the item that each loop is at."""

    ran: bytearray
    at: list[Any]

    def derived(self, locals: dict[str, Any] | None = None) -> Context:
        context: Any = super().derived(locals)
        context.ran, context.at = self.ran, self.at
        return context


class TracedEnvironment(ImmutableSandboxedEnvironment):
    """transformers' sandbox with provenance. The short cuts answer exactly as the inherited methods do."""

    code_generator_class = _TracedCode
    context_class = _TracedContext
    concat = staticmethod(concat)
    intercepted_binops = frozenset(("-", "*", "/", "//", "%", "**"))  # `add` sees to "+"
    intercepted_unops = frozenset(("-", "+"))
    prompt_known = False  # set when the template is compiled, as prompt_tail is
    prompt_tail = ""
    source = ""
    coverage = Coverage((), ())
    loop_count = 0
    namespace_class: type = Namespace  # the reference's own, likewise
    prompt_mark = PROMPT_MARK
    traced_literal = staticmethod(_literal)
    traced_str = staticmethod(traced_str)
    add = staticmethod(add)
    add_parts = staticmethod(add_parts)
    named = staticmethod(named)
    look_up_named = staticmethod(_look_up_named)
    traced_escape = staticmethod(escape_html)
    traced_Markup = TracedMarkup
    traced_Macro = _TracedMacro
    traced_str_join = staticmethod(_str_join)
    traced_markup_join = staticmethod(_markup_join)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        made = self.binop_table[operator](left, right)
        return made if type(left) is int and type(right) is int else computed(made, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        return self.unop_table[operator](arg) if type(arg) is int else computed(self.unop_table[operator](arg), arg)

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in _DICT_NAMES:
            value = obj.get(attribute, _MISSING)
            return self.undefined(obj=obj, name=attribute) if value is _MISSING else value
        names = _BASE_NAMES.get(kind)
        if names is None:
            if kind is LoopContext and attribute in _LOOP_NAMES:
                return getattr(obj, attribute)
            if kind is self.namespace_class and attribute[:1] != "_":
                value = object.__getattribute__(obj, "_Namespace__attrs").get(attribute, _MISSING)
                if value is not _MISSING:
                    return value
            return super().getattr(obj, attribute)
        if attribute not in names:
            try:
                return obj[attribute]
            except (TypeError, LookupError):
                return self.undefined(obj=obj, name=attribute)
        if attribute in (_DICT_METHODS if kind is dict else _PLAIN_METHODS):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            names = _BASE_NAMES.get(type(obj))
            if names is not None and isinstance(argument, str) and argument not in names:
                return self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        kind = type(obj)
        if (kind is MethodType or kind is BuiltinMethodType) and type(obj.__self__) in _BASE_NAMES:
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return obj(*args, **kwargs)
        return super().call(context, obj, *args, **kwargs)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        blocked = _blocked.get()
        if blocked is not None:
            what = f"access to attribute {clipped(str.__str__(attribute), 100)!r} of {_type_name(obj)!r} object was blocked"
            blocked[what, _line_now()] = None
        return super().unsafe_undefined(obj, attribute)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if not isinstance(value, MethodType) or type(value.__self__) is not Traced:
            return super().wrap_str_format(value)
        if value.__name__ not in ("format", "format_map"):
            return None
        run = partial(format_traced, value.__self__, formatter=_TracedFormatter(self))

        @wraps(value)
        def format_(*args: Any, **kwargs: Any) -> str:
            return run(args, kwargs)

        @wraps(value)
        def format_map(*args: Any, **kwargs: Any) -> str:
            if kwargs:
                raise TypeError("format_map() takes no keyword arguments")
            if len(args) != 1:
                raise TypeError(f"format_map() takes exactly one argument ({len(args)} given)")
            return run((), args[0])

        return format_ if value.__name__ == "format" else format_map


def _line_now() -> int:
    """Give the template line that runs now; 0 if none is known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and "__jinja_template__" not in frame.f_globals:
        frame = frame.f_back
    return 0 if frame is None else frame.f_globals["__jinja_template__"].get_corresponding_lineno(frame.f_lineno)


def _type_name(obj: Any) -> str:
    for base in (str, bool, int, float, list):
        if isinstance(obj, base):
            return base.__name__
    return type(obj).__name__


# --- filters ----------------------------------------------------------------------------------------------------


def _on_text(name: str) -> Callable[..., Any]:
    """Give Jinja's own filter, fed with text that knows its origin (Jinja would print other values without it)."""
    inner = FILTERS[name]

    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        return inner(value if isinstance(value, str) else traced_str(value), *args, **kwargs)

    return run


def _rewriting(name: str) -> Callable[..., Any]:
    """Give Jinja's own filter, with a result that names what it was made from."""
    inner = FILTERS[name]

    def run(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        if isinstance(result, str) and not isinstance(result, Traced):
            return derive(str.__str__(result), *(text for text in map(traced_str, args) if isinstance(text, Traced)))
        return result

    for mark in ("jinja_pass_arg",):
        if hasattr(inner, mark):
            setattr(run, mark, getattr(inner, mark))
    return run


@pass_eval_context
def _join(eval_ctx: EvalContext, value: Any, d: Any = "", attribute: Any = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(eval_ctx.environment, attribute), value)
    if not eval_ctx.autoescape:
        separator = traced_str(d)
        items = map(traced_str, value)
        return Traced.join(separator if type(separator) is Traced else Traced(separator), items)
    parts = [item if hasattr(item, "__html__") else traced_str(item) for item in value]
    if hasattr(d, "__html__") or any(hasattr(part, "__html__") for part in parts):
        return escape_html(d).join(parts)
    return Traced(traced_str(d)).join(parts)


@pass_eval_context
def _replace(eval_ctx: EvalContext, s: Any, old: Any, new: Any, count: int | None = None) -> str:
    if not eval_ctx.autoescape:
        text = traced_str(s)
        text = text if type(text) is Traced else Traced(text)
        return text.replace(traced_str(old), traced_str(new), -1 if count is None else count)
    return FILTERS["replace"](eval_ctx, s, old, new, count)


_WORD_STARTS = re.compile(r"([-\s({\[<]+)")


def _title(s: Any) -> Traced:
    text = s if isinstance(s, Traced) else Traced(traced_str(s))
    titled = FILTERS["title"](str.__str__(text))
    pieces: list[str] = []
    done = 0
    for piece in _WORD_STARTS.split(str.__str__(text)):
        if piece:
            word = text[done : done + len(piece)]
            pieces += (word[0].upper(), word[1:].lower())
            done += len(piece)
    result = concat(pieces)
    return result if result == titled else derive(titled, text)


def _indent(s: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> Any:
    if isinstance(s, TracedMarkup) or not isinstance(s, str):
        return FILTERS["indent"](s, width, first, blank)
    indention = (
        width if isinstance(width, Traced) else whole(width if isinstance(width, str) else " " * width, TEMPLATE)
    )
    text = Traced(s) + whole("\n", TEMPLATE)  # as Jinja does, so that splitlines gives a line after a last break
    lines = text.splitlines()
    parts = [indention, lines[0]] if first else [lines[0]]
    for before, line in zip(text.splitlines(True), lines[1:]):
        line_break = before[len(before.splitlines()[0]) :]
        parts.append(line_break if line_break == "\n" else derive("\n", line_break))
        parts += (indention, line) if line or blank else ()
    return concat(parts)


@pass_environment
def _wordwrap(
    environment: jinja2.Environment,
    s: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    separator = Traced(wrapstring) if wrapstring is not None else whole(environment.newline_sequence, TEMPLATE)
    paragraphs = []
    for line in s.splitlines():
        rows = textwrap.wrap(
            str.__str__(line),
            width=width,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=break_long_words,
            break_on_hyphens=break_on_hyphens,
        )
        paragraphs.append(separator.join(_found_in_order(rows, line)))
    return separator.join(paragraphs)


def _found_in_order(rows: list[str], line: str) -> Iterator[str]:
    """Yield each row as the cut of the line that it is: wrapping only drops blanks between rows."""
    done = 0
    for row in rows:
        start = line.find(row, done)
        if start < 0:
            yield derive(row, line)
        else:
            yield line[start : start + len(row)]
            done = start + len(row)


def _trim(value: Any, chars: str | None = None) -> str:
    return (value if isinstance(value, str) else traced_str(value)).strip(chars)


def _computing(name: str) -> Callable[..., Any]:
    """A filter that makes a number of a value: the number names what it was made from."""
    plain = FILTERS[name]

    @wraps(plain)
    def run(value: Any, *args: Any, **kwargs: Any) -> Any:
        return computed(plain(value, *args, **kwargs), value)

    return run


@pass_environment
def _sum(environment: TracedEnvironment, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = iterable if attribute is None else map(make_attrgetter(environment, attribute), iterable)
    items = list(items)
    return computed(sum(items, start), start, *items)


def _keep_int(value: Any, default: Any = 0, base: int = 10) -> Any:
    return value if isinstance(value, TracedInt) else computed(FILTERS["int"](value, default, base), value)


def _keep_float(value: Any, default: Any = 0.0) -> Any:
    return value if isinstance(value, TracedFloat) else computed(FILTERS["float"](value, default), value)


def _force_escape(value: Any) -> TracedMarkup:
    if hasattr(value, "__html__"):
        value = value.__html__()
    text = traced_str(value)
    return escape_html(make(str.__str__(text), runs_of(text)))


def _filters() -> dict[str, Callable[..., Any]]:
    on_text = ("upper", "lower", "capitalize", "center", "format", "wordcount")
    rewriting = ("urlencode", "urlize", "xmlattr", "pprint", "filesizeformat", "striptags")
    return {
        **FILTERS,
        **{name: _on_text(name) for name in on_text},
        **{name: _rewriting(name) for name in rewriting},
        **{name: _computing(name) for name in ("length", "count", "round", "abs")},
        "sum": _sum,
        "join": _join,
        "replace": _replace,
        "title": _title,
        "trim": _trim,
        "indent": _indent,
        "wordwrap": _wordwrap,
        "string": lambda value: value if isinstance(value, str) else traced_str(value),
        "int": _keep_int,
        "float": _keep_float,
        "safe": TracedMarkup,
        "escape": escape_html,
        "e": escape_html,
        "forceescape": _force_escape,
        "tojson": dump_json,
    }


# --- the traced run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Compiled:
    template: jinja2.Template
    prompt_known: bool
    prompt_tail: str
    coverage: Coverage
    lines_ran: Callable[[bytes], tuple[int, ...]]  # of the blocks' flags; most requests run one of a few ways
    loop_count: int


@lru_cache(maxsize=128)
def _compile(text: str) -> _Compiled:
    environment = TracedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, loopcontrols],
        optimized=False,  # the optimizer folds literals together, and their lines would be lost
    )
    environment.filters = _filters()
    reference_globals: Any = compile_reference("").environment.globals
    for name in ("raise_exception", "dict", "namespace"):
        environment.globals[name] = reference_globals[name]
    environment.source, environment.namespace_class = text, reference_globals["namespace"]
    template = environment.from_string(text)
    coverage, lines_ran = environment.coverage, lru_cache(maxsize=256)(environment.coverage.ran)
    known, tail, loops = environment.prompt_known, environment.prompt_tail, environment.loop_count
    return _Compiled(template, known, tail, coverage, lines_ran, loops)


def _strftime_now(clock: datetime, format: str) -> Traced:
    text = clock.replace(tzinfo=None).strftime(format)
    return whole(text, Origin(SegmentKind.CLOCK, "clock", text, True))


@lru_cache(maxsize=256)
def _special(name: str, text: str) -> Traced:
    return whole(text, Origin(SegmentKind.SPECIAL, name, text, True))


def _context(compiled: _Compiled, call: TemplateCall) -> Any:
    variables = {
        "strftime_now": partial(_strftime_now, call.clock),
        **{name: _special(name, text) for name, text in call.special_tokens.items()},
        **call.kwargs,
        "messages": shown_messages(call),
        "tools": call.tools,
        "documents": call.documents,
        "add_generation_prompt": call.add_generation_prompt,
    }
    context: Any = compiled.template.new_context(variables)
    context.ran, context.at = bytearray(len(compiled.coverage.blocks)), [None] * compiled.loop_count
    return context


def render_traced(call: TemplateCall) -> TracedRender:
    """Render with provenance. Errors: whatever the template raises, unchanged."""
    compiled = _compile(call.text)
    context = _context(compiled, call)
    blocked: dict[tuple[str, int], None] = {}
    token = _blocked.set(blocked)
    try:
        parts = list(compiled.template.root_render_func(context))
    finally:
        _blocked.reset(token)
    if call.continue_final_message:
        parts = [cut_at_tag(concat(parts))]
    table = assemble(parts)
    start = _prompt_start(parts, len(table.text)) if compiled.prompt_known else None
    if start is not None and table.text[start:] == compiled.prompt_tail:
        start = None
    code, ran = compiled.coverage.code, compiled.lines_ran(bytes(context.ran))
    return TracedRender(table, start, compiled.prompt_known, tuple(blocked), code, ran)


@dataclass(frozen=True, slots=True)
class TracedBeginning:
    """A text up to the string that holds a character, and the origin and template line (0: none) of that character."""

    text: str
    origin: Origin
    line: int


def traced_upto(call: TemplateCall, char: int) -> TracedBeginning | None:
    """Render with provenance until a character is written; None where the text is shorter, or where its end is cut off
    afterwards. Errors: whatever the template raises before, unchanged."""
    if call.continue_final_message:
        return None
    compiled = _compile(call.text)
    texts: list[str] = []
    done = 0
    for part in compiled.template.root_render_func(_context(compiled, call)):
        for text, line in zip(*flattened((part,))):
            texts.append(text)
            for chars, origin, _offset, tag in runs_of(text):
                done += chars
                if done > char:
                    return TracedBeginning("".join(texts), origin, tag & LINE_MASK or line)
    return None


def failing_message(call: TemplateCall, error: Exception) -> int | None:
    """Give the index, in the request as given, of the message whose loop was active when the template failed.

    The traced run is made to fail in the same way; None if it does not, or if no loop was at a message.
    """
    try:
        compiled = _compile(call.text)
        context = _context(compiled, call)
    except Exception:
        return None
    try:
        for _part in compiled.template.root_render_func(context):
            pass
    except Exception as again:
        # The text of Python's own errors names types, and ours have other names.
        same = type(again) is type(error) and (str(again) == str(error) or not is_raised_by_template(error))
        if same:
            return next((index for item in reversed(context.at) if (index := _message_of(item)) is not None), None)
    return None


def _message_of(item: Any, depth: int = 4) -> int | None:
    """Give the message that the first traced text in a value belongs to."""
    if isinstance(item, str | TracedInt | TracedFloat):
        for run in runs_of(traced_str(item)):
            path = run[1].path
            if path.startswith("messages["):
                return int(path[len("messages[") : path.index("]")])
        return None
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple) else ()
    found = (_message_of(value, depth - 1) for value in inner) if depth else iter(())
    return next((index for index in found if index is not None), None)


def _prompt_start(parts: list[Any], length: int) -> int | None:
    """Give the character where the block guarded by add_generation_prompt began, which is near the end."""
    after = 0
    for part in reversed(parts):
        if part is PROMPT_MARK:
            return length - after
        text = part[0] if type(part) is tuple else part
        after += sum(map(len, text)) if type(text) is tuple else len(text)
    return None
