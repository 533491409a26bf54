"""Gemma 3: the image in one square, and where pan and scan is on, crops of a long one beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from inspector.media.base import Box, Crop, Plan, Size, whole


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Squeeze the image, and each crop, into the square; the ratio of the sides is not kept."""
    square = (settings["image_size"], settings["image_size"])
    each = settings["tokens_per_image"]
    boxes = _crops(size, settings) if settings["pan_and_scan"] else []
    crops = [Crop("image", "original", whole(size), square)]
    crops += [Crop(f"crop {index + 1}", "original", box, square) for index, box in enumerate(boxes)]
    one = f"\n\n{placeholder}{settings['soft_token'] * each}{settings['image_end']}\n\n"
    text = one
    if boxes:
        text = f"Here is the original image {one} and here are some crops to help you see better " + " ".join(
            [one] * len(boxes)
        )
    return Plan(
        resized=square,
        grid=(1, len(boxes)) if size[0] >= size[1] else (len(boxes), 1),
        grid_of="crops",
        crops=tuple(crops),
        positions=each * len(crops),
        text=text,
        numbers={"tokens_per_image": each, "ratio_kept": size[0] == size[1]},
    )


def _crops(size: Size, settings: Mapping[str, Any]) -> list[Box]:
    """Cut a long image along its longer side, from 2 crops up to the maximum; none where they would be too small."""
    longer, shorter = max(size), min(size)
    if longer / shorter < settings["min_ratio"]:
        return []
    number = min(math.floor(longer / settings["min_crop_size"]), math.floor(longer / shorter + 0.5))
    number = min(settings["max_crops"], max(2, number))
    length = math.ceil(longer / number)
    if min(length, shorter) < settings["min_crop_size"]:
        return []
    edges = [(index * length, min((index + 1) * length, longer)) for index in range(number)]
    if size[0] >= size[1]:
        return [(start, 0, end, shorter) for start, end in edges]
    return [(0, start, shorter, end) for start, end in edges]
