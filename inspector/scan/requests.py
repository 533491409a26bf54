"""A row of a dataset as the request that the pipeline reads. Runs in a child; nothing is rendered here.

What the strict parser reads as it stands stays byte for byte; the rest is converted as the page converts what is pasted.
A column that holds a conversation, tools or documents may hold them as JSON text, whatever format the row is from.
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
# Columns whose text is read as JSON where it begins as an array or object; of the first, text that is no JSON is an error.
_MUST = ("messages", "conversations", "conversation", "tools")
_MAY = ("documents", "functions", "contents", "history", "body", "request", "chat_template_kwargs", "prompt_token_ids")
_TEXTS = ("prompt", "completion", "chosen")  # texts, unless they are lists of messages


def row_texts(batch: RowBatch) -> Iterator[bytes | InspectorError]:
    """Give each row of a batch as JSON text, or why it cannot be."""
    rows = range(batch.start, batch.stop)
    if batch.kind == "json":
        yield from (batch.data[row] for row in rows)
    elif batch.kind == "csv":
        names = _names(batch.header)
        yield from (names if isinstance(names, InspectorError) else _csv_row(names, batch.data[row]) for row in rows)
    else:
        import pyarrow as pa

        table = pa.ipc.open_stream(batch.data[0]).read_all().slice(batch.start, len(batch))
        yield from _arrow_rows(table)


def _cells(record: bytes) -> list[str]:
    """Read one record. Errors: csv.Error, UnicodeDecodeError."""
    text = record.decode("utf-8").removeprefix("\ufeff")
    csv.field_size_limit(1 << 30)
    records = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if len(records) > 1:
        raise csv.Error(f"{len(records)} records where one was expected")
    return records[0] if records else []


def _names(header: bytes) -> list[str] | InspectorError:
    try:
        names = _cells(header)
    except (csv.Error, UnicodeDecodeError) as error:
        return _bad_row(f"the header is no CSV record: {error}", "write the file as RFC 4180 says, in UTF-8")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        return _bad_row(f"the header names the column {twice[0][:80]!r} twice", "name each column once")
    return names


def _csv_row(names: list[str], record: bytes) -> bytes | InspectorError:
    try:
        cells = _cells(record)
    except (csv.Error, UnicodeDecodeError) as error:
        return _bad_row(f"no CSV record: {error}{_held(record)}", "quote the cells as RFC 4180 says, in UTF-8")
    if len(cells) != len(names):
        said = f"the record has {len(cells)} cells, the header {len(names)}{_held(record)}"
        return _bad_row(said, "quote cells that hold commas")
    return json.dumps(dict(zip(names, cells)), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _held(record: bytes) -> str:
    """Say how many lines a record that cannot be read holds, where it holds several."""
    lines = len(record.splitlines())
    return f"; it spans {lines:,} lines" if lines > 1 else ""


def _arrow_rows(table: Any) -> Iterator[bytes | InspectorError]:
    """Read the rows of a table. What Arrow holds and Python or JSON cannot (text that is no UTF-8, a year 300,000) is an
    error of its row alone."""
    import pyarrow as pa

    wrong = (TypeError, ValueError, LookupError, ArithmeticError, RecursionError, pa.ArrowException)
    try:
        values: list[Any] | None = table.to_pylist()
    except wrong:
        values = None
    for place in range(table.num_rows):
        try:
            value = table.slice(place, 1).to_pylist()[0] if values is None else values[place]
            text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=True)
            yield text.encode("utf-8", "surrogatepass")
        except wrong as error:
            why = " ".join(str(error).split())[:200]
            yield _bad_row(f"a value cannot be written as JSON: {why}", "name the column of the messages: --column")


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
    if (
        plan.column is None
        and isinstance(value, dict)
        and any(_is_text_of(name, value[name]) for name in _KNOWN.intersection(value))
    ):
        value = _opened(loads(text.decode("utf-8"), root="row"))
        text = dumps(value).encode("utf-8", "surrogatepass")
    if plan.column is None and isinstance(value, list):
        value = {"messages": value}
    elif plan.column is None and is_plain_row(value):
        tools = value.get(plan.tools_column or "tools")
        own = isinstance(tools, list) and plan.tools_column is None
        if own or (not tools and plan.tools is None):
            return "messages" if value.keys() <= {"messages", "tools"} else "openai", text
    return _converted(text, value, plan)


_IN_TEXT = (*_MUST, *_MAY, *_TEXTS)
_KNOWN = frozenset(_IN_TEXT)
_LEFT_OUT = (
    "tools",
    "documents",
    "functions",
    "chat_template_kwargs",
)  # an empty text in these is what CSV has for null


def _is_text_of(name: str, value: Any) -> bool:
    return _opens(value) or (name in _LEFT_OUT and isinstance(value, str) and not value.strip())


def _opens(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("[", "{")


def _opened(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row with the JSON text of its known columns read. Errors: InputInvalid, at the place within the text."""
    made = dict(row)
    for name in _IN_TEXT:
        if not _is_text_of(name, row.get(name)):
            continue
        if not _opens(row[name]):
            del made[name]
            continue
        try:
            value = loads(row[name].strip(), root=name)
        except InspectorError:
            if name in _MUST:
                raise
            continue
        if name not in _TEXTS or _are_turns(value):
            made[name] = value
    return made


def _are_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value) and (
        all("role" in each for each in value) or all("from" in each and "value" in each for each in value)
    )  # fmt: skip


def _converted(text: bytes, value: Any, plan: ScanPlan) -> tuple[str, bytes]:
    """Convert what is not read as it stands; strictly read, so that numbers keep their spelling."""
    strict = loads(text.decode("utf-8"), root="row")
    row = strict if isinstance(strict, dict) else {"messages": strict}
    given = row if plan.column is None else _column(row, plan.column)
    found = None if isinstance(given, list) and len(given) > 1 and not _are_turns(given) else row_fields(given)
    if found is None and plan.column is None and isinstance(row.get("messages"), list):
        return "messages", text  # the strict parser says which of them is none
    if found is None and plan.column is not None:
        raise _bad_row(f"the column {plan.column!r} holds no conversation", "name the one that holds it: --column NAME")
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
    return {"messages": value} if _are_turns(value) and "role" in value[0] else value


def _tools(row: dict[str, Any], plan: ScanPlan) -> Any:
    """Give the tools of a row: its column's, as list or JSON text, or else those of all rows."""
    name = plan.tools_column or "tools"
    given = row.get(name)
    if isinstance(given, str) and given.strip():
        given = loads(given, root=name)
    return given if given else None if plan.tools is None else loads(plan.tools, root="tools")


def _bad_row(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.InputInvalid, message, stage="source", where={}, remedy=remedy)
