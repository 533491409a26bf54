"""A template that reads parts, and content that is a string."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject, paths_of, written_of


def check(subject: Subject) -> Iterator[Finding]:
    given = [at for at, message in enumerate(subject.messages) if isinstance(message.get("content"), str)]
    lost = [at for at in given if subject.rendered is not None and subject.lost_messages[at] is not None]
    if not given or not (subject.refused or lost):
        return
    changed = [
        {**message, "content": [{"type": "text", "text": message["content"]}]} if at in given else message
        for at, message in enumerate(subject.probes.messages())
    ]
    other = subject.probes.outcome("content as parts", messages=changed)
    if other.rendered is None:
        return
    shown_now = written_of(paths_of(other.rendered))
    helped = [at for at in (lost or given) if f"messages[{at}].content" in shown_now]
    if helped:
        how = (
            subject.error.message
            if subject.refused and subject.error is not None
            else "nothing of the text is in the prompt"
        )
        yield RULE.finding(
            f"content is a string, this template reads a list of parts: {how}",
            {
                "path": f"messages[{helped[0]}].content",
                "line": subject.error.where.get("line") if subject.error is not None else None,
            },
        )


RULE = Rule(
    id="content-wants-parts",
    topic="multimodal",
    severity=Severity.ERROR,
    title="the template reads content as a list of parts only, and it is a string",
    why="the text is silently lost, or the request fails",
    remedy='send [{"type": "text", "text": …}]',
    check=check,
)
