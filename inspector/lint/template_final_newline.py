"""A line feed at the end of the template that programs treat differently."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    template = subject.template
    if template is None or subject.rendered is None or not template.text.endswith("\n"):
        return
    ours = subject.probes.as_given().text
    kept = subject.probes.bare("final line feed kept", keep_trailing_newline=True)
    if ours is not None and kept is not None and kept != ours and not subject.options.continue_final_message:
        extra = kept[len(ours) :] if kept.startswith(ours) else kept[-20:]
        yield RULE.finding(
            f"with keep_trailing_newline the prompt ends with {shown(extra)} more",
            {"line": template.text.count("\n"), "start": len(subject.utf8), "end": len(subject.utf8)},
        )


RULE = Rule(
    id="template-final-newline",
    topic="template-engine",
    severity=Severity.WARNING,
    title="the template's last line feed is dropped by Jinja's defaults and kept by other settings",
    why="one more token after the generation prompt, in some programs only",
    remedy='end the template without a line feed, or write {{ "\\n" }} if it is meant',
    check=check,
)
