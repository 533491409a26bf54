"""A generation prompt that opens the reasoning."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    prompt = subject.rendered.generation_prompt if subject.rendered is not None else None
    if prompt is None:
        return
    opened: list[re.Match[bytes]] = []
    for match in MARK.finditer(subject.utf8, *prompt):
        if match["close"]:
            opened = []
        else:
            opened.append(match)
    for match in opened[-1:]:
        tag = match[0].decode()
        yield RULE.finding(
            f"the generation prompt already opens {tag}: the completion has the closing mark only",
            {"start": match.start(), "end": match.end(), "line": subject.line_at(match.start())},
        )


_NAME = rb"[\w:.-]*(?:think|thought|reason|scratchpad)[\w:.-]*"
MARK = re.compile(rb"(?i)(?:<\|?|\[)(?P<close>/|END_|end_of_)?" + _NAME + rb"(?:\|?>|\])")

RULE = Rule(
    id="generation-prompt-opens-thinking",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="the generation prompt already opens the reasoning",
    why="a parser that looks for both marks finds only the closing one, and loses the reasoning or shows it as the answer",
    remedy="put the opened mark before the completion when it is parsed, or use the parser made for this template",
    check=check,
    live=True,
    needs=Need.PROMPT,
)
