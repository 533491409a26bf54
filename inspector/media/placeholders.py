"""Find the placeholders of a rendered prompt, and bind them in order to the images of its messages.

A placeholder is the family's literal where the template wrote all of its bytes. The same literal typed into a message
is text that looks like one: it is listed with its field and bound to nothing. Programs that count literals alone give
it the next image, which is why the two are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.control import is_placeholder
from inspector.encode import CONTENT_KINDS
from inspector.errors import ErrorKind, InspectorError
from inspector.media.parts import MediaPart
from inspector.provenance import SegmentKind
from inspector.render import Rendered
from inspector.tokenizers.base import Tokenizer

_CONTENT = frozenset(int(kind) for kind in CONTENT_KINDS)
_MESSAGE = re.compile(r"messages\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One literal of the prompt, or what was written for an image in its stead. Units: `start`, `end` are bytes.

    `by`: "template", "content" (a field wrote a part of it, at `path`), "unknown", or "image" (expanded: `path` is the
    image part). `after`, `before`: messages whose fields stand next to it on either side, None at the ends.
    """

    start: int
    end: int
    by: str
    path: str | None
    line: int | None
    after: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the binding: at which part or field, in words. `stops`: no count that builds on it is right."""

    path: str | None
    what: str
    remedy: str
    stops: bool

    def error(self) -> InspectorError:
        """Give it as the error that stops an expansion."""
        where = {} if self.path is None else {"path": self.path}
        return InspectorError(ErrorKind.MediaMismatch, self.what, stage="media", where=where, remedy=self.remedy)


@dataclass(frozen=True, slots=True)
class Bound:
    """Which placeholder each image has, by path, and what is wrong."""

    of: dict[str, Placeholder]
    problems: tuple[Problem, ...]


def find_placeholders(rendered: Rendered, literal: str) -> list[Placeholder]:
    """List every occurrence of a placeholder's literal, in order; what was expanded is one."""
    needle, utf8 = literal.encode(), rendered.utf8
    found: list[Placeholder] = []
    neighbours = _Neighbours(rendered)
    at = utf8.find(needle) if needle else -1
    while at >= 0:
        found.append(_placeholder(rendered, neighbours, at, at + len(needle)))
        at = utf8.find(needle, found[-1].end)
    return found


def written_literal(rendered: Rendered, tokenizer: Tokenizer) -> str | None:
    """Find the placeholder of a prompt for which no rule names one: the tokenizer's token of such a name that the
    template wrote, the first in the text."""
    names = [token.content for token in tokenizer.added_tokens if is_placeholder(token.content)]
    places = [(place.start, name) for name in names if name in rendered.text
              for place in find_placeholders(rendered, name) if place.by != "content"]  # fmt: skip
    return min(places)[1] if places else None


def _placeholder(rendered: Rendered, neighbours: _Neighbours, start: int, end: int) -> Placeholder:
    segments = rendered.segments
    first = int(np.searchsorted(segments.start, start, side="right")) - 1
    if segments.kind[first] == int(SegmentKind.TEMPLATE) and segments.path[first] >= 0:
        _kind, path, line = segments.origin(first)
        return Placeholder(int(segments.start[first]), int(segments.end[first]), "image", path, line, None, None)
    last = int(np.searchsorted(segments.start, end, side="left"))
    kinds = set(segments.kind[first:last].tolist())
    typed = next((row for row in range(first, last) if int(segments.kind[row]) in _CONTENT), None)
    by = "template" if typed is None else "content"
    if int(SegmentKind.UNKNOWN) in kinds:
        by = "unknown"
    _kind, path, line = segments.origin(first if typed is None else typed)
    after, before = neighbours.at(first, last)
    return Placeholder(start, end, by, path if by == "content" else None, line, after, before)


class _Neighbours:
    """Which message's field stands before and after a segment."""

    def __init__(self, rendered: Rendered) -> None:
        table = rendered.segments
        owner = [_message_of(path) for path in table.paths]
        owners = np.array([*owner, -1], np.int64)[table.path]
        self.rows = np.flatnonzero(owners >= 0)
        self.owners = owners[self.rows]

    def at(self, first: int, last: int) -> tuple[int | None, int | None]:
        left = int(np.searchsorted(self.rows, first, side="left")) - 1
        right = int(np.searchsorted(self.rows, last, side="left"))
        return (
            int(self.owners[left]) if left >= 0 else None,
            int(self.owners[right]) if right < len(self.rows) else None,
        )


def _message_of(path: str) -> int:
    found = _MESSAGE.match(path)
    return int(found[1]) if found else -1


def bind(parts: Sequence[MediaPart], found: Sequence[Placeholder]) -> Bound:
    """Bind images to placeholders in order, and hold number and order to the messages they stand in.

    Where the numbers differ, an image has the first free placeholder of its message, or none.
    """
    images = [part for part in parts if part.kind == "image"]
    written = [place for place in found if place.by in ("template", "unknown")]
    if len(images) == len(written):
        of = {image.path: place for image, place in zip(images, written, strict=True)}
        wrong = [_out_of_order(image, of[image.path]) for image in images if not _near(image, of[image.path])]
    else:
        of = _nearest(images, written)
        wrong = [_unmatched(images, written, of)]
    typed = dict.fromkeys(place.path for place in found if place.by == "content")
    return Bound(of, (*wrong, *map(_typed, typed)))


def _nearest(images: Sequence[MediaPart], written: Sequence[Placeholder]) -> dict[str, Placeholder]:
    left = list(written)
    of: dict[str, Placeholder] = {}
    for image in images:
        place = next((place for place in left if _near(image, place)), None)
        if place is not None:
            of[image.path] = place
            left.remove(place)
    return of


def _unmatched(images: Sequence[MediaPart], written: Sequence[Placeholder], of: dict[str, Placeholder]) -> Problem:
    """Name the first image without a placeholder, or the first placeholder without an image."""
    what = f"{_number(len(images), 'image part')}, {_number(len(written), 'placeholder')}"
    alone = next((image.path for image in images if image.path not in of), None)
    if alone is not None:
        remedy = "use the template of the model, and the type of part that it reads"
        return Problem(alone, f"{what}: this part has none", remedy, True)
    place = next(place for place in written if place not in of.values())
    return Problem(None, f"{what}: the one at byte {place.start} has no image", "add the image, or another template",
                   True)  # fmt: skip


def _number(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def _out_of_order(image: MediaPart, place: Placeholder) -> Problem:
    what = f"the placeholder in its turn stands at byte {place.start}, among the fields of another message"
    return Problem(image.path, what, "give messages in the order in which the template writes them", True)


def _typed(path: str | None) -> Problem:
    what = "its text spells a placeholder: a program that counts literals binds an image to it"
    return Problem(path, what, "remove it from the text, or send safe_input_ids", False)


def _near(image: MediaPart, place: Placeholder) -> bool:
    """Say whether a placeholder can be of the image's message: its neighbours are that message, or lie on both sides."""
    low = -1 if place.after is None else place.after
    high = image.message if place.before is None else place.before
    return low <= image.message <= high or image.message in (place.after, place.before)
