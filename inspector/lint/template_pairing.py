"""A template preset with another tokenizer than its own."""

from __future__ import annotations

from collections.abc import Iterator

from inspector import presets
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    template, tokenizer = subject.template, subject.tokenizer
    if template is None or tokenizer is None or not subject.chosen_template:
        return
    preset = presets.templates().get(template.id)
    if preset is not None and preset.made_for and preset.made_for != tokenizer.id:
        yield RULE.finding(
            f"the template {preset.id} was made for the tokenizer {preset.made_for}, this is {tokenizer.id}",
            {"template": preset.id},
            remedy=f"use the tokenizer {preset.made_for}",
        )


RULE = Rule(
    id="template-pairing",
    topic="template-identity",
    severity=Severity.WARNING,
    title="the template was made for another tokenizer",
    why="its control strings are ordinary text to this tokenizer: turns have no boundary",
    remedy="use the tokenizer that the template was made for",
    check=check,
    live=True,
    needs=Need.CHOSEN,
)
