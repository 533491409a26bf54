"""A placeholder that will become many."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.control import is_placeholder, placeholders
from inspector.encode import CONTROL
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not any(isinstance(message.get("content"), list) for message in subject.messages):
        return
    counted = placeholders(subject.inspection)
    if counted.media and counted.by_template == counted.media:
        yield RULE.finding(
            f"{counted.media} media item{'s' * (counted.media > 1)} count as {counted.by_template} token"
            f"{'s' * (counted.by_template > 1)} here; the processor writes {_known(subject)}",
            {"token": next((index for index in subject.flagged(CONTROL) if _is_placeholder(subject, index)), None)},
        )


def _known(subject: Subject) -> str:
    """Say how many positions the images take, where their rule and sizes are known."""
    media = subject.inspection.media
    numbers = [] if media is None else [item.positions for item in media.media.items]
    if None in numbers or not any(numbers):
        return "as many as the picture's size asks for"
    return " + ".join(map(str, numbers)) + " for their sizes"


def _is_placeholder(subject: Subject, index: int) -> bool:
    encoding = subject.encoding
    piece = encoding.tokenizer.piece(int(encoding.input_ids[index])) if encoding is not None else ""
    return is_placeholder(piece)


RULE = Rule(
    id="placeholder-unexpanded",
    topic="multimodal",
    severity=Severity.NOTE,
    title="the template writes one placeholder an image, the processor makes many of it",
    why="counts and budgets from the template alone are far too low",
    remedy="count with --media expanded, or add the processor's number of tokens an image",
    check=check,
)
