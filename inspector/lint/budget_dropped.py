"""Parts that the budget left out."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    budget = subject.inspection.budget
    if budget is None or not budget.dropped or subject.error is not None:
        return
    names = ", ".join(entry.path for entry in budget.dropped[:5])
    message = f"the budget dropped {len(budget.dropped)} parts of the request: {names}"
    yield RULE.finding(message, {"path": budget.dropped[0].path})


RULE = Rule(
    id="budget-dropped",
    topic="truncation",
    severity=Severity.NOTE,
    title="the budget left parts of the request out",
    why="the model answers without them",
    remedy="raise the context window, or shorten the request",
    check=check,
    live=True,
    needs=Need.BUDGET,
)
