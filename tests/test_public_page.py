"""A page for strangers over HTTP: what may be reached, who waits, who may read what, and what is left of a visit."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_hub
import pytest
from page import NARROW, ROOT, WIDE, Inspector, messages, shot, wait_for

from inspector.sources.process import run_client
from inspector.ui import layout

CANARY, SECRET = "zzpastedzz", "zzsecretzz"
BURN = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
FIELDS = {"messages": '[{"role": "user", "content": "Hi"}]', "tools": "", "documents": "", "arguments": ""}
PANE = {"tokenizer": "bytes", "template": "chatml", "template_name": "", "arguments": "", "clock": "", "profile": "transformers",
        "context_window": "", "max_new_tokens": "", "policy": "messages", "slot": "1"}  # fmt: skip
BUSY_PANE = {**PANE, "template_text": BURN}
TOKENIZER = {"tokenizer.json": b"{}", "tokenizer_config.json": b"{}"}


class Server:
    """The page with the limits of strangers, on a loopback address; clients differ by what their proxy says."""

    def __init__(self, url: str, process: subprocess.Popen[bytes], log: Path, home: Path, hub: fake_hub.State) -> None:
        self.url, self.process, self.log, self.home, self.hub = url, process, log, home, hub
        self.port = int(url.rstrip("/").rpartition(":")[2])

    def open(
        self, path: str, data: Any = None, client: str = "10.0.0.1", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        body = None if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
        given = {"X-Forwarded-For": client, "Content-Type": "application/json", **headers}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, body, given), timeout=60) as answer:
                return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()

    def call(self, name: str, data: Any, client: str = "10.0.0.1", **headers: str) -> tuple[int, dict[str, str], Any]:
        status, given, body = self.open(
            "gradio_api/component_server", {"fn_name": name, "data": data}, client, **headers
        )
        value = json.loads(body)
        return status, given, json.loads(value) if isinstance(value, str) else value

    def status(self) -> dict[str, Any]:
        return json.loads(self.open("status")[2])

    def begin(self, path: str, data: Any, client: str = "10.0.0.1", method: str = "POST") -> socket.socket:
        """Send a request and read nothing of its answer."""
        body = b"" if data is None else json.dumps(data).encode()
        head = (
            f"{method} /{path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\nContent-Type: application/json\r\n"
        )
        head += "Accept: application/json, text/event-stream\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port), 30)
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return connection

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> float:
        """Wait until the status says so; how long it took."""
        began = time.monotonic()
        while not condition(found := self.status()):
            assert time.monotonic() - began < seconds, found["children"] | found["admission"]
            time.sleep(0.05)
        return time.monotonic() - began

    def processes(self) -> list[int]:
        """All processes below the server."""
        found, new = [], [self.process.pid]
        while new:
            tasks = Path(f"/proc/{new.pop()}/task").glob("*/children")
            children = [int(pid) for task in tasks for pid in task.read_text().split()]
            found += children
            new += children
        return found


def kept_of(server: Server, text: bytes) -> list[Path]:
    """The files below the server's folders that hold a text."""
    return [path for path in server.home.rglob("*") if path.is_file() and text in path.read_bytes()]


def session() -> str:
    return secrets.token_hex(16)


def view(of: str, pane: dict[str, Any] = PANE, **more: Any) -> dict[str, Any]:
    return {"session": of, "at": 0, "base": None, "fields": FIELDS, "panes": [pane], **more}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home, hub = tmp_path_factory.mktemp("home"), fake_hub.State()
    hub.repositories["org/own"] = fake_hub.Repository([("one", "2026-01-01T00:00:00.000Z", TOKENIZER)])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name in ("tmp", "cache"):
        (home / name).mkdir()
    with fake_hub.serve(hub) as endpoint, (home.parent / "web.log").open("wb") as log:
        environment = {
            "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "HOME": str(home), "TMPDIR": str(home / "tmp"), "INSPECTOR_CACHE": str(home / "cache"),
            "GRADIO_SERVER_PORT": str(port), "INSPECTOR_MODE": "public", "HF_ENDPOINT": endpoint, "HF_TOKEN": f"hf_{SECRET}",
            "OPENAI_API_KEY": SECRET, "INSPECTOR_BACKEND_KEY": SECRET, "INSPECTOR_LIMIT_CPU_S": "60", "INSPECTOR_LIMIT_WALL_S": "60",
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_CONFIG_FILE": os.devnull, "npm_config_registry": "http://127.0.0.1:9/",
        }  # fmt: skip
        process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}/"
        try:
            wait_for(url, process)
            yield Server(url, process, Path(log.name), home, hub)
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(autouse=True)
def at_rest(server: Server) -> Iterator[None]:
    yield
    left = ("requests", "streams", "running", "running_model", "waiting")
    server.until(lambda said: not any(said["admission"][name] for name in left), 10)


