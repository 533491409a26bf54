"""The JSON Schemas (draft 2020-12) of what the commands print and write; a test holds each to the code. Nothing is checked here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
_ENDING = ".schema.json"


def names() -> tuple[str, ...]:
    """Give the names of the schemas, as values spell them.

    >>> names()
    ('comparison/1', 'heat/1', 'inspection/1', 'lint/1', 'logits/1', 'record/1', 'replay/1', 'sampler/1', 'scan-counts/1', 'scan-summary/1', 'scan/1', 'verdict/1', 'whatif/1')
    """
    return tuple(
        sorted("/".join(path.name.removesuffix(_ENDING).rsplit("-", 1)) for path in _FOLDER.glob(f"*{_ENDING}"))
    )


def text(name: str) -> str:
    """Give a schema's text; the name is one of `names`."""
    return (_FOLDER / f"{name.replace('/', '-')}{_ENDING}").read_text("utf-8")


def schema(name: str) -> dict[str, Any]:
    """Give a schema as a value."""
    return json.loads(text(name))
