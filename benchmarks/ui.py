"""What a keystroke costs on the page, in a real Chromium, against two pages made with Gradio's own means in the same run.

Measured from the key's `input` event to the frame that shows the answer, with both panes on Qwen3 and two revisions of a
template. "highlighted" shows the same two panes with `gr.HighlightedText`, from the same sandboxed pipeline; "tokenizer"
is a page whose handler only tokenizes one text and shows its ids. Also: a cold paste, what goes over the wire, the
page's memory, scroll, click, hover and key. Times on a busy machine are only good as ratios.

Run: python -m benchmarks.ui [--keys 20] [--sizes 2000,10000,100000] [--peers 2000,10000] [--no-bars]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

TOKENIZER, TEMPLATES = "qwen3", ("qwq-32b@current", "qwq-32b@16488a")
BARS_MS = {2_000: 90, 10_000: 150, 100_000: 400}
BAR_RATIO, BAR_PASTE_MS, BAR_TOUCH_MS, BAR_WIRE, BAR_MEMORY = 1.5, 2000, 50, 1.5e6, 150e6
MESSAGE_CHARS = 600


def conversation(tokens: int) -> list[dict[str, str]]:
    """Give a chat of about `tokens` Qwen3 tokens: prose, code and Chinese from what comes with Python and this page."""
    import inspect as source
    from pydoc_data.topics import topics

    from inspector.sources import resolve_tokenizer
    from inspector.tokenizers import load_tokenizer
    from inspector.ui.strings import STRINGS

    prose = list(topics.values())
    code = [source.getsource(module) for module in (argparse, json.decoder, socket, statistics, subprocess)]
    chinese = ["\n".join(STRINGS["zh"].values())]
    text = "\n".join(part for k, part in enumerate(prose) for part in (part, code[k % 5][k * 400 : k * 400 + 800], chinese[0][k * 90 : k * 90 + 180]))  # fmt: skip
    pieces = [text[at : at + MESSAGE_CHARS] for at in range(0, len(text), MESSAGE_CHARS)]
    tokenizer, messages, count = load_tokenizer(resolve_tokenizer(TOKENIZER)), [], 0
    for k, piece in enumerate(pieces * 4):
        if count >= tokens:
            break
        messages.append({"role": ("user", "assistant")[k % 2], "content": piece})
        count += len(tokenizer.encode(piece).input_ids) + 5
    return messages


# ------------------------------------------------------------------------------------------------------------ the peers


def serve(kind: str, port: int) -> None:
    """Serve one of the pages to compare with, until killed."""
    import gradio as gr

    if kind == "highlighted":
        from inspector import service
        from inspector.job import make_options

        sides = [make_options(tokenizer=TOKENIZER, template=template, clock="2026-01-31T09:30:00") for template in TEMPLATES]  # fmt: skip

        def handler(text: str) -> list[list[tuple[str, str]]]:
            found = [service.inspect(text.encode(), side) for side in sides]
            return [[(token["piece"], str(k % 2)) for k, token in enumerate(each["tokens"])] for each in found]

        with gr.Blocks() as page:
            box = gr.Textbox(elem_id="in", lines=12, max_lines=12)
            shown = [gr.HighlightedText(elem_id=f"out{q}", show_legend=False) for q in range(2)]
            box.change(handler, box, shown, show_progress="hidden", trigger_mode="always_last")
    else:
        from inspector.sources import resolve_tokenizer
        from inspector.tokenizers import load_tokenizer

        tokenizer = load_tokenizer(resolve_tokenizer(TOKENIZER))

        def only_ids(text: str) -> str:
            return " ".join(map(str, tokenizer.encode(text).input_ids.tolist()))

        with gr.Blocks() as page:
            box = gr.Textbox(elem_id="in", lines=12, max_lines=12)
            out = gr.Textbox(elem_id="out0", lines=12, max_lines=12)
            box.change(only_ids, box, out, show_progress="hidden", trigger_mode="always_last")
    page.launch(server_port=port, quiet=True, ssr_mode=False, footer_links=[])


@contextlib.contextmanager
def served(command: list[str]) -> Iterator[str]:
    """Run a page's server on a free port; give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([*command, str(port)] if command[-1] != "app.py" else command,
                               env={**os.environ, "GRADIO_SERVER_PORT": str(port)}, stdout=subprocess.DEVNULL)  # fmt: skip
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url, timeout=5).close()
                break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(20)


# ---------------------------------------------------------------------------------------------------------- measuring

