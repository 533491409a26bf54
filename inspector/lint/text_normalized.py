"""Text that the tokenizer's normalizer composes."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, points, rewritten


def check(subject: Subject) -> Iterator[Finding]:
    changed = rewritten(subject, "NFC")
    if changed:
        start, before, after = changed[0]
        yield RULE.finding(
            f"{len(changed)} stretches are rewritten; {points(before)} becomes {points(after)}",
            {"start": start, "end": start + len(before.encode()), "path": subject.field_at(start)},
        )


RULE = Rule(
    id="text-normalized",
    topic="unicode",
    severity=Severity.WARNING,
    title="the tokenizer's normalizer rewrites text (canonical composition)",
    why="bytes in are not bytes out; a converted tokenizer that lost the normalizer gives other ids",
    remedy="send text in NFC, so that nothing is rewritten anywhere",
    check=check,
    live=True,
    needs=Need.WIDE,
)
