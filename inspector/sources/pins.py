"""The archives that presets pin: package, version, size and the hash of the whole archive (presets/archives.toml)."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from inspector.sources.base import Archive

PRESETS_FOLDER = Path(__file__).resolve().parent.parent.parent / "presets"


@functools.cache
def archives() -> dict[str, Archive]:
    """Give the pinned archives by their reference (`pypi:NAME==VER`, `npm:NAME@VER`)."""
    table = tomllib.loads((PRESETS_FOLDER / "archives.toml").read_text("utf-8"))
    return {ref: _archive(ref, entry) for ref, entry in table.items()}


def _archive(ref: str, entry: dict) -> Archive:
    scheme, _, rest = ref.partition(":")
    package, _, version = rest.partition("==") if scheme == "pypi" else rest.rpartition("@")
    return Archive(scheme, package, version, entry["integrity"], entry["size"])
