"""Which tokens a loss is computed on, and what is wrong with that choice.

Labels are ids where a token is trained and -100 elsewhere. Who speaks comes from the encoding's assistant mask, which is
the template's `{% generation %}` where it has the tag, else provenance. No loss is computed, and the shift by one
position is the model's.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.encode import NO_SEGMENT, Encoding, TokenFlag, control_mask
from inspector.errors import ErrorKind, InspectorError
from inspector.render import SegmentKind
from inspector.tensors import IGNORED_LABEL
from inspector.tokenizers.base import Tokenizer

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_ASSISTANT_ROLES = ("assistant", "model")
_TEMPLATE, _SPECIAL = int(SegmentKind.TEMPLATE), int(SegmentKind.SPECIAL)
_GENERATION_PROMPT = int(TokenFlag.GENERATION_PROMPT)  # a plain int: numpy takes an enum ten times as long


class LabelMode(enum.Enum):
    """Which tokens are trained."""

    ASSISTANT_ONLY = "assistant_only"  # what the assistant said, in every turn
    LAST_TURN = "last_turn"  # in its last turn only
    ALL = "all"  # every token


class AlarmKind(enum.Enum):
    """What is wrong with the labels; the value is its name in `labels/1`."""

    ALL_MASKED = "all_masked"  # nothing is trained
    STOP_NOT_TRAINED = "stop_not_trained"  # the token that ends a turn is not, so the model never learns to stop
    ROLE_HEADER_TRAINED = "role_header_trained"  # the model is trained to write the role's name
    TRUNCATED_MASK = "truncated_mask"  # trained tokens lie beyond max_length
    PAD_IS_EOS = "pad_is_eos_masks_eos"  # a collator that masks padding by its id masks the real EOS
    REASONING_NEVER_TRAINED = "reasoning_never_trained"  # the template leaves a message's reasoning out
    SEAM_MERGE = "seam_merge"  # one token holds the end of the prompt and the beginning of the answer


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong: where (a path of the request, a token index), and why."""

    kind: AlarmKind
    why: str
    path: str | None = None
    token: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of `alarms`."""
        return {"kind": self.kind.value, "why": self.why, "path": self.path, "token": self.token}


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Labels of one conversation, with the alarms.

    Shapes: input_ids, labels int64[n].
    """

    mode: LabelMode
    source: str | None  # "generation" | "provenance" | None: nobody's turn is known
    input_ids: np.ndarray
    labels: np.ndarray
    alarms: tuple[Alarm, ...]
    runs: tuple[tuple[int, int, bool, str], ...]  # start, end (tokens), trained, text

    @property
    def num_trained(self) -> int:
        return int(np.count_nonzero(self.labels != IGNORED_LABEL))

    def to_dict(self) -> dict[str, Any]:
        """Give schema `labels/1`."""
        return {
            "schema": "labels/1",
            "mode": self.mode.value,
            "source": self.source,
            "input_ids": self.input_ids.tolist(),
            "labels": self.labels.tolist(),
            "num_tokens": len(self.labels),
            "num_trained": self.num_trained,
            "runs": [{"start": a, "end": b, "trained": on, "text": text} for a, b, on, text in self.runs],
            "alarms": [alarm.to_dict() for alarm in self.alarms],
        }


def make_labels(
    encoding: Encoding,
    messages: Sequence[dict[str, Any]] = (),
    mode: LabelMode = LabelMode.ASSISTANT_ONLY,
    *,
    max_length: int | None = None,
    generation_tag_only: bool = False,
    with_runs: bool = True,
) -> Labels:
    """Label one encoding; `with_runs` False leaves the runs with their texts out.

    `messages`: the request's own, for what of them was left out. `max_length`: cut from the right, as trainers do.
    `generation_tag_only`: as transformers' `return_assistant_tokens_mask`, which knows no speaker without the tag.
    Errors: OptionInvalid.
    """
    if max_length is not None and max_length < 1:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"a length of {max_length} holds nothing", stage="tensors",
            where={"option": "max_length"}, remedy="give a number above 0",
        )  # fmt: skip
    view = _View(encoding, messages, generation_tag_only)
    trained = np.ones(len(encoding), bool) if mode is LabelMode.ALL else view.spoken(last=mode is LabelMode.LAST_TURN)
    kept = slice(0, max_length)
    ids = encoding.input_ids[kept]
    labels = np.where(trained[kept], ids, IGNORED_LABEL)
    alarms = tuple(view.alarms(trained, len(ids), mode))
    runs = tuple(_runs(encoding, trained[kept])) if with_runs else ()
    return Labels(mode, view.source, ids, labels, alarms, runs)


