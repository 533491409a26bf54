"""The images of a request: the `media` and `media_rule` of inspection/1; null where it has none, and the tab is hidden."""

from __future__ import annotations

from typing import Any

from inspector.ui.views.base import View


def data(inspection: Any) -> dict[str, Any] | None:
    """Give the items and how they are counted."""
    media = inspection.media
    return None if media is None else {"items": media.items_dict(), "how": media.rule_dict()}


VIEW = View("media", data)
