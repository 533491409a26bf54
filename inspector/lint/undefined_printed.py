"""A field that is not there and is printed as nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None or subject.template is None:
        return
    seen: set[tuple[str, int]] = set()
    for use in subject.probes.undefined_uses():
        if (use.name, use.line) in seen or (use.owner is None and use.name.endswith(("_token", "_tokens"))):
            continue
        seen.add((use.name, use.line))
        near = difflib.get_close_matches(use.name, FIELDS, 1) if use.owner is not None else []
        hint = f"; did you mean {near[0]}?" if near and near[0] != use.name else ""
        owner = "no variable has it" if use.owner is None else f"the {use.owner} there has no such key"
        yield RULE.finding(f"{shown(use.name)} is printed as nothing: {owner}{hint}", {"line": use.line})


FIELDS = ("content", "role", "name", "tool_calls", "tool_call_id", "arguments", "function", "reasoning_content", "text")

RULE = Rule(
    id="undefined-printed",
    topic="template-engine",
    severity=Severity.WARNING,
    title="the template prints a value that is not there",
    why="Jinja prints undefined values as nothing: a misspelt field is silently empty",
    remedy="correct the name, or test `is defined`",
    check=check,
)
