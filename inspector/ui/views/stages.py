"""The four stages of a stretch of text, in one tokenizer after the other; asked for when the tab is opened.

stages.py traces; here its value loses what the page does not draw, and a stretch is bounded. Nothing is judged.
"""

from __future__ import annotations

from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views.base import View

MAX_CHARS = 2_000  # of a stretch on the page: every merge of it may be opened
CHANGED_POINTS = 12  # code points named on either side of one change


def checked_text(text: Any) -> str:
    """Give the stretch.

    Errors: OptionInvalid for what is no text; InputTooLarge over MAX_CHARS.
    """
    if not isinstance(text, str):
        raise InspectorError(ErrorKind.OptionInvalid, "there is no text", stage="options", remedy="reload the page")
    if len(text) > MAX_CHARS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the text has {len(text):,} characters, the page traces up to {MAX_CHARS:,}",
            stage="encode",
            where={"option": "text"},
            remedy="select a shorter stretch, or run python -m inspector stages",
        )
    return text


def table(trace: dict[str, Any]) -> dict[str, Any]:
    """Give `stages/1` with the names of few code points a change, and every merge tree as a list of nodes."""
    sections = [
        {
            **section,
            "rewrites": [_rewrite(row) for row in section["rewrites"]],
            "pieces": [_piece(piece) for piece in section["pieces"]],
        }
        for section in trace["sections"]
    ]
    return {**trace, "sections": sections}


def _rewrite(row: dict[str, Any]) -> dict[str, Any]:
    sides = {name: row[name][:CHANGED_POINTS] for name in ("points_before", "points_after")}
    more = {f"more_{name[7:]}": max(0, len(row[name]) - CHANGED_POINTS) for name in sides}
    return {**row, **sides, **more}


def _piece(piece: dict[str, Any]) -> dict[str, Any]:
    nodes, roots = flat(piece["tree"])
    return {**{name: value for name, value in piece.items() if name != "tree"}, "nodes": nodes, "roots": roots}


def flat(trees: list[dict[str, Any]]) -> tuple[list[list[Any]], list[int]]:
    """Lay merge trees out as rows [text, rank, left, right], left to right and children first; and the roots' rows.

    A vocabulary may nest merges deeper than JSON readers go. A leaf has no rank and no children.

    >>> leaves = [{"text": text, "rank": None, "children": []} for text in "ab"]
    >>> flat([{"text": "ab", "rank": 7, "children": leaves}])
    ([['a', None, None, None], ['b', None, None, None], ['ab', 7, 0, 1]], [2])
    """
    rows: list[list[Any]] = []
    numbers: dict[int, int] = {}
    todo = list(reversed(trees))
    while todo:
        node = todo[-1]
        missing = [child for child in node["children"] if id(child) not in numbers]
        if missing:
            todo += reversed(missing)
            continue
        children: list[int | None] = [numbers[id(child)] for child in node["children"]]
        numbers[id(node)] = len(rows)
        rows.append([node["text"], node["rank"], *(children or (None, None))])
        todo.pop()
    return rows, [numbers[id(tree)] for tree in trees]


VIEW = View("stages")
