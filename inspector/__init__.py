"""See what a chat template and a tokenizer really send to the model: every byte knows who wrote it.

>>> from inspector import inspect
>>> inspect([{"role": "user", "content": "hi"}], tokenizer="bytes").encoding.input_ids.tolist()
[256, 257, 104, 105, 258]
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["ErrorKind", "Inspection", "InspectorError", "compare", "inspect"]


def __getattr__(name: str) -> Any:
    """Import on first use: `import inspector` alone costs nothing."""
    if name in ("inspect", "compare", "Inspection"):
        from inspector import pipeline

        return getattr(pipeline, name)
    if name in ("InspectorError", "ErrorKind"):
        from inspector import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'inspector' has no attribute {name!r}")
