"""BOS twice at the start of what is sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    bos = subject.special_id("bos_token")
    if bos is None or subject.encoding is None:
        return
    ours = subject.ids if subject.head == (bos, bos) else None
    for what, ids in (("the input", ours), ("what was sent", subject.evidence.sent.own("input_ids"))):
        if ids is not None and len(ids) > 1 and ids[0] == ids[1] == bos:
            piece = subject.encoding.tokenizer.piece(bos)
            count = sum(1 for _ in itertools.takewhile(lambda item: item == bos, ids))
            yield RULE.finding(f"{what} begins with {count} × {piece} (id {bos})", {"token": 1})


RULE = Rule(
    id="double-bos",
    topic="special-tokens",
    severity=Severity.ERROR,
    title="the ids begin with BOS twice",
    why="models were trained with one; a second one degrades answers without any error",
    remedy="encode rendered text with add_special_tokens=False, or take BOS out of the template",
    check=check,
    live=True,
)
