"""`gguf:PATH`: one GGUF file on this disk. Its digest is its identity; its metadata is read by the family `gguf`."""

from __future__ import annotations

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.folder import local_file, local_path, missing
from inspector.sources.names import looks_like_lfs_pointer, pointer_instead
from inspector.tokenizers.base import ArtifactFile


class GgufSource:
    """A GGUF file."""

    scheme = "gguf"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the file with its SHA-256, under a name that says what it is.

        Errors: FileNameInvalid; GgufInvalid if it does not begin as a GGUF does.
        """
        path = local_path(rest)
        file = local_file(path)
        try:
            with path.open("rb") as stream:
                head = stream.read(64)
        except OSError as error:
            raise missing(path, str(error.strerror)) from error
        if looks_like_lfs_pointer(head):
            raise pointer_instead(path.name, path=str(path))
        if not head.startswith(b"GGUF"):
            raise InspectorError(
                ErrorKind.GgufInvalid,
                f"{str(path)!r} does not start with GGUF",
                stage="source",
                where={"byte": 0, "field": "magic"},
                remedy="give a .gguf file; a tokenizer.json or a folder is named with folder:PATH",
            )
        name = file.name if file.name.endswith(".gguf") else f"{file.name}.gguf"
        return (ArtifactFile(name, file.path, file.sha256),)
