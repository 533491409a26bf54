"""Values that are printed in Python's spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of, leaves, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced:
        return
    for path, value in _values(subject):
        for start, end in subject.spans(path):
            text = subject.utf8[start:end]
            if (value is None or isinstance(value, bool)) and text == repr(value).encode():
                yield _finding(subject, path, f"prints {text.decode()}, JSON has {json.dumps(value)}", start, end)
                break
            if isinstance(value, str) and _is_repr(subject, start, end):
                yield _finding(subject, path, f"prints {shown(repr(value), 40)} in Python's quotes", start, end)
                break


def _values(subject: Subject) -> Iterator[tuple[str, Any]]:
    for index, message in enumerate(subject.messages):
        for at, call in enumerate(tool_calls(message)):
            arguments = function_of(call).get("arguments")
            if isinstance(arguments, dict | list):
                yield from leaves(arguments, f"messages[{index}].tool_calls[{at}].function.arguments")
    for index, tool in enumerate(subject.tools):
        yield from leaves(tool, f"tools[{index}]")


def _is_repr(subject: Subject, start: int, end: int) -> bool:
    """The value stands as Python prints a member of a dict: 'key': 'value'."""
    before = subject.utf8[max(start - 80, 0) : start]
    return subject.utf8[end : end + 1] == b"'" and re.search(rb"'[^'\n]+': '$", before) is not None


def _finding(subject: Subject, path: str, what: str, start: int, end: int) -> Finding:
    return RULE.finding(f"{path} {what}", {"path": path, "start": start, "end": end, "line": subject.line_at(start)})


RULE = Rule(
    id="python-literals",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="a value of a call or schema is printed in Python's spelling",
    why="the model sees True, None and 'text' where it should write true, null and \"text\", and copies them",
    remedy="print it with tojson",
    check=check,
    live=True,
    needs=Need.CALLS | Need.TOOLS,
)
