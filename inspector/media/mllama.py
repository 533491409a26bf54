"""Llama 3.2 Vision: tiles go into a cross-attention memory; the placeholder stays one token of the prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Plan, Size, tiles


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Choose the canvas of tiles, scale into it, and count memory entries: every tile's patches and its class token."""
    tile, most = settings["tile_size"], settings["max_tiles"]
    canvas = _canvas(size, tile, most)
    resized = _fit(size, canvas, tile)
    rows, columns = canvas[1] // tile, canvas[0] // tile
    each = (tile // settings["patch_size"]) ** 2 + 1
    return Plan(
        resized=resized,
        canvas=canvas,
        grid=(rows, columns),
        grid_of="tiles",
        crops=tiles(rows, columns, (tile, tile), "canvas"),
        positions=0,
        memory=each * rows * columns,
        text=placeholder,
        numbers={"tiles": rows * columns, "entries_per_tile": each, "padded_entries": each * most},
    )


def _canvas(size: Size, tile: int, most: int) -> Size:
    """Choose the canvas with the least enlargement, else the least reduction; of equal ones the smallest."""
    width, height = size
    # The order is the library's, which names the sides of its list the other way round; the first of equals wins.
    canvases = [(b * tile, a * tile) for a in range(1, most + 1) for b in range(1, most + 1) if a * b <= most]
    scales = [min(canvas[0] / width, canvas[1] / height) for canvas in canvases]
    enlarging = [scale for scale in scales if scale >= 1]
    chosen = min(enlarging) if enlarging else max(scales)
    return min(
        (canvas for canvas, scale in zip(canvases, scales, strict=True) if scale == chosen),
        key=lambda canvas: canvas[0] * canvas[1],
    )


def _fit(size: Size, canvas: Size, tile: int) -> Size:
    """Scale into the canvas; an image that is smaller than it is not enlarged beyond one tile."""
    width, height = size
    goal_width, goal_height = min(max(width, tile), canvas[0]), min(max(height, tile), canvas[1])
    scale_width, scale_height = goal_width / width, goal_height / height
    if scale_width < scale_height:
        return goal_width, min(math.floor(height * scale_width) or 1, goal_height)
    return min(math.floor(width * scale_height) or 1, goal_width), goal_height
