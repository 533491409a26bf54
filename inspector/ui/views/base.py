"""What a view is. It holds no view itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class View:
    """One tab. `id` names its script `static/view_<id>.js` and its title `view_<id>` in strings/.

    `data` gives what a pane's answer carries for it beyond the columns that all views share (None: nothing, or it is
    asked for when the tab is opened); it must be a JSON value.
    """

    id: str
    data: Callable[[Any], Any] | None = None
