"""Plan new special tokens: which ids they get, which embedding rows that needs, what has to be done besides.

`plan` reads a tokenizer and numbers only. `trial` computes what the new rows would do in a loaded torch model, beside it:
the model is not changed, nothing is trained and nothing is saved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import Tokenizer

# A slot that a vocabulary keeps for later: numbered, with a name that says so.
_RESERVED = re.compile(
    r"[<\[]\W*(reserved|unused|extra|control|special|place.?holder|dummy|filler)\D*\d+\W*[>\]]", re.I
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A reserved entry that no template of the tokenizer writes: its id and its literal."""

    id: int
    content: str


@dataclass(frozen=True, slots=True)
class Obligation:
    """One thing to do so that the new tokens work, and whether it applies here."""

    name: str
    applies: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "applies": self.applies, "why": self.why}


@dataclass(frozen=True, slots=True)
class VocabularyPlan:
    """What adding tokens to one tokenizer means.

    `rows`: of the model's embedding matrix now (None: not known); `rows_after`: what it needs, never fewer. `existing`:
    tokens that are one id already. The rows of `new_ids` have to be initialised, also where the model has them already.
    """

    tokenizer: str
    tokens: tuple[str, ...]
    new_ids: tuple[int, ...]
    existing: tuple[Slot, ...]
    reserved: tuple[Slot, ...]
    size: int
    rows: int | None
    rows_after: int
    pad_to_multiple_of: int | None
    tied: bool | None

    @property
    def rows_added(self) -> int:
        return max(0, self.rows_after - (self.size if self.rows is None else self.rows))

    @property
    def shrinks(self) -> int | None:
        """The number of rows that `resize_token_embeddings(len(tokenizer))` would leave, if that is fewer than there are."""
        naive = self.size + len(self.new_ids)
        return naive if self.rows is not None and naive < self.rows else None

    def to_dict(self) -> dict[str, Any]:
        """Give schema `vocabulary/1`."""
        return {
            "schema": "vocabulary/1",
            "tokenizer": self.tokenizer,
            "tokens": [{"content": text, "id": token_id} for text, token_id in zip(self.tokens, self.new_ids)],
            "existing": [{"content": slot.content, "id": slot.id} for slot in self.existing],
            "reserved": [{"content": slot.content, "id": slot.id} for slot in self.reserved],
            "size": self.size,
            "size_after": self.size + len(self.new_ids),
            "rows": self.rows,
            "rows_after": self.rows_after,
            "rows_added": self.rows_added,
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "tied": self.tied,
            "shrinks_to": self.shrinks,
            "code": self.code(),
            "obligations": [entry.to_dict() for entry in self.obligations()],
        }

    def obligations(self) -> tuple[Obligation, ...]:
        """Give the checklist."""
        beyond = self.rows is None or self.rows_after > self.rows
        return (
            Obligation(
                "reserved_slots", bool(self.reserved), "reserved entries have ids and rows already: use them first"
            ),
            Obligation(
                "template", bool(self.new_ids), "the chat template has to write the new tokens, or nothing ever does"
            ),
            Obligation("resize", beyond, f"the embedding needs {self.rows_after} rows"),
            Obligation(
                "do_not_shrink",
                self.shrinks is not None,
                f"resize_token_embeddings(len(tokenizer)) would cut {self.rows} rows to {self.shrinks}, and emb[old_n:] "
                f"would initialise nothing: the new ids have rows below {self.rows}"
                if self.shrinks is not None
                else "the model has no more rows than there are ids",
            ),
            Obligation(
                "initialise", bool(self.new_ids), "rows of new ids hold noise or leftovers: set them to the mean"
            ),
            Obligation(
                "lora_modules_to_save",
                bool(self.new_ids),
                "LoRA trains no new row: modules_to_save embed_tokens, lm_head",
            ),
            Obligation(
                "tied",
                self.tied is not False,
                "with tied embeddings the output row is the input row: initialise it once",
            ),
            Obligation("save_together", True, "save tokenizer and model together, with as many rows as ids or more"),
            Obligation(
                "glitch_tokens", bool(self.new_ids), "a token that training never shows stays noise: cover each one"
            ),
        )

    def code(self) -> str:
        """Give the program that does it, for transformers; MODEL and FOLDER are to be filled in."""
        padding = "" if self.pad_to_multiple_of is None else f", pad_to_multiple_of={self.pad_to_multiple_of}"
        return f"""import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL)
old_size = len(tokenizer)
tokenizer.add_tokens({list(self.tokens)!r}, special_tokens=True)
new_ids = tokenizer.convert_tokens_to_ids({list(self.tokens)!r})
rows = model.get_input_embeddings().weight.shape[0]
if max(new_ids, default=-1) >= rows:  # never to fewer rows than there are
    model.resize_token_embeddings(max(new_ids) + 1{padding}, mean_resizing=False)
layers = [model.get_input_embeddings(), model.get_output_embeddings()]
with torch.no_grad():
    for weight in {{id(layer.weight): layer.weight for layer in layers if layer is not None}}.values():
        weight[new_ids] = weight[:old_size].mean(dim=0)
tokenizer.save_pretrained(FOLDER)
model.save_pretrained(FOLDER)
"""


