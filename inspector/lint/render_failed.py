"""A template that renders nothing."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    error = subject.error
    if error is not None and subject.rendered is None and error.stage in ("template", "render", "messages"):
        where = {key: error.where.get(key) for key in ("path", "line")}
        yield RULE.finding(f"{error.kind.name}: {error.message}", where, remedy=error.remedy)


RULE = Rule(
    id="render-failed",
    topic="template-engine",
    severity=Severity.ERROR,
    title="the template cannot render this request",
    why="nothing is sent",
    remedy="change the request, or the template at that line",
    check=check,
    live=True,
    needs=Need.ERROR,
)
