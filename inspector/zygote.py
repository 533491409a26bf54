"""The far side of the sandbox: the zygote that forks, and the child that takes its limits and runs one job at a time.

The zygote is a fresh single-threaded interpreter: it preloads what the jobs need, then serves three records from the
caller (sandbox.py): fork a child with these descriptors; kill and reap one and report; kill one and say nothing. EOF
ends it and every child. The child reads what more than all others it may read, confines itself and says hello; then it reads a request, says that it begins, puts the request's rlimits in force, runs the
job and answers.

Nothing here trusts the job: any exception leaves as a typed error without traceback or paths. A child is confined
(confinement.py) before it reads its first request.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from inspector.confinement import confine
from inspector.errors import ErrorKind, InspectorError, clipped
from inspector.limits import MIB, Limits, or_raise, use
from inspector.meter import Meter
from inspector.processes import Frame, pack_frame, read_frame

LEAVING_TICK_S = 0.05  # how often a killed child is looked after
EXIT_FAILED, EXIT_MEMORY = 70, 71  # how a child ends that cannot even answer

# ------------------------------------------------------------------------------------------------ the child's side


def _child_main(
    sock: socket.socket, jobs: Mapping[str, Callable[[bytes], bytes]], confined: Callable[[list[str]], None]
) -> NoReturn:
    """Answer requests until the caller closes the socket."""
    baseline = _address_space_bytes()
    try:
        _, raw = read_frame(sock, MIB)
    except (EOFError, OSError):
        os._exit(0)
    confined(json.loads(raw))
    meter = Meter(sock)
    sock.sendall(pack_frame(Frame.HELLO, struct.pack("!I", os.getpid())))
    while True:
        try:
            _, raw = read_frame(sock, MIB)
            header = json.loads(raw)
            _, payload = read_frame(sock, header["limits"]["payload_bytes"])
        except EOFError:
            os._exit(0)
        except MemoryError:  # a warm child whose caches left no room for the payload
            os._exit(EXIT_MEMORY)
        sock.sendall(pack_frame(Frame.BEGUN, b""))
        limits = Limits.from_dict(header["limits"])
        use(limits)
        _apply_limits(limits, baseline)
        meter.start(limits, once=header["once"])
        kind, body = _run_job(jobs[header["job"]], payload, header["job"], limits)
        meter.stop()
        try:
            sock.sendall(pack_frame(kind, body))
        except OSError:
            os._exit(0)


def _run_job(job: Callable[[bytes], bytes], payload: bytes, name: str, limits: Limits) -> tuple[int, bytes]:
    """Run the job; any exception becomes an ERROR frame without traceback or paths."""
    try:
        answer = job(payload)
        if type(answer) is not bytes:
            raise TypeError
    except BaseException as fault:
        error = _typed_error(fault, name, limits)
        del fault  # its frames may hold what filled the memory
    else:
        if len(answer) <= limits.answer_bytes:
            return Frame.OK, answer
        error = answer_too_large(len(answer), limits.answer_bytes)
        del answer
    record = error.to_dict()
    record["message"] = clipped(record["message"])
    record["remedy"] = clipped(record["remedy"])
    try:
        return Frame.ERROR, json.dumps(record).encode()
    except (TypeError, ValueError):
        return Frame.ERROR, json.dumps(record | {"where": None}).encode()


def _typed_error(fault: BaseException, name: str, limits: Limits) -> InspectorError:
    """Map an exception of a job to an error that names the limit, or the exception's type and nothing else of it."""
    if isinstance(fault, InspectorError):
        return fault
    if isinstance(fault, MemoryError):
        return memory_limit(limits.memory_mb)
    if isinstance(fault, RecursionError):
        return InspectorError(
            ErrorKind.RecursionLimit,
            f"the input nests deeper than the interpreter's stack of {sys.getrecursionlimit()} frames",
            stage="sandbox",
            remedy="nest the messages, tools or template less deeply",
        )
    if isinstance(fault, PermissionError):
        return InspectorError(
            ErrorKind.SandboxBlocked,
            f"the job {name!r} asked the system for what the sandbox refuses: a file, a socket or a process",
            stage="sandbox",
            remedy="if the input is an ordinary one, this is a fault of the tool: please report it with the input",
        )
    if type(fault).__name__ == "PanicException":
        return InspectorError(
            ErrorKind.TokenizerInvalid,
            "the tokenizer library broke off (a Rust panic) on this tokenizer or text",
            stage="sandbox",
            remedy="check tokenizer.json; the file does not describe a tokenizer that the library can run",
        )
    return InspectorError(
        ErrorKind.WorkerCrashed,
        f"the job {name!r} failed with an unexpected {type(fault).__name__}",
        stage="sandbox",
        remedy="this is a fault of the tool: please report it with the input",
    )


def _address_space_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _apply_limits(limits: Limits, baseline: int) -> None:
    """Put the request's rlimits in force, but for that of CPU time, which meter.py moves.

    On Linux a limit that cannot be set ends the child; elsewhere (macOS refuses RLIMIT_AS) `status()` shows it as not in
    force.
    """
    import resource

    memory = baseline + limits.memory_mb * MIB
    wanted = (
        ("RLIMIT_AS", memory),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_NOFILE", limits.max_files),
        ("RLIMIT_CORE", 0),
    )
    for name, value in wanted:
        try:
            number = getattr(resource, name)
            ceiling = resource.getrlimit(number)[1]
            value = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
            resource.setrlimit(number, (value, value))
        except (AttributeError, ValueError, OSError):
            if sys.platform == "linux":
                raise


