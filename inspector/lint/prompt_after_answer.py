"""A generation prompt behind an answer."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or rendered.generation_prompt is None or not subject.messages:
        return
    if subject.messages[-1].get("role") == "assistant":
        start, end = rendered.generation_prompt
        text = subject.utf8[start:end].decode("utf-8", "ignore")
        yield RULE.finding(
            f"the last message is the assistant's, and {shown(text)} opens another turn after it",
            {
                "path": f"messages[{len(subject.messages) - 1}]",
                "start": start,
                "end": end,
                "line": subject.line_at(start),
            },
        )


RULE = Rule(
    id="prompt-after-answer",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="a generation prompt follows a finished answer",
    why="the model answers itself; a prefill is closed instead of continued",
    remedy="--continue-final-message to go on with it; --no-generation-prompt to train or count a whole chat",
    check=check,
    live=True,
    needs=Need.PROMPT,
)
