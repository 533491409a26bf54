"""Text that the vocabulary does not have."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    tokens = subject.flagged(TokenFlag.UNKNOWN)
    if encoding is None or not tokens:
        return
    lost = [subject.utf8[int(encoding.start[i]) : int(encoding.end[i])].decode("utf-8", "replace") for i in tokens]
    wrote = [text for text in lost if text]
    if wrote and wrote != [encoding.tokenizer.piece(int(encoding.input_ids[i])) for i in tokens]:
        yield RULE.finding(
            f"{len(tokens)} tokens are unknown: {', '.join(map(repr, dict.fromkeys(wrote[:6])))} cannot be spelled",
            subject.where_token(tokens[0]),
        )


RULE = Rule(
    id="unknown-token",
    topic="unicode",
    severity=Severity.WARNING,
    title="text becomes the unknown token",
    why="what was written is lost: the model cannot tell one such character from another",
    remedy="use characters that the vocabulary has, or a tokenizer with byte fallback",
    check=check,
    live=True,
    needs=Need.UNKNOWN,
)
