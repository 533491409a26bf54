"""A whole number that is written as a float."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, function_of, json_of, leaves, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    for index, message in enumerate(subject.messages):
        for at, call in enumerate(tool_calls(message)):
            arguments = function_of(call).get("arguments")
            place = f"messages[{index}].tool_calls[{at}].function.arguments"
            value = json_of(arguments) if isinstance(arguments, str) else arguments
            for path, leaf in leaves(value, place):
                if isinstance(leaf, float) and leaf.is_integer() and abs(leaf) < 2**53:
                    yield RULE.finding(
                        f"{path} is {leaf!r}: a client that sends {int(leaf)} another time gets another prompt",
                        {"path": path if isinstance(arguments, dict) else place},
                    )


RULE = Rule(
    id="integral-float",
    topic="tool-calls",
    severity=Severity.NOTE,
    title="a whole number in a call's arguments is written as a float",
    why="105.0 and 105 are one value and other bytes: prefix caches miss from there on",
    remedy="write whole numbers without a fraction",
    check=check,
    live=True,
    needs=Need.CALLS,
)
