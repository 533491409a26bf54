"""Go on from a prompt token by token: greedily, or along tokens that a person chose, until a stop rule of engines holds.

The logits come from the caller's `step`; nothing is sampled. What a stop rule cuts off is shown, not hidden: the token
that stops is a step like any other, and says which rule it met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inspector.backends import RawLogits
from inspector.logits import log_softmax, rank_of, rounded, top_ids

Step = Callable[[Sequence[int]], RawLogits]


@dataclass(frozen=True, slots=True)
class StopRules:
    """When an engine stops. `stop_ids`: any of `eos_token_id`; `stop_strings`: in the decoded text; `max_tokens`: new
    tokens in all; `window`: positions of the model, None where it says none."""

    stop_ids: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    max_tokens: int = 32
    window: int | None = None


@dataclass(frozen=True, slots=True)
class WalkStep:
    """One new token. `logprob` NaN and `rank` 0: a server did not list it; `rank` 1 = the most probable; `stop`: None, "eos", "length", "window" or the stop string that was met."""

    id: int
    logprob: float
    rank: int
    candidates: tuple[tuple[int, float], ...]
    stop: str | None
    timings_ms: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Give JSON values; a log-probability that is not known is null."""
        return {
            "id": self.id,
            "logprob": None if math.isnan(self.logprob) else rounded(self.logprob),
            "rank": self.rank,
            "candidates": [{"id": token, "logprob": rounded(logprob)} for token, logprob in self.candidates],
            "stop": self.stop,
            "timings_ms": {name: round(value, 3) for name, value in self.timings_ms.items()},
        }


def walk(
    input_ids: Sequence[int],
    step: Step,
    rules: StopRules,
    *,
    forced: Sequence[int] = (),
    num_candidates: int = 5,
    decode: Callable[[Sequence[int]], bytes] | None = None,
    before: Sequence[int] = (),
) -> Iterator[WalkStep]:
    """Give the steps one by one as they are computed; closing the iterator stops the walk.

    `input_ids`: the prompt with what was walked `before` at its end. `forced`: the first tokens, chosen by a person.
    `decode`: bytes of the new ids, needed for stop strings.
    """
    ids, new = list(input_ids), list(before)
    number = 0
    while True:
        if rules.window is not None and len(ids) >= rules.window:
            return  # there is no position left to read
        raw = step(ids)
        token, found = _choose(raw, forced[number] if number < len(forced) else None, num_candidates)
        ids.append(token)
        new.append(token)
        number += 1
        stop = _stop(token, new, len(ids), rules, decode)
        yield WalkStep(token, *found, stop=stop, timings_ms=dict(raw.timings_ms))
        if stop is not None and number >= len(forced):  # a person may go on past a token at which an engine stops
            return


def _choose(
    raw: RawLogits, forced: int | None, count: int
) -> tuple[int, tuple[float, int, tuple[tuple[int, float], ...]]]:
    if raw.ids is None:
        logprobs = log_softmax(raw.values)
        top = top_ids(raw.values, count)
        token = int(top[0]) if forced is None else forced
        return token, (
            float(logprobs[token]),
            rank_of(raw.values, token),
            tuple((int(t), float(logprobs[t])) for t in top),
        )
    listed = [(int(token), float(value)) for token, value in zip(raw.ids, raw.values, strict=True)]
    token = listed[0][0] if forced is None else forced
    place = next((place for place, (known, _value) in enumerate(listed) if known == token), None)
    found = (float("nan"), 0) if place is None else (listed[place][1], place + 1)
    return token, (*found, tuple(listed[:count]))


def _stop(
    token: int,
    new: Sequence[int],
    length: int,
    rules: StopRules,
    decode: Callable[[Sequence[int]], bytes] | None,
) -> str | None:
    if token in rules.stop_ids:
        return "eos"
    if rules.stop_strings and decode is not None:
        data = decode(new)
        met = [text for text in rules.stop_strings if text.encode() in data]
        if met:
            return met[0]
    if rules.window is not None and length >= rules.window:
        return "window"
    return "length" if len(new) >= rules.max_tokens else None


def stop_ids(generation_config: Mapping[str, Any], eos_id: int | None) -> list[int]:
    """Give the ids at which an engine stops: all of `eos_token_id`, else the tokenizer's EOS."""
    listed = generation_config.get("eos_token_id")
    values = listed if isinstance(listed, list) else [listed]
    found = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return found or ([] if eos_id is None else [eos_id])
