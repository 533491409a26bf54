"""`tiktoken:NAME`: the rank file of an encoding, by the hash that its preset pins.

The tiktoken package itself expects the same hash; its own download is never used.
"""

from __future__ import annotations

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.tokenizers.base import ArtifactFile


class TiktokenSource:
    """Encodings by the names that the tiktoken package gives them (`o200k_base`)."""

    scheme = "tiktoken"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the encoding's rank file."""
        from inspector import presets, sources

        return sources.obtain(presets.tokenizers()[preset_of(rest)].pins, progress)


def preset_of(encoding: str) -> str:
    """Give the id of the preset of an encoding.

    Errors: UnknownPreset.
    """
    from inspector import presets

    known = {
        preset.settings["encoding"]: preset.id
        for preset in presets.tokenizers().values()
        if "encoding" in preset.settings
    }
    if encoding not in known:
        raise InspectorError(
            ErrorKind.UnknownPreset,
            f"no preset has the encoding {encoding[:120]!r}",
            stage="source",
            where={"ref": f"tiktoken:{encoding[:200]}"},
            remedy=f"known encodings: {', '.join(known)}",
        )
    return known[encoding]
