"""An empty list of tools that is rendered as if there were some."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    request = subject.inspection.request
    if request is None or request.tools is None or request.tools:
        return
    given, none = subject.probes.as_given(), subject.probes.outcome("tools: null", tools=None)
    if given.rendered is not None and none.rendered is not None and given.text != none.text:
        shared = common_bytes(given.rendered.utf8, none.rendered.utf8)
        yield RULE.finding(
            f"tools: [] renders {shown(excerpt(given.rendered.utf8, shared))} where no tools render "
            f"{shown(excerpt(none.rendered.utf8, shared))}",
            {"path": "tools", "start": shared, "line": line_of(given.rendered, shared)},
        )


RULE = Rule(
    id="empty-tools",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="an empty list of tools renders otherwise than no tools",
    why="the model is told that it can call tools, and sees none",
    remedy="send null, or leave tools out, when there are none",
    check=check,
)
