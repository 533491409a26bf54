"""The four stages of a tokenizer for a stretch of text: normalizer, pre-tokenizer, model with its steps, post-processor.

Every stage is run by the library; the model's steps (merges, best path, greedy matches) are worked out here and shown
only where they end in the library's ids. Nothing here decides what is encoded, and nothing is rendered.
"""

from __future__ import annotations

import functools
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inspector.editscript import edit_script
from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers import steps
from inspector.tokenizers.base import RawEncoding, Tokenizer
from inspector.tokenizers.normalization import stretches

MAX_CHARS = 20_000  # of the stretch; a person reads a sentence, and the steps of a long piece grow with its square
MAX_ALIGNED = 2_000  # characters of a section whose changes are placed one by one; the time grows with the square
MAX_PIECE = 1_000  # characters or bytes of one piece whose steps are shown


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What the normalizer changed. Units: `start`, `end` are characters of the section's text, half-open."""

    start: int
    end: int
    before: str
    after: str

    def to_dict(self) -> dict[str, Any]:
        """Give the change with the names of its code points."""
        return {**asdict(self), "points_before": code_points(self.before), "points_after": code_points(self.after)}


@dataclass(frozen=True, slots=True)
class ModelToken:
    """A token of one piece."""

    id: int
    piece: str
    bytes: bytes

    def to_dict(self) -> dict[str, Any]:
        """Give the token with its bytes in hex."""
        return {"id": self.id, "piece": self.piece, "bytes": self.bytes.hex()}


@dataclass(frozen=True, slots=True)
class PieceTrace:
    """A pre-tokenizer piece and what the model made of it.

    Units: `start`, `end` are characters of the section's normalised text, half-open. `algorithm`: "bpe", "unigram",
    "wordpiece", "longest" or "" where steps are not shown, and then `note` says why. `steps` are JSON values, one of
    the shapes of `to_dict`.
    """

    text: str
    start: int
    end: int
    tokens: tuple[ModelToken, ...]
    algorithm: str = ""
    steps: tuple[dict[str, Any], ...] = ()
    tree: tuple[dict[str, Any], ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give text, place, tokens, algorithm, steps (bpe: rank, left, right, at; unigram: pieces, scores,
        score; wordpiece and longest: at, tried, match), the merge tree and the note."""
        return {
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "tokens": [token.to_dict() for token in self.tokens],
            "algorithm": self.algorithm,
            "steps": list(self.steps),
            "tree": list(self.tree),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Section:
    """Text between added tokens, or one added token (`token`). Units: `start`, `end` are bytes of the given text."""

    start: int
    end: int
    text: str
    token: ModelToken | None = None
    normalized: str = ""
    rewrites: tuple[Rewrite, ...] = ()
    pieces: tuple[PieceTrace, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the section as a JSON value."""
        return {
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "added_token": self.token.to_dict() if self.token else None,
            "normalized": self.normalized,
            "rewrites": [rewrite.to_dict() for rewrite in self.rewrites],
            "pieces": [piece.to_dict() for piece in self.pieces],
        }


@dataclass(frozen=True, slots=True)
class StageTrace:
    """The four stages of one text. `exact`: the sections' tokens are the ids that the tokenizer gives for the whole."""

    text: str
    sections: tuple[Section, ...]
    inserted_before: tuple[ModelToken, ...]
    inserted_after: tuple[ModelToken, ...]
    input_ids: tuple[int, ...]
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """Give `stages/1`."""
        return {
            "schema": "stages/1",
            "text": self.text,
            "sections": [section.to_dict() for section in self.sections],
            "inserted_before": [token.to_dict() for token in self.inserted_before],
            "inserted_after": [token.to_dict() for token in self.inserted_after],
            "input_ids": list(self.input_ids),
            "exact": self.exact,
        }


def code_points(text: str) -> list[str]:
    """Name each character: `U+0301 COMBINING ACUTE ACCENT`."""
    return [f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip() for char in text]


def trace_stages(text: str, tokenizer: Tokenizer, *, add_special_tokens: bool = True) -> StageTrace:
    """Trace a stretch of text through the four stages.

    Errors: InputTooLarge over MAX_CHARS; UnencodableText; TokenizerInvalid from the library.
    """
    if len(text) > MAX_CHARS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the stretch has {len(text):,} characters, the stages are shown for up to {MAX_CHARS:,}",
            stage="encode",
            remedy="select a shorter stretch",
        )
    raw = tokenizer.encode(text)
    before, after = _inserted(text, raw, tokenizer) if add_special_tokens else ([], [])
    model = _model_of(tokenizer)
    sections = tuple(_sections(text, raw, tokenizer, model))
    found = [token_id for section in sections for token_id in _ids_of(section)]
    ids = raw.input_ids.tolist()
    return StageTrace(
        text,
        sections,
        tuple(_token(i, tokenizer) for i in before),
        tuple(_token(i, tokenizer) for i in after),
        (*before, *ids, *after),
        found == ids,
    )


