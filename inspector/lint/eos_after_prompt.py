"""EOS after the generation prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    eos = subject.special_id("eos_token")
    if eos is None or subject.encoding is None or not subject.options.add_generation_prompt:
        return
    piece = subject.encoding.tokenizer.piece(eos)
    sent = subject.evidence.sent.own("input_ids")
    if subject.ids[-1:] == (eos,) and subject.rendered is not None and subject.rendered.generation_prompt:
        yield RULE.finding(
            f"the prompt ends with {piece} (id {eos})",
            subject.where_token(len(subject.ids) - 1),
            severity=Severity.ERROR,
        )
    elif sent is not None and sent[-1:] == (eos,):
        message = f"what was sent ends with {piece} (id {eos})"
        yield RULE.finding(message, {"token": len(sent) - 1}, severity=Severity.ERROR)
    elif eos in subject.adds[1]:
        message = f"tokenizer(rendered) appends {piece} after the generation prompt; apply_chat_template does not"
        yield RULE.finding(message, {"token": len(subject.ids) - 1})


RULE = Rule(
    id="eos-after-prompt",
    topic="special-tokens",
    severity=Severity.WARNING,
    title="an end mark stands, or would be put, after the generation prompt",
    why="the model is asked to go on after an end: it stops at once or begins something else",
    remedy="encode rendered text with add_special_tokens=False; switch add_eos_token off for inference",
    check=check,
    live=True,
    needs=Need.ASKS,
)
