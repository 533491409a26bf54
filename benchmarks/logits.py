"""What the verdict costs, as ratios against one plain prompt read from nothing, in one process with the embedded model.

- A/B with a shared prefix: two prompts that share their first 1,000 tokens, against one of them alone.
- An edit at the end: the last 5 tokens of a prompt that was just read, against the whole prompt.
- Two prompts as a padded batch, against one after the other from the shared prefix (why the sides are not batched).
- Prompt heat against next-token logits: what the logits of every position cost.
- A long prompt under way: how long a short prompt of another visitor waits, against the long one.
Medians of `rounds`, each action in turn. The ratios are of this process's CPU time, which other processes do not disturb;
that of the last row is of the clock's. Run: python -m benchmarks.logits [tokens] [rounds]
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

from inspector.backends import PaddedRows, load_backend
from inspector.backends.local import LocalBackend
from inspector.sources import resolve_model

EDIT = 5
WAITS = "short beside long"
LIMITS = {"A and B": 1.15, "edit at the end": 0.08}


def ids_of(count: int, seed: int) -> list[int]:
    """Give random ids: what is read does not change what reading costs."""
    return np.random.default_rng(seed).integers(20, 40_000, count).tolist()


class Measured:
    """The actions, on one backend; `forget` makes the next prompt be read from nothing."""

    def __init__(self, tokens: int) -> None:
        self.backend: LocalBackend = load_backend("local")  # type: ignore[assignment]
        self.model = resolve_model("smollm2")
        self.backend.next_token_logits(self.model, [[1]])
        self.base = ids_of(tokens, 1)
        self.a, self.b = self.base + ids_of(EDIT, 2), self.base + ids_of(EDIT, 3)

    def forget(self) -> None:
        for loaded in self.backend._loaded.values():
            loaded.kept.clear()

    def alone(self) -> None:
        self.backend.next_token_logits(self.model, [self.a])

    def both(self) -> None:
        self.backend.next_token_logits(self.model, [self.a, self.b])

    def edit(self) -> None:
        self.backend.next_token_logits(self.model, [self.base + ids_of(EDIT, 4)])

    def batch(self) -> None:
        rows = np.array([self.a, self.b])
        last = np.full(2, rows.shape[1] - 1)
        self.backend.padded_logits(self.model, PaddedRows(rows, np.ones_like(rows), None, last))

    def heat(self) -> None:
        self.backend.prompt_logprobs(self.model, self.a)

    def short_beside_long(self) -> float:
        """Give how long a prompt of 5 tokens takes while the long one is under way, in seconds."""
        begun = threading.Event()

        def report(doing: str, done: int = 0, total: int = 0, /) -> None:
            if done:
                begun.set()

        long = threading.Thread(target=lambda: self.backend.next_token_logits(self.model, [self.a], report=report))
        long.start()
        begun.wait(60)
        started = time.perf_counter()
        self.backend.next_token_logits(self.model, [ids_of(5, 9)])
        spent = time.perf_counter() - started
        long.join()
        return spent


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Give the seconds of a call: the clock's and this process's CPU time."""
    began, busy = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - busy


def measure(tokens: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Give the median seconds of each action, by the clock and of the CPU."""
    measured = Measured(tokens)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, action in (("one alone", measured.alone), ("A and B", measured.both), ("a batch", measured.batch),
                             ("prompt heat", measured.heat)):  # fmt: skip
            measured.forget()
            found.setdefault(name, []).append(timed(action))
        measured.forget()
        measured.alone()
        found.setdefault("edit at the end", []).append(timed(measured.edit))
        measured.forget()
        found.setdefault(WAITS, []).append((measured.short_beside_long(), 0.0))
    return {name: tuple(map(statistics.median, zip(*values))) for name, values in found.items()}  # type: ignore[misc]


def main() -> None:
    """Print one row an action."""
    tokens, rounds = (int(value) for value in (*sys.argv[1:], *(1000, 5)[len(sys.argv) - 1 :]))
    found = measure(tokens, rounds)
    clock, busy = found["one alone"]
    for name, (seconds, spent) in found.items():
        bar = f"  (bar {LIMITS[name]})" if name in LIMITS else ""
        ratio = seconds / clock if name == WAITS else spent / busy
        print(f"{name:20} {1000 * seconds:8.0f} ms  ratio {ratio:.3f}{bar}")


if __name__ == "__main__":
    main()
