"""How much memory is left for a forward pass, and how many tokens would fit into it.

An estimate, made before the first chunk: a process that the kernel kills for its memory can say nothing any more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEADROOM = 0.9  # of the free memory: other processes also grow


def free_bytes(device: str) -> int | None:
    """Give the bytes that may still be taken on a device; None where the system does not say."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info()[0])
    known = [value for value in (_meminfo(), _cgroup()) if value is not None]
    return min(known) if known else None


def token_bytes(config: Any, itemsize: int) -> int:
    """Give the bytes of keys and values that one token takes in all layers."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or getattr(text, "num_attention_heads", None) or 1
    size = getattr(text, "head_dim", None) or text.hidden_size // (getattr(text, "num_attention_heads", None) or 1)
    return 2 * int(text.num_hidden_layers) * int(heads) * int(size) * itemsize


def workspace_bytes(config: Any, vocab_rows: int, chunk: int, tokens: int, itemsize: int, positions: int) -> int:
    """Give the bytes that a chunk needs beside keys and values: attention scores, the widest activation, the logits."""
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", None) or 1
    wide = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    return chunk * (heads * tokens + 3 * wide) * itemsize + 4 * positions * vocab_rows * 4


def tokens_that_fit(
    config: Any, vocab_rows: int, chunk: int, tokens: int, itemsize: int, positions: int, free: int
) -> int:
    """Give how many of `tokens` fit into `free` bytes: all of them, or the largest number that does."""
    each = token_bytes(config, itemsize)

    def fits(count: int) -> bool:
        work = workspace_bytes(config, vocab_rows, min(chunk, count), count, itemsize, min(positions, count))
        return each * count + work <= HEADROOM * free

    if fits(tokens):
        return tokens
    low, high = 0, tokens
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _meminfo() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _cgroup() -> int | None:
    """What the container's own limit leaves; its page cache can be given back and does not count."""
    for limit, used, stat in (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ):
        root = Path("/sys/fs/cgroup")
        try:
            bound = int((root / limit).read_text())
            taken = int((root / used).read_text())
            lines = dict(line.split() for line in (root / stat).read_text().splitlines())
            return bound - taken + int(lines.get("inactive_file", 0))
        except (OSError, ValueError):
            continue
    return None
