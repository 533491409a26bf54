"""More tokens than the model's window."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    length = 0 if subject.encoding is None else len(subject.encoding)
    if subject.tokenizer is None or not length:
        return
    stated = subject.evidence.config.get("max_position_embeddings")
    named = (("model_max_length", subject.tokenizer.model_max_length), ("config.max_position_embeddings", stated))
    for name, window in named:
        if isinstance(window, int) and not isinstance(window, bool) and 0 < window < length:
            yield RULE.finding(f"the prompt has {length} tokens, {name} is {window}", {"token": window})
            return


RULE = Rule(
    id="over-window",
    topic="truncation",
    severity=Severity.ERROR,
    title="the prompt is longer than the model's window",
    why="it is cut somewhere, or positions are beyond what the model was trained on",
    remedy="set --context-window and --max-new-tokens, and choose what gives way",
    check=check,
    live=True,
)
