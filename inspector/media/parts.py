"""The media parts of a request's messages, in order, with their places and the bytes they bring along.

Bytes come only from the request itself, as a base64 data URL or a base64 field. A URL or a path is a place, not a
content: it identifies nothing, and nothing is fetched or opened here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from inspector.errors import ErrorKind, InspectorError

IMAGE_TYPES = ("image", "image_url", "input_image")
OTHER_TYPES = ("video", "video_url", "audio", "input_audio", "audio_url", "input_video")

_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class MediaPart:
    """One media part. `path`: the part itself; `place`: where its bytes, or what it says in their stead, are.

    `source`: "data" (bytes in the request), "url", "path", or "none" (a bare part, as templates take). `size`: what the
    part says of its own (width, height), which nobody has measured.
    """

    path: str
    message: int
    kind: str  # "image" | "video" | "audio"
    source: str
    place: str
    text: str = field(repr=False)
    size: tuple[int, int] | None = None

    def read(self) -> tuple[bytes, str]:
        """Decode the bytes; give them with the media type that the part declares ("" for none).

        Errors: MediaInvalid where they are no strict base64.
        """
        found = _DATA_URL.match(self.text)
        if found and "base64" not in found[2].lower().split(";"):
            raise _invalid(self.place, "the data URL is not base64", "write data:image/png;base64,...")
        body = self.text[found.end() :] if found else self.text
        try:
            return base64.b64decode("".join(body.split()), validate=True), found[1].lower() if found else ""
        except (binascii.Error, ValueError) as error:
            raise _invalid(self.place, f"the data is no base64: {error}", "encode the whole file again") from None


def media_parts(messages: Sequence[dict[str, Any]], indexes: Sequence[int]) -> list[MediaPart]:
    """List the media parts of messages, in order; `indexes` are the messages' places in the request as given."""
    return [part for message, index in zip(messages, indexes, strict=True) for part in _parts(message, index)]


def _parts(message: dict[str, Any], index: int) -> Iterator[MediaPart]:
    content = message.get("content")
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in IMAGE_TYPES or kind in OTHER_TYPES:
            yield _part(part, f"messages[{index}].content[{place}]", index, str(kind))


def _part(part: dict[str, Any], path: str, message: int, kind: str) -> MediaPart:
    name = next((name for name in ("image", "video", "audio") if name in kind), "image")
    field, text, source = _place(part, path)
    return MediaPart(path, message, name, source, field, text, _said_size(part))


def _place(part: dict[str, Any], path: str) -> tuple[str, str, str]:
    """Give the field that says what the picture is, its text, and what kind of thing it is."""
    for name in ("image_url", "image", "url", "path", "base64", "source", "data"):
        value, field = part.get(name), f"{path}.{name}"
        if isinstance(value, dict):
            inner = next((key for key in ("url", "data") if isinstance(value.get(key), str)), None)
            if inner is None:
                continue
            field, value, name = f"{field}.{inner}", value[inner], inner
        if isinstance(value, str) and value:
            text = str.__str__(value)
            return field, text, _source(name, text)
    return path, "", "none"


def _source(name: str, text: str) -> str:
    if _DATA_URL.match(text) or name in ("base64", "data"):
        return "data"
    return "path" if name == "path" or text.lower().startswith("file:") or not _URL.match(text) else "url"


def _said_size(part: dict[str, Any]) -> tuple[int, int] | None:
    sides = part.get("width"), part.get("height")
    if all(isinstance(side, int) and not isinstance(side, bool) and 0 < side <= 1_000_000 for side in sides):
        return int(sides[0]), int(sides[1])  # type: ignore[arg-type]
    return None


def _invalid(path: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.MediaInvalid, message, stage="media", where={"path": path}, remedy=remedy)
