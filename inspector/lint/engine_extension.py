"""Tags that plain Jinja does not have."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for tag, line in subject.facts.tags:
        yield RULE.finding(f"the template uses {{% {tag} %}}", {"line": line})


RULE = Rule(
    id="engine-extension",
    topic="template-engine",
    severity=Severity.NOTE,
    title="the template uses tags that plain Jinja does not have",
    why="generation, break and continue are extensions: engines without them cannot parse the template",
    remedy="check the engines that will serve it; ship a template without the tags for inference",
    check=check,
    live=True,
    needs=Need.TAGS,
)
