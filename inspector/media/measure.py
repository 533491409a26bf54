"""Measure the images of a request once, and say what their family makes of them: positions, tiles, memory entries.

What rests on a number that nobody measured (a typed number of tokens, a size that the part only states) is an
`estimate`. An image that does not decode has an `error`, and the others are measured all the same.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.media.base import MediaRule, Plan
from inspector.media.decode import ERROR_POLICY, Picture, decode
from inspector.media.families import plan
from inspector.media.parts import MediaPart, media_parts
from inspector.template import Template
from inspector.tokenizers.base import Tokenizer

MAX_ITEMS = 1_000
MAX_POSITIONS = 2_000_000

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_NO_IDENTITY = {
    "url": "a URL is no identity: what it gives can change or expire; nothing was fetched",
    "path": "a path is no identity: it names a file of one machine; nothing was opened",
    "none": "the part brings no bytes: nothing identifies its image",
}


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One media part, measured. `positions`: embeddings of it in the prompt, None where nobody knows; `memory`: entries
    of a cross-attention memory; `text`: what is written for its placeholder, None where it stays as it is."""

    index: int
    part: MediaPart
    declared_type: str = ""
    picture: Picture | None = None
    plan: Plan | None = None
    positions: int | None = None
    memory: int | None = None
    text: str | None = None
    estimate: bool = False
    notes: tuple[str, ...] = ()
    error: InspectorError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give what is known of the item without the prompt."""
        picture = self.picture
        return {
            "index": self.index,
            "path": self.part.path,
            "kind": self.part.kind,
            "source": self.part.source,
            "identity": None if picture is None else _identity(picture),
            "declared_type": self.declared_type or None,
            "decoding": None if picture is None else _decoding(picture),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "positions": self.positions,
            "memory": self.memory,
            "estimate": self.estimate,
            "notes": list(self.notes),
            "error": None if self.error is None else self.error.to_dict(),
        }


def _identity(picture: Picture) -> dict[str, Any]:
    names = ("media_type", "sha256", "width", "height", "orientation")
    return {**{name: getattr(picture, name) for name in names}, "bytes": picture.num_bytes}


def _decoding(picture: Picture) -> dict[str, Any]:
    return {
        "decoder": picture.decoder,
        "error_policy": ERROR_POLICY,
        "size": list(picture.size),
        "turned": picture.orientation != 1,
        "mode": picture.mode,
        "colour": "kept" if picture.mode == "RGB" else f"{picture.mode} to RGB{_lost(picture.mode)}",
        "frames": picture.frames,
    }


def _lost(mode: str) -> str:
    return ", transparency dropped" if mode in ("RGBA", "LA", "PA") else ""


def choose_rule(
    rules: Mapping[str, MediaRule], named: str | None, template: Template | None, tokenizer: Tokenizer
) -> MediaRule | None:
    """Give the rule that is named, or that of the template or of the repository.

    Errors: OptionInvalid for a name that no rule has.
    """
    if named is not None:
        if named not in rules:
            raise InspectorError(
                ErrorKind.OptionInvalid,
                f"there is no image rule {named!r}",
                stage="media",
                where={"option": "--media-rule"},
                remedy=f"one of {', '.join(rules)}",
            )
        return rules[named]
    if template is None:
        return None
    known = [rule for rule in rules.values() if template.id in rule.templates]
    names = _REPOSITORY.findall(f"{template.id} {tokenizer.id}")
    known += [rule for rule in rules.values() for name in names if _matches(name, rule.repositories)]
    return known[0] if known else None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def measure(
    messages: Sequence[dict[str, Any]], rule: MediaRule | None, image_tokens: int | None
) -> tuple[MediaItem, ...]:
    """Measure every media part of a request's messages, in order.

    `image_tokens`: positions of one image as the person typed them; they win over the rule.
    Errors: InputTooLarge for too many of them.
    """
    parts = media_parts(messages, range(len(messages)))
    if len(parts) > MAX_ITEMS:
        raise _too_many(f"{len(parts)} media parts, the limit is {MAX_ITEMS}", parts[MAX_ITEMS].path)
    items = tuple(_item(index, part, rule, image_tokens) for index, part in enumerate(parts))
    total = sum(item.positions or 0 for item in items)
    if total > MAX_POSITIONS:
        raise _too_many(f"the images take {total:,} positions, the limit is {MAX_POSITIONS:,}", parts[0].path)
    return items


def _item(index: int, part: MediaPart, rule: MediaRule | None, image_tokens: int | None) -> MediaItem:
    if part.kind != "image":
        return MediaItem(index, part, notes=(f"no rule here counts {part.kind}",))
    declared, picture, notes = "", None, []
    try:
        if part.source == "data":
            data, declared = part.read()
            picture = decode(data, part.place)
            notes += _remarks(picture, declared)
        else:
            notes.append(_NO_IDENTITY[part.source])
        size = picture.size if picture is not None else part.size
        if picture is None and size is not None:
            notes.append(f"its size, {size[0]} x {size[1]}, is what the part states")
        planned = None if rule is None or size is None else _planned(rule, size, part)
    except InspectorError as error:
        return MediaItem(index, part, declared, picture, notes=tuple(notes), error=error)
    counted = _counted(rule, planned, image_tokens, stated=picture is None)
    notes += counted.pop("notes")
    return MediaItem(index, part, declared, picture, planned, notes=tuple(notes), **counted)


def _planned(rule: MediaRule, size: tuple[int, int], part: MediaPart) -> Plan:
    try:
        return plan(rule, size)
    except InspectorError as error:
        where = {"path": part.path, **error.where}
        raise InspectorError(error.kind, error.message, stage="media", where=where, remedy=error.remedy) from error


def _counted(rule: MediaRule | None, planned: Plan | None, image_tokens: int | None, *, stated: bool) -> dict[str, Any]:
    if image_tokens is not None:
        literal = None if rule is None else rule.placeholder * image_tokens
        note = f"{image_tokens} tokens an image, as typed"
        return {"positions": image_tokens, "text": literal, "estimate": True, "notes": [note]}
    if planned is None:
        why = "no rule is known for this template" if rule is None else "without a size its positions are unknown"
        return {"notes": [f"{why}: it counts as the one placeholder that is written"], "estimate": True}
    memory = {"memory": planned.memory} if planned.memory is not None else {"text": planned.text}
    return {"positions": planned.positions, "estimate": stated, "notes": [], **memory}


def _remarks(picture: Picture, declared: str) -> list[str]:
    notes = []
    if declared and declared.replace("image/jpg", "image/jpeg") != picture.media_type:
        notes.append(f"declared as {declared}, the bytes are {picture.media_type}")
    if picture.orientation != 1:
        notes.append(
            f"EXIF orientation {picture.orientation} is applied, as transformers' load_image does; a Pillow image passed"
            " to a processor is not turned"
        )
    if picture.frames > 1:
        notes.append(f"the first of {picture.frames} frames is taken")
    return notes


def _too_many(message: str, path: str) -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge, message, stage="media", where={"path": path}, remedy="send fewer or smaller images"
    )
