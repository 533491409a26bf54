"""The hostile inputs of data/attacks.jsonl and how they are run: in children with a visitor's limits, watched from outside.

Which file runs which surface is nobody's table: test_attacks.py reads it off the tests' own parameters.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspector.errors import InspectorError
from inspector.job import make_options, prepare
from inspector.sandbox import Sandbox

sys.path.insert(0, str(Path(__file__).parent / "data"))
import attack_helpers

DATA = Path(__file__).parent / "data"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (DATA / "attacks.jsonl").read_text("utf-8").splitlines())
}
HI = [{"role": "user", "content": "hi"}]
SLACK_S = 0.5  # beyond the wall clock: killing, reaping, answering


def of(surface: str, *prefixes: str) -> list[str]:
    """The ids of a surface, of those prefixes only if any are given."""
    return [i for i, case in CASES.items() if case["surface"] == surface and i.startswith(prefixes or "")]


def payload(attack: str) -> Any:
    """What the attacker sends."""
    case = CASES[attack]
    return eval(case["payload_py"], vars(attack_helpers)) if "payload_py" in case else case["payload"]


def as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request to a child ended. Units: seconds of wall clock, MiB of resident memory at its peak."""

    value: dict[str, Any]
    error: InspectorError | None
    wall_s: float
    peak_mb: float

    @property
    def kind(self) -> str:
        return self.error.kind.name if self.error else ""

    @property
    def text(self) -> str:
        return self.value["rendered"]["text"]

    def findings(self, rule: str) -> list[dict[str, Any]]:
        return [finding for finding in self.value["findings"] if finding["rule"] == rule]


def request(messages: Any, **options: Any) -> Any:
    """A visitor's request, prepared: a Job."""
    data = messages if isinstance(messages, bytes) else json.dumps(messages).encode()
    return prepare(data, make_options(**{"tokenizer": "bytes", **options}), local_files=False)


def send(sandbox: Sandbox, job: str, make: Any, **call: Any) -> Outcome:
    """Make a payload and run it, watched; an error of either is the outcome's. The sandbox must still be well."""
    began = time.monotonic()
    value: dict[str, Any] = {}
    error = None
    with watched(sandbox) as peak:
        try:
            value = json.loads(sandbox.call(job, pickle.dumps(make()), **call))
        except InspectorError as failed:
            error = failed
    wall_s = time.monotonic() - began
    if value.get("error"):
        error = InspectorError.from_dict(value["error"])
    assert sandbox.call("echo", b"still here") == b"still here"
    json.dumps(value, ensure_ascii=False).encode("utf-8", "strict" if error is None else "surrogatepass")
    if error is not None:
        line = error.one_line()
        assert line.isprintable() and error.message and error.remedy, error.to_dict()
        assert not any(place in line for place in (str(DATA.parent.parent), sys.prefix, "Traceback", "site-packages"))
    return Outcome(value, error, wall_s, peak[0])


@contextlib.contextmanager
def watched(sandbox: Sandbox) -> Iterator[list[float]]:
    """Watch the children of a sandbox: the peak of resident memory that any of them had, in MiB."""
    peak, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            for pid in _children(sandbox._zygote.process.pid):
                with contextlib.suppress(OSError, StopIteration, ValueError):
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    size = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
                    peak[0] = max(peak[0], int(size) / 1024)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
