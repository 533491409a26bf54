"""A content of null that breaks a template."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    indexes = [at for at, message in enumerate(subject.messages) if "content" in message and message["content"] is None]
    if not indexes:
        return
    where = {"path": f"messages[{indexes[0]}].content"}
    given = subject.probes.messages()
    filled = [{**message, "content": ""} if at in indexes else message for at, message in enumerate(given)]
    if subject.refused:
        if subject.probes.outcome("null content as empty text", messages=filled).rendered is not None:
            error = subject.error
            yield RULE.finding(
                f"null content fails, empty text renders: {error.message}",  # type: ignore[union-attr]
                {**where, "line": error.where.get("line")},  # type: ignore[union-attr]
                severity=Severity.ERROR,
            )
        return
    kept = [{**message, "content": None} if at in indexes else message for at, message in enumerate(given)]
    name = "null content kept"
    if subject.probes.bare(name, messages=kept) is None and subject.rendered is not None:
        yield RULE.finding(
            f"transformers drops null keys before it renders; a program that passes them on fails: {subject.probes.why(name)}",
            where,
        )


RULE = Rule(
    id="null-content",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="a content of null breaks the template",
    why="assistant messages that only call tools have null content in OpenAI's API",
    remedy='send "" in place of null, or test `content is none` in the template',
    check=check,
)
