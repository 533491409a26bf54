"""A pre-tokenizer of another family."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    remark = _remark(subject.tokenizer) if subject.tokenizer is not None else None
    if remark:
        yield RULE.finding(remark)


@functools.lru_cache(maxsize=16)
def _remark(tokenizer: Any) -> str | None:
    from inspector.vocabularies import known_pattern, pattern_remark

    named = pattern_remark(tokenizer)
    if named:
        return named
    contents = {token.content for token in tokenizer.added_tokens}
    if {"[INST]", "[/INST]"} <= contents and known_pattern(tokenizer) == "llama3":
        return "the vocabulary has Mistral's control tokens and the pre-tokenizer Llama 3's pattern"
    return None


RULE = Rule(
    id="pretokenizer-pattern",
    topic="token-map",
    severity=Severity.ERROR,
    title="the pre-tokenizer splits text with another family's pattern",
    why="mixed-case words, digits and apostrophes are cut otherwise than in training",
    remedy="take the pattern of the original tokenizer (fix_mistral_regex in transformers)",
    check=check,
)
