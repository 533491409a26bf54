"""Find every region in which two inspections differ: first in their texts, then, where texts agree, in their tokens.

Regions only; why they differ is decided in reasons.py. What both sides copy from one place of the request is matched
first, then lines between, and then words within changed lines, so that an inserted turn is one region. Outside the regions the two texts are equal byte for byte, and so are the tokens,
but for tokens that a region's change reached (a merge across its edge), which belong to the region.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inspector.editscript import Operation, common_prefix, edit_script, longest_rise
from inspector.encode import Encoding
from inspector.render import Rendered

_WORDS = re.compile(rb"[A-Za-z0-9_\x80-\xff]+|[ \t\r]+|.", re.DOTALL)
MAX_CELLS = 4_000_000  # of one changed stretch whose words are matched: some milliseconds


@dataclass(frozen=True, slots=True)
class Region:
    """One side of a difference. Units: `start`, `end` are bytes of its text, `first`, `last` its tokens; half-open."""

    start: int
    end: int
    first: int = 0
    last: int = 0


Pair = tuple[Region, Region]


Anchor = tuple[int, int, int]
"""(byte in a, byte in b, length): a stretch that both sides copied from the same bytes of one field."""


def anchors(a: Rendered, b: Rendered, window_a: tuple[int, int], window_b: tuple[int, int]) -> list[Anchor]:
    """Give the copies that the two sides share within a window of each, as many as stand in the same order.

    The k-th copy of a field on one side is matched with the k-th on the other.
    """
    places: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for path, number, field, start, end in _copies(b, *window_b):
        places.setdefault((path, number), []).append((field, start, end))
    found: list[Anchor] = []
    for path, number, field, start, end in _copies(a, *window_a):
        for field_b, start_b, end_b in places.get((path, number), ()):
            low, high = max(field, field_b), min(field + end - start, field_b + end_b - start_b)
            x, y = start + low - field, start_b + low - field_b
            if low < high and a.utf8[x : x + high - low] == b.utf8[y : y + high - low]:
                found.append((x, y, high - low))
                break
    rising = [found[index] for index in longest_rise([y for _x, y, _size in found])]
    return _apart(rising)


def _copies(rendered: Rendered, low: int, high: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the copies of fields in a window: path, number of earlier copies from there, field offset, start, end."""
    segments = rendered.segments
    inside = (segments.end > low) & (segments.start < high)
    rows = np.flatnonzero(inside & (segments.field_start >= 0) & (segments.path >= 0))
    seen: dict[tuple[int, int], int] = {}
    columns = (segments.path, segments.field_start, segments.start, segments.end)
    for path, field, start, end in zip(*(column[rows].tolist() for column in columns)):
        number = seen.get((path, field), 0)
        seen[path, field] = number + 1
        cut = max(low - start, 0)
        yield segments.paths[path], number, field + cut, start + cut, min(end, high)


def _apart(rising: list[Anchor]) -> list[Anchor]:
    """Leave out an anchor that overlaps the one before on either side."""
    kept: list[Anchor] = []
    for x, y, size in rising:
        if not kept or (x >= kept[-1][0] + kept[-1][2] and y >= kept[-1][1] + kept[-1][2]):
            kept.append((x, y, size))
    return kept


def text_regions(a: bytes, b: bytes, shared: Sequence[Anchor] = ()) -> list[Pair]:
    """Give the stretches in which two texts differ, without tokens; `shared` are stretches known to be equal.

    >>> [(x.start, x.end, y.start, y.end) for x, y in text_regions(b"a cat sat", b"a dog sat")]
    [(2, 5, 2, 5)]
    """
    if a == b:
        return []
    found: list[Pair] = []
    x = y = 0
    for at_a, at_b, size in [*shared, (len(a), len(b), 0)]:
        if a[x:at_a] != b[y:at_b]:
            found += _by_lines(a[x:at_a], b[y:at_b], x, y)
        x, y = at_a + size, at_b + size
    return found


def _by_lines(a: bytes, b: bytes, at_a: int, at_b: int) -> Iterator[Pair]:
    if not a or not b:
        yield _pair(at_a, len(a), at_b, len(b))
        return
    lines_a, lines_b = a.splitlines(keepends=True), b.splitlines(keepends=True)
    places_a, places_b = _places(lines_a), _places(lines_b)
    for op, a0, a1, b0, b1 in _changed(edit_script(lines_a, lines_b, window=1)):
        x, y = places_a[a0], places_b[b0]
        old, new = a[x : places_a[a1]], b[y : places_b[b1]]
        if op == "replace":
            yield from _within(old, new, at_a + x, at_b + y)
        else:
            yield _pair(at_a + x, len(old), at_b + y, len(new))


