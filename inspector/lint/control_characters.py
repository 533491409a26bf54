"""Control characters in content."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import TEMPLATE_KINDS, Subject


def check(subject: Subject) -> Iterator[Finding]:
    if len(subject.utf8.translate(None, _BYTES)) == len(subject.utf8):
        return
    match = CONTROLS.search(subject.utf8)
    if match is not None and subject.kind_at(match.start()) not in TEMPLATE_KINDS:
        yield RULE.finding(
            f"the byte {match[0][:1].hex()} is among {len(CONTROLS.findall(subject.utf8))} stretches of control characters",
            {"start": match.start(), "end": match.end(), "path": subject.field_at(match.start())},
        )


_BYTES = bytes(byte for byte in (*range(0x20), 0x7F) if byte not in b"\t\n\r")
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")

RULE = Rule(
    id="control-characters",
    topic="unicode",
    severity=Severity.NOTE,
    title="content holds control characters",
    why="NUL, escape and the like come from terminals and broken files: rare tokens that carry nothing",
    remedy="remove them",
    check=check,
    live=True,
)
