"""A template argument that the template never reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.jsontext import child_path
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.facts.parsed:
        return
    for name in subject.arguments:
        if name not in subject.facts.names:
            near = difflib.get_close_matches(name, sorted(subject.facts.names), 1)
            yield RULE.finding(
                f"the template never reads {shown(name)}" + (f"; it reads {near[0]}" if near else ""),
                {"path": child_path("chat_template_kwargs", name)},
            )


RULE = Rule(
    id="argument-unread",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="a template argument is passed that the template never reads",
    why="it does nothing, and nothing says so: thinking stays on, a date stays wrong",
    remedy="pass a name that the template reads, or drop it",
    check=check,
    live=True,
    needs=Need.ARGUMENTS,
)
