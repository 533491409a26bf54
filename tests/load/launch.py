"""Start app.py as the load tests want it: on a disk of its own, without the power to write where it may not, with a
clock that can jump, and with a Hub that is given up after another time. Run as `python launch.py JSON`; see server.py, which writes the JSON.

A disk of its own is a tmpfs in a mount namespace of the process, so it is gone with the process whatever happens. A second
process stays behind in that namespace and mounts the disk read-only when it is told to: containers that let a process have a disk
need not let another one into its namespace.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import socket
import struct
import sys
import time
from pathlib import Path

CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1, 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
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


def remount(folder: str, *, read_only: bool) -> None:
    """Mount the disk of `small_disk` over itself, read-only; or take that mount away. Errors: OSError.

    MS_REMOUNT of the disk as such is refused for as long as a file of it is open for writing, a lock for instance.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    place = folder.encode()
    calls = [lambda: libc.umount2(place, MNT_DETACH)]
    if read_only:
        calls = [
            lambda: libc.mount(place, place, None, MS_BIND, None),
            lambda: libc.mount(None, place, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None),
        ]
    for call in calls:
        if call() != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def leave_keeper(folder: str, control: int) -> None:
    """Fork a process that does `remount` for whoever holds the other end of a socket, and ends when that one is closed.

    Its answer is a line: 0, or the number of the error. It is no descendant of this process, so it is counted nowhere.
    """
    if child := os.fork():
        os.waitpid(child, 0)
        os.close(control)
        return
    if os.fork():
        os._exit(0)
    with socket.socket(fileno=control) as end, end.makefile("rw") as lines:
        for line in lines:
            number = 0
            try:
                remount(folder, read_only=line == "ro\n")
            except OSError as error:
                number = error.errno or -1
            lines.write(f"{number}\n")
            lines.flush()
    os._exit(0)


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


def probe(folder: str) -> None:
    """For each line of standard input try to write a file of that name, and say 0 or the number of the error."""
    for name in sys.stdin:
        number = 0
        try:
            Path(folder, name.strip()).touch(exist_ok=False)
        except OSError as error:
            number = error.errno or -1
        print(number, flush=True)


def main() -> None:
    """First as whoever started it; then again as the interpreter that runs app.py."""
    config = json.loads(sys.argv[1])
    if not config.get("prepared"):
        if config["disk"]:
            small_disk(config["cache"], config["disk"])
            leave_keeper(config["cache"], config["control"])
            shutil.copytree(config["seed"], config["cache"], dirs_exist_ok=True)
        obey_modes()
        given = json.dumps({**config, "prepared": True})
        os.execv(sys.executable, [sys.executable, "-P", __file__, given])
    if config.get("probe"):
        probe(config["cache"])
        return
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
