"""Family `fast`: a tokenizer.json, run by the `tokenizers` library from verified bytes.

The file itself is the tokenizer: nothing is rebuilt from a class name, no code of a repository is run, no network is
asked. The configuration is applied as transformers' generic fast tokenizer applies it.
"""

from __future__ import annotations

import functools
import itertools
import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from tokenizers import AddedToken as LibraryToken
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models, processors

from inspector import meter
from inspector.errors import ErrorKind, InspectorError
from inspector.sources.cache import read_verified
from inspector.tokenizers import bytetable
from inspector.tokenizers.base import AddedToken, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable, Form
from inspector.tokenizers.config import TokenizerConfig, chat_templates_of, check_encoding, invalid, read_config
from inspector.tokenizers.file_facts import CutsAndPads, FileFacts, read_facts
from inspector.tokenizers.pieces import WORDS, PieceEncoder, patterns_of
from inspector.tokenizers.sections import SECTIONS_FROM, SectionEncoder, walls_of

_T = TypeVar("_T")
_MAX_GAPS = 1 << 20  # ids without a token, up to which a list by id is the faster table
_FORMS: tuple[Form, ...] = get_args(Form)
# How the two regular-expression engines (Oniguruma, fancy-regex) say that a search was given up.
_REGEX_LIMITS = ("retry-limit-in", "match-stack limit", "BacktrackLimitExceeded", "StackOverflow")


def load(artifact: TokenizerArtifact) -> FastTokenizer:
    """Build the tokenizer of an artifact with a tokenizer.json.

    Errors: TokenizerInvalid, ArtifactMismatch, those of config.check_class.
    """
    files = {file.name: read_verified(file) for file in artifact.files}
    if "tokenizer.json" not in files:
        raise invalid("the artifact has no tokenizer.json", {"ref": artifact.ref})
    check_encoding(files["tokenizer.json"], "tokenizer.json")
    config = read_config(files.get("tokenizer_config.json"))
    return FastTokenizer(artifact, files["tokenizer.json"], config, chat_templates_of(files))


def guarded(action: Callable[[], _T], what: str, stage: str = "source") -> _T:
    """Run a call into the library; whatever a foreign file makes it raise becomes TokenizerInvalid, or
    TokenizerRegexLimit where a pattern ran out of its matching budget.

    A Rust panic arrives as PanicException, which is a BaseException.
    """
    try:
        return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit, InspectorError, MemoryError):
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())[:300]
        if any(sign in reason for sign in _REGEX_LIMITS):
            raise InspectorError(
                ErrorKind.TokenizerRegexLimit,
                f"{what}: {reason}",
                stage="encode",
                remedy="shorten the text, or use a tokenizer whose patterns do not backtrack",
            ) from error
        broken = invalid(f"{what}: {reason}")
        broken.stage = stage
        raise broken from error


_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")


