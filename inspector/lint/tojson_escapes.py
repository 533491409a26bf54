"""JSON that another program's tojson writes otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.facts.json or subject.rendered is None:
        return
    ours, theirs = subject.probes.as_given().text, subject.probes.bare("with jinja2's own tojson", plain_jinja=True)
    if ours is None or theirs is None or subject.tokenizer is None:
        return
    added = theirs.count("\\u") - ours.count("\\u")
    if added > 0:
        counts = [len(subject.tokenizer.encode(text).input_ids) for text in (ours, theirs)]
        line = subject.facts.json[0].line
        yield RULE.finding(
            f"jinja2's own tojson writes {added} characters as \\uXXXX that this one writes as they are: "
            f"{counts[1]} tokens instead of {counts[0]}",
            {"line": line, "path": next((path for path in subject.rows_of if path.startswith("tools")), None)},
        )


RULE = Rule(
    id="tojson-escapes",
    topic="tool-schema",
    severity=Severity.WARNING,
    title="a program with jinja2's own tojson would escape what is written here as it is",
    why="non-ASCII text, <, >, & and ' become \\uXXXX: more tokens, and text that the model was not trained on",
    remedy="in other programs, override tojson with json.dumps(..., ensure_ascii=False) as transformers does",
    check=check,
)
