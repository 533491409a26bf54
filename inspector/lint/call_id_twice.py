"""Two calls with one id."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for index, message in enumerate(subject.messages):
        for at, call in enumerate(tool_calls(message)):
            given, path = call.get("id") if isinstance(call, dict) else None, f"messages[{index}].tool_calls[{at}].id"
            if isinstance(given, str) and seen.setdefault(given, path) != path:
                yield RULE.finding(f"{shown(given)} is the id of {seen[given]} too", {"path": path})


RULE = Rule(
    id="call-id-twice",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="two tool calls have one id",
    why="a result answers both or neither; templates that look calls up by id print the wrong name",
    remedy="give each call an id of its own",
    check=check,
    live=True,
    needs=Need.CALLS,
)
