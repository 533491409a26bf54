"""Encode a text section by section, with a cache: only what changed is tokenized again.

A section is the text between two control tokens. Text on one side of a control token cannot influence the tokens on
the other, apart from a prefix that only the first piece of a text gets. Where a vocabulary never joins a line feed and
what is no white space, the first short line of a section (a role, what stands before an answer) is a section of its own:
a template that writes another header before the same answer has only that tokenized again. That the result equals the
whole encode is a property test, for every real tokenizer. Which texts are worth it is decided here; what a backend does
is not.
"""

from __future__ import annotations

import bisect
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from inspector.editscript import common_prefix
from inspector.tokenizers.base import AddedToken, RawEncoding
from inspector.tokenizers.bytetable import ByteTable, spans_from_ends

CACHE_CHARS = 16_000_000  # bound of the cached text of one tokenizer; the ids take about twice as many bytes
MAX_WALLS = 48

SECTIONS_FROM = 100  # characters; below, one call for the whole text is as fast
MAX_HEAD = 24  # characters of a section's first line, up to which it is a section of its own

EncodeBatch = Callable[[list[str]], tuple[list[np.ndarray], bool]]
EncodeOne = Callable[[str], RawEncoding]


class Section:
    """Ids of one section; `spans` None: the ids' bytes are the section's bytes, so lengths alone give the spans.

    Units: `size` is the section's length in UTF-8 bytes, `spans` are relative to its start.
    """

    __slots__ = ("ids", "size", "spans")

    def __init__(self, ids: np.ndarray, size: int, spans: tuple[np.ndarray, np.ndarray] | None) -> None:
        self.ids, self.size, self.spans = ids, size, spans


class Counted:
    """A text as its number of tokens sees it: what stands before its first control token, after its last, and the
    tokens from the one to the other.

    `after` None: the text has no control token, and `before` is all of it. `parts`: the text itself, as a tree.
    """

    __slots__ = ("after", "before", "chars", "parts", "tokens")

    def __init__(self, before: str, tokens: int, after: str | None, chars: int, parts: Any) -> None:
        self.before, self.tokens, self.after, self.chars, self.parts = before, tokens, after, chars, parts

    def text(self) -> str:
        """Give the text itself."""
        texts: list[str] = []
        todo: list[Any] = [self.parts]
        while todo:
            part = todo.pop()
            if isinstance(part, str):
                texts.append(part)
            else:
                todo += (part[1], part[0])
        return "".join(texts)


class Marks:
    """The control tokens of a text: at which character each ends, and how many tokens the text has up to there."""

    __slots__ = ("ends", "tokens")

    def __init__(self, ends: list[int], tokens: list[int]) -> None:
        self.ends, self.tokens = ends, tokens

    def before(self, char: int) -> tuple[int, int]:
        """Give end and tokens of the last control token that ends at a character or before it; (0, 0) for none."""
        row = bisect.bisect_right(self.ends, char) - 1
        return (self.ends[row], self.tokens[row]) if row >= 0 else (0, 0)


