"""What the model would receive: name, shape, type, a summary, and the first and last values of every array."""

from __future__ import annotations

from typing import Any

import numpy as np

from inspector.ui.views.base import View

ENDS = 8  # values shown at either end


def data(inspection: Any) -> list[dict[str, Any]]:
    """Describe the arrays of the model's input, then the masks and ids that belong to it but are not sent."""
    encoding, inputs = inspection.encoding, inspection.inputs
    arrays: list[tuple[str, np.ndarray]] = []
    if inputs is not None:
        names = ("input_ids", "attention_mask", "position_ids", "labels")
        arrays += [(name, getattr(inputs, name)) for name in names]
    arrays.append(("assistant_mask", encoding.assistant_mask))
    arrays.append(("safe_input_ids", encoding.safe_input_ids))
    return [describe(name, np.asarray(array)) for name, array in arrays]


def describe(name: str, array: np.ndarray) -> dict[str, Any]:
    """Describe one array.

    >>> describe("attention_mask", np.array([[1, 1, 0]]))["note"]
    'sum 2'
    """
    flat = array.reshape(-1)
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "note": _note(name, flat),
        "sample": _ends(flat),
    }


def _note(name: str, flat: np.ndarray) -> str:
    if not len(flat):
        return "empty"
    if name.endswith("mask"):
        return f"sum {int(flat.sum())}"
    if name == "labels":
        return f"{int(np.count_nonzero(flat != -100))} trained, {int(np.count_nonzero(flat == -100))} ignored"
    return f"min {int(flat.min())}, max {int(flat.max())}"


def _ends(flat: np.ndarray) -> str:
    if len(flat) <= 2 * ENDS:
        return f"[{', '.join(map(str, flat.tolist()))}]"
    head, tail = (", ".join(map(str, part.tolist())) for part in (flat[:ENDS], flat[-ENDS:]))
    return f"[{head}, …, {tail}]"


VIEW = View("tensors", data)
