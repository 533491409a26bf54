"""Text that a tiktoken encoder refuses."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.encoding is None or not hasattr(subject.tokenizer, "encode_ordinary"):
        return
    for path, tokens in subject.forged.items():
        encoding = subject.encoding
        pieces = dict.fromkeys(encoding.tokenizer.piece(int(encoding.input_ids[index])) for index in tokens)
        yield RULE.finding(
            f"{path} mentions {' '.join(pieces)}: encode() raises; with allowed_special it is {len(encoding)} tokens with "
            f"{len(tokens)} control; as text (encode_ordinary) it is {len(encoding.safe_input_ids)}",
            subject.where_token(tokens[0]),
        )


RULE = Rule(
    id="special-text-refused",
    topic="injection",
    severity=Severity.WARNING,
    title="text mentions a special token, which tiktoken's encode() refuses by default",
    why="a counter crashes on a text about tokens; with allowed_special it forges one",
    remedy="choose: disallowed_special=() encodes it as text, which is right for content",
    check=check,
)
