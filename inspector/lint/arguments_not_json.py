"""Arguments that are no JSON."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, argument_texts, json_of


def check(subject: Subject) -> Iterator[Finding]:
    for path, text in argument_texts(subject):
        if not text.strip():
            yield RULE.finding("the arguments are an empty string", {"path": path}, severity=Severity.NOTE)
        elif json_of(text) is None:
            yield RULE.finding(f"the arguments are no JSON object: {shown(text)}", {"path": path})


RULE = Rule(
    id="arguments-not-json",
    topic="tool-calls",
    severity=Severity.WARNING,
    title="tool-call arguments are text that is no JSON object",
    why="servers that parse them refuse the request; templates that print them teach the model to write the same",
    remedy='write a JSON object, "{}" for no arguments',
    check=check,
    live=True,
    needs=Need.CALLS,
)