class FastTokenizer:
    """A tokenizer.json with its configuration. Read-only after construction; safe to use from several threads."""

    control_needs_template = False

    def __init__(
        self,
        artifact: TokenizerArtifact,
        data: bytes,
        config: TokenizerConfig,
        chat_templates: dict[str, str],
    ) -> None:
        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256 for file in artifact.files}
        self.reconstructed = artifact.reconstructed
        self.chat_templates = chat_templates
        self.special_tokens = dict(config.special_tokens)
        self.model_max_length = config.model_max_length
        self.ignored_keys = config.ignored
        self._backend, self.cuts_and_pads = guarded(lambda: _build(data, config), "tokenizer.json cannot be loaded")
        self._own_file = next((file for file in artifact.files if file.name == "tokenizer.json"), None)
        self._shape = _Shape.of(self._backend)
        self._finish()

    def _finish(self) -> None:
        backend = self._backend
        self.vocab_size = backend.get_vocab_size(with_added_tokens=False)
        self.size = backend.get_vocab_size(with_added_tokens=True)
        self.added_tokens = _added_tokens(backend)
        ids = {name: backend.token_to_id(content) for name, content in self.special_tokens.items()}
        self.special_token_ids = {name: token_id for name, token_id in ids.items() if token_id is not None}
        unknown = _unknown_id(backend)
        if unknown is not None:
            self.special_token_ids.setdefault("unk_token", unknown)
        self._pieces, self.shared_ids = _pieces(backend)
        unknown = self.special_token_ids.get("unk_token")
        control = [token.id for token in self.added_tokens if token.special and token.id != unknown]
        self._control_ids = np.array(control, np.int64)
        self._added_ids = frozenset(token.id for token in self.added_tokens)
        self._bytes = self._byte_table()
        self._before, self._after = guarded(lambda: _inserted(backend), "a text cannot be encoded with it")

    def library_json(self) -> str:
        """Give the tokenizer as a tokenizer.json that has what the configuration added, and neither cuts nor pads."""
        return self._backend.to_str()

    def _byte_table(self) -> ByteTable:
        """Tabulate bytes as the decoder sees them: an added token is its literal, unless the model's own vocabulary
        has it as an ordinary piece (Gemma's `▁▁` stands for two spaces)."""
        literal = {
            token.id: bytetable.utf8(token.content)
            for token in self.added_tokens
            if token.special or token.id >= self.vocab_size
        }
        to_bytes = self._shape.piece_bytes
        known = {i: literal.get(i) or to_bytes(piece) for i, piece in self._pieces.items()}
        span = max(known, default=-1) + 1
        return ByteTable(known if span > _MAX_GAPS + 2 * len(known) else [known.get(i, b"") for i in range(span)])

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode like the library does. `content` makes no difference here."""
        del content
        raw = self._by_sections(text) or _encode(self._backend, text, self._bytes, self._shape.form)
        return self._with_inserted(raw, text) if add_special_tokens else raw

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode with added-token matching off: no special token but the unknown one can come out."""
        raw = _encode(
            self._plain if first or not self._shape.first_only else self._plain_inner,
            text,
            self._bytes,
            self._shape.form,
        )
        leaks = np.flatnonzero(np.isin(raw.input_ids, self._control_ids))
        return self._split_leaks(raw, leaks, text, first) if len(leaks) else raw

    def _split_leaks(self, raw: RawEncoding, leaks: np.ndarray, text: str, first: bool) -> RawEncoding:
        """Cut the text inside every special token that the model itself made of it (a Unigram model has `</s>` as a
        piece like any other), and encode the parts apart."""
        data = text.encode("utf-8")
        begins = [int(raw.start[i]) for i in leaks if raw.end[i] > raw.start[i]]
        cuts = [begin + len(data[begin:].decode("utf-8", "ignore")[:1].encode("utf-8")) for begin in begins]
        edges = [0, *(cut for cut in cuts if 0 < cut < len(data)), len(data)]
        if len(edges) == 2:
            return raw  # one character that is a special token: it has no other spelling
        parts = [
            (at, self.encode_plain(data[at:to].decode("utf-8"), first=first and at == 0))
            for at, to in itertools.pairwise(edges)
        ]
        return RawEncoding(
            np.concatenate([part.input_ids for _, part in parts]),
            np.concatenate([part.start + at for at, part in parts]),
            np.concatenate([part.end + at for at, part in parts]),
        )

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode a stretch as it would come out inside a whole text."""
        return _encode(
            self._backend if first or not self._shape.first_only else self._inner, text, self._bytes, self._shape.form
        )

    def _by_sections(self, text: str) -> RawEncoding | None:
        """Encode between control tokens, from the cache where possible; None where the text has no such token."""
        sections = self._sections
        if sections is None or len(text) < SECTIONS_FROM:
            return None
        utf8_or_raise(text)
        return sections.encode(text)

    @property
    def sections(self) -> SectionEncoder | None:
        """The sections that `encode` joins; None where no control token parts a text."""
        return self._sections

    @functools.cached_property
    def _sections(self) -> SectionEncoder | None:
        walls = walls_of(self.added_tokens)
        if not walls:
            return None
        backend = self._inner if self._shape.first_only else self._backend

        def encode_batch(texts: list[str]) -> list[list[int]]:
            encodings = guarded(
                lambda: backend.encode_batch_fast(texts, add_special_tokens=False),
                "the text cannot be encoded",
                "encode",
            )
            return [encoding.ids for encoding in encodings]

        by_piece = self._by_piece(backend, encode_batch)

        def encode_sections(texts: list[str]) -> tuple[list[np.ndarray], bool]:
            if by_piece is None:
                return [np.array(ids, np.int64) for ids in encode_batch(texts)], False
            return guarded(lambda: by_piece.encode(texts), "the text cannot be encoded", "encode")

        return SectionEncoder(
            walls,
            self._bytes,
            encode_sections,
            lambda piece: _encode(backend, piece, self._bytes, self._shape.form),
            lambda piece: _encode(self._backend, piece, self._bytes, self._shape.form),
            lines_part=_lines_part(self._backend, self.added_tokens),
        )

    def _by_piece(
        self, backend: LibraryTokenizer, encode: Callable[[list[str]], list[list[int]]]
    ) -> PieceEncoder | None:
        """Give what encodes sections from a table of pieces; None where the pre-tokenizer's pieces are not known to be told."""
        steps = flatten(state_of(backend.normalizer))
        normal = [step.get("type") for step in steps if step != {"type": "Sequence", "normalizers": []}]
        patterns = patterns_of(flatten(state_of(backend.pre_tokenizer)), backend.model)
        if patterns is None or normal not in ([], ["NFC"]):
            return None
        spellings = {
            form for token in self.added_tokens for form in (token.content, unicodedata.normalize("NFC", token.content))
        }
        literals = sorted(spellings - {""})  # the library finds a normalized token in text as it normalizes it
        return PieceEncoder(backend, patterns, literals, encode, self._bytes, composes=bool(normal))

    def _with_inserted(self, raw: RawEncoding, text: str) -> RawEncoding:
        before, after = self._before, self._after
        length = len(text.encode("utf-8"))
        zero, at_end = np.zeros(len(before), np.int64), np.full(len(after), length, np.int64)
        ids = np.concatenate([np.array(before, np.int64), raw.input_ids, np.array(after, np.int64)])
        return RawEncoding(ids, np.concatenate([zero, raw.start, at_end]), np.concatenate([zero, raw.end, at_end]))

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._bytes.get(token_id)

    def piece(self, token_id: int) -> str:
        """Give the vocabulary's spelling of an id."""
        return self._pieces.get(token_id, "")

    @property
    def ids(self) -> Iterable[int]:
        """The ids that the vocabulary has: a hostile or pruned one leaves gaps."""
        return self._pieces.keys()

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say whether the id is a `<0xNN>` piece of a vocabulary with byte fallback."""
        return (
            self._shape.byte_fallback
            and token_id not in self._added_ids
            and bytetable.is_byte_piece(self.piece(token_id))
        )

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids: what was encoded, not the decoder's reading of it (a WordPiece decoder puts
        blanks between words that the ids do not hold)."""
        return b"".join(map(self._bytes.get, ids))

    def parts(self, first: bool = True) -> tuple[Any, Any]:
        """Give the library's normalizer and pre-tokenizer for a stretch that begins a text, or one inside it."""
        if first or not self._shape.first_only:
            return self._backend.normalizer, self._backend.pre_tokenizer
        return _unprefixed(self._backend)

    def model_tokens(self, piece: str) -> list[tuple[int, str]]:
        """Give ids and spellings that the model makes of one pre-tokenized piece."""
        made = guarded(lambda: self._backend.model.tokenize(piece), "the piece cannot be encoded", "encode")
        return [(token.id, token.value) for token in made]

    def model_json(self) -> bytes:
        """Give the model (vocabulary, merges, switches) as JSON."""
        return self._backend.model.__getstate__()

    def stated_rules(self) -> dict[str, Any]:
        """Give every part of tokenizer.json but vocabulary and merges."""
        backend, model = self._backend, self._backend.model
        names = ("unk_token", "byte_fallback", "ignore_merges", "fuse_unk", "continuing_subword_prefix", "unk_id")
        parts = {part: flatten(state_of(getattr(backend, part))) for part in _PARTS}
        return {"model": type(model).__name__, **{n: getattr(model, n) for n in names if hasattr(model, n)}, **parts}

    @functools.cached_property
    def file_facts(self) -> FileFacts:
        """What the tokenizer.json says otherwise than it is loaded. Reads the file once more."""
        if self._own_file is None:
            return FileFacts()
        return read_facts(read_verified(self._own_file), self._backend.token_to_id)

    def decoder_steps(self) -> list[dict[str, Any]]:
        """Give the steps of the decoder of tokenizer.json."""
        return flatten(state_of(self._backend.decoder))

    @functools.cached_property
    def library_tokenizer(self) -> Any:
        """transformers' own fast tokenizer over a copy of the same backend, for comparison with what it does."""
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_object=self._backend, **self.special_tokens)

    @functools.cached_property
    def _plain(self) -> LibraryTokenizer:
        """The same model and steps without added tokens. The model itself is shared: no copy of the vocabulary."""
        return _without_added(self._backend, self._backend.normalizer, self._backend.pre_tokenizer)

    @functools.cached_property
    def _plain_inner(self) -> LibraryTokenizer:
        return _without_added(self._backend, *_unprefixed(self._backend))

    @functools.cached_property
    def _inner(self) -> LibraryTokenizer:
        with meter.loading(self.id):
            inner = LibraryTokenizer.from_str(self._backend.to_str())
        normalizer, inner.pre_tokenizer = _unprefixed(self._backend)
        if normalizer is not None:
            inner.normalizer = normalizer
        return inner


