"""Jobs that misbehave, for test_sandbox.py: each runs in a sandbox child only."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import socket
import sys
import time

import tokenizers
from jinja2.sandbox import ImmutableSandboxedEnvironment

import inspector
from inspector import meter
from inspector.errors import ErrorKind, InspectorError

NAMES = (
    "pid", "spin", "native_spin", "sleep", "fill_memory", "fill_memory_slowly", "recurse", "abort", "abort_like_rust",
    "overflow_like_rust", "segfault", "huge", "not_bytes", "raise_error", "raise_secret", "raise_exit", "rust_panic", "render", "burn",
    "write_file", "open_files", "remember", "forge_length", "forge_error", "chatter", "kill_self", "fork_sleeper",
    "environment", "read_file", "load", "ignore_clocks", "flood", "keep", "endless", "connect", "run", "signal_parent",
)  # fmt: skip
JOBS = {name: f"sandbox_bombs:{name}" for name in NAMES}
_seen: list[bytes] = []


def pid(payload: bytes) -> bytes:
    return str(os.getpid()).encode()


def spin(payload: bytes) -> bytes:
    while True:
        pass


def native_spin(payload: bytes) -> bytes:
    exponent = 9 ** (8 + len(payload))  # not a constant: the compiler would fold it
    return str(9**exponent).encode()  # one call that holds the GIL for hours


def sleep(payload: bytes) -> bytes:
    time.sleep(float(payload))
    return b"slept"


def fill_memory(payload: bytes) -> bytes:
    return bytes(int(payload))


def fill_memory_slowly(payload: bytes) -> bytes:
    kept = []
    while True:
        kept.append([0] * 1000)


def recurse(payload: bytes) -> bytes:
    return recurse(payload)


def abort(payload: bytes) -> bytes:
    os.abort()


def abort_like_rust(payload: bytes) -> bytes:
    os.write(2, b"memory allocation of 8589934592 bytes failed\n")
    os.abort()


def overflow_like_rust(payload: bytes) -> bytes:
    os.write(2, b"\nthread 'main' has overflowed its stack\nfatal runtime error: stack overflow\n")
    os.abort()


def segfault(payload: bytes) -> bytes:
    return ctypes.string_at(0)


def huge(payload: bytes) -> bytes:
    return bytes(int(payload))


def not_bytes(payload: bytes) -> bytes:
    return "text"  # type: ignore[return-value]


def raise_error(payload: bytes) -> bytes:
    raise InspectorError(
        ErrorKind.TemplateSyntax, "unexpected '}' \ud800", stage="render", where={"line": 3}, remedy="close the block"
    )


def raise_secret(payload: bytes) -> bytes:
    raise KeyError("/hidden/path")


def raise_exit(payload: bytes) -> bytes:
    sys.exit(0)


def rust_panic(payload: bytes) -> bytes:
    """Make the tokenizers library panic: it divides a text into pieces of no length."""
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    config = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "FixedLength", "length": 0},
        "model": model,
    }
    return str(tokenizers.Tokenizer.from_str(json.dumps(config)).encode("aaa").ids).encode()


def render(payload: bytes) -> bytes:
    return ImmutableSandboxedEnvironment().from_string(payload.decode()).render().encode()


def burn(payload: bytes) -> bytes:
    end = time.process_time() + float(payload)
    while time.process_time() < end:
        pass
    return str(time.process_time()).encode()


def write_file(payload: bytes) -> bytes:
    with open(payload.decode(), "wb") as file:
        file.write(b"x")
    return b"written"


def read_file(payload: bytes) -> bytes:
    with open(payload.decode(), "rb") as file:
        return file.read()


def connect(payload: bytes) -> bytes:
    host, port = payload.decode().split(":")
    with socket.socket() as peer:
        peer.connect((host, int(port)))
    return b"connected"


def run(payload: bytes) -> bytes:
    os.execv(payload.decode(), [payload.decode()])


def signal_parent(payload: bytes) -> bytes:
    os.kill(os.getppid(), signal.SIGTERM)
    return b"sent"


def open_files(payload: bytes) -> bytes:
    kept = []
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return str(len(kept)).encode()


def remember(payload: bytes) -> bytes:
    _seen.append(payload)
    return b",".join(_seen)


def forge_length(payload: bytes) -> bytes:
    socket.socket(fileno=os.dup(3)).sendall(b"\x00\xff\xff\xff\xff" + bytes(100))
    time.sleep(60)
    return b""


def forge_error(payload: bytes) -> bytes:
    body = payload or b"[" * 100_000
    socket.socket(fileno=os.dup(3)).sendall(b"\x01" + len(body).to_bytes(4, "big") + body)
    time.sleep(60)
    return b""


def chatter(payload: bytes) -> bytes:
    for _ in range(200):
        os.write(2, b"x" * 4096)
        os.write(1, b"y" * 4096)
    return b"done"


def kill_self(payload: bytes) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def fork_sleeper(payload: bytes) -> bytes:
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(300)
        os._exit(0)
    return str(grandchild).encode()


def load(payload: bytes) -> bytes:
    """Burn CPU seconds in loading, once or several times, and then apart from it: b"1.5 1.5 0.2"."""
    *loads, rest = payload.split()
    for seconds in loads:
        with meter.loading("slow"):
            burn(seconds)
    return burn(rest)


def ignore_clocks(payload: bytes) -> bytes:
    for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGVTALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def flood(payload: bytes) -> bytes:
    sock = socket.socket(fileno=os.dup(3))
    while True:
        sock.sendall(payload)


def keep(payload: bytes) -> bytes:
    _seen.append(bytes(int(payload)))
    return b"kept"


def endless(payload: bytes) -> bytes:
    """Render a template of payload's text as the pipeline does; or call once what never comes back to Python."""
    with meter.rendering("mine"):
        if payload == b"native":
            return hashlib.pbkdf2_hmac("sha256", payload, payload, 1 << 30)
        return ImmutableSandboxedEnvironment().from_string(payload.decode()).render().encode()


def environment(payload: bytes) -> bytes:
    facts = {"environ": dict(os.environ), "modules": sorted(sys.modules), "pid": os.getpid()}
    facts["package"] = os.path.dirname(inspector.__file__)
    return json.dumps(facts).encode()
