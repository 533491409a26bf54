"""A Python object in the prompt: a function, class or generator where text was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject
from inspector.provenance import SegmentKind

_MOST = 5
_OBJECT = re.compile(
    rb"<(?:(?:function|class|module|bound method|built-in (?:method|function)) [^<>\n]{0,120}(?:<[^<>\n]{0,60}>[^<>\n]{0,120})*"
    rb"|[\w.]{1,120} (?:object )?[^<>\n]{0,120}at 0x[0-9a-f]{6,16}|TemplateReference None)>"
)
# One of these is in every match, and each is found far sooner than a match.
_MARKS = (
    b"at 0x",
    b"<function ",
    b"<class ",
    b"<module ",
    b"<bound method ",
    b"<built-in ",
    b"<TemplateReference None>",
)
_GIVEN = (SegmentKind.MESSAGE, SegmentKind.TOOL, SegmentKind.DOCUMENT, SegmentKind.KWARG)


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None or subject.rendered.kind != "bytes":
        return
    if not any(mark in subject.utf8 for mark in _MARKS):
        return
    found = (each for each in _OBJECT.finditer(subject.utf8) if subject.kind_at(each.start()) not in _GIVEN)
    for count, each in enumerate(found):
        if count == _MOST:
            return
        start, end = each.span()
        where = {"start": start, "end": end, "line": subject.line_at(start)}
        yield RULE.finding(f"prints {shown(each[0].decode('utf-8', 'replace'), 100)}", where)


RULE = Rule(
    id="python-object-printed",
    topic="template-engine",
    severity=Severity.ERROR,
    title="a Python object is printed instead of a text",
    why="the model reads the name of a function or class; its address differs in every process and is shown as zeros",
    remedy="call the function, or print the field that was meant: message['items'] where message.items is a method",
    check=check,
    live=True,
)
