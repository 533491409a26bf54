"""A template that tells "not passed" from false."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None or "add_generation_prompt" not in subject.facts.names:
        return
    off = subject.probes.outcome("without generation prompt", prompt=False, continuing=False).text
    absent = subject.probes.bare("add_generation_prompt not passed", omit=("add_generation_prompt",))
    if off is not None and absent is not None and absent != off:
        added = absent[len(off) :] if absent.startswith(off) else absent[-40:]
        yield RULE.finding(
            f"where add_generation_prompt is not passed, {shown(added)} is written; with false it is not",
            {"line": next((d.line for d in subject.facts.defaults if d.name == "add_generation_prompt"), None)},
        )


RULE = Rule(
    id="generation-prompt-default",
    topic="template-engine",
    severity=Severity.NOTE,
    title="add_generation_prompt that is not passed is not the same as false",
    why="transformers always passes it, other programs do not: they add a header when nobody asked for one",
    remedy="pass add_generation_prompt always",
    check=check,
)
