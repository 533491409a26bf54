"""Text of a message that is missing in the middle of the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    rendered = subject.rendered
    if rendered is None or not subject.traced or subject.options.continue_final_message:
        return
    segments = rendered.segments
    starts, ends, places = segments.start.tolist(), segments.end.tolist(), segments.field_start.tolist()
    for index, message in enumerate(subject.messages):
        path, content = f"messages[{index}].content", message.get("content")
        listed = subject.rows_of.get(path)
        if not listed or not isinstance(content, str) or subject.gone(f"messages[{index}]"):
            continue
        size = len(content) if content.isascii() else len(content.encode("utf-8", "replace"))
        if len(listed) == 1 and places[listed[0]] == 0 and ends[listed[0]] - starts[listed[0]] == size:
            continue  # one copy, of all of it: as it mostly is
        rows = sorted(set(listed))
        copied = [(places[row], ends[row] - starts[row]) for row in rows]
        if min(copied)[0] < 0:
            continue  # rewritten text has no place in the field: nothing can be said
        if copied[0] == (0, size):
            continue  # the first copy is all of it
        lost = _lost(content.encode("utf-8", "replace"), copied)
        if lost.strip():
            yield RULE.finding(
                f"{len(lost)} of {size} bytes are not in the prompt: {shown(lost.decode('utf-8', 'ignore'))}",
                {"path": path, "start": starts[rows[0]], "line": int(segments.line[rows[0]]) or None},
            )


def _lost(content: bytes, copied: list[tuple[int, int]]) -> bytes:
    """Give the bytes of a field that no copy holds, one after the other."""
    kept = bytearray(len(content))
    for start, length in copied:
        kept[start : start + length] = b"\1" * length
    return bytes(byte for byte, there in zip(content, kept) if not there) if 0 in kept else b""


RULE = Rule(
    id="content-cut",
    topic="reasoning-history",
    severity=Severity.WARNING,
    title="part of a message's text is not in the prompt",
    why="the template splits content at marks such as </think>: what is before them is gone from the history",
    remedy="send reasoning in its own field; keep such marks out of text that is meant to be read",
    check=check,
    live=True,
)
