"""Run jobs for the commands: what a budget decided, labels, a batch, prefixes. Values for programs; nothing is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.job import Job
from inspector.pipeline import Inspection, begin, run
from inspector.tensors import PaddingSide
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.base import Tokenizer
from inspector.training.batch import pack_rows, pad_batch
from inspector.training.growing import growing_prompts
from inspector.training.labels import LabelMode, Labels, make_labels
from inspector.training.prefix import prefix_table


def budget(job: Job) -> dict[str, Any]:
    """Fit a request; give schema `budget/1`: the decision, tokens by unit and by origin. Without a window given it is the
    preset's, or else the tokenizer's.

    Errors: OptionInvalid where none of them has one, and those of the tokenizer.
    """
    window, source = job.options.context_window, "given"
    if window is None:
        window, source = job.tokenizer.context_window, "preset"
    if window is None:
        window, source = load_tokenizer(job.tokenizer).model_max_length, "tokenizer"
    if window is None:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"neither the preset nor the tokenizer {job.options.tokenizer} says how long its context is",
            stage="options",
            where={"option": "--context-window"},
            remedy="give --context-window N",
        )
    inspection = run(replace(job, options=replace(job.options, context_window=window)))
    return {
        "schema": "budget/1",
        "window_from": source,
        "budget": None if inspection.budget is None else inspection.budget.to_dict(),
        "units": _units(inspection),
        "by_origin": None if inspection.encoding is None else inspection.encoding.counts()["by_origin"],
        "error": None if inspection.error is None else inspection.error.to_dict(),
    }


def _units(inspection: Inspection) -> list[dict[str, Any]]:
    """Give the tokens of each unit in the input; the template's own belong to none."""
    tally: dict[str, int] = {}
    for path, number in inspection.encoding.counts()["by_path"].items() if inspection.encoding is not None else ():
        name, bracket, rest = path.partition("[")
        if bracket and name in ("messages", "tools", "documents"):
            unit = f"{name}[{rest.split(']')[0]}]"
            tally[unit] = tally.get(unit, 0) + number
    return [{"path": path, "tokens": number} for path, number in tally.items()]


def labels(job: Job, mode: str, max_length: int | None, generation_tag_only: bool) -> dict[str, Any]:
    """Label a request; give `labels/1`. Errors: OptionInvalid, and those of the stages."""
    return {**labelled(job, mode, max_length, generation_tag_only).to_dict(), "error": None}


def labelled(job: Job, mode: str, max_length: int | None = None, generation_tag_only: bool = False) -> Labels:
    """Label a request without a generation prompt. Errors: as `labels`."""
    chosen = member(LabelMode, mode, "--mode")
    inspection = run(replace(job, options=replace(job.options, add_generation_prompt=False))).raise_for_error()
    encoding, conversation = inspection.encoding, inspection.conversation
    if encoding is None or conversation is None:
        raise ValueError("a run without an error has an encoding")
    messages = conversation.messages
    return make_labels(encoding, messages, chosen, max_length=max_length, generation_tag_only=generation_tag_only)


def batch(jobs: Sequence[Job], side: str, pad_id: int | None, packed: bool, mode: str) -> dict[str, Any]:
    """Lay several requests out; give `batch/1`, or `packed/1`. Errors: OptionInvalid, and those of the stages."""
    chosen = member(PaddingSide, side, "--padding-side")
    rows = [labelled(job, mode) for job in jobs]
    ids, targets = [row.input_ids for row in rows], [row.labels for row in rows]
    if packed:
        return {**pack_rows(ids, targets).to_dict(), "error": None}
    fill, eos = pad_and_eos(load_tokenizer(jobs[0].tokenizer), pad_id)
    return {**pad_batch(ids, fill, padding_side=chosen, eos_id=eos, labels=targets).to_dict(), "error": None}


def pad_and_eos(tokenizer: Tokenizer, pad_id: int | None = None) -> tuple[int, int | None]:
    """Give the id that padding gets (the one given, the tokenizer's, or its EOS), and the EOS id. Errors: OptionInvalid."""
    named = tokenizer.special_token_ids
    eos = named.get("eos_token")
    fill = next((token for token in (pad_id, named.get("pad_token"), eos) if token is not None), None)
    if fill is None:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            "the tokenizer has neither a pad nor an EOS token",
            stage="options",
            where={"option": "--pad-id"},
            remedy="give --pad-id ID",
        )
    return fill, eos


def prefix(
    job: Job, block_size: int, model_revision: str, adapter: str, most_steps: int | None = None
) -> dict[str, Any]:
    """Compare each step of a conversation with the next; give `prefix/1`. With `most_steps` only the last are compared,
    and `left_out` says how many were not. Errors: OptionInvalid, those of the stages."""
    if block_size < 1:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"a block of {block_size} tokens holds nothing", stage="options",
            where={"option": "--block-size"}, remedy="give a number above 0",
        )  # fmt: skip
    begun = begin(job)
    how: dict[str, Any] = {"block_size": block_size, "model_revision": model_revision, "adapter": adapter}
    growing = growing_prompts(begun.call, begun.tokenizer)
    table = prefix_table(begun.conversation, begun.assemble, most_steps=most_steps, growing=growing, **how)
    left_out = {} if most_steps is None else {"left_out": table.left_out}
    return {**table.to_dict(), **left_out, "error": None}


def member(kind: Any, value: str, option: str) -> Any:
    """Give the member of an enum that has this value. Errors: OptionInvalid."""
    names = [member.value for member in kind]
    if value not in names:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"{value!r} is none of {', '.join(names)}", stage="options",
            where={"option": option}, remedy=f"write {option} {names[0]}",
        )  # fmt: skip
    return kind(value)
