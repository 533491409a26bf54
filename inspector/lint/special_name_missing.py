"""A special token that the template reads by a name that nobody passes."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if subject.tokenizer is None:
        return
    passed = {**subject.tokenizer.special_tokens, **subject.arguments}
    for name in sorted(subject.facts.names):
        if name not in NAMES or name in passed:
            continue
        failed = subject.refused and name in (subject.error.message if subject.error is not None else "")
        had = ", ".join(subject.tokenizer.special_tokens) or "none"
        tail = "rendering fails" if failed else "it is printed as nothing"
        yield RULE.finding(
            f"{name} is not passed ({had} are): {tail}",
            {"line": subject.error.where.get("line") if failed and subject.error is not None else None},
            severity=Severity.ERROR if failed else Severity.NOTE,
        )


NAMES = frozenset(f"{kind}_token" for kind in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")) | {
    "additional_special_tokens"
}

RULE = Rule(
    id="special-name-missing",
    topic="api-drift",
    severity=Severity.NOTE,
    title="the template reads a special token by a name that is not passed to it",
    why="additional_special_tokens is passed no more since transformers 5; a token that is missing leaves a mark out",
    remedy="write the token's text into the template, or name it in tokenizer_config.json",
    check=check,
    live=True,
)
