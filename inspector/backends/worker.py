"""Next-token logits in a process of its own: the page stays responsive, and a dying model does not take it along.

`LocalWorker` is the client: it starts the worker on first demand, sends artifact and ids, and reads progress, then the
full float32 logits as raw bytes. The worker runs backends/local.py. Any number of threads may ask at a time: requests and
answers carry a number, and the worker's backend lets them take turns. After a death the next request starts a new worker,
and after `idle_s` without a request the worker ends and gives its memory back.

The worker is trusted (models are pinned or chosen by the operator): it has no rlimits and sees the GPU. It gets no
token, no home and no proxy in its environment, and goes to no network.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from inspector import caller
from inspector.backends import LOADED, PaddedRows, PromptScores, RawLogits, Report, silent
from inspector.errors import ErrorKind, InspectorError
from inspector.job import check_model_tokens
from inspector.processes import ENVIRONMENT_NAMES, Frame, allowed_environment, boot_command, pack_frame, read_frame
from inspector.sandbox import CallCancelled

if TYPE_CHECKING:
    from inspector.backends.local import LocalBackend
    from inspector.sources import ModelArtifact
    from inspector.training.vocabulary import VocabularyPlan

REQUEST_BYTES = 256 << 20
ANSWER_BYTES = 1 << 30
TICK_S = 0.05
GRACE_S = 30.0  # for a worker to give up a request that is over its time, before it is killed
SEND_S = 30  # a worker that takes no bytes for so long hangs
MOST_AT_ONCE = 64
ENVIRONMENT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_", "TORCH_", "PYTORCH_")
ENVIRONMENT_SET = {
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONNOUSERSITE": "1",
}


class LocalWorker:
    """Client of one worker process. Thread-safe.

    Units: `timeout_s` bounds one request from its sending to its answer, loading and converting included; `idle_s` seconds.
    """

    name = "worker"
    capabilities = LOADED

    def __init__(self, *, timeout_s: float = 600.0, idle_s: float = 1800.0, device: str | None = None) -> None:
        self._settings = {"idle_s": idle_s, "device": device}
        self._timeout_s = timeout_s
        self._starting = threading.Lock()
        self._link: _Link | None = None
        self.starts = 0

    def next_token_logits(
        self,
        model: ModelArtifact,
        batch: Sequence[Sequence[int]],
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute in the worker (see Backend).

        A cancelled request returns at once with CallCancelled; the worker stops after its chunk. So does one over its
        time; a worker that does not (it may be loading) is killed.
        """
        body = {"batch": [_plain(ids) for ids in batch]}
        header, values = self._ask("next_token_logits", model, dtype, body, report, cancel, timeout_s)
        return _results(header, values)

    def prompt_logprobs(
        self,
        model: ModelArtifact,
        input_ids: Sequence[int],
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> PromptScores:
        """Score a prompt in the worker (see Backend)."""
        body = {"input_ids": _plain(input_ids)}
        header, values = self._ask("prompt_logprobs", model, dtype, body, report, cancel, timeout_s)
        half = len(values) // 2
        logprobs, ranks = np.frombuffer(values[:half], "<f8"), np.frombuffer(values[half:], "<i8")
        return PromptScores(logprobs, ranks, "local", header["device"], header["dtype"], header["timings_ms"])

    def padded_logits(
        self,
        model: ModelArtifact,
        rows: PaddedRows,
        *,
        dtype: str | None = None,
        report: Report | None = None,
        cancel: threading.Event | None = None,
        timeout_s: float | None = None,
    ) -> list[RawLogits]:
        """Compute a padded batch in the worker (see Backend)."""
        given = {"input_ids": rows.input_ids, "attention_mask": rows.attention_mask, "read_at": rows.read_at}
        body: dict[str, Any] = {name: array.tolist() for name, array in given.items()}
        body["position_ids"] = None if rows.position_ids is None else rows.position_ids.tolist()
        header, values = self._ask("padded_logits", model, dtype, body, report, cancel, timeout_s)
        return _results(header, values)

    def vocabulary_trial(
        self, model: ModelArtifact, planned: VocabularyPlan, ids: Sequence[int], *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Try a plan's new tokens in the worker (see LocalBackend); give schema `vocabulary-trial/1`."""
        body = {"input_ids": _plain(ids), "plan": asdict(planned)}
        return self._ask("vocabulary_trial", model, None, body, None, None, timeout_s)[0]["trial"]

    def _ask(
        self,
        what: str,
        model: ModelArtifact,
        dtype: str | None,
        body: dict[str, Any],
        report: Report | None,
        cancel: threading.Event | None,
        timeout_s: float | None,
    ) -> tuple[dict[str, Any], bytes]:
        tell: Report = report or silent
        timeout_s = timeout_s or self._timeout_s
        deadline = time.monotonic() + timeout_s
        who = caller.current()
        cancel = cancel or who.cancel
        request = {"what": what, "model": asdict(model), "dtype": dtype, "owner": who.owner, **body}
        for attempt in range(2):
            link = self._running(tell)
            asked = link.ask(request)
            try:
                return asked.answer(deadline, tell, cancel)
            except TimeoutError:
                threading.Thread(target=asked.end_or_kill, daemon=True).start()
                raise _too_slow(timeout_s) from None
            except _Gone:
                # it had ended before it saw this request, idle or by another hand: the request is not to blame
                if asked.begun or attempt:
                    raise _died(link.stop()) from None
        raise AssertionError

    def _running(self, tell: Report) -> _Link:
        with self._starting:
            if self._link is None or not self._link.alive():
                if self._link is not None:
                    self._link.stop()
                tell("starting")
                self.starts += 1
                self._link = _Link(self._settings)
            return self._link

    def pid(self) -> int | None:
        """Give the worker's process id, None while there is none."""
        link = self._link
        return link.process.pid if link is not None and link.process.poll() is None else None

    def close(self) -> None:
        """End the worker."""
        with self._starting:
            if self._link is not None:
                self._link.stop()
            self._link = None


class _Gone(Exception):
    """The worker does not answer any more."""


class _Link:
    """One worker process and the thread that hands its answers to those who asked."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._sock, theirs = socket.socketpair()
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_S, 0))
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._gone = False
        try:
            self.process = subprocess.Popen(
                boot_command("inspector.backends.worker", "worker_main", {**settings, "fd": theirs.fileno()}),
                env=allowed_environment(ENVIRONMENT_NAMES, ENVIRONMENT_PREFIXES, ENVIRONMENT_SET | _cache_setting()),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # libraries print there; faults go to standard error
                start_new_session=True,
                cwd="/",
            )
        finally:
            theirs.close()
        threading.Thread(target=self._read, name="logits-worker", daemon=True).start()

    def alive(self) -> bool:
        """True while the worker can be asked."""
        return not self._gone and self.process.poll() is None

    def ask(self, request: dict[str, Any]) -> _Asked:
        """Send a request."""
        asked = _Asked(self, next(self._numbers))
        self._asked[asked.number] = asked
        if self._gone:  # the reading thread may have ended before it could see this one
            asked.put(None)
        self.send({**request, "number": asked.number})
        return asked

    def send(self, record: dict[str, Any]) -> None:
        """Send a record; a worker that is gone is told to those who wait by the reading thread."""
        try:
            with self._sending:
                self._sock.sendall(pack_frame(Frame.REQUEST, json.dumps(record).encode()))
        except BlockingIOError:
            self.stop(kill=True)
        except OSError:
            self._end()

    def forget(self, number: int) -> None:
        """Drop what still comes for a request."""
        self._asked.pop(number, None)

    def stop(self, kill: bool = False) -> int | None:
        """End the worker; give its exit code."""
        if kill:
            self.process.kill()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _read(self) -> None:
        try:
            while True:
                kind, body = read_frame(self._sock, ANSWER_BYTES)
                record = json.loads(body)
                values = read_frame(self._sock, ANSWER_BYTES)[1] if kind == Frame.OK else b""
                asked = self._asked.get(record["number"])
                if asked is not None:
                    asked.put((kind, record, values))
        except (EOFError, OSError, ValueError):
            self._end()
            self._sock.close()

    def _end(self) -> None:
        self._gone = True
        for asked in list(self._asked.values()):
            asked.put(None)


class _Asked:
    """One request under way. `begun`: the worker has said something about it."""

    def __init__(self, link: _Link, number: int) -> None:
        self.number, self.begun = number, False
        self._link = link
        self._came: queue.SimpleQueue[tuple[int, dict[str, Any], bytes] | None] = queue.SimpleQueue()

    def put(self, came: tuple[int, dict[str, Any], bytes] | None) -> None:
        """Take a frame; None when the worker is gone."""
        self._came.put(came)

    def answer(self, deadline: float, tell: Report, cancel: threading.Event | None) -> tuple[dict[str, Any], bytes]:
        """Wait for the answer. Errors: TimeoutError, CallCancelled, _Gone, those of the backend."""
        try:
            while True:
                came = self._next(deadline, cancel)
                if came is None:
                    raise _Gone
                self.begun = True
                kind, record, values = came
                if kind == Frame.PROGRESS:
                    tell(record["doing"], record["done"], record["total"])
                    continue
                self._link.forget(self.number)
                if kind == Frame.ERROR:
                    raise InspectorError.from_dict(record["error"])
                return record, values
        except (TimeoutError, CallCancelled) as stopped:
            self._link.send({"number": self.number, "cancel": True})
            if isinstance(stopped, CallCancelled):
                self._link.forget(self.number)
            raise

    def end_or_kill(self) -> None:
        """Wait for the worker to give this request up; kill one that does not."""
        deadline = time.monotonic() + GRACE_S
        try:
            while (came := self._next(deadline, None)) is not None and came[0] == Frame.PROGRESS:
                pass
        except TimeoutError:
            self._link.stop(kill=True)
        finally:
            self._link.forget(self.number)

    def _next(self, deadline: float, cancel: threading.Event | None) -> tuple[int, dict[str, Any], bytes] | None:
        while True:
            if cancel is not None and cancel.is_set():
                raise CallCancelled
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                return self._came.get(timeout=min(left, TICK_S) if cancel is not None else left)
            except queue.Empty:
                continue


@lru_cache(maxsize=1)
def shared() -> LocalWorker:
    """Give this process's worker client."""
    return LocalWorker()


def _cache_setting() -> dict[str, str]:
    """Name the cache folder explicitly: the worker has no home to find it by."""
    from inspector.sources import cache

    return {"INSPECTOR_CACHE": str(cache.cache_dir().absolute())}


def _results(header: dict[str, Any], values: bytes) -> list[RawLogits]:
    results = []
    offset = 0
    for row in header["results"]:
        array = np.frombuffer(values, np.dtype("<f4"), row["size"], offset).astype(np.float32)
        array.setflags(write=False)
        offset += 4 * row["size"]
        results.append(RawLogits(array, "local", row["device"], row["dtype"], row["timings_ms"], reused=row["reused"]))
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
    """Answer requests, each in a thread, until the client is gone or none came for `idle_s`."""
    from inspector.backends.local import LocalBackend

    server = _Server(socket.socket(fileno=config["fd"]), LocalBackend(device=config["device"]))
    while True:
        if not select.select([server.sock], [], [], config["idle_s"])[0]:
            if server.running:
                continue
            os._exit(0)
        try:
            server.take(json.loads(read_frame(server.sock, REQUEST_BYTES)[1]))
        except (EOFError, OSError):
            os._exit(0)


class _Server:
    """The worker's requests under way. `running`: number -> the event that gives a request up."""

    def __init__(self, sock: socket.socket, backend: LocalBackend) -> None:
        self.sock, self._backend = sock, backend
        self._sending = threading.Lock()
        self._places = threading.Semaphore(MOST_AT_ONCE)
        self.running: dict[int, threading.Event] = {}

    def take(self, request: dict[str, Any]) -> None:
        """Begin a request, or give one up."""
        number = request["number"]
        if request.get("cancel"):
            if number in self.running:
                self.running[number].set()
            return
        self.running[number] = threading.Event()
        threading.Thread(target=self._serve, args=(request,), daemon=True).start()

    def _serve(self, request: dict[str, Any]) -> None:
        number = request["number"]
        try:
            with self._places, caller.asked_by(caller.Caller(request["owner"])):
                record, values = self._computed(request, self.running[number])
            self._send(number, Frame.OK, record, values)
        except CallCancelled:
            error = InspectorError(ErrorKind.TimeLimit, "given up", stage="logits")
            self._send(number, Frame.ERROR, {"error": error.to_dict()})
        except InspectorError as error:
            self._send(number, Frame.ERROR, {"error": error.to_dict()})
        except OSError:
            os._exit(0)  # the client is gone
        except BaseException:
            # a fault of ours: the client must not wait for an answer that never comes
            traceback.print_exc()
            os._exit(1)
        finally:
            self.running.pop(number, None)

    def _computed(self, request: dict[str, Any], cancel: threading.Event) -> tuple[dict[str, Any], bytes]:
        from inspector.sources import ArtifactFile, ModelArtifact

        def report(doing: str, done: int = 0, total: int = 0, /) -> None:
            self._send(request["number"], Frame.PROGRESS, {"doing": doing, "done": done, "total": total})

        report("reading")
        record = request["model"] | {"files": tuple(ArtifactFile(**file) for file in request["model"]["files"])}
        model = ModelArtifact(**record)
        options: dict[str, Any] = {"dtype": request["dtype"], "report": report, "cancel": cancel}
        if request["what"] == "prompt_logprobs":
            return _packed_scores(self._backend.prompt_logprobs(model, request["input_ids"], **options))
        if request["what"] == "padded_logits":
            return _packed(self._backend.padded_logits(model, _rows(request), **options))
        if request["what"] == "vocabulary_trial":
            tried = self._backend.vocabulary_trial(model, _plan(request["plan"]), request["input_ids"], **options)
            return {"trial": tried.to_dict()}, b""
        return _packed(self._backend.next_token_logits(model, request["batch"], **options))

    def _send(self, number: int, kind: Frame, record: dict[str, Any], values: bytes | None = None) -> None:
        with self._sending:
            self.sock.sendall(pack_frame(kind, json.dumps({"number": number, **record}).encode()))
            if values is not None:
                self.sock.sendall(pack_frame(Frame.PAYLOAD, values))


def _plan(record: dict[str, Any]) -> VocabularyPlan:
    """Read a plan as it was sent: JSON has lists for tuples."""
    from inspector.training.vocabulary import Slot, VocabularyPlan

    slots = {name: tuple(Slot(**entry) for entry in record[name]) for name in ("existing", "reserved")}
    return VocabularyPlan(**record | slots | {name: tuple(record[name]) for name in ("tokens", "new_ids")})


def _plain(ids: Sequence[int]) -> list[int]:
    """Give ids as they are sent; too many are refused unread. Errors: PromptTooLong."""
    check_model_tokens(len(ids))
    return list(map(int, ids))


def _rows(request: dict[str, Any]) -> PaddedRows:
    def array(name: str) -> np.ndarray:
        return np.array(request[name], np.int64)

    positions = None if request["position_ids"] is None else array("position_ids")
    return PaddedRows(array("input_ids"), array("attention_mask"), positions, array("read_at"))


def _packed(results: list[RawLogits]) -> tuple[dict[str, Any], bytes]:
    rows = [
        {
            "device": raw.device,
            "dtype": raw.dtype,
            "size": len(raw.values),
            "reused": raw.reused,
            "timings_ms": dict(raw.timings_ms),
        }
        for raw in results
    ]
    return {"results": rows}, b"".join(raw.values.astype("<f4").tobytes() for raw in results)


def _packed_scores(scores: PromptScores) -> tuple[dict[str, Any], bytes]:
    record = {"device": scores.device, "dtype": scores.dtype, "timings_ms": dict(scores.timings_ms)}
    return record, scores.logprobs.astype("<f8").tobytes() + scores.ranks.astype("<i8").tobytes()
