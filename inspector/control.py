"""The control plane of one inspection: who wrote each control token, which call paths add BOS or EOS, and what each
known defence against forged control tokens would send instead, and misses.

Pure functions of an `Inspection`, apart from `defences`, which renders and tokenizes the same request in the ways that
the defences prescribe. Nothing here decides what the product sends: the default stays what the library would send.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.encode import NO_SEGMENT, Encoding, TokenFlag, control_mask, encode
from inspector.errors import ErrorKind, InspectorError
from inspector.render import Rendered, render
from inspector.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    from inspector.pipeline import Inspection


@dataclass(frozen=True, slots=True)
class ControlToken:
    """One control id of the input. `verdict`: "control" (the template wrote it), "from_content", "crosses_segment"."""

    index: int
    id: int
    piece: str
    special: bool
    verdict: str
    path: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class EncodePath:
    """One way that programs turn the rendered text into ids, and what it puts at the ends."""

    call: str
    num_tokens: int
    leading_bos: int
    ends_with_eos: bool


@dataclass(frozen=True, slots=True)
class Defence:
    """What one defence sends for this request.

    `forged`: control ids whose bytes content wrote; `lost`: control ids of the template that are gone; `text_kept`: the
    ids spell the text that was rendered; `misses`: what it fails to do here, in words; `error`: why it cannot be used.
    """

    name: str
    input_ids: tuple[int, ...]
    forged: int
    lost: int
    text_kept: bool
    misses: tuple[str, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the safe ids leave the library's: token index in both, tokens that the safe ids cost more."""

    index: int | None
    extra_tokens: int


def control_tokens(encoding: Encoding) -> tuple[ControlToken, ...]:
    """List every control id with its verdict."""
    return tuple(_control_token(encoding, index) for index in np.flatnonzero(control_mask(encoding.flags)).tolist())


def _control_token(encoding: Encoding, index: int) -> ControlToken:
    token = encoding.token(index)
    if token.flags & TokenFlag.CROSSES_SEGMENT:
        verdict = "crosses_segment"
    elif token.flags & TokenFlag.FROM_CONTENT:
        verdict = "from_content"
    else:
        verdict = "control"
    path = token.path or _first_content_path(encoding, index)
    return ControlToken(index, token.id, token.piece, bool(token.flags & TokenFlag.SPECIAL), verdict, path, token.line)


def _first_content_path(encoding: Encoding, index: int) -> str | None:
    """Give the first field among the segments that a token covers."""
    segments = encoding.rendered.segments
    if encoding.segment[index] == NO_SEGMENT:
        return None
    last = int(np.searchsorted(segments.start, encoding.end[index], side="left"))
    rows = range(int(encoding.segment[index]), last)
    return next((path for path in (segments.origin(row)[1] for row in rows) if path), None)


def parting(encoding: Encoding) -> Parting:
    """Say where `safe_input_ids` leaves `input_ids`, and what it costs."""
    ids, safe = encoding.input_ids, encoding.safe_input_ids
    size = min(len(ids), len(safe))
    other = np.flatnonzero(ids[:size] != safe[:size])
    index = int(other[0]) if len(other) else (size if len(ids) != len(safe) else None)
    return Parting(index, len(safe) - len(ids))


def encode_paths(encoding: Encoding) -> tuple[EncodePath, ...]:
    """Compare the ways in which programs encode the rendered text; they should agree on BOS and EOS, and often do not."""
    tokenizer, text = encoding.tokenizer, encoding.rendered.text
    return (
        _path("apply_chat_template(tokenize=True)", encoding.input_ids, tokenizer),
        _path("tokenizer(rendered)", tokenizer.encode(text, add_special_tokens=True).input_ids, tokenizer),
    )


def _path(call: str, ids: np.ndarray, tokenizer: Tokenizer) -> EncodePath:
    bos, eos = (tokenizer.special_token_ids.get(name) for name in ("bos_token", "eos_token"))
    leading = 0
    while bos is not None and leading < len(ids) and ids[leading] == bos:
        leading += 1
    return EncodePath(call, len(ids), leading, bool(len(ids)) and eos is not None and int(ids[-1]) == eos)


@dataclass(frozen=True, slots=True)
class Placeholders:
    """How many media items the messages hold, and how many placeholders the template and content wrote."""

    media: int
    by_template: int
    by_content: int
    content_paths: tuple[str, ...]


_MEDIA = ("image", "image_url", "video", "audio", "input_image", "input_audio")
_MEDIA_LITERAL = re.compile(r"image|video|audio|vision_pad|media", re.IGNORECASE)


