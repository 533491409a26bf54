"""Render conversations that differ by a few messages without rendering again what cannot have changed.

A budget search asks for the same chat with one message more, or another one, thousands of times. Here the template runs
as Jinja compiles it, but a `for` over the messages at its top level is remembered turn by turn: under which state
(namespaces, variables, what the turn read of other messages, how many messages there are) it wrote which text and
left which state. Where a later chat arrives at the same messages in the same state, the rest of the loop is not run.
What a turn depends on is recorded, never guessed: positions are affine in the number of messages, and a comparison
notes for which numbers its outcome holds; whatever cannot be followed (a loop inside a turn over all messages, an
object of unknown state) is not remembered, and runs as it always does.

Texts come out as the caller's pieces (`measure` makes one of a text, `join` of two), so that lengths need no text.
This module neither tokenizes nor decides; an error other than the template's own `raise_exception` is `CannotTell`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial, wraps
from typing import Any, Generic, TypeVar

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context

from inspector.engines.base import TemplateCall, shown_messages
from inspector.engines.jinja2_engine import compile_reference
from inspector.provenance import plain

_P = TypeVar("_P")
_MANY = 1 << 62
_MAX_READS = 16  # of other messages, by a remembered stretch
_MAX_VARIANTS = 4  # of one stretch in one state, under different conditions


class CannotTell(Exception):
    """The chat has to be rendered by the reference: the template did what this module does not follow, or failed."""


class Refused(Exception):
    """The template called raise_exception, with this message."""


class _Opaque(Exception):
    """A value whose state cannot be compared."""


# --- what a turn depends on -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Conditions:
    """For which chats a remembered stretch holds: the number of messages, and the messages that it read.

    `residues`: {modulus: remainder} of the number of messages. `reads`: {(from the end?, position): message}.
    """

    low: int = 0
    high: int = _MANY
    residues: dict[int, int] = field(default_factory=dict)
    reads: dict[tuple[bool, int], int] = field(default_factory=dict)
    everything: bool = False  # depends on all messages: holds for no other chat

    def merged(self, other: _Conditions) -> _Conditions:
        return _Conditions(
            max(self.low, other.low),
            min(self.high, other.high),
            {**self.residues, **other.residues},
            {**self.reads, **other.reads},
            self.everything or other.everything,
        )

    def hold(self, chat: _Chat) -> bool:
        count = chat.count
        return (
            self.low <= count <= self.high
            and all(count % modulus == rest for modulus, rest in self.residues.items())
            and all(chat.message_at(*place) == message for place, message in self.reads.items())
        )


@dataclass(slots=True)
class _Stretch(Generic[_P]):
    """Some consecutive turns of a loop: when they hold, what they wrote, and the namespaces after them."""

    conditions: _Conditions
    piece: _P
    namespaces: list[dict[str, Any]]
    state: tuple[Any, ...]


class _Count:
    """A number `offset + factor * (number of messages)`; every use notes for which chats its outcome holds."""

    __slots__ = ("chat", "factor", "offset")

    def __init__(self, chat: _Chat, offset: int, factor: int = 1) -> None:
        self.chat, self.offset, self.factor = chat, offset, factor

    @property
    def value(self) -> int:
        return self.offset + self.factor * self.chat.count

    def pinned(self) -> int:
        """Give the number itself; what depends on it holds for chats of this length only."""
        self.chat.limit(self.chat.count, self.chat.count)
        return self.value

    def _affine(self, other: Any, sign: int) -> Any:
        if type(other) is _Count:
            return _number(self.chat, self.offset + sign * other.offset, self.factor + sign * other.factor)
        if type(other) is int:
            return _Count(self.chat, self.offset + sign * other, self.factor)
        return self.pinned() + other if sign > 0 else self.pinned() - other

    def __add__(self, other: Any) -> Any:
        return self._affine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._affine(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return _Count(self.chat, -self.offset, -self.factor) + other

    def __neg__(self) -> Any:
        return _Count(self.chat, -self.offset, -self.factor)

    def __mod__(self, other: Any) -> Any:
        if type(other) is not int or other <= 0 or self.factor not in (1, -1):
            return self.pinned() % other
        self.chat.note_residue(other)
        return self.value % other

    def _sign(self, other: Any) -> int:
        """Compare with a number, and note for which lengths the outcome is this one."""
        difference = self - other
        if type(difference) is not _Count:
            return (difference > 0) - (difference < 0)
        value, zero = difference.value, -difference.offset * difference.factor  # the length at which they are equal
        if difference.factor not in (1, -1) or value == 0:
            difference.pinned()
        elif (value > 0) == (difference.factor > 0):
            self.chat.limit(zero + 1, _MANY)
        else:
            self.chat.limit(0, zero - 1)
        return (value > 0) - (value < 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (_Count, int, float)) and self._sign(other) == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _ordered(self, other: Any) -> int:
        if not isinstance(other, (_Count, int, float)):
            raise TypeError("a number compared with what is none")
        return self._sign(other)

    def __lt__(self, other: Any) -> bool:
        return self._ordered(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._ordered(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._ordered(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._ordered(other) >= 0

    def __bool__(self) -> bool:
        return self._sign(0) != 0

    def __index__(self) -> int:
        return self.pinned()

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(self.pinned())

    def __str__(self) -> str:
        return str(self.pinned())

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(self.pinned(), spec)

    def _operate(self, name: str, other: Any) -> Any:
        return getattr(self.pinned(), name)(other.pinned() if type(other) is _Count else other)


def _pinning(name: str) -> Callable[[_Count, Any], Any]:
    return lambda self, other: self._operate(name, other)


for _name in ("mul", "floordiv", "truediv", "pow", "rmul", "rfloordiv", "rtruediv", "rmod", "rpow"):
    setattr(_Count, f"__{_name}__", _pinning(f"__{_name}__"))


def _number(chat: _Chat, offset: int, factor: int) -> Any:
    return _Count(chat, offset, factor) if factor else offset


class _View:
    """The messages as a template sees them: the list from `start` on, less the last `stop`, or that reversed."""

    __slots__ = ("backward", "chat", "start", "stop")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, chat: _Chat, start: int = 0, stop: int = 0, backward: bool = False) -> None:
        self.chat, self.start, self.stop, self.backward = chat, start, stop, backward

    def whole(self) -> list[Any]:
        """Give the list itself; what depends on it depends on every message."""
        self.chat.note_everything()
        return self.peek()

    def peek(self) -> list[Any]:
        """Give the list itself, to what does not depend on the messages in it."""
        chat = self.chat
        items = [chat.messages[chat.index_at(place)] for place in range(self.start, chat.count - self.stop)]
        return items[::-1] if self.backward else items

    def length(self) -> Any:
        length = _Count(self.chat, -self.start - self.stop)
        return length if length >= 0 else 0

    def __bool__(self) -> bool:
        return bool(self.length() > 0)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.whole())

    def __contains__(self, item: Any) -> bool:
        return item in self.whole()

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if type(other) is _View else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __add__(self, other: Any) -> Any:
        return self.whole() + (other.whole() if type(other) is _View else other)

    def __radd__(self, other: Any) -> Any:
        return other + self.whole()

    def __str__(self) -> str:
        return str(self.whole())

    __repr__ = __str__

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        if self.backward or not (type(key) is int or type(key) is _Count):
            return self.whole()[key]
        if not isinstance(key, _Count):
            return self._at(key + self.start) if key >= 0 else self._at_end(self.stop - key)
        if key.factor != 1 or key.value < 0:
            return self[key.pinned()]
        return self._at_end(-key.offset - self.start) if key >= 0 else self.whole()[key]

    def _slice(self, key: slice) -> Any:
        start, stop, step = key.start, key.stop, key.step
        if (start, stop, step) == (None, None, -1):
            return _View(self.chat, self.start, self.stop, not self.backward)
        forward = step in (None, 1) and not self.backward
        from_start = start is None or (type(start) is int and start >= 0)
        before_end = stop is None or (type(stop) is int and stop < 0)
        if not (forward and from_start and before_end):
            return self.whole()[key]
        return _View(self.chat, self.start + (start or 0), self.stop - (stop or 0))

    def _at(self, place: int) -> Any:
        """Give the message at a place counted from the start of the chat."""
        if _Count(self.chat, -self.stop) <= place:
            raise IndexError("list index out of range")
        return self.chat.read(False, place)

    def _at_end(self, place: int) -> Any:
        """Give the message at a place counted from the end of the chat, 1 for the last."""
        if place <= self.stop or _Count(self.chat, -place) < self.start:
            raise IndexError("list index out of range")
        return self.chat.read(True, place)


_DATA = (str, int, float, bool, type(None))


def _key(value: Any, chat: _Chat) -> Any:
    """Give what tells two values apart for a template. Errors: _Opaque."""
    kind = type(value)
    if kind is str:
        return value
    if kind is float:
        return "float", repr(value)
    if kind in _DATA:
        return kind.__name__, value
    if kind is _Count:
        return "count", value.offset, value.factor
    if kind is _View:
        return "view", value.start, value.stop, value.backward
    if kind is list or kind is tuple:
        return kind.__name__, tuple(_key(item, chat) for item in value)
    if kind is dict:
        known = chat.index_of.get(id(value))
        if known is not None:
            return "message", known
        return "dict", tuple((_key(name, chat), _key(item, chat)) for name, item in value.items())
    if kind is Macro:
        return "macro", value._func.__code__
    if isinstance(value, Undefined):
        return "undefined", kind, value._undefined_name
    if hasattr(value, "__html__") and isinstance(value, str):
        return "markup", str.__str__(value)
    raise _Opaque


# --- the chat and the loops over it -----------------------------------------------------------------------------


class _Chat:
    """The chat that is being rendered: indices of the given messages, the first ones in `head`, the others in `tail`
    backwards, so that adding a message between the two moves nothing."""

    def __init__(self, messages: Sequence[Mapping[str, Any]], memory: IncrementalTemplate[Any]) -> None:
        self.messages, self.memory = messages, memory
        self.index_of = {id(message): index for index, message in enumerate(messages)}
        self.head: list[int] = []
        self.tail: list[int] = []
        self.head_nodes: list[int] = []  # one number for each different sequence up to there
        self.tail_nodes: list[int] = []
        self._interned: dict[tuple[bool, int, int], int] = {}
        self.count = 0
        self.conditions: _Conditions | None = None  # of the turn that is running, if one is
        self.namespaces: list[Any] = []

    def push(self, index: int, *, to_head: bool) -> None:
        """Put a message between the two parts."""
        part, numbers = (self.head, self.head_nodes) if to_head else (self.tail, self.tail_nodes)
        key = (to_head, numbers[-1] if numbers else 0, index)
        numbers.append(self._interned.setdefault(key, len(self._interned) + 1))
        part.append(index)
        self.count += 1

    def pop(self, *, from_head: bool) -> None:
        """Take the last pushed message of a part away."""
        for stack in (self.head, self.head_nodes) if from_head else (self.tail, self.tail_nodes):
            stack.pop()
        self.count -= 1

    def index_at(self, place: int) -> int:
        return self.head[place] if place < len(self.head) else self.tail[self.count - place - 1]

    def message_at(self, from_end: bool, place: int) -> int:
        if from_end:
            place = self.count - place
        return self.index_at(place) if 0 <= place < self.count else -1

    def node_at(self, place: int) -> int:
        return self.head_nodes[place] if place < len(self.head) else self.tail_nodes[self.count - place - 1]

    def limit(self, low: int, high: int) -> None:
        if self.conditions is not None:
            self.conditions.low = max(self.conditions.low, low)
            self.conditions.high = min(self.conditions.high, high)

    def note_residue(self, modulus: int) -> None:
        if self.conditions is not None:
            self.conditions.residues[modulus] = self.count % modulus

    def note_everything(self) -> None:
        if self.conditions is not None:
            self.conditions.everything = True

    def read(self, from_end: bool, place: int) -> Any:
        index = self.message_at(from_end, place)
        if self.conditions is not None:
            self.conditions.reads[from_end, place] = index
        return self.messages[index]


@dataclass(slots=True)
class _Turn(Generic[_P]):
    """A turn that was run: where it stands, the state before it, and what it did."""

    leads: bool  # it stands in the part of the chat that the loop comes to first
    place: int
    before: tuple[Any, ...]
    stretch: _Stretch[_P]


class _Loop(Generic[_P]):
    """One pass of a remembered loop over a view of the messages."""

    def __init__(self, memory: IncrementalTemplate[_P], view: _View, key: int) -> None:
        self._memory, self._chat, self._view, self._key = memory, view.chat, view, key
        self._forward = not view.backward
        self._namespaces = list(self._chat.namespaces)
        self.undefined: Any = None  # set where the template uses `loop`

    def __iter__(self) -> Iterator[Any]:
        chat, view = self._chat, self._view
        first, last = view.start, chat.count - view.stop - 1
        places: Sequence[int] = range(first, last + 1)
        if not self._forward:
            places = places[::-1]
        start = state = self._state()
        skipped, done = self._leading(state, places)
        if skipped is not None:
            state = self._take(skipped)
        turns: list[_Turn[_P]] = []
        rest: _Stretch[_P] | None = None
        for place in places[done:]:
            rest = None if self._leads(place) else self._known(False, place, state)
            if rest is not None:
                self._take(rest)
                break
            chat.conditions, mark = _Conditions(), len(self._memory.parts)
            item = chat.messages[chat.index_at(place)]
            yield item if self.undefined is None else (item, _LoopVariable(self, place))
            conditions, chat.conditions = chat.conditions, None
            written = self._memory.parts[mark:]
            del self._memory.parts[mark:]
            piece = self._memory.measure("".join(written))
            self._memory.parts.append(piece)
            before, state = state, self._state()
            copies = [dict(_attributes(namespace)) for namespace in self._namespaces]
            turns.append(_Turn(self._leads(place), place, before, _Stretch(conditions, piece, copies, state)))
        self._remember(start, skipped, turns, rest)

    def _leads(self, place: int) -> bool:
        return (place < len(self._chat.head)) == self._forward

    def _state(self) -> tuple[Any, ...]:
        """Give what turns may have left behind: the namespaces made before the loop."""
        return tuple(
            tuple((name, _key(value, self._chat)) for name, value in _attributes(namespace).items())
            for namespace in self._namespaces
        )

    def _take(self, stretch: _Stretch[_P]) -> tuple[Any, ...]:
        self._memory.parts.append(stretch.piece)
        for namespace, values in zip(self._namespaces, stretch.namespaces):
            attributes = _attributes(namespace)
            attributes.clear()
            attributes.update(values)
        return stretch.state

    def _leading(self, state: tuple[Any, ...], places: Sequence[int]) -> tuple[_Stretch[_P] | None, int]:
        """Find the longest remembered beginning of the loop, and how many turns it has."""
        chat, memory = self._chat, self._memory
        heights = {len(chat.head), memory.settled_head} if self._forward else {len(chat.tail), memory.settled_tail}
        for height in sorted(heights, reverse=True):
            place = height - 1 if self._forward else chat.count - height
            done = place - places[0] + 1 if self._forward and places else places[0] - place + 1 if places else 0
            if height and 0 < done <= len(places) and self._leads(place):
                found = self._known(True, place, state)
                if found is not None:
                    return found, done
        return None, 0

    def _known(self, leading: bool, place: int, state: tuple[Any, ...]) -> _Stretch[_P] | None:
        for stretch in self._memory.stretches.get((self._key, leading, self._chat.node_at(place), state), ()):
            if stretch.conditions.hold(self._chat):
                return stretch
        return None

    def _remember(
        self,
        start: tuple[Any, ...],
        skipped: _Stretch[_P] | None,
        turns: list[_Turn[_P]],
        rest: _Stretch[_P] | None,
    ) -> None:
        reach = skipped
        for turn in turns:
            if not turn.leads or turn.stretch.conditions.everything:
                break
            reach = turn.stretch if reach is None else self._joined(reach, turn.stretch)
            self._store(True, turn.place, start, reach)
        reach = rest
        for turn in reversed(turns):
            if turn.leads or turn.stretch.conditions.everything:
                break
            reach = turn.stretch if reach is None else self._joined(turn.stretch, reach)
            self._store(False, turn.place, turn.before, reach)

    def _joined(self, a: _Stretch[_P], b: _Stretch[_P]) -> _Stretch[_P]:
        piece = self._memory.join(a.piece, b.piece)
        return _Stretch(a.conditions.merged(b.conditions), piece, b.namespaces, b.state)

    def _store(self, leading: bool, place: int, state: tuple[Any, ...], stretch: _Stretch[_P]) -> None:
        """Remember a stretch by the messages of its part of the chat; what it read among them needs no condition."""
        chat = self._chat
        in_head = place < len(chat.head)
        edge = place if in_head else chat.count - place
        reads = stretch.conditions.reads
        for from_end, at in [at for at in reads if at[0] != in_head and at[1] <= edge]:
            del reads[from_end, at]
        if len(reads) <= _MAX_READS:
            kept = self._memory.stretches.setdefault((self._key, leading, chat.node_at(place), state), [])
            kept.insert(0, stretch)
            del kept[_MAX_VARIANTS:]


def _attributes(namespace: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return attributes


class _LoopVariable:
    """`loop` in a remembered loop."""

    depth, depth0 = 1, 0

    def __init__(self, loop: _Loop[Any], place: int) -> None:
        self._view, self._undefined, self._place = loop._view, loop.undefined, place

    @property
    def _where(self) -> Any:
        """The message's place in the chat, counted from the end of the chat that it stands nearer to."""
        chat = self._view.chat
        return self._place if self._place < len(chat.head) else _Count(chat, self._place - chat.count)

    @property
    def index0(self) -> Any:
        view = self._view
        return view.length() - 1 - (self._where - view.start) if view.backward else self._where - view.start

    @property
    def index(self) -> Any:
        return self.index0 + 1

    @property
    def length(self) -> Any:
        return self._view.length()

    @property
    def revindex0(self) -> Any:
        return self.length - self.index

    @property
    def revindex(self) -> Any:
        return self.length - self.index0

    @property
    def first(self) -> bool:
        return bool(self.index0 == 0)

    @property
    def last(self) -> bool:
        return bool(self.revindex0 == 0)

    @property
    def previtem(self) -> Any:
        if self.first:
            return self._undefined("there is no previous item")
        return self._neighbour(1 if self._view.backward else -1)

    @property
    def nextitem(self) -> Any:
        if self.last:
            return self._undefined("there is no next item")
        return self._neighbour(-1 if self._view.backward else 1)

    def _neighbour(self, step: int) -> Any:
        view = _View(self._view.chat)
        return view[self._where + step]

    def cycle(self, *values: Any) -> Any:
        if not values:
            raise TypeError("no items for cycling given")
        return values[self.index0 % len(values)]

    def changed(self, *values: Any) -> Any:
        raise CannotTell("loop.changed keeps a state of its own")

    def __call__(self, *values: Any) -> Any:
        raise CannotTell("a recursive loop")


