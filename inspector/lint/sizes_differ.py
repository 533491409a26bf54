"""Three numbers that are called vocabulary size."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sizes = subject.sizes
    if sizes is None:
        return
    rows = sizes.rows
    if sizes.vocab_size != sizes.size or (rows is not None and rows != sizes.size):
        stated = "not stated" if rows is None else rows
        yield RULE.finding(
            f"vocab_size {sizes.vocab_size} (without added tokens), len(tokenizer) {sizes.size}, config.vocab_size {stated}"
        )


RULE = Rule(
    id="sizes-differ",
    topic="vocabulary",
    severity=Severity.NOTE,
    title="vocab_size, len(tokenizer) and config.vocab_size are different numbers",
    why="code that mixes them cuts off added tokens, or indexes past the end",
    remedy="use len(tokenizer) for ids, config.vocab_size for logits",
    check=check,
)
