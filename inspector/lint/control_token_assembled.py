"""A control token put together from template and content."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import (
    Subject,
)


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    for index in subject.flagged(TokenFlag.CROSSES_SEGMENT):
        piece = encoding.tokenizer.piece(int(encoding.input_ids[index]))  # type: ignore[union-attr]
        path = subject.path_at(index)
        message = f"{piece} is put together from the template's text and {path or 'content'}"
        yield RULE.finding(message, {**subject.where_token(index), "line": subject.line_at(int(encoding.start[index]))})  # type: ignore[union-attr]


RULE = Rule(
    id="control-token-assembled",
    topic="injection",
    severity=Severity.ERROR,
    title="a control token is assembled from template text and content",
    why="an unchecked field (a role, a name) decides which control token is sent; escaping content does not help",
    remedy="check the field against a list before rendering, or compare it in the template",
    check=check,
    live=True,
)
