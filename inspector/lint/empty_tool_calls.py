"""An empty list of tool calls that is not the same as none."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    indexes = [at for at, message in enumerate(subject.messages) if message.get("tool_calls") == []]
    if not indexes:
        return
    dropped = [
        {key: value for key, value in message.items() if key != "tool_calls"} if at in indexes else message
        for at, message in enumerate(subject.probes.messages())
    ]
    without = subject.probes.outcome("empty tool_calls dropped", messages=dropped)
    where = {"path": f"messages[{indexes[0]}].tool_calls"}
    if subject.refused and without.rendered is not None:
        error = subject.error
        yield RULE.finding(
            f"tool_calls: [] fails, an absent key renders: {error.message}",  # type: ignore[union-attr]
            {**where, "line": error.where.get("line")},  # type: ignore[union-attr]
            severity=Severity.ERROR,
        )
    elif without.rendered is not None and subject.rendered is not None:
        given = subject.probes.as_given()
        if given.rendered is not None and given.text != without.text:
            byte = common_bytes(given.rendered.utf8, without.rendered.utf8)
            yield RULE.finding(
                f"tool_calls: [] renders {shown(excerpt(given.rendered.utf8, byte))}, an absent key "
                f"{shown(excerpt(without.rendered.utf8, byte))}",
                {**where, "start": byte, "line": line_of(given.rendered, byte)},
            )


RULE = Rule(
    id="empty-tool-calls",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="an empty list of tool calls is not taken for none",
    why="clients that always write the key make the template raise, or print a call that was not made",
    remedy="drop empty tool_calls before rendering",
    check=check,
)
