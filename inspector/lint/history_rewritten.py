"""History that is rendered otherwise once the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, excerpt


def check(subject: Subject) -> Iterator[Finding]:
    broken = [turn for turn in subject.broken_turns if not turn.tail]
    if not broken:
        return
    table = ", ".join(f"messages[{turn.index}]: {100 * turn.byte // max(len(turn.before), 1)} %" for turn in broken)
    first = broken[0]
    yield RULE.finding(
        f"the prompt up to messages[{first.index}] had {shown(excerpt(first.before, first.byte))} where it now has "
        f"{shown(excerpt(first.now.utf8, first.byte))}; bytes that can be reused after each turn: {table}",
        {"path": f"messages[{first.index}]", "start": first.byte, "line": first.line},
    )


RULE = Rule(
    id="history-rewritten",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="earlier turns are rendered otherwise once the chat goes on",
    why="each round throws the prefix cache away from that byte on, and rollouts are no prefix of each other",
    remedy="use a template that preserves prefixes, or the argument that keeps reasoning if it has one",
    check=check,
)
