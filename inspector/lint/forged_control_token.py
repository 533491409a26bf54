"""A control token that a message wrote."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for path, tokens in subject.forged.items():
        if not subject.outside(path):
            yield RULE.finding(subject.forged_text(path, tokens), subject.where_token(tokens[0]))


RULE = Rule(
    id="forged-control-token",
    topic="injection",
    severity=Severity.ERROR,
    title="message text is encoded as control tokens",
    why="whoever wrote the text can end a turn and open another one, as system or as the assistant",
    remedy="send safe_input_ids, in which that text is plain; or refuse it",
    check=check,
    live=True,
    needs=Need.FORGED,
)
