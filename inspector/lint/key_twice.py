"""A JSON key that stands twice in one object of tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact == "key-twice":
            yield RULE.finding(text)


RULE = Rule(
    id="key-twice",
    topic="vocabulary",
    severity=Severity.WARNING,
    title="a key stands twice in tokenizer.json",
    why="loading takes the last and says nothing; another reader may take the first, and has another tokenizer",
    remedy="remove one of the two",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
