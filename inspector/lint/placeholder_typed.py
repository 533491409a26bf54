"""A media placeholder that content wrote."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.control import placeholders
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.forged:
        return
    counted = placeholders(subject.inspection)
    for path in dict.fromkeys(counted.content_paths):
        yield RULE.finding(
            f"{path} writes {counted.content_paths.count(path)} of {counted.by_template + counted.by_content} placeholders, "
            f"there are {counted.media} media items",
            {"path": path},
        )


RULE = Rule(
    id="placeholder-typed",
    topic="injection",
    severity=Severity.ERROR,
    title="text writes the placeholder of an image, video or audio",
    why="it is bound to somebody's picture, or the counts disagree and the request fails",
    remedy="remove it from text, or send safe_input_ids",
    check=check,
    live=True,
    needs=Need.FORGED,
)
