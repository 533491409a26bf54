"""What a scan costs against a bare loop of transformers' `apply_chat_template`, and what the second core adds.

The rows are synthetic conversations from a seed: lognormal lengths, several scripts, code, system prompts, tools and
calls. Their words are some 60, or with `--prose` stretches of Python's own documentation, of 11,000 different ones. Per core: CPU seconds a row of the bare loop (`apply_chat_template(tokenize=True)`, text parsed from the
same JSON Lines) and of rows.py with all columns, interleaved in one process. The engine: wall time of one worker and of
two on the same rows, and the parent's memory as the scan goes on.

Run: python -m benchmarks.scan [--rows N] [--tokenizer ID] [--prose] [--write FILE] [--core | --engine | --sampled]
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import random
import resource
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WORDS = (
    "the quick harbour tide at noon and then we sail when wind allows because every boat needs water under its keel "
    "please write a function that returns the sum of numbers explain why this fails with an error value list dict "
    "however therefore model token prompt answer question table column week month result number example simple"
).split()
OTHERS = (
    "Привет как дела сегодня мы идём домой после работы и ужина",
    "今天天气很好我们去海边看潮水什么时候涨起来请告诉我答案",
    "مرحبا كيف حالك اليوم نذهب إلى البحر بعد العمل",
    "오늘 날씨가 좋아서 바다에 갑니다 언제 만조인가요",
    "Über größere Höhen fährt die Fähre täglich nach Süden",
)
CODE = ("def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) { total += a[i]; }\n", 'SELECT id, name FROM t WHERE x > 3;\n',
        '{"port": "Brest", "height": 3.25, "ok": true}\n')  # fmt: skip
TOOL = {"type": "function", "function": {"name": "tide", "description": "Height of the tide", "parameters": {
    "type": "object", "properties": {"port": {"type": "string"}, "hour": {"type": "integer"}}, "required": ["port"]}}}  # fmt: skip


@functools.lru_cache(maxsize=1)
def documentation() -> list[str]:
    """Give the words of Python's documentation, in its order."""
    from pydoc_data.topics import topics

    return " ".join(topics[name] for name in sorted(topics)).split(" ")


def prose(rng: random.Random, size: int) -> str:
    """Give a stretch of Python's documentation, of so many words."""
    at = rng.randrange(len(documentation()) - size)
    return " ".join(documentation()[at : at + size])


def text(rng: random.Random, median: int, natural: bool) -> str:
    """Give a text of a lognormal number of words, one in six in another script, of the others one in eight with code."""
    size = max(1, min(2000, int(rng.lognormvariate(0, 0.8) * median)))
    if rng.random() < 1 / 6:
        words = rng.choice(OTHERS).split() if " " in (other := rng.choice(OTHERS)) else list(other)
        return " ".join(rng.choices(words, k=size))
    said = prose(rng, size) if natural else " ".join(rng.choices(WORDS, k=size)) + f" {rng.randrange(10**6)}."
    return said + "\n```\n" + rng.choice(CODE) * rng.randint(1, 4) + "```" if rng.random() < 1 / 8 else said


def conversation(rng: random.Random, natural: bool = False) -> dict[str, Any]:
    """Give one row: messages, and tools where there are calls."""
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "content": text(rng, 15, natural)})
    tools = rng.random() < 0.15
    for turn in range(rng.choice((1, 1, 1, 2, 2, 3, 4, 6))):
        messages.append({"role": "user", "content": text(rng, 25, natural)})
        if tools and rng.random() < 0.5:
            call = {"id": f"call{turn:05d}", "type": "function",
                    "function": {"name": "tide", "arguments": {"port": "Brest", "hour": rng.randrange(24)}}}  # fmt: skip
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"{rng.random() * 9:.2f} m"})
        messages.append({"role": "assistant", "content": text(rng, 60, natural)})
    return {"messages": messages, **({"tools": [TOOL]} if tools else {})}


def rows(count: int, seed: int = 7, natural: bool = False) -> Iterator[str]:
    """Give `count` rows as JSON text; the same seed gives the same rows."""
    rng = random.Random(seed)
    for _ in range(count):
        yield json.dumps(conversation(rng, natural), ensure_ascii=False)


