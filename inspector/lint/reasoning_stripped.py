"""Reasoning that a later turn takes out of the history."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, paths_of, written_of
from inspector.messages import REASONING_FIELDS


def check(subject: Subject) -> Iterator[Finding]:
    for broken in subject.broken_turns:
        then, now = written_of(paths_of(broken.then)), written_of(paths_of(broken.now))
        for index in range(broken.index + 1):
            gone = [
                name
                for name in REASONING_FIELDS
                if f"messages[{index}].{name}" in then and f"messages[{index}].{name}" not in now
            ]
            if gone:
                where = {"path": f"messages[{index}].{gone[0]}", "start": broken.byte, "line": broken.line}
                yield RULE.finding(
                    f"the reasoning of messages[{index}] was in the prompt after it and is not any more: "
                    f"the prompts part at byte {broken.byte}",
                    where,
                )
                return


RULE = Rule(
    id="reasoning-stripped",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="reasoning of earlier turns is taken out when the chat goes on",
    why="turn N is no prefix of turn N+1: caches are lost, and training on whole chats sees other tokens than generation did",
    remedy="keep it (preserve_thinking or the like, if the template reads it), or train turn by turn",
    check=check,
)
