"""Positions that count padding."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sent = subject.evidence.sent
    if sent.position_ids is None or sent.attention_mask is None:
        return
    for row, (positions, mask) in enumerate(zip(sent.position_ids, sent.attention_mask)):
        kept = [position for position, on in zip(positions, mask) if on]
        if kept != list(range(len(kept))):
            at = next(index for index, position in enumerate(kept) if position != index)
            yield RULE.finding(f"row {row}: token {at} has position {kept[at]}, the mask makes it {at}", {"token": at})


RULE = Rule(
    id="position-ids-ignore-mask",
    topic="batching",
    severity=Severity.ERROR,
    title="position_ids do not count what the attention mask keeps",
    why="a shorter row in a left-padded batch reads shifted positions and predicts other tokens than alone",
    remedy="position_ids = attention_mask.cumsum(-1) - 1, with padding masked",
    check=check,
)
