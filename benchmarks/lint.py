"""What lint costs, as ratios in one process. Run: python -m benchmarks.lint [tokenizer]

1. The live rules, which run on every inspection, over rendering and encoding a chat of about 2,000 tokens. Bar: 0.5.
2. All rules with their probes and the capability card, over one inspection of the same chat: what a click costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from inspector.lint import lint, live_findings
from inspector.pipeline import Inspection, inspect

BAR = 0.5
TURN = [
    {"role": "user", "content": "When is high tide in the harbour of Brest today? " * 4},
    {"role": "assistant", "content": "At noon, and then again shortly after midnight. " * 6},
]


def best(action: Callable[[], Any], times: int) -> float:
    """Give the milliseconds of the fastest run."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return min(spent) * 1000


def main() -> None:
    """Measure and print."""
    tokenizer = sys.argv[1] if len(sys.argv) > 1 else "smollm2"
    chat = [*TURN * 18, {"role": "user", "content": "ok"}]

    def run() -> Inspection:
        return inspect(chat, tokenizer=tokenizer, template="chatml", clock="2026-01-31T09:30:00")  # type: ignore[return-value]

    inspection = run()
    once, live, full = best(run, 5), best(lambda: live_findings(inspection), 20), best(lambda: lint(inspection), 3)
    print(
        f"{len(inspection.encoding)} tokens: inspecting {once:.1f} ms, live rules {live:.1f} ms, everything {full:.1f} ms"
    )  # type: ignore[arg-type]
    print(f"live / inspecting {live / once:.2f} (bar {BAR}), everything / inspecting {full / once:.1f}")


if __name__ == "__main__":
    main()
