"""Two renderings of one request that differ."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None:
        return
    first, second = subject.probes.as_given(), subject.probes.outcome("rendered a second time")
    if first.rendered is not None and second.rendered is not None and first.text != second.text:
        byte = common_bytes(first.rendered.utf8, second.rendered.utf8)
        yield RULE.finding(
            f"{shown(excerpt(first.rendered.utf8, byte, 20))} once, {shown(excerpt(second.rendered.utf8, byte, 20))} the next time",
            {"start": byte, "line": line_of(first.rendered, byte)},
        )


RULE = Rule(
    id="renders-differ",
    topic="template-identity",
    severity=Severity.ERROR,
    title="the same request renders to other bytes each time",
    why="nothing can be replayed, and no prefix is ever cached",
    remedy="take the filter random, and lipsum, out of the template; pass what varies as an argument",
    check=check,
)
