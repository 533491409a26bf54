"""LLaVA 1.5: one square in the middle of the image, always as many positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inspector.media.base import Crop, Plan, Size


def plan(size: Size, settings: Mapping[str, Any], placeholder: str) -> Plan:
    """Resize the shorter side, and cut a square out of the middle; what lies outside is lost."""
    side, crop, patch = settings["shortest_edge"], settings["crop_size"], settings["patch_size"]
    resized = shortest_edge(size, side)
    left, top = ((edge - crop) // 2 for edge in resized)
    across = crop // patch
    positions = across**2 + settings["additional_tokens"] - (settings["feature_select"] == "default")
    return Plan(
        resized=resized,
        grid=(across, across),
        grid_of="patches",
        crops=(Crop("centre", "resized", (left, top, left + crop, top + crop), (crop, crop)),),
        positions=positions,
        text=placeholder * positions,
        numbers={"pixels_lost": max(0, resized[0] * resized[1] - crop * crop)},
    )


def shortest_edge(size: Size, side: int) -> Size:
    """Scale so that the shorter side is `side`; the longer one is cut to a whole pixel."""
    width, height = size
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side
