"""Lay encodings out as a batch: padded to a rectangle, or packed one after the other.

Numpy only. What goes wrong when positions are not derived from the mask is told as numbers; no model is run.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.errors import ErrorKind, InspectorError
from inspector.tensors import IGNORED_LABEL, PaddingSide


class Cell(enum.IntEnum):
    """What stands in a cell of the grid; the mask tells, never the id, for the pad id may be the EOS id."""

    TOKEN = 0
    EOS = 1  # a real end of sequence
    PAD = 2


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Several rows padded to the longest.

    Shapes: every array [B, T], lengths [B]. `position_ids` count the positions of the mask from 0, padding holds 0.
    `unmasked_position_ids` are what a model counts that is given no position ids and ignores the mask: 0, 1, 2, ...
    """

    padding_side: PaddingSide
    pad_id: int
    eos_id: int | None
    input_ids: np.ndarray
    attention_mask: np.ndarray
    position_ids: np.ndarray
    unmasked_position_ids: np.ndarray
    labels: np.ndarray
    cells: np.ndarray
    lengths: np.ndarray

    @property
    def pad_is_eos(self) -> bool:
        """True if ids alone cannot tell padding from an end of sequence."""
        return self.pad_id == self.eos_id

    @property
    def shifts(self) -> np.ndarray:
        """How far each row's positions are off if they are not derived from the mask. Shapes: int64[B]."""
        wrong = (self.unmasked_position_ids - self.position_ids) * (self.attention_mask == 1)
        return wrong.max(axis=1, initial=0)

    @property
    def last_positions(self) -> np.ndarray:
        """The column of each row's last real token, where its next-token logits are. Shapes: int64[B]."""
        columns = np.arange(self.input_ids.shape[1])
        return np.where(self.attention_mask == 1, columns, -1).max(axis=1, initial=-1)

    def to_dict(self) -> dict[str, Any]:
        """Give schema `batch/1`."""
        width = self.input_ids.shape[1]
        return {
            "schema": "batch/1",
            "padding_side": self.padding_side.value,
            "pad_id": self.pad_id,
            "eos_id": self.eos_id,
            "pad_is_eos": self.pad_is_eos,
            "shape": list(self.input_ids.shape),
            "lengths": self.lengths.tolist(),
            "input_ids": self.input_ids.tolist(),
            "attention_mask": self.attention_mask.tolist(),
            "position_ids": self.position_ids.tolist(),
            "unmasked_position_ids": self.unmasked_position_ids.tolist(),
            "labels": self.labels.tolist(),
            "cells": [[Cell(cell).name.lower() for cell in row] for row in self.cells.tolist()],
            "shifts": self.shifts.tolist(),
            "last_positions": self.last_positions.tolist(),
            "last_column_is_padding": (self.last_positions < width - 1).tolist(),
            "remarks": list(self._remarks()),
        }

    def _remarks(self) -> Sequence[str]:
        found = []
        short = np.flatnonzero(self.last_positions < self.input_ids.shape[1] - 1).tolist()
        if short:
            found.append(f"logits[:, -1] of rows {short} belong to padding: read them at last_positions, or pad left")
        moved = np.flatnonzero(self.shifts > 0).tolist()
        if moved:
            found.append(
                f"without position_ids from the mask, rows {moved} are read at positions shifted by their padding"
            )
        if self.pad_is_eos:
            found.append("the pad id is the EOS id: labels that mask padding by its id mask the real EOS too")
        return found


