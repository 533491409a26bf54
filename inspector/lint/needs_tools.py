"""A template that fails without tools."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject
from inspector.provenance import trace


def check(subject: Subject) -> Iterator[Finding]:
    request = subject.inspection.request
    if not subject.refused or request is None or request.tools:
        return
    tool = {
        "type": "function",
        "function": {"name": "tide", "description": "Height", "parameters": {"type": "object", "properties": {}}},
    }
    for what, tools in (("an empty list", []), ("a tool", [tool])):
        if subject.probes.outcome(f"with {what} for tools", tools=trace(tools, "tools")).rendered is not None:
            yield RULE.finding(
                f"without tools it fails, with {what} it renders: {subject.error.message}",  # type: ignore[union-attr]
                {"path": "tools", "line": subject.error.where.get("line")},  # type: ignore[union-attr]
            )
            return


RULE = Rule(
    id="needs-tools",
    topic="tool-schema",
    severity=Severity.ERROR,
    title="the template fails when no tools are given",
    why="a repository's tool_use template is chosen by name or by a client that has no tools this time",
    remedy="use the default template without tools; test `tools` before looping over it",
    check=check,
)
