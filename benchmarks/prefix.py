"""What the prefix table costs, as ratios in one process. Run: python -m benchmarks.prefix [tokenizer ...]

The table of a conversation of 100, 400 and 1,600 messages over one render and tokenization of the whole, in CPU time; steps
that part are counted, for each of them is rendered. At 100 messages the plain table is timed too, and the two are compared.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from inspector.job import make_options, prepare
from inspector.pipeline import begin
from inspector.training.growing import growing_prompts
from inspector.training.prefix import PrefixTable, prefix_table

SIZES = (100, 400, 1600)
CLOCK = "2026-01-31T09:30:00"


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Give CPU seconds and the result."""
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def measure(name: str, size: int) -> str:
    """Measure one chat; give the line to print."""
    chat = [
        {"role": ("user", "assistant")[k % 2], "content": f"message {k}: " + "the tide comes and goes " * 10}
        for k in range(size)
    ]
    options = make_options(tokenizer=name, template="chatml" if name == "smollm2" else None, clock=CLOCK)
    given = begin(prepare(json.dumps(chat).encode(), options))

    def table(fast: bool) -> PrefixTable:
        growing = growing_prompts(given.call, given.tokenizer) if fast else None
        return prefix_table(given.conversation, given.assemble, growing=growing)

    once, _whole = timed(lambda: given.assemble(given.conversation, True))
    told, found = timed(lambda: table(True))
    parted = sum(step.parting is not None for step in found.steps)
    line = f"{name}, {size} messages: table / whole {told / once:.1f}, {parted} steps part"
    if size > SIZES[0]:
        return line
    plain, other = timed(lambda: table(False))
    return f"{line}; plain / told {plain / told:.0f}, equal: {other.to_dict() == found.to_dict()}"


def main() -> None:
    """Measure and print."""
    for name in sys.argv[1:] or ["smollm2"]:
        for size in SIZES:
            print(measure(name, size))


if __name__ == "__main__":
    main()
