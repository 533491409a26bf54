"""What a scan computes of every row: artifacts by digest, options, windows. One value that every engine is given.

Nothing is read or run here. Where rows come from (source.py) and where the table goes (output.py) is not of the plan;
how many rows stand in a part is, because it decides which bytes a part has.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from inspector.job import Job, Options
from inspector.template import Template
from inspector.tokenizers.base import TokenizerArtifact

SCHEMA_VERSION = "scan/1"
ROWS_PER_PART = 2000
ROWS_PER_BATCH = 64


@dataclass(frozen=True, slots=True)
class PlanSide:
    """How a row is rendered and tokenized: options (no window, a fixed clock) and the artifacts that they name."""

    options: Options
    tokenizer: TokenizerArtifact
    template: Template | None

    def job(self, request: bytes) -> Job:
        """Give the job of one row."""
        return Job(request, self.options, self.tokenizer, self.template)

    def to_dict(self) -> dict[str, Any]:
        """Say what decides the result: digests and options, no place of a machine."""
        named = {name: value for name, value in asdict(self.options).items() if name not in ("tokenizer", "template")}
        clock = self.options.clock
        return {
            "tokenizer": {"ref": _public(self.options.tokenizer), "id": _public(self.tokenizer.id),
                          "digest": self.tokenizer.digest},
            "template": None if self.template is None else
                        {"ref": _public(self.template.ref), "revision": self.template.revision,
                         "name": self.template.name, "digest": self.template.digest},
            "options": {**named, "clock": None if clock is None else clock.isoformat(), "template_text": None},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What is computed of every row. Picklable.

    `sides`: A, or A and B. `windows`: context windows, rising; policy and reserve are the options of side A. `column`:
    the column that holds the conversation, None: it is found. `tools`: JSON text of the tools of rows that have none of
    their own. `row_seconds`, `row_memory_mb`: what one row may use, of CPU and clock, of memory beyond a fresh child's.
    """

    sides: tuple[PlanSide, ...]
    windows: tuple[int, ...] = ()
    column: str | None = None
    tools_column: str | None = None
    tools: str | None = None
    label_mode: str = "assistant_only"
    prefix: bool = True
    row_seconds: float = 30.0
    row_memory_mb: int = 4096
    rows_per_part: int = ROWS_PER_PART

    @property
    def compares(self) -> bool:
        """Say whether there is a side B."""
        return len(self.sides) > 1

    def to_dict(self) -> dict[str, Any]:
        """Give the `plan` of the manifest: all that decides the bytes of a part."""
        from inspector.pipeline import versions

        named = asdict(replace(self, sides=()))
        tools = None if self.tools is None else hashlib.sha256(self.tools.encode()).hexdigest()
        return {
            "schema": SCHEMA_VERSION,
            **named,
            "sides": [side.to_dict() for side in self.sides],
            "tools": tools,
            "versions": versions(),
        }

    def digest(self) -> str:
        """Give SHA-256 of the plan's canonical JSON."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _public(ref: str) -> str | None:
    from inspector.withheld import public_reference

    return public_reference(ref)
