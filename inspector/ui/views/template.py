"""The template's source and its identity."""

from __future__ import annotations

from typing import Any

from inspector.ui.views.base import View


def data(inspection: Any) -> dict[str, Any] | None:
    """Give the template's text with what names it."""
    template = inspection.template
    if template is None:
        return None
    names = ("ref", "id", "revision", "name", "file", "digest", "text")
    return {name: getattr(template, name) for name in names}


VIEW = View("template", data)
