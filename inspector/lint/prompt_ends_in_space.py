"""A prompt that ends with a blank."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or not len(encoding) or encoding.rendered.kind != "bytes":
        return
    last = len(encoding) - 1
    blank = encoding.tokenizer.token_bytes(int(encoding.input_ids[last]))
    if blank and not blank.strip(b" \t") and subject.utf8[-1:] in (b" ", b"\t") and _is_prompt(subject):
        yield RULE.finding(
            f"the last token is {len(blank)} blank{'s' * (len(blank) > 1)} alone ({encoding.tokenizer.piece(int(encoding.input_ids[last]))})",
            {**subject.where_token(last), "line": subject.line_at(len(subject.utf8) - 1)},
        )


def _is_prompt(subject: Subject) -> bool:
    """The text is to be continued: a generation prompt, a message to continue, or no answer yet."""
    options = subject.options
    if options.continue_final_message or options.add_generation_prompt:
        return True
    return not subject.messages or subject.messages[-1].get("role") != "assistant"


RULE = Rule(
    id="prompt-ends-in-space",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="the prompt ends with a blank of its own",
    why="vocabularies put the blank in front of the next word: after a lone one, likely words are out of reach",
    remedy="end the prompt before the blank",
    check=check,
    live=True,
)