# Time from a key's `input` event to the frame after the condition holds, which is looked at whenever the page changes.
WATCH = """([box, watched, done]) => {
  const area = document.querySelector(box), holds = new Function('return ' + done);
  window.timed = new Promise((give) => {
    area.addEventListener('input', (event) => {
      const began = event.timeStamp, observer = new MutationObserver(check);
      function check() { if (!holds()) return; observer.disconnect(); requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => give(performance.now() - began); port2.postMessage(0); }); }
      observer.observe(document.querySelector(watched), { subtree: true, childList: true, characterData: true, attributes: true });
    }, { once: true });
  }); }"""
CARET = "([box, at]) => { const area = document.querySelector(box); area.focus({preventScroll: true}); area.setSelectionRange(at, at); }"
BENCH = "document.querySelector('#bench .ti').parentNode.bench"


class Page:
    """One page that is measured: how its input is found, and how it says that it has answered."""

    def __init__(self, browser: Any, url: str, box: str, watched: str, changed: str) -> None:
        self.page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.box, self.watched, self.changed = box, watched, changed
        self.page.goto(url)
        self.page.wait_for_selector(box, timeout=60_000)

    def put(self, text: str) -> float:
        """Replace the whole input, as a paste does."""
        self.watch()
        self.page.evaluate("([box, text]) => { const area = document.querySelector(box); const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set; set.call(area, text); area.dispatchEvent(new Event('input', {bubbles: true})); }", [self.box, text])  # fmt: skip
        return float(self.page.evaluate("() => timed"))

    def watch(self) -> None:
        self.page.evaluate(f"() => {{ window.before = {self.changed}; }}")
        self.page.evaluate(WATCH, [self.box, self.watched, f"{self.changed} !== window.before && ({self.ready})"])

    ready = "true"

    def keys(self, at: int, count: int) -> float:
        """Type at a place; give the median time of a key in milliseconds."""
        self.page.evaluate(CARET, [self.box, at])
        times = []
        for k in range(count + 2):
            self.watch()
            self.page.keyboard.press("ab "[k % 3])
            times.append(float(self.page.evaluate("() => timed")))
            self.page.wait_for_timeout(30)
        return statistics.median(times[2:])


class Inspector(Page):
    """Our page, with both panes on the tokenizer and the two templates that are measured."""

    ready = "document.querySelector('#bench .ti').dataset.ready === '1'"

    def __init__(self, browser: Any, url: str) -> None:
        super().__init__(browser, url, '[data-in="messages"]', "#bench", f"{BENCH}.slots.map(slot => slot.base).join()")
        self.settle()
        for q, template in enumerate(TEMPLATES):
            self.page.select_option(f'[data-in="tokenizer{q}"]', TOKENIZER)
            self.page.select_option(f'[data-in="template{q}"]', template)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_function(f"() => {self.ready}", timeout=120_000)

    def counts(self) -> list[int]:
        return self.page.evaluate(f"() => {BENCH}.state.panes.map(pane => pane.n)")

    def reveal(self, fraction: float) -> None:
        """Scroll the grid so that what is edited is in sight."""
        self.page.evaluate("fraction => { const grid = document.querySelector('.ti-grid'); grid.scrollTop = grid.scrollHeight * fraction - 200; }", fraction)  # fmt: skip

    def touches(self) -> dict[str, float]:
        """Give the median time of a scroll, a click, a hover and a key, to the frame that shows it."""
        return self.page.evaluate(
            """async () => { const grid = document.querySelector('.ti-grid'), frame = () => new Promise((give) => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); port1.onmessage = give; port2.postMessage(0); }));
            const tokens = () => grid.querySelectorAll('.ti-tok'), median = (all) => all.sort((a, b) => a - b)[all.length >> 1];
            const acts = {
              scroll: (k) => { grid.scrollTop = (grid.scrollHeight * (k * 7 % 20)) / 20; },
              hover: (k) => tokens()[20 + k * 3].dispatchEvent(new MouseEvent('mouseover', {bubbles: true})),
              click: (k) => tokens()[21 + k * 3].dispatchEvent(new MouseEvent('click', {bubbles: true})),
              key: () => grid.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true})),
            }, found = {};
            for (const [name, act] of Object.entries(acts)) { const times = []; for (let k = 0; k < 21; k++) { await frame(); const began = performance.now(); act(k); await frame(); times.push(performance.now() - began); } found[name] = median(times); }
            return found; }"""
        )


