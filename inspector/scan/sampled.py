"""Some rows of a scan through a logits backend: what the model expects after each, and how far A and B are apart.

The rows are chosen by a seed among those that were measured; the model runs where the caller's backend runs it. Nothing is
computed in bulk here, and the scan's table stays as it is: the answers lie beside it, in `logits.json`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet

from inspector import modelservice
from inspector.errors import ErrorKind, InspectorError
from inspector.scan.output import ROWS, write_json
from inspector.scan.picked import pick, request_of_row
from inspector.scan.summary import LOGITS

MOST_ROWS = 10_000
TOP = 5


def measured_sample(folder: str | Path, count: int, seed: int) -> list[tuple[str, int]]:
    """Choose rows among those that were measured; the same seed gives the same rows of the same scan."""
    paths = sorted((Path(folder) / ROWS).glob("part-*.parquet"))
    sizes = [_measured(path).sum() for path in paths]
    total = int(sum(sizes))
    places = sorted(random.Random(seed).sample(range(total), min(count, total)))
    chosen, before = list[tuple[str, int]](), 0
    for path, size in zip(paths, sizes):
        inside = [place - before for place in places if before <= place < before + size]
        before += int(size)
        if inside:
            table = parquet.read_table(path, columns=["file", "row"], use_threads=False)
            rows = np.flatnonzero(_measured(path))[inside]
            chosen += [(table["file"][int(k)].as_py(), table["row"][int(k)].as_py()) for k in rows]
    return chosen


def _measured(path: Path) -> np.ndarray:
    column = parquet.read_table(path, columns=["error_kind"], use_threads=False)["error_kind"]
    return np.asarray(column.is_null())


def ask_rows(
    folder: str | Path,
    count: int,
    asking: modelservice.Asking,
    *,
    seed: int = 0,
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Ask the model about `count` rows and write `logits.json`; give what stands in it. `tell(rows answered, of)`.

    A row that fails has its `error`; a model or server that cannot be had stops all.
    Errors: OptionInvalid, those of the backend.
    """
    if not 1 <= count <= MOST_ROWS:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"{count:,} rows; 1 to {MOST_ROWS:,} can be asked about", stage="options",
            where={"option": "--logits-sample"}, remedy="bulk logits are a job for the server's own batch interface",
        )  # fmt: skip
    chosen = measured_sample(folder, count, seed)
    made: dict[str, Any] = {"model": asking.model, "backend": "", "dtype": None, "seed": seed, "asked": len(chosen)}
    rows = []
    for number, (file, row) in enumerate(chosen, 1):
        answer = _asked(folder, file, row, asking, made)
        rows.append({"file": file, "row": row, **answer})
        if tell is not None:
            tell(number, len(chosen))
    value = {**made, "answered": sum(row["tokens"] is not None for row in rows), "rows": rows}
    write_json(Path(folder) / LOGITS, value)
    return value


def _asked(
    folder: str | Path, file: str, row: int, asking: modelservice.Asking, made: dict[str, Any]
) -> dict[str, Any]:
    nothing: dict[str, Any] = {"tokens": None, "entropy": None, "top": [], "b": None, "kl": None, "top1_changed": None}
    try:
        picked = pick(folder, file, row)
        sides = [picked.options(side) for side in range(len(picked.refs))]
        found = modelservice.ask_verdict(request_of_row(picked), sides, asking, top_k=TOP)
    except InspectorError as error:
        if error.kind.exit_code == 3:  # no model, no server: no other row will be answered
            raise
        return {**nothing, "error": error.to_dict()}
    made.update({name: found.get(name, made[name]) for name in ("model", "backend", "dtype")})
    answers = [_side(found, number) for number in range(len(found["sides"]))]
    errors = [side["error"] for side in found["sides"] if side["error"] is not None]
    if errors and errors[0]["kind"] in _STOPPING:
        raise InspectorError.from_dict(errors[0])
    apart = found["distances"][0] if found["distances"] and not errors else None
    return {
        **nothing,
        **(answers[0] or {}),
        "b": answers[1] if len(answers) > 1 else None,
        "kl": None if apart is None else apart["kl_ab"],
        "top1_changed": None if apart is None else apart["top1_changed"],
        "error": errors[0] if errors else None,
    }


_STOPPING = frozenset(kind.name for kind in ErrorKind if kind.exit_code == 3)


def _side(found: dict[str, Any], number: int) -> dict[str, Any] | None:
    """Give what one side's model expects: its length, its entropy, its most probable tokens."""
    side = found["sides"][number]
    if side["error"] is not None:
        return None
    cells = [(row, row["cells"][number]) for row in found["rows"] if row["cells"][number] is not None]
    ranked = sorted(cells, key=lambda each: each[1]["rank"])[:TOP]
    top = [
        {"id": row["id"], "piece": row["piece"], "logprob": cell["logprob"], "prob": cell["prob"]}
        for row, cell in ranked
    ]
    return {"tokens": side["tokens"], "entropy": side["entropy"], "top": top}
