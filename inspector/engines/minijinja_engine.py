"""minijinja, configured as Rust servers configure it for chat templates. Needs the package `minijinja`.

That is: trim_blocks, lstrip_blocks, the Python methods of its compatibility layer, `raise_exception`, `strftime_now`, no
automatic escaping, and a `tojson` that writes `<`, `>`, `&` as they are. The template gets the very variables that the
reference's gets, as plain values; no provenance.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

import minijinja

from inspector.engines.base import TemplateCall, cut_at_tag, shown_messages
from inspector.errors import ErrorKind, InspectorError
from inspector.provenance import plain

INSTRUCTIONS = 50_000_000  # some seconds of a template's loops; the sandbox's own limits end it earlier
_KINDS = {"SyntaxError": ErrorKind.TemplateSyntax, "TemplateNotFound": ErrorKind.TemplateUnsupported}


class _Raised(Exception):
    """What the template's own raise_exception raises."""


def limits(call: TemplateCall) -> tuple[str, ...]:
    """Give what this engine cannot take of the call: nothing, its clock is the given one."""
    return ()


def render_text(call: TemplateCall) -> str:
    """Render with minijinja.

    Errors: TemplateSyntax, TemplateUnsupported, TemplateRaised, TemplateRuntime, ContinuationInvalid, TimeLimit.
    """
    variables: dict[str, Any] = {
        **call.special_tokens,
        **plain(dict(call.kwargs)),
        "messages": [plain(dict(message)) for message in shown_messages(call)],
        "tools": plain(call.tools),
        "documents": plain(call.documents),
        "add_generation_prompt": call.add_generation_prompt,
    }
    try:
        text = _environment(call.clock).render_str(call.text, "<template>", **variables)
    except _Raised as error:
        raise _error(ErrorKind.TemplateRaised, str(error), None) from error
    except minijinja.TemplateError as error:
        raise _named(error) from error
    except Exception as error:  # what a method or filter of Python's own values raises passes through the engine
        raise _error(ErrorKind.TemplateRuntime, f"{type(error).__name__}: {error}", None) from error
    return _cut(text) if call.continue_final_message else text


def _environment(clock: datetime) -> minijinja.Environment:
    environment = minijinja.Environment(
        trim_blocks=True, lstrip_blocks=True, pycompat=True, fuel=INSTRUCTIONS, auto_escape_callback=lambda name: False
    )
    environment.add_global("raise_exception", _raise)
    environment.add_global("strftime_now", partial(_strftime, clock.replace(tzinfo=None)))
    environment.add_filter("tojson", _tojson)
    return environment


def _raise(message: Any = "") -> NoReturn:
    raise _Raised(str(message))


def _strftime(clock: datetime, form: str) -> str:
    return clock.strftime(form)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _cut(text: str) -> str:
    try:
        return cut_at_tag(text)
    except ValueError:
        message = "the template does not print the final message that is to be continued"
        raise _error(ErrorKind.ContinuationInvalid, message, None) from None


def _named(error: minijinja.TemplateError) -> InspectorError:
    kind = _KINDS.get(error.kind, ErrorKind.TemplateRuntime)
    if error.kind == "OutOfFuel":
        kind = ErrorKind.TimeLimit
    return _error(kind, error.detail or error.message, error.line)


def _error(kind: ErrorKind, message: str, line: int | None) -> InspectorError:
    where: dict[str, Any] = {"engine": "minijinja"} | ({"line": line} if line else {})
    stage = "template" if kind is ErrorKind.TemplateSyntax else "render"
    remedy = "minijinja cannot run this template as it stands: change that line, or choose the engine jinja2"
    return InspectorError(kind, message, stage=stage, where=where, remedy=remedy)
