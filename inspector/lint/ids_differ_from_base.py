"""Other ids than the tokenizer that this one should be equal to."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.editscript import first_difference
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    base = subject.evidence.base
    if base is None or base.encoding is None or subject.encoding is None:
        return
    ours, theirs = subject.ids, tuple(base.encoding.input_ids.tolist())
    if ours == theirs:
        return
    index = first_difference(ours, theirs)
    same = base.encoding.rendered.utf8 == subject.utf8 and subject.encoding.rendered.kind == "bytes"
    here, there = (
        " ".join(
            f"{encoding.tokenizer.piece(int(item))} ({int(item)})" for item in encoding.input_ids[index : index + 3]
        )
        for encoding in (subject.encoding, base.encoding)
    )
    what = "the same text" if same else "this request"
    yield RULE.finding(
        f"{what} is {len(ours)} tokens here and {len(theirs)} with {base.encoding.tokenizer.id}; the first other one: "
        f"{here or 'the end'} here, {there or 'the end'} there",
        subject.where_token(index) if index < len(ours) else {},
    )


RULE = Rule(
    id="ids-differ-from-base",
    topic="token-map",
    severity=Severity.ERROR,
    title="this tokenizer gives other ids than the one it should be equal to",
    why="the model reads other tokens than it was trained on, with no error anywhere",
    remedy="use the original files; look at what tokenizer-differs-from-base lists",
    check=check,
)
