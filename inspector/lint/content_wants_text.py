"""A template that reads strings, and content that is a list of parts."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, text_of
from inspector.provenance import plain


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.refused:
        return
    given = [at for at, message in enumerate(subject.messages) if isinstance(message.get("content"), list)]
    changed = [
        {**message, "content": text_of(plain(message["content"]))} if at in given else message
        for at, message in enumerate(subject.probes.messages())
    ]
    if given and subject.probes.outcome("content as text", messages=changed).rendered is not None:
        error = subject.error
        yield RULE.finding(
            f"content is a list of parts, this template reads a string: {error.message}",  # type: ignore[union-attr]
            {"path": f"messages[{given[0]}].content", "line": error.where.get("line")},  # type: ignore[union-attr]
        )


RULE = Rule(
    id="content-wants-text",
    topic="multimodal",
    severity=Severity.ERROR,
    title="the template reads content as a string only, and it is a list of parts",
    why="clients of the OpenAI API that always send parts fail",
    remedy="join the text parts before rendering (profile vllm does)",
    check=check,
)
