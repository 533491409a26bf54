"""axe-core, the accessibility checker, from its npm package at one version; and its run on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspector import sources

AXE = sources.Pin(
    "axe.min.js",
    "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
    ("npm:axe-core@4.14.1!axe.min.js",),
)


def add_axe(page: Any) -> None:
    """Put axe-core into a page, as a value of the page's own world: nothing is asked of a server."""
    page.evaluate(Path(sources.obtain((AXE,))[0].path).read_text("utf-8") + "; 0")


def faults(page: Any, impacts: tuple[str, ...] = ("serious", "critical")) -> list[str]:
    """Give what axe finds on the page as it is, one line a node."""
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]} - {node['failureSummary'][:160]}"
        for rule in found
        if rule["impact"] in impacts
        for node in rule["nodes"][:5]
    ]
