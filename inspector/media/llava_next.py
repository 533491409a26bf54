"""LLaVA-NeXT (1.6): the whole image once, and tiles of the best of a few canvases, without their padding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size, tiles, whole


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Choose the canvas that keeps most of the image, and count base, tile and line-end features."""
    tile, patch = settings["tile_size"], settings["patch_size"]
    canvas = best_canvas(size, [(width, height) for height, width in settings["canvases"]])
    resized = fit(size, canvas)
    across = tile // patch
    rows, columns = canvas[1] // tile, canvas[0] // tile
    kept_rows, kept_columns = _unpadded(size, rows * across, columns * across)
    base = across**2 + settings["additional_tokens"] - (settings["feature_select"] == "default")
    positions = base + kept_rows * kept_columns + kept_rows
    return Plan(
        resized=resized,
        canvas=canvas,
        grid=(rows, columns),
        grid_of="tiles",
        crops=(Crop("overview", "original", whole(size), (tile, tile)), *tiles(rows, columns, (tile, tile), "canvas")),
        positions=positions,
        text=placeholder * positions,
        numbers={"base": base, "kept_patches": [kept_rows, kept_columns], "line_ends": kept_rows},
    )


def best_canvas(size: Size, canvases: list[Size]) -> Size:
    """Choose the canvas on which most of the image's pixels are left, then that with the least waste."""
    width, height = size
    best, most, least_waste = canvases[0], 0, math.inf
    for canvas in canvases:
        scale = min(canvas[0] / width, canvas[1] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        waste = canvas[0] * canvas[1] - kept
        if kept > most or (kept == most and waste < least_waste):
            best, most, least_waste = canvas, kept, waste
    return best


def fit(size: Size, canvas: Size) -> Size:
    """Scale into the canvas; the side that does not touch it is rounded up."""
    width, height = size
    scale_width, scale_height = canvas[0] / width, canvas[1] / height
    if scale_width < scale_height:
        return canvas[0], min(math.ceil(height * scale_width), canvas[1])
    return min(math.ceil(width * scale_height), canvas[0]), canvas[1]


def _unpadded(size: Size, rows: int, columns: int) -> tuple[int, int]:
    """Take the patches of the canvas's padding away, by whole patches on both sides."""
    width, height = size
    if width / height > columns / rows:
        kept = int(round(height * (columns / width), 7))
        return rows - (rows - kept) // 2 * 2, columns
    kept = int(round(width * (rows / height), 7))
    return rows, columns - (columns - kept) // 2 * 2
