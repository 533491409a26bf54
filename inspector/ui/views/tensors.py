"""What the model would receive: the arrays of a pane in few words, and several conversations as one batch or packed.

The batch is asked for when the tab is open: its columns go as bytes, for a page draws only what is in sight.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views.base import View
from inspector.ui.views.training import spelled

ENDS = 8  # values shown at either end
MOST_ROWS = 64
MOST_CELLS = 4_000_000
DTYPES = {"input_ids": "<u4", "attention_mask": "|u1", "position_ids": "<u4", "labels": "<i4", "cells": "|u1",
          "sequence_ids": "<u2"}  # fmt: skip


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


# --- batches ---------------------------------------------------------------------------------------------------------------


def conversations(text: Any) -> list[str]:
    """Give the conversations of pasted JSON Lines: one a line, blank lines left out.

    Errors: InputInvalid for what is no text; InputTooLarge.
    """
    if not isinstance(text, str):
        raise InspectorError(ErrorKind.InputInvalid, "there is no text", stage="tensors", remedy="reload the page")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_ROWS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{len(lines)} conversations were given, a batch of the page has up to {MOST_ROWS} rows",
            stage="tensors",
            remedy="give fewer, or run python -m inspector batch",
        )
    return lines


def check_size(lengths: list[int]) -> None:
    """Errors: InputTooLarge for a batch of more than MOST_CELLS cells."""
    cells = max(lengths, default=0) * len(lengths)
    if cells > MOST_CELLS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the batch has {len(lengths)} × {max(lengths):,} = {cells:,} cells, the page draws up to {MOST_CELLS:,}",
            stage="tensors",
            remedy="give fewer or shorter conversations, or run python -m inspector batch",
        )


def batch(found: Any, tokenizer: Any) -> dict[str, Any]:
    """Give a `Batch` for the page: what is said of it, and its columns as bytes."""
    value = found.to_dict()
    names = ("input_ids", "attention_mask", "position_ids", "labels", "cells")
    said = ("padding_side", "pad_id", "eos_id", "pad_is_eos", "shape", "lengths", "shifts", "last_positions",
            "last_column_is_padding", "remarks")  # fmt: skip
    return {
        "packed": False,
        **{name: value[name] for name in said},
        **columns({name: getattr(found, name) for name in names}),
        "pieces": spelled(tokenizer, np.unique(found.input_ids).tolist()),
    }


def packed(found: Any, tokenizer: Any, eos_id: int | None) -> dict[str, Any]:
    """Give a `Packed` for the page, likewise."""
    names = ("input_ids", "position_ids", "labels", "sequence_ids")
    return {
        "packed": True,
        "shape": [1, len(found.input_ids)],
        "eos_id": eos_id,
        "boundaries": found.boundaries.tolist(),
        "leaks": found.leaks,
        **columns({name: getattr(found, name) for name in names}),
        "pieces": spelled(tokenizer, np.unique(found.input_ids).tolist()),
    }


def columns(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Give arrays as `columns`: [name, dtype, size], and `data`: their bytes one after the other, deflated, base64."""
    parts = [(name, array.reshape(-1).astype(DTYPES[name])) for name, array in arrays.items()]
    data = zlib.compress(b"".join(part.tobytes() for _name, part in parts), 1)
    return {
        "columns": [[name, part.dtype.str, part.size] for name, part in parts],
        "data": base64.b64encode(data).decode("ascii"),
    }


VIEW = View("tensors", data)
