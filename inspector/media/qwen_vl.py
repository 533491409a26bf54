"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL: any size, rounded to whole merged patches, within bounds of pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size, refused, whole

MAX_ASPECT_RATIO = 200


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Round both sides to multiples of patch x merge, and scale into [min_pixels, max_pixels].

    Errors: MediaInvalid for a side 200 times as long as the other.
    """
    width, height = size
    if max(size) / min(size) > MAX_ASPECT_RATIO:
        raise refused(f"one side is more than {MAX_ASPECT_RATIO} times as long as the other", size)
    patch, merge = settings["patch_size"], settings["merge_size"]
    unit = patch * merge
    # Python's round: a half goes to the even neighbour, as in the processor.
    new_width, new_height = (round(side / unit) * unit for side in size)
    scale = 1.0
    if new_width * new_height > settings["max_pixels"]:
        scale = math.sqrt(width * height / settings["max_pixels"])
        new_width, new_height = (max(unit, math.floor(side / scale / unit) * unit) for side in size)
    elif new_width * new_height < settings["min_pixels"]:
        scale = math.sqrt(settings["min_pixels"] / (width * height))
        new_width, new_height = (math.ceil(side * scale / unit) * unit for side in size)
    rows, columns = new_height // patch, new_width // patch
    positions = rows * columns // merge**2
    resized = (new_width, new_height)
    return Plan(
        resized=resized,
        grid=(rows, columns),
        grid_of="patches",
        crops=(Crop("image", "resized", whole(resized), resized),),
        positions=positions,
        text=placeholder * positions,
        numbers={"unit": unit, "scale": round(scale, 6), "merged_grid": [rows // merge, columns // merge]},
    )
