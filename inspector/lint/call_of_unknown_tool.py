"""A call of a tool that is not offered."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    names = {
        function_of(tool).get("name") or (tool.get("name") if isinstance(tool, dict) else None)
        for tool in subject.tools
    }
    if not subject.tools:
        return
    for index, message in enumerate(subject.messages):
        for at, call in enumerate(tool_calls(message)):
            name = function_of(call).get("name")
            if isinstance(name, str) and name not in names:
                path = f"messages[{index}].tool_calls[{at}].function.name"
                yield RULE.finding(f"{shown(name)} is called and is not among the tools", {"path": path})


RULE = Rule(
    id="call-of-unknown-tool",
    topic="tool-calls",
    severity=Severity.NOTE,
    title="the history calls a tool that is not offered",
    why="the model learns from the history that it may call it",
    remedy="offer the tool, or drop the call and its result",
    check=check,
    live=True,
    needs=Need.CALLS,
)