OPEN = ["", "?embed=1", "status", "config", "gradio_api/info", "theme.css", "static/no-such", "nothing", "gradio_api/upload_progress",
        "gradio_api/queue/data?session_hash=none", "gradio_api/mcp/"]  # fmt: skip


def test_every_answer_says_what_a_browser_may_do_with_it(server: Server) -> None:
    answers = {path: server.open(path) for path in OPEN}
    answers["call"] = server.open(
        "gradio_api/component_server", {"fn_name": "names", "data": {"session": session(), "text": "a"}}
    )
    answers["run"] = server.open("gradio_api/run/inspect", {"data": []})
    for path, (_status, headers, _body) in answers.items():
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin", path
        assert "camera=()" in headers["permissions-policy"] and "geolocation=()" in headers["permissions-policy"]
        said = headers["content-security-policy"]
        assert not re.search(r"https?:|\*(?!$)", said) and said.startswith("default-src '"), path
        framed = "*" if path == "?embed=1" else "'self'" if path == "" else "'none'"
        assert f"frame-ancestors {framed}" in said
    page = answers[""][1]["content-security-policy"]
    scripts = next(part for part in page.split("; ") if part.startswith("script-src"))
    assert "unsafe-inline" not in scripts and scripts.count("'sha256-") >= 4 and "object-src 'none'" in page


CLOSED = ["upload", "file=/etc/passwd", "file/etc/passwd", "proxy=http://127.0.0.1/", "stream/x/1/2/playlist.m3u8", "deep_link", "user",
          "process_recording", "vibe-edit", "login", "token", "dev/reload", "custom_component/1/client/component/x.js", "runs"]  # fmt: skip


def test_what_the_page_does_not_need_is_closed(server: Server) -> None:
    for path in CLOSED:
        for data in (
            None,
            b"--x\r\nContent-Disposition: form-data; name=files; filename=a.html\r\n\r\n<script>\r\n--x--\r\n",
        ):
            status, _headers, body = server.open(
                "gradio_api/" + path, data, **{"Content-Type": "multipart/form-data; boundary=x"}
            )
            assert status == 404 and json.loads(body)["error"]["kind"] == "OptionInvalid", path
    for path in (
        "login",
        "monitoring",
        "monitoring/summary",
        "gradio_api/component_server",
        "gradio_api/../../etc/passwd",
    ):
        assert server.open(path)[0] == 404, path
    assert not [path for path in (server.home / "tmp").rglob("*") if path.is_file()]
    call, program = {"fn_name": "names", "data": {"session": session(), "text": "a"}}, {"data": ["[]"]}
    for site, statuses in (("cross-site", (403, 200)), ("same-site", (403, 200)), ("same-origin", (200, 200))):
        paths = (("component_server", call), ("run/inspect", program))
        assert (
            tuple(server.open("gradio_api/" + path, data, **{"Sec-Fetch-Site": site})[0] for path, data in paths)
            == statuses
        )
    for name in ("no_such", "__init__", "value", None, ["view"]):
        assert server.open("gradio_api/component_server", {"fn_name": name, "data": {}})[0] == 404


def test_bodies_are_bounded_and_the_refusal_has_the_shape_of_what_was_asked(server: Server) -> None:
    large = view(session()) | {"fields": {**FIELDS, "messages": "x" * 5_000_000}}
    status, _headers, found = server.call("view", large, **{"X-Inspector-Function": "view"})
    assert status == 413 and found["pane"] is None and found["errors"][0]["kind"] == "InputTooLarge"
    assert found["errors"][0]["place"] == "messages" and "4,194,304" in found["errors"][0]["text"]
    status, _headers, found = server.call(
        "names", None, **{"X-Inspector-Function": "names", "X-Inspector-Size": "9999999999"}
    )
    assert status == 413 and found["kind"] == "InputTooLarge" and "9,999,999,999" in found["error"]
    status, _headers, body = server.open("gradio_api/run/inspect", {"data": ["x" * 5_000_000]})
    assert status == 413 and json.loads(body)["error"]["kind"] == "InputTooLarge"
    with socket.create_connection(("127.0.0.1", server.port), 30) as chunked:  # it does not say how long it is
        chunked.sendall(b"POST /gradio_api/component_server HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(6):
            chunked.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        chunked.sendall(b"0\r\n\r\n")
        assert b" 413 " in chunked.recv(65536).split(b"\r\n")[0]
    for body in (b"", b"{", b"[" * 100_000, b'"\xff"', b"[]", b"7"):
        status, _headers, answer = server.open("gradio_api/component_server", body)
        assert status in (400, 404) and "kind" in answer.decode(), body[:9]


def test_one_client_fills_its_own_queue_and_nobody_elses(server: Server) -> None:
    flood = [
        server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(session(), BUSY_PANE)})
        for _ in range(44)
    ]
    flood += [server.begin("gradio_api/run/inspect", {"data": [FIELDS["messages"], "bytes", "", BURN], "session_hash": session()}) for _ in range(12)]  # fmt: skip
    try:
        server.until(lambda said: said["admission"]["waiting"] >= 44, 20)
        busy = server.status()["admission"]
        assert busy["running"] == busy["most_address_running"] and busy["refused"] >= 1
        for path, data in (
            ("component_server", {"fn_name": "view", "data": view(session())}),
            ("run/inspect", {"data": ["[]", "bytes"]}),
            ("call/v2/inspect", {"request": []}),
        ):
            status, headers, body = server.open("gradio_api/" + path, data)
            assert status == 429 and 1 <= int(headers["retry-after"]) <= 10, (path, status, body)
            text = json.loads(body) if path == "component_server" else body.decode()
            assert "Busy" in text and "try again in a moment" in text
        began = time.monotonic()
        for k in range(6):  # another client is served at once, in every way
            status, _headers, found = server.call("view", view(session()), "10.0.0.2")
            assert status == 200 and found["errors"] == [] and found["pane"], k
        status, _headers, body = server.open(
            "gradio_api/run/inspect", {"data": [FIELDS["messages"], "bytes", "chatml"]}, "10.0.0.2"
        )
        assert status == 200 and json.loads(json.loads(body)["data"][0])["error"] is None
        assert time.monotonic() - began < 20
    finally:
        for connection in flood:
            connection.close()
    assert server.until(lambda said: not said["admission"]["running"] + said["admission"]["waiting"], 10) < 5