class _Shape:
    """How a tokenizer.json spells bytes, and whether its first piece is treated apart."""

    __slots__ = ("byte_fallback", "first_only", "form", "piece_bytes")

    def __init__(
        self, piece_bytes: Callable[[str], bytes], byte_fallback: bool, first_only: bool, form: Form | None
    ) -> None:
        self.piece_bytes, self.byte_fallback, self.first_only, self.form = piece_bytes, byte_fallback, first_only, form

    @classmethod
    def of(cls, backend: LibraryTokenizer) -> _Shape:
        """Read the shape off the normalizer, the pre-tokenizer, the decoder and the model."""
        parts = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
        steps = [step for part in parts for step in flatten(state_of(part))]
        kinds = {step.get("type") for step in steps}
        fallback = getattr(backend.model, "byte_fallback", False) is True
        if "ByteLevel" in kinds:
            to_bytes: Callable[[str], bytes] = bytetable.byte_level
        elif isinstance(backend.model, models.WordPiece):
            to_bytes = functools.partial(_without_prefix, backend.model.continuing_subword_prefix)
        elif "Metaspace" in kinds or fallback or _replaces_space(steps):
            to_bytes = bytetable.sentence_piece
        else:
            to_bytes = bytetable.utf8
        first_only = any(step.get("prepend_scheme") == "first" for step in steps)
        return cls(to_bytes, fallback, first_only, next((form for form in _FORMS if form in kinds), None))


