"""Reads view/2, the page's own format, as static/pane.js does it."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def applied(held: dict[str, Any] | None, answer: dict[str, Any]) -> dict[str, Any]:
    """Give what the page holds after a pane's answer, as static/pane.js does it."""
    before = held if answer["base"] is not None else None
    columns: dict[str, np.ndarray] = dict(before["columns"]) if before else {}
    data, at = base64.b64decode(answer["data"]), 0
    data = zlib.decompress(data) if answer["deflate"] else data
    for name, dtype, size, head, tail in answer["columns"]:
        count, width = size - head - tail, int(dtype[1])
        planes = np.frombuffer(data, np.uint8, count * width, at).reshape(width, count)
        middle = np.ascontiguousarray(planes.T).view(f"<{dtype}").reshape(-1).astype(np.int64)
        old, at = columns.get(name, np.empty(0, np.int64)), at + count * width
        columns[name] = np.concatenate((old[:head], middle, old[len(old) - tail :]))
        assert len(columns[name]) == size
    assert at == len(data)
    head, tail, middle = answer["paths"]
    old_paths = before["paths"] if before else []
    vocabulary = answer["vocabulary"]
    names = {} if vocabulary["reset"] or not before else dict(before["names"])
    for k, (token_id, piece) in enumerate(zip(vocabulary["ids"], vocabulary["pieces"], strict=True)):
        names[token_id] = (piece, vocabulary["bytes"].get(str(k)))
    return {
        "number": answer["number"],
        "columns": columns,
        "paths": old_paths[:head] + middle + old_paths[len(old_paths) - tail :],
        "names": names,
        "info": {**(before["info"] if before else {}), **answer["info"]},
    }
