"""A tokenizer file that cuts every text by itself."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject
from inspector.tokenizers.file_facts import CutsAndPads


def check(subject: Subject) -> Iterator[Finding]:
    for fact, text in subject.file_remarks:
        if fact != "truncates":
            continue
        carried: CutsAndPads = subject.tokenizer.cuts_and_pads  # type: ignore[union-attr]
        count, longest = len(subject.encoding or ()), carried.longest or 0
        lost = max(count - longest, 0)
        here = f"{lost} of these {count} tokens are dropped" if lost else f"these {count} tokens fit"
        yield RULE.finding(
            f"{text}: where a program follows it, {here}", severity=Severity.WARNING if lost else Severity.NOTE
        )


RULE = Rule(
    id="file-truncates",
    topic="truncation",
    severity=Severity.WARNING,
    title="tokenizer.json carries truncation",
    why="the tokenizers library cuts every text there without a word; transformers does not, nor does this tool",
    remedy="set truncation to null in tokenizer.json, or call no_truncation()",
    check=check,
    live=True,
    needs=Need.REMARKS,
)
