"""Tools that are not in the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of, leaves


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced or not subject.tools:
        return
    lost = [index for index in range(len(subject.tools)) if not _is_there(subject, index)]
    for index in lost:
        name = function_of(subject.tools[index]).get("name") or (
            subject.tools[index].get("name") if isinstance(subject.tools[index], dict) else None
        )
        reads = "" if "tools" in subject.facts.names else "; the template never reads tools"
        yield RULE.finding(
            f"nothing of the tool {shown(str(name))} is in the prompt{reads}", {"path": f"tools[{index}]"}
        )


def _is_there(subject: Subject, index: int) -> bool:
    path = f"tools[{index}]"
    holds_text = any(isinstance(value, str) and value.strip() for _path, value in leaves(subject.tools[index], path))
    return subject.covered(path) or subject.gone(path) or not holds_text


RULE = Rule(
    id="tools-unread",
    topic="tool-schema",
    severity=Severity.ERROR,
    title="a tool is silently absent from the prompt",
    why="the model cannot know that it may call it",
    remedy="use a template with tools, or describe them in the system message",
    check=check,
    live=True,
    needs=Need.TOOLS,
)
