"""A prompt that is no prefix of the chat with its answer."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, common_bytes, excerpt, line_of
from inspector.provenance import trace


def check(subject: Subject) -> Iterator[Finding]:
    messages = subject.probes.messages()
    if not messages or subject.rendered is None or subject.options.continue_final_message:
        return
    if messages[-1].get("role") == "assistant":
        upto = len(messages) - 1
        answered = subject.whole()
    else:
        upto = len(messages)
        answer = trace({"role": "assistant", "content": "At noon."}, f"messages[{upto}]")
        answered = subject.probes.outcome("with an answer", messages=[*messages, answer], prompt=False)
    prompt = subject.turn(upto) if upto else None
    if prompt is None or prompt.rendered is None or answered.rendered is None:
        return
    before, after = prompt.rendered.utf8, answered.rendered.utf8
    shared = common_bytes(before, after)
    if shared < len(before):
        yield RULE.finding(
            f"the prompt goes on with {shown(excerpt(before, shared))} where the chat with its answer has "
            f"{shown(excerpt(after, shared))}",
            {"start": shared, "end": len(before), "line": line_of(prompt.rendered, shared)},
        )


RULE = Rule(
    id="prompt-not-prefix",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="the prompt is no prefix of the same chat with the answer",
    why="masks computed from the prompt's length are shifted, and the cache of the prompt is lost on the next turn",
    remedy="let the template write the same header before an answer as add_generation_prompt does",
    check=check,
)
