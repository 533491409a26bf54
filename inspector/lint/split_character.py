"""Characters that lie in several tokens."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.encode import TokenFlag
from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.any_flag & int(TokenFlag.PARTIAL_CHAR):
        return
    tokens = (encoding.flags & int(TokenFlag.PARTIAL_CHAR)).nonzero()[0]
    index = int(tokens[0])
    end = int(encoding.end[index])
    start = end if end < len(subject.utf8) and subject.utf8[end] & 0xC0 == 0x80 else int(encoding.start[index])
    while start and subject.utf8[start] & 0xC0 == 0x80:
        start -= 1
    char = subject.utf8[start : start + 4].decode("utf-8", "ignore")[:1]
    held = (encoding.start[tokens] < start + len(char.encode())) & (encoding.end[tokens] > start)
    yield RULE.finding(
        f"{len(tokens)} tokens hold part of a character; the first is {shown(char)} (bytes {char.encode().hex(' ')}) in {held.sum()} tokens",
        subject.where_token(index),
    )


RULE = Rule(
    id="split-character",
    topic="unicode",
    severity=Severity.NOTE,
    title="a character lies in several tokens",
    why="decoding token by token shows U+FFFD; slicing by character offsets repeats or loses text",
    remedy="decode incrementally (python -m inspector decode), cut by byte spans",
    check=check,
    live=True,
    needs=Need.PARTIAL,
)