def test_a_call_about_six_panes_has_one_child_at_a_time(server: Server) -> None:
    slow = [{**BUSY_PANE, "slot": str(k)} for k in range(6)]
    flood = [server.begin("gradio_api/component_server", {"fn_name": name, "data": {**view(session()), "panes": slow}}) for name in ("control", "record") * 4]  # fmt: skip
    try:
        server.until(lambda said: said["admission"]["waiting"] > 0 and len(burning(server)) > 1, 20)
        most = server.status()["admission"]["most_address_running"]
        for _ in range(4):
            assert server.call("view", view(session()), "10.0.0.2")[2]["errors"] == []
            assert len(burning(server)) <= most
    finally:
        for connection in flood:
            connection.close()


def test_an_answer_of_megabytes_leaves_nothing_in_the_process(server: Server) -> None:
    given = {"request": [{"role": "user", "content": "x" * 20_000}], "tokenizer": "bytes", "template": "chatml"}

    def resident() -> int:
        return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    def ask(k: int) -> int:
        asked = {"data": [given["request"], "bytes", "chatml"], "session_hash": session()}
        status, _headers, body = server.open("gradio_api/run/inspect", asked, f"10.3.0.{k % 3}")
        assert status == 200
        return len(body)

    ask(0)
    before = resident()
    with ThreadPoolExecutor(6) as pool:
        assert min(pool.map(ask, range(9))) > 3_900_000
    assert resident() - before < 50
    events = []
    for _ in range(5):  # nobody reads these
        events.append(json.loads(server.open("gradio_api/call/v2/inspect", given, "10.3.0.9")[2])["event_id"])
        server.until(lambda said: not said["admission"]["running"] + said["admission"]["waiting"], 20)
        time.sleep(0.6)
    read = [server.open(f"gradio_api/call/v2/inspect/{event}", client="10.3.0.9")[0] for event in events]
    assert read[0] == 404 and read[-1] == 200
    assert resident() - before < 50


def test_a_session_has_one_call_running_and_one_waiting_in_each_of_its_lanes(server: Server) -> None:
    mine, hashed = session(), session()
    views = [server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(mine, BUSY_PANE)})]
    server.until(lambda said: said["admission"]["running"] == 1, 10)
    quick = {"data": [FIELDS["messages"], "bytes", "", BURN], "session_hash": hashed}
    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(server.call, "view", view(mine, BUSY_PANE))
        server.until(lambda said: said["admission"]["waiting"] == 1, 10)
        newest = pool.submit(server.call, "view", view(mine))
        assert older.result()[2] is None  # as if it had never been asked
        began = time.monotonic()
        assert newest.result()[2]["errors"] == []  # the outdated one was given up for it
        assert time.monotonic() - began < 8
        _status, _headers, other = server.call("view", view(mine, {**PANE, "slot": "2"}))
        assert other["errors"] == []
    programs = [server.begin("gradio_api/run/inspect", quick) for _ in range(2)]
    server.until(lambda said: said["admission"]["running"] + said["admission"]["waiting"] == 2, 10)
    assert server.open("gradio_api/run/inspect", quick)[0] == 429
    for connection in (*views, *programs):
        connection.close()


