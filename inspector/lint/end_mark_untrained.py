"""A mask that leaves the turn's end out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.assistant_mask_from != "generation":
        return
    end = subject.turn_end
    mask, ids = encoding.assistant_mask, encoding.input_ids
    if end is None or not mask.any() or ((ids == end) & (mask == 1)).any():
        return
    closes = np.flatnonzero((mask[:-1] == 1) & (mask[1:] == 0) & (ids[1:] == end))
    if len(closes):
        index = int(closes[0]) + 1
        yield RULE.finding(
            f"{encoding.tokenizer.piece(end)} ends the turn and is not in the mask", subject.where_token(index)
        )


RULE = Rule(
    id="end-mark-untrained",
    topic="masks",
    severity=Severity.WARNING,
    title="the assistant mask leaves the mark out that ends the turn",
    why="a model trained on it never learns to stop",
    remedy="put the end mark inside {% generation %}",
    check=check,
)
