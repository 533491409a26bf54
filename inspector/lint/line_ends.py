"""Carriage returns inside text."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    request = subject.inspection.request
    for note in request.notes if request is not None else ():
        yield RULE.finding(note["what"], {"path": note["path"]})


RULE = Rule(
    id="line-ends",
    topic="unicode",
    severity=Severity.NOTE,
    title="text holds carriage returns (CR), which Jinja keeps in content and drops from templates",
    why="pasted Windows text gets other tokens than the same text with line feeds",
    remedy="send LF if CR is not meant",
    check=check,
    live=True,
    needs=Need.NOTES,
)
