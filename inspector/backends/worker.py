"""Next-token logits in a process of its own: the page stays responsive, and a dying model does not take it along.

`LocalWorker` is the client: it starts the worker on first demand, sends artifact and ids, and reads progress, then the
full float32 logits as raw bytes. The worker runs backends/local.py. One request at a time; after a death the next
request starts a new worker, and after `idle_s` without a request the worker ends and gives its memory back.

The worker is trusted (models are pinned or chosen by the operator): it has no rlimits and sees the GPU. It gets no
token, no home and no proxy in its environment, and goes to no network.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from inspector.backends import RawLogits, Report
from inspector.errors import ErrorKind, InspectorError
from inspector.processes import ENVIRONMENT_NAMES, Frame, allowed_environment, boot_command, pack_frame, read_frame
from inspector.sandbox import CallCancelled

if TYPE_CHECKING:
    from inspector.sources import ModelArtifact

REQUEST_BYTES = 256 << 20
ANSWER_BYTES = 1 << 30
TICK_S = 0.05
ENVIRONMENT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_")
ENVIRONMENT_SET = {
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONNOUSERSITE": "1",
}


class LocalWorker:
    """Client of one worker process. Thread-safe.

    Units: `timeout_s` bounds one request from its turn to its answer, loading and converting included; `idle_s` seconds.
    """

    name = "worker"

    def __init__(self, *, timeout_s: float = 600.0, idle_s: float = 1800.0, device: str | None = None) -> None:
        self._settings = {"idle_s": idle_s, "device": device}
        self._timeout_s = timeout_s
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._number = 0
        self._begun = False
        self.starts = 0

    def next_token_logits(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        *,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute in the worker (see Backend).

        A cancelled request returns at once with CallCancelled. Its forward pass goes on, because a new worker would
        have to load torch and the model again; the next request waits for its end and drops its answer.
        A request over its time kills the worker.
        """
        tell = report or (lambda text: None)
        started = time.perf_counter()
        self._take_turn(tell, cancel)
        try:
            queue_ms = 1000 * (time.perf_counter() - started)
            header, values = self._request(model, batch, tell, cancel, timeout_s or self._timeout_s)
        finally:
            self._turn.release()
        return _results(header, values, queue_ms)

    def _take_turn(self, tell: Report, cancel: threading.Event | None) -> None:
        if self._turn.acquire(blocking=False):
            return
        tell("waiting")
        while not self._turn.acquire(timeout=TICK_S):
            if cancel is not None and cancel.is_set():
                raise CallCancelled

    def _request(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        tell: Report,
        cancel: threading.Event | None,
        timeout_s: float,
    ) -> tuple[dict[str, Any], bytes]:
        self._number += 1
        body = {"number": self._number, "model": asdict(model), "batch": [list(map(int, ids)) for ids in batch]}
        deadline = time.monotonic() + timeout_s
        data = pack_frame(Frame.REQUEST, json.dumps(body).encode())
        try:
            return self._attempt(data, deadline, tell, cancel)
        except (EOFError, ConnectionError):
            code = self._stop()
        except TimeoutError:
            self._stop(kill=True)
            raise _too_slow(timeout_s) from None
        if self._begun:
            raise _died(code)
        # it had ended before it saw this request, idle or by another hand: the request is not to blame
        try:
            return self._attempt(data, deadline, tell, cancel)
        except (EOFError, ConnectionError):
            raise _died(self._stop()) from None

    def _attempt(
        self, data: bytes, deadline: float, tell: Report, cancel: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        self._begun = False
        sock = self._running(tell)
        _send(sock, data, deadline)
        return self._answer(sock, deadline, tell, cancel)

    def _answer(
        self, sock: socket.socket, deadline: float, tell: Report, cancel: threading.Event | None
    ) -> tuple[dict[str, Any], bytes]:
        """Read frames until this request's answer; those of a cancelled earlier request are dropped."""
        while True:
            _wait_readable(sock, deadline, cancel)
            kind, body = read_frame(sock, ANSWER_BYTES)
            record = json.loads(body)
            values = read_frame(sock, ANSWER_BYTES)[1] if kind == Frame.OK else b""
            if record["number"] != self._number:
                continue
            self._begun = True
            if kind == Frame.OK:
                return record, values
            if kind == Frame.ERROR:
                raise InspectorError.from_dict(record["error"])
            tell(record["doing"])

    def _running(self, tell: Report) -> socket.socket:
        if self._sock is not None and self._process is not None and self._process.poll() is None:
            return self._sock
        self._stop()
        tell("starting")
        return self._start()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._sock = ours
        self.starts += 1
        try:
            self._process = subprocess.Popen(
                boot_command("inspector.backends.worker", "worker_main", self._settings | {"fd": theirs.fileno()}),
                env=allowed_environment(ENVIRONMENT_NAMES, ENVIRONMENT_PREFIXES, ENVIRONMENT_SET | _cache_setting()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # libraries print there; faults go to standard error
                start_new_session=True,
                cwd="/",
            )
        finally:
            theirs.close()
        return ours

    def _stop(self, kill: bool = False) -> int | None:
        """End the worker; give its exit code, None if there was none."""
        process, self._process = self._process, None
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()
        if process is None:
            return None
        if kill:
            process.kill()
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def pid(self) -> int | None:
        """Give the worker's process id, None while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def close(self) -> None:
        """End the worker once the running request is done."""
        with self._turn:
            self._stop()


@lru_cache(maxsize=1)
def shared() -> LocalWorker:
    """Give this process's worker client."""
    return LocalWorker()


def _cache_setting() -> dict[str, str]:
    """Name the cache folder explicitly: the worker has no home to find it by."""
    from inspector.sources import cache

    return {"INSPECTOR_CACHE": str(cache.cache_dir().absolute())}


def _send(sock: socket.socket, data: bytes, deadline: float) -> None:
    view = memoryview(data)
    while view:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        view = view[sock.send(view[: 1 << 20]) :]


def _wait_readable(sock: socket.socket, deadline: float, cancel: threading.Event | None) -> None:
    """Errors: TimeoutError at the deadline, CallCancelled."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if cancel is not None and cancel.is_set():
            raise CallCancelled
        if left <= 0:
            raise TimeoutError
        if poll.poll(1000 * (min(left, TICK_S) if cancel is not None else left)):
            sock.settimeout(max(0.001, left))  # a frame that has begun must also end in time
            return


def _results(header: dict[str, Any], values: bytes, queue_ms: float) -> list[RawLogits]:
    results = []
    offset = 0
    for row in header["results"]:
        array = np.frombuffer(values, np.dtype("<f4"), row["size"], offset).astype(np.float32)
        array.setflags(write=False)
        offset += 4 * row["size"]
        timings = row["timings_ms"] | {"queue": queue_ms}
        results.append(RawLogits(array, "local", row["device"], row["dtype"], timings))
    return results


def _died(code: int | None) -> InspectorError:
    name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    hint = "; most likely the machine ran out of memory" if name == "SIGKILL" else ""
    return InspectorError(
        ErrorKind.WorkerCrashed,
        f"the model's process died ({name}){hint}",
        stage="logits",
        remedy="try again, a new one is started; if it dies again use a shorter input or a smaller model",
    )


def _too_slow(timeout_s: float) -> InspectorError:
    return InspectorError(
        ErrorKind.TimeLimit,
        f"the model took longer than the limit of {timeout_s:g} s",
        stage="logits",
        remedy="use a shorter input or a smaller model, or raise the limit",
    )


# ------------------------------------------------------------------------------------------------ the worker's side


def worker_main(config: dict[str, Any]) -> NoReturn:
    """Answer requests until the client is gone or none came for `idle_s`."""
    from inspector.backends.local import LocalBackend

    sock = socket.socket(fileno=config["fd"])
    backend = LocalBackend(device=config["device"])
    while True:
        if not select.select([sock], [], [], config["idle_s"])[0]:
            os._exit(0)
        try:
            _, body = read_frame(sock, REQUEST_BYTES)
            _serve(sock, json.loads(body), backend.next_token_logits)
        except (EOFError, OSError):
            os._exit(0)


def _serve(sock: socket.socket, request: dict[str, Any], compute: Callable[..., list[RawLogits]]) -> None:
    from inspector.sources import ArtifactFile, ModelArtifact

    number = request["number"]

    def report(doing: str) -> None:
        sock.sendall(pack_frame(Frame.PROGRESS, json.dumps({"number": number, "doing": doing}).encode()))

    report("reading")
    record = request["model"] | {"files": tuple(ArtifactFile(**file) for file in request["model"]["files"])}
    try:
        results = compute(ModelArtifact(**record), request["batch"], report=report)
    except InspectorError as error:
        sock.sendall(pack_frame(Frame.ERROR, json.dumps({"number": number, "error": error.to_dict()}).encode()))
        return
    rows = [
        {"device": raw.device, "dtype": raw.dtype, "size": len(raw.values), "timings_ms": dict(raw.timings_ms)}
        for raw in results
    ]
    sock.sendall(pack_frame(Frame.OK, json.dumps({"number": number, "results": rows}).encode()))
    sock.sendall(pack_frame(Frame.PAYLOAD, b"".join(raw.values.astype("<f4").tobytes() for raw in results)))
