"""Bytes whose writer is not known."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is not None and subject.rendered.provenance == "unknown":
        yield RULE.finding(f"the origin of the bytes is unknown here: {subject.rendered.provenance_note}")


RULE = Rule(
    id="provenance-unknown",
    topic="template-engine",
    severity=Severity.WARNING,
    title="who wrote the bytes is not known",
    why="rules about who wrote what see nothing here",
    remedy="report the template",
    check=check,
    live=True,
    needs=Need.UNTRACED,
)
