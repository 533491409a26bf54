"""What every family of image rules shares: the rule of a preset, and what it makes of one image's size.

Sizes are (width, height) in pixels, boxes (left, top, right, bottom); the origin is the upper left corner. Rules are
computed from sizes alone: no pixel is looked at here, and no library of models is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inspector.errors import ErrorKind, InspectorError

Size = tuple[int, int]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class MediaRule:
    """How one family's processor turns images into positions, as its preset says.

    `placeholder`: the text that a template writes for one image. `memory`: images are entries of a cross-attention
    memory, and the placeholder stays one token. `templates`: template presets that it belongs to; `repositories`:
    patterns of names on the Hub.
    """

    id: str
    title: str
    family: str
    placeholder: str
    templates: tuple[str, ...]
    repositories: tuple[str, ...]
    settings: Mapping[str, Any]
    encoder: str
    projector: str
    origin: str
    memory: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as it goes into the record."""
        names = ("id", "title", "family", "placeholder", "memory", "encoder", "projector", "origin")
        return {**{name: getattr(self, name) for name in names}, "settings": dict(self.settings)}


@dataclass(frozen=True, slots=True)
class Crop:
    """One picture that the vision encoder sees.

    `box`: the part of the image `of` ("original", "resized" or "canvas": the resized image padded) that it shows;
    `size`: what it is resized to.
    """

    name: str
    of: str
    box: Box
    size: Size


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rule makes of one image.

    `grid`: (rows, columns) that `grid_of` counts. `positions`: embeddings of the image in the prompt, 0 where images
    are memory; `memory`: entries of the cross-attention memory. `text`: what the processor writes for the placeholder.
    `numbers`: further values on the way, by name.
    """

    resized: Size
    grid: tuple[int, int]
    grid_of: str
    crops: tuple[Crop, ...]
    positions: int
    text: str
    canvas: Size | None = None
    memory: int | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as it goes into the record; the text is in the prompt."""
        return {
            "resized": list(self.resized),
            "canvas": None if self.canvas is None else list(self.canvas),
            "grid": list(self.grid),
            "grid_of": self.grid_of,
            "crops": [
                {"name": crop.name, "of": crop.of, "box": list(crop.box), "size": list(crop.size)}
                for crop in self.crops
            ],
            "numbers": dict(self.numbers),
        }


def whole(size: Size) -> Box:
    """Give the box of all of an image."""
    return (0, 0, *size)


def tiles(rows: int, columns: int, size: Size, of: str) -> tuple[Crop, ...]:
    """Cut a canvas into tiles of one size, row by row."""
    width, height = size
    return tuple(
        Crop(f"row {row + 1}, column {column + 1}", of,
             (column * width, row * height, (column + 1) * width, (row + 1) * height), size)
        for row in range(rows)
        for column in range(columns)
    )  # fmt: skip


def refused(message: str, size: Size) -> InspectorError:
    """Give the error of an image that the family's processor refuses."""
    return InspectorError(
        ErrorKind.MediaInvalid,
        message,
        stage="media",
        where={"width": size[0], "height": size[1]},
        remedy="crop or pad the image before it is sent",
    )
