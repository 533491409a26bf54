"""null where a schema has nothing to say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, leaves


def check(subject: Subject) -> Iterator[Finding]:
    for index, tool in enumerate(subject.tools):
        for path, value in leaves(tool, f"tools[{index}]"):
            if value is None and not ALLOWED.search(path):
                yield RULE.finding(f"{path} is null", {"path": path})


ALLOWED = re.compile(r"\.(?:default|const|example|strict)$|\.(?:enum|examples)\[\d+\]$")

RULE = Rule(
    id="null-in-schema",
    topic="tool-schema",
    severity=Severity.ERROR,
    title="a tool schema holds null, which no JSON Schema keyword takes",
    why="Arrow and Parquet fill in the parameters of other tools as null: the model sees parameters that do not exist",
    remedy="drop the null members of each tool before rendering",
    check=check,
    live=True,
    needs=Need.TOOLS,
)