def _without_prefix(prefix: str, piece: str) -> bytes:
    return bytetable.utf8(piece.removeprefix(prefix))


def state_of(part: Any) -> Any:
    """Give the JSON of one part of a tokenizer (None if it has none), without serialising the vocabulary."""
    return json.loads(part.__getstate__()) if part is not None else None


def flatten(part: Any) -> list[dict[str, Any]]:
    """Give the steps of a tokenizer.json part, sequences unrolled."""
    if not isinstance(part, dict):
        return []
    inner = part.get("normalizers") or part.get("pretokenizers") or part.get("decoders") or part.get("processors")
    if part.get("type") == "Sequence" and isinstance(inner, list):
        return [step for entry in inner for step in flatten(entry)]
    return [part]


def _replaces_space(steps: list[dict[str, Any]]) -> bool:
    return any(
        step.get("type") == "Replace" and "▁" in (step.get("content"), str(step.get("pattern"))) for step in steps
    )


def _build(data: bytes, config: TokenizerConfig) -> tuple[LibraryTokenizer, CutsAndPads]:
    """Load the file and apply the configuration in the order of transformers' generic fast tokenizer."""
    backend = LibraryTokenizer.from_buffer(data)
    carried = CutsAndPads(backend.truncation, backend.padding)
    backend.no_truncation()
    backend.no_padding()
    _add_missing(backend, config)
    if backend.post_processor is None:
        _set_post_processor(backend, config)
    return backend, carried


