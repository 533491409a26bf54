"""A namespace attribute that transformers refuses."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for name, line in subject.facts.private:
        yield RULE.finding(f"the namespace attribute {shown(name)} begins with an underscore", {"line": line})


RULE = Rule(
    id="namespace-underscore",
    topic="template-engine",
    severity=Severity.ERROR,
    title="a namespace attribute begins with an underscore",
    why="transformers refuses such a template since 5.2; older versions and plain Jinja take it",
    remedy="rename the attribute",
    check=check,
    live=True,
    needs=Need.PRIVATE,
)
