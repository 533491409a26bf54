"""A cut that takes the beginning away."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject, text_of


def check(subject: Subject) -> Iterator[Finding]:
    uncut, sent = subject.uncut, subject.evidence.sent.own("input_ids")
    if uncut is not None and subject.ids and subject.ids[:1] != tuple(uncut.input_ids[:1].tolist()):
        yield _finding(subject, uncut.input_ids.tolist(), len(uncut) - len(subject.ids), "the cut at token level")
    if sent is not None and len(sent) < len(subject.ids) and sent == subject.ids[len(subject.ids) - len(sent) :]:
        yield _finding(subject, list(subject.ids), len(subject.ids) - len(sent), "what was sent")


def _finding(subject: Subject, ids: list[int], lost: int, by: str) -> Finding:
    tokenizer = subject.encoding.tokenizer  # type: ignore[union-attr]
    bos = subject.special_id("bos_token")
    text = tokenizer.decode(ids[:lost]).decode("utf-8", "ignore")
    named = ", with BOS" if bos is not None and bos in ids[:lost] else ""
    messages = [
        at
        for at, message in enumerate(subject.messages)
        if text_of(message.get("content")).strip() in text and text_of(message.get("content")).strip()
    ]
    whole = f"; messages {', '.join(map(str, messages))} are gone" if messages else ""
    return RULE.finding(f"{by} loses the first {lost} tokens{named}: {shown(text)}{whole}", {"token": 0})


RULE = Rule(
    id="start-cut",
    topic="truncation",
    severity=Severity.ERROR,
    title="the beginning of the prompt was cut off",
    why="BOS, the system prompt and the first turn's header are gone, and the prompt begins inside a message",
    remedy="truncate messages before rendering (policy messages), never the rendered prompt",
    check=check,
)
