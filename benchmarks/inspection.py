"""What a whole inspection costs against transformers' `apply_chat_template(tokenize=True)`, in one process.

A whole inspection: request bytes -> canonical messages -> traced render with its reference check -> tokens with spans,
flags and origins as columns -> tensors. "cold" empties the cache of sections before every run (a text never seen);
"warm" keeps it (the same text again). Run: python -m benchmarks.inspection [tokenizer ...]
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from transformers import PreTrainedTokenizerFast

from inspector.job import make_options, prepare
from inspector.pipeline import run
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer

SIZES = {"1k": 9, "10k": 100, "100k": 1000}
LIMITS = {"1k": 1.5, "10k": 1.0, "100k": 1.0}
WORDS = 'the quick 天空 为什么 def foo(x): return x+1 \n\n {"a": 1.0} émoji 🙂 12345 don\'t'.split(" ")


def conversation(messages: int) -> list[dict[str, str]]:
    """Give a chat of about 100 tokens a message."""
    rng = random.Random(1)
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": " ".join(rng.choice(WORDS) for _ in range(40))} for i in range(messages)]


def reference(name: str) -> PreTrainedTokenizerFast:
    """Load transformers' own tokenizer from the preset's files."""
    with tempfile.TemporaryDirectory() as folder:
        for file in resolve_tokenizer(name).files:
            shutil.copy(file.path, f"{folder}/{file.name}")
        return PreTrainedTokenizerFast.from_pretrained(folder)


def interleaved(actions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Time the actions in turn, so that a slow moment of the machine meets all of them; medians in ms."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(name: str) -> None:
    """Print one row a size."""
    library, tokenizer = reference(name), load_tokenizer(resolve_tokenizer(name))
    sections = tokenizer._sections
    for label, count in SIZES.items():
        messages = conversation(count)
        job = prepare(json.dumps(messages).encode(), make_options(tokenizer=name, clock="2026-01-31T09:30:00"))
        length = len(run(job).raise_for_error().encoding)

        def cold(job: Any = job) -> None:
            sections.clear()
            run(job)

        times = interleaved(
            {
                "cold": cold,
                "warm": lambda job=job: run(job),
                "library": lambda messages=messages: library.apply_chat_template(messages, add_generation_prompt=True),
            },
            rounds=max(5, 400 // count),
        )
        ratio = times["cold"] / times["library"]
        print(
            f"{name:12} {label:>5} {length:7} tokens  library {times['library']:7.1f} ms  cold {times['cold']:7.1f} ms"
            f"  warm {times['warm']:7.1f} ms  ratio cold {ratio:.2f} (bar {LIMITS[label]}), warm {times['warm'] / times['library']:.2f}"
        )


if __name__ == "__main__":
    for preset in sys.argv[1:] or ["qwen3", "llama3"]:
        measure(preset)
