"""Keys of tokenizer_config.json that name files or values to build a tokenizer from, and are not read."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact == "key-ignored":
            yield RULE.finding(text)


RULE = Rule(
    id="config-file-ignored",
    topic="vocabulary",
    severity=Severity.NOTE,
    title="tokenizer_config.json names files that are not read",
    why="AutoTokenizer can open them, wherever they lie on the machine that loads it; here tokenizer.json alone counts",
    remedy="remove the key from tokenizer_config.json",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
