"""Padding that the mask does not hide."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sent, pad = subject.evidence.sent, subject.special_id("pad_token")
    if sent.input_ids is None or sent.attention_mask is None or pad is None or pad == subject.special_id("eos_token"):
        return
    for row, (ids, mask) in enumerate(zip(sent.input_ids, sent.attention_mask)):
        seen = [index for index, (item, kept) in enumerate(zip(ids, mask)) if kept and item == pad]
        if seen:
            yield RULE.finding(
                f"row {row}: {len(seen)} padding tokens have the mask 1, the first at {seen[0]}", {"token": seen[0]}
            )
        kept = [index for index, on in enumerate(mask) if on]
        if kept and len(kept) != kept[-1] - kept[0] + 1:
            yield RULE.finding(
                f"row {row}: the mask has a hole between tokens {kept[0]} and {kept[-1]}", {"token": kept[0]}
            )


RULE = Rule(
    id="padding-unmasked",
    topic="batching",
    severity=Severity.ERROR,
    title="the attention mask keeps padding, or hides tokens between others",
    why="the model reads padding as text, or does not see part of the prompt",
    remedy="take the mask that the tokenizer gives with the padding",
    check=check,
)
