"""Tokens of one vocabulary that have the same id."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact == "id-shared":
            yield RULE.finding(text)


RULE = Rule(
    id="id-shared",
    topic="vocabulary",
    severity=Severity.WARNING,
    title="two tokens share an id",
    why="the id decodes to one of them, and to which one can change with each load",
    remedy="give each token an id of its own in tokenizer.json",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
