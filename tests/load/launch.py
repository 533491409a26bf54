"""Start app.py as the load tests want it: on a disk of its own, without the power to write where it may not, with a
clock that can jump, and with a Hub that is given up after another time. Run as `python launch.py JSON`; see server.py, which writes the JSON.

A disk of its own is a tmpfs in a mount namespace of the process, so it is gone with the process whatever happens.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import struct
import sys
import time
from pathlib import Path

CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20000, 0x1, 0x20, 0x4000, 0x40000
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def small_disk(folder: str, size: int) -> None:
    """Mount a tmpfs of `size` bytes that only this process and its children see. Errors: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for done in (
        libc.unshare(CLONE_NEWNS),
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
        libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, f"size={size}".encode()),
    ):
        if done != 0:
            raise OSError(ctypes.get_errno(), "no disk of its own")


def remount(pid: int, folder: str, *, read_only: bool) -> None:
    """Let nobody write to, or everybody write to, the disk that `small_disk` gave a process. Ends up in its namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{pid}/ns/mnt", "rb") as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "no way into its namespace")
    if libc.mount(b"tmpfs", folder.encode(), b"tmpfs", MS_REMOUNT | (MS_RDONLY if read_only else 0), None) != 0:
        raise OSError(ctypes.get_errno(), "not remounted")


def obey_modes() -> None:
    """Give up what lets root write into a read-only folder, so that a folder's mode means something in a container."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def jumping_clock(path: str) -> None:
    """Let the wall clock of this interpreter be off by the seconds that the file holds, a double."""
    with open(path, "r+b") as file:
        held = mmap.mmap(file.fileno(), 8)
    real, real_ns = time.time, time.time_ns
    offset = struct.Struct("=d")
    time.time = lambda: real() + offset.unpack_from(held)[0]
    time.time_ns = lambda: real_ns() + int(offset.unpack_from(held)[0] * 1e9)


def main() -> None:
    """First as whoever started it; then again as the interpreter that runs app.py."""
    config = json.loads(sys.argv[1])
    if not config.get("prepared"):
        if config["disk"]:
            small_disk(config["cache"], config["disk"])
            shutil.copytree(config["seed"], config["cache"], dirs_exist_ok=True)
        obey_modes()
        given = json.dumps({**config, "prepared": True})
        os.execv(sys.executable, [sys.executable, "-P", __file__, given])
    import runpy

    jumping_clock(config["clock"])
    root = str(Path(__file__).parents[2])
    sys.path.insert(0, root)
    sys.argv = ["app.py"]
    from inspector.sources import hub, hub_http

    hub_http.DEADLINE_S = config["hub_deadline_s"]
    hub._RETRY_S = tuple(seconds * config["hub_deadline_s"] / 10 for seconds in hub._RETRY_S)
    runpy.run_path(os.path.join(root, "app.py"), run_name="__main__")


if __name__ == "__main__":
    main()
