"""A prefilled answer that the template changes."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.options.continue_final_message or not subject.messages or not subject.traced:
        return
    index = len(subject.messages) - 1
    given = subject.messages[index].get("content")
    if not isinstance(given, str):
        return
    path = f"messages[{index}].content"
    spans = subject.spans(path)
    if not spans:
        return
    printed = b"".join(subject.utf8[start:end] for start, end in spans).decode("utf-8", "replace")
    if printed != given:
        kept = given.find(printed) if printed else -1
        lost = f"; lost: {shown(given[kept + len(printed) :] or given[:kept])}" if kept >= 0 else ""
        yield RULE.finding(
            f"given is {shown(given[-30:])}, the prompt ends with {shown(printed[-30:])}{lost}",
            {"path": path, "start": spans[0][0], "end": spans[-1][1], "line": subject.line_at(spans[-1][1] - 1)},
        )


RULE = Rule(
    id="prefill-changed",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="the text to continue is not in the prompt as it was given",
    why="the continuation starts at another character than the caller thinks; joined texts repeat or lose a blank",
    remedy="end the prefill without white space, or use a template that does not trim",
    check=check,
    live=True,
    needs=Need.CONTINUES,
)
