"""An end that is written only while nothing follows."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, excerpt


def check(subject: Subject) -> Iterator[Finding]:
    for broken in subject.broken_turns:
        if broken.tail:
            lost = shown(excerpt(broken.before, broken.byte))
            yield RULE.finding(
                f"after messages[{broken.index}] the chat ended with {lost}; with a turn after it that is gone",
                {
                    "path": f"messages[{broken.index}]",
                    "line": broken.line,
                    "start": broken.byte,
                    "end": len(broken.before),
                },
            )
            return


RULE = Rule(
    id="end-mark-unstable",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="what ends the chat is not written once another turn follows",
    why="turn k is no prefix of turn k+1: training on whole chats and cached prompts both go wrong at the end mark",
    remedy="write the mark after every turn, or never",
    check=check,
)