# --- the template -----------------------------------------------------------------------------------------------


class _Code(CodeGenerator):
    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:
        super().visit_Template(node, frame)
        self.writeline("LoopContext = environment.loop_context")


class _Generation(Extension):
    """`{% generation %}` writes what stands in it, as transformers' does where no mask is asked for."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

    def _written(self, caller: Callable[[], str]) -> str:
        return caller()


def _loop_context(iterable: Any, undefined: Any, *rest: Any) -> Any:
    if type(iterable) is _Loop:
        iterable.undefined = undefined
        return iterable
    return LoopContext(iterable, undefined, *rest)


_MISSING: Any = object()
_DICT_NAMES = frozenset(dir(dict))
_TEXT_METHODS = frozenset(name for name in dir(str) if name[0] != "_" and not name.startswith("format"))
_LOOP_NAMES = frozenset(name for name in dir(_LoopVariable) if name[0] != "_")


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _Code
    loop_context = staticmethod(_loop_context)
    namespace_class: type = Namespace

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up as the inherited method does; the request's own objects, namespaces and `loop` take a short cut."""
        kind = type(obj)
        if kind is dict and attribute not in _DICT_NAMES:
            value = obj.get(attribute, _MISSING)
            return self.undefined(obj=obj, name=attribute) if value is _MISSING else value
        if (kind is _LoopVariable or kind is LoopContext) and attribute in _LOOP_NAMES:
            return getattr(obj, attribute)
        if kind is str and attribute in _TEXT_METHODS:
            return getattr(obj, attribute)
        if kind is self.namespace_class and attribute[:1] != "_":
            value = _attributes(obj).get(attribute, _MISSING)
            if value is not _MISSING:
                return value
        return super().getattr(_shown(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(obj) is _View and isinstance(argument, (int, _Count, slice)):
            try:
                return obj[argument]
            except IndexError:
                return self.undefined(obj=obj.peek(), name=argument)  # type: ignore[arg-type]
        return super().getitem(_shown(obj), _shown(argument))


class _PlainCode(_Code):
    """Looks the names of a message and of `loop` up in place; all else as the environment does."""

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        place = f"{node.attr!r}"
        holder = frame.symbols.ref(node.node.name) if isinstance(node.node, nodes.Name) else None
        if holder is None or node.attr in _DICT_NAMES:
            super().visit_Getattr(node, frame)
            return
        if isinstance(node.node, nodes.Name) and node.node.name == "loop" and node.attr in _LOOP_NAMES:
            self.write(f"({holder}.{node.attr} if type({holder}) is LoopContext else ")
        else:
            self.write(f"({holder}[{place}] if type({holder}) is dict and {place} in {holder} else ")
        super().visit_Getattr(node, frame)
        self.write(")")


_Method: Any = type("".join)
_PASSED = frozenset(("_loop_vars", "_block_vars"))  # what the compiler adds to every call


class _PlainEnvironment(_Environment):
    """For what is remembered nowhere: the request's values are the reference's own."""

    code_generator_class = _PlainCode
    loop_context = LoopContext
    getitem = ImmutableSandboxedEnvironment.getitem

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call as the inherited method does; a text's own method, which is safe and takes no context, at once."""
        own = type(obj) is _Method and type(obj.__self__) is str and obj.__name__ in _TEXT_METHODS
        if own and _PASSED.issuperset(kwargs):
            return obj(*args)
        return super().call(context, obj, *args, **kwargs)


def _shown(value: Any) -> Any:
    """Give the value that the reference has there."""
    if type(value) is _View:
        return value.whole()
    return value.pinned() if type(value) is _Count else value


def _seen(value: Any) -> Any:
    """Give the value that the reference has there, to what asks for its type only."""
    if type(value) is _View:
        return value.peek()
    return value.value if type(value) is _Count else value


_TYPE_TESTS = frozenset(
    "defined undefined none boolean false true integer float number string mapping sequence iterable callable".split()
)
_NUMBER_TESTS = frozenset("odd even divisibleby eq equalto == ne != gt greaterthan > ge >= lt lessthan < le <=".split())


def _showing(function: Callable[..., Any], show: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return function(*map(show, args), **{name: show(value) for name, value in kwargs.items()})

    return run


def _length(value: Any) -> Any:
    return value.length() if type(value) is _View else len(_shown(value))


def _end_of(inner: Callable[..., Any], place: int) -> Callable[..., Any]:
    @wraps(inner)
    def run(environment: Any, value: Any) -> Any:
        return inner(environment, value) if type(value) is not _View or not value else value[place]

    return run


def _listed(inner: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(inner)
    def run(environment: Any, value: Any) -> Any:
        return value if type(value) is _View else inner(environment, _shown(value))

    return run


def _filters(reference: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    filters = {name: _showing(function, _shown) for name, function in reference.items()}
    filters |= {name: reference[name] for name in ("default", "d")}
    filters |= {"length": _length, "count": _length}
    filters |= {"first": _end_of(reference["first"], 0), "last": _end_of(reference["last"], -1)}
    filters["list"] = _listed(reference["list"])
    return filters


def _tests(reference: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {
        name: function if name in _NUMBER_TESTS else _showing(function, _seen if name in _TYPE_TESTS else _shown)
        for name, function in reference.items()
    }


_FOREIGN = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Block)


def _mark_loops(tree: nodes.Template, environment: jinja2.Environment) -> None:
    """Let every plain loop at the top level pass its list through `remembered`, which takes views of the messages."""
    for number, loop in enumerate(_top_loops(tree.body)):
        plain_loop = not loop.recursive and loop.test is None and not loop.else_
        if plain_loop and not any(_breaks(node) for node in loop.body):
            iterated = loop.iter
            if isinstance(iterated, nodes.Filter) and iterated.name == "reverse" and iterated.node is not None:
                step = nodes.Slice(None, None, nodes.Const(-1))
                given = nodes.Filter(iterated.node, "forward", [], [], None, None)
                iterated = nodes.Getitem(given, step, "load") if not iterated.args else iterated
            loop.iter = nodes.Filter(iterated, "remembered", [nodes.Const(number)], [], None, None)
    tree.set_environment(environment)
    for node in tree.find_all(nodes.Node):
        if node.lineno is None:
            node.lineno = 1


def _top_loops(body: Iterable[nodes.Node]) -> Iterator[nodes.For]:
    for node in body:
        if isinstance(node, nodes.For):
            yield node
        elif isinstance(node, nodes.If):
            yield from _top_loops((*node.body, *node.elif_, *node.else_))


def _breaks(node: nodes.Node) -> bool:
    """Say whether the statement may end the loop that it stands in."""
    if isinstance(node, nodes.For):
        return any(_breaks(child) for child in node.else_)
    return isinstance(node, nodes.Break) or any(_breaks(child) for child in node.iter_child_nodes())


@lru_cache(maxsize=64)
def _compile(text: str) -> jinja2.Template:
    reference: Any = compile_reference("").environment
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    filters: Any = {**_filters(reference.filters), "remembered": _remembered, "forward": _forward}
    tests: Any = _tests(reference.tests)
    environment.filters, environment.tests = filters, tests
    environment.namespace_class = reference.globals["namespace"]
    environment.globals["dict"] = reference.globals["dict"]
    environment.globals["raise_exception"] = _raise_exception
    tree = environment.parse(text)
    by_chance = any(node.name == "random" for node in tree.find_all(nodes.Filter))
    if by_chance or any(tree.find(kind) is not None for kind in _FOREIGN):
        raise CannotTell("the template uses another one, a block, or chance")
    _mark_loops(tree, environment)
    return environment.from_string(tree)


@lru_cache(maxsize=64)
def _compile_plain(text: str) -> jinja2.Template:
    """Compile as the reference does, with the short cuts of `_Environment` in its look-ups; nothing is remembered."""
    reference: Any = compile_reference("").environment
    environment = _PlainEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters, environment.tests = reference.filters, reference.tests
    environment.globals.update(reference.globals)
    environment.namespace_class = reference.globals["namespace"]
    return environment.from_string(text)


class PlainTemplate:
    """One template with everything it is given but the number of messages, made plain once for all renderings.

    Errors: jinja2's own if it cannot be compiled; CannotTell for a name that is given twice.
    """

    def __init__(self, call: TemplateCall) -> None:
        self._template = _compile_plain(call.text)
        self._messages = shown_messages(_plain_call(call))
        given = plain({**call.special_tokens, **call.kwargs})
        own = {
            "messages": None,
            "add_generation_prompt": None,
            "tools": plain(call.tools),
            "documents": plain(call.documents),
        }
        if not own.keys().isdisjoint(given):
            raise CannotTell("a template argument has the name of one that is always given")
        clock = partial(_strftime_now, call.clock.replace(tzinfo=None))
        self._variables = {**self._template.globals, "strftime_now": clock, **own, **given}
        self._context: Context | None = None  # the last one, unless its rendering failed

    def text(self, count: int, asks: bool) -> str:
        """Render the first `count` messages as the reference does, in half its time.

        Errors: whatever the template raises.
        """
        variables = {**self._variables, "messages": self._messages[:count], "add_generation_prompt": asks}
        context, self._context = self._context or self._template.new_context(variables, shared=True), None
        context.parent, context.vars, context.exported_vars = variables, {}, set()
        text = "".join(self._template.root_render_func(context))
        self._context = context
        return text


@pass_context
def _remembered(context: Context, value: Any, number: int) -> Any:
    return value.chat.memory.loop(context, value, number) if type(value) is _View else value


def _forward(value: Any) -> Any:
    """Give what a slice can turn round."""
    return value if type(value) is _View else list(value)


class IncrementalTemplate(Generic[_P]):
    """One template with everything it is given but the choice of messages. Not for several threads at once.

    `measure` makes a piece of a text, `join` one of two that follow each other.
    Errors: CannotTell if the template is of a kind that is not followed; jinja2's own if it cannot be compiled.
    """

    def __init__(self, call: TemplateCall, measure: Callable[[str], _P], join: Callable[[_P, _P], _P]) -> None:
        self.measure, self.join = measure, join
        self.parts: list[Any] = []
        self.stretches: dict[tuple[int, bool, int, tuple[Any, ...]], list[_Stretch[_P]]] = {}
        self.settled_head = self.settled_tail = 0
        self._loops: dict[tuple[Any, ...], int] = {}
        self._template = _compile(call.text)
        self.chat = _Chat(shown_messages(_plain_call(call)), self)
        given = plain({**call.special_tokens, **call.kwargs, "tools": call.tools, "documents": call.documents})
        self._variables = {  # with the globals, which `new_context` would put together every time
            **self._template.globals,
            "namespace": self._namespace,
            "strftime_now": partial(_strftime_now, call.clock.replace(tzinfo=None)),
            **given,
            "add_generation_prompt": call.add_generation_prompt,
        }

    def _namespace(self, *args: Any, **kwargs: Any) -> Any:
        made: Any = self._template.environment.namespace_class  # type: ignore[attr-defined]
        self.chat.namespaces.append(made(*args, **kwargs))
        return self.chat.namespaces[-1]

    def loop(self, context: Context, value: _View, number: int) -> Any:
        """Give a pass of a remembered loop over a view; the view itself where something's state cannot be told."""
        names = {id(namespace): row for row, namespace in enumerate(self.chat.namespaces)}
        try:
            variables = tuple(
                (name, ("namespace", names[id(item)]) if id(item) in names else _key(item, self.chat))
                for name, item in context.vars.items()
            )
            shape = tuple(tuple(_attributes(namespace)) for namespace in self.chat.namespaces)
            for namespace in self.chat.namespaces:
                for item in _attributes(namespace).values():
                    _key(item, self.chat)
        except _Opaque:
            return value
        key = (number, value.start, value.stop, value.backward, variables, shape)
        return _Loop(self, value, self._loops.setdefault(key, len(self._loops)))

    def begin(self, head: Sequence[int], tail: Sequence[int]) -> None:
        """Take this chat: its first messages and its last ones (rising indices)."""
        chat, wanted = self.chat, ((True, list(head)), (False, list(tail)[::-1]))
        for is_head, indices in wanted:
            part = chat.head if is_head else chat.tail
            shared = next(
                (row for row, (a, b) in enumerate(zip(part, indices)) if a != b), min(len(part), len(indices))
            )
            while len(part) > shared:
                chat.pop(from_head=is_head)
            for index in indices[shared:]:
                chat.push(index, to_head=is_head)
        self.settle()

    def push(self, indices: Sequence[int], *, to_head: bool) -> None:
        """Put messages (rising indices) between the chat's beginning and its end, on trial until `settle`."""
        self.settle()
        for index in indices if to_head else reversed(indices):
            self.chat.push(index, to_head=to_head)

    def grow(self, count: int) -> None:
        """Take the first `count` messages, where fewer were taken before: the last of them stands apart at the end,
        so that what a turn wrote while it was the last is not taken for what it writes later."""
        self.settled_head = len(self.chat.head)
        while self.chat.count < count:
            if self.chat.tail:
                self.chat.pop(from_head=False)
                self.chat.push(self.chat.count, to_head=True)
            self.chat.push(self.chat.count, to_head=False)
        self.settled_tail = len(self.chat.tail)

    def settle(self) -> None:
        """Keep what was pushed."""
        self.settled_head, self.settled_tail = len(self.chat.head), len(self.chat.tail)

    def undo(self) -> None:
        """Take back what was pushed since it was last settled."""
        while len(self.chat.head) > self.settled_head:
            self.chat.pop(from_head=True)
        while len(self.chat.tail) > self.settled_tail:
            self.chat.pop(from_head=False)

    def render(self) -> _P:
        """Render the chat as it stands. Errors: Refused, CannotTell."""
        self.parts, self.chat.namespaces, self.chat.conditions = [], [], None
        parts = self.parts
        context = self._template.new_context({**self._variables, "messages": _View(self.chat)}, shared=True)
        try:
            for part in self._template.root_render_func(context):
                parts.append(part)
            return self._assembled()
        except CannotTell:
            raise
        except jinja2.TemplateError as error:
            if type(error) is jinja2.TemplateError:
                raise Refused(str(error) or "TemplateError") from None
            raise CannotTell(str(error)) from error
        except Exception as error:
            raise CannotTell(str(error)) from error

    def _assembled(self) -> _P:
        whole: _P | None = None
        texts: list[str] = []
        for part in [*self.parts, None]:
            if isinstance(part, str):
                texts.append(part)
                continue
            for piece in ([self.measure("".join(texts))] if texts else []) + ([part] if part is not None else []):
                whole = piece if whole is None else self.join(whole, piece)
            texts = []
        return self.measure("") if whole is None else whole


def _plain_call(call: TemplateCall) -> TemplateCall:
    return TemplateCall(call.text, plain(list(call.messages)))


def _raise_exception(message: Any) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(clock: datetime, format: str) -> str:
    return clock.strftime(format)
