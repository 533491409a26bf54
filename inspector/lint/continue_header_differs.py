"""Another header when a message is continued than when one is generated."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of


def check(subject: Subject) -> Iterator[Finding]:
    messages = subject.probes.messages()
    if not subject.options.continue_final_message or len(messages) < 2 or subject.rendered is None:
        return
    generated = subject.turn(len(messages) - 1)
    if generated.rendered is None:
        return
    before, after = generated.rendered.utf8, subject.utf8
    shared = common_bytes(before, after)
    if shared < len(before):
        yield RULE.finding(
            f"generating begins with {shown(excerpt(before, shared))}, continuing with {shown(excerpt(after, shared))}",
            {"start": shared, "end": min(len(before), len(after)), "line": line_of(generated.rendered, shared)},
        )


RULE = Rule(
    id="continue-header-differs",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="continuing a message leaves out header text that generating one has",
    why="the model continues without the channel or mode mark that it always saw before an answer",
    remedy="write the header before every assistant message, or put it into the prefill",
    check=check,
)