def places(text: str) -> dict[str, int]:
    """Give where in the JSON text a key is typed: in the last message, and in the middle one."""
    last, middle = text.rindex('"\n }'), text.index('"\n }', len(text) // 2)
    return {"last": last, "middle": middle}


def measure(options: argparse.Namespace) -> list[tuple[str, float, float]]:
    """Print the table; give what has a bar: (name, value, bar)."""
    from playwright.sync_api import sync_playwright

    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    judged: list[tuple[str, float, float]] = []
    here = [sys.executable, "-m", "benchmarks.ui", "--serve"]
    with sync_playwright() as playwright, contextlib.ExitStack() as stack:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        ours = stack.enter_context(served([sys.executable, "app.py"]))
        peers = {kind: stack.enter_context(served([*here, kind])) for kind in ("highlighted", "tokenizer")} if options.peers else {}  # fmt: skip
        print(
            f"{'tokens':>9} {'edit':>7} {'page':>9} {'highlighted':>12} {'ratio':>7} {'tokenizer':>10} {'ratio':>7}   ms a key, median of {options.keys}"
        )
        for size in options.sizes:
            text = json.dumps(conversation(size), ensure_ascii=False, indent=1)
            bench = Inspector(browser, ours)
            paste, wire = pasted(bench, text)
            others: dict[str, Page] = {}
            for kind, url in peers.items():
                if size in options.peers:
                    changed = "document.querySelector('#out1').textContent.length" if kind == "highlighted" else "document.querySelector('#out0 textarea').value"  # fmt: skip
                    others[kind] = Page(browser, url, "#in textarea", "body", changed)
                    others[kind].put(text)
            for name, at in places(text).items():
                bench.reveal({"last": 1, "middle": 0.5}[name])
                row = {"page": bench.keys(at, options.keys)}
                for kind, other in others.items():
                    row[kind] = other.keys(at, options.keys if size <= 10_000 or kind == "tokenizer" else 3)
                print_row(bench.counts()[0], name, row)
                judged.append((f"{size} tokens, {name}", row["page"], BARS_MS.get(size, 1e9)))
                if size == 2_000 and "tokenizer" in row:
                    judged.append((f"{size} tokens, {name}: ratio", row["page"] / row["tokenizer"], BAR_RATIO))
            judged += whole(bench, paste, wire, size)
            for other in others.values():
                other.page.close()
            bench.page.close()
        browser.close()
    return judged


def pasted(bench: Inspector, text: str) -> tuple[float, int]:
    """Paste a conversation that was never seen; give milliseconds until it is painted, and the bytes that came."""
    session, received = bench.page.context.new_cdp_session(bench.page), [0]
    session.send("Network.enable")
    session.on(
        "Network.loadingFinished", lambda event: received.__setitem__(0, received[0] + int(event["encodedDataLength"]))
    )
    spent = bench.put(text)
    bench.settle()
    session.detach()
    return spent, received[0]


def whole(bench: Inspector, paste: float, wire: int, size: int) -> list[tuple[str, float, float]]:
    session = bench.page.context.new_cdp_session(bench.page)
    session.send("HeapProfiler.collectGarbage")
    memory = session.send("Runtime.getHeapUsage")
    used = memory["usedSize"] + memory.get("backingStorageSize", 0)
    touches = bench.touches()
    said = ", ".join(f"{name} {value:.0f} ms" for name, value in touches.items())
    print(f"{'':>9} paste {paste:.0f} ms, wire {wire / 1e6:.2f} MB, memory {used / 1e6:.0f} MB, {said}")
    if size != 100_000:
        return []
    found = [
        ("cold paste, ms", paste, float(BAR_PASTE_MS)),
        ("wire, bytes", wire, BAR_WIRE),
        ("memory, bytes", used, BAR_MEMORY),
    ]
    return found + [(f"{name}, ms", value, BAR_TOUCH_MS) for name, value in touches.items()]


def print_row(tokens: int, edit: str, row: dict[str, float]) -> None:
    cells = [f"{tokens:>9,} {edit:>7} {row['page']:>9.0f}"]
    for kind, width in (("highlighted", 12), ("tokenizer", 10)):
        cells.append(
            f"{row[kind]:>{width}.0f} {row['page'] / row[kind]:>7.2f}" if kind in row else f"{'-':>{width}} {'-':>7}"
        )
    print(" ".join(cells), flush=True)


def main() -> None:
    """Measure, and fail where a bar is missed."""
    numbers = lambda text: [int(part) for part in text.split(",") if part]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--sizes", type=numbers, default=[2_000, 10_000, 100_000])
    parser.add_argument(
        "--peers", type=numbers, default=[2_000, 10_000], help="sizes that the other pages are measured at"
    )
    parser.add_argument("--no-bars", action="store_true", help="do not fail where a bar is missed")
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return
    missed = [(name, value, bar) for name, value, bar in measure(options) if value > bar]
    for name, value, bar in missed:
        print(f"missed: {name}: {value:,.2f}, bar {bar:,.2f}")
    if missed and not options.no_bars:
        sys.exit(1)


if __name__ == "__main__":
    main()
