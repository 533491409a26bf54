"""Next-token probabilities. They need a model, so they are asked for when the tab is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspector.ui.views.base import View


def answer(panes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Give the answer to a request for logits: per pane the `logits` object of `inspection/1`, or `{error}`."""
    return {"panes": list(panes)}


VIEW = View("logits")
