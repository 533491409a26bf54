"""A tokenizer that adds BOS, a chat template that does not."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    bos = subject.special_id("bos_token")
    if bos is None or subject.encoding is None or bos not in subject.adds[0] or not subject.head:
        return
    if bos not in subject.head:
        piece = subject.encoding.tokenizer.piece(bos)
        message = (
            f"apply_chat_template(tokenize=True) begins without {piece}, tokenizer(rendered) with it: "
            "the two ways of encoding this prompt disagree"
        )
        yield RULE.finding(message, {"token": 0})


RULE = Rule(
    id="bos-missing",
    topic="special-tokens",
    severity=Severity.WARNING,
    title="the tokenizer adds BOS to every text, the chat template leaves it out",
    why="apply_chat_template adds no special tokens: the model gets a prompt without the BOS it was trained with",
    remedy="begin the template with {{ bos_token }}, or make sure that the model was trained without BOS in chats",
    check=check,
    live=True,
)
