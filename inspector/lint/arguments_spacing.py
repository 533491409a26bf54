"""Arguments that keep the client's white space."""

from __future__ import annotations

import json
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject, argument_texts, json_of


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced or subject.rendered is None:
        return
    for path, text in argument_texts(subject):
        value = json_of(text)
        if value is None or text == json.dumps(value, ensure_ascii=False):
            continue
        spans = subject.spans(path)
        verbatim = b"".join(subject.utf8[start:end] for start, end in spans) == text.encode("utf-8", "replace")
        if verbatim:
            only = " ".join(text.split()).replace(" ", "") == json.dumps(value, ensure_ascii=False).replace(" ", "")
            what = "white space only" if only else "the spelling of strings or numbers"
            yield RULE.finding(
                f"the arguments are printed as the client wrote them; json.dumps would write {what} otherwise: "
                f"{shown(json.dumps(value, ensure_ascii=False))}",
                {"path": path, "start": spans[0][0], "end": spans[-1][1], "line": subject.line_at(spans[0][0])},
            )


RULE = Rule(
    id="arguments-spacing",
    topic="tool-calls",
    severity=Severity.NOTE,
    title="arguments keep the white space of whoever wrote the JSON",
    why="a program that parses and prints them sends other bytes for the same call: caches miss, comparisons differ",
    remedy="send them as json.dumps writes them, or as an object",
    check=check,
    live=True,
    needs=Need.CALLS,
)
