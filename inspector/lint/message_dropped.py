"""A message of which nothing is in the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, text_of


def check(subject: Subject) -> Iterator[Finding]:
    for index, message in enumerate(subject.lost_messages):
        if message is not None and message.get("role") not in ("tool", "function") and not subject.late_system(index):
            text = text_of(message.get("content"))
            yield RULE.finding(
                f"the {message.get('role')} message is not in the prompt: 0 of {len(text)} characters of its content",
                {"path": f"messages[{index}].content"},
            )


RULE = Rule(
    id="message-dropped",
    topic="roles",
    severity=Severity.ERROR,
    title="a message is silently absent from the prompt",
    why="the model never sees it, and nothing says so",
    remedy="use a role that the template prints (see the capability card), or put the text into a message that it does",
    check=check,
    live=True,
)
