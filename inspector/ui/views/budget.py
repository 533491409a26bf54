"""The budget decision, as in the record; null without a context window."""

from __future__ import annotations

from typing import Any

from inspector.ui.views.base import View


def data(inspection: Any) -> dict[str, Any] | None:
    """Give the `budget` object of `inspection/1`."""
    return None if inspection.budget is None else inspection.budget.to_dict()


VIEW = View("budget", data)
