"""How this package talks to its child processes: framed messages, a scrubbed environment, the command that starts one.

It starts nothing and decides nothing; sandbox.py and backends/worker.py do.
"""

from __future__ import annotations

import enum
import json
import os
import re
import socket
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import Any

FRAME = struct.Struct("!BI")


class Frame(enum.IntEnum):
    """The first byte of a frame; then its length and its bytes."""

    OK = 0  # the job's answer
    ERROR = 1  # JSON of InspectorError.to_dict()
    HELLO = 2  # the child is there: its pid
    REQUEST = 3  # JSON of job and limits, followed by a PAYLOAD
    PAYLOAD = 4
    PROGRESS = 5  # JSON; only the logits worker sends it (backends/worker.py)
    BEGUN = 6  # the child has the whole request and starts its job
    DOING = 7  # what the child is at (meter.Activity)
    READABLE = 8  # JSON list of places: what a new child may read beside what all may, before it is confined


def pack_frame(kind: int, body: bytes) -> bytes:
    """Put the header before the body."""
    return FRAME.pack(kind, len(body)) + body


def read_frame(sock: socket.socket, max_bytes: int) -> tuple[int, bytes]:
    """Read one frame from a blocking socket.

    Errors: EOFError when the peer is gone, ValueError when it announces more than `max_bytes`.
    """
    kind, length = FRAME.unpack(read_exactly(sock, FRAME.size))
    if length > max_bytes:
        raise ValueError(f"a frame of {length} bytes; at most {max_bytes} are taken")
    return kind, read_exactly(sock, length)


def read_exactly(sock: socket.socket, length: int) -> bytes:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(data)


ENVIRONMENT_NAMES = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "INSPECTOR_CACHE",
    "PYTHONHASHSEED",
    "PYTHONUTF8",
    "LD_LIBRARY_PATH",
)
ENVIRONMENT_PREFIXES = ("LC_", "OPENBLAS_")
ENVIRONMENT_SET = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PYTHONNOUSERSITE": "1",
}


SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL|BACKEND_KEY")
"""Of variables, in capitals, that hold what nobody else may see."""


def allowed_environment(names: Iterable[str], prefixes: tuple[str, ...], fixed: Mapping[str, str]) -> dict[str, str]:
    """Give the part of this process's environment that a child process may see: no token, no home, no proxy."""
    kept = set(names)
    given = {key: value for key, value in os.environ.items() if key in kept or key.startswith(prefixes)}
    return given | dict(fixed)


# The interpreter starts with -P: the current directory must not be able to shadow a module before sys.path is set.
BOOT = "import json, sys; config = json.loads(sys.argv[1]); sys.path[:] = config['path']; import {0}; {0}.{1}(config)"


def boot_command(module: str, function: str, config: dict[str, Any]) -> list[str]:
    """Give the command line that runs `module.function(config)` in a fresh interpreter with this one's sys.path."""
    config = config | {"path": [os.path.abspath(entry) for entry in sys.path]}
    return [sys.executable, "-P", "-s", "-c", BOOT.format(module, function), json.dumps(config)]
