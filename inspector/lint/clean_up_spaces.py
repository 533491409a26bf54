"""Decoding that takes blanks away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.evidence.tokenizer_config.get("clean_up_tokenization_spaces") is not True or subject.rendered is None:
        return
    match = CLEANED.search(subject.utf8)
    if match is not None:
        near = subject.utf8[max(match.start() - 8, 0) : match.end() + 8].decode("utf-8", "ignore")
        yield RULE.finding(
            f"tokenizer_config.json sets clean_up_tokenization_spaces: decode() of older versions takes the blank out of {shown(near)}",
            {"start": match.start(), "end": match.end(), "path": subject.field_at(match.start())},
        )


CLEANED = re.compile(rb" [.?!,]| ' | n't| 'm| 's| 've| 're")

RULE = Rule(
    id="clean-up-spaces",
    topic="token-map",
    severity=Severity.NOTE,
    title="decode() cleans up blanks before punctuation",
    why="decoded text differs from what was encoded, and by library version: transformers 5 ignores the flag for BPE",
    remedy="set clean_up_tokenization_spaces to false, or decode from bytes",
    check=check,
)