def token_merges(ids: Sequence[int | None], tokenizer: Tokenizer) -> dict[str, Any]:
    """Say which merge built a token and which would join it to its neighbours: the ids before, of and after it.

    `made`: the last merge of its piece, None where no merge built it; `before`, `after`: the rank of the merge with that
    neighbour, None for none. `bpe` is false, and all is None, where the model has no merges.
    """
    return _model_of(tokenizer).merges(ids) or {"bpe": False, "made": None, "before": None, "after": None}


def split_text(text: str, tokenizer: Tokenizer, *, first: bool) -> tuple[str, list[int]]:
    """Give a section normalised, and where its pre-tokenized pieces begin in it; `first`: it begins the whole text."""
    normalized, pieces = _model_of(tokenizer).split(text, first)
    return normalized, [at for _piece, at, *_rest in pieces]


def _ids_of(section: Section) -> list[int]:
    if section.token:
        return [section.token.id]
    return [token.id for piece in section.pieces for token in piece.tokens]


def _token(token_id: int, tokenizer: Tokenizer) -> ModelToken:
    return ModelToken(token_id, tokenizer.piece(token_id), tokenizer.token_bytes(token_id))


def _inserted(text: str, raw: RawEncoding, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    full, bare = tokenizer.encode(text, add_special_tokens=True).input_ids.tolist(), raw.input_ids.tolist()
    for before in range(len(full) - len(bare) + 1):
        if full[before : before + len(bare)] == bare:
            return full[:before], full[before + len(bare) :]
    return [], []


def _sections(text: str, raw: RawEncoding, tokenizer: Tokenizer, model: _Model) -> Iterator[Section]:
    """Cut the text at its added tokens, and trace what lies between."""
    data = text.encode()
    added = {token.id for token in tokenizer.added_tokens}
    unknown = tokenizer.special_token_ids.get("unk_token")  # the model's too: only its own spelling is a match
    spelled = b"" if unknown is None else tokenizer.piece(unknown).encode()
    ids, starts, ends = (column.tolist() for column in (raw.input_ids, raw.start, raw.end))
    matched = [
        i
        for i, token_id in enumerate(ids)
        if token_id in added and model.matches_added and (token_id != unknown or spelled in data[starts[i] : ends[i]])
    ]
    at = 0
    for index in matched:
        start, end = int(raw.start[index]), int(raw.end[index])
        yield from _text_section(data, at, start, tokenizer, model)
        token = _token(int(raw.input_ids[index]), tokenizer)
        yield Section(start, end, data[start:end].decode("utf-8", "replace"), token)
        at = end
    yield from _text_section(data, at, len(data), tokenizer, model)


def _text_section(data: bytes, start: int, end: int, tokenizer: Tokenizer, model: _Model) -> Iterator[Section]:
    if start >= end:
        return
    text = data[start:end].decode("utf-8", "replace")
    normalized, pieces = model.split(text, start == 0)
    traced = tuple(model.trace(*cut) for cut in pieces)
    yield Section(
        start, end, text, None, normalized, _rewrites(text, normalized, model.places(text, start == 0)), traced
    )


def _rewrites(before: str, after: str, places: Sequence[int] | None) -> tuple[Rewrite, ...]:
    """List what changed: stretch by stretch where the library tells the place of every character, else by an edit
    script."""
    if before == after:
        return ()
    if places is None:
        script = edit_script(before, after)
        return tuple(Rewrite(a0, a1, before[a0:a1], after[b0:b1]) for op, a0, a1, b0, b1 in script if op != "equal")
    begins = [i for i in range(len(after)) if i == 0 or places[i] != places[i - 1]]
    edges = [0, *(places[i] for i in begins[1:]), len(before)] if begins else [0, len(before)]
    made = [after[a:b] for a, b in itertools.pairwise([*begins, len(after)])] or [""]
    pairs = [(a, before[a:b], new) for (a, b), new in zip(itertools.pairwise(edges), made)]
    return tuple(_rewrite(at, old, new) for at, old, new in pairs if old != new)


def _rewrite(at: int, old: str, new: str) -> Rewrite:
    """Leave out what stayed behind an insertion (a prefix before the first character)."""
    if old and new.endswith(old):
        return Rewrite(at, at, "", new[: -len(old)])
    return Rewrite(at, at + len(old), old, new)


# --- the model stage, one class a kind of tokenizer ------------------------------------------------------------------


_Cut = tuple[str, int, int]


def _one(text: str) -> list[_Cut]:
    """Give the whole text as the only piece; none for an empty one."""
    return [(text, 0, len(text))] if text else []


class _Model:
    """The first three stages of one family."""

    matches_added = True

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def split(self, text: str, first: bool) -> tuple[str, list[_Cut]]:
        """Normalise a section and cut it into pieces: (piece, start, end) in characters of the normalised text. A piece
        may be spelled otherwise than the text there (byte level)."""
        return text, _one(text)

    def places(self, text: str, first: bool) -> Sequence[int] | None:
        """Give, for every character of the normalised section, the one of the text that it came from; None: unknown."""
        return None

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        """Give the tokens of a piece, with steps."""
        raise NotImplementedError

    def merges(self, ids: Sequence[int | None]) -> dict[str, Any] | None:
        """Tell the merges of a token from the ids before, of and after it; None for a model without merges."""
        return None

    def tokens(self, ids: Sequence[int]) -> tuple[ModelToken, ...]:
        return tuple(_token(i, self.tokenizer) for i in ids)


def _told_merges(
    parts: Sequence[Any], leaves: list[Any], rank_of: Callable[[Any, Any], float | None]
) -> dict[str, Any]:
    """Tell the merges of a token from the spellings before, of and after it (None for none)."""
    before, own, after = parts
    trees = steps.merge_steps(leaves, rank_of).trees if 0 < len(leaves) <= MAX_PIECE else ()
    root = trees[0] if len(trees) == 1 else None
    made = None
    if root is not None and root.left is not None and root.right is not None:
        made = {"rank": root.rank, "left": _readable(root.left.text), "right": _readable(root.right.text)}
    pairs = {"before": (before, own), "after": (own, after)}
    return {"bpe": True, "made": made, **{k: None if None in pair else rank_of(*pair) for k, pair in pairs.items()}}


class _Whole(_Model):
    """A tokenizer without steps to show (the teaching ones)."""

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        ids = self.tokenizer.encode_plain(piece).input_ids.tolist()
        return PieceTrace(piece, start, end, self.tokens(ids), note="each token is looked up as it stands")


class _Ranks(_Model):
    """tiktoken's byte-pair ranks, also tekken's after its control ids."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.matches_added = not hasattr(tokenizer, "render_request")
        self._pattern = _compiled(tokenizer.pattern)
        self._shift = getattr(tokenizer, "num_special", 0)

    def split(self, text: str, first: bool) -> tuple[str, list[_Cut]]:
        form = self.tokenizer.form
        normalized = unicodedata.normalize(form, text) if form else text
        return normalized, [(match[0], *match.span()) for match in self._pattern.finditer(normalized)]

    def places(self, text: str, first: bool) -> Sequence[int] | None:
        found: list[int] = []
        at = 0
        for before, after in stretches(text, self.tokenizer.form) if self.tokenizer.form else ():
            found += [at] * len(after) if before != after else range(at, at + len(before))
            at += len(before)
        return found or None

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        ids = [int(i) for i in self.tokenizer.encode_plain(piece).input_ids]
        tokens, data, ranks = self.tokens(ids), piece.encode(), self.tokenizer.ranks
        if len(data) > MAX_PIECE:
            return PieceTrace(piece, start, end, tokens, note=_too_long(len(data), "bytes"))
        made = steps.merge_steps([data[i : i + 1] for i in range(len(data))], lambda a, b: ranks.get(a + b))
        if [ranks[tree.text] + self._shift for tree in made.trees] != ids:
            return PieceTrace(piece, start, end, tokens, note=_NOT_THE_SAME)
        return _merged(piece, start, end, tokens, made)

    def merges(self, ids: Sequence[int | None]) -> dict[str, Any] | None:
        ranks = self.tokenizer.ranks
        parts = [None if i is None else self.tokenizer.token_bytes(i) for i in ids]
        own = parts[1] or b""
        return _told_merges(parts, [own[k : k + 1] for k in range(len(own))], lambda a, b: ranks.get(a + b))


class _Trie(_Model):
    """Greedy longest match over bytes."""

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        data, at, found = piece.encode(), 0, []
        ids = self.tokenizer.match(data)
        for token_id in ids:
            entries = self.tokenizer.candidates(data[at:])
            rest = [entry.decode("utf-8", "backslashreplace") for entry, _id in entries[1:]]
            found.append({"at": at, "tried": 0, "match": self.tokenizer.piece(token_id), "shorter": rest})
            at += len(self.tokenizer.token_bytes(token_id))
        return PieceTrace(piece, start, end, self.tokens(ids), "longest", tuple(found))


class _SentencePiece(_Model):
    """A SentencePiece model: the whole section is one piece for the library."""

    matches_added = False

    def split(self, text: str, first: bool) -> tuple[str, list[_Cut]]:
        normalized = self.tokenizer.processor.normalize(text)
        return normalized, _one(normalized)

    def places(self, text: str, first: bool) -> Sequence[int] | None:
        return self.tokenizer.processor.normalize(text, with_offsets=True)[1]

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        spec = self.tokenizer.model
        prefix = "▁" if spec.add_dummy_prefix and spec.escape_whitespaces else ""
        plain = piece.replace("▁", " ")[len(prefix) :]
        ids = self.tokenizer.processor.encode(plain)
        tokens = self.tokens(ids)
        if len(piece) > MAX_PIECE:
            return PieceTrace(piece, start, end, tokens, note=_too_long(len(piece), "characters"))
        vocabulary = _sentence_pieces(self.tokenizer)
        if spec.kind == "unigram":
            return _best_path(piece, start, end, tokens, vocabulary, _fallback_of(self.tokenizer), self.tokenizer)
        made = steps.merge_steps(list(piece), lambda a, b: _negated(vocabulary.get(a + b)))
        spelled = _spelled([tree.text for tree in made.trees], vocabulary, _fallback_of(self.tokenizer))
        if spelled != [token.piece for token in tokens]:
            return PieceTrace(piece, start, end, tokens, note=_NOT_THE_SAME)
        return _merged(piece, start, end, tokens, made)


class _Fast(_Model):
    """A tokenizer.json."""

    @property
    def _state(self) -> dict[str, Any]:
        return _model_state(self.tokenizer)

    def split(self, text: str, first: bool) -> tuple[str, list[_Cut]]:
        normalizer, pre_tokenizer = self.tokenizer.parts(first)
        normalized = normalizer.normalize_str(text) if normalizer is not None else text
        if pre_tokenizer is None:
            return normalized, _one(normalized)
        cut = pre_tokenizer.pre_tokenize_str(normalized)
        return normalized, [(piece, start, end) for piece, (start, end) in cut]

    def places(self, text: str, first: bool) -> Sequence[int] | None:
        normalizer, _pre_tokenizer = self.tokenizer.parts(first)
        return None if normalizer is None or len(text) > MAX_ALIGNED else _places(normalizer, text)

    def trace(self, piece: str, start: int, end: int) -> PieceTrace:
        made = self.tokenizer.model_tokens(piece)
        tokens = self.tokens([token_id for token_id, _value in made])
        if len(piece) > MAX_PIECE:
            return PieceTrace(piece, start, end, tokens, note=_too_long(len(piece), "characters"))
        tracer = {"BPE": self._merges, "Unigram": self._path, "WordPiece": self._greedy}.get(
            str(self._state.get("type"))
        )
        if tracer is None:
            return PieceTrace(piece, start, end, tokens, note=f"a {self._state.get('type')} model looks whole words up")
        return tracer(piece, start, end, tokens)

    def _merges(self, piece: str, start: int, end: int, tokens: tuple[ModelToken, ...]) -> PieceTrace:
        vocabulary, ranks = self._state["vocab"], _merge_ranks(self.tokenizer)
        if self._state.get("ignore_merges") and piece in vocabulary:
            return PieceTrace(piece, start, end, tokens, "bpe", note="the whole piece is an entry: merges are ignored")
        parts = _initial_parts(piece, self._state)
        trace = steps.merge_steps(parts, lambda a, b: ranks.get((a, b)))
        unknown = self._state.get("unk_token")
        spelled = [tree.text if tree.text in vocabulary else unknown for tree in trace.trees]
        if spelled != [token.piece for token in tokens]:
            return PieceTrace(piece, start, end, tokens, note=_NOT_THE_SAME)
        return _merged(piece, start, end, tokens, trace)

    def merges(self, ids: Sequence[int | None]) -> dict[str, Any] | None:
        if self._state.get("type") != "BPE":
            return None
        ranks = _merge_ranks(self.tokenizer)
        parts = [None if i is None else self.tokenizer.piece(i) for i in ids]
        return _told_merges(parts, _initial_parts(parts[1] or "", self._state), lambda a, b: ranks.get((a, b)))

    def _path(self, piece: str, start: int, end: int, tokens: tuple[ModelToken, ...]) -> PieceTrace:
        vocabulary = dict(self._state["vocab"])
        fallback = bool(self._state.get("byte_fallback"))
        return _best_path(piece, start, end, tokens, vocabulary, fallback, self.tokenizer)

    def _greedy(self, piece: str, start: int, end: int, tokens: tuple[ModelToken, ...]) -> PieceTrace:
        state = self._state
        prefix, limit = state["continuing_subword_prefix"], state["max_input_chars_per_word"]
        found = steps.greedy_steps(piece, state["vocab"], prefix, limit)
        matches = [step.match for step in found]
        spelled = [state["unk_token"]] if None in matches else matches
        if spelled != [token.piece for token in tokens]:
            return PieceTrace(piece, start, end, tokens, note=_NOT_THE_SAME)
        return PieceTrace(piece, start, end, tokens, "wordpiece", tuple(asdict(step) for step in found))


def _places(normalizer: Any, text: str) -> list[int]:
    """Ask the library's normalised string where each of its characters came from."""
    from tokenizers import NormalizedString

    string = NormalizedString(text)
    normalizer.normalize(string)
    found: list[int] = []
    for at in range(len(string.normalized)):
        whole, own = string.slice((0, at + 1)), string.slice((at, at + 1))
        found.append(len(whole.original) - len(own.original) if whole and own else (found[-1] if found else 0))
    return found


_NOT_THE_SAME = "the library took another way here: its tokens are shown without steps"


def _too_long(size: int, unit: str) -> str:
    return f"the piece has {size:,} {unit}: steps are shown up to {MAX_PIECE:,}"


def _model_of(tokenizer: Any) -> _Model:
    """Choose by what a family gives: ranks, a trie, a SentencePiece model, a tokenizer.json, or nothing."""
    for attribute, kind in (
        ("ranks", _Ranks),
        ("candidates", _Trie),
        ("processor", _SentencePiece),
        ("model_tokens", _Fast),
    ):
        if hasattr(tokenizer, attribute):
            return kind(tokenizer)
    return _Whole(tokenizer)


@functools.lru_cache(maxsize=16)
def _compiled(pattern: str) -> Any:
    import regex

    return regex.compile(pattern)


@functools.lru_cache(maxsize=2)
def _model_state(tokenizer: Any) -> dict[str, Any]:
    """The model of a tokenizer.json as JSON: tens of megabytes, so few are kept."""
    return json.loads(tokenizer.model_json())


@functools.lru_cache(maxsize=2)
def _merge_ranks(tokenizer: Any) -> dict[tuple[str, str], int]:
    return {(left, right): rank for rank, (left, right) in enumerate(map(_pair, _model_state(tokenizer)["merges"]))}


def _pair(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left, right


@functools.lru_cache(maxsize=4)
def _sentence_pieces(tokenizer: Any) -> dict[str, float]:
    from inspector.tokenizers.sp_model import PieceType

    kinds = (PieceType.NORMAL, PieceType.USER_DEFINED)
    return {entry.piece: entry.score for entry in tokenizer.model.pieces if entry.type in kinds}


def _fallback_of(tokenizer: Any) -> bool:
    return any(tokenizer.is_byte_fallback(i) for i in range(min(tokenizer.size, 2000)))


def _negated(score: float | None) -> float | None:
    return None if score is None else -score


def _initial_parts(piece: str, state: dict[str, Any]) -> list[str]:
    """Split a piece as the BPE model does before it merges: characters, or the bytes of one it does not have."""
    prefix, suffix = state.get("continuing_subword_prefix") or "", state.get("end_of_word_suffix") or ""
    parts: list[str] = []
    for at, char in enumerate(piece):
        part = (prefix if at else "") + char + (suffix if at == len(piece) - 1 else "")
        bytes_ = [f"<0x{byte:02X}>" for byte in char.encode()]
        if part not in state["vocab"] and state.get("byte_fallback") and all(b in state["vocab"] for b in bytes_):
            parts += bytes_
        else:
            parts.append(part)
    return parts


def _spelled(parts: Sequence[str], vocabulary: dict[str, float], fallback: bool) -> list[str]:
    """Spell parts as pieces; what is no piece as bytes, or as one unknown piece for a run of them."""
    made: list[str] = []
    for known, group in itertools.groupby(parts, key=vocabulary.__contains__):
        if known:
            made += group
        elif fallback:
            made += [f"<0x{byte:02X}>" for part in group for byte in part.encode()]
        else:
            made.append("<unk>")
    return made


def _merged(
    piece: str, start: int, end: int, tokens: tuple[ModelToken, ...], trace: steps.MergeTrace[Any]
) -> PieceTrace:
    rows = tuple(
        {
            "rank": merge.rank,
            "left": _readable(merge.left),
            "right": _readable(merge.right),
            "at": merge.at,
        }
        for merge in trace.merges
    )
    return PieceTrace(piece, start, end, tokens, "bpe", rows, tuple(_tree(node) for node in trace.trees))


def _tree(node: steps.Node[Any]) -> dict[str, Any]:
    """Give a merge tree as a JSON value. Its depth is bounded by MAX_PIECE; built from the leaves up, without recursion."""
    made: dict[int, dict[str, Any]] = {}
    todo = [node]
    while todo:
        current = todo[-1]
        children = [child for child in (current.left, current.right) if child is not None]
        missing = [child for child in children if id(child) not in made]
        if missing:
            todo += missing
            continue
        row = {"text": _readable(current.text), "rank": current.rank, "children": [made[id(c)] for c in children]}
        made[id(current)] = row
        todo.pop()
    return made[id(node)]


def _readable(part: str | bytes) -> str:
    return part if isinstance(part, str) else part.decode("utf-8", "backslashreplace")


def _best_path(
    piece: str,
    start: int,
    end: int,
    tokens: tuple[ModelToken, ...],
    vocabulary: dict[str, float],
    fallback: bool,
    tokenizer: Any,
) -> PieceTrace:
    longest = max(map(len, vocabulary), default=1)
    paths = steps.best_paths(piece, vocabulary, longest, min(vocabulary.values(), default=0.0))
    unknown = tokenizer.special_tokens.get("unk_token", "<unk>")
    found = next(
        (n for n, path in enumerate(paths) if _path_pieces(path, fallback, unknown) == [t.piece for t in tokens]), None
    )
    if found is None or not steps.same_score(paths[found].score, paths[0].score):
        return PieceTrace(piece, start, end, tokens, note=_NOT_THE_SAME)
    ordered = [paths[found], *(path for number, path in enumerate(paths) if number != found)]
    rows = tuple({"pieces": list(p.pieces), "scores": list(p.scores), "score": p.score} for p in ordered)
    return PieceTrace(piece, start, end, tokens, "unigram", rows)


def _path_pieces(path: steps.Path, fallback: bool, unknown: str) -> list[str]:
    known = {piece: 0.0 for piece, missing in zip(path.pieces, path.unknown) if not missing}
    spelled = _spelled(path.pieces, known, fallback)
    return [unknown if piece == "<unk>" else piece for piece in spelled]


# --- training ---------------------------------------------------------------------------------------------------------

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MAX_MERGES = 1_000


@dataclass(frozen=True, slots=True)
class Training:
    """Merges learned from a text, in their order; ids 0 to 255 are the bytes."""

    pattern: str
    merges: tuple[steps.LearnedMerge, ...]

    def ranks(self) -> dict[bytes, int]:
        """Give the ranks that tiktoken.Encoding takes."""
        return {bytes([byte]): byte for byte in range(256)} | {step.token: step.id for step in self.merges}

    def to_dict(self) -> dict[str, Any]:
        """Give `training/1`: one row a merge."""
        return {
            "schema": "training/1",
            "pattern": self.pattern,
            "merges": [
                {
                    "id": step.id,
                    "left": _readable(step.left),
                    "right": _readable(step.right),
                    "count": step.count,
                    "words": [[_readable(part) for part in word] for word in step.words],
                }
                for step in self.merges
            ],
        }


def train(text: str, num_merges: int, pattern: str = GPT2_PATTERN) -> Training:
    """Learn byte-pair merges from a text, the most frequent pair first.

    Errors: InputTooLarge over MAX_CHARS or MAX_MERGES; OptionInvalid for a pattern that cannot be compiled.
    """
    if len(text) > MAX_CHARS or not 0 <= num_merges <= MAX_MERGES:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{len(text):,} characters and {num_merges:,} merges; the trainer takes {MAX_CHARS:,} and {MAX_MERGES:,}",
            stage="encode",
            remedy="train on a shorter text, with fewer merges",
        )
    split: Callable[[str], list[str]] = _pattern_or_raise(pattern).findall
    return Training(pattern, steps.train_merges(split(text), num_merges))


def _pattern_or_raise(pattern: str) -> Any:
    import regex

    try:
        return _compiled(pattern)
    except regex.error as error:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"the pattern cannot be compiled: {error}",
            stage="encode",
            where={"option": "pattern"},
            remedy="write a regular expression as tiktoken's pat_str",
        ) from error
