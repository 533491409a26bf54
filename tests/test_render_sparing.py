"""The short cuts of engines/sparing.py: the sandbox decides as transformers' does, and texts and errors are the library's."""

from __future__ import annotations

import asyncio
import types
from collections import deque
from datetime import datetime
from typing import Any

import jinja2
import pytest
from jinja2.runtime import LoopContext
from transformers.utils import chat_template_utils

from inspector.engines import jinja2_engine, sparing
from inspector.engines.base import TemplateCall

_library: Any = chat_template_utils
_NAMES = (
    "__class__ __init__ __globals__ __dict__ __mro__ __subclasses__ __self__ __func__ __code__ __call__ __getattribute__ "
    "_x _hidden mro gi_frame gi_code cr_frame cr_code ag_frame ag_code func_globals func_code im_self im_func f_locals tb_frame "
    "format format_map strip upper join split get items keys values pop popitem clear update setdefault copy append extend "
    "insert remove sort reverse index count add discard difference_update appendleft rotate real numerator bit_length "
    "content role first last index0 previtem cycle changed x"
).split()


class _Text(str):
    pass


class _Map(dict):  # type: ignore[type-arg]
    pass


def _objects(environment: Any) -> list[Any]:
    def function() -> None: ...

    def generator() -> Any:
        yield 1

    async def coroutine() -> None: ...

    async def later() -> Any:
        yield 1

    waiting = coroutine()
    waiting.close()
    named = environment.globals["namespace"](x=1, content="a", format="b")
    loop = LoopContext([1, 2], jinja2.Undefined)
    return [
        {"content": 1, "pop": 2, "x": None}, {}, "text", _Text("x"), _Map(x=1), [1], (1,), 1, 1.5, True, None, {1}, deque([1]),
        function, generator(), waiting, later(), asyncio, types.MethodType(function, 1), "x".strip, {}.get, "x".format,
        function.__code__, dict, str, type, object(), named, loop, environment.globals["dict"], environment.globals["range"],
        environment.globals["cycler"]("a"), jinja2.Undefined(name="x"), jinja2.runtime.Markup("x"),
    ]  # fmt: skip


def _told(look_up: Any, holder: Any, name: str) -> Any:
    """Give what can be compared of an answer: a bound method is made anew at each look-up."""
    try:
        value = look_up(holder, name)
    except jinja2.UndefinedError as error:
        return str(error)
    if isinstance(value, jinja2.Undefined):
        return "undefined", value._undefined_hint, value._undefined_name, value._undefined_exception
    return type(value), getattr(value, "__qualname__", None) or repr(value)


def test_every_attribute_is_decided_on_as_the_sandbox_does() -> None:
    theirs = _library._compile_jinja_template("").environment
    ours: Any = sparing.compile_sparing("").environment
    assert type(theirs) is jinja2.sandbox.ImmutableSandboxedEnvironment and type(ours) is sparing.SparingEnvironment
    objects = _objects(theirs)
    names = sorted({*_NAMES, *(name for each in objects for name in dir(each))})
    allowed = refused = 0
    for again in range(2):  # the second time from memory
        for each in objects:
            for name in names:
                expected = theirs.is_safe_attribute(each, name, None)
                assert ours.is_safe_attribute(each, name, None) is expected, (type(each), name, again)
                allowed, refused = allowed + expected, refused + (not expected)
    assert allowed > 1000 and refused > 1000
    assert 0 < len(ours.decided) <= sparing.MOST


def test_every_look_up_answers_as_the_sandbox_does() -> None:
    theirs = _library._compile_jinja_template("").environment
    ours: Any = sparing.compile_sparing("").environment
    for each in _objects(theirs):
        for name in sorted({*_NAMES, *dir(each)}):
            for look_up in ("getattr", "getitem"):
                mine, expected = (_told(getattr(environment, look_up), each, name) for environment in (ours, theirs))
                assert mine == expected, (type(each), name, look_up)


def test_memory_stays_bounded() -> None:
    ours: Any = sparing.compile_sparing("{# bounded #}").environment
    for number in range(2 * sparing.MOST):
        ours.is_safe_attribute("", f"n{number}", None)
    assert len(ours.decided) == sparing.MOST
    assert not ours.is_safe_attribute("", "__class__", None)


TEMPLATES = (
    "{% for m in messages %}{{ loop.index }}{{ m.role }}: {{ m.content.strip().split('a')|join('-') }}{{ m.missing }}\n{% endfor %}",
    "{% set ns = namespace(a=1, format='f') %}{% for m in messages %}{% set ns.a = ns.a + loop.index0 %}{% endfor %}{{ ns.a }}{{ ns.format }}",
    "{{ '{0}'.format(messages[0].role) }}{{ '%s' % messages[0].get('role', 1) }}{{ messages[0].items()|list }}",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}{{ strftime_now('%Y') }}{{ tools }}{{ bos_token }}",
    "{{ messages.pop }}", "{{ messages[0].update({}) }}", "{{ ''.__class__.__mro__ }}", "{{ messages.__class__ }}",
    "{{ '{0.__class__}'.format(1) }}", "{{ raise_exception('no') }}", "{{ messages[0].missing.more }}", "{{ 1 / 0 }}",
    "{{ messages.append(1) }}", "{{ messages|map(attribute='pop')|list }}", "{{ ''|attr('__class__') }}",
)  # fmt: skip


@pytest.mark.parametrize("text", TEMPLATES)
def test_texts_and_errors_are_the_librarys(text: str) -> None:
    messages = [{"role": "user", "content": " banana "}, {"role": "assistant", "content": "ja"}]
    call = TemplateCall(text, messages, None, None, {"bos_token": "<s>"}, {}, datetime(2026, 1, 2), False, False)

    def once() -> Any:
        try:
            return jinja2_engine.reference(call)
        except Exception as error:
            last = error.__traceback__
            files = []
            while last is not None:
                files.append(last.tb_frame.f_code.co_name)
                last = last.tb_next
            return type(error), str(error), files

    answers = [once() for _ in range(sparing.OFTEN + 3)]
    theirs = _library._compile_jinja_template(text).environment
    assert sparing.often(text) and type(theirs) is jinja2.sandbox.ImmutableSandboxedEnvironment
    for answer in answers[1:]:
        assert (answer == answers[0]) if isinstance(answer, str) else answer[:2] == answers[0][:2]
