"""Model servers for tests: llama.cpp's own, and a loopback server that answers as it is told, faults included."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LLAMA = """
import os, sys
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.hostnames, parameters.port, parameters.api_keys = ["127.0.0.1"], 0, sys.argv[3:]
parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = int(sys.argv[2]), 1, 1
parameters.warmup, parameters.ui = False, False
server = xllamacpp.Server(parameters)
print("ADDRESS", server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"""


@contextlib.contextmanager
def llama_server(model: str, n_ctx: int, *keys: str) -> Iterator[str]:
    """Serve a GGUF with llama.cpp; give the address."""
    command = [sys.executable, "-c", LLAMA, model, str(n_ctx), *keys]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=dict(os.environ), **pipes) as process:
        try:
            yield next(line for line in process.stdout or () if line.startswith("ADDRESS")).split()[1]
        finally:
            process.kill()


Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Told:
    """What a told server answers, by path, and what it was asked: (path, headers, body)."""

    answers: dict[str, Callable[[Any], Reply] | Reply | Any] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)  # the client closed its connection
    hold: threading.Event = field(default_factory=threading.Event)  # set: stop waiting
    url: str = ""

    def bodies(self, path: str) -> list[Any]:
        return [body for at, _headers, body in self.asked if at == path]


@contextlib.contextmanager
def told_server(**kept: Any) -> Iterator[Told]:
    """Serve what `Told.answers` says: a JSON value, a (status, headers, bytes), or a function of the request's body.

    The answer "silence" sends nothing until the client goes; "half" ends in the middle.
    """
    told = Told(**kept)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            told.asked.append((self.path, dict(self.headers), body))
            answer = told.answers.get(self.path, (404, {}, b'{"detail": "Not Found"}'))
            answer = answer(body) if callable(answer) else answer
            if answer == "silence":
                return self.wait()
            if answer == "half":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
                return
            status, headers, data = answer if isinstance(answer, tuple) else (200, {}, json.dumps(answer).encode())
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def wait(self) -> None:
            """Notice the client's going: an empty read at the end of its side."""
            self.connection.settimeout(0.05)
            while not told.hold.is_set():
                with contextlib.suppress(TimeoutError):
                    if self.connection.recv(1) == b"":
                        told.gone.set()
                        break
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        told.hold.set()
        server.shutdown()
        server.server_close()
