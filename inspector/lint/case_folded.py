"""Letters that the tokenizer makes small."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes":
        return
    spans = zip(*(column[:LOOKED_AT].tolist() for column in (encoding.input_ids, encoding.start, encoding.end)))
    for index, (token_id, start, end) in enumerate(spans):
        text = subject.utf8[start:end]
        if text.lower() != text and encoding.tokenizer.token_bytes(token_id).strip() == text.lower().strip():
            yield RULE.finding(
                f"{shown(text.decode('utf-8', 'ignore'))} became {encoding.tokenizer.piece(token_id)!r}",
                subject.where_token(index),
            )
            return


LOOKED_AT = 400  # tokens; a tokenizer that folds case does so at once

RULE = Rule(
    id="case-folded",
    topic="token-map",
    severity=Severity.NOTE,
    title="the tokenizer makes capital letters small",
    why="names, code and markers lose their case: bytes in are not bytes out",
    remedy="use a cased tokenizer where case matters",
    check=check,
    live=True,
)
