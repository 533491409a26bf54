"""What a sandbox child may ask of the kernel: an allow-list of system calls (seccomp) and of files to read (Landlock).

`confine` is called once in a child, before its first job; neither can be taken back. Both need no privilege. Where the
kernel lacks one of them (an old kernel, macOS, another processor), the other still applies, and `in_force` says so.
By ctypes: the package pyseccomp needs a library that a Space lacks, and landlock knows neither network nor signals.

What is refused ends in EPERM or EACCES, which the job sees as a PermissionError. Memory, time and file sizes are
the rlimits' business (zygote.py).
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable, Iterable

# ---------------------------------------------------------------------------------------------------- system calls

_COMMON = """
    read write readv writev pread64 close fstat lseek mmap mprotect munmap mremap madvise mincore brk
    rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
    newfstatat statx faccessat faccessat2 getdents64 getcwd readlinkat fadvise64 flock dup dup3 fcntl
    getpid gettid getppid getsid getuid geteuid getgid getegid sysinfo uname times getrusage setrlimit getrlimit
    clock_gettime clock_getres gettimeofday getitimer setitimer nanosleep clock_nanosleep sched_yield sched_getaffinity getcpu
    getrandom futex set_robust_list get_robust_list set_tid_address rseq membarrier restart_syscall
    exit exit_group ppoll pselect6 recvfrom sendto recvmsg sendmsg shutdown getsockopt getsockname getpeername
