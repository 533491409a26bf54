"""What a model is asked about an inspection: its ids, who wrote them, and the tokens that are worth watching.

It reads an inspection and asks no model. The watched tokens are found in the tokenizer and the template, never by a list of
models: end of text, what the template ends a turn with, and what opens a tool call or a stretch of reasoning.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.control import terminator
from inspector.encode import Encoding, TokenFlag
from inspector.provenance import SegmentKind
from inspector.verdict import Pin

if TYPE_CHECKING:
    from inspector.pipeline import Inspection
    from inspector.tokenizers.base import Tokenizer

_OPENERS = (
    (
        "tool_call",
        re.compile(r"<\|?(?:tool_calls?(?:_begin|_start)?|python_tag|function_calls?)\|?>|\[TOOL_CALLS\]", re.I),
    ),
    ("think", re.compile(r"<\|?think(?:ing)?\|?>|<seed:think>|\[THINK\]", re.I)),
)
MOST_OPENERS = 3


def model_input(inspection: Inspection, answered: Encoding | None) -> dict[str, Any]:
    """Give JSON values: input_ids, safe_input_ids, runs, pins, text, size, vocab_size, bos_id, pad_id, arguments, timings_ms.

    `answered`: a render of a short chat with an answer, for the token that ends a turn.
    """
    encoding, tokenizer = inspection.encoding, inspection.tokenizer
    assert encoding is not None and tokenizer is not None
    template = "" if inspection.template is None else inspection.template.text
    ids = tokenizer.special_token_ids
    return {
        "input_ids": encoding.input_ids.tolist(),
        "safe_input_ids": encoding.safe_input_ids.tolist(),
        "runs": [list(run) for run in runs(encoding)],
        "pins": [[pin.id, pin.why, pin.text] for pin in watched(tokenizer, template, answered or encoding)],
        "text": encoding.rendered.text or None,
        "size": tokenizer.size,
        "vocab_size": tokenizer.vocab_size,
        "bos_id": ids.get("bos_token"),
        "pad_id": ids.get("pad_token"),
        "thinking": thinking_argument(template),
        "timings_ms": dict(inspection.timings_ms),
    }


def runs(encoding: Encoding) -> Iterator[tuple[int, int, str, str]]:
    """Give (start, end, kind, path) of neighbouring tokens of one writer; they partition the tokens."""
    segments = encoding.rendered.segments
    generation = (encoding.flags & TokenFlag.GENERATION_PROMPT) != 0
    writer = np.where(encoding.segment >= 0, segments.kind[encoding.segment], -1) if len(segments.kind) else None
    if writer is None:
        writer = np.full(len(encoding.input_ids), -1)
    path = (
        np.where(encoding.segment >= 0, segments.path[encoding.segment], -1) if len(segments.path) else writer * 0 - 1
    )
    keys = np.stack([writer, path, generation]).T if len(writer) else np.empty((0, 3), np.int64)
    cuts = np.flatnonzero((keys[1:] != keys[:-1]).any(1)) + 1
    bounds = [0, *cuts.tolist(), len(keys)] if len(keys) else []
    for start, end in itertools.pairwise(bounds):
        kind, place, prompt = keys[start].tolist()
        named = "generation_prompt" if prompt else "special" if kind < 0 else SegmentKind(kind).name.lower()
        yield start, end, named, segments.paths[place] if place >= 0 else ""


def watched(tokenizer: Tokenizer, template: str, answered: Encoding) -> Iterator[Pin]:
    """Give the tokens that are always rows. Where an opener is several tokens, its first is watched."""
    eos = tokenizer.special_token_ids.get("eos_token")
    if eos is not None:
        yield Pin(eos, "eos", tokenizer.piece(eos))
    end = terminator(answered)
    if end is not None:
        yield Pin(end, "turn_end", tokenizer.piece(end))
    added = {token.content: token.id for token in tokenizer.added_tokens}
    for why, pattern in _OPENERS:
        found = [content for content in added if pattern.fullmatch(content)]
        found += [text for text in dict.fromkeys(match[0] for match in pattern.finditer(template)) if text not in added]
        for text in found[:MOST_OPENERS]:
            ids = [added[text]] if text in added else tokenizer.encode(text).input_ids.tolist()
            if ids:
                yield Pin(int(ids[0]), why, text)


def thinking_argument(template: str) -> str | None:
    """Give the name of the template's boolean argument that turns reasoning on, if it has one."""
    from inspector.errors import InspectorError
    from inspector.template_arguments import template_arguments

    try:
        named = {argument.name for argument in template_arguments(template)}
    except InspectorError:
        return None
    return next((name for name in ("enable_thinking", "thinking") if name in named), None)
