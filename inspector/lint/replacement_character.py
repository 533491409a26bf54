"""U+FFFD in content."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if REPLACEMENT not in subject.utf8:
        return
    start = subject.utf8.find(REPLACEMENT)
    count = subject.utf8.count(REPLACEMENT)
    yield RULE.finding(
        f"{count} × U+FFFD: bytes were already lost before this request",
        {"start": start, "end": start + 3, "path": subject.field_at(start)},
    )


REPLACEMENT = "\ufffd".encode()

RULE = Rule(
    id="replacement-character",
    topic="unicode",
    severity=Severity.WARNING,
    title="content holds U+FFFD, the sign of text that was decoded wrongly",
    why="a stream was decoded token by token, or bytes in another encoding: the text is not what was written",
    remedy="decode incrementally; read files in the encoding that they have",
    check=check,
    live=True,
    needs=Need.WIDE,
)
