"""Letters that the tokenizer makes small."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes":
        return
    columns = (encoding.input_ids, encoding.start, encoding.end)
    ids, starts, ends = (column[:LOOKED_AT] for column in columns)
    looked_at = _with_capitals(subject.utf8, starts, ends)
    rows = (column[looked_at].tolist() for column in (ids, starts, ends))
    for index, token_id, start, end in zip(looked_at, *rows):
        text = subject.utf8[start:end]
        if encoding.tokenizer.token_bytes(token_id).strip() == text.lower().strip():
            yield RULE.finding(
                f"{shown(text.decode('utf-8', 'ignore'))} became {encoding.tokenizer.piece(token_id)!r}",
                subject.where_token(index),
            )
            return


def _with_capitals(utf8: bytes, starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """List the tokens whose text has a capital of ASCII, which alone `bytes.lower` changes."""
    size = int(ends.max(initial=0))
    data = np.frombuffer(utf8[:size], np.uint8)
    before = np.zeros(size + 1, np.int64)
    np.cumsum((data >= 65) & (data <= 90), out=before[1:])
    return np.flatnonzero(before[ends] > before[starts]).tolist()


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
    needs=Need.REWRITES,
)
