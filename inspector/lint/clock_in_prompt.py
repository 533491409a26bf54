"""A prompt that depends on the clock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject
from inspector.provenance import SegmentKind


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or not (rendered.segments.kind == int(SegmentKind.CLOCK)).any():
        return
    row = int(np.flatnonzero(rendered.segments.kind == SegmentKind.CLOCK)[0])
    start, end = int(rendered.segments.start[row]), int(rendered.segments.end[row])
    index = int(np.searchsorted(subject.encoding.end, start, side="right")) if subject.encoding is not None else None
    after = (
        ""
        if index is None
        else f"; the {len(subject.ids) - index} tokens from token {index} on are cached no longer than it"
    )
    text = subject.utf8[start:end].decode("utf-8", "replace")
    yield RULE.finding(
        f"the clock writes {shown(text)}{after}",
        {"start": start, "end": end, "token": index, "line": int(rendered.segments.line[row]) or None},
    )


RULE = Rule(
    id="clock-in-prompt",
    topic="template-identity",
    severity=Severity.NOTE,
    title="the clock writes into the prompt",
    why="the prompt, and its cache from there on, changes at midnight and with the time zone of the machine",
    remedy="pass the date as an argument if the template reads one; freeze the clock in tests (--clock)",
    check=check,
    live=True,
    needs=Need.CLOCK,
)
