"""A template that takes tool-call arguments as text only."""

from __future__ import annotations

import json
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, with_arguments
from inspector.provenance import plain


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused:
        return
    first, changed = None, []
    for index, message in enumerate(subject.probes.messages()):
        edited, touched = with_arguments(
            message, lambda value: None if isinstance(value, str) else json.dumps(plain(value))
        )
        changed.append(edited)
        if touched and first is None:
            first = f"messages[{index}].tool_calls[{touched[0]}].function.arguments"
    if first is not None and subject.probes.outcome("arguments as text", messages=changed).rendered is not None:
        yield RULE.finding(
            f"arguments are an object, this template wants their JSON text: {subject.error.message}",  # type: ignore[union-attr]
            {"path": first, "line": subject.error.where.get("line")},  # type: ignore[union-attr]
        )


RULE = Rule(
    id="arguments-want-string",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="the template takes tool-call arguments as text only",
    why="requests whose arguments are objects fail",
    remedy="send arguments as JSON text, as OpenAI's API has them",
    check=check,
)
