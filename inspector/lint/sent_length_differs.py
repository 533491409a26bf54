"""A prompt length that counts something else."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    length = subject.evidence.sent.prompt_length
    if length is None or subject.encoding is None or length == len(subject.ids):
        return
    keys = length <= 3
    hint = (
        ": len() of what apply_chat_template returns in transformers 5 counts the keys of a BatchEncoding"
        if keys
        else ""
    )
    yield RULE.finding(
        f"the program takes the prompt for {length} tokens, it has {len(subject.ids)}{hint}",
        {"token": min(length, len(subject.ids))},
    )


RULE = Rule(
    id="sent-length-differs",
    topic="api-drift",
    severity=Severity.ERROR,
    title="a program takes another number for the prompt's length",
    why="masks and cuts made from it are wrong: the loss covers the prompt, or the answer is cut",
    remedy='pass return_dict=True and use len(result["input_ids"])',
    check=check,
)