class SectionEncoder:
    """Splits, looks up, encodes what is missing, and joins. Thread-safe.

    `encode_batch` gives the ids of many sections at once, and whether their bytes are known to be those of the
    sections; `encode_one` gives ids and spans of one; both as a section that does not begin a text. `encode_first` does it for the section that does. `lines_part`: the tokens of a text are
    those of its parts wherever it is cut after a line feed that neither white space nor a slash follows.
    """

    def __init__(
        self,
        walls: dict[str, int],
        table: ByteTable,
        encode_batch: EncodeBatch,
        encode_one: EncodeOne,
        encode_first: EncodeOne,
        *,
        lines_part: bool = False,
    ) -> None:
        self._head = re.compile(rf"[^\n]{{0,{MAX_HEAD}}}\n\n?(?=[^\s/])") if lines_part else None
        self._pattern = re.compile("(" + "|".join(map(re.escape, sorted(walls, key=len, reverse=True))) + ")")
        self._walls = {
            text: Section(np.array([token_id], np.int64), len(text.encode()), None) for text, token_id in walls.items()
        }
        self._table = table
        self._encode_batch, self._encode_one, self._encode_first = encode_batch, encode_one, encode_first
        self._cache: OrderedDict[str, Section] = OrderedDict()
        self._cached_chars = 0
        self._encoded: tuple[str, list[str], list[tuple[str, ...]], list[Section]] | None = None  # the last text
        self._lock = threading.Lock()

    def encode(self, text: str) -> RawEncoding | None:
        """Encode a text; None if it has no control token to cut at."""
        pieces = self._pattern.split(text)
        if len(pieces) < 3:
            return None
        inner = [self._cut(piece) for piece in pieces[2::2]]
        with self._lock:
            missing = list(dict.fromkeys(part for parts in inner for part in parts if part not in self._cache))
        self._add(missing)
        sections = [self._first(pieces[0])] if pieces[0] else []
        with self._lock:
            for wall, parts in zip(pieces[1::2], inner):
                sections.append(self._walls[wall])
                sections += [self._cache.get(part) or self._single(part) for part in parts]
        self._encoded = (text, pieces, inner, sections)
        return self._join(sections)

    def _cut(self, piece: str) -> tuple[str, ...]:
        """Give the parts of what stands after a control token, none of them empty."""
        head = self._head.match(piece) if self._head is not None else None
        if head is None:
            return (piece,) if piece else ()
        return head[0], piece[head.end() :]

    def counted(self, text: str) -> Counted:
        """Count the tokens between the first and the last control token of a text."""
        pieces = self._pattern.split(text)
        if len(pieces) < 3:
            return Counted(text, 0, None, len(text), text)
        inner = sum(map(self._count, pieces[2:-1:2]))
        return Counted(pieces[0], inner + len(pieces) // 2, pieces[-1], len(text), text)

    def joined(self, a: Counted, b: Counted) -> Counted:
        """Give what `counted` gives for the two texts together. A control token may stand across the seam."""
        seam = self.counted((a.before if a.after is None else a.after) + b.before)
        before, tokens, after = seam.before, seam.tokens, seam.after
        if a.after is not None:
            if after is None:
                before, tokens, after = a.before, a.tokens, before
            else:
                before, tokens = a.before, a.tokens + self._count(before) + tokens
        if b.after is not None:
            if after is None:
                tokens, after = b.tokens, b.after
            else:
                tokens, after = tokens + self._count(after) + b.tokens, b.after
        return Counted(before, tokens, after, a.chars + b.chars, (a.parts, b.parts))

    def length(self, counted: Counted, encode: Callable[[str], RawEncoding]) -> int:
        """Count all tokens of a text; `encode` is for one without a control token, or too short for sections."""
        if counted.after is None or counted.chars < SECTIONS_FROM:
            return len(encode(counted.text()).input_ids)
        first = len(self._first(counted.before).ids) if counted.before else 0
        return first + counted.tokens + self._count(counted.after)

    def first_ids(self, piece: str) -> np.ndarray:
        """Give the ids of a section that begins a text."""
        return self._first(piece).ids if piece else np.empty(0, np.int64)

    def inner_ids(self, piece: str) -> np.ndarray:
        """Give the ids of a section that does not begin a text."""
        parts = [section.ids for section in map(self._known, self._cut(piece))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)

    def marks(self, text: str) -> Marks:
        """Give where the control tokens of a text are. Of the text that was encoded last this is told by its sections."""
        last = self._encoded  # once: another thread may encode meanwhile
        if last is not None and last[0] is text:
            return self._marks(*last[1:])
        pieces = self._pattern.split(text)
        ends, tokens = [], []
        end, counted = len(pieces[0]), len(self.first_ids(pieces[0])) if len(pieces) > 1 else 0
        for wall, piece in zip(pieces[1::2], pieces[2::2]):
            end, counted = end + len(wall), counted + 1
            ends.append(end)
            tokens.append(counted)
            end, counted = end + len(piece), counted + self._count(piece)
        return Marks(ends, tokens)

    def _marks(self, pieces: list[str], inner: list[tuple[str, ...]], sections: list[Section]) -> Marks:
        lengths = iter([len(section.ids) for section in sections])
        end, counted = len(pieces[0]), next(lengths) if pieces[0] else 0
        ends, tokens = [], []
        for wall, piece, parts in zip(pieces[1::2], pieces[2::2], inner):
            end, counted = end + len(wall), counted + next(lengths)
            ends.append(end)
            tokens.append(counted)
            end += len(piece)
            for _part in parts:
                counted += next(lengths)
        return Marks(ends, tokens)

    def beyond(self, marks: Marks, text: str, same: int, upto: int | None = None) -> tuple[int, str | None]:
        """Count the tokens up to the last control token in the first `upto` characters of a text (all of them), and give
        what stands after it; None where there is no such token.

        The first `same` characters of the text are those of the text of `marks`: up to the last control token among
        them both have the same tokens, for no control token reaches into another one.
        """
        upto = len(text) if upto is None else upto
        end, tokens = marks.before(min(same, upto))
        pieces = self._pattern.split(text[end:upto])
        if not end and len(pieces) < 3:
            return 0, None
        if len(pieces) == 1:
            return tokens, pieces[0]
        first = self._count(pieces[0]) if end else len(self.first_ids(pieces[0]))
        return tokens + first + sum(map(self._count, pieces[2:-1:2])) + len(pieces) // 2, pieces[-1]

    def _known(self, part: str) -> Section:
        known = self._cache.get(part)  # one look-up is atomic
        if known is None:
            self._add([part])
            known = self._cache.get(part)
        return known or self._single(part)

    def shared(self, ids: np.ndarray, text: str, start: int) -> int | None:
        """Count how many of the ids stand in a text from a section's start on, up to the next control token and with it;
        None where that is all there is on either side."""
        wall = self._pattern.search(text, start)
        theirs = self.inner_ids(text[start:] if wall is None else text[start : wall.start()])
        if len(ids) < len(theirs) and ids.tobytes() == theirs[: len(ids)].tobytes():
            return len(ids)  # most inputs go on in the next one
        if wall is not None:
            if len(theirs) >= len(ids):
                return common_prefix(ids, theirs)
            theirs = np.concatenate([theirs, self._walls[wall[0]].ids])
        same = common_prefix(ids, theirs)
        return None if same == len(ids) == len(theirs) else same

    def ids_to_wall(self, begin: str, rest: Iterable[str]) -> np.ndarray:
        """Give the ids of a section and of the control token after it; its text begins with `begin` and goes on with
        as much of `rest` as is needed to find that token."""
        text = begin
        for piece in rest:
            text += piece
            wall = self._pattern.search(text)
            if wall is not None:
                return np.concatenate([self.inner_ids(text[: wall.start()]), self._walls[wall[0]].ids])
        return self.inner_ids(text)

    def _count(self, piece: str) -> int:
        return sum(len(self._known(part).ids) for part in self._cut(piece))

    def clear(self) -> None:
        """Forget every section."""
        with self._lock:
            self._cache.clear()
            self._cached_chars, self._encoded = 0, None

    def _first(self, piece: str) -> Section:
        raw = self._encode_first(piece)
        return Section(raw.input_ids, len(piece.encode()), (raw.start, raw.end))

    def _single(self, piece: str) -> Section:
        raw = self._encode_one(piece)
        return Section(raw.input_ids, len(piece.encode()), (raw.start, raw.end))

    def _add(self, pieces: list[str]) -> None:
        if not pieces:
            return
        encoded, exact = self._encode_batch(pieces)
        if not exact:  # one comparison for all, if no normalizer changed anything
            exact = self._table.join(np.concatenate(encoded).tolist()) == "".join(pieces).encode()
        made = [self._section(piece, ids, exact) for piece, ids in zip(pieces, encoded)]
        with self._lock:
            for piece, section in zip(pieces, made):
                if piece not in self._cache:
                    self._cached_chars += len(piece)
                self._cache[piece] = section
            while self._cached_chars > CACHE_CHARS:
                dropped, _section = self._cache.popitem(last=False)
                self._cached_chars -= len(dropped)

    def _section(self, piece: str, ids: np.ndarray, exact: bool) -> Section:
        size = len(piece) if piece.isascii() else len(piece.encode())
        if exact or self._table.join(ids.tolist()) == piece.encode():
            return Section(ids, size, None)
        raw = self._encode_one(piece)
        return Section(raw.input_ids, size, (raw.start, raw.end))

    def _join(self, sections: Sequence[Section]) -> RawEncoding:
        ids = np.concatenate([section.ids for section in sections])
        if all(section.spans is None for section in sections):
            return RawEncoding(ids, *spans_from_ends(self._table.ends(ids)))
        starts, ends, offset = [], [], 0
        for section in sections:
            start, end = section.spans or spans_from_ends(self._table.ends(section.ids))
            starts.append(start + offset)
            ends.append(end + offset)
            offset += section.size
        return RawEncoding(ids, np.concatenate(starts), np.concatenate(ends))


def walls_of(added_tokens: Sequence[AddedToken]) -> dict[str, int]:
    """Choose the control literals at which a text may be cut: text -> id.

    A literal qualifies if, wherever it occurs, the library matches just it: it is matched before normalisation, takes
    no neighbouring white space with it, its first character begins added tokens only (so no match that began earlier
    can reach into it), and no longer added token begins with it. Where there are many, special tokens come first.
    """
    contents = sorted({token.content for token in added_tokens})
    inside = set().union(*(content[1:] for content in contents))
    walls: dict[str, int] = {}
    for token in sorted(added_tokens, key=lambda token: not token.special):
        head = token.content[:1]
        plain = not (token.lstrip or token.rstrip or token.normalized or token.single_word)
        if not plain or len(token.content) < 2 or len(walls) >= MAX_WALLS:
            continue
        after = bisect.bisect_right(contents, token.content)
        longer = after < len(contents) and contents[after].startswith(token.content)
        if head not in inside and not longer:
            walls[token.content] = token.id
    return walls
