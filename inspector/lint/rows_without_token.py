"""Logit rows that are no token's."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sizes = subject.sizes
    if sizes is not None and sizes.dead_rows:
        yield RULE.finding(
            f"the model has {sizes.rows} rows, the tokenizer {sizes.size} tokens: ids {sizes.size} to {(sizes.rows or 0) - 1} are no token"
        )


RULE = Rule(
    id="rows-without-token",
    topic="vocabulary",
    severity=Severity.NOTE,
    title="the model has more logit rows than the tokenizer has tokens",
    why="sampling can pick an id without a token; top-k lists show nothing for it",
    remedy="mask those ids when sampling; read missing ids as padding rows",
    check=check,
)
