"""A boolean or number that is passed as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.jsontext import child_path
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    given = subject.probes.as_given()
    for name, value in subject.arguments.items():
        if not isinstance(value, str) or name not in subject.facts.names:
            continue
        typed = _typed(str(value))
        if typed is None or given.rendered is None:
            continue
        other = subject.probes.outcome(f"{name} = {typed[0]!r}", arguments={**subject.arguments, name: typed[0]})
        if other.rendered is not None and other.text != given.text:
            byte = common_bytes(given.rendered.utf8, other.rendered.utf8)
            yield RULE.finding(
                f"{name} is the string {shown(str(value))}: {shown(excerpt(given.rendered.utf8, byte))} is rendered, the "
                f"{type(typed[0]).__name__} {typed[0]} would render {shown(excerpt(other.rendered.utf8, byte))}",
                {
                    "path": child_path("chat_template_kwargs", name),
                    "start": byte,
                    "line": line_of(given.rendered, byte),
                },
            )


def _typed(text: str) -> tuple[Any] | None:
    """Give the value that a text spells, if it spells one: ("false",) is False."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.strip().lower() in words:
        return (words[text.strip().lower()],)
    try:
        return (int(text),)
    except ValueError:
        return None


RULE = Rule(
    id="argument-as-string",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="a boolean, null or number is passed as text, and renders otherwise",
    why='"false" is not false: it is true in a condition, and unequal to both in a comparison',
    remedy="pass the value itself; --set NAME=false without quotes",
    check=check,
)
