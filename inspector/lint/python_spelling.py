"""Constants that engines spell otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for what, line in subject.facts.printed:
        yield RULE.finding(
            f"the template prints {what}: Python's spelling here, JSON's in a browser or in minja", {"line": line}
        )


RULE = Rule(
    id="python-spelling",
    topic="template-engine",
    severity=Severity.NOTE,
    title="the template prints a boolean, null, list or object of its own",
    why="Jinja prints True, None and ['a'], other engines true, null and [\"a\"]: other bytes for the same template",
    remedy="print a string, or use tojson",
    check=check,
    live=True,
    needs=Need.PRINTED,
)
