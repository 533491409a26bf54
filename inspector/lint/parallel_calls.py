"""Several calls in one turn, which the template refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    many = [at for at, message in enumerate(subject.messages) if len(tool_calls(message)) > 1]
    if not subject.refused or not many:
        return
    kept_ids: set[Any] = set()
    single: list[dict[str, Any]] = []
    answered = False
    for message in subject.probes.messages():
        calls = message.get("tool_calls")
        if isinstance(calls, list) and len(calls) > 1:
            message, answered = {**message, "tool_calls": calls[:1]}, False
            kept_ids = {call.get("id") for call in calls[1:] if isinstance(call, dict)}
        elif message.get("role") == "tool" and kept_ids:
            if message.get("tool_call_id") in kept_ids or answered:
                continue
            answered = True
        single.append(message)
    if subject.probes.outcome("one call a turn", messages=single).rendered is not None:
        index = many[0]
        yield RULE.finding(
            f"{len(tool_calls(subject.messages[index]))} calls in one turn are refused, one renders: {subject.error.message}",  # type: ignore[union-attr]
            {"path": f"messages[{index}].tool_calls", "line": subject.error.where.get("line")},  # type: ignore[union-attr]
        )


RULE = Rule(
    id="parallel-calls",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="the template refuses several tool calls in one turn",
    why="agents that call tools in parallel fail on the next request",
    remedy="switch parallel tool calls off, or split the turn into one message a call",
    check=check,
)
