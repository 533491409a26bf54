"""The record of each pane as JSON text. It is large, so it is made when its tab is opened."""

from __future__ import annotations

import json
from typing import Any

from inspector.ui.views.base import View

TABLES = (
    "segments",
    "changes",
    "uncovered",
    "listed",
    "media",
    "silenced",
    "withheld",
)  # lists of objects: one row a line


def text(record: dict[str, Any]) -> str:
    """Write a record as JSON that a person can read: two spaces a level, one line for each row of a table.

    >>> print(text({"segments": [{"end": 1}, {"end": 2}], "input_ids": [1, 2]}))
    {
      "segments": [
        {"end": 1},
        {"end": 2}
      ],
      "input_ids": [1, 2]
    }
    """
    return _written(record, "", "")


def _written(value: Any, key: str, indent: str) -> str:
    inner = indent + "  "
    if isinstance(value, dict) and value:
        items = [f"{inner}{_line(str(name))}: {_written(entry, str(name), inner)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and value and key in TABLES:
        return "[\n" + ",\n".join(inner + _line(row) for row in value) + f"\n{indent}]"
    if isinstance(value, list) and any(isinstance(entry, (dict, list)) for entry in value):
        return "[\n" + ",\n".join(inner + _written(entry, "", inner) for entry in value) + f"\n{indent}]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


VIEW = View("record")
