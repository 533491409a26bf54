"""Bytes that no token stands for."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    gaps = subject.encoding.uncovered if subject.encoding is not None else ()
    if gaps:
        lost = sum(gap.end - gap.start for gap in gaps)
        first = gaps[0]
        message = f"{lost} of {len(subject.encoding.rendered.utf8)} bytes are in no token: {first.why}"  # type: ignore[union-attr]
        yield RULE.finding(message, {"start": first.start, "end": first.end})


RULE = Rule(
    id="uncovered-bytes",
    topic="token-map",
    severity=Severity.WARNING,
    title="bytes of the prompt are in no token",
    why="the model does not see them",
    remedy="check the text there: the model does not see it",
    check=check,
    live=True,
    needs=Need.UNCOVERED,
)
