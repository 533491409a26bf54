"""A tokenizer without a chat template."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    template, tokenizer = subject.template, subject.tokenizer
    if template and tokenizer and template.id == "raw" and not subject.chosen_template and not tokenizer.chat_templates:
        yield RULE.finding(
            f"{tokenizer.id} has no chat template: contents are joined by the preset raw", {"template": "raw"}
        )


RULE = Rule(
    id="template-missing",
    topic="template-identity",
    severity=Severity.NOTE,
    title="the tokenizer has no chat template and none was chosen",
    why="contents are joined without roles: no chat model was trained on that",
    remedy="choose a template",
    check=check,
    live=True,
)
