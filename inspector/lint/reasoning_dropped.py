"""Reasoning that the template never prints."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject
from inspector.messages import REASONING_FIELDS


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced:
        return
    for index, message in enumerate(subject.messages):
        given = next(
            (name for name in REASONING_FIELDS if isinstance(message.get(name), str) and message[name].strip()), None
        )
        if given is None or any(subject.covered(f"messages[{index}].{name}") for name in REASONING_FIELDS):
            continue
        read = sorted(set(REASONING_FIELDS) & subject.facts.fields)
        if not read and not subject.gone(f"messages[{index}]"):
            yield RULE.finding(
                f"{given} of messages[{index}] is not in the prompt: the template reads no reasoning field",
                {"path": f"messages[{index}].{given}"},
            )


RULE = Rule(
    id="reasoning-dropped",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="reasoning is sent that the template never reads",
    why="the history has no reasoning, though the client thinks it has",
    remedy="write it into the content in the model's own marks, or leave it out",
    check=check,
    live=True,
    needs=Need.REASONING,
)
