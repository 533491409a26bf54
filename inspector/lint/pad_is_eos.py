"""One token for padding and for the end."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    pad, eos = subject.special_id("pad_token"), subject.special_id("eos_token")
    if pad is not None and pad == eos and subject.tokenizer is not None:
        yield RULE.finding(f"{subject.tokenizer.piece(pad)} ({pad}) is pad_token and eos_token")


RULE = Rule(
    id="pad-is-eos",
    topic="special-tokens",
    severity=Severity.NOTE,
    title="the padding token is the end token",
    why="collators that mask padding out of the loss mask the real ends too: the model never learns to stop",
    remedy="give padding a token of its own, or mask by attention_mask instead of by id",
    check=check,
)
