"""The template's source, its identity, what its lines did, and the arguments that it reads."""

from __future__ import annotations

import functools
from typing import Any

from inspector.errors import InspectorError
from inspector.ui.views.base import View


def data(inspection: Any) -> dict[str, Any] | None:
    """Give the template's text with what names it, the lines that hold code and those that ran, and its arguments."""
    template, rendered = inspection.template, inspection.rendered
    if template is None:
        return None
    names = ("ref", "id", "revision", "name", "file", "digest", "text")
    return {
        **{name: getattr(template, name) for name in names},
        "lines_code": list(rendered.lines_code),
        "lines_ran": list(rendered.lines_ran),
        "arguments": arguments(template.text),
    }


@functools.lru_cache(maxsize=32)  # the same templates come again with every key that is pressed
def arguments(text: str) -> list[dict[str, Any]]:
    """Give the arguments of a template that has rendered; none where they cannot be told."""
    from inspector.template_arguments import template_arguments

    try:
        return [argument.to_dict() for argument in template_arguments(text)]
    except InspectorError:  # it rendered, with an engine that takes what the reference's parser does not
        return []


VIEW = View("template", data)
