"""Write into a rendered prompt what a family's processor writes for each image: n placeholders, marks, tiles.

Processors do this with the text, before it is tokenized, so merges at the seams are those that the model gets. Every
byte that is written so knows its image: its path is the image part's, its line that of the placeholder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from inspector.budget import clip_segments
from inspector.media.parts import MediaPart
from inspector.media.placeholders import Placeholder, bind, find_placeholders
from inspector.provenance import SegmentKind
from inspector.render import Rendered, Segments

_COLUMNS = ("start", "end", "kind", "line", "path", "field_start")


def expand(rendered: Rendered, parts: Sequence[MediaPart], literal: str, texts: Mapping[str, str]) -> Rendered:
    """Replace the placeholder of each image by its text (by path; an image without one keeps its placeholder).

    Errors: MediaMismatch where images and placeholders do not go together.
    """
    bound = bind(parts, find_placeholders(rendered, literal))
    for problem in bound.problems:
        if problem.stops:
            raise problem.error()
    places = sorted((place.start, place, path) for path, place in bound.of.items() if path in texts)
    if not places:
        return rendered
    return _spliced(rendered, [(place, path, texts[path].encode()) for _start, place, path in places])


def _spliced(rendered: Rendered, written: Sequence[tuple[Placeholder, str, bytes]]) -> Rendered:
    utf8, segments = rendered.utf8, rendered.segments
    paths = dict.fromkeys(segments.paths)
    paths.update(dict.fromkeys(path for _place, path, _text in written))
    row_of = {path: row for row, path in enumerate(paths)}
    pieces: list[bytes] = []
    tables: list[Segments] = []
    cursor = offset = 0
    for place, path, text in written:
        pieces += [utf8[cursor : place.start], text]
        tables.append(clip_segments(segments, cursor, place.start, offset)[0])
        offset += place.start - cursor
        tables.append(_row(segments, offset, len(text), place.line or 0, row_of[path]))
        offset, cursor = offset + len(text), place.end
    pieces.append(utf8[cursor:])
    tables.append(clip_segments(segments, cursor, len(utf8), offset)[0])
    joined: dict[str, Any] = {name: np.concatenate([getattr(table, name) for table in tables]) for name in _COLUMNS}
    data = b"".join(pieces)
    moved = _Moved(written)
    prompt = rendered.generation_prompt
    return replace(
        rendered,
        text=data.decode(),
        utf8=data,
        sha256=hashlib.sha256(data).hexdigest(),
        segments=replace(segments, **joined, paths=tuple(paths)),
        assistant_spans=tuple((moved.at(start), moved.at(end)) for start, end in rendered.assistant_spans),
        generation_prompt=None if prompt is None else (moved.at(prompt[0]), moved.at(prompt[1])),
    )


def _row(segments: Segments, start: int, size: int, line: int, path: int) -> Segments:
    """Give a table of one row: bytes that the processor wrote for an image."""
    values = {"start": start, "end": start + size, "kind": int(SegmentKind.TEMPLATE), "line": line, "path": path,
              "field_start": -1}  # fmt: skip
    columns: dict[str, Any] = {name: np.array([row], getattr(segments, name).dtype) for name, row in values.items()}
    return replace(segments, **columns)


class _Moved:
    """Where a byte of the text as rendered lies after the replacements."""

    def __init__(self, written: Sequence[tuple[Placeholder, str, bytes]]) -> None:
        self.ends = np.array([place.end for place, _path, _text in written])
        self.growth = np.cumsum([len(text) - (place.end - place.start) for place, _path, text in written])

    def at(self, byte: int) -> int:
        before = int(np.searchsorted(self.ends, byte, side="right"))
        return byte + (int(self.growth[before - 1]) if before else 0)
