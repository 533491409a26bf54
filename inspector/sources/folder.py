"""`folder:PATH`: files that a person already has. Their digest is their identity.

Only names of the fixed lists (names.py) are read; nothing is copied, nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.names import is_template_name
from inspector.tokenizers.base import ArtifactFile
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES


class FolderSource:
    """A folder on this disk."""

    scheme = "folder"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give those of `names` that the folder has, and its additional chat templates."""
        folder = local_path(rest)
        found = local_files(folder, names)
        extra = sorted((folder / ADDITIONAL_TEMPLATES).glob("*.jinja")) if "chat_template.jinja" in names else []
        extra = [path for path in extra if is_template_name(path.name)]
        return found + tuple(replace(local_file(path), name=ADDITIONAL_TEMPLATES + path.name) for path in extra)


def local_path(text: str) -> Path:
    """Give the path that a person wrote; nothing needs to be there.

    Errors: FileNameInvalid for what can be no path here: a name that is too long, a home that nobody has.
    """
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:
        raise missing(Path(text), getattr(error, "strerror", None) or str(error).rstrip(".")) from error
    return path


def local_files(path: Path, names: tuple[str, ...]) -> tuple[ArtifactFile, ...]:
    """Give those of the named files that the folder has, each with its SHA-256.

    Errors: FileNameInvalid if the folder is not there; ArtifactUnavailable if a file cannot be read.
    """
    if not path.is_dir():
        raise missing(path, "no folder is there")
    return tuple(local_file(path / name) for name in names if (path / name).is_file())


def local_file(path: Path) -> ArtifactFile:
    """Give one local file with its SHA-256."""
    if not path.is_file():
        raise missing(path, "no file is there")
    try:
        return ArtifactFile(path.name, str(path.resolve()), cache.sha256_of(path))
    except OSError as error:
        raise missing(path, str(error.strerror)) from error


def missing(path: Path, why: str) -> InspectorError:
    """Build the error of a path that cannot be read."""
    return InspectorError(
        ErrorKind.FileNameInvalid,
        f"{str(path)[:200]!r}: {why}",
        stage="source",
        where={"path": str(path)[:200]},
        remedy="give the path of a folder with tokenizer.json, of a vocabulary file, or of a template file",
    )