def placeholders(inspection: Inspection) -> Placeholders:
    """Count media items against placeholder tokens; one that content typed is bound to somebody else's picture."""
    encoding, request = inspection.encoding, inspection.request
    if encoding is None or request is None:
        return Placeholders(0, 0, 0, ())
    parts = [part for m in request.messages if isinstance(m.get("content"), list) for part in m["content"]]
    media = sum(1 for part in parts if isinstance(part, dict) and part.get("type") in _MEDIA)
    ids = np.unique(encoding.input_ids[control_mask(encoding.flags)])
    named = [token_id for token_id in ids.tolist() if is_placeholder(encoding.tokenizer.piece(token_id))]
    rows = np.flatnonzero(np.isin(encoding.input_ids, named) & control_mask(encoding.flags)).tolist()
    tokens = [_control_token(encoding, index) for index in rows]
    typed = [token for token in tokens if token.verdict != "control"]
    return Placeholders(media, len(tokens) - len(typed), len(typed), tuple(token.path or "" for token in typed))


def is_placeholder(piece: str) -> bool:
    """True for `<|image_pad|>`, `<image>`; not for the marks around one (`<|vision_start|>`, `<end_of_image>`)."""
    return bool(_MEDIA_LITERAL.search(piece)) and not re.search(r"start|end|begin", piece, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Turns:
    """How many turns the ids open, against how many messages there are."""

    opened: int
    by_content: int
    messages: int


def turns(inspection: Inspection) -> Turns:
    """Count the control tokens that open a turn (the first control token that the template writes for a message)."""
    encoding, request = inspection.encoding, inspection.request
    if encoding is None or request is None:
        return Turns(0, 0, 0)
    opener = _turn_opener(encoding)
    listed = [token for token in control_tokens(encoding) if token.id == opener]
    forged = sum(1 for token in listed if token.verdict != "control")
    return Turns(len(listed), forged, len(request.messages))


def _turn_opener(encoding: Encoding) -> int | None:
    """The control token that the template writes most often right before content."""
    control = control_mask(encoding.flags)
    written = control & ((encoding.flags & TokenFlag.FROM_CONTENT) == 0)
    ids, counts = np.unique(encoding.input_ids[written], return_counts=True)
    before_text = {int(encoding.input_ids[i]) for i in np.flatnonzero(written[:-1] & ~control[1:]).tolist()}
    ranked = sorted(zip(counts.tolist(), ids.tolist()), reverse=True)
    return next((token_id for _count, token_id in ranked if token_id in before_text), None)


def terminator(encoding: Encoding) -> int | None:
    """Give the control id that the template writes after assistant content, or None.

    Source: the last control token of an assistant span, or the first one after it.
    """
    control = np.flatnonzero(control_mask(encoding.flags) & ((encoding.flags & TokenFlag.FROM_CONTENT) == 0))
    for start, end in encoding.rendered.assistant_spans:
        inside = control[(encoding.start[control] >= start) & (encoding.start[control] < end)]
        after = control[encoding.start[control] >= end]
        if len(inside) or len(after):
            return int(encoding.input_ids[inside[-1] if len(inside) else after[0]])
    return None


# --- the known defences, side by side -----------------------------------------------------------------------------


def defences(inspection: Inspection) -> tuple[Defence, ...]:
    """Give what each known defence would send for this request, beside ours, each with what it misses here."""
    encoding = inspection.encoding
    if encoding is None:
        return ()
    methods: tuple[tuple[str, Callable[[Inspection, Encoding], Sequence[int]]], ...] = (
        ("safe_input_ids", lambda _inspection, given: given.safe_input_ids.tolist()),
        *(_TIKTOKEN if hasattr(encoding.tokenizer, "encode_ordinary") else _LIBRARY),
        ("strip control literals", _stripped),
    )
    return tuple(_try(name, method, inspection, encoding) for name, method in methods)


def _try(
    name: str, method: Callable[[Inspection, Encoding], Sequence[int]], inspection: Inspection, encoding: Encoding
) -> Defence:
    try:
        ids = [int(token_id) for token_id in method(inspection, encoding)]
    except (InspectorError, ValueError) as error:
        reason = error.message if isinstance(error, InspectorError) else str(error).split("\n")[0]
        return Defence(name, (), 0, 0, False, (f"cannot be used: {reason}",), reason)
    return _judge(name, ids, encoding)


def _judge(name: str, ids: list[int], encoding: Encoding) -> Defence:
    """Compare ids with what is right: the template's control tokens in their order, and nothing else that controls."""
    tokenizer = encoding.tokenizer
    control = {token.id for token in tokenizer.added_tokens if not token.blank}
    wanted = [token.id for token in control_tokens(encoding) if token.verdict == "control"]
    found = _without_lost_text([token_id for token_id in ids if token_id in control], encoding)
    kept = _common_subsequence(wanted, found)
    forged, lost = len(found) - kept, len(wanted) - kept
    text_kept = tokenizer.decode(ids) == tokenizer.decode(encoding.input_ids.tolist())
    misses = []
    if forged:
        misses.append(f"{forged} control token{'s' if forged > 1 else ''} written by content remain")
    if lost:
        misses.append(f"{lost} of the template's own control tokens are lost")
    if not text_kept:
        misses.append("the text is changed")
    return Defence(name, tuple(ids), forged, lost, text_kept, tuple(misses))


def _without_lost_text(found: list[int], encoding: Encoding) -> list[int]:
    """Leave out the unknown tokens that stand for text which the vocabulary lacks: they control nothing."""
    unknown = encoding.tokenizer.special_token_ids.get("unk_token")
    lost = int(np.count_nonzero(encoding.flags & TokenFlag.UNKNOWN))
    rank = itertools.count()
    return [token_id for token_id in found if token_id != unknown or next(rank) >= lost]


def _common_subsequence(a: list[int], b: list[int]) -> int:
    from rapidfuzz.distance import LCSseq

    return int(LCSseq.similarity(a, b))


def _split_special_tokens(inspection: Inspection, encoding: Encoding) -> Sequence[int]:
    """`tokenizer(rendered, split_special_tokens=True)`: special tokens are not matched anywhere."""
    return _library_tokenizer(encoding.tokenizer)(
        encoding.rendered.text, add_special_tokens=False, split_special_tokens=True
    )["input_ids"]


def _sanitize_control_tokens(inspection: Inspection, encoding: Encoding) -> Sequence[int]:
    """`apply_chat_template(..., sanitize_control_tokens=True)`."""
    from inspector.engines.jinja2_engine import fixed_clock
    from inspector.provenance import plain

    conversation, template = inspection.conversation, inspection.template
    if conversation is None or template is None:
        raise InspectorError(ErrorKind.OptionInvalid, "there is no conversation to render", stage="encode")
    options = inspection.options
    with fixed_clock(inspection.clock):
        return _library_tokenizer(encoding.tokenizer).apply_chat_template(
            plain(conversation.messages),
            tools=plain(conversation.tools),
            documents=plain(conversation.documents),
            chat_template=template.text,
            add_generation_prompt=options.add_generation_prompt,
            continue_final_message=options.continue_final_message,
            sanitize_control_tokens=True,
            return_dict=False,
            **plain(conversation.kwargs),
        )


def _library_tokenizer(tokenizer: Any) -> Any:
    """transformers' tokenizer over the same backend."""
    library = getattr(tokenizer, "library_tokenizer", None)
    if library is None:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"transformers has no tokenizer for {tokenizer.id}", stage="encode"
        )
    return library


