"""The page's server as a process of its own, in public mode, with everything about it in sight: processes, files, places.

Its home, cache, temporary folder and working places have names that stand nowhere else, so that one of them in an answer is a
leak and nothing else. Linux only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inspector.sources import cache, resolve_template, resolve_tokenizer
from inspector.tokenizers.base import ArtifactFile

ROOT = Path(__file__).parents[2]
SECRET = "hf_SecretOfTheSpaceThatNobodyMaySee00"
START_S = 90.0
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it; `state` Z is a zombie. `rss` in bytes."""

    pid: int
    parent: int
    state: str
    rss: int
    cpu_s: float


def processes() -> dict[int, Process]:
    """Give every process of this machine that can be seen."""
    found, page = {}, os.sysconf("SC_PAGE_SIZE")
    tick = os.sysconf("SC_CLK_TCK")
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError):
                after = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                pid, cpu = int(entry), (int(after[11]) + int(after[12])) / tick
                found[pid] = Process(pid, int(after[1]), after[0], int(after[21]) * page, cpu)
    return found


def below(pid: int) -> list[Process]:
    """Give all descendants of a process."""
    table, found, parents = processes(), [], {pid}
    while parents:
        children = [process for process in table.values() if process.parent in parents]
        found += children
        parents = {process.pid for process in children}
    return found


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Give the condition's value as soon as it is true; the last one when the time is over."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def seed(folder: Path, presets: Iterable[str], templates: Iterable[str]) -> None:
    """Put the files of presets into a new cache, so that a server needs no network for them."""
    found: set[Path] = set()

    def noted(sha256: str, name: str) -> ArtifactFile | None:
        file = lookup(sha256, name)
        found.update([Path(file.path)] if file else [])
        return file

    lookup, cache.lookup = cache.lookup, noted
    try:
        for _ in range(2):  # the second time everything is there
            for ref in presets:
                resolve_tokenizer(ref)
            for ref in templates:
                resolve_template(ref)
    finally:
        cache.lookup = lookup
    for path in found:
        target = folder / path.relative_to(cache.cache_dir())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


class Keeper:
    """Our end of the talk with the process that launch.py leaves in a server's namespace; `theirs` is the other end."""

    def __init__(self) -> None:
        self._end, self.theirs = socket.socketpair()
        self._end.settimeout(10.0)

    def remount(self, read_only: bool) -> int:
        """Mount the disk anew; give the number of the error, or 0."""
        self._end.sendall(b"ro\n" if read_only else b"rw\n")
        return int(self._end.recv(64))

    def close(self) -> None:
        """Let it end."""
        self._end.close()


@dataclass(slots=True, eq=False)
class Server:
    """One server. `folder` holds all that it may write; with `small_disk` its cache lies on a disk of so many bytes."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    small_disk: int = 0
    hub_deadline_s: float = 10.0
    process: subprocess.Popen[bytes] = field(init=False)
    keeper: Keeper | None = field(init=False, default=None)
    url: str = field(init=False)
    component: int = field(init=False)

    def __post_init__(self) -> None:
        for name in ("home-7c1f", "cache-7c1f", "tmp-7c1f", "gradio-7c1f", "seed-7c1f"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.set_clock(0.0)
        self.start()

    @property
    def cache(self) -> Path:
        """The cache as the server sees it, through its own mounts."""
        path = self.folder / "cache-7c1f"
        return _seen(self.process.pid, path) if self.small_disk else path

    @property
    def temporary(self) -> list[Path]:
        """The folders that hold nothing between requests."""
        return [self.folder / "tmp-7c1f", self.folder / "gradio-7c1f"]

    def places(self) -> list[str]:
        """The paths and secrets that no answer may hold."""
        return [str(self.folder), "-7c1f", str(ROOT), sys.prefix, "site-packages", SECRET]

    def start(self) -> None:
        """Start it and wait for the page."""
        if self.keeper:
            self.keeper.close()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = {
            "cache": str(self.folder / "cache-7c1f"),
            "seed": str(self.folder / "seed-7c1f"),
            "disk": self.small_disk,
            "hub_deadline_s": self.hub_deadline_s,
            "clock": str(self.folder / "clock"),
        }
        environment = {
            **os.environ,
            "INSPECTOR_MODE": "public",
            "INSPECTOR_CACHE": config["cache"],
            "GRADIO_SERVER_PORT": str(port),
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_TEMP_DIR": str(self.folder / "gradio-7c1f"),
            "TMPDIR": str(self.folder / "tmp-7c1f"),
            "HOME": str(self.folder / "home-7c1f"),
            "HF_TOKEN": SECRET,
            **self.environment,
        }
        environment.pop("SPACE_ID", None)
        with (self.folder / "server.log").open("ab") as log:
            self.process, self.keeper = _launch(
                config, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.url = f"http://127.0.0.1:{port}/"
        if not wait_until(self._answers, START_S):
            raise RuntimeError(f"the server did not start:\n{self.log()[-3000:]}")
        self.component = _component_of(json.loads(self.get("config")))

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log()[-3000:]}")
        with contextlib.suppress(OSError):
            return bool(self.get("config"))
        return False

    def get(self, path: str, timeout: float = 30.0) -> bytes:
        """Ask for a page of it."""
        with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
            return answer.read()

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
        return json.loads(self.get("status"))

    def log(self) -> str:
        """What it has written so far, to standard output and error."""
        return (self.folder / "server.log").read_text("utf-8", "replace")

    def set_clock(self, offset_s: float) -> None:
        """Let its wall clock jump."""
        (self.folder / "clock").touch()
        with (self.folder / "clock").open("r+b") as file:
            file.write(struct.pack("=d", offset_s))

    def rss(self) -> int:
        """The web process's own memory, bytes."""
        return processes()[self.process.pid].rss

    def zygote(self) -> int:
        """The process id of the sandbox's zygote."""
        return int(wait_until(self._zygote))

    def _zygote(self) -> int:
        for process in below(self.process.pid):
            with contextlib.suppress(OSError):
                if process.state != "Z" and process.parent == self.process.pid and b"zygote_main" in _command(process):
                    return process.pid
        return 0

    def children(self) -> list[Process]:
        """The sandbox's children that live."""
        zygote = self._zygote()
        return [process for process in below(zygote) if process.state != "Z"] if zygote else []

    def zombies(self) -> set[int]:
        """Processes below it that have ended and were not reaped."""
        return {process.pid for process in below(self.process.pid) if process.state == "Z"}

    def files(self) -> list[Path]:
        """The files of the temporary folders and of the drafts of the cache."""
        places = [*self.temporary, self.cache / "tmp"]
        return [path for place in places for path in place.rglob("*") if path.is_file()]

    def cache_bytes(self) -> int:
        """What lies in the cache."""
        return sum(path.stat().st_size for path in self.cache.rglob("*") if path.is_file())

    def end(self, number: int = signal.SIGTERM, seconds: float = 20.0) -> float:
        """Send a signal and wait; give the seconds that the end took."""
        began = time.monotonic()
        self.process.send_signal(number)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        return time.monotonic() - began