@pytest.mark.parametrize("how", ["page", "direct", "stream", "assistant"])
def test_work_for_a_client_who_left_ends_within_a_second(server: Server, how: str) -> None:
    given = {"request": json.loads(FIELDS["messages"]), "tokenizer": "bytes", "template_text": BURN}
    if how == "page":
        asked = server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(session(), BUSY_PANE)})
    elif how == "direct":
        asked = server.begin("gradio_api/run/inspect", {"data": [FIELDS["messages"], "bytes", "", BURN]})
    elif how == "stream":
        event = json.loads(server.open("gradio_api/call/v2/inspect", given)[2])["event_id"]
        asked = server.begin(f"gradio_api/call/v2/inspect/{event}", None, method="GET")
    else:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "inspect", "arguments": given}}
        asked = server.begin("gradio_api/mcp/", call)
    found: list[int] = []
    began = time.monotonic()
    while not found:
        assert time.monotonic() - began < 20, server.status()["admission"]
        found = burning(server)
    assert server.status()["admission"]["running"] == 1
    asked.close()
    began, most = time.monotonic(), 1 if os.getloadavg()[0] < 2 * (os.cpu_count() or 1) else 5
    while any(Path(f"/proc/{pid}").exists() for pid in found):
        assert time.monotonic() - began < most, "the child still runs"
        time.sleep(0.02)


def test_a_queued_call_is_dropped_when_nobody_opens_its_stream(server: Server) -> None:
    before = server.status()["admission"]["unheard"]
    given = {"request": json.loads(FIELDS["messages"]), "tokenizer": "bytes", "template_text": BURN}
    event = json.loads(server.open("gradio_api/call/v2/inspect", given)[2])["event_id"]
    server.until(lambda said: said["admission"]["running"] == 1, 10)
    server.until(lambda said: said["admission"]["unheard"] == before + 1, 10)
    server.until(lambda said: said["admission"]["running"] == 0, 5)
    assert burning(server) == []
    late = server.open(f"gradio_api/call/v2/inspect/{event}")[2]
    assert b"TimeLimit" in late and b"nobody opened the stream" in late


