"""A template that cannot mark what the assistant wrote."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    facts = subject.facts
    if not facts.parsed or any(tag == "generation" for tag, _line in facts.tags):
        return
    answers = [at for at, message in enumerate(subject.messages) if message.get("role") == "assistant"]
    if answers and subject.rendered is not None and subject.rendered.kind == "bytes":
        spans = len(subject.rendered.assistant_spans)
        length = 0 if subject.encoding is None else len(subject.encoding)
        yield RULE.finding(
            f"return_assistant_tokens_mask gives 0 of {length} tokens; from who wrote what, {spans} spans are the assistant's",
            {"path": f"messages[{answers[0]}]"},
        )


RULE = Rule(
    id="no-generation-tag",
    topic="masks",
    severity=Severity.NOTE,
    title="the template has no {% generation %} tag",
    why="transformers' assistant mask is all zeros: training on it learns nothing, with a warning at most",
    remedy="add {% generation %} around what the assistant writes, or use the mask from provenance",
    check=check,
    live=True,
)