def _places(parts: Sequence[bytes]) -> list[int]:
    places = [0]
    for part in parts:
        places.append(places[-1] + len(part))
    return places


def _changed(script: Iterable[Operation]) -> Iterator[Operation]:
    """Yield the changes of a script, neighbours of different kinds as one replacement."""
    held: Operation | None = None
    for op in script:
        if op[0] == "equal":
            if held is not None:
                yield held
            held = None
        elif held is None:
            held = op
        else:
            held = ("replace", held[1], op[2], held[3], op[4])
    if held is not None:
        yield held


def _pair(a: int, size_a: int, b: int, size_b: int) -> Pair:
    return Region(a, a + size_a), Region(b, b + size_b)


def _within(a: bytes, b: bytes, at_a: int, at_b: int) -> Iterator[Pair]:
    words_a, words_b = _WORDS.findall(a), _WORDS.findall(b)
    if len(words_a) * len(words_b) > MAX_CELLS:
        yield _tightened(a, b, at_a, at_b)
        return
    places_a, places_b = _places(words_a), _places(words_b)
    for _op, a0, a1, b0, b1 in _changed(_phrases(edit_script(words_a, words_b), words_a)):
        x, y = places_a[a0], places_b[b0]
        yield _tightened(a[x : places_a[a1]], b[y : places_b[b1]], at_a + x, at_b + y)


def _phrases(script: Sequence[Operation], words: Sequence[bytes]) -> Iterator[Operation]:
    """Count a lone blank between two changes as changed: several words in a row are one change."""
    for number, (op, a0, a1, b0, b1) in enumerate(script):
        lone = op == "equal" and a1 - a0 == 1 and words[a0] in (b" ", b"\t") and 0 < number < len(script) - 1
        yield ("replace" if lone else op, a0, a1, b0, b1)


def _tightened(a: bytes, b: bytes, at_a: int, at_b: int) -> Pair:
    """Leave out what two texts share at their ends, whole characters only."""
    head = _shared(a, b)
    while head and (_inside(a, head) or _inside(b, head)):
        head -= 1
    tail = _shared(a[head:][::-1], b[head:][::-1])
    while tail and (_inside(a, len(a) - tail) or _inside(b, len(b) - tail)):
        tail -= 1
    return _pair(at_a + head, len(a) - head - tail, at_b + head, len(b) - head - tail)


def _shared(a: bytes, b: bytes) -> int:
    size = min(len(a), len(b))
    x, y = np.frombuffer(a, np.uint8, size), np.frombuffer(b, np.uint8, size)
    other = np.flatnonzero(x != y)
    return int(other[0]) if len(other) else size


def _inside(text: bytes, place: int) -> bool:
    """True if a place lies inside a character."""
    return place < len(text) and text[place] & 0xC0 == 0x80


def _middle(a: bytes, b: bytes) -> tuple[int, int]:
    """Give how many bytes both sides share at the begin and at the end, whole lines of them."""
    head = _shared(a, b)
    line = a.rfind(b"\n", max(head - _LINE, 0), head) + 1 or max(head - _LINE, 0)
    while line and (_inside(a, line) or _inside(b, line)):
        line -= 1
    tail = min(_shared(a[::-1], b[::-1]), len(a) - head, len(b) - head)
    at = a.find(b"\n", len(a) - tail, len(a) - tail + _LINE) + 1 or min(len(a) - tail + _LINE, len(a))
    while at < len(a) and _inside(a, at):
        at += 1
    return line, len(a) - at


_LINE = 512  # bytes of a line that are looked back or ahead for its end


# --- tokens --------------------------------------------------------------------------------------------------------


def regions(a: Encoding, b: Encoding) -> np.ndarray:
    """Give every region in which two encodings differ, in order. Shapes: int64[n, 8], both sides' `Region` in a row."""
    if a.rendered.kind != "bytes" or b.rendered.kind != "bytes":
        return _rows(_token_regions(a, b))
    utf8_a, utf8_b = a.rendered.utf8, b.rendered.utf8
    texts: list[Pair] = []
    if utf8_a != utf8_b:
        head, tail = _middle(utf8_a, utf8_b)
        end_a, end_b = len(utf8_a) - tail, len(utf8_b) - tail
        shared = anchors(a.rendered, b.rendered, (head, end_a), (head, end_b))
        inner = [(x - head, y - head, size) for x, y, size in shared]
        found = text_regions(utf8_a[head:end_a], utf8_b[head:end_b], inner)
        texts = _settled([(_moved(x, head), _moved(y, head)) for x, y in found], a.rendered, b.rendered)
    return _Merger(a, b, texts).run()


