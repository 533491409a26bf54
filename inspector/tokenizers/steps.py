"""How a model turns one piece into tokens, step by step: merges, best paths, greedy matches; and a small trainer.

Written from the algorithms' definitions, for being looked at; the libraries encode. Whoever shows these steps compares
their result with the library's.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", str, bytes)


@dataclass(frozen=True, slots=True)
class Merge(Generic[T]):
    """One merge: the pair at place `at` of the parts so far became one part, for its rank was the lowest."""

    rank: float
    left: T
    right: T
    at: int


@dataclass(frozen=True, slots=True)
class Node(Generic[T]):
    """A token as the tree of its merges; a leaf has no rank and no children."""

    text: T
    rank: float | None = None
    left: Node[T] | None = None
    right: Node[T] | None = None


@dataclass(frozen=True, slots=True)
class MergeTrace(Generic[T]):
    """The merges of one piece in their order, and the trees that they leave."""

    initial: tuple[T, ...]
    merges: tuple[Merge[T], ...]
    trees: tuple[Node[T], ...]

    def states(self) -> Iterator[tuple[T, ...]]:
        """Give the parts before the first merge and after each."""
        parts = list(self.initial)
        yield self.initial
        for merge in self.merges:
            parts[merge.at : merge.at + 2] = [merge.left + merge.right]
            yield tuple(parts)


def merge_steps(parts: Sequence[T], rank_of: Callable[[T, T], float | None]) -> MergeTrace[T]:
    """Merge neighbours, the lowest rank first and the leftmost of equals, until no pair has a rank.

    >>> ranks = {("l", "o"): 0, ("lo", "w"): 1}
    >>> [tree.text for tree in merge_steps("low", lambda a, b: ranks.get((a, b))).trees]
    ['low']
    """
    trees: list[Node[T]] = [Node(part) for part in parts]
    ranks = [rank_of(a.text, b.text) for a, b in itertools.pairwise(trees)]
    merges: list[Merge[T]] = []
    while True:
        best = min((rank for rank in ranks if rank is not None), default=None)
        if best is None:
            return MergeTrace(tuple(parts), tuple(merges), tuple(trees))
        at = ranks.index(best)
        left, right = trees[at], trees[at + 1]
        merges.append(Merge(best, left.text, right.text, at))
        trees[at : at + 2] = [Node(left.text + right.text, best, left, right)]
        del ranks[at]
        if at > 0:
            ranks[at - 1] = rank_of(trees[at - 1].text, trees[at].text)
        if at < len(ranks):
            ranks[at] = rank_of(trees[at].text, trees[at + 1].text)


@dataclass(frozen=True, slots=True)
class Path:
    """One way to cut a text into pieces of a Unigram vocabulary. `scores`: log probability of each piece; `unknown`:
    which pieces are not in the vocabulary."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    unknown: tuple[bool, ...]

    @property
    def score(self) -> float:
        """Log probability of the whole."""
        return sum(self.scores)


UNKNOWN_PENALTY = 10.0  # below the lowest score of the vocabulary, in sentencepiece and in tokenizers alike


def best_paths(text: str, scores: Mapping[str, float], longest: int, lowest: float, count: int = 2) -> tuple[Path, ...]:
    """Give the `count` best ways to cut `text`, the best first (Viterbi with several survivors a place).

    `longest`: length of the longest piece; `lowest`: the lowest score of the vocabulary. A single character that is no
    piece is unknown. Of two ways with equal scores, the one that the library would take first is not defined here.
    """
    heads: list[list[tuple[float, int, int, float, bool]]] = [[(0.0, -1, -1, 0.0, False)]]
    for end in range(1, len(text) + 1):
        arrivals = []
        for begin in range(max(0, end - longest), end):
            score = scores.get(text[begin:end])
            if score is None and end - begin > 1:
                continue
            own = lowest - UNKNOWN_PENALTY if score is None else score
            arrivals += [(head[0] + own, begin, number, own, score is None) for number, head in enumerate(heads[begin])]
        heads.append(sorted(arrivals, key=lambda entry: -entry[0])[:count])
    return tuple(_walk_back(text, heads, number) for number in range(len(heads[-1])))


def _walk_back(text: str, heads: Sequence[Sequence[tuple[float, int, int, float, bool]]], number: int) -> Path:
    pieces: list[tuple[str, float, bool]] = []
    end = len(text)
    while end > 0:
        _total, begin, before, own, unknown = heads[end][number]
        pieces.append((text[begin:end], own, unknown))
        end, number = begin, before
    pieces.reverse()
    return Path(*(tuple(entry[i] for entry in pieces) for i in range(3)))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class GreedyStep:
    """One step of a longest-match-first search: where it stood, how many longer candidates failed, what matched
    (None: nothing did)."""

    at: int
    tried: int
    match: str | None


def greedy_steps(word: str, vocabulary: Mapping[str, int], prefix: str, limit: int) -> tuple[GreedyStep, ...]:
    """Match WordPiece: from the left, the longest entry; a piece inside the word is spelled with `prefix`.

    A word longer than `limit` characters is not searched: the answer is one step without a match.
    """
    if len(word) > limit:
        return (GreedyStep(0, 0, None),)
    steps: list[GreedyStep] = []
    at = 0
    while at < len(word):
        ends = range(len(word), at, -1)
        found = next((end for end in ends if (prefix if at else "") + word[at:end] in vocabulary), None)
        if found is None:
            return (*steps, GreedyStep(at, len(word) - at, None))
        steps.append(GreedyStep(at, len(word) - found, (prefix if at else "") + word[at:found]))
        at = found
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class LearnedMerge:
    """One step of training: the most frequent pair became a new token. `words`: the first words after the merge."""

    id: int
    left: bytes
    right: bytes
    count: int
    words: tuple[tuple[bytes, ...], ...]

    @property
    def token(self) -> bytes:
        """The new token."""
        return self.left + self.right


def train_merges(words: Iterable[str], num_merges: int, *, shown: int = 20) -> tuple[LearnedMerge, ...]:
    """Learn byte-pair merges from words (a pre-tokenizer's pieces): the most frequent pair each time.

    Among equally frequent pairs the one that occurs first in the words wins. It ends early when no pair is left.

    >>> [step.token for step in train_merges(["low", "low", "lower"], 2)]
    [b'lo', b'low']
    """
    split: list[tuple[bytes, ...]] = [tuple(bytes([byte]) for byte in word.encode()) for word in words]
    learned: list[LearnedMerge] = []
    for number in range(num_merges):
        pairs = Counter(pair for word in split for pair in itertools.pairwise(word))
        if not pairs:
            break
        (left, right), count = max(pairs.items(), key=lambda entry: entry[1])
        split = [_merged(word, left, right) for word in split]
        learned.append(LearnedMerge(256 + number, left, right, count, tuple(split[:shown])))
    return tuple(learned)


def _merged(word: tuple[bytes, ...], left: bytes, right: bytes) -> tuple[bytes, ...]:
    made: list[bytes] = []
    at = 0
    while at < len(word):
        if word[at : at + 2] == (left, right):
            made.append(left + right)
            at += 2
        else:
            made.append(word[at])
            at += 1
    return tuple(made)


def same_score(a: float, b: float) -> bool:
    """Say whether two scores are equal up to what 32-bit sums lose."""
    return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-3)
