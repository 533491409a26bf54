"""InternVL: the image stretched over the grid of tiles nearest in ratio, and once more as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size, tiles, whole


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Choose the grid, and count the same number of positions for every tile."""
    tile, each = settings["tile_size"], settings["tokens_per_tile"]
    columns, rows = best_grid(size, tile, settings["min_tiles"], settings["max_tiles"])
    resized = (columns * tile, rows * tile)
    crops = tiles(rows, columns, (tile, tile), "resized")
    if len(crops) > 1:
        crops = (*crops, Crop("overview", "original", whole(size), (tile, tile)))
    positions = each * len(crops)
    return Plan(
        resized=resized,
        grid=(rows, columns),
        grid_of="tiles",
        crops=crops,
        positions=positions,
        text=settings["image_start"] + placeholder * positions + settings["image_end"],
        numbers={"tiles": len(crops), "tokens_per_tile": each},
    )


def best_grid(size: Size, tile: int, fewest: int, most: int) -> Size:
    """Choose (columns, rows) nearest to the image's ratio; of equal ones the later, while the image is large enough."""
    width, height = size
    grids = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if fewest <= c * r <= most]
    best, nearest = (1, 1), math.inf
    for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        distance = abs(width / height - columns / rows)
        larger = width * height > 0.5 * tile * tile * columns * rows
        if distance < nearest or (distance == nearest and larger):
            best, nearest = (columns, rows), distance
    return best
