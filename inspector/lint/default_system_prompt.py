"""A system prompt that nobody sent."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not subject.traced or not subject.messages or subject.tools:
        return
    if any(message.get("role") in ("system", "developer") for message in subject.messages):
        return
    head = subject.utf8[: subject.first_content].decode("utf-8", "ignore")
    if _count_words(head) >= FEWEST_WORDS:
        tokens = int(np.searchsorted(encoding.end, subject.first_content, side="right"))
        yield RULE.finding(
            f"no system message was sent; the template begins with {tokens} tokens of its own: {shown(head.strip(), 100)}",
            {"start": 0, "end": subject.first_content, "line": subject.line_at(0)},
        )


@functools.lru_cache(maxsize=64)
def _count_words(head: str) -> int:
    return sum(word.lower() not in ROLES for word in WORD.findall(MARKUP.sub(" ", head)))


FEWEST_WORDS = 4  # "### Instruction:" and "Human:" are marks, "You are a helpful assistant" is a prompt
MARKUP = re.compile(r"<[^<>]{1,64}>|\[/?[A-Z_]+\]")
WORD = re.compile(r"[^\W\d_]{2,}")
ROLES = frozenset("system user assistant human model developer tool instruction response input start end".split())

RULE = Rule(
    id="default-system-prompt",
    topic="roles",
    severity=Severity.WARNING,
    title="the template puts in a system prompt that nobody sent",
    why="it steers the answers, costs tokens, and other runtimes put in another one or none",
    remedy="send a system message of your own, if only an empty one; check what the template then writes",
    check=check,
    live=True,
)