# ----------------------------------------------------------------------------------------------- the zygote's side

RECORD = struct.Struct("!cI")  # operation, number of the child
REPORT = struct.Struct("!Iid")  # number of the child, wait status (-1: no such child), CPU seconds
FORK, RELEASE, REAP = b"F", b"R", b"W"
NO_CHILD = -1


def zygote_main(config: dict[str, Any]) -> NoReturn:
    """Preload, then serve fork, release and reap records until the caller is gone."""
    ctl = socket.socket(fileno=config["ctl"])
    for name in config["preload"]:
        importlib.import_module(name)
    jobs = {name: _resolve(target) for name, target in config["jobs"].items()}
    if config["warm"]:
        _resolve(config["warm"])()
    if config["tokenizers"]:
        _resolve("inspector.jobs:preload")(config["tokenizers"])
    gc.collect()
    gc.freeze()  # children then do not copy pages only because the collector touched them
    _serve(ctl, jobs, lambda more: confine([*config["readable"], *more], config["withheld"]))


def _resolve(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)


def _serve(
    ctl: socket.socket, jobs: Mapping[str, Callable[[bytes], bytes]], confined: Callable[[list[str]], None]
) -> NoReturn:
    children: dict[int, int] = {}  # number -> pid
    leaving: set[int] = set()  # pids that were killed and not reaped yet
    while True:
        ready, _, _ = select.select([ctl], [], [], LEAVING_TICK_S if leaving else None)
        leaving = {pid for pid in leaving if os.waitpid(pid, os.WNOHANG)[0] == 0}
        if not ready:
            continue
        operation, number, fds = _receive_record(ctl)
        if operation == FORK:
            pid = _fork_child(fds, jobs, confined)
            if pid:
                children[number] = pid
        elif operation == REAP:
            ctl.sendall(_reap(number, children.pop(number, 0)))
        elif operation == RELEASE:  # of one that was reaped before: nothing is left to do
            leaving |= {_kill(pid) for pid in (children.pop(number, 0),) if pid}
        else:
            for pid in children.values():
                _kill(pid)
            os._exit(0)


def _receive_record(ctl: socket.socket) -> tuple[bytes, int, list[int]]:
    """Read one record and the descriptors sent with it; operation b"" when the caller is gone."""
    try:
        data, fds, _, _ = socket.recv_fds(ctl, RECORD.size, 2)
        while data and len(data) < RECORD.size:
            more = ctl.recv(RECORD.size - len(data))
            data = data + more if more else b""
    except ConnectionError:
        data, fds = b"", []
    operation, number = RECORD.unpack(data) if data else (b"", 0)
    return operation, number, list(fds)


def _fork_child(
    fds: list[int], jobs: Mapping[str, Callable[[bytes], bytes]], confined: Callable[[list[str]], None]
) -> int:
    """Fork; the child never returns. Gives the pid, or 0 when no process could be had (the caller then reads EOF)."""
    zygote = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        try:
            sock = _become_child(fds, zygote)
            _child_main(sock, jobs, confined)
        finally:
            os._exit(EXIT_FAILED)
    for fd in fds:
        os.close(fd)
    return max(pid, 0)


def _become_child(fds: list[int], zygote: int) -> socket.socket:
    """Own session, no descriptors but the socket and standard error, first in line for the kernel's OOM killer."""
    os.setsid()
    _die_with_parent(zygote)
    os.dup2(fds[1], 1)
    os.dup2(fds[1], 2)
    os.dup2(fds[0], 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    return socket.socket(fileno=3)


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process with its parent. Elsewhere EOF on the socket ends it after its request."""
    if sys.platform != "linux":
        return
    import ctypes

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _kill(pid: int) -> int:
    """Kill the child and whatever it forked (its session's process group)."""
    for kill in (os.killpg, os.kill):  # the group does not exist before the child's setsid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return pid


def _reap(number: int, pid: int) -> bytes:
    """Kill, wait, and report. A child that was already dying keeps the status of its own death."""
    if not pid:
        return REPORT.pack(number, NO_CHILD, 0.0)
    _, status, usage = os.wait4(_kill(pid), 0)
    return REPORT.pack(number, status, usage.ru_utime + usage.ru_stime)


# ---------------------------------------------------------------------------------------- errors of both sides


def memory_limit(limit: int) -> InspectorError:
    return InspectorError(
        ErrorKind.MemoryLimit,
        f"the request needs more than the limit of {limit} MiB of memory",
        stage="sandbox",
        where={"limit": "memory_mb"},
        remedy=or_raise("make the input, the tokenizer file or what the template builds smaller", "memory_mb"),
    )


def answer_too_large(size: int, limit: int) -> InspectorError:
    return InspectorError(
        ErrorKind.OutputTooLarge,
        f"the answer has {size:,} bytes; the limit is {limit:,}",
        stage="sandbox",
        where={"limit": "answer_bytes"},
        remedy=or_raise("make the input or what the template writes smaller", "answer_bytes"),
    )
