"""A template that wants user and assistant in turns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused:
        return
    messages = subject.probes.messages()
    speaks = [at for at, message in enumerate(messages) if message.get("role") in ("user", "assistant")]
    doubled = [
        b for a, b in itertools.pairwise(speaks) if b == a + 1 and messages[a].get("role") == messages[b].get("role")
    ]
    if speaks and messages[speaks[0]].get("role") == "assistant":
        doubled.insert(0, speaks[0])
    kept = [message for at, message in enumerate(messages) if at not in doubled]
    if not doubled or not kept:
        return
    if subject.probes.outcome("roles in turns", messages=kept).rendered is not None:
        index = doubled[0]
        why = "no user message is before it" if index == speaks[0] else f"messages[{index - 1}] has the same role"
        yield RULE.finding(
            f"messages[{index}] breaks the order that the template wants ({why}): {subject.error.message}",  # type: ignore[union-attr]
            {"path": f"messages[{index}].role", "line": subject.error.where.get("line")},  # type: ignore[union-attr]
        )


RULE = Rule(
    id="roles-must-alternate",
    topic="roles",
    severity=Severity.ERROR,
    title="the template wants user and assistant messages in turns",
    why="tool loops, prefills and joined inboxes send two of a kind, and fail",
    remedy="join neighbouring messages of one role before sending, begin with a user message",
    check=check,
)
