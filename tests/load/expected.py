"""What the answers must be: the page's own functions run in this one process, without sandbox, server or neighbours.

An answer counts by its digest; what differs between two runs of the same request (timings, the number of an answer) is
left out of it. Views come as changes of the one before, so they are read as the page reads them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
from collections.abc import Iterator
from typing import Any

from inspector import jobs, limits, service
from inspector.ui import api, calls, records, serve, tools
from tests.load.traffic import Call
from tests.view2 import applied

_FUNCTIONS = {function.__name__: function for function in (*serve.FUNCTIONS, *tools.FUNCTIONS, *records.FUNCTIONS)}
_ENDPOINTS = {endpoint.name: endpoint for endpoint in api.ENDPOINTS}
_UNLIKE = ("timings_ms", "number", "base", "legend")


class InProcess:
    """What service.sandbox() gives here: jobs run where they are called."""

    def call(self, job: str, payload: bytes, **_options: Any) -> bytes:
        """Run a job."""
        module, _colon, function = jobs.JOBS[job].partition(":")
        return getattr(importlib.import_module(module), function)(payload)


@contextlib.contextmanager
def single_process() -> Iterator[None]:
    """Let the page's functions run their jobs in this process, for strangers as the server does."""
    before, own, bounds = service._sandbox, calls._own_machine, limits.in_force()
    service._sandbox, calls._own_machine = InProcess(), False  # type: ignore[assignment]
    limits.use(limits.PUBLIC)
    try:
        yield
    finally:
        service._sandbox, calls._own_machine = before, own
        limits.use(bounds)


def expected(call: Call) -> str:
    """Give the digest of a call's right answer; needs `single_process`."""
    if call.way == "endpoint":
        endpoint = _ENDPOINTS[call.name]
        values = [call.value.get(each.name, each.default) for each in endpoint.parameters]
        return Reader().digest(call, json.loads(endpoint.answer(*values)))
    value = {**call.value, "session": "0" * 32}
    return Reader().digest(call, json.loads(_FUNCTIONS[call.name](value)))


class Reader:
    """Reads the answers of one session; remembers what its pane holds."""

    def __init__(self) -> None:
        self.held: dict[str, Any] | None = None

    def base(self) -> str | None:
        """The answer that a next view may go on from."""
        return self.held["number"] if self.held else None

    def digest(self, call: Call, answer: Any) -> str:
        """Give the digest of what an answer says."""
        if call.name == "view" and isinstance(answer, dict):
            pane = answer.get("pane")
            self.held = applied(self.held, pane) if pane else None
            answer = {"errors": answer["errors"], "pane": self._whole()}
        text = json.dumps(_same(answer), ensure_ascii=True, sort_keys=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _whole(self) -> dict[str, Any] | None:
        if self.held is None:
            return None
        columns = {name: column.tolist() for name, column in sorted(self.held["columns"].items())}
        ids = sorted(set(columns["ids"]))
        names = {str(i): self.held["names"][i] for i in ids}
        return {"columns": columns, "paths": self.held["paths"], "names": names, "info": dict(sorted(self.held["info"].items()))}  # fmt: skip


def _same(value: Any) -> Any:
    """Leave out what differs between two runs."""
    if isinstance(value, dict):
        return {key: _same(entry) for key, entry in value.items() if key not in _UNLIKE}
    if isinstance(value, list):
        return [_same(entry) for entry in value]
    if isinstance(value, str) and value.startswith("{") and '"schema":"record/1"' in value:
        return _same(json.loads(value))
    return value


def view_of(call: Call) -> tuple[list[int], str]:
    """Give the ids and the text of a view in this process; needs `single_process`."""
    reader = Reader()
    reader.digest(call, json.loads(serve.view({**call.value, "session": "0" * 32})))
    if reader.held is None:
        raise AssertionError(f"no view of {call.key}")
    columns = reader.held["columns"]
    return columns["ids"].tolist(), columns["bytes"].astype("uint8").tobytes().decode()
