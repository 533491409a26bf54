"""Connections that send no whole request, or too many of them, against a server that uvicorn starts as Gradio does."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn import config as uvicorn_config

from inspector.ui import connections

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


SLOW = ASK.replace(b"/ ", b"/slow ")
released = threading.Event()  # for the answers to SLOW


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return
    while scope["path"] == "/slow" and not released.is_set():
        await asyncio.sleep(0.02)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setitem(uvicorn_config.HTTP_PROTOCOLS, "auto", uvicorn_config.HTTP_PROTOCOLS["auto"])
    monkeypatch.setattr(connections, "HEAD_S", 60.0)
    monkeypatch.setattr(connections, "OF_ADDRESS", 8)
    monkeypatch.setattr(connections, "most_connections", lambda: 20)
    connections.bound()
    released.clear()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    released.set()
    server.should_exit = True
    thread.join(10)


def opened(port: int, client: str, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10, (client, 0))
    connection.sendall(sent)
    return connection


def ended(connection: socket.socket, seconds: float = 0.2) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(65536) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def answer(connection: socket.socket, sent: bytes = ASK) -> bytes:
    connection.settimeout(20)
    connection.sendall(sent)
    found = b""
    while not found.endswith(b"ok") and (piece := connection.recv(65536)):
        found += piece
    return found


def test_a_head_has_its_time_and_no_drip_prolongs_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    silent, half, body = (
        opened(port, "127.0.0.2", sent) for sent in (b"", ASK[:20], ASK[:-2] + b"Content-Length: 9\r\n\r\n")
    )
    slow = opened(port, "127.0.0.2", SLOW)
    again = opened(port, "127.0.0.2")
    assert answer(again).endswith(b"ok") and answer(body, b"x").endswith(b"ok")
    began = time.monotonic()
    try:
        while time.monotonic() - began < 3:  # each a byte at a time, after its first request as well
            for connection in (half, again, body):
                connection.sendall(b"x")
            time.sleep(0.1)
    except ConnectionError:
        pass
    assert time.monotonic() - began < 2.9
    assert all(ended(connection, 1.5) for connection in (silent, half, again, body))
    released.set()
    assert answer(slow, b"").endswith(b"ok")  # whose request is there may wait for its answer


def test_an_address_that_has_too_many_gives_way_to_itself_and_to_others(port: int) -> None:
    slow = [opened(port, "127.0.0.2", SLOW) for _ in range(4)]
    held = [opened(port, "127.0.0.2", ASK[:9]) for _ in range(4)]
    time.sleep(0.1)
    assert answer(opened(port, "127.0.0.2")).endswith(b"ok")  # in the place of its own oldest
    assert ended(held[0]) and not ended(held[3], 0.05)
    others = [opened(port, "127.0.0.3", SLOW) for _ in range(8)]
    time.sleep(0.05)
    assert ended(opened(port, "127.0.0.3"))  # nobody gives way: all wait for an answer
    for k in range(6):  # over the number of all together
        assert answer(opened(port, f"127.0.0.{4 + k}")).endswith(b"ok")
    released.set()
    assert all(answer(connection, b"").endswith(b"ok") for connection in (*slow, *others))


def test_a_flood_of_idle_connections_locks_nobody_out(port: int) -> None:
    flood = [opened(port, f"127.0.1.{k % 10 + 1}", ASK[:9]) for k in range(120)]
    assert answer(opened(port, "127.0.0.2")).endswith(b"ok")
    assert sum(not ended(connection, 0.001) for connection in flood) <= 20


def test_a_proxys_connections_are_not_counted_by_address(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [opened(port, "127.0.0.1", SLOW) for _ in range(12)]
    released.set()
    assert all(answer(connection, b"").endswith(b"ok") for connection in asked)
    counted = connections.counted_address
    for name in ("SPACE_ID", "INSPECTOR_PROXIES", "FORWARDED_ALLOW_IPS"):
        monkeypatch.delenv(name, raising=False)
    assert [counted(peer) for peer in (None, ("127.0.0.1", 1), ("9.9.9.9", 1), ("2001:db8::1", 1))] == [
        "",
        "",
        "9.9.9.9",
        "2001:db8::/64",
    ]
    monkeypatch.setenv("INSPECTOR_PROXIES", "1")
    assert counted(("9.9.9.9", 1)) == ""


def test_what_any_client_can_write_is_not_logged_and_a_lack_of_files_once(
    port: int, capfd: Any, caplog: Any, monkeypatch: Any
) -> None:
    for _ in range(5):
        assert b" 400 " in answer(opened(port, "127.0.0.2"), b"\0 none\r\n\r\n")
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert answer(opened(port, "127.0.0.2"), ASK[:-2] + upgrade).endswith(b"ok")
    monkeypatch.setattr(connections, "_logged_at", float("-inf"))
    loop = asyncio.new_event_loop()
    for _ in range(100):
        connections._told(
            loop,
            {
                "message": "socket.accept() out of system resource",
                "exception": OSError(errno.EMFILE, "Too many open files"),
            },
        )
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err.count("\n") == 1
    connections._told(loop, {"message": "another fault"})
    assert "another fault" in caplog.text
    loop.close()


def test_the_limit_of_open_files_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("the hard limit is low")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        assert connections.most_connections() == 512
        connections.raise_files()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raised == (
            connections.MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, connections.MOST_FILES)
        )
        assert connections.most_connections() == raised - 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
