"""Text in decomposed form that the tokenizer keeps."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, points, rewritten
from inspector.tokenizers.normalization import stretches


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or rendered.kind != "bytes" or unicodedata.is_normalized("NFC", rendered.text):
        return
    if rewritten(subject, "NFC"):
        return  # text-normalized says so
    byte = 0
    for before, after in stretches(rendered.text, "NFC"):
        if before != after:
            yield RULE.finding(
                f"{points(before)} is kept as it is; composed it would be {points(after)}",
                {"start": byte, "end": byte + len(before.encode()), "path": subject.field_at(byte)},
            )
            return
        byte += len(before.encode())


RULE = Rule(
    id="decomposed-text",
    topic="unicode",
    severity=Severity.NOTE,
    title="text is in decomposed form, and this tokenizer does not compose it",
    why="it looks the same and is other tokens than the composed form, which the model saw in training",
    remedy="send text in NFC",
    check=check,
    live=True,
    needs=Need.WIDE,
)
