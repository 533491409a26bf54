"""Content parts printed as a Python list."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced:
        return
    for index, message in enumerate(subject.messages):
        if not isinstance(message.get("content"), list):
            continue
        for at, _part in enumerate(message["content"]):
            path = f"messages[{index}].content[{at}].type"
            spans = [(start, end) for start, end in subject.spans(path) if subject.utf8[:end].endswith((b"type", b"'"))
                     or b"'type'" in subject.utf8[max(start - 10, 0) : end + 10]]  # fmt: skip
            if spans:
                start, end = spans[0]
                near = subject.utf8[max(start - 12, 0) : end + 28].decode("utf-8", "ignore")
                yield RULE.finding(
                    f"the list of parts is printed as Python prints it: {shown(near)}",
                    {"path": f"messages[{index}].content", "start": start, "end": end, "line": subject.line_at(start)},
                )
                break


RULE = Rule(
    id="parts-printed",
    topic="multimodal",
    severity=Severity.ERROR,
    title="a list of content parts is printed as a Python list",
    why="the template reads text only: the model sees [{'type': 'text', …",
    remedy="send the content as a string (profile vllm joins text parts), or use a template that loops over parts",
    check=check,
    live=True,
    needs=Need.PARTS,
)