def _runs(encoding: Encoding, trained: np.ndarray) -> Iterator[tuple[int, int, bool, str]]:
    edges = [0, *(np.flatnonzero(np.diff(trained.astype(np.int8))) + 1).tolist(), len(trained)]
    for start, end in itertools.pairwise(edges):
        if start < end:
            text = encoding.tokenizer.decode(encoding.input_ids[start:end].tolist()).decode("utf-8", "replace")
            yield start, end, bool(trained[start]), text


_SAID, _ROLE, _OURS = 1, 2, 4  # bits of a token: its field is a message's, it is a role; the template wrote it
_NONE = np.zeros(1, np.uint8)
_ONLY_ROLE = bytes(bits & _ROLE != 0 for bits in range(256))
_KIND_BITS = np.array([_OURS if kind in (_TEMPLATE, _SPECIAL) else 0 for kind in range(256)], np.uint8)


@functools.lru_cache(maxsize=4096)
def _field_bits(path: str) -> int:
    return (_SAID if path.startswith("messages[") else 0) | (_ROLE if path.endswith("].role") else 0)


@functools.lru_cache(maxsize=4096)
def _names_assistant(piece: bytes) -> bool:
    """Say whether a token spells the assistant's role, whatever marks stand around it."""
    return piece.decode("utf-8", "replace").strip(" \n<|>[]▁") in _ASSISTANT_ROLES


def _stretches(mask: np.ndarray) -> list[tuple[int, int]]:
    """Give the ranges [start, end) in which a mask is set."""
    data, found, end = mask.tobytes(), [], 0
    while (start := data.find(1, end)) >= 0:
        end = data.find(0, start)
        end = len(data) if end < 0 else end
        found.append((start, end))
    return found


