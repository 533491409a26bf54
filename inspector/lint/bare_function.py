"""A tool that is a bare function object."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for index, tool in enumerate(subject.tools):
        if not isinstance(tool, dict) or "function" in tool or "name" not in tool:
            continue
        fails = subject.refused or (subject.traced and not subject.covered(f"tools[{index}].name"))
        what = "and the template cannot render it" if fails else "; this template renders it, others read tool.function"
        yield RULE.finding(
            f"tools[{index}] has no 'function' around its name {what}",
            {"path": f"tools[{index}]"},
            severity=Severity.ERROR if fails else Severity.WARNING,
        )


RULE = Rule(
    id="bare-function",
    topic="tool-schema",
    severity=Severity.WARNING,
    title='a tool is a bare function object, not {"type": "function", "function": {…}}',
    why="templates read tool.function.name: they raise, or print nothing",
    remedy='wrap it as {"type": "function", "function": {…}}',
    check=check,
    live=True,
    needs=Need.TOOLS,
)
