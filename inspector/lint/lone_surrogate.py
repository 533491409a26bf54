"""Half of a surrogate pair."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.errors import ErrorKind
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject, argument_texts


def check(subject: Subject) -> Iterator[Finding]:
    error = subject.error
    if error is not None and error.kind is ErrorKind.UnencodableText:
        yield RULE.finding(error.message, {"path": error.where.get("path"), "line": error.where.get("line")})
    for path, text in argument_texts(subject):
        match = UNPAIRED.search(text)
        if match is not None:
            yield RULE.finding(
                f"the JSON text of the arguments has {match[0]} without its other half at character {match.start()}",
                {"path": path},
            )


UNPAIRED = re.compile(
    r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)

RULE = Rule(
    id="lone-surrogate",
    topic="unicode",
    severity=Severity.ERROR,
    title="text holds half of a surrogate pair, which has no UTF-8 form",
    why="JSON can carry it, tokenizers crash on it, far away from where it came from",
    remedy="send the whole character, or U+FFFD in its place",
    check=check,
    live=True,
    needs=Need.ERROR | Need.CALLS,
)
