"""What a CUDA machine gives: CPU against GPU, dtypes against float32, and A/B latency against transformers' own passes.

Run `python benchmarks/gpu_check.py` (under 5 minutes on a CUDA machine). Without CUDA it says so and runs on the CPU with
small sizes. `--random` takes a small model with random weights in place of the embedded one (no download, any window).
Times are medians; the ratios are against the plain passes in the same process. Gives 1 if a figure is over its bound.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from inspector.backends.local import LocalBackend  # noqa: E402
from inspector.logits import log_softmax, top_ids  # noqa: E402
from inspector.sources import ModelArtifact, resolve_model  # noqa: E402

KNOWN = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2,
         198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]  # fmt: skip
"""SmolLM2's ids of "What is the capital of France?" with its template."""
DEVICE_BOUND = 2e-3  # logits of two devices in float32
CACHED_BOUND = 1e-3
AB_BOUND, EDIT_BOUND = (
    1.25,
    0.25,
)  # of one prompt alone; held on CUDA only: on the CPU other processes are in the figures
LONG_WINDOW = 32_768
SIZES = {"cuda": (1_000, 8_000), "cpu": (128, 512)}


@dataclass
class Table:
    """Prints rows as they are found, and counts those over their bound."""

    over: int = 0

    def row(self, name: str, figure: str, holds: bool | None = None) -> None:
        said = "" if holds is None else "ok" if holds else "OVER"
        self.over += holds is False
        print(f"| {name:50} | {figure:60} | {said:4} |", flush=True)


