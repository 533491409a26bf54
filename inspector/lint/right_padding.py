"""Padding behind the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    masks = subject.evidence.sent.attention_mask
    for row, mask in enumerate(masks or ()):
        if 1 in mask and mask[-1] == 0:
            last = max(at for at, kept in enumerate(mask) if kept)
            yield RULE.finding(
                f"row {row} is padded behind its {sum(mask)} tokens: logits[:, -1] are of padding, the last token is at {last}",
                {"token": last},
            )
    side = subject.evidence.tokenizer_config.get("padding_side")
    if masks is None and side == "right" and subject.options.add_generation_prompt:
        yield RULE.finding(
            "tokenizer_config.json sets padding_side to right: batches for generation are padded behind the prompt",
            severity=Severity.NOTE,
        )


RULE = Rule(
    id="right-padding",
    topic="batching",
    severity=Severity.ERROR,
    title="a prompt for generation is padded on the right",
    why="the last position is padding: its logits, and all that is generated, belong to no prompt",
    remedy='padding_side="left" for generation, or read the logits at the last position that the mask keeps',
    check=check,
)
