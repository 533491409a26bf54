"""A number that is not printed as it was spelled."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    conversation = subject.inspection.conversation
    for change in conversation.changes if conversation is not None else ():
        if change.what == "number respelled":
            yield RULE.finding(
                f"{change.path} was spelled {change.before}, programs print {change.after}", {"path": change.path}
            )


RULE = Rule(
    id="number-respelled",
    topic="tool-calls",
    severity=Severity.NOTE,
    title="a number is printed otherwise than it was spelled",
    why="parsing and printing JSON changes 1.10 and 1e5: the bytes depend on who parsed the request",
    remedy="spell it as printed, or send it as a string",
    check=check,
    live=True,
    needs=Need.CHANGES,
)
