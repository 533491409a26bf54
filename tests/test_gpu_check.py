"""benchmarks/gpu_check.py, prepared for CUDA machines, runs on the CPU with small sizes and holds its bounds there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_script_for_cuda_machines_runs_on_the_cpu() -> None:
    command = [sys.executable, "benchmarks/gpu_check.py", "--device", "cpu", "--random", "--sizes", "48", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3 + 2 + 4, done.stdout
    for name in ("from kept keys", "bfloat16 against float32", "48 tokens: A and B"):
        assert any(name in row for row in rows), name
    assert "0 over their bound" in done.stdout