class _View:
    """An encoding as its turns: what the assistant said, and who wrote each token."""

    def __init__(self, encoding: Encoding, messages: Sequence[dict[str, Any]], generation_tag_only: bool) -> None:
        self.encoding, self.messages = encoding, messages
        known = encoding.assistant_mask_from == "generation" or not generation_tag_only
        self.source = encoding.assistant_mask_from if known else None
        self.mask = encoding.assistant_mask == 1 if known else np.zeros(len(encoding), bool)
        self.turns = _stretches(self.mask)
        segments = encoding.rendered.segments
        # What a token's field is, the last entry for tokens that no segment holds; bytes, which are read one by one.
        fields = np.array([*map(_field_bits, segments.paths), 0], np.uint8)[segments.path] | _KIND_BITS[segments.kind]
        self._fields = np.concatenate((fields, _NONE))[encoding.segment].tobytes()
        self._roles = self._fields.translate(_ONLY_ROLE)
        self._control = control_mask(encoding.flags).tobytes()

    def _speaker(self, turn: tuple[int, int]) -> str:
        """Give the message that a turn is of: the first that wrote in it."""
        fields = self._fields[slice(*turn)]
        first = next((index for index, field in enumerate(fields) if field & _SAID), None)
        return "" if first is None else self._path(turn[0] + first).split("]")[0]

    def _path(self, index: int) -> str:
        segments = self.encoding.rendered.segments
        return segments.paths[segments.path[self.encoding.segment[index]]]

    def spoken(self, *, last: bool) -> np.ndarray:
        turns = self.turns
        if not last or not turns:
            return self.mask
        speaker, chosen = self._speaker(turns[-1]), np.zeros(len(self.mask), bool)
        for turn in turns:
            if turn == turns[-1] or (speaker and self._speaker(turn) == speaker):
                chosen[slice(*turn)] = True
        return chosen

    def alarms(self, trained: np.ndarray, length: int, mode: LabelMode) -> Iterator[Alarm]:
        inside = trained[:length]
        if not inside.any():
            yield Alarm(AlarmKind.ALL_MASKED, f"0 of {length} tokens are trained: {self._why_none(trained)}")
        if length < len(trained) and trained[length:].any():
            lost, total = int(trained[length:].sum()), int(trained.sum())
            yield Alarm(AlarmKind.TRUNCATED_MASK, f"{lost} of {total} trained tokens lie beyond {length}", None, length)
        if mode is not LabelMode.ALL:
            for turn in self.turns:
                if trained[turn[0]] and turn[1] <= length:
                    yield from self._turn_alarms(turn)
        yield from self._eos_alarm(inside)
        yield from self._reasoning_alarms()

    def _why_none(self, trained: np.ndarray) -> str:
        if trained.any():
            return "what is trained lies beyond max_length"
        if self.source is None and self.encoding.assistant_mask_from == "provenance":
            return "the template has no {% generation %} tag"
        if self.source == "generation":
            return "no {% generation %} block was reached"
        return "no assistant's turn was found"

    def _turn_alarms(self, turn: tuple[int, int]) -> Iterator[Alarm]:
        start, end = turn
        speaker = self._speaker(turn)
        path = f"{speaker}]" if speaker else None
        stop = self._stop(turn)
        if stop is not None and stop >= end:
            piece = self.encoding.tokenizer.piece(int(self.encoding.input_ids[stop]))
            yield Alarm(AlarmKind.STOP_NOT_TRAINED, f"{piece} ends the turn and is not trained", path, stop)
        elif stop is None:
            yield Alarm(AlarmKind.STOP_NOT_TRAINED, "the template writes no token that ends the turn", path, end)
        header = self._header(turn)
        if header is not None:
            yield Alarm(AlarmKind.ROLE_HEADER_TRAINED, "the role's name is trained", path, header)
        yield from self._seam_alarm(start, path)

    def _written_by_template(self, index: int) -> bool:
        return self._fields[index] & _OURS != 0

    def _controls(self, index: int) -> bool:
        return self._control[index] != 0

    def _header(self, turn: tuple[int, int]) -> int | None:
        """Give the token of a turn that holds the role's name: the field itself, or the template's word before all content."""
        start, end = turn
        found = self._roles.find(1, start, end)
        stop = end if found < 0 else found
        for at in range(start, stop):
            if not self._written_by_template(at):
                break
            if _names_assistant(self.encoding.tokenizer.token_bytes(int(self.encoding.input_ids[at]))):
                return at
        return stop if stop < end else None

    def _stop(self, turn: tuple[int, int]) -> int | None:
        """Give the token that ends a turn: the last control token the template wrote in it after all content, or else
        the first after it that does not open another turn. None if there is none."""
        flags, end = self.encoding.flags, turn[1]
        at = end - 1
        while at >= turn[0] and self._written_by_template(at):
            if self._controls(at):
                return at
            at -= 1
        for at in range(end, len(flags)):
            if not self._written_by_template(at) or int(flags[at]) & _GENERATION_PROMPT:
                return None
            if self._controls(at):
                return None if self._opens(at) else at
        return None

    def _opens(self, index: int) -> bool:
        """Say whether a control token opens a turn: a role's name comes after it, or content at once."""
        if int(self.encoding.flags[index]) & TokenFlag.EOS or index + 1 >= len(self._fields):
            return False
        return self._fields[index + 1] & _SAID != 0

    def _seam_alarm(self, start: int, path: str | None) -> Iterator[Alarm]:
        spans = self.encoding.rendered.assistant_spans
        if self.encoding.rendered.kind != "bytes":
            return
        begin, end = int(self.encoding.start[start]), int(self.encoding.end[start])
        inside = next((first for first, _last in spans if begin < first < end), None)
        if inside is not None:
            why = f"byte {inside} begins the answer inside the token"
            yield Alarm(AlarmKind.SEAM_MERGE, why, path, start)

    def _eos_alarm(self, trained: np.ndarray) -> Iterator[Alarm]:
        ids = self.encoding.tokenizer.special_token_ids
        eos, pad = ids.get("eos_token"), ids.get("pad_token")
        if eos is None or pad not in (None, eos):
            return
        hit = (trained & (self.encoding.input_ids[: len(trained)] == eos)).nonzero()[0]
        if len(hit):
            says = "the pad token is the EOS token" if pad == eos else "there is no pad token, and EOS is used for it"
            why = f"{says}: a collator that masks padding by its id masks {len(hit)} trained EOS"
            yield Alarm(AlarmKind.PAD_IS_EOS, why, None, int(hit[0]))

    def _reasoning_alarms(self) -> Iterator[Alarm]:
        written: set[str] | None = None
        for index, message in enumerate(self.messages):
            if message.get("role") not in _ASSISTANT_ROLES:
                continue
            fields = [name for name in REASONING_FIELDS if message.get(name)]
            if fields and written is None:
                written = self._written()
            names = tuple(f"messages[{index}].{name}" for name in fields)
            if fields and not any(path.startswith(names) for path in written or ()):
                path = f"messages[{index}].{fields[0]}"
                yield Alarm(AlarmKind.REASONING_NEVER_TRAINED, "the template does not write it", path)
            elif not fields and self._loses_thought(index, message.get("content")):
                path = f"messages[{index}].content"
                yield Alarm(AlarmKind.REASONING_NEVER_TRAINED, "the template strips what stands in <think>", path)

    def _written(self) -> set[str]:
        """Give the fields of which a token holds the first byte."""
        segments = self.encoding.rendered.segments
        rows = np.unique(self.encoding.segment)
        places = np.unique(segments.path[rows[rows != NO_SEGMENT]])
        return {segments.paths[place] for place in places[places >= 0].tolist()}

    def _loses_thought(self, index: int, content: Any) -> bool:
        """Say whether the text before `</think>` in a content is written nowhere."""
        if not isinstance(content, str) or "</think>" not in content:
            return False
        thought = str.__str__(content).partition("</think>")[0].rpartition("<think>")[2]
        if not thought.strip():
            return False
        before = len(content[: content.index("</think>")].encode("utf-8"))
        segments, path = self.encoding.rendered.segments, f"messages[{index}].content"
        if path not in segments.paths:
            return True
        rows = (segments.path == segments.paths.index(path)) & (segments.field_start >= 0)
        return not (segments.field_start[rows] < before).any()


