"""A form of tool-call ids that the template demands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, call_ids


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused:
        return
    ids = call_ids(subject.messages)
    if not ids:
        return
    fresh = {given: f"{number:09d}" for number, given in enumerate(ids)}
    changed = [_renamed(message, fresh) for message in subject.probes.messages()]
    if subject.probes.outcome("ids of nine characters", messages=changed).rendered is not None:
        _index, path = next(iter(ids.values()))
        given = next(iter(ids))
        yield RULE.finding(
            f"the id {shown(given)} has {len(given)} characters; nine letters or digits render: {subject.error.message}",  # type: ignore[union-attr]
            {"path": path, "line": subject.error.where.get("line")},  # type: ignore[union-attr]
        )


def _renamed(message: dict[str, Any], fresh: dict[str, str]) -> dict[str, Any]:
    edited = dict(message)
    if isinstance(message.get("tool_calls"), list):
        edited["tool_calls"] = [
            {**call, "id": fresh.get(str(call.get("id")), call.get("id"))} if isinstance(call, dict) else call
            for call in message["tool_calls"]
        ]
    if message.get("tool_call_id") in fresh:
        edited["tool_call_id"] = fresh[message["tool_call_id"]]
    return edited


RULE = Rule(
    id="tool-call-id-form",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="the template refuses the form of the tool-call ids",
    why="Mistral's templates take exactly nine letters or digits; ids of other APIs (call_…) make the request fail",
    remedy="replace the ids by nine letters or digits, in calls and results alike",
    check=check,
)
