"""A chat template as a value: where it comes from, its exact text, and the digest that is its identity.

This module neither finds templates (sources/ does) nor renders them (render.py does).
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

OWN_TEMPLATE = "#chat_template"  # after a tokenizer's reference: the template that it brings


@functools.lru_cache(maxsize=256)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template at one revision.

    `ref` is what the person asked for, `id` and `revision` name it in the catalogue, `name` is its name among a
    repository's templates ("default", "tool_use"), `file` the file that holds it.
    """

    ref: str
    id: str
    revision: str
    name: str
    file: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text's UTF-8 bytes, in hex."""
        return _digest(self.text)
