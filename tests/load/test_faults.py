"""One server in public mode, and everything that can break around it: what visitors are told, what goes on, what is left."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conversations import conversation
from tests.data.attack_helpers import base
from tests.fake_hub import Repository, State, serve, sha256
from tests.load import faults, traffic
from tests.load.client import Client, End, send_only
from tests.load.expected import Reader, expected, single_process
from tests.load.server import ROOT, SECRET, Powers, Process, Server, powers, remount, running, seed, wait_until
from tests.load.traffic import Call, asked, pane

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

ENDLESS = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
CHAT = conversation("system_and_turns")
GOOD = Call("page", "view", asked("", CHAT, pane("bytes", "chatml")), "good")
DISK_BYTES = 64 << 20
NOISE = random.Random(9).randbytes(700_000).hex()  # it does not deflate to nothing


def files(mark: str = "") -> dict[str, bytes]:
    """A tokenizer of a megabyte: bytes, and tokens that no merge makes."""
    tokenizer = base()
    vocabulary = tokenizer["model"]["vocab"]
    for token in (mark, *(NOISE[at : at + 100] for at in range(0, len(NOISE), 100))):
        vocabulary.setdefault(token, len(vocabulary))
    return {
        "tokenizer.json": json.dumps(tokenizer).encode(),
        "tokenizer_config.json": b'{"tokenizer_class": "PreTrainedTokenizerFast"}',
        "chat_template.jinja": b"{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}",
    }


def repository(mark: str = "", **state: Any) -> Repository:
    return Repository([("First", "2025-01-01T00:00:00.000Z", files(mark))], **state)


@pytest.fixture(scope="module")
def hub() -> State:
    return State({})


@pytest.fixture(scope="module")
def able(tmp_path_factory: pytest.TempPathFactory) -> Powers:
    return powers(tmp_path_factory.mktemp("disk"))


@pytest.fixture(scope="module")
def server(hub: State, able: Powers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("load")
    disk = DISK_BYTES if able.disk else 0
    seed(folder / ("seed-7c1f" if disk else "cache-7c1f"), ["qwen3"], [])
    with serve(hub) as endpoint:
        environment = {"HF_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        with running(folder, environment=environment, small_disk=disk, hub_deadline_s=2.0) as started:
            yield started


@pytest.fixture(scope="module")
def good() -> str:
    with single_process():
        return expected(GOOD)


_visitors = iter(range(1, 60_000))


def visitor(server: Server) -> Client:
    """Somebody who has not been here yet."""
    number = next(_visitors)
    return Client(server.url, server.component, server.places(), address=f"127.1.{number >> 8}.{number & 255}")


def ask(client: Client, function: str, /, **request: Any) -> End:
    end = client.page(function, {**request, "session": client.session})
    assert not end.leaks, end.leaks
    return end


def view(client: Client, shown: dict[str, Any]) -> End:
    end = client.page("view", asked(client.session, CHAT, shown))
    assert not end.leaks, (end.leaks, end.value)
    return end


def refused(end: End, *kinds: str) -> str:
    """The line of an error of one of these kinds."""
    assert end.what == "error" and end.kind in kinds, (end.what, end.kind, end.why, str(end.value)[:500])
    value = end.value
    error = value["errors"][0]["text"] if value.get("errors") else value["error"]
    return str(error["message"] if isinstance(error, dict) else error)


def answered(end: End) -> Any:
    assert end.what == "answer", (end.what, end.kind, end.why, str(end.value)[:500])
    return end.value


def serves(server: Server, good: str) -> None:
    """A visitor gets the right answer, and what the server says of itself is true."""
    call = traffic.for_session(GOOD, (client := visitor(server)).session)
    assert Reader().digest(call, answered(client.page(call.name, call.value))) == good
    assert status_is_true(server)


def status_is_true(server: Server) -> bool:
    def true() -> bool:
        status = server.status()
        return status["error"] is None and status["children"]["live"] == len(server.children())

    return bool(wait_until(true, 10))


@contextlib.contextmanager
def endless(server: Server) -> Iterator[tuple[Future[End], Process]]:
    """A call that would run for ever, and the child that works on it."""
    before = {child.pid for child in server.children()}
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(view, visitor(server), pane("bytes", template_text=ENDLESS))
        yield end, wait_until(lambda: busy_child(server, before), 20)


def busy_child(server: Server, before: set[int]) -> Process | None:
    return next((child for child in server.children() if child.pid not in before and child.cpu_s > 0.15), None)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# ----------------------------------------------------------------------------------------------------- the list itself


def test_every_fault_of_the_issue_has_its_tests() -> None:
    assert set(faults.LISTED) <= set(faults.FAULTS) and len(faults.LISTED) == 21
    for fault, named in faults.FAULTS.items():
        assert named, fault
        for test in named:
            file, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.M), test


# ----------------------------------------------------------------------------------------------------------- processes


def test_a_child_killed_by_a_signal_is_told_and_costs_nobody_else_anything(server: Server, good: str) -> None:
    restarts = server.status()["children"]["restarts"]
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        with endless(server) as (end, child):
            os.kill(child.pid, number)
            assert number.name in refused(end.result(), "WorkerCrashed")
        assert wait_until(lambda: gone(child.pid))
        serves(server, good)
    assert server.status()["children"]["restarts"] == restarts
    assert not server.zombies()


def test_a_killed_zygote_is_replaced_and_status_counts_it(server: Server, good: str) -> None:
    before, old = server.status()["children"]["restarts"], server.zygote()
    warm = visitor(server)
    answered(view(warm, pane("bytes", "chatml")))
    children = {child.pid for child in server.children()}
    with endless(server) as (end, child):
        os.kill(old, signal.SIGKILL)
        refused(end.result(), "WorkerCrashed")
    assert wait_until(lambda: all(map(gone, children | {child.pid})))
    assert server.status()["children"] == {"running": True, "live": 0, "warm": 0, "restarts": before + 1}
    answered(view(warm, pane("bytes", "chatml")))
    serves(server, good)
    assert server.status()["children"]["restarts"] == before + 1 and server.zygote() != old
    assert not server.zombies()


# ---------------------------------------------------------------------------------------------------------------- disk


@contextlib.contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """Leave no byte of the disk, or where a process may have no disk of its own, let it write no file of this size."""
    if not server.small_disk:
        before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)
        return
    filler = server.cache / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
            while True:
                file.write(b"x")
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def read_only(server: Server, way: str) -> Iterator[None]:
    """Mount the disk read-only, or forbid writing to its folders."""
    if way == "remount":
        remount(server, read_only=True)
        try:
            yield
        finally:
            remount(server, read_only=False)
        return
    folders = [server.cache, *(path for path in server.cache.rglob("*") if path.is_dir())]
    try:
        for folder in folders:
            folder.chmod(0o555)
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)


def keeps(server: Server, hub: State, mark: str) -> dict[str, End]:
    """Everything that is kept on disk: a share, an upload, a download."""
    hub.repositories[f"org/{mark}"] = repository(mark)
    client = visitor(server)
    state = '{"schema":"page-state/1","pad":"' + NOISE + '"}'
    data = base64.b64encode(files(mark)["tokenizer.json"]).decode()
    assert ask(client, "upload", first=True, name="tokenizer.json", data=data).what == "answer"
    return {
        "share": ask(client, "share_keep", state=state),
        "upload": ask(client, "uploaded"),
        "download": view(client, pane(f"hf:org/{mark}")),
        "program": client.endpoint("inspect", {"request": json.dumps(CHAT), "tokenizer": f"hf:org/{mark}@main"}),
    }


def exported(server: Server) -> bytes:
    client = visitor(server)
    end = ask(
        client, "export_panes", **{**asked("", CHAT, pane("bytes", "chatml")), "session": client.session}, form="html"
    )
    return base64.b64decode(answered(end)["data"])


def nothing_left(server: Server) -> None:
    assert wait_until(lambda: not server.files(), 5), server.files()
    for path in server.cache.glob("files/*/*/*"):
        assert sha256(path.read_bytes()) == path.parent.name, path
    assert not [path for path in (server.cache / "shares").glob("*") if path.suffix != ".share"]


def test_a_full_disk_refuses_what_would_be_kept_and_nothing_else(server: Server, hub: State, good: str) -> None:
    before = exported(server)
    with full_disk(server):
        for what, end in keeps(server, hub, "full").items():
            assert "No space left" in refused(end, "CacheFull") or not server.small_disk, what
            assert not end.leaks, end.leaks
        serves(server, good)
        assert exported(server) == before
        answered(view(visitor(server), pane("qwen3")))
        nothing_left(server)
    for end in keeps(server, hub, "roomy").values():
        answered(end)
    nothing_left(server)


@pytest.mark.parametrize("way", ["remount", "modes"])
def test_a_read_only_cache_refuses_what_would_be_kept_and_nothing_else(
    server: Server, hub: State, good: str, able: Powers, way: str
) -> None:
    if not getattr(able, way):
        pytest.skip(able.why)
    before = exported(server)
    with read_only(server, way):
        for end in keeps(server, hub, f"sealed-{way}").values():
            refused(end, "ArtifactUnavailable")
            assert not end.leaks, end.leaks
        serves(server, good)
        assert exported(server) == before
        answered(view(visitor(server), pane("qwen3")))
    for end in keeps(server, hub, f"unsealed-{way}").values():
        answered(end)
    nothing_left(server)


# ------------------------------------------------------------------------------------------------------- Hub and cache

HUB_FAULTS = (
    # name, repository, where it strikes, what it is, the kinds that it may end in
    ("silent", {}, "/api/models/{}", "hang", ("HubTimeout",)),
    ("silent-file", {}, "/{}/resolve", "hang", ("HubTimeout",)),
    ("slow", {}, "/{}/resolve", "drip", ("HubTimeout",)),
    ("half", {}, "/{}/resolve", "half-then-close", ("HubError",)),
    ("half-silent", {}, "/{}/resolve", "half-then-silence", ("HubTimeout",)),
    ("f401", {"private": True}, "", "", ("HubAuth", "HubNotFound", "HubGated")),
    ("f403", {"gated": True}, "", "", ("HubGated",)),
    ("f404", {}, "/api/models/{}", "404", ("HubNotFound",)),
    ("f429", {}, "/{}/resolve", "429", ("HubError",)),
    ("f500", {}, "/{}/resolve", "500", ("HubTimeout", "HubError")),
    ("html", {}, "/{}/resolve", "html", ("HubError", "TokenizerInvalid")),
    ("html-api", {}, "/api/models/{}", "html", ("HubError",)),
    ("short", {}, "/{}/resolve", "short", ("HubError",)),
    ("long", {}, "/{}/resolve", "long", ("HubError",)),
    ("other", {}, "/{}/resolve", "other", ("ArtifactMismatch",)),
)  # fmt: skip


def test_every_fault_of_the_hub_is_one_visitors_alone(server: Server, hub: State, good: str) -> None:
    """All at once, each for a visitor of its own; meanwhile others are served, and our own token goes nowhere."""
    for name, state, where, fault, _kinds in HUB_FAULTS:
        hub.repositories[f"faulty/{name}"] = repository(name, **state)
        if fault:
            hub.faults[where.format(f"faulty/{name}") + "/"] = fault
    with ThreadPoolExecutor(len(HUB_FAULTS)) as pool:
        ends = {name: pool.submit(view, visitor(server), pane(f"hf:faulty/{name}")) for name, *_ in HUB_FAULTS}
        for _ in range(3):
            serves(server, good)
        for name, _state, _where, _fault, kinds in HUB_FAULTS:
            line = refused(ends[name].result(), *kinds)
            assert "<script>" not in line and len(line) < 600
    assert hub.log and not any(SECRET in token for _method, _path, token in hub.log)
    hub.faults.clear()
    nothing_left(server)
    answered(view(visitor(server), pane("hf:faulty/silent")))  # and nothing of it stays


@pytest.mark.parametrize("change", ["truncated", "flipped", "flipped under the same time"])
def test_a_cached_file_that_changed_is_noticed_and_mended(server: Server, hub: State, change: str) -> None:
    name = f"org/{change.replace(' ', '-')}"
    hub.repositories[name] = repository(change)
    answered(view(visitor(server), pane(f"hf:{name}")))
    first = answered(view(visitor(server), pane(f"hf:{name}")))  # out of the cache: the server knows the file as whole
    digest = sha256(files(change)["tokenizer.json"])
    (path,) = server.cache.glob(f"files/*/{digest}/tokenizer.json")
    data, stat = bytearray(path.read_bytes()), path.stat()
    data[data.index(b'"Z"') + 1] ^= 1  # "Z" and "[" change places: a tokenizer that loads, and gives other ids
    path.write_bytes(data[:1000] if change == "truncated" else data)
    if change.endswith("time"):
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    again = answered(view(visitor(server), pane(f"hf:{name}")))
    assert Reader().digest(GOOD, again) == Reader().digest(GOOD, first)
    assert sha256(path.read_bytes()) == digest


# ------------------------------------------------------------------------------------------------------------- clients


def test_nothing_runs_on_for_a_client_that_left(server: Server, good: str) -> None:
    for leaves in (leave_page, leave_endpoint):
        before = {child.pid for child in server.children()}
        left = leaves(server)
        child = wait_until(partial(busy_child, server, before), 20)
        left.close()
        assert wait_until(partial(gone, child.pid), 1.0), leaves.__name__
    serves(server, good)


def leave_page(server: Server) -> Any:
    client = visitor(server)
    return send_only(client, "view", asked(client.session, CHAT, pane("bytes", template_text=ENDLESS)))


def leave_endpoint(server: Server) -> Any:
    client = visitor(server)
    given = {"request": json.dumps(CHAT), "tokenizer": "bytes", "template_text": ENDLESS}
    _status, data = client.raw("POST", "/gradio_api/call/v2/inspect", json.dumps(given).encode())
    client._connection.request("GET", f"/gradio_api/call/v2/inspect/{json.loads(data)['event_id']}")
    return client._connection.sock


def test_a_session_that_floods_shuts_nobody_else_out(server: Server, good: str) -> None:
    flooder, stop = visitor(server), threading.Event()
    ends: list[End] = []

    def flood(number: int) -> None:
        client = Client(server.url, server.component, server.places(), flooder.session, flooder.address)
        shown = pane("bytes", "chatml", slot=f"s{number}")
        while not stop.is_set():
            ends.append(client.page("view", asked(client.session, CHAT, shown), again=False))

    threads = [threading.Thread(target=flood, args=(number,), daemon=True) for number in range(40)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            client = visitor(server)
            call = traffic.for_session(GOOD, client.session)
            end = client.page(call.name, call.value)
            assert end.busy == 0 and Reader().digest(call, answered(end)) == good
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert {end.what for end in ends} <= {"answer", "busy"}, {(end.what, end.kind, end.why) for end in ends}
    assert any(end.what == "answer" for end in ends) and server.status()["admission"]["waiting"] == 0


# --------------------------------------------------------------------------------------------------------------- clock


def test_limits_do_not_depend_on_the_wall_clock(server: Server, good: str) -> None:
    client, others = visitor(server), {child.pid for child in server.children()}
    answered(view(client, pane("bytes", "chatml")))
    warm = {child.pid for child in server.children()} - others
    kept = answered(ask(client, "share_keep", state='{"schema":"page-state/1","tide":"high"}'))
    try:
        for jump in (7200.0, -7200.0):
            with endless(server) as (end, _child):
                server.set_clock(jump)
                refused(end.result(), "TimeLimit")  # neither at once nor never
            answered(view(client, pane("bytes", "chatml")))
            assert warm <= {child.pid for child in server.children()}, "a warm child was taken for an idle one"
            assert "tide" in answered(ask(client, "share_open", id=kept["id"]))["state"]
            serves(server, good)
        server.set_clock(31 * 86400.0)
        refused(ask(client, "share_open", id=kept["id"]), "ArtifactUnavailable")
        serves(server, good)
    finally:
        server.set_clock(0.0)
