"""A cut that takes the generation prompt away."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.options.add_generation_prompt:
        return
    uncut, sent = subject.uncut, subject.evidence.sent.own("input_ids")
    if uncut is not None and uncut.rendered.generation_prompt is not None:
        prompt = uncut.rendered.utf8[uncut.rendered.generation_prompt[0] :]
        if not subject.utf8.endswith(prompt):
            text = shown(prompt.decode("utf-8", "ignore"))
            yield RULE.finding(
                f"the cut at token level takes the generation prompt {text} away",
                {"token": max(len(subject.ids) - 1, 0)},
            )
    if (
        sent is not None
        and len(sent) < len(subject.ids)
        and sent == subject.ids[: len(sent)]
        and subject.encoding is not None
    ):
        lost = subject.encoding.tokenizer.decode(subject.ids[len(sent) :]).decode("utf-8", "ignore")
        yield RULE.finding(
            f"what was sent ends {len(subject.ids) - len(sent)} tokens early: {shown(lost)} is lost",
            {"token": len(sent)},
        )


RULE = Rule(
    id="prompt-cut",
    topic="truncation",
    severity=Severity.ERROR,
    title="the end of the prompt was cut off",
    why="without turn end and generation prompt the model goes on with the user's text",
    remedy="truncate messages before rendering, never the rendered prompt; truncation_side has no right value here",
    check=check,
)