def _settled(pairs: list[Pair], a: Rendered, b: Rendered) -> list[Pair]:
    """Slide each insertion to where its sources begin and end, if the same text can be seen as inserted there."""
    settled: list[Pair] = []
    ends = [pair[0].start for pair in pairs[1:]] + [len(a.utf8)]
    for (x, y), limit in zip(pairs, ends):
        room = limit - x.end  # of equal text after the region
        back = x.start - (settled[-1][0].end if settled else 0)
        by = 0
        if x.start == x.end:
            by = _slide(b, y, min(back, _SLIDE), min(room, _SLIDE))
        elif y.start == y.end:
            by = _slide(a, x, min(back, _SLIDE), min(room, _SLIDE))
        settled.append((Region(x.start + by, x.end + by), Region(y.start + by, y.end + by)))
    return settled


_SLIDE = 64


def _slide(rendered: Rendered, region: Region, back: int, room: int) -> int:
    """Give by how much to slide an insertion, so that most of its ends lie where a segment begins."""
    utf8, starts = rendered.utf8, rendered.segments.start
    left = right = 0
    while left < back and utf8[region.start - left - 1] == utf8[region.end - left - 1]:
        left += 1
    while right < room and region.end + right < len(utf8) and utf8[region.start + right] == utf8[region.end + right]:
        right += 1
    shifts = [by for by in sorted(range(-left, right + 1), key=abs) if not _inside(utf8, region.start + by)]
    edges = np.array([(region.start + by, region.end + by) for by in shifts])
    found = np.searchsorted(starts, edges)  # in order, so a search a place is enough: of regions there are thousands
    begins = starts[np.minimum(found, len(starts) - 1)] == edges
    scores = (begins | (edges == len(utf8))).sum(axis=1)
    return shifts[int(np.argmax(scores))]


def region_pair(row: np.ndarray) -> Pair:
    """Give the two sides of one row of `regions`."""
    numbers = row.tolist()
    return Region(*numbers[:4]), Region(*numbers[4:])


def _rows(pairs: Iterable[Pair]) -> np.ndarray:
    rows = [(x.start, x.end, x.first, x.last, y.start, y.end, y.first, y.last) for x, y in pairs]
    return np.array(rows, np.int64).reshape(-1, 8)


def _moved(region: Region, by: int) -> Region:
    return Region(region.start + by, region.end + by)


def _token_regions(a: Encoding, b: Encoding) -> list[Pair]:
    """Regions of requests that a tokenizer encoded itself: there is no text, so only tokens can be told apart."""
    if a.rendered.kind != b.rendered.kind:
        both = [Region(0, len(e.rendered.utf8), 0, len(e)) for e in (a, b)]
        return [(both[0], both[1])] if len(a) or len(b) else []
    script = _changed(edit_script(a.input_ids.tolist(), b.input_ids.tolist()))
    return [(Region(0, 0, a0, a1), Region(0, 0, b0, b1)) for _op, a0, a1, b0, b1 in script]


