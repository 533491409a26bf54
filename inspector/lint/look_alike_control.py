"""Text that looks like a control token and is none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import TEMPLATE_KINDS, Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.traced:
        return
    marked: dict[str, int] = {}
    tokens = np.array(subject.flagged(TokenFlag.LOOK_ALIKE), np.int64)
    if not len(tokens):
        return
    for run in np.split(tokens, np.flatnonzero(np.diff(tokens) != 1) + 1):
        # A mark that the template begins and a role completes is the template's own (control-token-assembled).
        if len(run) and subject.token_kinds[run[0]] not in TEMPLATE_KINDS:
            marked.setdefault(subject.path_at(int(run[0])) or "content", int(run[0]))
    for path, index in marked.items():
        start = int(encoding.start[index])
        near = subject.utf8[start : start + 40].decode("utf-8", "ignore")
        yield RULE.finding(f"{path} spells a control token as text: {shown(near, 40)}", subject.where_token(index))


RULE = Rule(
    id="look-alike-control",
    topic="injection",
    severity=Severity.NOTE,
    title="content spells a control token that this tokenizer does not take for one",
    why="another tokenizer, an NFKC normalizer or a reader may take it for one",
    remedy="nothing, if the text is quoted on purpose; else remove it",
    check=check,
    live=True,
    needs=Need.LOOK_ALIKE,
)