def _command(process: Process) -> bytes:
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


def _component_of(config: dict[str, Any]) -> int:
    return next(each["id"] for each in config["components"] if each.get("props", {}).get("elem_id") == "bench")


@contextlib.contextmanager
def running(folder: Path, **options: Any) -> Iterator[Server]:
    """Run a server for as long as the block lasts."""
    server = Server(folder, **options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.end()
        if server.keeper:
            server.keeper.close()


def remount(server: Server, *, read_only: bool) -> None:
    """Make the small disk of a server read-only, or writable again."""
    assert server.keeper is not None
    if number := server.keeper.remount(read_only):
        raise OSError(number, f"the disk cannot be mounted anew: {os.strerror(number)}")


@dataclass(frozen=True, slots=True)
class Powers:
    """What a test can do to a server's disk on this machine, and the errors of what it cannot.

    `disk`: give it a small one of its own. `remount`: make that one read-only. `modes`: forbid writing by a folder's mode.
    """

    disk: bool
    remount: bool
    modes: bool
    why: str


def powers(folder: Path) -> Powers:
    """Try it all, in an empty folder, with a process that is started as a server is."""
    own = _powers(folder / "disk", MIB)
    if own.disk:
        return own
    plain = _powers(folder / "plain", 0)
    return replace(plain, why=f"{own.why}; {plain.why}")


def _powers(folder: Path, size: int) -> Powers:
    for name in ("seed", "cache"):
        (folder / name).mkdir(parents=True)
    config = {"cache": str(folder / "cache"), "seed": str(folder / "seed"), "disk": size, "probe": True}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "bufsize": 1}
    process, keeper = _launch(config, **pipes)

    def wrote(name: str) -> str:
        process.stdin.write(name + "\n")
        return os.strerror(int(process.stdout.readline()))

    try:
        place = _seen(process.pid, folder / "cache") if size else folder / "cache"
        tried = {"disk": [wrote("first"), (place / "first").exists()]} if size else {}
        if keeper:
            refused = [os.strerror(keeper.remount(True)), wrote("second")]
            tried["remount"] = [*refused, os.strerror(keeper.remount(False)), wrote("third")]
        place.chmod(0o555)
        tried["modes"] = [wrote("fourth")]
    except (OSError, ValueError):  # it has ended
        tried = {"disk": [process.communicate()[1].strip().rpartition("\n")[2]]}
    finally:
        process.stdin.close()
        process.wait()
        if keeper:
            keeper.close()
    works, denied = os.strerror(0), os.strerror(errno.EACCES)
    good = {"disk": [works, True], "remount": [works, os.strerror(errno.EROFS), works, works], "modes": [denied]}
    able = {name: tried.get(name) == answers for name, answers in good.items()}
    return Powers(**able, why="; ".join(f"{name}: {tried[name]}" for name in tried if not able[name]))


def _seen(pid: int, path: Path) -> Path:
    """A path as a process sees it, through its own mounts."""
    return Path(f"/proc/{pid}/root{path}")


def _launch(config: dict[str, Any], **options: Any) -> tuple[subprocess.Popen[Any], Keeper | None]:
    """Start launch.py, with a keeper of its disk if it has one."""
    keeper = Keeper() if config["disk"] else None
    control = keeper.theirs.fileno() if keeper else -1
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("launch.py")), json.dumps({**config, "control": control})],
        cwd=ROOT,
        pass_fds=[control] if keeper else [],
        start_new_session=True,
        **options,
    )
    if keeper:
        keeper.theirs.close()
    return process, keeper
