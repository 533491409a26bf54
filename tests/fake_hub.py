"""A loopback server that speaks the Hub's protocol, with the faults that real networks have.

It serves repositories of commits: API (`revision`, `paths-info`, `tree`, `commits`) and `resolve`, with ETag, commit
header and error codes. `fault` names what goes wrong; `log` holds every request with its Authorization header.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

HTML = b"<!DOCTYPE html><html><body>Sign in<script>alert(1)</script></body></html>"


def git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Repository:
    """Commits, oldest first: (title, date, files). `refs` names commits by their place; LFS from `lfs_from` bytes."""

    commits: list[tuple[str, str, dict[str, bytes]]]
    refs: dict[str, int] = field(default_factory=lambda: {"main": -1})
    lfs_from: int = 1 << 20
    gated: bool = False
    private: bool = False
    token: str = "hf_reader"

    def commit_id(self, index: int) -> str:
        title, date, files = self.commits[index]
        return hashlib.sha1(repr((title, date, sorted(files))).encode()).hexdigest()

    def place(self, revision: str) -> int | None:
        if revision in self.refs:
            return range(len(self.commits))[self.refs[revision]]
        return next((i for i in range(len(self.commits)) if self.commit_id(i) == revision), None)

    def last_change(self, path: str, index: int) -> int:
        data = self.commits[index][2].get(path)
        while index and self.commits[index - 1][2].get(path) == data:
            index -= 1
        return index


@dataclass
class State:
    """What the server holds and does; tests write to it while it runs."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    fault: str = ""
    where: str = "/"  # faults strike paths that begin so
    faults: dict[str, str] = field(default_factory=dict)  # several at a time: beginning of a path -> fault
    headers: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *arguments: object) -> None:
        return

    def do_HEAD(self) -> None:
        self._reply(200, b"", {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._handle(parse_qs(body.decode()))

    def do_GET(self) -> None:
        self._handle(None)

    def _handle(self, form: dict[str, list[str]] | None) -> None:
        url = urlsplit(self.path)
        self.state.log.append((self.command, self.path, self.headers.get("Authorization", "")))
        code, body, headers = self._answer(url.path, parse_qs(url.query), form)
        if self.state.fault and url.path.startswith(self.state.where):
            return self._strike(self.state.fault, code, body, headers)
        for where, fault in self.state.faults.items():
            if url.path.startswith(where):
                return self._strike(fault, code, body, headers)
        return self._reply(code, body, headers)

    def _reply(self, code: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.wfile.flush()

    def _strike(self, fault: str, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.close_connection = True
        if fault.isdigit():
            return self._reply(int(fault), b'{"error": "<script>"}', self.state.headers)
        if fault == "hang":
            self.state.released.wait(30)
        elif fault == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif fault == "html":
            return self._reply(200, HTML, {"Content-Type": "text/html"})
        elif fault == "garbage":
            return self._reply(200, b"[1, {", headers)
        elif fault == "list":
            return self._reply(200, b'[1, "x"]', headers)
        elif fault == "half-then-silence":
            self._reply(code, body[: len(body) // 2], headers, len(body))
            self.state.released.wait(30)
        elif fault == "half-then-close":
            self._reply(code, body[: len(body) // 2], headers, len(body))
        elif fault == "short":
            return self._reply(code, body[:-1], headers)
        elif fault == "long":
            return self._reply(code, body + b" " * 100_000, headers)
        elif fault == "other":
            return self._reply(code, bytes([body[0] ^ 1]) + body[1:], headers)
        elif fault == "other-commit":
            return self._reply(code, body, {**headers, "X-Repo-Commit": "f" * 40})
        elif fault == "redirect":
            return self._reply(302, b"", {"Location": self.state.headers["Location"]})
        elif fault == "loop":
            return self._reply(302, b"", {"Location": self.path})
        elif fault == "drip":
            self._drip(code, body, headers)
        else:
            raise ValueError(fault)
        return None

    def _drip(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self._reply(code, b"", headers, len(body))
        with contextlib.suppress(OSError):
            for byte in body:
                if self.state.released.wait(0.05):
                    return
                self.wfile.write(bytes([byte]))
                self.wfile.flush()

    def _answer(
        self, path: str, query: dict[str, list[str]], form: dict[str, list[str]] | None
    ) -> tuple[int, bytes, dict[str, str]]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        is_api = parts[:2] == ["api", "models"]
        org_name, rest = "/".join(parts[2:4] if is_api else parts[:2]), parts[4 if is_api else 2 :]
        repository = self.state.repositories.get(org_name)
        signed_in = self.headers.get("Authorization") == f"Bearer {repository.token}" if repository else False
        if repository is None or not rest:
            return 404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"}
        if repository.private and not signed_in:
            return 401, b'{"error": "Invalid username or password."}', {"X-Error-Code": "RepoNotFound"}
        if repository.gated and not signed_in and rest[0] == "resolve":
            return 403, b'{"error": "<script>gated</script>"}', {"X-Error-Code": "GatedRepo"}
        index = repository.place(rest[1]) if len(rest) > 1 else None
        if index is None:
            return 404, b'{"error": "Invalid rev id"}', {"X-Error-Code": "RevisionNotFound"}
        if rest[0] == "resolve":
            return _resolve(repository, index, "/".join(rest[2:]))
        if rest[0] == "paths-info" and form is not None:
            expand = form.get("expand") == ["true"]
            return _json([row for p in form.get("paths", []) if (row := _path_row(repository, index, p, expand))])
        if rest[0] == "tree":
            folder = "/".join(rest[2:])
            held = [p for p in repository.commits[index][2] if p.rpartition("/")[0] == folder]
            return _json([_path_row(repository, index, p, False) for p in held])
        if rest[0] == "commits":
            return _json(_commit_rows(repository, index, query))
        if rest[0] == "revision":
            state = {"private": repository.private, "gated": "manual" if repository.gated else False}
            return _json({"id": org_name, "sha": repository.commit_id(index), **state})
        return 404, b"{}", {}


def _json(value: Any) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps(value).encode(), {"Content-Type": "application/json"}


def _resolve(repository: Repository, index: int, path: str) -> tuple[int, bytes, dict[str, str]]:
    commit = repository.commit_id(index)
    data = repository.commits[index][2].get(path)
    if data is None:
        return 404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}
    etag = sha256(data) if len(data) >= repository.lfs_from else git_id(data)
    return 200, data, {"ETag": f'"{etag}"', "X-Repo-Commit": commit}


def _path_row(repository: Repository, index: int, path: str, expand: bool) -> dict[str, Any] | None:
    files = repository.commits[index][2]
    if any(name.startswith(f"{path}/") for name in files):
        return {"type": "directory", "path": path, "oid": "0" * 40}
    if path not in files:
        return None
    data = files[path]
    row: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": git_id(data)}
    if len(data) >= repository.lfs_from:
        row |= {
            "oid": git_id(b"pointer" + data[:9]),
            "lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 130},
        }
    if expand:
        last = repository.last_change(path, index)
        title, date, _files = repository.commits[last]
        row["lastCommit"] = {"id": repository.commit_id(last), "title": title, "date": date}
    return row


def _commit_rows(repository: Repository, index: int, query: dict[str, list[str]]) -> list[dict[str, Any]]:
    page, limit = int(query.get("p", ["0"])[0]), int(query.get("limit", ["50"])[0])
    newest_first = list(range(index, -1, -1))[page * limit : (page + 1) * limit]
    return [
        {"id": repository.commit_id(i), "title": repository.commits[i][0], "date": repository.commits[i][1],
         "message": "", "authors": [{"user": "someone"}]}
        for i in newest_first
    ]  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up in the middle are part of the tests."""


@contextlib.contextmanager
def serve(state: State) -> Iterator[str]:
    """Serve `state` on the loopback; give the endpoint."""
    handler = type("Handler", (_Handler,), {"state": state})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()


def wait_until(condition: Any, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come true")
        time.sleep(0.02)
