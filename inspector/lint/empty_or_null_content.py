"""Empty and missing content that render otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    indexes = [
        at
        for at, message in enumerate(subject.messages)
        if message.get("tool_calls") and message.get("content") in ("", None)
    ]
    if not indexes:
        return
    given = subject.probes.messages()
    empty = [{**message, "content": ""} if at in indexes else message for at, message in enumerate(given)]
    missing = [
        {key: value for key, value in message.items() if key != "content"} if at in indexes else message
        for at, message in enumerate(given)
    ]
    a = subject.probes.outcome("empty content", messages=empty)
    b = subject.probes.outcome("missing content", messages=missing)
    if a.rendered is None or b.rendered is None or a.text == b.text:
        return
    byte = common_bytes(a.rendered.utf8, b.rendered.utf8)
    yield RULE.finding(
        f'content "" renders {shown(excerpt(a.rendered.utf8, byte, 20))}, null or no content {shown(excerpt(b.rendered.utf8, byte, 20))}',
        {"path": f"messages[{indexes[0]}].content", "start": byte, "line": line_of(a.rendered, byte)},
    )


RULE = Rule(
    id="empty-or-null-content",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="beside tool calls, empty content and null content render otherwise",
    why="clients differ in which they send: the same conversation gets two prompts",
    remedy="send one of them always; treat both alike in the template",
    check=check,
)
