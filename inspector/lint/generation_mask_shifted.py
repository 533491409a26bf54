"""An assistant mask that covers other text."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or rendered.assistant_from != "generation" or subject.inspection.budget is not None:
        return
    theirs = subject.probes.library_spans()
    if theirs is None:
        return
    ours = tuple(
        tuple(len(subject.utf8[:byte].decode("utf-8", "ignore")) for byte in span) for span in rendered.assistant_spans
    )
    wanted = [rendered.text[a:b] for a, b in ours]
    masked = [rendered.text[a:b] for a, b in theirs if a < b]
    if "".join(wanted) != "".join(masked) and masked != wanted:
        at = next((i for i, (x, y) in enumerate(zip(masked, wanted)) if x != y), 0)
        have, want = (items[at] if at < len(items) else "" for items in (masked, wanted))
        start = rendered.assistant_spans[at][0] if at < len(rendered.assistant_spans) else None
        yield RULE.finding(
            f"transformers' mask covers {shown(have)} where the tag encloses {shown(want)}",
            {"start": start, "line": subject.line_at(start) if start is not None else None},
        )


RULE = Rule(
    id="generation-mask-shifted",
    topic="masks",
    severity=Severity.ERROR,
    title="transformers' assistant mask covers other text than the {% generation %} tag encloses",
    why="inside a macro or {% set %} block the tag's place is computed too early: training learns headers, and not the answer's end",
    remedy="put the tag at the top level of the template, around the output itself",
    check=check,
)
