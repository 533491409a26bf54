"""What isolation costs, and what it is worth: one request of 20 messages in this process, in a session's warm child and in
a fresh child; and assistant masks of one template from many threads, plain transformers against children.

Prints milliseconds, the difference to the same work in this process, and how many masks are right.
Run: python -m benchmarks.sandbox
"""

from __future__ import annotations

import json
import os
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from inspector import jobs, limits
from inspector.job import Options, prepare
from inspector.sandbox import Sandbox

ROUNDS = 60
MASKS = 2000
THREADS = 8
CHAT = [
    {"role": role, "content": "When is high tide at the old pier today?"}
    for _ in range(10)
    for role in ("user", "assistant")
]
MASKED = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)
WAYS = ("this process", "warm child", "fresh child")


def milliseconds(work: Callable[[], object]) -> float:
    """Time the work once."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def cpu_seconds(sandbox: Sandbox) -> float:
    """Give the CPU time of this process, the zygote, and its children, those that ended too: it says what isolation costs
    on a machine that is busy with other things."""
    zygote = sandbox._zygote.process.pid
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15] for pid in (zygote, *children)]
    return time.process_time() + sum(int(field) for row in stats for field in row) / os.sysconf("SC_CLK_TCK")


def costs(sandbox: Sandbox, title: str, job: str, payload: Callable[[int], bytes]) -> None:
    """Print what each way takes; the ways take turns, so that a busy machine is busy for all of them."""
    here = getattr(jobs, job)
    works: tuple[Callable[[bytes], object], ...] = (
        here,
        lambda data: sandbox.call(job, data, session="s"),
        lambda data: sandbox.call(job, data),
    )
    for work in works:
        work(payload(0))
    times: list[list[float]] = [[], [], []]
    cpu = [0.0, 0.0, 0.0]
    for data in map(payload, range(1, ROUNDS)):
        for number, work in enumerate(works):
            times[number].append(milliseconds(lambda: work(data)))  # noqa: B023
    for number, work in enumerate(works):
        began = cpu_seconds(sandbox)
        for data in map(payload, range(1, ROUNDS)):
            work(data)
        time.sleep(0.3)  # until the zygote has reaped what it was to release
        cpu[number] = 1000 * (cpu_seconds(sandbox) - began) / (ROUNDS - 1)
    reference = statistics.median(times[0])
    for way, column, spent in zip(WAYS, times, cpu, strict=True):
        median, p95, least = statistics.median(column), sorted(column)[int(0.95 * len(column))], min(column)
        shown = f"p50 {median:7.2f} ms ({median - reference:+7.2f})   p95 {p95:7.2f}   least {least:7.2f}   "
        shown += f"CPU {spent:6.2f} ms ({spent - cpu[0]:+6.2f})"
        print(f"{title:30} {way:13} {shown}")


def plain_masks(chats: list[list[dict[str, str]]], renders: int) -> int:
    """Give how many of so many renders of one template with transformers itself, in threads, have the right spans."""
    from transformers.utils.chat_template_utils import render_jinja_template

    def spans(chat: list[dict[str, str]]) -> object:
        return render_jinja_template([chat], chat_template=MASKED, return_assistant_tokens_mask=True)[1]

    expected = [spans(chat) for chat in chats]

    def right(number: int) -> bool:
        try:
            return spans(chats[number % len(chats)]) == expected[number % len(chats)]
        except Exception:
            return False

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(right, range(renders)))


def child_masks(sandbox: Sandbox, chats: list[list[dict[str, str]]], renders: int) -> int:
    """Likewise through the sandbox, each thread a session."""
    options = Options(tokenizer="bytes", template_text=MASKED, add_generation_prompt=False, clock=datetime(2026, 1, 1))
    payloads = [pickle.dumps(prepare(json.dumps(chat).encode(), options)) for chat in chats]
    expected = [json.loads(jobs.inspect(payload))["assistant_mask"] for payload in payloads]

    def right(number: int) -> bool:
        answer = sandbox.call("inspect", payloads[number % len(chats)], session=f"thread-{number % THREADS}")
        return bool(json.loads(answer)["assistant_mask"] == expected[number % len(chats)])

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(right, range(renders)))


def main() -> None:
    """Print the tables."""
    began = time.perf_counter()
    with Sandbox.start(limits.PUBLIC) as sandbox:
        started = time.perf_counter()
        sandbox.wait_ready()
        print(
            f"start() returns after {1000 * (started - began):.1f} ms; ready after {time.perf_counter() - started:.2f} s"
        )
        options = Options(tokenizer="bytes", template="chatml", clock=datetime(2026, 1, 1))
        job = prepare(json.dumps(CHAT).encode(), options)
        assert job.template is not None
        text, same = job.template.text, pickle.dumps(job)
        costs(sandbox, "20 kB and back", "echo", lambda _: bytes(20_000))
        costs(sandbox, "20 messages, ids", "ids", lambda _: same)
        costs(sandbox, "20 messages, inspection/1", "inspect", lambda _: same)
        new = (replace(job, template=replace(job.template, text=f"{text}{{# {n} #}}")) for n in range(9 * ROUNDS))
        costs(sandbox, "ids, a template not seen before", "ids", lambda _: pickle.dumps(next(new)))
        chats = [
            [{"role": "user", "content": "q" * n}, {"role": "assistant", "content": "a" * (n + 1)}] * 20
            for n in range(1, 12)
        ]
        sys.setswitchinterval(0.0005)  # threads take turns more often, as they do on a busy server
        print(f"masks, {THREADS} threads: transformers {plain_masks(chats, MASKS)} of {MASKS} right", end=", ")
        began = time.perf_counter()
        right = child_masks(sandbox, chats, MASKS)
        print(f"children {right} of {MASKS} right, {MASKS / (time.perf_counter() - began):.0f} a second")


if __name__ == "__main__":
    main()
