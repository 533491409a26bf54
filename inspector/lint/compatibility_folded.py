"""Text that the tokenizer's normalizer folds."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, rewritten


def check(subject: Subject) -> Iterator[Finding]:
    changed = [item for item in rewritten(subject, "NFKC") if unicodedata.is_normalized("NFC", item[1])]
    if changed:
        start, _before, _after = changed[0]
        listed = ", ".join(f"{before!r} to {after!r}" for _start, before, after in changed[:6])
        yield RULE.finding(
            f"{len(changed)} stretches are folded: {listed}",
            {"start": start, "end": start + len(changed[0][1].encode()), "path": subject.field_at(start)},
        )


RULE = Rule(
    id="compatibility-folded",
    topic="unicode",
    severity=Severity.WARNING,
    title="the tokenizer's normalizer folds compatibility characters",
    why="full-width letters, circled digits and fractions become other text: meaning and length change silently",
    remedy="write what is meant in plain characters",
    check=check,
    live=True,
    needs=Need.WIDE,
)
