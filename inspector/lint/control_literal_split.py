"""A control string of the template that is no token."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from inspector.encode import Encoding, TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import TEMPLATE_KINDS, Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.traced:
        return
    found = _literals(subject, encoding)
    if found:
        first = min(found.values(), key=lambda match: match.start())
        listed = ", ".join(_described(encoding, match) for match in list(found.values())[:LISTED])
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        index = int(np.searchsorted(encoding.end, first.start(), side="right"))
        yield RULE.finding(
            f"{len(found)} of the template's control strings are ordinary text here: {listed}{more}",
            {**subject.where_token(index), "line": subject.line_at(first.start())},
        )


LISTED = 4


def _literals(subject: Subject, encoding: Encoding) -> dict[bytes, re.Match[bytes]]:
    """Give the strings that the template wrote, look like control tokens and are none, with their first place."""
    look_alike = (encoding.flags & int(TokenFlag.LOOK_ALIKE)) != 0
    if not look_alike.any():
        return {}
    marked = np.flatnonzero(look_alike & np.isin(subject.token_kinds, TEMPLATE_KINDS))
    found: dict[bytes, re.Match[bytes]] = {}
    for run in np.split(marked, np.flatnonzero(np.diff(marked) != 1) + 1):
        if len(run):
            for match in LITERAL.finditer(subject.utf8, int(encoding.start[run[0]]), int(encoding.end[run[-1]])):
                found.setdefault(match[0], match)
    return found


def _described(encoding: Encoding, match: re.Match[bytes]) -> str:
    tokens = np.flatnonzero((encoding.end > match.start()) & (encoding.start < match.end())).tolist()
    pieces = " ".join(encoding.tokenizer.piece(int(encoding.input_ids[index])) for index in tokens)
    return f"{shown(match[0].decode('utf-8', 'replace'))} is {len(tokens)} tokens ({pieces})"


LITERAL = re.compile(rb"<\|[^<>|\s]{1,64}\|>|<[^<>\s]{1,64}>|\[[A-Z_/]{2,32}\]")

RULE = Rule(
    id="control-literal-split",
    topic="special-tokens",
    severity=Severity.ERROR,
    title="a control string of the template is not in the vocabulary",
    why="it is cut into ordinary pieces: the model sees no turn boundary, and every turn costs more",
    remedy="add it to the tokenizer as a special token (and train its embedding), or use the template of this tokenizer",
    check=check,
    live=True,
    needs=Need.LOOK_ALIKE,
)
