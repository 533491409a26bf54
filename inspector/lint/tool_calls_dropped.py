"""Tool calls that are not in the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, function_of, tool_calls


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced:
        return
    for index, message in enumerate(subject.messages):
        lost = []
        for at, call in enumerate(tool_calls(message)):
            path = f"messages[{index}].tool_calls[{at}]"
            parts = (f"{path}.function.name", f"{path}.function.arguments", f"{path}.name", f"{path}.arguments")
            if call and not any(map(subject.covered, parts)) and not subject.gone(path):
                lost.append((path, function_of(call).get("name")))
        path = f"messages[{index}].function_call"
        if isinstance(message.get("function_call"), dict) and not subject.covered(path) and not subject.gone(path):
            lost.append((path, message["function_call"].get("name")))
        if lost:
            which = ", ".join(shown(str(name)) for _path, name in lost[:4])
            yield RULE.finding(
                f"{len(lost)} of {len(tool_calls(message)) or 1} calls of messages[{index}] are not in the prompt: {which}",
                {"path": lost[0][0]},
            )


RULE = Rule(
    id="tool-calls-dropped",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="tool calls of the history are silently absent from the prompt",
    why="the model sees a result without the call, and learns to answer without calling",
    remedy="use a template that prints tool_calls, or write the call into the content",
    check=check,
    live=True,
    needs=Need.CALLS,
)
