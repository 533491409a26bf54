"""A tool result without its call."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    known: set[str] = set()
    unnamed = 0
    for index, message in enumerate(subject.messages):
        if subject.gone(f"messages[{index}]"):
            continue
        if message.get("role") == "assistant":
            ids = [call.get("id") for call in tool_calls(message) if isinstance(call, dict)]
            known.update(item for item in ids if isinstance(item, str))
            unnamed += sum(1 for item in ids if not isinstance(item, str))
        elif message.get("role") == "tool":
            given = message.get("tool_call_id")
            if isinstance(given, str) and given in known:
                continue
            if unnamed or (known and not isinstance(given, str)):
                unnamed -= 1
                continue
            what = (
                f"answers {shown(given)}, which no call before it has" if isinstance(given, str) else "answers no call"
            )
            yield RULE.finding(f"messages[{index}] {what}", {"path": f"messages[{index}]"})


RULE = Rule(
    id="orphan-tool-result",
    topic="truncation",
    severity=Severity.ERROR,
    title="a tool result stands without its call",
    why="trimming cut the call away: APIs refuse it, models take the result for something the user said",
    remedy="keep or drop a call and its results as one; the policy `messages` does",
    check=check,
    live=True,
    needs=Need.RESULTS,
)
