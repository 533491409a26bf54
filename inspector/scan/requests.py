"""A row of a dataset as the request that the pipeline reads. Runs in a child; nothing is rendered here.

What the strict parser reads as it stands stays byte for byte; the rest is converted as the page converts what is pasted.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import dumps, loads
from inspector.pasting import is_plain_row, row_fields
from inspector.scan.plan import ScanPlan
from inspector.scan.source import RowBatch

_ARGUMENTS = "chat_template_kwargs"


def row_texts(batch: RowBatch) -> Iterator[bytes | InspectorError]:
    """Give each row of a batch as JSON text, or why it cannot be."""
    rows = range(batch.start, batch.stop)
    if batch.kind == "json":
        yield from (batch.data[row] for row in rows)
    elif batch.kind == "csv":
        names = _cells(batch.header)
        yield from (_csv_row(names, batch.data[row]) for row in rows)
    else:
        import pyarrow as pa

        table = pa.ipc.open_stream(batch.data[0]).read_all().slice(batch.start, len(batch))
        yield from map(_arrow_row, table.to_pylist())


def _cells(record: bytes) -> list[str]:
    text = record.decode("utf-8").removeprefix("\ufeff")
    csv.field_size_limit(1 << 30)
    return next(csv.reader(io.StringIO(text, newline=""), strict=True), [])


def _csv_row(names: list[str], record: bytes) -> bytes | InspectorError:
    try:
        cells = _cells(record)
    except (csv.Error, UnicodeDecodeError) as error:
        return _bad_row(f"no CSV record: {error}", "quote the cells as RFC 4180 says, in UTF-8")
    if len(cells) != len(names):
        return _bad_row(f"the record has {len(cells)} cells, the header {len(names)}", "quote cells that hold commas")
    row = {name: _cell(value) for name, value in zip(names, cells)}
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _cell(text: str) -> Any:
    """Read a cell that holds a JSON array or object; any other is text."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _arrow_row(row: dict[str, Any]) -> bytes | InspectorError:
    try:
        return json.dumps(row, ensure_ascii=False, default=_plain, allow_nan=True).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        return _bad_row(f"a value cannot be written as JSON: {error}", "name the column of the messages: --column")


def _plain(value: Any) -> Any:
    """Give what JSON lacks: bytes as base64, times and decimals as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def request_of(text: bytes, plan: ScanPlan) -> tuple[str, bytes]:
    """Give what a row was recognised as, and its request.

    Errors: InputInvalid for a row that holds no conversation, or not the column.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "", text  # the strict parser says what is wrong and where
    if plan.column is None and isinstance(value, list):
        value = {"messages": value}
    elif plan.column is None and is_plain_row(value):
        tools = value.get(plan.tools_column or "tools")
        own = isinstance(tools, list) and plan.tools_column is None
        if own or (not tools and plan.tools is None):
            return "messages" if value.keys() <= {"messages", "tools"} else "openai", text
    return _converted(text, value, plan)


def _converted(text: bytes, value: Any, plan: ScanPlan) -> tuple[str, bytes]:
    """Convert what is not read as it stands; strictly read, so that numbers keep their spelling."""
    strict = loads(text.decode("utf-8"), root="row")
    row = strict if isinstance(strict, dict) else {"messages": strict}
    given = row if plan.column is None else _column(row, plan.column)
    found = row_fields(given)
    if found is None and plan.column is None and isinstance(row.get("messages"), list):
        return "messages", text  # the strict parser says which of them is none
    if found is None:
        listed = ", ".join(map(str, list(row)[:12]))
        raise _bad_row(f"no conversation in it; its columns are {listed}", "name the one that holds it: --column NAME")
    form, fields = found
    tools = _tools(row, plan)
    fields = {**fields, **({} if tools is None or fields.get("tools") else {"tools": tools})}
    body = {_ARGUMENTS if name == "arguments" else name: part for name, part in fields.items()}
    return form, dumps(body).encode("utf-8", "surrogatepass")


def _column(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise _bad_row(f"there is no column {name!r}", f"one of {', '.join(map(str, list(row)[:12]))}")
    value = row[name]
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("[", "{"):
            return {"prompt": value, "model": None}
        value = loads(value, root=name)
    return {"messages": value} if isinstance(value, list) and value and "role" in value[0] else value


def _tools(row: dict[str, Any], plan: ScanPlan) -> Any:
    """Give the tools of a row: its column's, as list or JSON text, or else those of all rows."""
    name = plan.tools_column or "tools"
    given = row.get(name)
    if isinstance(given, str) and given.strip():
        given = loads(given, root=name)
    return given if given else None if plan.tools is None else loads(plan.tools, root="tools")


def _bad_row(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.InputInvalid, message, stage="source", where={}, remedy=remedy)
