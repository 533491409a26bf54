"""Content that is escaped as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced or b"&" not in subject.utf8 or subject.rendered is None:
        return
    segments = subject.rendered.segments
    found: dict[str, int] = {}
    for path, rows in subject.rows_of.items():
        for row in rows:
            if segments.field_start[row] < 0 and ENTITY.search(subject.utf8[segments.start[row] : segments.end[row]]):
                found.setdefault(path, row)
    for path, row in found.items():
        start, end = int(segments.start[row]), int(segments.end[row])
        text = subject.utf8[start:end].decode("utf-8", "replace")
        yield RULE.finding(
            f"{path} is escaped as HTML: {shown(text)}",
            {"path": path, "start": start, "end": end, "line": int(segments.line[row]) or None},
        )


ENTITY = re.compile(rb"&(?:#34|#39|lt|gt|amp|quot);")

RULE = Rule(
    id="html-escaped",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="content is escaped as HTML in the prompt",
    why="the model reads &lt; where < was meant, and answers in kind",
    remedy="take the filter e, escape or forceescape (or autoescape) out of the template",
    check=check,
    live=True,
)
