"""The same prompt with one thing wrong or otherwise, for its distance from the prompt as it is.

Each variant is what a program that makes that mistake would really send: ids, or a padded batch with the arrays as it would
build them. A variant that cannot be made says why. No model is run and no template is rendered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.backends import PaddedRows

PADDING = 4
"""Pad tokens beside the prompt: as beside a neighbour in the batch that is that much longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One row. Exactly one of `input_ids`, `padded`, `why_not` and `dtype` is given; `padded` holds the prompt in row 0."""

    name: str
    input_ids: tuple[int, ...] | None = None
    padded: PaddedRows | None = None
    why_not: str = ""
    dtype: str | None = None


def sent_otherwise(
    input_ids: Sequence[int], safe_input_ids: Sequence[int], *, bos_id: int | None, pad_id: int | None
) -> tuple[Variant, ...]:
    """Give the variants that need no other render: BOS twice and absent, padding, safe ids."""
    ids = tuple(input_ids)
    return (*_bos(ids, bos_id), *_padding(ids, pad_id), _safe(ids, tuple(safe_input_ids)))


def other_render(
    name: str, base: Sequence[int], ids: Sequence[int] | None, *, why_not: str = "the template gives the same ids"
) -> Variant:
    """Give the variant that another render made; one that changed nothing says so."""
    if ids is None or list(ids) == list(base):
        return Variant(name, why_not=why_not)
    return Variant(name, tuple(ids))


def _bos(ids: tuple[int, ...], bos_id: int | None) -> tuple[Variant, Variant]:
    if bos_id is None:
        return tuple(Variant(name, why_not="the tokenizer has no BOS token") for name in ("double_bos", "no_bos"))  # type: ignore[return-value]
    double = Variant("double_bos", (bos_id, *ids))
    if not ids or ids[0] != bos_id:
        return double, Variant("no_bos", why_not="the prompt does not begin with BOS")
    if len(ids) == 1:
        return double, Variant("no_bos", why_not="nothing else is in the prompt")
    return double, Variant("no_bos", ids[1:])


def _padding(ids: tuple[int, ...], pad_id: int | None) -> tuple[Variant, ...]:
    """The prompt beside a longer one: padded right and read at the last position; padded left, without position_ids."""
    names = ("right_padded", "left_padded_no_positions", "left_padded")
    if pad_id is None:
        return tuple(Variant(name, why_not="the tokenizer has no pad token") for name in names)
    row = np.array(ids, np.int64)
    pad, length = np.full(PADDING, pad_id, np.int64), len(ids)
    last = np.array([length + PADDING - 1], np.int64)
    zeros, ones = np.zeros(PADDING, np.int64), np.ones(length, np.int64)
    right = PaddedRows(np.concatenate([row, pad])[None], np.concatenate([ones, zeros])[None], None, last)
    left_ids, mask = np.concatenate([pad, row])[None], np.concatenate([zeros, ones])[None]
    # positions counted over the padding too: what a model makes of itself when it is given none
    shifted = np.arange(length + PADDING, dtype=np.int64)[None]
    counted = np.where(mask == 1, np.cumsum(mask, axis=1) - 1, 0)
    return (
        Variant(names[0], padded=right),
        Variant(names[1], padded=PaddedRows(left_ids, mask, shifted, last)),
        Variant(names[2], padded=PaddedRows(left_ids, mask, counted, last)),
    )


def _safe(ids: tuple[int, ...], safe: tuple[int, ...]) -> Variant:
    if safe == ids:
        return Variant("safe_ids", why_not="no message holds a control string: the ids are the same")
    return Variant("safe_ids", safe)
