"""A system message after the conversation began."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for index in range(len(subject.messages)):
        if not subject.late_system(index):
            continue
        where = {"path": f"messages[{index}]"}
        if subject.rendered is not None and subject.traced and subject.lost_messages[index] is not None:
            yield RULE.finding("the later system message is dropped: nothing of it is in the prompt", where)
        elif subject.error is not None and subject.rendered is None:
            rest = [message for at, message in enumerate(subject.probes.messages()) if at != index]
            moved = subject.probes.outcome(f"without messages[{index}]", messages=rest)
            if moved.rendered is not None:
                yield RULE.finding(f"the later system message is refused: {subject.error.message}",
                                   {**where, "line": subject.error.where.get("line")})  # fmt: skip
                return


RULE = Rule(
    id="late-system",
    topic="roles",
    severity=Severity.ERROR,
    title="a system message later in the chat is refused or dropped",
    why="agents that change instructions in the middle fail, or are ignored",
    remedy="put it at the beginning, or send it as a user message",
    check=check,
)
