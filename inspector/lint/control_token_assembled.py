"""A control token put together from template and content."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, message_of


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None:
        return
    for index in subject.flagged(TokenFlag.CROSSES_SEGMENT):
        piece, path = encoding.tokenizer.piece(int(encoding.input_ids[index])), subject.path_at(index)
        where = {**subject.where_token(index), "line": subject.line_at(int(encoding.start[index]))}
        message = f"{piece} is put together from the template's text and {path or 'content'}"
        usual = path is not None and path.endswith(".role") and _role(subject, path) in USUAL
        yield RULE.finding(message, where, severity=Severity.WARNING if usual else Severity.ERROR)


USUAL = ("system", "developer", "user", "assistant", "tool")  # a format whose marks are made of roles: meant so


def _role(subject: Subject, path: str) -> str | None:
    index = message_of(path)
    return None if index is None or index >= len(subject.messages) else subject.messages[index].get("role")


RULE = Rule(
    id="control-token-assembled",
    topic="injection",
    severity=Severity.ERROR,
    title="a control token is assembled from template text and content",
    why="an unchecked field (a role, a name) decides which control token is sent; escaping content does not help",
    remedy="check the field against a list before rendering, or compare it in the template",
    check=check,
    live=True,
    needs=Need.CROSSING,
)
