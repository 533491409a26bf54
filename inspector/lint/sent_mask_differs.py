"""An assistant mask of another program that is not ours."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.editscript import first_difference
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sent = subject.evidence.sent
    mask, ids = sent.own("assistant_mask"), sent.own("input_ids")
    if mask is None or subject.encoding is None:
        return
    ours = tuple(subject.encoding.assistant_mask.tolist())
    if ids is not None and len(ids) < len(subject.ids):
        ours = ours[: len(ids)] if ids == subject.ids[: len(ids)] else ours[len(ours) - len(ids) :]
    if mask == ours:
        return
    index = first_difference(mask, ours)
    yield RULE.finding(
        f"the program's mask has {sum(mask)} tokens of {len(mask)}, the assistant wrote {sum(ours)}; they part at token {index}",
        subject.where_token(index) if index < len(subject.ids) else {},
    )


RULE = Rule(
    id="sent-mask-differs",
    topic="masks",
    severity=Severity.ERROR,
    title="the assistant mask that a program used is not what the assistant wrote",
    why="the loss is taken on the wrong tokens, or on none",
    remedy="take assistant_mask from here, or cut ids and mask together",
    check=check,
)
