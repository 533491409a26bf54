"""A role that nobody trained on."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, message in enumerate(subject.messages):
        role = message.get("role")
        path = f"messages[{index}].role"
        if not isinstance(role, str) or role in KNOWN or role in seen or not subject.covered(path):
            continue
        if any(role in text for text in subject.facts.strings):
            continue  # the template knows it by name
        seen.add(role)
        start, end = subject.spans(path)[0]
        yield RULE.finding(
            f"the template writes the role {shown(role)} as it is, and does not know it by name",
            {"path": path, "start": start, "end": end, "line": subject.line_at(start)},
        )


KNOWN = ("system", "developer", "user", "assistant", "tool", "function", "model", "ipython", "observation")

RULE = Rule(
    id="unknown-role",
    topic="roles",
    severity=Severity.WARNING,
    title="a role that the template does not know is written into the prompt as it is",
    why="the model gets a header that it was never trained on; a misspelt role looks like it works",
    remedy="use a role of the capability card; correct the spelling",
    check=check,
    live=True,
)
