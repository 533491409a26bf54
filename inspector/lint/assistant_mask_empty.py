"""A generation tag that no assistant message reaches."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or rendered.assistant_from != "generation" or rendered.assistant_spans:
        return
    answers = [
        at
        for at, m in enumerate(subject.messages)
        if m.get("role") == "assistant" and subject.covered(f"messages[{at}].content")
    ]
    line = next((line for tag, line in subject.facts.tags if tag == "generation"), None)
    if answers:
        yield RULE.finding(
            f"messages[{answers[0]}] is in the prompt and the tag encloses nothing",
            {"path": f"messages[{answers[0]}]", "line": line},
        )


RULE = Rule(
    id="assistant-mask-empty",
    topic="masks",
    severity=Severity.ERROR,
    title="the template has a {% generation %} tag, and no assistant message is inside it",
    why="training on the assistant mask learns nothing",
    remedy="put the tag around the branch that prints assistant messages",
    check=check,
    live=True,
    needs=Need.GENERATION,
)
