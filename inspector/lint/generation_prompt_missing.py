"""A template that adds nothing for the assistant to begin with."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    rendered, budget = subject.rendered, subject.inspection.budget
    if rendered is None or not subject.traced or not subject.options.add_generation_prompt or not subject.messages:
        return
    cut = budget is not None and budget.budget.policy.value.startswith("tokens_")
    if rendered.generation_prompt is None and not cut and subject.messages[-1].get("role") != "assistant":
        end = len(subject.utf8)
        yield RULE.finding("add_generation_prompt is on and adds nothing", {"start": end, "end": end})


RULE = Rule(
    id="generation-prompt-missing",
    topic="generation-prompt",
    severity=Severity.NOTE,
    title="add_generation_prompt adds nothing",
    why="where a format needs a header for the assistant, the model goes on with the user's turn",
    remedy="check that the format has no assistant header (Mistral's has none); else add it to the template",
    check=check,
    live=True,
    needs=Need.ASKS,
)
