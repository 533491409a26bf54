"""What a check may know beyond the request, template and tokenizer: the model's configuration, and what another program sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.pipeline import Inspection

MAX_SENT = 4_000_000  # numbers in one array


@dataclass(frozen=True, slots=True)
class Sent:
    """What a program really sent for this request, as far as it was recorded; None where it was not.

    `text`: its rendered prompt. `input_ids`, `attention_mask`, `position_ids`, `assistant_mask`: one row a sequence of the
    batch; `row` is ours. `prompt_length`: what it took for the number of prompt tokens.
    """

    text: str | None = None
    input_ids: tuple[tuple[int, ...], ...] | None = None
    attention_mask: tuple[tuple[int, ...], ...] | None = None
    position_ids: tuple[tuple[int, ...], ...] | None = None
    assistant_mask: tuple[tuple[int, ...], ...] | None = None
    prompt_length: int | None = None
    row: int = 0

    def own(self, name: str) -> tuple[int, ...] | None:
        """Give our row of an array, without padding where a mask tells."""
        rows = getattr(self, name)
        if rows is None:
            return None
        values = rows[self.row]
        if self.attention_mask is None:
            return values
        mask = self.attention_mask[self.row]
        return tuple(value for value, kept in zip(values, mask) if kept)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What rules may read beside the inspection. Everything may be missing.

    `config`, `generation_config`, `tokenizer_config`: the JSON files of the model's repository. `base`: the same request
    with the tokenizer that this one is said to be equal to.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    generation_config: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_config: Mapping[str, Any] = field(default_factory=dict)
    sent: Sent = Sent()
    base: Inspection | None = None


_ARRAYS = ("input_ids", "attention_mask", "position_ids", "assistant_mask")


def read_sent(value: Any) -> Sent:
    """Read what `--sent` holds: {text, input_ids, attention_mask, position_ids, assistant_mask, prompt_length, row}.

    An array is one row, or one row a sequence. `input_ids` may be what `apply_chat_template` returned whole.
    Errors: InputInvalid naming the key.
    """
    if not isinstance(value, dict):
        raise _bad("", "it is no JSON object")
    unknown = sorted(set(value) - {"text", *_ARRAYS, "prompt_length", "row", "labels", "token_type_ids"})
    if unknown:
        raise _bad(unknown[0], "there is no such key")
    arrays = {name: _rows(name, value[name]) for name in _ARRAYS if value.get(name) is not None}
    if value.get("labels") is not None and "assistant_mask" not in arrays:
        labels = _rows("labels", value["labels"])
        arrays["assistant_mask"] = tuple(tuple(int(label != -100) for label in row) for row in labels)
    row = _number("row", value.get("row", 0))
    shapes = {tuple(map(len, rows)) for rows in arrays.values()}
    if len(shapes) > 1:
        raise _bad(", ".join(arrays), f"they have the shapes {sorted(map(list, shapes))}")
    if arrays and row >= len(next(iter(arrays.values()))):
        raise _bad("row", f"there is no row {row}")
    text, length = value.get("text"), value.get("prompt_length")
    if text is not None and not isinstance(text, str):
        raise _bad("text", "it is no string")
    return Sent(
        text=text, prompt_length=None if length is None else _number("prompt_length", length), row=row, **arrays
    )


def _rows(name: str, value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not value:
        raise _bad(name, "it is no array of numbers")
    rows = value if isinstance(value[0], list) else [value]
    if sum(len(row) if isinstance(row, list) else 1 for row in rows) > MAX_SENT:
        raise _bad(name, f"it has more than {MAX_SENT} numbers")
    for row in rows:
        if not isinstance(row, list) or not all(isinstance(item, int) for item in row):
            raise _bad(name, "a row holds something else than whole numbers")
    return tuple(tuple(int(item) for item in row) for row in rows)


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _bad(name, "it is no whole number from 0 on")
    return value


def _bad(key: str, why: str) -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid,
        f"what was sent cannot be read{f' at {key!r}' if key else ''}: {why}",
        stage="options",
        where={"option": "--sent", **({"key": key} if key else {})},
        remedy='give {"text": "...", "input_ids": [...], "attention_mask": [...], "position_ids": [...]}, each as far as recorded',
    )
