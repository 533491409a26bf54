"""Encoding the rendered text again would put BOS twice."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    bos = subject.special_id("bos_token")
    if bos is None or subject.encoding is None or bos not in subject.adds[0]:
        return
    if subject.head[:1] == (bos,):
        piece = subject.encoding.tokenizer.piece(bos)
        line = subject.line_at(0)
        message = (
            f"the template writes {piece} and the tokenizer adds it to every text: tokenizer(rendered) begins with 2, "
            "apply_chat_template(tokenize=True) with 1"
        )
        yield RULE.finding(message, {"token": 0, "line": line})


RULE = Rule(
    id="bos-added-again",
    topic="special-tokens",
    severity=Severity.NOTE,
    title="the template writes BOS and the tokenizer adds it too",
    why="programs that render first and tokenize then send BOS twice",
    remedy="pass add_special_tokens=False when rendered text is encoded, or call apply_chat_template(tokenize=True)",
    check=check,
    live=True,
)
