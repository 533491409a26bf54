"""The engine of one machine: a thread a worker, each with a child of its own, each on a part of its own.

The threads wait for their children and write tables; no row is parsed in this process. The first error that is not a
row's (a full disk, no child to be had) stops the scan; parts that are written stay.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

from inspector.errors import InspectorError
from inspector.scan.engine import CallCancelled, Tell, in_sandbox, run_part, scan_sandbox
from inspector.scan.output import Output
from inspector.scan.plan import ScanPlan
from inspector.scan.source import Part


@dataclass(frozen=True, slots=True)
class Done:
    """What one call of an engine did: parts and rows that were measured now, and rows that were there before."""

    parts: int
    rows: int
    skipped: int


def run(plan: ScanPlan, output: Output, *, workers: int = 1, tell: Tell | None = None) -> Done:
    """Measure every part that is not there yet.

    Errors: CacheFull, WorkerCrashed, InputInvalid; KeyboardInterrupt leaves what is written, to be gone on with.
    """
    pending = output.pending()
    rows = sum(part.rows for part in pending)
    if pending:
        _Run(plan, output, tell).over(pending, min(workers, len(pending)))
    return Done(len(pending), rows, output.source.rows - rows)


class _Run:
    """Parts in a queue, and the threads that take them."""

    def __init__(self, plan: ScanPlan, output: Output, tell: Tell | None) -> None:
        self.plan, self.output, self.tell = plan, output, tell
        self.parts: queue.SimpleQueue[Part] = queue.SimpleQueue()
        self.stop = threading.Event()
        self.failed: BaseException | None = None
        self.told = threading.Lock()

    def over(self, parts: tuple[Part, ...], workers: int) -> None:
        for part in parts:
            self.parts.put(part)
        sandbox = scan_sandbox(self.plan, workers, own_files=True)
        threads = [
            threading.Thread(target=self._work, args=(sandbox, f"scan-{n}"), daemon=True) for n in range(workers)
        ]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.1)  # short: Ctrl-C is looked at between
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(10.0)
            sandbox.close()
        if self.failed is not None:
            raise self.failed

    def _work(self, sandbox: object, session: str) -> None:
        measure = in_sandbox(sandbox, session, self.stop)  # type: ignore[arg-type]
        while not self.stop.is_set():
            try:
                part = self.parts.get_nowait()
            except queue.Empty:
                return
            try:
                self.output.write(part, run_part(self.plan, self.output.source, part, measure, self._tell))
            except CallCancelled:
                return
            except (InspectorError, Exception) as error:
                self.failed = self.failed or error
                self.stop.set()
                return

    def _tell(self, rows: int, errors: int) -> None:
        if self.tell is not None:
            with self.told:
                self.tell(rows, errors)
