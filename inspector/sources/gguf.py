"""`gguf:PATH`: one GGUF file on this disk. Its digest is its identity; its metadata is read by the family `gguf`."""

from __future__ import annotations

from pathlib import Path

from inspector.sources import cache
from inspector.sources.folder import local_file
from inspector.tokenizers.base import ArtifactFile


class GgufSource:
    """A GGUF file."""

    scheme = "gguf"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the file with its SHA-256, under a name that says what it is."""
        file = local_file(Path(rest).expanduser())
        name = file.name if file.name.endswith(".gguf") else f"{file.name}.gguf"
        return (ArtifactFile(name, file.path, file.sha256),)
