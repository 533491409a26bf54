"""A token across the border of prompt and answer."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if encoding is None or encoding.rendered.kind != "bytes" or not encoding.rendered.assistant_spans:
        return
    begins = [begin for begin, _end in encoding.rendered.assistant_spans]
    for begin, index in zip(begins, encoding.end.searchsorted(begins, side="right").tolist()):
        if index < len(encoding) and int(encoding.start[index]) < begin < int(encoding.end[index]):
            if ".tool_calls" in (subject.field_at(begin) or ""):
                continue  # a call that is named in the header: the answer has no border of its own there
            piece = encoding.tokenizer.piece(int(encoding.input_ids[index]))
            yield RULE.finding(
                f"{shown(piece)} holds the last {begin - int(encoding.start[index])} bytes of the prompt and the first "
                f"{int(encoding.end[index]) - begin} of the answer",
                subject.where_token(index),
            )


RULE = Rule(
    id="boundary-token",
    topic="generation-prompt",
    severity=Severity.WARNING,
    title="a token lies across the border of prompt and answer",
    why="prompt and completion encoded apart give other ids than the whole text: masks and prefix caches are off by one",
    remedy="encode the whole text once and cut it by spans; end prompts at a control token or a line feed",
    check=check,
    live=True,
)
