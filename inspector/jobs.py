"""The registry of what a sandbox child may run: job name -> "module:function", each a function bytes -> bytes.

A request names a job of this table and nothing else, so no data can choose the code. The module holds the table and
the two jobs that examine the sandbox itself; it does not start processes (sandbox.py) and knows no pipeline stage.
"""

from __future__ import annotations

import json
import os
import sys

JOBS: dict[str, str] = {
    "echo": "inspector.jobs:echo",
    "self_test": "inspector.jobs:self_test",
}


def echo(payload: bytes) -> bytes:
    """Give the payload back: the cheapest job, for benchmarks and start-up checks."""
    return payload


def self_test(payload: bytes) -> bytes:
    """Tell, as JSON, which limits the operating system really has in force on this child."""
    import resource

    names = ("AS", "CPU", "FSIZE", "NOFILE", "CORE")
    soft = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in names}
    facts = {
        "rlimits": {name: None if value == resource.RLIM_INFINITY else value for name, value in soft.items()},
        "own_session": os.getsid(0) == os.getpid(),
        "environment": sorted(os.environ),
        "torch_loaded": "torch" in sys.modules,
    }
    return json.dumps(facts).encode()


def warm() -> None:
    """Run once in the zygote before the first fork: touch lazily loaded code so that no child has to load it."""
    json.loads(json.dumps({"warm": [1.5, None, "é"]}))