def pad_batch(
    rows: Sequence[Sequence[int] | np.ndarray],
    pad_id: int,
    *,
    padding_side: PaddingSide = PaddingSide.LEFT,
    eos_id: int | None = None,
    labels: Sequence[Sequence[int] | np.ndarray] | None = None,
) -> Batch:
    """Pad rows to the longest. `labels`: one row of labels a row; default: every id is its own label.

    Shapes: [B, T]. Errors: InputInvalid for no row, or labels of another length than their row.
    """
    _check_rows(rows, labels)
    lengths = np.array([len(row) for row in rows], np.int64)
    width = int(lengths.max())
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask, target = np.zeros_like(ids), np.full_like(ids, IGNORED_LABEL)
    for index, row in enumerate(rows):
        place = slice(width - len(row), width) if padding_side is PaddingSide.LEFT else slice(0, len(row))
        ids[index, place] = row
        mask[index, place] = 1
        target[index, place] = row if labels is None else labels[index]
    cells = np.where(mask == 0, Cell.PAD, np.where(ids == (-1 if eos_id is None else eos_id), Cell.EOS, Cell.TOKEN))
    return Batch(
        padding_side=padding_side,
        pad_id=pad_id,
        eos_id=eos_id,
        input_ids=ids,
        attention_mask=mask,
        position_ids=np.where(mask == 1, np.cumsum(mask, axis=1) - 1, 0),
        unmasked_position_ids=np.broadcast_to(np.arange(width), ids.shape).copy(),
        labels=target,
        cells=cells.astype(np.uint8),
        lengths=lengths,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Several rows in one sequence, each with positions of its own.

    Shapes: input_ids, position_ids, sequence_ids, labels int64[T]; boundaries int64[B + 1], where each row begins and the
    last ends (`cu_seqlens`). The label of each row's first token is -100: nothing of that row predicts it.
    """

    input_ids: np.ndarray
    position_ids: np.ndarray
    sequence_ids: np.ndarray
    labels: np.ndarray
    boundaries: np.ndarray

    def mask(self) -> np.ndarray:
        """Give which positions each position sees: its own row up to itself. Shapes: bool[T, T], block-diagonal."""
        same = self.sequence_ids[:, None] == self.sequence_ids[None, :]
        return same & np.tri(len(self.input_ids), dtype=bool)

    @property
    def leaks(self) -> int:
        """How many pairs of positions see each other across rows under a plain causal mask."""
        sizes = np.diff(self.boundaries)
        total = int(sizes.sum())
        return total * (total + 1) // 2 - int((sizes * (sizes + 1) // 2).sum())

    def to_dict(self) -> dict[str, Any]:
        """Give schema `packed/1`; the mask follows from `boundaries`."""
        return {
            "schema": "packed/1",
            "input_ids": self.input_ids.tolist(),
            "position_ids": self.position_ids.tolist(),
            "sequence_ids": self.sequence_ids.tolist(),
            "labels": self.labels.tolist(),
            "boundaries": self.boundaries.tolist(),
            "leaks": self.leaks,
        }


def pack_rows(
    rows: Sequence[Sequence[int] | np.ndarray], labels: Sequence[Sequence[int] | np.ndarray] | None = None
) -> Packed:
    """Put rows one after the other. Errors: InputInvalid for no row, or labels of another length than their row.

    >>> pack_rows([[5, 6, 7], [8, 9]]).position_ids.tolist()
    [0, 1, 2, 0, 1]
    """
    _check_rows(rows, labels)
    sizes = np.array([len(row) for row in rows], np.int64)
    boundaries = np.concatenate(([0], np.cumsum(sizes)))
    sequence_ids = np.repeat(np.arange(len(rows)), sizes)
    ids = np.concatenate([np.asarray(row, np.int64) for row in rows])
    target = ids.copy() if labels is None else np.concatenate([np.asarray(row, np.int64) for row in labels])
    target[boundaries[:-1][sizes > 0]] = IGNORED_LABEL
    return Packed(ids, np.arange(len(ids)) - boundaries[sequence_ids], sequence_ids, target, boundaries)


def _check_rows(rows: Sequence[Any], labels: Sequence[Any] | None) -> None:
    if not rows:
        raise _invalid("a batch needs a row", "give at least one conversation")
    for index, row in enumerate(rows if labels is not None else ()):
        given = labels[index] if labels is not None and index < len(labels) else ()
        if len(given) != len(row):
            raise _invalid(f"row {index} has {len(row)} ids and {len(given)} labels", "give one label an id")


def _invalid(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.InputInvalid, message, stage="tensors", remedy=remedy)
