"""The tokens as CSV, one row each; no cell is a formula to a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from inspector.exports.base import Export, File, Side

COLUMNS = ("index", "id", "piece", "bytes", "start", "end", "flags", "kind", "path", "line")


def rows_of(side: Side) -> list[dict[str, Any]]:
    """Give the tokens of `inspection/1`, each with its index.

    Errors: the one that stopped the inspection.
    """
    from inspector.encode import token_rows

    encoding = side.whole().encoding
    return [{"index": index, **row} for index, row in enumerate([] if encoding is None else token_rows(encoding))]


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    from inspector.vocabularies import plain_cell

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in rows_of(sides[0]):
        cells = {**row, "flags": " ".join(row["flags"])}
        writer.writerow([plain_cell(cells[name]) for name in COLUMNS])
    return (File("tokens.csv", out.getvalue().encode("utf-8", "backslashreplace")),)


EXPORT = Export("csv", "the tokens as CSV, no cell a formula", _make)
