"""Another engine renders other bytes."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None or subject.template is None or subject.options.continue_final_message:
        return
    result = subject.probes.other_engine("minijinja")
    if result is None:
        return
    if result.difference is not None:
        found = result.difference
        yield RULE.finding(
            f"minijinja renders {shown(found.engine)} where the reference renders {shown(found.reference)}",
            {"start": found.byte, "line": found.line, "path": found.path},
        )
    elif result.error is not None and not subject.facts.tags:  # engine-extension says that of the tags
        yield RULE.finding(
            f"minijinja cannot render it: {result.error.message}", {"line": result.error.where.get("line")}
        )


RULE = Rule(
    id="engine-differs",
    topic="template-engine",
    severity=Severity.WARNING,
    title="minijinja, which Rust servers use, renders other bytes",
    why="the model is served with another prompt than it was trained and tested with",
    remedy="write the template without what the engines differ in (see the line)",
    check=check,
)
