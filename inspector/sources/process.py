"""Run a registry's own client as a child process, with progress from the bytes it has written so far.

The client brings the user's configuration (index, proxy, credentials of its own); this module adds none, and keeps from it
what else the environment holds of secrets: which package is fetched may be a stranger's choice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

from inspector.processes import SECRET_NAMES
from inspector.sources.base import unavailable
from inspector.sources.cache import Progress, disk_errors

_DEADLINE_S = 900
_STALL_S = 45
_POLL_S = 0.1
_MAX_BYTES = 4 << 30  # a package that a visitor named must not fill the disk
_LEAST_FREE_BYTES = 1 << 20  # with less, it is the disk that stopped the client, whatever it says


def run_client(
    command: list[str], folder: Path, label: str, size: int, progress: Progress | None, environment: dict[str, str]
) -> str:
    """Run the client, wait for it, return its stdout.

    Errors: ArtifactUnavailable with the client's own last line.
    """
    output, errors = folder / "stdout", folder / "stderr"
    with output.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**_own(), **environment}
        )
        try:
            _wait(child, folder, label, size, progress)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    if child.returncode and shutil.disk_usage(folder).free < _LEAST_FREE_BYTES:
        with disk_errors():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if child.returncode:
        reason = _reason(errors.read_text("utf-8", "replace")) or f"exit status {child.returncode}"
        raise unavailable(
            f"{label} could not be fetched: {reason}", "check the network and the client's own configuration", ref=label
        )
    return output.read_text("utf-8", "replace")


def _own() -> dict[str, str]:
    """Give the environment without the secrets that are not the client's own."""
    own = ("PIP_", "NPM_", "NODE_")
    return {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(own) or not SECRET_NAMES.search(name.upper())
    }


def _wait(child: subprocess.Popen, folder: Path, label: str, size: int, progress: Progress | None) -> None:
    started = moved = time.monotonic()
    written = 0
    while child.poll() is None:
        now, before = time.monotonic(), written
        written = _written(folder)
        if written > _MAX_BYTES:
            raise unavailable(f"{label} is larger than {_MAX_BYTES:,} bytes", "name a smaller package", ref=label)
        moved = now if written != before else moved
        if now - started > _DEADLINE_S or now - moved > _STALL_S:
            waited = f"nothing came for {_STALL_S} s" if now - moved > _STALL_S else f"not there after {_DEADLINE_S} s"
            raise unavailable(f"{label}: {waited}", "check the network, then try again", ref=label)
        if progress:
            progress(min(written, size) if size else written, size, label)
        time.sleep(_POLL_S)
    if progress and not child.returncode:
        progress(size, size, label)


def _written(folder: Path) -> int:
    """Count the bytes below a folder, while the client makes and removes files and folders in it."""
    total = 0
    for parent, _folders, names in os.walk(folder):  # unlike rglob, it passes over a folder that has just gone
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _reason(text: str) -> str:
    """Pick the line that says why: the last one that names an error, without the client's own prefix."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
    telling = [line for line in named if "complete log" not in line and len(line.split()) > 3]
    chosen = telling[:1] if any("npm" in line for line in telling[:1]) else telling[-1:]
    return " ".join((chosen or lines[-1:] or [""])[0].split())[:300]
