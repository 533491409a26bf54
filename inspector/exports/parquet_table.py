"""The tokens as Parquet, one row each, with types: bytes are bytes, absent is null."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from inspector.exports.base import Export, File, Side
from inspector.exports.csv_table import COLUMNS, rows_of


class _Kept(io.BytesIO):
    """A buffer that outlives being closed by its writer: a child of the sandbox may write no file."""

    def close(self) -> None:
        self.flush()


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    import fastparquet
    import pandas

    rows, kept = rows_of(sides[0]), _Kept()
    frame = pandas.DataFrame({name: _column(name, rows) for name in COLUMNS})
    encodings = {"piece": "utf8", "bytes": "bytes", "flags": "utf8", "kind": "utf8", "path": "utf8"}
    named = {name: encodings.get(name, "infer") for name in COLUMNS}
    fastparquet.write(
        "tokens.parquet", frame, object_encoding=named, compression="ZSTD", open_with=lambda _path, _mode: kept
    )
    return (File("tokens.parquet", kept.getvalue()),)


def _column(name: str, rows: list[dict[str, Any]]) -> Any:
    import pandas

    values = [row[name] for row in rows]
    if name == "bytes":
        return pandas.Series([bytes.fromhex(value) for value in values], dtype=object)
    if name == "flags":
        return pandas.Series([" ".join(value) for value in values], dtype=object)
    if name in ("index", "id", "start", "end", "line"):
        return pandas.array(values, dtype="Int64")
    texts = [None if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values]
    return pandas.Series(texts, dtype=object)


EXPORT = Export("parquet", "the tokens as Parquet", _make)
