"""An access that the sandbox answers with nothing."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for warning, line in subject.rendered.warnings if subject.rendered is not None else ():
        yield RULE.finding(warning, {"line": line or None})


RULE = Rule(
    id="sandbox-blocked",
    topic="template-engine",
    severity=Severity.WARNING,
    title="the sandbox blocked an access without an error",
    why="the template goes on with an empty value",
    remedy="remove the access from the template",
    check=check,
    live=True,
    needs=Need.WARNINGS,
)
