"""A tool result of which nothing is in the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, text_of


def check(subject: Subject) -> Iterator[Finding]:
    for index, message in enumerate(subject.lost_messages):
        if message is not None and message.get("role") in ("tool", "function"):
            text = text_of(message.get("content"))
            yield RULE.finding(
                f"the result of {shown(str(message.get('name') or message.get('tool_call_id') or 'the tool'))} is not in "
                f"the prompt: 0 of {len(text)} characters",
                {"path": f"messages[{index}].content"},
            )


RULE = Rule(
    id="tool-result-dropped",
    topic="roles",
    severity=Severity.ERROR,
    title="a tool result is silently absent from the prompt",
    why="the model called a tool and never sees the answer",
    remedy="use a template that prints the role tool, or send the result as a user message",
    check=check,
    live=True,
    needs=Need.RESULTS,
)