def _stripped(inspection: Inspection, encoding: Encoding) -> Sequence[int]:
    """Remove every special and added literal from the request's strings once, then render and encode as usual."""
    conversation, template = inspection.conversation, inspection.template
    if conversation is None or template is None:
        raise InspectorError(ErrorKind.OptionInvalid, "there is no conversation to render", stage="encode")
    literals = [token.content for token in encoding.tokenizer.added_tokens if not token.blank]
    pattern = re.compile("|".join(map(re.escape, sorted(literals, key=len, reverse=True))))
    cleaned = replace(
        conversation,
        messages=[_without(message, pattern) for message in conversation.messages],
        tools=_without(conversation.tools, pattern),
        documents=_without(conversation.documents, pattern),
        kwargs=_without(conversation.kwargs, pattern),
    )
    rendered = _render_again(inspection, cleaned)
    return encode(rendered, encoding.tokenizer).input_ids.tolist()


def _render_again(inspection: Inspection, conversation: Any) -> Rendered:
    options = inspection.options
    return render(
        conversation,
        inspection.template,  # type: ignore[arg-type]
        special_tokens=inspection.tokenizer.special_tokens,  # type: ignore[union-attr]
        clock=inspection.clock.replace(tzinfo=None),
        add_generation_prompt=options.add_generation_prompt,
        continue_final_message=options.continue_final_message,
        engine=options.engine,
    )


def _without(value: Any, pattern: re.Pattern[str]) -> Any:
    """Give the value with the literals cut out of every string and key; origins are kept."""
    if isinstance(value, str):
        for literal in dict.fromkeys(pattern.findall(value)):
            value = value.replace(literal, "")
        return value
    if isinstance(value, dict):
        return {_without(key, pattern): _without(item, pattern) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, pattern) for item in value]
    return value


_LIBRARY = (
    ("split_special_tokens=True", _split_special_tokens),
    ("sanitize_control_tokens=True", _sanitize_control_tokens),
)
_TIKTOKEN = (
    ("encode_ordinary", lambda _i, e: e.tokenizer.encode_ordinary(e.rendered.text)),
    ('encode(allowed_special="all")', lambda _i, e: e.tokenizer.encode_allowing_all(e.rendered.text)),
    ('encode() (disallowed_special="all")', lambda _i, e: e.tokenizer.encode_refusing(e.rendered.text)),
)
