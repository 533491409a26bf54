"""What isolation costs: a trivial job in this process, in a warm child and in a fresh child.

Prints milliseconds and the difference to the same work in this process. Run: python -m benchmarks.sandbox
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from inspector.jobs import echo
from inspector.sandbox import Sandbox

ROUNDS = 200
PAYLOAD_BYTES = 20_000  # a request of 20 messages


def milliseconds(work: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """Time each of the rounds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def show(label: str, times: list[float], reference: float) -> None:
    """Print median, 95th percentile and the difference of the medians."""
    median, p95 = statistics.median(times), times[int(0.95 * len(times))]
    print(f"{label:34} p50 {median:8.3f} ms   p95 {p95:8.3f} ms   {median - reference:+8.3f} ms to this process")


def main() -> None:
    """Print the table."""
    payload = bytes(PAYLOAD_BYTES)
    began = time.perf_counter()
    with Sandbox.start() as sandbox:
        started = time.perf_counter()
        sandbox.wait_ready()
        ready = time.perf_counter()
        print(f"start() returns after {1000 * (started - began):.1f} ms; ready after {ready - began:.2f} s")
        own = milliseconds(lambda: echo(payload))
        reference = statistics.median(own)
        show("echo 20 kB, this process", own, reference)
        show("echo 20 kB, warm child", milliseconds(lambda: sandbox.call("echo", payload, session="s")), reference)
        show("echo 20 kB, fresh child", milliseconds(lambda: sandbox.call("echo", payload)), reference)
        large = bytes(10 << 20)
        show("echo 10 MB, warm child", milliseconds(lambda: sandbox.call("echo", large, session="s"), 20), reference)
        with ThreadPoolExecutor(8) as pool:
            began = time.perf_counter()
            list(pool.map(lambda _: sandbox.call("echo", payload), range(ROUNDS)))
            rate = ROUNDS / (time.perf_counter() - began)
        print(f"fresh children from 8 threads: {rate:.0f} a second")


if __name__ == "__main__":
    main()