def plan(
    tokenizer: Tokenizer,
    tokens: Sequence[str],
    *,
    rows: int | None = None,
    pad_to_multiple_of: int | None = None,
    tied: bool | None = None,
) -> VocabularyPlan:
    """Plan new special tokens. `rows`, `tied`: of the model, where known.

    Errors: InputInvalid for an empty or repeated token, OptionInvalid for impossible numbers.
    """
    _check(tokens, rows, pad_to_multiple_of)
    known = {added.content: added.id for added in tokenizer.added_tokens}
    existing = tuple(Slot(known[text], text) for text in tokens if text in known)
    new = tuple(text for text in tokens if text not in known)
    first = max([tokenizer.size - 1, *known.values()]) + 1
    new_ids = tuple(range(first, first + len(new)))
    needed = max(first + len(new) if new else 0, rows or 0, tokenizer.size)
    if pad_to_multiple_of is not None and needed > (rows or 0):
        needed = -(-needed // pad_to_multiple_of) * pad_to_multiple_of
    return VocabularyPlan(
        tokenizer=tokenizer.id,
        tokens=new,
        new_ids=new_ids,
        existing=existing,
        reserved=reserved_slots(tokenizer),
        size=tokenizer.size,
        rows=rows,
        rows_after=needed,
        pad_to_multiple_of=pad_to_multiple_of,
        tied=tied,
    )


def reserved_slots(tokenizer: Tokenizer) -> tuple[Slot, ...]:
    """Give the entries that a vocabulary keeps for later and none of its templates writes."""
    written = "".join(tokenizer.chat_templates.values())
    return tuple(
        Slot(added.id, added.content)
        for added in tokenizer.added_tokens
        if _RESERVED.fullmatch(added.content) and added.content not in written
    )


def _check(tokens: Sequence[str], rows: int | None, multiple: int | None) -> None:
    if not tokens or any(not text.strip() for text in tokens) or len(set(tokens)) != len(tokens):
        raise InspectorError(
            ErrorKind.InputInvalid, f"{list(tokens)} is no list of new tokens", stage="tensors",
            remedy="give each token once, none empty",
        )  # fmt: skip
    for option, value in (("rows", rows), ("pad_to_multiple_of", multiple)):
        if value is not None and value < 1:
            raise InspectorError(
                ErrorKind.OptionInvalid, f"{option} is {value}", stage="tensors", where={"option": option},
                remedy="give a number above 0",
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """What mean-initialised rows do to a model before any training.

    `mean_norm`: of the input rows that are tokens; `new_norm`: of a new one; `leftover_norms`: of what stands in those that
    the model has already. `top_before`, `top_after`: the most likely next ids with their probabilities; `new_mass`: probability
    of all new tokens together. `rows`, `tied`: of the model.
    """

    mean_norm: float
    new_norm: float
    leftover_norms: tuple[float, ...]
    top_before: tuple[int, ...]
    top_after: tuple[int, ...]
    new_mass: float
    probs_before: tuple[float, ...] = ()
    probs_after: tuple[float, ...] = ()
    rows: int | None = None
    tied: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give schema `vocabulary-trial/1`."""
        return {"schema": "vocabulary-trial/1", **{name: getattr(self, name) for name in self.__slots__}}


def trial(model: Any, planned: VocabularyPlan, input_ids: Sequence[int], top_k: int = 5) -> Trial:
    """Measure the next token of a causal model as it would be with mean-initialised rows for the new ids.

    `model`: a transformers model on any device, with as many rows as the plan says. Errors: OptionInvalid if it has others.
    """
    import torch

    weight = model.get_input_embeddings().weight
    if planned.rows is not None and weight.shape[0] != planned.rows:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"the model has {weight.shape[0]} rows, the plan says {planned.rows}",
            stage="tensors", where={"option": "rows"}, remedy="plan with the model's number of rows",
        )  # fmt: skip
    output = model.get_output_embeddings()
    ids = list(planned.new_ids)
    with torch.no_grad():
        given = torch.tensor([list(input_ids)], device=weight.device)
        hidden = model(given, output_hidden_states=True).hidden_states[-1][0, -1]
        head = weight if output is None else output.weight
        before = head @ hidden
        mean = head[: planned.size].mean(dim=0)
        grown = torch.cat([head, head.new_zeros(max(0, planned.rows_after - head.shape[0]), head.shape[1])])
        grown[ids] = mean
        after = grown @ hidden
        norms = weight[: planned.size].norm(dim=1)
        was, shares = torch.softmax(before.float(), dim=0), torch.softmax(after.float(), dim=0)
        top_before, top_after = before.topk(top_k).indices, after.topk(top_k).indices
        return Trial(
            mean_norm=norms.mean().item(),
            new_norm=weight[: planned.size].mean(dim=0).norm().item(),
            leftover_norms=tuple(weight[row].norm().item() for row in ids if row < weight.shape[0]),
            top_before=tuple(top_before.tolist()),
            top_after=tuple(top_after.tolist()),
            new_mass=shares[ids].sum().item() if ids else 0.0,
            probs_before=tuple(was[top_before].tolist()),
            probs_after=tuple(shares[top_after].tolist()),
            rows=weight.shape[0],
            tied=output is None or output.weight is weight,
        )
