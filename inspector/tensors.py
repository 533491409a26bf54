"""Pad encodings into the rectangular tensors that a decoder-only model takes.

Numpy only: the arrays are what `torch.from_numpy` would wrap. No model is run here.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.encode import Encoding
from inspector.errors import ErrorKind, InspectorError

IGNORED_LABEL = -100


class PaddingSide(enum.Enum):
    """Where padding goes; generation needs left, so that the last position is the last prompt token."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True, eq=False)
class ModelInputs:
    """What the model receives.

    Shapes: every array int64[B, T]; lengths int64[B] (positions that are not padding). `position_ids` count the
    positions of the mask from 0, padding holds 0; `labels` hold the id where the assistant mask is 1, else -100.
    """

    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    padding_side: PaddingSide


def to_tensors(
    encodings: Sequence[Encoding], *, padding_side: PaddingSide = PaddingSide.LEFT, pad_id: int | None = None
) -> ModelInputs:
    """Pad `encodings` to the longest.

    Shapes: [B, T], B = len(encodings), T = the longest length.
    Errors: OptionInvalid when rows differ in length and there is no pad id.
    """
    lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
    width = int(lengths.max(initial=0))
    if pad_id is None and (lengths != width).any():
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"rows of {sorted(set(lengths.tolist()))} tokens need padding and the tokenizer has no pad token",
            stage="tensors",
            where={"option": "pad_id"},
            remedy="give pad_id",
        )
    ids = np.full((len(encodings), width), pad_id or 0, dtype=np.int64)
    mask, labels = np.zeros_like(ids), np.full_like(ids, IGNORED_LABEL)
    for row, encoding in enumerate(encodings):
        place = slice(width - len(encoding), width) if padding_side is PaddingSide.LEFT else slice(0, len(encoding))
        ids[row, place] = encoding.input_ids
        mask[row, place] = 1
        labels[row, place] = np.where(encoding.assistant_mask == 1, encoding.input_ids, IGNORED_LABEL)
    positions = np.where(mask == 1, np.cumsum(mask, axis=1) - 1, 0)
    return ModelInputs(ids, mask, positions, labels, lengths, padding_side)
