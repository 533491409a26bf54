"""Encode rendered text into tokens that inherit the origin of their bytes.

Flags come from ids and spans, never from how text looks, except `look_alike`, which is about looks by definition.
The module neither renders nor decides a budget.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.render import KIND_NAMES, Rendered, SegmentKind
from inspector.tokenizers.base import RawEncoding, Tokenizer

if TYPE_CHECKING:
    import pandas


class TokenFlag(enum.IntFlag):
    """What is true of one token; the lower-case name is the flag in `inspection/1`."""

    SPECIAL = enum.auto()  # its id is a special token
    ADDED = enum.auto()  # its id is an added token that is not special, nor a blank run (ordinary text)
    UNKNOWN = enum.auto()  # the unknown token where text is lost; not where the text spells it
    BYTE_FALLBACK = enum.auto()  # a <0xNN> piece
    PARTIAL_CHAR = enum.auto()  # begins or ends inside a character
    INSERTED = enum.auto()  # stands for no byte of the rendered text
    FROM_CONTENT = enum.auto()  # a control id of which content wrote at least one byte
    CROSSES_SEGMENT = enum.auto()  # a control id assembled from template and content
    LOOK_ALIKE = enum.auto()  # part of text that spells a control token and did not become one
    BOS = enum.auto()
    EOS = enum.auto()
    PAD = enum.auto()
    MASK = enum.auto()
    CLS = enum.auto()
    SEP = enum.auto()
    GENERATION_PROMPT = enum.auto()  # written because of add_generation_prompt
    ASSISTANT = enum.auto()  # in the assistant mask


CONTROL = TokenFlag.SPECIAL | TokenFlag.ADDED  # of ids; `control_mask` tells which tokens act as such
_UNKNOWN = int(TokenFlag.UNKNOWN)  # above the two of CONTROL. As plain ints: numpy takes an enum ten times as long
_CONTROL_OR_UNKNOWN = int(CONTROL | TokenFlag.UNKNOWN)
_PROMPT, _ASSISTANT = np.uint32(TokenFlag.GENERATION_PROMPT), np.uint32(TokenFlag.ASSISTANT)
_DENSE = 1 << 22  # ids up to which the flags of all are an array
FLAG_NAMES: tuple[str, ...] = tuple(flag.name.lower() for flag in TokenFlag if flag.name)
CONTENT_KINDS = (
    SegmentKind.MESSAGE,
    SegmentKind.TOOL,
    SegmentKind.DOCUMENT,
    SegmentKind.KWARG,
    SegmentKind.DERIVED,
)
_IS_CONTENT = np.zeros(256, dtype=bool)
_IS_CONTENT[[int(kind) for kind in CONTENT_KINDS]] = True
NO_SEGMENT = -1


def flag_names(flags: int) -> list[str]:
    """Give the names of a flag word, in the order of `TokenFlag`."""
    return [name for bit, name in enumerate(FLAG_NAMES) if flags >> bit & 1]


@dataclass(frozen=True, slots=True)
class Token:
    """One token, made when it is looked at. `start`/`end`: UTF-8 bytes of `Rendered.utf8`, half-open."""

    index: int
    id: int
    piece: str
    bytes: bytes
    start: int
    end: int
    flags: TokenFlag
    kind: str | None
    path: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Bytes of the rendered text that no token covers, and why."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """Columns of tokens, one entry a token.

    Shapes: input_ids, start, end int64[n]; flags uint32[n]; segment int32[n] (row of `rendered.segments`, -1 for
    inserted tokens); assistant_mask uint8[n]; safe.input_ids int64[m], with spans of their own.
    """

    rendered: Rendered
    tokenizer: Tokenizer
    input_ids: np.ndarray
    start: np.ndarray
    end: np.ndarray
    flags: np.ndarray
    segment: np.ndarray
    assistant_mask: np.ndarray
    assistant_mask_from: str | None
    safe: RawEncoding
    uncovered: tuple[Uncovered, ...]

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def safe_input_ids(self) -> np.ndarray:
        """The ids in which control strings that content wrote are plain text: int64[m]."""
        return self.safe.input_ids

    def token(self, index: int) -> Token:
        """Give the token at `index` with its piece, bytes and origin."""
        token_id, segment = int(self.input_ids[index]), int(self.segment[index])
        kind, path, line = self.rendered.segments.origin(segment) if segment != NO_SEGMENT else (None, None, None)
        return Token(
            index=index,
            id=token_id,
            piece=self.tokenizer.piece(token_id),
            bytes=self.tokenizer.token_bytes(token_id),
            start=int(self.start[index]),
            end=int(self.end[index]),
            flags=TokenFlag(int(self.flags[index])),
            kind=kind,
            path=path,
            line=line,
        )

    def to_frame(self) -> pandas.DataFrame:
        """Give one row a token: id, piece, start, end, flags, kind, path, line."""
        import pandas

        return pandas.DataFrame(token_rows(self))

    def counts(self) -> dict[str, dict[str, int]]:
        """Count tokens by origin and by path; each of the two sums equals the length."""
        segments = self.rendered.segments
        in_prompt = (self.flags & int(TokenFlag.GENERATION_PROMPT)) != 0
        by_origin: dict[str, int] = {}
        by_path: dict[str, int] = {}
        tally = np.bincount(np.where(in_prompt, 0, self.segment + 2))  # 0: the prompt, 1: inserted, then the segments
        rows = tally.nonzero()[0]
        kinds, places, paths = segments.kind.tobytes(), segments.path.tolist(), segments.paths
        for row, number in zip(rows.tolist(), tally[rows].tolist()):
            if row < 2:
                kind = name = "inserted" if row else "generation_prompt"
            else:
                kind, place = KIND_NAMES[kinds[row - 2]], places[row - 2]
                name = (paths[place] if place >= 0 else "") or kind
            by_origin[kind] = by_origin.get(kind, 0) + number
            by_path[name] = by_path.get(name, 0) + number
        return {"by_origin": dict(sorted(by_origin.items())), "by_path": by_path}


def token_rows(encoding: Encoding) -> list[dict[str, Any]]:
    """Give the `tokens` list of `inspection/1`."""
    tokenizer, segments = encoding.tokenizer, encoding.rendered.segments
    vocabulary = {
        token_id: (tokenizer.piece(token_id), tokenizer.token_bytes(token_id).hex())
        for token_id in np.unique(encoding.input_ids).tolist()
    }
    names = {word: flag_names(word) for word in np.unique(encoding.flags).tolist()}
    origins: dict[int, tuple[str | None, str | None, int | None]] = {NO_SEGMENT: (None, None, None)}
    origins |= {row: segments.origin(row) for row in np.unique(encoding.segment).tolist() if row != NO_SEGMENT}
    columns = zip(
        encoding.input_ids.tolist(),
        encoding.start.tolist(),
        encoding.end.tolist(),
        encoding.flags.tolist(),
        encoding.segment.tolist(),
    )
    return [
        {
            "id": token_id,
            "piece": vocabulary[token_id][0],
            "bytes": vocabulary[token_id][1],
            "start": start,
            "end": end,
            "flags": list(names[flags]),
            "kind": origins[row][0],
            "path": origins[row][1],
            "line": origins[row][2],
        }
        for token_id, start, end, flags, row in columns
    ]


def encode(rendered: Rendered, tokenizer: Tokenizer) -> Encoding:
    """Encode `rendered` as `apply_chat_template(tokenize=True)` does, with flags, origins and the safe ids.

    A request that the tokenizer encoded itself (`rendered.kind` is "token_segments") brings its ids along.
    Errors: TokenizerInvalid from the tokenizer.
    """
    if rendered.kind == "token_segments":
        return _from_segments(rendered, tokenizer)
    content = _content_ranges(rendered).tolist() if tokenizer.control_needs_template else ()
    return _describe(rendered, tokenizer, tokenizer.encode(rendered.text, content=content))


def safe_encoding(encoding: Encoding) -> Encoding:
    """Give the encoding of the safe ids: the same text, with spans, flags, origins and assistant mask."""
    if encoding.safe.input_ids is encoding.input_ids:
        return encoding
    return _describe(encoding.rendered, encoding.tokenizer, encoding.safe)


def control_mask(flags: np.ndarray) -> np.ndarray:
    """Say which tokens are control tokens or pose as such: a special or added id that stands for no lost text.

    Shapes: `flags` as in `Encoding.flags`; bool of the same shape.
    """
    known = flags & _CONTROL_OR_UNKNOWN
    return (known != 0) & (known < _UNKNOWN)


def _describe(rendered: Rendered, tokenizer: Tokenizer, raw: RawEncoding) -> Encoding:
    without = raw.start >= raw.end
    empty = without if without.any() else None
    segment = _segment_rows(rendered, raw, empty)
    flags = _known_flags(rendered.utf8, raw, tokenizer)
    control = control_mask(flags)
    tokens = control.nonzero()[0]
    _flag_spans(flags, rendered.utf8, raw, empty)
    written = _flag_content(flags, rendered, raw, tokens, segment)
    if rendered.generation_prompt is not None:
        first, last = rendered.generation_prompt
        flags[(raw.start >= first) & (raw.start < last)] |= _PROMPT
    mask = _assistant_mask(raw, rendered.assistant_spans)
    flags |= np.multiply(mask, _ASSISTANT, dtype=np.uint32)
    _flag_look_alikes(flags, rendered, raw, control, tokens, tokenizer)
    return Encoding(
        rendered=rendered,
        tokenizer=tokenizer,
        input_ids=raw.input_ids,
        start=raw.start,
        end=raw.end,
        flags=flags,
        segment=segment,
        assistant_mask=mask,
        assistant_mask_from=rendered.assistant_from,
        safe=_safe(rendered, raw, flags, tokenizer) if written else raw,
        uncovered=_uncovered(rendered, raw),
    )


def _from_segments(rendered: Rendered, tokenizer: Tokenizer) -> Encoding:
    """Lay out the ids of token segments. There is no text, so every span is empty and none is "inserted"."""
    rows = rendered.segments.ids or ()
    ids = np.array([token_id for row in rows for token_id in row], np.int64)
    segment = np.repeat(np.arange(len(rows), dtype=np.int32), [len(row) for row in rows])
    nowhere = np.zeros(len(ids), np.int64)
    mask = np.zeros(len(ids), np.uint8)
    for first, last in rendered.assistant_spans:  # of token segments: token indices
        mask[first:last] = 1
    flags = _id_flags(tokenizer, ids)
    written = _IS_CONTENT[rendered.segments.kind][segment] & control_mask(flags)
    flags = flags | np.where(written, np.uint32(TokenFlag.FROM_CONTENT), np.uint32(0))
    flags |= np.where(mask != 0, np.uint32(TokenFlag.ASSISTANT), np.uint32(0))
    return Encoding(
        rendered=rendered,
        tokenizer=tokenizer,
        input_ids=ids,
        start=nowhere,
        end=nowhere,
        flags=flags,
        segment=segment,
        assistant_mask=mask,
        assistant_mask_from=rendered.assistant_from,
        safe=RawEncoding(ids, nowhere, nowhere),
        uncovered=(),
    )


def cut_token_segments(encoding: Encoding, keep: np.ndarray) -> Encoding:
    """Keep the tokens at the indices `keep` of a request that its tokenizer encoded itself, with their segments."""
    segments, rows = encoding.rendered.segments, encoding.segment[keep]
    edges = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1], [True]))) if len(rows) else np.zeros(1, int)
    kept = rows[edges[:-1]]
    columns = ("start", "end", "kind", "line", "path", "field_start")
    ids = encoding.input_ids[keep]
    table = replace(
        segments,
        **{name: getattr(segments, name)[kept] for name in columns},
        ids=tuple(tuple(ids[a:b].tolist()) for a, b in itertools.pairwise(edges.tolist())),
    )
    mask = np.concatenate(([0], encoding.assistant_mask[keep], [0])).astype(np.int8)
    turns = np.flatnonzero(np.diff(mask)).reshape(-1, 2)
    spans = tuple((int(first), int(last)) for first, last in turns)
    digest = hashlib.sha256(ids.astype("<u4").tobytes()).hexdigest()
    rendered = replace(encoding.rendered, segments=table, assistant_spans=spans, sha256=digest)
    return _from_segments(rendered, encoding.tokenizer)


def slice_encoding(
    encoding: Encoding, keep: np.ndarray, rendered: Rendered, start: np.ndarray, end: np.ndarray, segment: np.ndarray
) -> Encoding:
    """Give the tokens at the indices `keep`, placed in another rendered text (a token-level cut)."""
    kept = replace(
        encoding,
        rendered=rendered,
        input_ids=encoding.input_ids[keep],
        start=start,
        end=end,
        flags=encoding.flags[keep],
        segment=segment,
        assistant_mask=encoding.assistant_mask[keep],
        uncovered=(),
    )
    raw = RawEncoding(kept.input_ids, kept.start, kept.end)
    return replace(
        kept,
        safe=_safe(rendered, raw, kept.flags, encoding.tokenizer),
        uncovered=_uncovered(rendered, raw),
    )


def _content_ranges(rendered: Rendered) -> np.ndarray:
    """Byte ranges [k, 2] that content wrote, neighbours joined."""
    segments = rendered.segments
    rows = np.flatnonzero(_IS_CONTENT[segments.kind])
    if not len(rows):
        return np.empty((0, 2), dtype=np.int64)
    start, end = segments.start[rows], segments.end[rows]
    opens = np.concatenate(([True], start[1:] != end[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return np.stack((start[opens], end[closes]), axis=1)


def _segment_rows(rendered: Rendered, raw: RawEncoding, empty: np.ndarray | None) -> np.ndarray:
    """Row of the segment that holds a token's first byte. `empty`: tokens without bytes, None for none."""
    starts = rendered.segments.start
    if not len(starts):
        return np.full(len(raw.input_ids), NO_SEGMENT, dtype=np.int32)
    rows = (starts.searchsorted(raw.start, side="right") - 1).astype(np.int32)
    if empty is not None:
        rows[empty] = NO_SEGMENT
    return rows