@dataclass(frozen=True, slots=True)
class Seam:
    """A prompt and a completion, tokenized apart and together.

    `crossing`: the token of the joint ids that holds bytes of both, or None. The ids may differ without one.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    joint_ids: tuple[int, ...]
    crossing: int | None

    @property
    def equal(self) -> bool:
        return self.prompt_ids + self.completion_ids == self.joint_ids

    def to_dict(self) -> dict[str, Any]:
        """Give schema `seam/1`."""
        return {
            "schema": "seam/1",
            "prompt_ids": list(self.prompt_ids),
            "completion_ids": list(self.completion_ids),
            "joint_ids": list(self.joint_ids),
            "equal": self.equal,
            "crossing": self.crossing,
        }


def seam(prompt: str, completion: str, tokenizer: Tokenizer) -> Seam:
    """Tokenize a prompt and its completion apart and together."""
    apart = [tuple(tokenizer.encode(text).input_ids.tolist()) for text in (prompt, completion)]
    joint = tokenizer.encode(prompt + completion)
    at = len(prompt.encode("utf-8"))
    over = np.flatnonzero((joint.start < at) & (joint.end > at))
    return Seam(apart[0], apart[1], tuple(joint.input_ids.tolist()), int(over[0]) if len(over) else None)


def collated(labels: np.ndarray, pad_id: int) -> np.ndarray:
    """Give labels as a collator makes them that masks padding by its id (transformers' for language modelling does)."""
    return np.where(labels == pad_id, IGNORED_LABEL, labels)


__all__ = [
    "Alarm",
    "AlarmKind",
    "LabelMode",
    "Labels",
    "Seam",
    "collated",
    "make_labels",
    "seam",
]
