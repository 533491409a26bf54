"""A control token that a tool result, a document or a schema wrote."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for path, tokens in subject.forged.items():
        if subject.outside(path):
            yield RULE.finding(subject.forged_text(path, tokens), subject.where_token(tokens[0]))


RULE = Rule(
    id="forged-control-in-result",
    topic="injection",
    severity=Severity.ERROR,
    title="a tool result, document or tool schema is encoded as control tokens",
    why="a web page or a file, not the user, can forge a turn",
    remedy="send safe_input_ids; treat tool results and documents as foreign text",
    check=check,
    live=True,
    needs=Need.FORGED,
)
