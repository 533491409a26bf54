"""A prompt of another program that is not ours."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt


def check(subject: Subject) -> Iterator[Finding]:
    sent = subject.evidence.sent.text
    if sent is None or subject.rendered is None or subject.rendered.kind != "bytes":
        return
    theirs = sent.encode("utf-8", "replace")
    if theirs == subject.utf8:
        return
    byte = common_bytes(theirs, subject.utf8)
    yield RULE.finding(
        f"the program sent {shown(excerpt(theirs, byte))} where this template writes {shown(excerpt(subject.utf8, byte))}",
        {"start": byte, "end": len(subject.utf8), "line": subject.line_at(byte), "path": subject.field_at(byte)},
    )


RULE = Rule(
    id="sent-text-differs",
    topic="template-identity",
    severity=Severity.ERROR,
    title="the prompt that a program sent is not what the template renders",
    why="runtimes that rewrite templates in a language of their own lag behind the repository's",
    remedy="let the program use this template, or take its template as the reference",
    check=check,
)