def main() -> int:
    """Print the table; give 1 if a bound was broken."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", help="tokens, separated by commas")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--random", action="store_true", help="a small model with random weights")
    parser.add_argument("--no-long", action="store_true", help="leave the 32k prompt out")
    given = parser.parse_args()
    device = given.device
    kind = device.partition(":")[0]
    sizes = tuple(map(int, given.sizes.split(","))) if given.sizes else SIZES[kind]
    began, table = time.perf_counter(), Table()
    name = torch.cuda.get_device_name(device) if kind == "cuda" else "CPU"
    print(
        f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads"
        + ("" if kind == "cuda" else "; no CUDA")
    )
    print(f"| {'what':50} | {'figure':60} | {'':4} |\n| {'-' * 50} | {'-' * 60} | {'-' * 4} |")
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder) / "short", 16_384, kind) if given.random else resolve_model("smollm2")
        agreement(model, device, table)
        dtypes(model, device, table)
        for size in sizes:
            latency(model, device, size, given.runs, table)
        if kind == "cuda" and not given.no_long:
            latency(random_model(Path(folder) / "long", LONG_WINDOW + 64, kind), device, LONG_WINDOW, given.runs, table)
    print(f"{time.perf_counter() - began:.0f} s in all; {table.over} over their bound")
    return int(table.over > 0)


def random_model(folder: Path, window: int, kind: str) -> ModelArtifact:
    """Make a model with random weights, always the same: on CUDA of SmolLM2's width, on the CPU a tiny one."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(0)
    heads, layers = (9, 8) if kind == "cuda" else (3, 2)
    config = LlamaConfig(
        vocab_size=49_152, hidden_size=64 * heads, intermediate_size=160 * heads, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 3, max_position_embeddings=window, tie_word_embeddings=True,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return resolve_model(f"folder:{folder}")


def agreement(model: ModelArtifact, device: str, table: Table) -> None:
    """Compare the device's float32 logits with the CPU's, and a whole pass with one from kept keys."""
    cpu, other = LocalBackend(device="cpu"), LocalBackend(device=device)
    (here,), (there,) = cpu.next_token_logits(model, [KNOWN]), other.next_token_logits(model, [KNOWN])
    gap = float(np.abs(here.values - there.values).max())
    same = top_ids(here.values, 10).tolist() == top_ids(there.values, 10).tolist()
    table.row(
        f"{device} against cpu, float32, {len(KNOWN)} tokens", f"logits off by {gap:.1e} at most", gap < DEVICE_BOUND
    )
    table.row("the same top ten", "in the same order" if same else "another order", same)
    longer = [*KNOWN, 504]
    (kept,) = other.next_token_logits(model, [longer])
    (fresh,) = LocalBackend(device=device).next_token_logits(model, [longer])
    gap = float(np.abs(kept.values - fresh.values).max())
    table.row(
        "from kept keys against a whole pass",
        f"logits off by {gap:.1e} at most, {kept.reused} tokens kept",
        gap < CACHED_BOUND,
    )


def dtypes(model: ModelArtifact, device: str, table: Table) -> None:
    """Say what a dtype moves, against float32 on the same device."""
    backend = LocalBackend(device=device)
    (base,) = backend.next_token_logits(model, [KNOWN])
    p = log_softmax(base.values)
    for dtype in backend.capabilities.dtypes[1:]:
        (raw,) = backend.next_token_logits(model, [KNOWN], dtype=dtype)
        gap, q = float(np.abs(raw.values - base.values).max()), log_softmax(raw.values)
        kl = float(np.dot(np.exp(p), p - q))
        first = "same first token" if p.argmax() == q.argmax() else "ANOTHER first token"
        table.row(f"{dtype} against float32", f"logits off by {gap:.3f} at most, KL {kl:.1e}, {first}")


def latency(model: ModelArtifact, device: str, size: int, runs: int, table: Table) -> None:
    """Time A/B with a shared start and an edit at the end against plain passes of transformers over the same ids."""
    import torch

    backend = LocalBackend(device=device)
    generator = np.random.default_rng(size)
    backend.next_token_logits(model, [KNOWN])
    loaded = next(iter(backend._loaded.values()))  # the same weights for both sides
    plain, generate, alone, both, edit, wrong = ([] for _ in range(6))
    for _ in range(runs):
        a = generator.integers(20, 49_000, size).tolist()
        b = [*a[: -max(8, size // 50)], *generator.integers(20, 49_000, max(8, size // 50)).tolist()]
        ids = torch.tensor([a], device=device)
        with torch.inference_mode():
            plain.append(
                timed(lambda ids=ids: loaded.model(input_ids=ids, logits_to_keep=1, use_cache=False).logits.cpu())
            )
            generate.append(timed(lambda ids=ids: loaded.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=1, do_sample=False, pad_token_id=0).cpu()))  # fmt: skip
            reference = (
                loaded.model(input_ids=ids, logits_to_keep=1, use_cache=False).logits[0, -1].float().cpu().numpy()
            )
        found: list[Any] = []
        alone.append(timed(lambda a=a, found=found: found.extend(backend.next_token_logits(model, [a]))))
        wrong.append(float(np.abs(found[0].values - reference).max()))
        both.append(alone[-1] + timed(lambda b=b: backend.next_token_logits(model, [b])))
        edit.append(timed(lambda a=a: backend.next_token_logits(model, [[*a[:-5], 21, 22, 23, 24, 25]])))
    name = f"{size:,} tokens"
    middle, held = statistics.median, device.startswith("cuda")
    table.row(f"{name}: plain forward / generate of one token", f"{middle(plain):.1f} / {middle(generate):.1f} ms")
    table.row(
        f"{name}: one prompt here",
        f"{middle(alone):.1f} ms, {middle(alone) / middle(plain):.2f} × plain, off by {max(wrong):.1e}",
        max(wrong) < 5e-3,
    )
    ratio = middle(both) / middle(alone)
    table.row(
        f"{name}: A and B, 98 % shared",
        f"{middle(both):.1f} ms, {ratio:.2f} × one, {middle(both) / (2 * middle(plain)):.2f} × two plain",
        ratio < AB_BOUND if held else None,
    )
    ratio = middle(edit) / middle(alone)
    table.row(
        f"{name}: 5 tokens edited at the end",
        f"{middle(edit):.1f} ms, {ratio:.2f} × one",
        ratio < EDIT_BOUND if held else None,
    )


def timed(work: Callable[[], Any]) -> float:
    """Give the milliseconds of a call that ends with its values on the host."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
