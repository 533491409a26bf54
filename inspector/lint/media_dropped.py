"""A media item without a placeholder."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.traced:
        return
    for index, message in enumerate(subject.messages):
        parts = message.get("content")
        for at, part in enumerate(parts if isinstance(parts, list) else []):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in MEDIA and not subject.gone(f"messages[{index}]") and not _is_there(subject, index, at):
                yield RULE.finding(
                    f"the {kind} part is not in the prompt", {"path": f"messages[{index}].content[{at}]"}
                )


MEDIA = ("image", "image_url", "video", "video_url", "audio", "input_image", "input_audio")


def _is_there(subject: Subject, index: int, at: int) -> bool:
    """The part left bytes, or a run without it leaves other bytes: a placeholder is the template's own text."""
    if subject.covered(f"messages[{index}].content[{at}]"):
        return True
    messages = subject.probes.messages()
    parts = [part for place, part in enumerate(messages[index]["content"]) if place != at]
    edited = [*messages[:index], {**messages[index], "content": parts}, *messages[index + 1 :]]
    without = subject.probes.outcome(f"without messages[{index}].content[{at}]", messages=edited)
    return without.rendered is None or without.text != subject.probes.as_given().text


RULE = Rule(
    id="media-dropped",
    topic="multimodal",
    severity=Severity.ERROR,
    title="an image, video or audio part leaves no placeholder in the prompt",
    why="the processor has a picture and no place for it: it fails, or the model never looks",
    remedy="use the template of the multimodal model; check the type of the part (image, image_url, …)",
    check=check,
)
