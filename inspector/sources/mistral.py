"""`mistral:NAME`: a vocabulary inside the mistral-common package: the installed one, else the pinned wheel.

An installed file is compared with the hash that its package recorded when it was installed. Nothing of the package is
imported or run.
"""

from __future__ import annotations

import base64
import difflib
import importlib.metadata
import re
from pathlib import Path, PurePosixPath

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import unavailable
from inspector.tokenizers.base import ArtifactFile

PACKAGE = "mistral-common"
_FOLDER = "mistral_common/data"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_VOCABULARY = re.compile(r"tekken_\d+\.json|\w+\.model\.v\d+(?:m\d+)?")


class MistralSource:
    """Vocabularies by their file's name (`tekken_240911.json`, `tokenizer.model.v1`)."""

    scheme = "mistral"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the one file.

        Errors: FileNameInvalid, UnknownPreset with the nearest names, ArtifactMismatch, ArtifactUnavailable.
        """
        if not _NAME.fullmatch(rest):
            raise InspectorError(
                ErrorKind.FileNameInvalid,
                f"{rest[:120]!r} is not the name of a file in {PACKAGE}",
                stage="source",
                where={"ref": f"mistral:{rest[:200]}"},
                remedy="write it like mistral:tekken_240911.json",
            )
        recorded = _installed()
        return (_own_file(rest, recorded),) if recorded else _from_wheel(rest, progress)


def _installed() -> dict[str, tuple[Path, str]]:
    """Give name -> (path, recorded "sha256=BASE64") of the vocabularies of the installed package; {} without it."""
    try:
        files = importlib.metadata.distribution(PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {
        file.name: (Path(str(file.locate())), f"{file.hash.mode}={file.hash.value}" if file.hash else "")
        for file in files
        if str(PurePosixPath(file).parent) == _FOLDER and _VOCABULARY.fullmatch(file.name)
    }


def _own_file(name: str, recorded: dict[str, tuple[Path, str]]) -> ArtifactFile:
    if name not in recorded:
        raise _unknown(name, list(recorded))
    path, stated = recorded[name]
    try:
        sha256 = cache.sha256_of(path)
    except OSError as error:
        raise unavailable(
            f"{name} of {PACKAGE} cannot be read: {error.strerror}", f"install {PACKAGE} again"
        ) from error
    actual = "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b"=").decode()
    if stated != actual:
        raise InspectorError(
            ErrorKind.ArtifactMismatch,
            f"{name} of the installed {PACKAGE} has {actual}, its package recorded {stated or 'no hash'}",
            stage="source",
            where={"file": name},
            remedy=f"install {PACKAGE} again: the file was changed after it was installed",
        )
    return ArtifactFile(name, str(path), sha256)


def _from_wheel(name: str, progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
    from inspector import sources
    from inspector.sources.pins import archives

    pinned = next(archive for archive in archives().values() if archive.package == PACKAGE)
    try:
        return sources.obtain_unpinned(f"{pinned.ref}!{_FOLDER}/{name}", (), progress)[1]
    except InspectorError as error:
        if "holds none of" in error.message:
            raise _unknown(name, []) from error
        raise


def _unknown(name: str, known: list[str]) -> InspectorError:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.3) or sorted(known)[:3]
    return InspectorError(
        ErrorKind.UnknownPreset,
        f"{PACKAGE} has no vocabulary {name[:120]!r}",
        stage="source",
        where={"ref": f"mistral:{name[:200]}"},
        remedy=f"nearest: {', '.join(near)}" if near else "write it like mistral:tekken_240911.json",
    )
