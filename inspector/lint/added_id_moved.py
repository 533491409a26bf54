"""An added token that is loaded with another id than its file states."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact == "id-moved":
            yield RULE.finding(text)


RULE = Rule(
    id="added-id-moved",
    topic="vocabulary",
    severity=Severity.WARNING,
    title="an added token gets another id than tokenizer.json states",
    why="a program that reads the id from the file feeds the model another token, or one that it does not have",
    remedy="write the id into tokenizer.json that the token really gets",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