class _Merger:
    """Adds tokens to the regions of the texts, and the regions of equal text whose tokens differ between them.

    In a stretch of equal text both sides are cut at the bytes where both begin a token. Between two cuts lies a cell, which
    is equal if it is one token of the same id on each side. A cell in which the texts differ is the tokens of that region.
    Tokens that both sides share at the begin and at the end are left out of it all.
    """

    def __init__(self, a: Encoding, b: Encoding, texts: list[Pair]) -> None:
        self.sides, self.texts = (a, b), texts
        self._starts = [
            np.append(np.maximum.accumulate(e.start) if len(e) else e.start, len(e.rendered.utf8)) for e in (a, b)
        ]
        self._first, self._last = self._window()

    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """Give the tokens of both sides between the shared ones."""
        a, b = self.sides
        counts = (len(a), len(b))
        head = min(common_prefix(getattr(a, name), getattr(b, name)) for name in ("input_ids", "start", "end"))
        ids = common_prefix(a.input_ids[::-1], b.input_ids[::-1])
        backwards = [self._starts[side][-1] - self._starts[side][:-1][::-1] for side in (0, 1)]
        tail = min(ids, common_prefix(*backwards), *(count - head for count in counts))
        for side in (0, 1) if self.texts else ():
            starts = self._starts[side]
            head = min(head, max(int(np.searchsorted(starts, self.texts[0][side].start, side="right")) - 1, 0))
            begin = int(np.searchsorted(starts, self.texts[-1][side].end, side="left"))
            tail = min(tail, max(counts[side] - begin, 0))
        return np.array((head, head)), np.array(counts) - tail

    def run(self) -> np.ndarray:
        found: list[np.ndarray] = []
        at = self._first  # the tokens of the last cut
        pending: list[Pair] = []  # regions of the texts since that cut
        ends = [int(starts[last]) for starts, last in zip(self._starts, self._last)]
        begin = (int(self._starts[0][at[0]]), int(self._starts[1][at[1]]))
        for region in [*self.texts, (Region(ends[0], 0), Region(ends[1], 0))]:
            cuts = self._cuts(begin, (region[0].start, region[1].start))
            cuts = cuts[(cuts >= at).all(axis=1) & (cuts <= self._last).all(axis=1)]
            if len(cuts):
                first = np.vstack((at, cuts[0]))
                found.append(self._close(pending, at, cuts[0]) if pending else self._cells(first))
                found.append(self._cells(cuts))
                at, pending = cuts[-1], []
            pending.append(region)
            begin = (region[0].end, region[1].end)
        pending.pop()
        found.append(self._close(pending, at, self._last) if pending else self._cells(np.vstack((at, self._last))))
        return np.concatenate(found)

    def _cuts(self, begin: tuple[int, int], end: tuple[int, int]) -> np.ndarray:
        """Give the token pairs that begin at the same byte of an equal stretch, its end included. Shapes: int64[n, 2]."""
        inside, first = [], []
        for starts, x, y in zip(self._starts, begin, end):
            i, j = np.searchsorted(starts, (x, y + 1), side="left")
            inside.append(starts[i:j] - x)
            first.append(i)
        _common, a, b = np.intersect1d(inside[0], inside[1], return_indices=True)
        return np.stack((a + first[0], b + first[1]), axis=1)

    def _close(self, pending: list[Pair], at: np.ndarray, cut: np.ndarray) -> np.ndarray:
        """Give the regions of one cell their tokens: each up to the next one's, the last one to the cell's end."""
        spans = [
            [self._overlap(side, pair[side], int(at[side]), int(cut[side])) for pair in pending] for side in (0, 1)
        ]
        for side in (0, 1):
            firsts = [int(at[side]), *(first for first, _last in spans[side][1:]), int(cut[side])]
            lasts = [max(last, after) for (_first, last), after in zip(spans[side], firsts[1:])]
            spans[side] = list(zip(firsts, lasts))
        return _rows(
            (replace(a, first=x[0], last=x[1]), replace(b, first=y[0], last=y[1]))
            for (a, b), x, y in zip(pending, *spans)
        )

    def _overlap(self, side: int, region: Region, low: int, high: int) -> tuple[int, int]:
        first = int(np.searchsorted(self.sides[side].end, region.start, side="right"))
        last = int(np.searchsorted(self._starts[side], max(region.end, region.start + 1), side="left"))
        first = min(max(first, low), high)
        return first, min(max(last, first), high)

    def _cells(self, cuts: np.ndarray) -> np.ndarray:
        """Give the cells of other tokens, neighbours of one kind (same boundaries, or not) as one."""
        sizes = np.diff(cuts, axis=0)
        one = (sizes == 1).all(axis=1)
        a, b = (encoding.input_ids for encoding in self.sides)
        same = (sizes == 0).all(axis=1)
        same[one] = a[cuts[:-1, 0][one]] == b[cuts[:-1, 1][one]]
        kind = np.where(same, 0, np.where(one, 1, 2))
        edges = np.flatnonzero(np.diff(kind, prepend=-1, append=-1))
        first, last = edges[:-1][kind[edges[:-1]] > 0], edges[1:][kind[edges[:-1]] > 0]
        columns = []
        for side in (0, 1):
            x, y = cuts[first, side], cuts[last, side]
            columns += [self._starts[side][x], self._starts[side][y], x, y]
        return np.stack(columns, axis=1)