def _add_missing(backend: LibraryTokenizer, config: TokenizerConfig) -> None:
    """Add the configuration's tokens that the file itself does not declare."""
    declared = {repr(token) for token in backend.get_added_tokens_decoder().values()}
    contents = {token.content for token in backend.get_added_tokens_decoder().values()}
    wanted = [token for token in map(_library_token, config.added) if repr(token) not in declared]
    contents |= {token.content for token in wanted}
    named = [_library_token(token) for token in config.named]
    for token in [*named, *(LibraryToken(text, special=True) for text in config.extra)]:
        if token.content not in contents:
            wanted.append(token)
            contents.add(token.content)
    if wanted:
        backend.add_tokens(wanted)


def _library_token(token: AddedToken) -> LibraryToken:
    return LibraryToken(
        token.content,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized,
        special=token.special,
    )


def _set_post_processor(backend: LibraryTokenizer, config: TokenizerConfig) -> None:
    """Replace the post-processor by one that adds BOS and EOS as the configuration says."""
    bos = config.special_tokens.get("bos_token") if config.add_bos_token else None
    eos = config.special_tokens.get("eos_token") if config.add_eos_token else None
    single = f"{bos + ':0 ' if bos else ''}$A:0{' ' + eos + ':0' if eos else ''}"
    tokens = [(token, backend.token_to_id(token)) for token in (bos, eos) if token]
    backend.post_processor = processors.TemplateProcessing(single=single, special_tokens=tokens)


def _without_added(backend: LibraryTokenizer, normalizer: Any, pre_tokenizer: Any) -> LibraryTokenizer:
    plain = LibraryTokenizer(backend.model)
    if normalizer is not None:
        plain.normalizer = normalizer
    if pre_tokenizer is not None:
        plain.pre_tokenizer = pre_tokenizer
    blank = [_library_token(token) for token in _added_tokens(backend) if token.blank]
    if blank:
        plain.add_tokens(blank)
    return plain


def _unprefixed(backend: LibraryTokenizer) -> tuple[Any, Any]:
    """Give normalizer and pre-tokenizer with every "prefix for the first piece" switched off."""
    shell: dict[str, Any] = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    for name in ("normalizer", "pre_tokenizer"):
        shell[name] = state_of(getattr(backend, name))
        for step in flatten(shell[name]):
            if step.get("prepend_scheme") == "first":
                step["prepend_scheme"] = "never"
    made = LibraryTokenizer.from_str(json.dumps(shell))
    return made.normalizer, made.pre_tokenizer


# Patterns in which every alternative that takes a line feed ends with it, or takes nothing but white space (and slashes)
# after it, whatever follows; none looks back.
_LINES_PART = WORDS


def _lines_part(backend: LibraryTokenizer, added: Sequence[AddedToken]) -> bool:
    """Say whether a text may be cut after a line feed that neither white space nor a slash follows: the pre-tokenizer
    always cuts there, the normalizer joins nothing across it, and no added token stands across it."""
    steps = flatten(state_of(backend.pre_tokenizer))
    if len(steps) != 2 or any(token.lstrip or "\n" in token.content for token in added):
        return False
    split, level = steps
    pattern = split.get("pattern")
    known = isinstance(pattern, dict) and pattern.get("Regex") in _LINES_PART
    isolated = split.get("type") == "Split" and split.get("behavior") == "Isolated" and not split.get("invert")
    bare = level.get("type") == "ByteLevel" and not level.get("use_regex") and not level.get("add_prefix_space")
    normal = all(step.get("type") == "NFC" for step in flatten(state_of(backend.normalizer)))
    return known and isolated and bare and normal and isinstance(backend.model, models.BPE)


