"""What a source of artifacts is: the spelling of a reference, a pinned file, and the protocol of one source.

Nothing here touches the network or the disk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inspector.errors import ErrorKind, InspectorError
from inspector.sources.cache import Progress
from inspector.tokenizers.base import ArtifactFile


@dataclass(frozen=True, slots=True)
class Archive:
    """A package or repository at one version.

    `integrity` is the hash that the whole archive must have: "sha256:HEX" (wheels) or "sha512-BASE64" (npm);
    empty where a person named a package that no preset pins. `size`: bytes, 0 where not known.
    """

    scheme: str
    package: str
    version: str
    integrity: str = ""
    size: int = 0

    @property
    def ref(self) -> str:
        """The spelling without a member: `pypi:NAME==VER`, `npm:NAME@VER`, `hf:ORG/NAME@REV`."""
        return f"{self.scheme}:{self.package}{'==' if self.scheme == 'pypi' else '@'}{self.version}"


@dataclass(frozen=True, slots=True)
class Pin:
    """A file that must have one SHA-256, and the references that can give it, in order of preference."""

    name: str
    sha256: str
    sources: tuple[str, ...]
    size: int = 0


class Source(Protocol):
    """One place where files come from."""

    scheme: str

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Split what follows `scheme:` into an archive and a member ("" if none is named).

        Errors: RepoNameInvalid, RevisionInvalid, FileNameInvalid, OptionInvalid — before any network.
        """
        ...

    def settle(self, archive: Archive) -> tuple[Archive, str]:
        """Give the archive at a version that never changes, and the scope of what it gives: "" for everybody.

        Errors: those of the source, where a name has to be looked up.
        """
        return archive, ""

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: Progress | None
    ) -> dict[str, Path]:
        """Bring those members of the archive that it holds into `folder`; give member -> file.

        Errors: ArtifactUnavailable, ArtifactMismatch (the archive's own hash), Hub*.
        """
        ...


class LocalSource(Protocol):
    """A place on this disk, or one that is named differently from its files."""

    scheme: str

    def files(self, rest: str, names: tuple[str, ...], progress: Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the files that `scheme:rest` names: those of `names` that a folder has, or the one file itself.

        Errors: FileNameInvalid, UnknownPreset, ArtifactUnavailable, ArtifactMismatch.
        """
        ...


def unavailable(message: str, remedy: str, **where: str) -> InspectorError:
    """Build the error of an artifact that cannot be had."""
    return InspectorError(ErrorKind.ArtifactUnavailable, message, stage="source", where=dict(where), remedy=remedy)


def split_member(rest: str) -> tuple[str, str]:
    """Split `PACKAGE!member`; check the member's path.

    Errors: FileNameInvalid for absolute paths, `..`, backslashes and control characters.
    """
    package, _, member = rest.partition("!")
    parts = member.split("/")
    bad = member.startswith("/") or ".." in parts or re.search(r"[\x00-\x1f\\]", member)
    if bad or len(member) > 512:
        raise InspectorError(
            ErrorKind.FileNameInvalid,
            f"{member!r} is not a path inside an archive",
            stage="source",
            where={"ref": rest[:200]},
            remedy="name one member by its path, like package/models/tokenizer.json",
        )
    return package, member