"""
# Names of old calls that only x86-64 still has.
_ONLY_X86 = "stat lstat access readlink poll select dup2 getdents time arch_prctl"

# What is let through for some arguments only.
_CLONE_THREAD = 0x10000
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_PRCTLS = (15, 16, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
_WRITES = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "mincore": 27,
    "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getitimer": 36, "setitimer": 38, "getpid": 39, "sendto": 44, "recvfrom": 45, "sendmsg": 46,
    "recvmsg": 47, "shutdown": 48, "getsockname": 51, "getpeername": 52, "getsockopt": 55, "clone": 56, "exit": 60,
    "kill": 62, "uname": 63, "fcntl": 72, "flock": 73, "getdents": 78, "getcwd": 79, "readlink": 89, "gettimeofday": 96,
    "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "getppid": 110, "getsid": 124, "sigaltstack": 131, "prctl": 157, "arch_prctl": 158, "setrlimit": 160, "gettid": 186,
    "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218,
    "restart_syscall": 219, "fadvise64": 221, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "tgkill": 234, "openat": 257, "newfstatat": 262, "readlinkat": 267, "faccessat": 269,
    "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "get_robust_list": 274, "dup3": 292, "prlimit64": 302,
    "getcpu": 309, "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "clone3": 435, "faccessat2": 439,
}  # fmt: skip
_AARCH64 = {
    "getcwd": 17, "dup": 23, "dup3": 24, "fcntl": 25, "ioctl": 29, "flock": 32, "faccessat": 48, "openat": 56, "close": 57,
    "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67, "pselect6": 72,
    "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93, "exit_group": 94, "set_tid_address": 96,
    "futex": 98, "set_robust_list": 99, "get_robust_list": 100, "nanosleep": 101, "getitimer": 102, "setitimer": 103, "clock_gettime": 113,
    "clock_getres": 114, "clock_nanosleep": 115, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "kill": 129,
    "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getsid": 156,
    "uname": 160, "getrlimit": 163, "setrlimit": 164, "getrusage": 165, "prctl": 167, "getcpu": 168, "gettimeofday": 169,
    "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178,
    "sysinfo": 179, "getsockname": 204, "getpeername": 205, "sendto": 206, "recvfrom": 207, "getsockopt": 209,
    "shutdown": 210, "sendmsg": 211, "recvmsg": 212, "brk": 214, "munmap": 215, "mremap": 216, "clone": 220, "mmap": 222,
    "fadvise64": 223, "mprotect": 226, "mincore": 232, "madvise": 233, "prlimit64": 261, "getrandom": 278,
    "membarrier": 283, "statx": 291, "rseq": 293, "clone3": 435, "faccessat2": 439,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}  # AUDIT_ARCH_*, numbers

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000  # SECCOMP_RET_*
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in seccomp_data; little-endian machines only


def _filter(machine: str, pid: int) -> list[tuple[int, int, int, int]]:
    """Assemble the filter of a machine: (code, jump if true, jump if false, operand)."""
    arch, numbers = _MACHINES[machine]
    program = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    names = _COMMON.split() + (_ONLY_X86.split() if machine == "x86_64" else [])
    for name in names:
        program += [(_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _ALLOW)]
    for name, check in (
        ("ioctl", _only(1, _IOCTLS, _EPERM)),
        ("prctl", _only(0, _PRCTLS, _EPERM)),
        ("prlimit64", _only(0, (0, pid), _EPERM)),
        ("tgkill", _only(0, (pid,), _EPERM)),
        ("kill", _only(0, (pid,), _EPERM)),
        ("clone", _with_bits(0, _CLONE_THREAD, _EPERM)),
        ("openat", _without_bits(2, _WRITES, _EACCES)),
        ("open", _without_bits(1, _WRITES, _EACCES)),
        ("clone3", [(_RETURN, 0, 0, _ERRNO | _ENOSYS)]),  # its flags lie in memory; the C library then takes clone
    ):
        if name in numbers:
            program += [(_EQUAL, 0, len(check), numbers[name]), *check]
    return [*program, (_RETURN, 0, 0, _ERRNO | _EPERM)]


def _only(argument: int, values: tuple[int, ...], errno: int) -> list[tuple[int, int, int, int]]:
    found = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)]
    for value in values:
        found += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*found, (_RETURN, 0, 0, _ERRNO | errno)]


def _with_bits(argument: int, bits: int, errno: int) -> list[tuple[int, int, int, int]]:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno),
    ]


def _without_bits(argument: int, bits: int, errno: int) -> list[tuple[int, int, int, int]]:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | errno),
        (_RETURN, 0, 0, _ALLOW),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _limit_calls(libc: ctypes.CDLL) -> bool:
    """Put the filter in force. False where the kernel or the machine has none."""
    machine = platform.machine()
    if machine not in _MACHINES or sys.byteorder != "little":
        return False
    rows = _filter(machine, os.getpid())
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
    program = _Program(len(rows), ctypes.addressof(code))
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


# ----------------------------------------------------------------------------------------------------------- files

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many rights each version of Landlock knows
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine
_VERSION_FLAG, _PATH_BENEATH, _O_PATH = 1, 1, getattr(os, "O_PATH", 0)


def _limit_files(libc: ctypes.CDLL, readable: Iterable[str]) -> bool:
    """Leave nothing but reading below `readable`. False where the kernel has no Landlock."""
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, attributes, size, 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow_reading(libc, ruleset, path)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, path: str) -> None:
    try:
        place = os.open(path, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there cannot be read
    try:
        rights = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


_SYSTEM = (
    "/usr/lib", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom", "/dev/null",
)  # fmt: skip

_MADE_UP = ("proc", "sys", "dev", "run")
ARTIFACTS = "files"  # the folder of the cache that holds them (sources/cache.py)


def readable_places(cache: str, *, own_files: bool = False) -> tuple[str, ...]:
    """List what all jobs read: the interpreter and its packages, this package with its presets, time zones, and of the
    cache the artifacts, which are the same for everybody; neither what visitors uploaded nor what they share.

    `own_files`: also the files of this machine, but for those that the system makes up (other processes, devices).
    """
    here = os.path.dirname(os.path.abspath(__file__))
    own = (here, os.path.join(os.path.dirname(here), "presets"), os.path.join(cache, ARTIFACTS))
    packages = (path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    python = (sys.prefix, sys.base_prefix, sys.exec_prefix, *packages)
    files = (entry.path for entry in os.scandir("/") if own_files and entry.name not in _MADE_UP)
    places = dict.fromkeys(os.path.realpath(path) for path in (*own, *python, *_SYSTEM, *files))
    return tuple(place for place in places if place != "/")


# ------------------------------------------------------------------------------------------------------- this process

_in_force = {"seccomp": False, "landlock": False}
_withheld = ""


def confine(readable: Iterable[str], withheld: str = "") -> None:
    """Confine this process for good. `withheld`: a folder that it is not to list, which `tried` tries."""
    global _withheld
    _withheld = withheld
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    PR_SET_NO_NEW_PRIVS = 38
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        _in_force["landlock"] = _limit_files(libc, readable)  # first: its own system calls are not on the list
        _in_force["seccomp"] = _limit_calls(libc)


def in_force() -> dict[str, bool]:
    """Say which of the two confine this process: {"seccomp": bool, "landlock": bool}."""
    return dict(_in_force)


def tried() -> dict[str, bool]:
    """Try what a hostile job would; say of each whether it was refused. A file of the system may be one's own to read."""
    parent = os.getppid()
    tries: dict[str, Callable[[], object]] = {
        "reading a file of the system": lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)),
        "reading another process's environment": lambda: os.close(os.open(f"/proc/{parent}/environ", os.O_RDONLY)),
        "writing a file": _write_one,
        "opening a socket": lambda: socket.socket().close(),
        "signalling another process": lambda: os.kill(parent, 0),
        "starting a process": _start_one,
    }
    if _withheld:
        tries["listing what visitors uploaded or share"] = lambda: os.close(os.open(_withheld, os.O_RDONLY))
    return {what: _refused(attempt) for what, attempt in tries.items()}


def _write_one() -> None:
    path = f"/tmp/.inspector-self-test-{os.getpid()}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(path)


def _start_one() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