def burning(server: Server) -> list[int]:
    """Children of the sandbox that use the processor."""

    def ticks(pid: int) -> int:
        """Of the processor; -1 for the zygote, which forks them, and for what is gone."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return -1
        return -1 if int(fields[1]) == server.process.pid else int(fields[11]) + int(fields[12])

    found = {pid: ticks(pid) for pid in server.processes()}
    time.sleep(0.15)
    return [pid for pid, before in found.items() if ticks(pid) > before >= 0]


def test_who_waited_and_left_is_forgotten_and_a_closed_page_leaves_no_child(server: Server) -> None:
    mine = session()
    slots = [server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(mine, {**BUSY_PANE, "slot": str(k)})}) for k in range(4)]  # fmt: skip
    server.until(lambda said: (said["admission"]["running"], said["admission"]["waiting"]) == (2, 2), 10)
    for connection in slots[2:]:
        connection.close()
    assert server.until(lambda said: said["admission"]["waiting"] == 0, 5) < 2
    assert server.status()["admission"]["running"] == 2
    assert server.call("page_closed", {"session": mine})[0] == 200
    assert server.until(lambda said: said["admission"]["running"] == 0, 5) < 2
    for connection in slots[:2]:
        connection.close()
    time.sleep(1.2)  # what has just ended may still be counted
    other, before = session(), server.status()["children"]["warm"]
    assert server.call("view", view(other))[2]["errors"] == []
    server.until(lambda said: said["children"]["warm"] == before + 1, 5)
    server.call("page_closed", {"session": session()})
    time.sleep(1.2)
    assert server.status()["children"]["warm"] == before + 1
    server.call("page_closed", {"session": other})
    server.until(lambda said: said["children"]["warm"] == before, 5)


def test_no_visitor_reads_anothers_result_file_or_progress(server: Server) -> None:
    mine, theirs, hashed = session(), session(), session()
    given = {"request": [{"role": "user", "content": CANARY}], "tokenizer": "bytes", "template": "chatml"}
    event = json.loads(server.open("gradio_api/call/v2/inspect", given)[2])["event_id"]
    for guess in (event, "0" * 32, session()):  # not from elsewhere, not by guessing
        assert CANARY.encode() not in server.open(f"gradio_api/call/v2/inspect/{guess}", client="10.0.0.9")[2]
    assert CANARY.encode() in server.open(f"gradio_api/call/v2/inspect/{event}")[2]
    assert CANARY.encode() not in server.open(f"gradio_api/call/v2/inspect/{event}")[2]  # nor twice
    joined = {"fn_index": 1, "session_hash": hashed, "data": [json.dumps(given["request"]), "bytes", "chatml"]}
    names = [dependency["id"] for dependency in json.loads(server.open("config")[2])["dependencies"]]
    assert server.open("gradio_api/queue/join", joined | {"fn_index": names[0]})[0] == 200
    stranger = server.open(f"gradio_api/queue/data?session_hash={hashed}", client="10.0.0.9")
    assert stranger[0] == 404 and CANARY.encode() not in stranger[2]
    for path in ("queue/join", "run/inspect"):
        status, _headers, body = server.open("gradio_api/" + path, joined | {"fn_index": names[0]}, "10.0.0.9")
        assert status == 400 and b"another client" in body
    assert CANARY.encode() in server.open(f"gradio_api/queue/data?session_hash={hashed}")[2]
    for weak in ("a", "../x", 7, "x" * 65):
        assert server.open("gradio_api/queue/join", joined | {"session_hash": weak})[0] == 400
    running = server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(mine, BUSY_PANE)})
    server.until(lambda said: said["admission"]["running"] == 1, 10)
    for name in ("progress", "fetching", "model_progress"):
        found = server.call(name, {"session": theirs, "slot": "1", "what": "verdict"}, "10.0.0.9")[2]
        assert found in (None, {"ref": None, "error": None}), name
    server.call("cancel", {"session": theirs, "slot": "1"}, "10.0.0.9")
    assert server.call("progress", {"session": mine, "slot": "1"})[2]["step"] == "rendering"
    server.call("cancel", {"session": mine, "slot": "1"})
    running.close()
    part = {"session": mine, "first": True, "name": "tokenizer.json", "data": "e30="}
    assert server.call("upload", part)[2]["size"] == 2
    assert server.call("uploaded", {"session": theirs}, "10.0.0.9")[2]["kind"] == "InputInvalid"
    text = {"session": mine, "first": True, "name": "own.jinja", "data": base64.b64encode(CANARY.encode()).decode()}
    server.call("upload", text)
    ref = server.call("uploaded", {"session": mine})[2]["ref"]
    assert server.call("template_source", {"session": mine, "template": ref})[2]["text"] == CANARY
    refused = [
        server.call("template_source", {"session": theirs, "template": asked}, "10.0.0.9")[2]["error"].replace(
            asked, ""
        )
        for asked in (ref, "upload:" + "0" * 64)
    ]
    assert refused[0] == refused[1] and "no such upload" in refused[0]
    server.call("page_closed", {"session": mine})
    assert "no such upload" in server.call("template_source", {"session": mine, "template": ref})[2]["error"]
    assert not kept_of(server, CANARY.encode())
    kept = server.call("share_keep", {"session": mine, "state": '{"schema":"page-state/1","a":"x"}'})[2]
    assert server.call("share_drop", {"session": theirs, "id": kept["id"], "key": "A" * 43}, "10.0.0.9")[2]["error"]
    stored = [
        server.call("share_keep", {"session": session(), "state": '{"schema":"page-state/1",' + " " * 9})[2]
        for _ in range(31)
    ]
    assert {answer.get("kind") for answer in stored} == {None, "Busy"}  # of one address; another may
    assert (
        server.call("share_keep", {"session": theirs, "state": '{"schema":"page-state/1",'}, "10.0.0.9")[2]["error"]
        is None
    )


def test_nothing_pasted_is_written_anywhere_and_no_secret_leaves(server: Server) -> None:
    """Every function and endpoint gets the canary: as what it takes, as what fails, as what it cannot take."""
    pasted = json.dumps([{"role": "user", "content": CANARY}])
    fields = {**FIELDS, "messages": pasted}
    whole = view(session()) | {"fields": fields, "text": CANARY, "ids": [None, 1, None], "tokenizer": "bytes", "tokenizers": ["bytes"],
                               "tokens": CANARY, "state": CANARY, "id": CANARY, "key": CANARY, "name": CANARY, "data": CANARY,
                               "ref": f"hf:org/{CANARY}", "form": "csv", "openai_model": CANARY, "model": CANARY, "typed": CANARY}  # fmt: skip
    raising = "{{ messages[0].content }}{{ raise_exception(messages[0].content) }}"
    failing = whole | {"panes": [{**PANE, "template_text": raising}, {**PANE, "slot": "2"}]}
    asked = [("component_server", {"fn_name": name, "data": data}) for name in layout.functions() for data in (whole, failing, {"session": CANARY, "panes": CANARY})]  # fmt: skip
    for name in (each.strip("/") for each in json.loads(server.open("gradio_api/info")[2])["named_endpoints"]):
        for given in ([pasted, "bytes", "", raising], [CANARY] * 40, CANARY):
            asked += [(f"run/{name}", {"data": given, CANARY: CANARY}), (f"call/{name}", {"data": given})]
        asked.append((f"call/v2/{name}?x={CANARY}", {"request": CANARY, CANARY: CANARY}))
        asked.append((f"run/{name}", {"data": [CANARY], "fn_index": CANARY, "session_hash": CANARY}))
        call = {"name": name, "arguments": {"request": CANARY, CANARY: 1}}
        asked.append(("mcp/", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}))
    for path in (CANARY, f"call/{CANARY}", f"queue/data?session_hash={CANARY}", f"mcp/{CANARY}", f"info?x={CANARY}"):
        asked += [(path, None), (path, {CANARY: CANARY})]

    def ask(k: int) -> int:
        path, data = asked[k]
        accepted = {"Accept": "application/json, text/event-stream"}
        return server.open("gradio_api/" + path, data, f"10.1.{k % 8}.{k}", **accepted)[0]

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(ask, range(len(asked)))) <= {200, 400, 404, 405, 406, 422}
    assert CANARY not in (log := server.log.read_text("utf-8", "replace")) and SECRET not in log
    assert "Traceback" not in log, log[-3000:]
    kept = [
        path
        for path in server.home.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes() + path.name.encode()
    ]
    assert not kept
    for ref in ("hf:org/own", "hf:org/other"):
        assert server.call("view", view(session(), {**PANE, "tokenizer": ref}), "10.0.0.7")[0] == 200
        for name, asked in (("template_revisions", {"ref": ref}), ("tokenizers", {"text": "a", "tokenizers": [ref]})):
            server.call(name, {"session": session(), **asked}, "10.0.0.7")
    assert server.hub.log and not [entry for entry in server.hub.log if entry[2]]  # no token of ours went along
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in server.processes()]
    assert environments and not [text for text in environments if SECRET.encode() in text]
    everything = b"".join(server.open(path)[2] for path in ("", "config", "status", "gradio_api/info"))
    assert SECRET.encode() not in everything and str(server.home).encode() not in everything


FORGED = "x\nfault ForgedError: " + CANARY * 1000
MESSAGES = [
    ({"method": "tools/call", "params": {"name": "inspect", "arguments": CANARY}}, -32602),
    ({"method": "tools/call", "params": {"name": FORGED, "arguments": {}}}, -32602),
    ({"method": "tools/call", "params": CANARY}, -32602),
    ({"method": "initialize", "params": {"protocolVersion": {CANARY: 1}, "capabilities": CANARY}}, -32602),
    ({"method": CANARY}, -32601),
    ({"method": [CANARY]}, -32601),
    *(({"method": name, "params": {"name": "inspect", "arguments": {"request": CANARY}, "uri": f"file://{CANARY}", "level": "debug"}}, -32601)
      for name in ("prompts/get", "resources/read", "resources/subscribe", "completion/complete", "logging/setLevel", "tasks/list", "sampling/createMessage")),
    ({"method": "ping", "id": {CANARY: 1}}, -32600),
    ({"method": "ping", "id": FORGED}, -32600),
    ({"method": "ping", "jsonrpc": CANARY}, -32600),
    ([{"jsonrpc": "2.0", "id": 1, "method": CANARY}], -32600),
    (b'{"' + CANARY.encode(), -32700),
    (b"[" * 50_000, -32700),
]  # fmt: skip


def test_an_assistant_is_told_what_is_wrong_and_the_log_is_told_nothing(server: Server) -> None:
    accepted = {"Accept": "application/json, text/event-stream"}

    def ask(message: Any) -> tuple[int, bytes]:
        whole = {"jsonrpc": "2.0", "id": 1} | message if isinstance(message, dict) else message
        status, _headers, body = server.open("gradio_api/mcp/", whole, **accepted)
        return status, body

    for message, code in MESSAGES:
        status, body = ask(message)
        told = json.loads(body)
        assert told["error"]["code"] == code and told["error"]["data"]["remedy"] and CANARY not in body.decode(), (
            message
        )
        assert told["id"] == (None if code in (-32700, -32600) else 1) and status == (200 if told["id"] else 400)
    for quiet in ({"method": "notifications/" + CANARY, "params": CANARY}, {"result": CANARY}):
        whole = {"jsonrpc": "2.0", **quiet} | ({"id": 1} if "result" in quiet else {})
        assert server.open("gradio_api/mcp/", whole, **accepted)[::2] == (202, b"")
    for name, result in (("prompts/list", b'"prompts":[]'), ("tools/list", b'"budget"'), ("ping", b'"result":{}')):
        assert result in ask({"method": name, "params": {"cursor": [CANARY], "_meta": CANARY}})[1], name
    odd = {"request": CANARY + "\ud800", "tokenizer": 7, CANARY: FORGED}
    assert b'"isError":true' in ask({"method": "tools/call", "params": {"name": "inspect", "arguments": odd, "_meta": {"progressToken": [CANARY]}, "task": CANARY}})[1]  # fmt: skip
    good = {"request": [{"role": "user", "content": CANARY}], "tokenizer": "bytes", "template": "chatml"}
    assert CANARY.encode() in ask({"method": "tools/call", "params": {"name": "inspect", "arguments": good}})[1]
    log = server.log.read_text("utf-8", "replace")
    assert CANARY not in log and "ForgedError" not in log and "Traceback" not in log


def test_a_call_that_gradio_cannot_read_is_told_so_in_one_line(server: Server) -> None:
    index = json.loads(server.open("config")[2])["dependencies"][0]["id"]
    sound = {"fn_index": index, "session_hash": session(), "data": [], "event_id": "0" * 32}
    wrong = {"fn_index": (99, "0", True, CANARY, None), "data": (None, CANARY, {}), "session_hash": (None, 7)}
    wrong_cancel = {"event_id": (None, 7), "fn_index": (None, CANARY), "session_hash": (None, [])}
    asked = [("queue/join", name, value) for name, values in wrong.items() for value in values]
    asked += [("queue/join", "trigger_id", CANARY), ("run/inspect", "data", CANARY), ("call/inspect", "data", None)]
    asked += [("cancel", name, value) for name, values in wrong_cancel.items() for value in values]
    asked += [("reset", "event_id", None), ("run/inspect", "batched", CANARY), ("run/inspect", "fn_index", 99)]
    for path, name, value in asked:
        status, _headers, body = server.open("gradio_api/" + path, {**sound, name: value})
        told = json.loads(body)
        assert status == 400 and told["error"]["kind"] == "OptionInvalid" and name in told["detail"], (path, name, body)
        assert CANARY not in body.decode()
    assert server.open("gradio_api/cancel", sound)[0] == 200


def test_a_registry_s_client_is_given_no_secret_but_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = {
        "PIP_PASSWORD": "own",
        "NPM_TOKEN": "own",
        "npm_config__authToken": "own",
        "HTTPS_PROXY": "http://u:p@proxy",
        "LANG": "C",
    }
    others = dict.fromkeys(
        ("HF_TOKEN", "OPENAI_API_KEY", "INSPECTOR_BACKEND_KEY", "AWS_SECRET_ACCESS_KEY", "db_password"), SECRET
    )
    for name, value in {**own, **others}.items():
        monkeypatch.setenv(name, value)
    told = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(run_client([sys.executable, "-c", told], tmp_path, "it", 0, None, {"EXTRA": "1"}))
    assert seen.items() >= {**own, "EXTRA": "1"}.items() and SECRET not in json.dumps(seen) and "PATH" in seen


def test_the_status_tells_the_truth_about_a_killed_sandbox(server: Server) -> None:
    said = server.status()
    assert said["mode"] == "public" and said["isolation"]["seccomp"] is True and said["limits"]["cpu_s"] == 60
    assert not re.search(r"/(home|tmp|root|usr)\b", json.dumps(said)) and said["error"] is None
    zygote = next(pid for pid in server.processes() if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(server.process.pid))  # fmt: skip
    os.kill(zygote, signal.SIGSTOP)
    try:
        server.until(lambda found: "has not answered" in (found["error"] or ""), 20)
    finally:
        os.kill(zygote, signal.SIGCONT)
    server.until(lambda found: found["error"] is None, 10)
    os.kill(zygote, signal.SIGKILL)
    assert server.call("view", view(session()))[2]["errors"] == []
    assert server.status()["children"]["restarts"] == said["children"]["restarts"] + 1


def test_the_servers_connections_are_the_bounded_ones(server: Server) -> None:
    """What they do is in test_connections.py; here that Gradio's server has them: it opens no WebSocket and logs no line."""
    before = server.log.read_bytes()
    upgrade = "GET /status HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for sent, code in ((upgrade.encode(), b" 200 "), (b"\0 no request\r\n\r\n", b" 400 ")):
        with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
            connection.sendall(sent)
            assert code in connection.recv(65536).split(b"\r\n")[0]
    assert server.log.read_bytes() == before


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_page_runs_under_its_policy_waits_when_busy_and_says_what_the_server_is_at(
    server: Server, browser: Any
) -> None:
    bench = Inspector(browser, server.url, extra_http_headers={"X-Forwarded-For": "10.0.0.5"})
    page = bench.page
    for pane, template in enumerate(("chatml", "raw")):
        bench.choose(f"tokenizer{pane}", "bytes")
        bench.choose(f"template{pane}", template)
    assert page.evaluate("() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); const i = document.createElement('img'); i.setAttribute('onerror', 'window.ran = 2'); i.src = 'data:,'; document.body.append(i); return new Promise((done) => setTimeout(() => done(window.ran === undefined), 300)); }")  # fmt: skip
    assert bench.faults and all("Content Security Policy" in fault for fault in bench.faults)  # those two, and no other
    assert len(bench.faults) == 2, bench.faults
    bench.faults.clear()

    refused = server.status()["admission"]["refused"]
    flood = [server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(session(), BUSY_PANE)}, "10.0.0.5") for _ in range(56)]  # fmt: skip
    server.until(lambda said: said["admission"]["refused"] > refused, 20)
    text = messages("typed while it is busy")
    page.fill('[data-in="messages"]', text)
    page.wait_for_selector(".ti-status:has-text('The server is busy')", timeout=30_000)
    page.wait_for_selector(".ti-head0 .ti-age:has-text('Waiting: the server is busy')")
    assert "Computing" not in page.inner_text(".ti-status")
    for name, context in (("busy", {}), ("busy-dark", {"dark": True})):
        page.evaluate("dark => document.body.classList.toggle('dark', dark)", bool(context))
        page.screenshot(path=shot(name))
    assert page.input_value('[data-in="messages"]') == text
    page.click('[data-act="help"]')
    page.click(".ti-server summary")
    busy = server.status()["admission"]
    page.wait_for_selector(f".ti-server td:has-text('{busy['most_address_running']} of {busy['places']} run')")
    said = page.inner_text(".ti-server")
    assert "everybody (strict limits)" in said and "✓ few system calls (seccomp)" in said and "60 s of CPU" in said
    page.screenshot(path=shot("server-dark"))
    page.evaluate("() => document.body.classList.remove('dark')")
    page.keyboard.press("Escape")
    for connection in flood:
        connection.close()
    server.until(lambda said: said["admission"]["running"] + said["admission"]["waiting"] == 0, 30)
    bench.settle()
    # Fewer, so that there is room in the queue: the page's next question waits there.
    flood = [server.begin("gradio_api/component_server", {"fn_name": "view", "data": view(session(), BUSY_PANE)}, "10.0.0.5") for _ in range(20)]  # fmt: skip
    server.until(lambda said: said["admission"]["waiting"] >= 10, 20)
    page.fill('[data-in="messages"]', messages("typed while it is busy still"))
    waits = "Waiting: other questions of your address run"
    page.wait_for_selector(f".ti-age:has-text('{waits}')", timeout=30_000)
    page.wait_for_selector(f".ti-status:has-text('{waits}')")
    page.screenshot(path=shot("queue"))
    for connection in flood:
        connection.close()
    page.keyboard.press("Escape")
    bench.settle()
    assert "typed while it is busy" in bench.pane(0)["text"] and bench.error("messages") == ""
    assert [fault for fault in bench.faults if "429" not in fault] == []
    bench.faults.clear()

    # Files of one's own: whose they are stands beside them, and that a link does not hold them.
    own = {"name": "own.jinja", "mimeType": "text/plain", "buffer": b"{{ 'zzownfilezz' }}"}
    page.locator('.ti-head1 input[type="file"]').set_input_files(own)
    page.wait_for_selector(
        ".ti-head1 .ti-upload:has-text('only this page can use them; deleted when it closes or after 60 min')"
    )
    bench.settle()
    assert bench.pane(1)["text"] == "zzownfilezz" and kept_of(server, b"zzownfilezz")
    for name, dark, size in (("own-files", False, None), ("own-files-dark-phone", True, NARROW)):
        page.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)
        page.set_viewport_size(size or page.viewport_size)
        page.screenshot(path=shot(name))
        page.click('[data-act="share"]')
        page.wait_for_selector(".ti-share-uploads:has-text('has to give the same files')")
        page.screenshot(path=shot(f"{name}-shared"))
        page.keyboard.press("Escape")
    page.evaluate("() => document.body.classList.remove('dark')")
    page.set_viewport_size(WIDE)

    # What is too large is not sent, and told at the field (test_browser has the fields).
    sent: list[int] = []
    page.on("request", lambda request: sent.append(len(request.post_data or "")))
    found = page.evaluate("""async () => { const b = document.querySelector('#bench .ti').parentNode.bench, { fields, panes } = b.read();
        fields.messages = '"' + 'x'.repeat(5e6) + '"';
        return JSON.parse(await b.server.view({ session: b.session, at: b.at, base: null, fields, panes: [panes[0]] })).errors; }""")  # fmt: skip
    assert [(error["kind"], error["place"]) for error in found] == [("InputTooLarge", "messages")] and sent == [0]
    assert [fault for fault in bench.faults if "413" not in fault] == []

    page.set_viewport_size(NARROW)
    page.click('[data-act="language"]')
    page.click('[data-act="help"]')
    page.wait_for_selector(".ti-server td:has-text('所有人')")
    assert page.evaluate(
        "() => document.querySelector('.ti-help').scrollWidth <= document.querySelector('.ti-help').clientWidth + 1"
    )
    page.screenshot(path=shot("server-phone"))
    before = server.status()["children"]["warm"]
    page.close()
    server.until(lambda said: said["children"]["warm"] <= before - 2, 10)
    server.until(lambda _said: not kept_of(server, b"zzownfilezz"), 10)
    assert bench.outside == []
    bench.context.close()
