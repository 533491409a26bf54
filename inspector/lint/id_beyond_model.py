"""A token that the model has no row for."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    sizes = subject.sizes
    if sizes is None or sizes.rows is None or subject.tokenizer is None:
        return
    used = [(index, item) for index, item in enumerate(subject.ids) if item >= sizes.rows]
    if used:
        index, item = used[0]
        yield RULE.finding(
            f"{subject.tokenizer.piece(item)} has the id {item}, the model has {sizes.rows} rows",
            subject.where_token(index),
        )
    elif sizes.outside:
        item, content = sizes.outside[0]
        yield RULE.finding(
            f"{len(sizes.outside)} added token{'s have' if len(sizes.outside) > 1 else ' has'} no row in the model, the first is {shown(content)} ({item})",
            severity=Severity.WARNING,
        )


RULE = Rule(
    id="id-beyond-model",
    topic="vocabulary",
    severity=Severity.ERROR,
    title="a token's id is beyond the model's embedding rows",
    why="the forward pass fails with an index error, or reads other memory",
    remedy="resize the embeddings (resize_token_embeddings), or take the added token out",
    check=check,
)
