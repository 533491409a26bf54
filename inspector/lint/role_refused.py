"""A role that makes the template raise."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused or any(subject.late_system(index) for index in range(len(subject.messages))):
        return
    messages = subject.probes.messages()
    roles = dict.fromkeys(str(message.get("role")) for message in messages)
    for role in roles:
        others = [message for message in messages if message.get("role") != role]
        if role in ("user", "assistant") or not others:
            continue
        turns = [m for at, m in enumerate(others) if at == 0 or m.get("role") != others[at - 1].get("role")]
        without = subject.probes.outcome(f"without the role {role}", messages=others)
        if without.rendered is None and len(turns) < len(others):
            without = subject.probes.outcome(f"without the role {role}, in turns", messages=turns)
        if without.rendered is not None:
            index = next(at for at, message in enumerate(messages) if message.get("role") == role)
            yield RULE.finding(
                f"the role {shown(role)} is refused: {subject.error.message}; this template takes "  # type: ignore[union-attr]
                f"{', '.join(subject.accepted_roles) or 'none of the usual ones'}",
                {"path": f"messages[{index}].role", "line": subject.error.where.get("line")},  # type: ignore[union-attr]
            )
            return


RULE = Rule(
    id="role-refused",
    topic="roles",
    severity=Severity.ERROR,
    title="the template refuses a role",
    why="the request fails as a whole",
    remedy="send that message under a role that the template takes",
    check=check,
)
