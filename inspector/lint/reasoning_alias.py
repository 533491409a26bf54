"""A reasoning field under a name that the template does not read."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject
from inspector.messages import REASONING_FIELDS


def check(subject: Subject) -> Iterator[Finding]:
    read = [name for name in REASONING_FIELDS if name in subject.facts.fields]
    for index, message in enumerate(subject.messages):
        given = [name for name in REASONING_FIELDS if message.get(name) is not None]
        if given and read and not set(given) & set(read):
            yield RULE.finding(
                f"messages[{index}] has {' and '.join(given)}, the template reads {' or '.join(read)}: transformers 5 copies "
                "one to the other, programs with Jinja alone print nothing",
                {"path": f"messages[{index}].{given[0]}"},
            )


RULE = Rule(
    id="reasoning-alias",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="the reasoning field has another name than the template reads",
    why="it works only where the library copies it under the other names; elsewhere the reasoning is empty",
    remedy="send the name that the template reads",
    check=check,
    live=True,
    needs=Need.REASONING,
)
