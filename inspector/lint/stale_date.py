"""A fixed date that stands in for today."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject
from inspector.provenance import SegmentKind


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or not subject.traced:
        return
    for default in subject.facts.defaults:
        value = default.value
        if not isinstance(value, str) or default.name in subject.arguments or not DATE.search(value):
            continue
        place = _printed_at(subject, value.encode(), default.line)
        if place is not None:
            yield RULE.finding(
                f"{default.name} is not passed: the prompt says {shown(value)}",
                {"start": place, "end": place + len(value.encode()), "line": default.line},
                remedy=f"pass {default.name}, for example --set {default.name}='\"{value}\"' with today's date",
            )


def _printed_at(subject: Subject, value: bytes, line: int) -> int | None:
    """Find the bytes that the constant of that template line wrote."""
    segments = subject.rendered.segments  # type: ignore[union-attr]
    for row in np.flatnonzero(segments.kind == SegmentKind.TEMPLATE).tolist():
        at = subject.utf8.find(value, int(segments.start[row]), int(segments.end[row]))
        if at >= 0:
            return at
    return None


DATE = re.compile(
    r"\b(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[ .](?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? (?:19|20)\d\d\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,2},? (?:19|20)\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.](?:19|20)\d\d\b"
)

RULE = Rule(
    id="stale-date",
    topic="template-identity",
    severity=Severity.WARNING,
    title="the template states a fixed date as today, because none was passed",
    why="the model believes it: ages, weekdays and 'recent' are wrong",
    remedy="pass the date argument that the template reads",
    check=check,
)
