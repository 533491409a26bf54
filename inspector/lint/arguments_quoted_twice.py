"""Arguments that are JSON inside a JSON string."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, argument_texts, json_of


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced or subject.rendered is None:
        return
    segments = subject.rendered.segments
    for path, text in argument_texts(subject):
        if json_of(text) is None:
            continue
        for row in subject.rows_of.get(path, ()):
            start, end = int(segments.start[row]), int(segments.end[row])
            if segments.field_start[row] < 0 and b'\\"' in subject.utf8[start:end]:
                yield RULE.finding(
                    "the arguments are a string of JSON that the template quotes once more: "
                    f"{shown(subject.utf8[max(start - 10, 0) : end + 20].decode('utf-8', 'ignore'))}",
                    {"path": path, "start": start, "end": end, "line": int(segments.line[row]) or None},
                )
                break


RULE = Rule(
    id="arguments-quoted-twice",
    topic="tool-calls",
    severity=Severity.ERROR,
    title="tool-call arguments are quoted and escaped a second time",
    why="the model sees a string where it was trained on an object, and answers with strings",
    remedy="parse arguments into an object before rendering (profile vllm does), or test `arguments is string` in the template",
    check=check,
    live=True,
    needs=Need.CALLS,
)
