"""A call without its result."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    pending: dict[str, str] = {}
    for index, message in enumerate(subject.messages):
        if subject.gone(f"messages[{index}]"):
            continue
        if message.get("role") == "tool":
            pending.pop(str(message.get("tool_call_id")), None)
            continue
        for given, path in pending.items():
            yield RULE.finding(f"the call {shown(given)} has no result before messages[{index}]", {"path": path})
        calls = [(at, call) for at, call in enumerate(tool_calls(message)) if isinstance(call, dict)]
        named = [(at, call["id"]) for at, call in calls if isinstance(call.get("id"), str)]
        pending = {given: f"messages[{index}].tool_calls[{at}]" for at, given in named}


RULE = Rule(
    id="unanswered-call",
    topic="truncation",
    severity=Severity.WARNING,
    title="a tool call has no result before the conversation goes on",
    why="APIs refuse it; templates that pair calls with results shift them",
    remedy="add the tool message that answers it, or drop the call",
    check=check,
    live=True,
    needs=Need.CALLS,
)
