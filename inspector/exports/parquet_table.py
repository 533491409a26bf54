"""The tokens as Parquet, one row each, with types: bytes are bytes, absent is null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.exports.base import Export, File, Side
from inspector.exports.csv_table import COLUMNS, rows_of


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    import pyarrow as pa
    from pyarrow import parquet

    pa.set_memory_pool(pa.system_memory_pool())  # the others reserve more address space than a child may have
    rows, kept = rows_of(sides[0]), pa.BufferOutputStream()  # a child of the sandbox may write no file
    table = pa.table({name: _column(name, [row[name] for row in rows]) for name in COLUMNS})
    parquet.write_table(table, kept, compression="zstd")
    return (File("tokens.parquet", kept.getvalue().to_pybytes()),)


def _column(name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    if name == "bytes":
        return pa.array([bytes.fromhex(value) for value in values], pa.binary())
    if name == "flags":
        return pa.array([" ".join(value) for value in values], pa.string())
    if name in ("index", "id", "start", "end", "line"):
        return pa.array(values, pa.int64())
    texts = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return pa.array(texts, pa.string())


EXPORT = Export("parquet", "the tokens as Parquet", _make)
