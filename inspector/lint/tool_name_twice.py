"""Two tools of one name."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of


def check(subject: Subject) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, tool in enumerate(subject.tools):
        name = function_of(tool).get("name")
        if isinstance(name, str) and seen.setdefault(name, index) != index:
            yield RULE.finding(
                f"tools[{index}] has the name of tools[{seen[name]}]: {shown(name)}",
                {"path": f"tools[{index}].function.name"},
            )


RULE = Rule(
    id="tool-name-twice",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="two tools have one name",
    why="a call cannot say which of them it means",
    remedy="give each tool a name of its own",
    check=check,
    live=True,
    needs=Need.TOOLS,
)
