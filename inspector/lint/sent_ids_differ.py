"""Ids of another program that are not ours."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.editscript import first_difference
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, is_part


def check(subject: Subject) -> Iterator[Finding]:
    sent, ours = subject.evidence.sent.own("input_ids"), subject.ids
    if sent is None or subject.encoding is None or sent == ours or is_part(sent, ours):
        return
    tokenizer = subject.encoding.tokenizer
    index = first_difference(sent, ours)
    beyond = [item for item in sent if not 0 <= item < tokenizer.size]
    if beyond:
        yield RULE.finding(f"the program sent the id {beyond[0]}, the tokenizer has ids below {tokenizer.size}")
        return
    same_text = tokenizer.decode(sent) == tokenizer.decode(ours)
    here, there = (" ".join(tokenizer.piece(item) for item in ids[index : index + 3]) for ids in (ours, sent))
    what = "spell the same text but are cut otherwise (encoded in pieces?)" if same_text else "spell another text"
    yield RULE.finding(
        f"the {len(sent)} ids that were sent {what}: at token {index} {there or 'the end'} ({sent[index] if index < len(sent) else '-'}), "
        f"here {here or 'the end'} ({ours[index] if index < len(ours) else '-'})",
        subject.where_token(index) if index < len(ours) else {},
    )


RULE = Rule(
    id="sent-ids-differ",
    topic="token-map",
    severity=Severity.ERROR,
    title="the ids that a program sent are not those of this prompt",
    why="text encoded in pieces, with another tokenizer or another flag, gives other tokens than the model was trained on",
    remedy="encode the whole rendered text once, with add_special_tokens=False",
    check=check,
)
