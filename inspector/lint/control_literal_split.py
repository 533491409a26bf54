"""A control string of the template that is no token."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from inspector.encode import Encoding, TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import TEMPLATE_KINDS, Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.traced:
        return
    marked = np.flatnonzero(
        ((encoding.flags & TokenFlag.LOOK_ALIKE) != 0) & np.isin(subject.token_kinds, TEMPLATE_KINDS)
    )
    seen: set[bytes] = set()
    for run in np.split(marked, np.flatnonzero(np.diff(marked) != 1) + 1):
        if not len(run):
            continue
        first = int(encoding.start[run[0]])
        for match in LITERAL.finditer(subject.utf8, first, int(encoding.end[run[-1]])):
            if match[0] not in seen:
                seen.add(match[0])
                yield _finding(subject, encoding, match)


def _finding(subject: Subject, encoding: Encoding, match: re.Match[bytes]) -> Finding:
    tokens = np.flatnonzero((encoding.end > match.start()) & (encoding.start < match.end())).tolist()
    pieces = " ".join(encoding.tokenizer.piece(int(encoding.input_ids[index])) for index in tokens)
    message = f"{shown(match[0].decode('utf-8', 'replace'))} is {len(tokens)} ordinary tokens here: {pieces}"
    return RULE.finding(message, {**subject.where_token(tokens[0]), "line": subject.line_at(match.start())})


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
)
