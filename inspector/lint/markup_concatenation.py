"""Text joined with markup, which is then escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.facts.concatenated or subject.rendered is None:
        return
    ours, theirs = subject.probes.as_given().text, subject.probes.bare("with jinja2's own tojson", plain_jinja=True)
    if ours is None or theirs is None:
        return
    added = len(ENTITY.findall(theirs)) - len(ENTITY.findall(ours))
    if added > 0:
        yield RULE.finding(
            f"where tojson or safe gives markup, joining it escapes {added} characters of the text beside it (&#34;, &lt;)",
            {"line": subject.facts.concatenated[0]},
        )


ENTITY = re.compile(r"&(?:#34|#39|lt|gt|amp|quot);")

RULE = Rule(
    id="markup-concatenation",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="text is joined with what tojson or safe gives, which other programs escape as HTML",
    why="hand-written quotes become &#34; in a program whose tojson gives markup",
    remedy="write {{ text }}{{ value | tojson }} one after the other instead of joining them with + or ~",
    check=check,
)
