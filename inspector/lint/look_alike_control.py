"""Text that looks like a control token and is none."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import (
    TEMPLATE_KINDS,
    Subject,
)


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.traced:
        return
    marked: dict[str, int] = {}
    for index in subject.flagged(TokenFlag.LOOK_ALIKE):
        path = subject.path_at(index)
        if path is not None and subject.token_kinds[index] not in TEMPLATE_KINDS:
            marked.setdefault(path, index)
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
)
