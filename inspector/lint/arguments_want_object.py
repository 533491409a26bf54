"""A template that takes tool-call arguments as objects only."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, json_of, with_arguments


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused:
        return
    first, changed = None, []
    for index, message in enumerate(subject.probes.messages()):
        edited, touched = with_arguments(message, lambda value: json_of(value) if isinstance(value, str) else None)
        changed.append(edited)
        if touched and first is None:
            first = f"messages[{index}].tool_calls[{touched[0]}].function.arguments"
    if first is not None and subject.probes.outcome("arguments as objects", messages=changed).rendered is not None:
        yield RULE.finding(
            f"arguments are JSON text, this template wants an object: {subject.error.message}",  # type: ignore[union-attr]
            {"path": first, "line": subject.error.where.get("line")},  # type: ignore[union-attr]
        )


RULE = Rule(
    id="arguments-want-object",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="the template takes tool-call arguments as objects only",
    why="requests in OpenAI's form, whose arguments are text, fail",
    remedy="parse arguments into an object before rendering (profile vllm does)",
    check=check,
)
