"""Next-token probabilities. They need a model, so they are asked for when the tab is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.errors import InspectorError
from inspector.ui.views.base import View


def answer(results: Sequence[tuple[dict[str, Any] | None, dict[str, Any] | None]]) -> dict[str, Any]:
    """Give the answer to a request for logits, from each pane's `logits` and `error` objects of `inspection/1`."""
    return {"panes": [_pane(logits, error) for logits, error in results]}


def _pane(logits: dict[str, Any] | None, error: dict[str, Any] | None) -> dict[str, Any]:
    if logits is not None:
        return logits
    return {"error": {"text": InspectorError.from_dict(error).one_line() if error else "no logits"}}


VIEW = View("logits")
