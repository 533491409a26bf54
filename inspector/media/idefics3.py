"""Idefics3 and SmolVLM: a grid of tiles with a mark each, then the whole image once more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size, tiles, whole

MAX_SIDE = 4096


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Scale the longer side, round up to whole tiles, and show the image itself in one tile more."""
    tile, each = settings["tile_size"], settings["tokens_per_tile"]
    scaled = _scaled(size, settings["longest_edge"])
    resized = _whole_tiles(scaled, tile)
    columns, rows = (side // tile for side in resized)
    split = resized[0] > tile or resized[1] > tile
    if not split:
        rows = columns = 0
    overview = Crop("overview", "resized", whole(resized), (tile, tile))
    crops = (*tiles(rows, columns, (tile, tile), "resized"), overview)
    return Plan(
        resized=resized,
        grid=(rows, columns),
        grid_of="tiles",
        crops=crops,
        positions=each * len(crops),
        text=_text(rows, columns, placeholder * each, settings["around"], settings["overview"]),
        numbers={"scaled": list(scaled), "tiles": len(crops), "tokens_per_tile": each},
    )


def _scaled(size: Size, longest: int) -> Size:
    """Scale the longer side to `longest`, the shorter one to an even number, and neither above the maximum."""
    width, height = size
    ratio = width / height
    if width >= height:
        width, height = longest, int(longest / ratio)
        height += height % 2
    else:
        width, height = int(longest * ratio), longest
        width += width % 2
    width, height = max(width, 1), max(height, 1)
    ratio = width / height
    if width >= height and width > MAX_SIDE:
        width, height = MAX_SIDE, int(MAX_SIDE / ratio)
    elif height > width and height > MAX_SIDE:
        width, height = int(MAX_SIDE * ratio), MAX_SIDE
    return max(width, 1), max(height, 1)


def _whole_tiles(size: Size, tile: int) -> Size:
    """Round the longer side up to whole tiles, then the shorter one by the ratio."""
    width, height = size
    ratio = width / height
    if width >= height:
        width = math.ceil(width / tile) * tile
        return width, math.ceil(int(width / ratio) / tile) * tile
    height = math.ceil(height / tile) * tile
    return math.ceil(int(height * ratio) / tile) * tile, height


def _text(rows: int, columns: int, run: str, around: str, overview: str) -> str:
    lines = [
        "".join(f"{around}<row_{row + 1}_col_{column + 1}>{run}" for column in range(columns)) + "\n"
        for row in range(rows)
    ]
    return "".join(lines) + ("\n" if rows else "") + around + overview + run + around
