"""A tokenizer file that fills every text up by itself."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact == "pads":
            yield RULE.finding(text)


RULE = Rule(
    id="file-pads",
    topic="masks",
    severity=Severity.WARNING,
    title="tokenizer.json carries padding to a fixed length",
    why="the tokenizers library adds the padding to every text: a count is wrong, and without a mask the model reads it",
    remedy="set padding to null in tokenizer.json, or call no_padding()",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
