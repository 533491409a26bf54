"""Time from the start of the process to the first HTTP answer: app.py against a bare Gradio hello-world.

Both are started cold (a new process each time), in turn, on this machine; the ratio of the medians is what counts.
It does not time the first inspection.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HELLO = """
import gradio as gr

with gr.Blocks() as demo:
    gr.Textbox("hello world")
demo.launch()
"""
BOUND = 1.3
GIVE_UP_S = 120.0
POLL_S = 0.01


def main() -> int:
    """Print both medians and their ratio; give 1 if the ratio is over the bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    commands = {"gradio hello world": [sys.executable, "-c", HELLO], "app.py": [sys.executable, "app.py"]}
    for command in commands.values():
        seconds_to_answer(command)  # bytecode and the disk cache are warm for both from here on
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(seconds_to_answer(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:20} median {medians[name]:.2f} s   min {min(values):.2f}   max {max(values):.2f}")
    ratio = medians["app.py"] / medians["gradio hello world"]
    print(f"ratio {ratio:.2f} (bound {BOUND})")
    return int(ratio > BOUND)


def seconds_to_answer(command: list[str]) -> float:
    """Start a server and wait for its first answer on /.

    Errors: RuntimeError if the process ends or does not answer in time.
    """
    port = free_port()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "GRADIO_ANALYTICS_ENABLED": "False"}
    began = time.perf_counter()
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/", server)
        return time.perf_counter() - began
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + GIVE_UP_S
    while time.perf_counter() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with code {server.returncode} before it answered")
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            time.sleep(POLL_S)
    raise RuntimeError(f"no answer within {GIVE_UP_S:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
