"""Special ids that the model's files and the tokenizer state differently."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    tokenizer = subject.tokenizer
    if tokenizer is None:
        return
    for file, table in (
        ("config.json", subject.evidence.config),
        ("generation_config.json", subject.evidence.generation_config),
    ):
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            value = table.get(key)
            ids = [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]
            beyond = [item for item in ids if item >= tokenizer.size]
            ours = subject.special_id(key.removesuffix("_id"))
            if beyond:
                yield RULE.finding(
                    f"{file} has {key} {beyond[0]}, the tokenizer has ids below {tokenizer.size}",
                    severity=Severity.ERROR,
                )
            elif ids and ours is not None and ours not in ids:
                pieces = ", ".join(f"{tokenizer.piece(item)} ({item})" for item in ids)
                yield RULE.finding(f"{file} has {key} {pieces}, the tokenizer {tokenizer.piece(ours)} ({ours})")


RULE = Rule(
    id="config-ids-differ",
    topic="vocabulary",
    severity=Severity.WARNING,
    title="the model's files name other begin, end or padding ids than the tokenizer",
    why="the library warns or silently follows one of them: generation begins and stops at other tokens than chats do",
    remedy="write the tokenizer's ids into config.json and generation_config.json",
    check=check,
)
