"""Blanks that the tokenizer puts in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from inspector.encode import control_mask
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes" or not len(encoding):
        return
    after = np.flatnonzero(control_mask(encoding.flags)[:-1]) + 1
    ids = encoding.input_ids[after]
    blank = [i for i in set(ids.tolist()) if encoding.tokenizer.token_bytes(i).startswith(b" ")]
    if not blank:
        return
    found = [index for index in after[np.isin(ids, blank)].tolist() if not _is_blank(encoding, index)]
    if found:
        yield RULE.finding(
            f"the tokenizer puts a blank after a control token {len(found)} times; the prompt has none there",
            subject.where_token(found[0]),
        )


def _is_blank(encoding: Any, index: int) -> bool:
    """The text has a blank where the token begins."""
    start = int(encoding.start[index])
    return bool(encoding.rendered.utf8[start : start + 1].isspace())


RULE = Rule(
    id="space-inserted",
    topic="token-map",
    severity=Severity.WARNING,
    title="the tokenizer puts a blank after control tokens",
    why="SentencePiece conversions differ in it (prepend_scheme always or first): each turn differs by a token",
    remedy="check prepend_scheme (legacy in transformers) against the original tokenizer",
    check=check,
    live=True,
    needs=Need.REWRITES,
)