def write(path: Path, count: int, seed: int = 7, natural: bool = False) -> None:
    """Write a JSON Lines file of synthetic conversations."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in rows(count, seed, natural))


def reference(tokenizer: str) -> Any:
    """Load transformers' own tokenizer from the preset's files."""
    from transformers import PreTrainedTokenizerFast

    from inspector.sources import resolve_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        for file in resolve_tokenizer(tokenizer).files:
            shutil.copy(file.path, f"{folder}/{file.name}")
        return PreTrainedTokenizerFast.from_pretrained(folder)


def plan_of(tokenizer: str, **how: Any) -> Any:
    """Give the plan: two windows, prefixes, labels, findings; no side B."""
    from inspector.job import make_options, prepare
    from inspector.scan.plan import PlanSide, ScanPlan

    options = make_options(tokenizer=tokenizer, clock="2026-01-31T09:30:00", add_generation_prompt=False)
    job = prepare(b"[]", options)
    return ScanPlan((PlanSide(options, job.tokenizer, job.template),), **{"windows": (2048, 8192), **how})


def per_core(tokenizer: str, count: int, natural: bool = False, rounds: int = 5) -> None:
    """Print CPU milliseconds a row of the bare loop and of the scan, and the ratio of their rates."""
    from inspector.scan.rows import scan_rows
    from inspector.scan.source import RowBatch

    library, plan = reference(tokenizer), plan_of(tokenizer)
    lines = [row.encode() for row in rows(count, natural=natural)]
    share = -(-count // rounds)
    bare, mask, scan = [], [], []
    for start in range(0, count, share):
        some = lines[start : start + share]
        batch = RowBatch("f", "json", tuple(range(len(some))), (0,) * len(some), tuple(some), 0, len(some))
        if not start:
            scan_rows(plan, batch.only(0, 1))
            gc.collect()
            gc.freeze()  # as the children of the sandbox have it
        for times, work in (
            (bare, lambda some=some: [_bare(library, line) for line in some]),
            (mask, lambda some=some: [_bare(library, line, return_dict=True) for line in some]),
            (scan, lambda batch=batch: scan_rows(plan, batch)),
        ):
            began = time.process_time()
            work()
            times.append((time.process_time() - began) / len(some) * 1000)
    a, m, b = map(statistics.median, (bare, mask, scan))
    print(f"{tokenizer}: bare {a:.2f} ms ({m:.2f} with mask and dict), scan {b:.2f} ms a row;"
          f" rate {a / b:.2f} of the bare loop ({m / b:.2f})", flush=True)  # fmt: skip


def _bare(library: Any, line: bytes, **how: Any) -> Any:
    row = json.loads(line)
    return library.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=True, **how)


class _Memory(threading.Thread):
    """Looks at this process's resident memory while a scan goes on."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[int] = []
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.5):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.samples.append(pages * os.sysconf("SC_PAGE_SIZE") >> 20)


def engine(tokenizer: str, count: int, workers: tuple[int, ...] = (1, 2)) -> None:
    """Print rows a second of each number of workers on the same file, and the parent's memory."""
    from inspector.scan import local, output, source

    plan = plan_of(tokenizer, rows_per_part=min(2000, max(50, count // 16)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write(path, count)
        rates: dict[int, float] = {}
        for number in workers:
            memory = _Memory()
            opened = source.open_source([path], rows_per_part=plan.rows_per_part)
            out = output.open_output(Path(folder) / f"out{number}", plan, opened)
            memory.start()
            began, load = time.perf_counter(), os.getloadavg()[0]
            local.run(plan, out, workers=number)
            spent = time.perf_counter() - began
            memory.done.set()
            rates[number] = count / spent
            half = len(memory.samples) // 2
            early, late = max(memory.samples[:half] or [0]), max(memory.samples[half:] or [0])
            print(f"{tokenizer}: {number} worker(s) {count} rows in {spent:.1f} s, {rates[number]:.0f} rows/s;"
                  f" parent {early} MiB in the first half, {late} in the second (load {load:.1f})", flush=True)  # fmt: skip
        if len(workers) > 1:
            print(f"{tokenizer}: {rates[workers[-1]] / rates[workers[0]]:.2f} x with {workers[-1]} workers")


def sampled(tokenizer: str, counts: tuple[int, ...], sample: int = 500) -> None:
    """Print what growing files cost: finding their rows, and CPU a row of a sample of them in this process."""
    from inspector.scan import source
    from inspector.scan.rows import scan_rows

    plan = plan_of(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        block = Path(folder) / "block.jsonl"
        write(block, counts[0])
        for count in counts:
            path = Path(folder) / f"rows-{count}.jsonl"
            with path.open("wb") as file:
                for _ in range(count // counts[0]):
                    file.write(block.read_bytes())
            began = time.process_time()
            opened = source.open_source([path], sample=sample)
            found = time.process_time() - began
            began = time.process_time()
            batches = [batch for part in opened.parts for batch in source.read_part(opened, part)]
            read, began = time.process_time() - began, time.process_time()
            done = sum(scan_rows(plan, batch).num_rows for batch in batches)
            spent = time.process_time() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(f"{tokenizer}: {count} rows ({path.stat().st_size >> 20} MiB) found in {found:.2f} s CPU, {done} of them"
                  f" read in {read:.2f} s and"
                  f" measured at {spent / done * 1000:.2f} ms; peak {peak} MiB", flush=True)  # fmt: skip
            path.unlink()


def main() -> None:
    """Run what the options name."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=2000)
    options.add_argument("--tokenizer", default="qwen3")
    options.add_argument("--prose", action="store_true", help="words of Python's documentation")
    options.add_argument("--write", type=Path, help="write the rows there and do nothing else")
    options.add_argument("--core", action="store_true", help="the cost a row only")
    options.add_argument("--engine", action="store_true", help="the engine only")
    options.add_argument("--sampled", action="store_true", help="a sample of 10,000, 100,000 and 1,000,000 rows")
    chosen = options.parse_args()
    if chosen.sampled:
        sampled(chosen.tokenizer, (10_000, 100_000, 1_000_000))
        return
    if chosen.write:
        write(chosen.write, chosen.rows, natural=chosen.prose)
        return
    if not chosen.engine:
        per_core(chosen.tokenizer, chosen.rows, chosen.prose)
    if not chosen.core:
        engine(chosen.tokenizer, chosen.rows)


if __name__ == "__main__":
    main()