@functools.lru_cache(maxsize=8)
def _id_flag_table(tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Give the ids that have a flag, sorted, int64[n], and their flags, uint32[n]. An id may lie far beyond `size`."""
    table: dict[int, int] = {}
    for added in tokenizer.added_tokens:
        if not added.blank:
            table[added.id] = int(TokenFlag.SPECIAL if added.special else TokenFlag.ADDED)
    named = {"bos_token": TokenFlag.BOS, "eos_token": TokenFlag.EOS, "pad_token": TokenFlag.PAD,
             "mask_token": TokenFlag.MASK, "cls_token": TokenFlag.CLS, "sep_token": TokenFlag.SEP,
             "unk_token": TokenFlag.UNKNOWN}  # fmt: skip
    for name, flag in named.items():
        token_id = tokenizer.special_token_ids.get(name)
        if token_id is not None:
            table[token_id] = table.get(token_id, 0) | int(flag)
    for token_id in filter(tokenizer.is_byte_fallback, getattr(tokenizer, "ids", range(tokenizer.size))):
        table[token_id] = table.get(token_id, 0) | int(TokenFlag.BYTE_FALLBACK)
    ids = np.array(sorted(table), np.int64)
    return ids, np.array([table[i] for i in ids.tolist()], np.uint32)


@functools.lru_cache(maxsize=8)
def _dense_flags(tokenizer: Tokenizer) -> np.ndarray | None:
    """Give the flags of all ids up to the last that has one, and none for those after it; None where it lies far out."""
    ids, flags = _id_flag_table(tokenizer)
    size = int(ids[-1]) + 1 if len(ids) else 0
    if size > _DENSE:
        return None
    dense = np.zeros(size + 1, np.uint32)
    dense[ids] = flags
    return dense


def _id_flags(tokenizer: Tokenizer, input_ids: np.ndarray) -> np.ndarray:
    dense = _dense_flags(tokenizer)
    if dense is not None:
        return dense.take(input_ids, mode="clip")
    ids, flags = _id_flag_table(tokenizer)
    rows = np.minimum(ids.searchsorted(input_ids), len(ids) - 1)
    return np.where(ids[rows] == input_ids, flags[rows], np.uint32(0))


def _known_flags(utf8: bytes, raw: RawEncoding, tokenizer: Tokenizer) -> np.ndarray:
    """Give the flags of the ids, without UNKNOWN where the text is the unknown token's own spelling: nothing is lost there."""
    flags = _id_flags(tokenizer, raw.input_ids)
    unknown = (flags & _UNKNOWN).nonzero()[0]
    if len(unknown):
        lost = tokenizer.special_token_ids["unk_token"]
        spellings = {added.content.encode() for added in tokenizer.added_tokens if added.id == lost}
        spelled = [i for i in unknown.tolist() if utf8[raw.start[i] : raw.end[i]] in spellings]
        flags[spelled] &= ~np.uint32(TokenFlag.UNKNOWN)
    return flags


def _flag_spans(flags: np.ndarray, utf8: bytes, raw: RawEncoding, empty: np.ndarray | None) -> None:
    """Add the flags that follow from where tokens begin and end."""
    if empty is not None:
        flags[empty] |= np.uint32(TokenFlag.INSERTED)
    if utf8.isascii():
        return
    buffer = np.frombuffer(utf8 + b"a", dtype=np.uint8)
    inside = (buffer & 0xC0) == 0x80  # a continuation byte: a cut before it splits a character
    split = inside[raw.start] | inside[raw.end]
    if empty is not None:
        split &= ~empty
    flags[split] |= np.uint32(TokenFlag.PARTIAL_CHAR)


def _flag_content(
    flags: np.ndarray, rendered: Rendered, raw: RawEncoding, control: np.ndarray, segment: np.ndarray
) -> bool:
    """Add the flags of control tokens that content wrote; say whether there are any. `control`: their indices."""
    first = segment[control]
    if not len(first) or not len(rendered.segments.kind):
        return False
    last = rendered.segments.start.searchsorted(raw.end[control], side="left")
    content = _IS_CONTENT[rendered.segments.kind]
    if (last - first).max() == 1 and not content[first].any():
        return False  # each lies in one segment, which is the template's: so in most prompts
    content_before = np.zeros(len(content) + 1, np.int64)
    content.cumsum(out=content_before[1:])
    written = content_before[last] - content_before[first]
    written[first == NO_SEGMENT] = 0
    if not written.any():
        return False
    flags[control[written > 0]] |= np.uint32(TokenFlag.FROM_CONTENT)
    flags[control[(written > 0) & (written < last - first)]] |= np.uint32(TokenFlag.CROSSES_SEGMENT)
    return True


def _assistant_mask(raw: RawEncoding, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """1 for every token that has a byte in a span, as transformers' char_to_token does."""
    mask = np.zeros(len(raw.input_ids), dtype=np.uint8)
    for start, end in spans:
        if start < end:
            first = raw.end.searchsorted(start, side="right")
            last = raw.start.searchsorted(end, side="left")
            mask[first:last] = 1
    return mask


_SHAPE = re.compile(r"<\|[^<>|\s]{1,64}\|>")
_WIDE = "＜＞﹤﹥｜［］〈〉"  # forms that NFKC folding, or a careless eye, turns into a bracket or a bar


def _literals(tokenizer: Tokenizer) -> set[str]:
    """Give the control literals that do not have the usual shape anyway, and could plausibly be imitated.

    Numbered ones (<unused123>, reserved slots) are left out: thousands, and nobody forges them.
    """
    numbered = re.compile(r"\d+>$")
    wanted = (added.content for added in tokenizer.added_tokens if added.content[:1] in ("<", "["))
    return {text for text in wanted if len(text) > 2 and not _SHAPE.fullmatch(text) and not numbered.search(text)}


def _any_of(literals: set[str]) -> str:
    return "|".join([_SHAPE.pattern, *map(re.escape, sorted(literals, key=lambda text: (-len(text), text)))])


@functools.lru_cache(maxsize=8)
def _byte_pattern(tokenizer: Tokenizer) -> re.Pattern[bytes]:
    return re.compile(_any_of(_literals(tokenizer)).encode())


@functools.lru_cache(maxsize=8)
def _folded_pattern(tokenizer: Tokenizer) -> re.Pattern[str]:
    return re.compile(_any_of({unicodedata.normalize("NFKC", text) for text in _literals(tokenizer)}))


def _flag_look_alikes(
    flags: np.ndarray,
    rendered: Rendered,
    raw: RawEncoding,
    control: np.ndarray,
    tokens: np.ndarray,
    tokenizer: Tokenizer,
) -> None:
    """Add the flag of text that looks like a control token. `tokens`: the indices at which `control` is true."""
    found = _look_alike_spans(rendered, tokenizer)
    if not found:
        return
    became = zip(raw.start[tokens].tolist(), raw.end[tokens].tolist())
    spans = [*set(found).difference(became)]
    if not spans:
        return
    places = np.array(spans, dtype=np.int64)
    first = np.searchsorted(raw.end, places[:, 0], side="right")
    last = np.searchsorted(raw.start, places[:, 1], side="left")
    controls_before = np.concatenate(([0], np.cumsum(control)))
    for row in np.flatnonzero(controls_before[last] == controls_before[first]).tolist():
        flags[first[row] : last[row]] |= np.uint32(TokenFlag.LOOK_ALIKE)


def _look_alike_spans(rendered: Rendered, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Byte ranges of text that spells a control token, also after NFKC folding (full-width forms)."""
    spans = [match.span() for match in _byte_pattern(tokenizer).finditer(rendered.utf8)]
    if not rendered.text.isascii() and any(char in rendered.text for char in _WIDE):
        folded, places = _fold(rendered.text)
        spans += [
            (int(places[match.start()]), int(places[match.end()]))
            for match in _folded_pattern(tokenizer).finditer(folded)
        ]
    return spans


def _fold(text: str) -> tuple[str, np.ndarray]:
    """NFKC character by character, with the byte in `text` at which every folded character begins, and the end."""
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    widths = 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)
    starts = np.concatenate(([0], np.cumsum(widths)))
    lengths, forms = np.ones(len(codes), dtype=np.int64), {}
    for code in np.unique(codes[codes > 0x7F]).tolist():
        form = unicodedata.normalize("NFKC", chr(code))
        if form != chr(code):
            forms[code] = form
        if len(form) != 1:
            lengths[codes == code] = len(form)
    return _replaced(text, forms), np.append(np.repeat(starts[:-1], lengths), starts[-1])


def _replaced(text: str, forms: dict[int, str]) -> str:
    """Give `text.translate(forms)`; for few forms many times faster than looking every character up."""
    if len(forms) > 64 or any(ord(char) in forms for form in forms.values() for char in form):
        return text.translate(forms)
    for code, form in forms.items():
        text = text.replace(chr(code), form)
    return text


def _safe(rendered: Rendered, raw: RawEncoding, flags: np.ndarray, tokenizer: Tokenizer) -> RawEncoding:
    """Encode content-written control strings as plain text.

    The text is cut at template-written control tokens, and a stretch that holds a content-written control token is
    encoded whole with added-token matching off: no boundary is invented at a template/content seam. All other
    stretches keep their tokens.
    """
    injected = (flags & int(TokenFlag.FROM_CONTENT)) != 0
    if tokenizer.control_needs_template or not injected.any():
        return raw
    walls = np.flatnonzero(control_mask(flags) & ~injected)
    edges = [-1, *walls.tolist(), len(raw.input_ids)]
    parts: list[RawEncoding] = []
    for before, after in itertools.pairwise(edges):
        stretch = slice(before + 1, after)
        if injected[stretch].any():
            parts.append(_plain_stretch(rendered, raw, before, after, tokenizer))
            stretch = slice(after, after)
        upto = slice(stretch.start, after + 1)
        parts.append(RawEncoding(raw.input_ids[upto], raw.start[upto], raw.end[upto]))
    return join_encodings(parts)


def join_encodings(parts: Sequence[RawEncoding]) -> RawEncoding:
    """Give the parts one after the other; spans stay as they are."""
    names = ("input_ids", "start", "end")
    return RawEncoding(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _plain_stretch(rendered: Rendered, raw: RawEncoding, before: int, after: int, tokenizer: Tokenizer) -> RawEncoding:
    start = int(raw.end[before]) if before >= 0 else 0
    end = int(raw.start[after]) if after < len(raw.input_ids) else len(rendered.utf8)
    return _plain(rendered.utf8[start:end], start, tokenizer, first=before < 0)


def _plain(utf8: bytes, offset: int, tokenizer: Tokenizer, *, first: bool) -> RawEncoding:
    """Encode bytes that begin at `offset` with added-token matching off.

    A vocabulary may hold a control literal as an ordinary piece too (Unigram scores `</s>` with 0, above all text):
    such a literal is cut after its first character, the one place where a boundary has to be made.
    """
    waiting, parts = [(0, len(utf8))], []
    while waiting:
        begin, end = waiting.pop()
        data = utf8[begin:end]
        plain = tokenizer.encode_plain(data.decode("utf-8", "ignore"), first=first and begin == 0)
        cuts = _cuts(data, plain, np.flatnonzero(control_mask(_known_flags(data, plain, tokenizer))))
        if cuts:
            edges = [begin, *(begin + cut for cut in cuts), end]
            waiting.extend(reversed(list(itertools.pairwise(edges))))
        else:
            parts.append(RawEncoding(plain.input_ids, plain.start + offset + begin, plain.end + offset + begin))
    return join_encodings(parts)


def _cuts(data: bytes, plain: RawEncoding, control: np.ndarray) -> list[int]:
    """Give the byte after the first character of each control token that has more than one."""
    cuts: list[int] = []
    for start, end in zip(plain.start[control].tolist(), plain.end[control].tolist()):
        cut = start + len(data[start : start + 4].decode("utf-8", "ignore")[:1].encode())
        if max([start, *cuts[-1:]]) < cut < end:
            cuts.append(cut)
    return cuts


def _uncovered(rendered: Rendered, raw: RawEncoding) -> tuple[Uncovered, ...]:
    """Name the byte ranges that no token covers."""
    size = len(rendered.utf8)
    if len(raw.end) and not raw.start[0] and raw.end[-1] == size and np.array_equal(raw.start[1:], raw.end[:-1]):
        return ()
    reach = np.maximum.accumulate(raw.end) if len(raw.end) else raw.end
    gap_start = np.concatenate(([0], reach))
    gap_end = np.concatenate((raw.start, [size]))
    rows = np.flatnonzero(gap_start < gap_end)
    return tuple(
        Uncovered(int(gap_start[row]), int(gap_end[row]), "removed by the tokenizer's normalizer or pre-tokenizer")
        for row in rows
    )
