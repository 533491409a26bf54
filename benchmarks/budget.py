"""What the budget's search costs, as ratios in one process. Run: python -m benchmarks.budget [tokenizer ...]

1. The whole search (messages policy, a window of half the chat) over one render and tokenization of the whole chat, both
   with an empty cache of sections, at 100, 1,000 and 10,000 messages. Bar at 1,000: 3.
2. The plain search, which renders and tokenizes every candidate, over the fast one, at 100 messages; their decisions
   and ids are compared.
3. An edit of one character in a chat of 100,000 tokens over tokenizing all of it again, in CPU time (other work on the
   machine does not count). Bar: 5 %; the ids are compared.
"""

from __future__ import annotations

import functools
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.inspection import conversation
from inspector import pipeline
from inspector.budget import Budget, fit_context
from inspector.job import make_options, prepare
from inspector.tokenizers import load_tokenizer

SIZES = {100: 9, 1000: 5, 10_000: 1}
CLOCK = "2026-01-31T09:30:00"


def interleaved(actions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Time the actions in turn; medians in ms."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


class Case:
    """One chat with a tokenizer, ready to be assembled and fitted."""

    def __init__(self, preset: str, messages: int) -> None:
        options = make_options(tokenizer=preset, template=None if preset != "smollm2" else "chatml", clock=CLOCK)
        chat = conversation(messages + 1)[:messages]
        chat[-1]["role"] = "user"
        self.job = prepare(json.dumps(chat).encode(), options)
        inspection = pipeline.run(self.job).raise_for_error()
        self.tokenizer, self.conversation = load_tokenizer(self.job.tokenizer), inspection.conversation
        self.length, self.text = len(inspection.encoding), inspection.rendered.text
        shared: dict[str, Any] = {"template": inspection.template, "tokenizer": self.tokenizer}
        building = pipeline._Building(options)
        self.assemble = functools.partial(pipeline._assemble, building=building, **shared)
        self.lengths = functools.partial(pipeline._lengths, options=options, clock=building.clock, **shared)
        self.budget = Budget(self.length // 2)

    def whole(self) -> Any:
        self.tokenizer._sections.clear()
        return self.assemble(self.conversation)

    def fast(self) -> Any:
        self.tokenizer._sections.clear()
        return fit_context(self.conversation, self.assemble, self.budget, self.lengths)

    def plain(self) -> Any:
        self.tokenizer._sections.clear()
        return fit_context(self.conversation, self.assemble, self.budget)

    def edit(self, rng: random.Random) -> Callable[[], Any]:
        """Give an encoding of the text with another character changed every time."""

        def run() -> Any:
            place = rng.randrange(len(self.text))
            self.text = self.text[:place] + "x" + self.text[place + 1 :]
            return self.tokenizer.encode(self.text).input_ids

        return run

    def again(self) -> Any:
        self.tokenizer._sections.clear()
        return self.tokenizer.encode(self.text)


def measure(preset: str) -> None:
    """Print the rows of one tokenizer."""
    for messages, rounds in SIZES.items():
        case = Case(preset, messages)
        times = interleaved({"whole": case.whole, "fast": case.fast}, rounds)
        print(
            f"{preset:10} {messages:6} messages {case.length:8} tokens  one pass {times['whole']:8.1f} ms"
            f"  budget {times['fast']:8.1f} ms  ratio {times['fast'] / times['whole']:.2f}",
            flush=True,
        )
    case = Case(preset, 100)
    fast, plain = case.fast(), case.plain()
    if fast.decision != plain.decision or not np.array_equal(fast.encoding.input_ids, plain.encoding.input_ids):
        raise ValueError(f"{preset}: the fast search differs from the plain one")
    times = interleaved({"plain": case.plain, "fast": case.fast}, 3)
    print(f"{preset:10}    100 messages  plain / fast {times['plain'] / times['fast']:.1f}", flush=True)
    case = Case(preset, 1000)
    edit = case.edit(random.Random(4))
    case.again()
    if not np.array_equal(edit(), case.again().input_ids):
        raise ValueError(f"{preset}: an edit gives other ids")
    ratio = _cpu(edit, 30) / _cpu(case.again, 5)
    print(f"{preset:10} {case.length:7} tokens  edit / all again {ratio:.3f} of CPU time (bar 0.05)")


def _cpu(action: Callable[[], Any], rounds: int) -> float:
    """Give the median of CPU seconds, of all threads."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return statistics.median(times)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["qwen3", "llama3", "smollm2"]:
        measure(name)
