"""The reference's own rendering with fewer look-ups: transformers' function and compiled sandbox, with short cuts of ours.

The sandbox asks of every attribute whether it may be read, which is most of what a render costs, and the answer depends on
the type and the name alone. Here it is asked once for each of the few plain types and remembered. Nothing of transformers
is changed: its compiled templates stay as they are, and these are our copies. What may be read is decided by the sandbox.
"""

from __future__ import annotations

import functools
from types import BuiltinMethodType, FunctionType
from typing import Any

import jinja2
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

OFTEN = 8  # renders after which a template is worth the compiling of a copy
_library: Any = chat_template_utils
MOST = 1024  # decisions that are remembered: a template may ask for any number of names
_PLAIN = frozenset((dict, str, list, tuple, int, float, bool, type(None)))
_DICT_NAMES = frozenset(dir(dict))
_TEXT_METHODS = frozenset(name for name in dir(str) if name[0] != "_" and not name.startswith("format"))
_MISSING: Any = object()


@functools.lru_cache(maxsize=64)
def _uses(text: str) -> list[int]:
    return [0]


def often(text: str) -> bool:
    """Count one use of a template; say whether there were enough before."""
    uses = _uses(text)
    uses[0] += 1
    return uses[0] > OFTEN


class SparingEnvironment(ImmutableSandboxedEnvironment):
    """Answers as the inherited methods do; an attribute of a plain type is decided on once."""

    decided: dict[tuple[type, str], bool]
    namespace_class: type

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        kind = type(obj)
        safe = self.decided.get((kind, attr)) if type(attr) is str else None
        if safe is not None:
            return safe
        safe = super().is_safe_attribute(obj, attr, value)
        known = kind in _PLAIN or kind is LoopContext or kind is self.namespace_class
        if known and type(attr) is str and len(self.decided) < MOST:
            self.decided[kind, attr] = safe
        return safe

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict and attribute not in _DICT_NAMES:  # the inherited one looks on the type first
            value = obj.get(attribute, _MISSING)
            return self.undefined(obj=obj, name=attribute) if value is _MISSING else value
        if kind is str and attribute in _TEXT_METHODS:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(obj) is not BuiltinMethodType or type(obj.__self__) not in _PLAIN:
            return super().call(context, obj, *args, **kwargs)
        kwargs.pop("_loop_vars", None)  # such a method is safe, and takes no context
        kwargs.pop("_block_vars", None)
        try:
            return obj(*args, **kwargs)
        except StopIteration:
            return super().call(context, obj, *args, **kwargs)


@functools.lru_cache(maxsize=64)
def compile_sparing(text: str) -> jinja2.Template:
    """Compile once more, in a copy of the environment that transformers compiled it in."""
    theirs = _library._compile_jinja_template(text).environment
    if type(theirs) is not ImmutableSandboxedEnvironment:  # another version of the library: nothing is known of it
        return theirs.from_string(text)
    ours: Any = theirs.overlay()
    ours.__class__ = SparingEnvironment
    ours.decided, ours.namespace_class = {}, ours.globals["namespace"]
    return ours.from_string(text)


@functools.cache
def sparing_render() -> Any:
    """Give transformers' `render_jinja_template`, the same code, with `compile_sparing` as its compiler."""
    theirs = _library.render_jinja_template
    names = {**theirs.__globals__, "_compile_jinja_template": compile_sparing}
    return FunctionType(theirs.__code__, names, theirs.__name__, theirs.__defaults__, theirs.__closure__)
