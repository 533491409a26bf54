"""Pixtral and Mistral's later models: any size up to a longest side, a mark after every row of patches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size, whole


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Scale the longer side down to whole pixels, rounded down, and both up to whole patches."""
    unit = settings["patch_size"] * settings["merge_size"]
    ratio = max(side / settings["longest_edge"] for side in size)
    scaled = size if ratio <= 1 else tuple(math.floor(side / ratio) for side in size)
    columns, rows = ((side - 1) // unit + 1 for side in scaled)
    resized = (columns * unit, rows * unit)
    row = placeholder * columns
    text = (row + settings["row_end"]) * (rows - 1) + row + settings["image_end"]
    return Plan(
        resized=resized,
        grid=(rows, columns),
        grid_of="merged patches",
        crops=(Crop("image", "resized", whole(resized), resized),),
        positions=rows * columns,
        text=text,
        numbers={"unit": unit, "scale": round(1 / max(ratio, 1), 6), "marks": rows},
    )