def _added_tokens(backend: LibraryTokenizer) -> tuple[AddedToken, ...]:
    return tuple(
        AddedToken(i, t.content, t.special, t.lstrip, t.rstrip, t.normalized, t.single_word)
        for i, t in sorted(backend.get_added_tokens_decoder().items())
    )


def _unknown_id(backend: LibraryTokenizer) -> int | None:
    """Give the id that the model writes where it lacks a text, whether or not a configuration names it."""
    piece = getattr(backend.model, "unk_token", None)
    return backend.token_to_id(piece) if isinstance(piece, str) else getattr(backend.model, "unk_id", None)


def _pieces(backend: LibraryTokenizer) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Give the vocabulary's spellings by id, and all spellings of each id that several share.

    The library decodes a shared id to one of them, another one each time it loads; here it is the first in order.
    """
    vocabulary = backend.get_vocab(with_added_tokens=True)
    pieces = {token_id: piece for piece, token_id in vocabulary.items()}
    if len(pieces) == len(vocabulary):
        return pieces, {}
    shared: dict[int, list[str]] = {}
    for piece, token_id in sorted(vocabulary.items()):
        shared.setdefault(token_id, []).append(piece)
    shared = {token_id: spellings for token_id, spellings in shared.items() if len(spellings) > 1}
    return pieces | {token_id: spellings[0] for token_id, spellings in shared.items()}, shared


def _inserted(backend: LibraryTokenizer) -> tuple[list[int], list[int]]:
    """Find which ids the post-processor puts before and after a text, by encoding one character both ways."""
    bare = backend.encode("a", add_special_tokens=False).ids
    full = guarded(lambda: backend.encode("a", add_special_tokens=True).ids, "the post-processor cannot be run")
    for before in range(len(full) - len(bare) + 1):
        if full[before : before + len(bare)] == bare:
            return full[:before], full[before + len(bare) :]
    raise invalid("the post-processor changes the tokens themselves", {"file": "tokenizer.json"})


def _encode(backend: LibraryTokenizer, text: str, table: ByteTable, form: Form | None = None) -> RawEncoding:
    """Encode a text, with spans.

    `encode_batch_fast` computes no offsets. If the tokens' bytes are the text's bytes, which is so for byte-level
    vocabularies without a normalizer's change, lengths alone give the spans; else the offsets are asked for. `form`
    is the normalizer's Unicode form, so that a text it will change is not encoded twice.
    """
    data = utf8_or_raise(text)
    if form and not unicodedata.is_normalized(form, text):
        return _encode_with_offsets(backend, text, data, table, form)
    ids_list = guarded(
        lambda: backend.encode_batch_fast([text], add_special_tokens=False)[0].ids,
        "the text cannot be encoded",
        "encode",
    )
    ids = np.array(ids_list, np.int64)
    joined = table.join(ids_list)
    shift = len(joined) - len(data)
    if joined == data or (shift == 1 and joined[:1] == b" " and joined[1:] == data):
        return RawEncoding(ids, *bytetable.spans_from_ends(table.ends(ids), shift))
    return _encode_with_offsets(backend, text, data, table, form)


def _encode_with_offsets(
    backend: LibraryTokenizer, text: str, data: bytes, table: ByteTable, form: Form | None
) -> RawEncoding:
    encoding = guarded(lambda: backend.encode(text, add_special_tokens=False), "the text cannot be encoded", "encode")
    ids = np.array(encoding.ids, np.int64)
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    if form:
        offsets = bytetable.composed(offsets, text, form)
    return RawEncoding(ids, *bytetable.spans_from_chars(ids, offsets, text, data, table))


def utf8_or_raise(text: str) -> bytes:
    """Encode a text as UTF-8.

    Errors: UnencodableText with the character's index.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InspectorError(
            ErrorKind.UnencodableText,
            f"U+{ord(text[error.start]):04X} is a lone surrogate: it has no UTF-8 form",
            stage="encode",
            where={"char": error.start},
            remedy="remove it, or write the whole character",
        ) from error
