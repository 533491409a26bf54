"""A required parameter that is not described."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of


def check(subject: Subject) -> Iterator[Finding]:
    for index, tool in enumerate(subject.tools):
        parameters = function_of(tool).get("parameters")
        if not isinstance(parameters, dict) or not isinstance(parameters.get("required"), list):
            continue
        properties = parameters.get("properties")
        known = properties if isinstance(properties, dict) else {}
        for at, name in enumerate(parameters["required"]):
            if isinstance(name, str) and name not in known:
                path = f"tools[{index}].function.parameters.required[{at}]"
                yield RULE.finding(f"{shown(name)} is required and not among the properties", {"path": path})


RULE = Rule(
    id="required-unknown",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="a required parameter is not among the properties",
    why="the model must fill in what it was not told about; constrained decoding fails",
    remedy="describe it under properties, or take it out of required",
    check=check,
    live=True,
    needs=Need.TOOLS,
)
