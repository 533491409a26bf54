"""Blanks that the tokenizer puts in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from inspector.encode import control_mask
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes" or not len(encoding):
        return
    control = np.flatnonzero(control_mask(encoding.flags))
    found = [index for index in (control + 1).tolist() if index < len(encoding) and _begins_with_blank(encoding, index)]
    if found:
        yield RULE.finding(
            f"the tokenizer puts a blank after a control token {len(found)} times; the prompt has none there",
            subject.where_token(found[0]),
        )


def _begins_with_blank(encoding: Any, index: int) -> bool:
    """The token stands for a blank that the text does not have."""
    spelled = encoding.tokenizer.token_bytes(int(encoding.input_ids[index]))
    start = int(encoding.start[index])
    return spelled.startswith(b" ") and not encoding.rendered.utf8[start : start + 1].isspace()


RULE = Rule(
    id="space-inserted",
    topic="token-map",
    severity=Severity.WARNING,
    title="the tokenizer puts a blank after control tokens",
    why="SentencePiece conversions differ in it (prepend_scheme always or first): each turn differs by a token",
    remedy="check prepend_scheme (legacy in transformers) against the original tokenizer",
    check=check,
    live=True,
)
