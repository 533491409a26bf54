"""Another template than the tokenizer's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    template, tokenizer = subject.template, subject.tokenizer
    if template is None or tokenizer is None or not subject.chosen_template or not tokenizer.chat_templates:
        return
    own = tokenizer.chat_templates.get("default") or next(iter(tokenizer.chat_templates.values()))
    if own == template.text:
        return
    given = subject.probes.as_given()
    other = subject.probes.outcome("the tokenizer's own template", template=replace(template, text=own))
    if given.rendered is None or (other.rendered is None and not other.refused):
        return
    if other.rendered is None:
        yield RULE.finding(f"the template that comes with {tokenizer.id} refuses this request: {other.reason}")
    elif other.text != given.text:
        byte = common_bytes(given.rendered.utf8, other.rendered.utf8)
        yield RULE.finding(
            f"this one renders {shown(excerpt(given.rendered.utf8, byte))}, the one that comes with {tokenizer.id} "
            f"{shown(excerpt(other.rendered.utf8, byte))}",
            {"start": byte, "line": line_of(given.rendered, byte)},
        )


RULE = Rule(
    id="not-own-template",
    topic="template-identity",
    severity=Severity.NOTE,
    title="the template that was chosen renders otherwise than the one that comes with the tokenizer",
    why="a GGUF, a fine-tune and the original repository often carry three versions: which one is served decides the prompt",
    remedy="serve the version that the model was trained with; compare the two",
    check=check,
)
