"""Tokenizers side by side on any text, and the differences between artifacts that bite without an error.

Pure functions of tokenizers, configurations and texts; only `loading_difference` runs transformers, and only when it is
called. Nothing is fetched, no template is rendered, no model is loaded.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspector.editscript import first_difference
from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import Tokenizer, TokenizerArtifact
from inspector.tokenizers.file_facts import remarks as file_remarks

if TYPE_CHECKING:
    import pandas

    from inspector.encode import Encoding


@dataclass(frozen=True, slots=True)
class VocabularyRow:
    """One tokenizer on the text. `boundaries`: byte offsets inside the text at which a token begins; `price`: per
    million tokens, in any currency, None where nobody gave one."""

    tokenizer: str
    input_ids: tuple[int, ...]
    pieces: tuple[bytes, ...]
    boundaries: tuple[int, ...]
    num_bytes: int
    price: float | None = None

    @property
    def num_tokens(self) -> int:
        """How many tokens the text costs."""
        return len(self.input_ids)

    @property
    def bytes_per_token(self) -> float | None:
        """How much text a token holds on average; None for no tokens."""
        return self.num_bytes / self.num_tokens if self.num_tokens else None

    @property
    def cost(self) -> float | None:
        """What the text costs at the given price."""
        return None if self.price is None else self.num_tokens * self.price / 1_000_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes between two boundaries that all tokenizers share, and how each cuts them. `cuts`: offsets in the text."""

    start: int
    end: int
    cuts: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several tokenizers on one text. `differing`: the stretches that they do not all cut the same."""

    text: str
    rows: tuple[VocabularyRow, ...]
    shared_boundaries: tuple[int, ...]
    differing: tuple[Stretch, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give `tokenizers/1`."""
        data = self.text.encode()
        return {
            "schema": "tokenizers/1",
            "text": self.text,
            "num_bytes": len(data),
            "num_chars": len(self.text),
            "rows": [_row_dict(row) for row in self.rows],
            "shared_boundaries": list(self.shared_boundaries),
            "differing": [
                {
                    "start": stretch.start,
                    "end": stretch.end,
                    "text": data[stretch.start : stretch.end].decode("utf-8", "backslashreplace"),
                    "cuts": {name: list(cuts) for name, cuts in stretch.cuts},
                }
                for stretch in self.differing
            ],
        }

    def to_frame(self) -> pandas.DataFrame:
        """Give one row a tokenizer: counts, bytes per token, price and cost, ids and pieces."""
        import pandas

        return pandas.DataFrame([_cells(row) for row in self.rows])

    def to_csv(self) -> str:
        """Give the table as CSV in which no cell is a formula to a spreadsheet."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow(_COLUMNS)
        for row in self.rows:
            writer.writerow([plain_cell(value) for value in _cells(row).values()])
        return out.getvalue()


_COLUMNS = ("tokenizer", "tokens", "bytes", "bytes_per_token", "price_per_million", "cost", "ids", "pieces")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def plain_cell(value: Any) -> str:
    """Spell a value so that a spreadsheet takes it as text, never as a formula; numbers stay numbers.

    >>> plain_cell("=1+1"), plain_cell(-2.5), plain_cell(None)
    ("'=1+1", '-2.5', '')
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    return "'" + text if text.startswith(_FORMULA) else text


def _row_dict(row: VocabularyRow) -> dict[str, Any]:
    return {
        "tokenizer": row.tokenizer,
        "num_tokens": row.num_tokens,
        "bytes_per_token": row.bytes_per_token,
        "ids": list(row.input_ids),
        "pieces": [piece.decode("utf-8", "backslashreplace") for piece in row.pieces],
        "bytes": [piece.hex() for piece in row.pieces],
        "boundaries": list(row.boundaries),
        "price": row.price,
        "cost": row.cost,
    }


def _cells(row: VocabularyRow) -> dict[str, Any]:
    pieces = json.dumps([piece.decode("utf-8", "backslashreplace") for piece in row.pieces], ensure_ascii=False)
    ids = " ".join(map(str, row.input_ids))
    values = (row.tokenizer, row.num_tokens, row.num_bytes, row.bytes_per_token, row.price, row.cost, ids, pieces)
    return dict(zip(_COLUMNS, values))


def side_by_side(
    text: str, tokenizers: Sequence[Tokenizer], *, prices: Mapping[str, float] | None = None, plain: bool = False
) -> SideBySide:
    """Tokenize one text with every tokenizer.

    `prices`: per million tokens, by tokenizer id. `plain`: control tokens in the text are text.
    Errors: UnencodableText; TokenizerInvalid from a library.
    """
    rows = tuple(_vocabulary_row(text, tokenizer, (prices or {}).get(tokenizer.id), plain) for tokenizer in tokenizers)
    sets = [set(row.boundaries) for row in rows]
    shared = sorted(set.intersection(*sets)) if sets else []
    edges = [0, *shared, len(text.encode())]
    differing = (_stretch(start, end, rows) for start, end in itertools.pairwise(edges) if start < end)
    return SideBySide(text, rows, tuple(shared), tuple(stretch for stretch in differing if stretch))


def _vocabulary_row(text: str, tokenizer: Tokenizer, price: float | None, plain: bool) -> VocabularyRow:
    raw = tokenizer.encode_plain(text) if plain else tokenizer.encode(text)
    ids = tuple(raw.input_ids.tolist())
    size = len(text.encode())
    begins = sorted({start for start in raw.start.tolist() if 0 < start < size})
    return VocabularyRow(tokenizer.id, ids, tuple(map(tokenizer.token_bytes, ids)), tuple(begins), size, price)


def _stretch(start: int, end: int, rows: Sequence[VocabularyRow]) -> Stretch | None:
    cuts = tuple((row.tokenizer, tuple(b for b in row.boundaries if start < b < end)) for row in rows)
    return Stretch(start, end, cuts) if any(inside for _name, inside in cuts) else None


# --- two tokenizers that should be one ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two encodings of one text part: the token's index, and what each side has from there (pieces)."""

    text: str
    index: int
    a: tuple[str, ...]
    b: tuple[str, ...]
    ids_a: tuple[int, ...]
    ids_b: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EncodingDifference:
    """How two tokenizers that should be one differ over many texts. `rules`: name, side a's, side b's."""

    num_texts: int
    differing: int
    first: FirstDifference | None
    rules: tuple[tuple[str, Any, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the counts, the first difference and the rules as JSON values."""
        first = self.first
        return {
            "num_texts": self.num_texts,
            "differing": self.differing,
            "first": first
            and {
                "text": first.text,
                "index": first.index,
                "a": list(first.a),
                "b": list(first.b),
                "ids_a": list(first.ids_a),
                "ids_b": list(first.ids_b),
            },
            "rules": [{"rule": name, "a": a, "b": b} for name, a, b in self.rules],
        }


_SHOWN = 8


def encoding_difference(a: Tokenizer, b: Tokenizer, texts: Iterable[str]) -> EncodingDifference:
    """Compare the ids of two tokenizers over texts, and the rules that they state (a GGUF's rebuilt ones with the
    original's, a converted one with its origin)."""
    pairs = [(text, a.encode(text).input_ids.tolist(), b.encode(text).input_ids.tolist()) for text in texts]
    return _difference(pairs, a.piece, b.piece, _differing_rules(rules_of(a), rules_of(b)))


def _difference(
    pairs: Sequence[tuple[str, list[int], list[int]]],
    piece_a: Any,
    piece_b: Any,
    rules: tuple[tuple[str, Any, Any], ...],
) -> EncodingDifference:
    unequal = [pair for pair in pairs if pair[1] != pair[2]]
    first = None
    if unequal:
        text, ids_a, ids_b = unequal[0]
        index = first_difference(ids_a, ids_b)
        near_a, near_b = ids_a[index : index + _SHOWN], ids_b[index : index + _SHOWN]
        first = FirstDifference(
            text, index, tuple(map(piece_a, near_a)), tuple(map(piece_b, near_b)), tuple(ids_a), tuple(ids_b)
        )
    return EncodingDifference(len(pairs), len(unequal), first, rules)


def rules_of(tokenizer: Any) -> dict[str, Any]:
    """Give what a tokenizer states about itself, apart from its vocabulary."""
    if hasattr(tokenizer, "stated_rules"):
        return tokenizer.stated_rules()
    if hasattr(tokenizer, "pattern"):
        return {"pattern": tokenizer.pattern, "normalizer": tokenizer.form}
    if hasattr(tokenizer, "processor"):
        spec = tokenizer.model
        names = ("kind", "normalizer", "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
        return {name: getattr(spec, name) for name in names}
    return {}


def _differing_rules(a: dict[str, Any], b: dict[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    names = dict.fromkeys([*a, *b])
    return tuple((name, a.get(name), b.get(name)) for name in names if a.get(name) != b.get(name))


def loading_difference(artifact: TokenizerArtifact, tokenizer: Tokenizer, texts: Iterable[str]) -> EncodingDifference:
    """Compare the file itself (side a) with what transformers' AutoTokenizer makes of the same files (side b).

    AutoTokenizer may rebuild normalizer and pre-tokenizer from a class name. Slow: it builds the tokenizer once more.
    Errors: TokenizerInvalid if AutoTokenizer cannot load the files.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file in artifact.files:
            target = Path(folder, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(file.path, target)
        auto = _auto_tokenizer(folder, artifact.ref)
    pairs = []
    for text in texts:
        theirs = auto(text, add_special_tokens=False)["input_ids"]
        pairs.append((text, tokenizer.encode(text).input_ids.tolist(), list(theirs)))
    name = type(auto).__name__
    return _difference(pairs, tokenizer.piece, auto.convert_ids_to_tokens, (("class", "tokenizer.json", name),))


def _auto_tokenizer(folder: str, ref: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a foreign configuration makes it raise
        raise InspectorError(
            ErrorKind.TokenizerInvalid,
            f"AutoTokenizer cannot load {ref[:120]!r}: {type(error).__name__}: {' '.join(str(error).split())[:200]}",
            stage="source",
            where={"ref": ref[:200]},
            remedy="load tokenizer.json itself, as this tool does",
        ) from error


# --- tokenizer and model -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VocabularySizes:
    """The three numbers that code mixes up, and what follows from them.

    `vocab_size`: without added tokens; `size`: with them (`len(tokenizer)`); `rows`: of the model's embedding matrix,
    None if not known; `dead_rows`: rows that are no token's; `outside`: added tokens whose id has no row.
    """

    vocab_size: int
    size: int
    rows: int | None
    dead_rows: int
    outside: tuple[tuple[int, str], ...]
    remarks: tuple[str, ...]


def vocabulary_sizes(tokenizer: Tokenizer, config: Mapping[str, Any] | None) -> VocabularySizes:
    """Compare the tokenizer's sizes with the model configuration (config.json); no weights are read."""
    rows = embedding_rows(config or {})
    remarks: list[str] = []
    outside: tuple[tuple[int, str], ...] = ()
    if rows is None:
        remarks.append("the configuration states no vocab_size")
    elif rows < tokenizer.size:
        outside = tuple((t.id, t.content) for t in tokenizer.added_tokens if t.id >= rows)
        remarks.append(f"ids {rows} to {tokenizer.size - 1} have no embedding row: they cannot be fed to the model")
    elif rows > tokenizer.size:
        remarks.append(f"ids {tokenizer.size} to {rows - 1} are rows without a token: logits may rank them")
        padded = -(-tokenizer.size // 64) * 64
        if padded < rows:
            remarks.append(
                f"resize_token_embeddings(len(tokenizer), pad_to_multiple_of=64) would shrink {rows} rows to {padded}"
            )
    dead = max(0, (rows or 0) - tokenizer.size)
    return VocabularySizes(tokenizer.vocab_size, tokenizer.size, rows, dead, outside, tuple(remarks))


def embedding_rows(config: Mapping[str, Any]) -> int | None:
    """Give the number of embedding rows that a config.json states; multimodal ones state it under text_config."""
    for table in (config, config.get("text_config"), config.get("llm_config")):
        value = table.get("vocab_size") if isinstance(table, Mapping) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


@dataclass(frozen=True, slots=True)
class EndTokens:
    """What ends a text, a generation and a turn: the tokenizer's EOS, generation_config's list, the template's
    terminator. Each is an id with its piece."""

    tokenizer_eos: tuple[int, str] | None
    generation_eos: tuple[tuple[int, str], ...]
    turn_terminator: tuple[int, str] | None
    remarks: tuple[str, ...]


def end_tokens(
    tokenizer: Tokenizer, generation_config: Mapping[str, Any] | None, turn_terminator: int | None
) -> EndTokens:
    """Compare the three. `turn_terminator`: what control.terminator gives for a render with an assistant message."""
    eos = tokenizer.special_token_ids.get("eos_token")
    listed = _eos_list((generation_config or {}).get("eos_token_id"))
    stops = set(listed) or ({eos} if eos is not None else set())
    remarks = []
    if turn_terminator is not None and stops and turn_terminator not in stops:
        named = ", ".join(repr(tokenizer.piece(i)) for i in sorted(stops))
        remarks.append(
            f"the template ends a turn with {tokenizer.piece(turn_terminator)!r}, generation stops only at {named}: "
            "it will run on past the turn"
        )
    if eos is not None and listed and eos not in listed:
        remarks.append(f"the tokenizer's EOS {tokenizer.piece(eos)!r} is not in generation_config.eos_token_id")
    remarks += [
        f"generation_config names the id {i}, which the tokenizer does not have" for i in listed if i >= tokenizer.size
    ]

    def named_id(token_id: int) -> tuple[int, str]:
        return token_id, tokenizer.piece(token_id)

    return EndTokens(
        None if eos is None else named_id(eos),
        tuple(map(named_id, listed)),
        None if turn_terminator is None else named_id(turn_terminator),
        tuple(remarks),
    )


def _eos_list(value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int) and not isinstance(item, bool)]


@dataclass(frozen=True, slots=True)
class BosRules:
    """Who writes BOS. `tokenizer_adds`: encoding with special tokens puts it first; `template_writes`: how many the
    render begins with, None without a render; `twice`: rendered text that is encoded again with special tokens has
    one too many."""

    bos: tuple[int, str] | None
    tokenizer_adds: bool
    template_writes: int | None
    twice: bool
    remarks: tuple[str, ...]


def bos_rules(tokenizer: Tokenizer, encoding: Encoding | None = None) -> BosRules:
    """Tell who writes BOS for this tokenizer and, with a render, for its template."""
    bos = tokenizer.special_token_ids.get("bos_token")
    first = tokenizer.encode("a", add_special_tokens=True).input_ids[:1].tolist()
    adds = bos is not None and first == [bos]
    writes = None if encoding is None else _leading(encoding.input_ids.tolist(), bos)
    twice = adds and bool(writes)
    remarks = []
    if twice:
        remarks.append("encode rendered text with add_special_tokens=False, or BOS stands twice")
    if bos is not None and writes == 0 and not adds and encoding is not None:
        remarks.append("neither the template nor the tokenizer writes BOS")
    return BosRules(None if bos is None else (bos, tokenizer.piece(bos)), adds, writes, twice, tuple(remarks))


def _leading(ids: Sequence[int], token_id: int | None) -> int:
    count = 0
    while token_id is not None and count < len(ids) and ids[count] == token_id:
        count += 1
    return count


_PROBES = (
    "hello world", "eBay pH 2026's", "x != y , ok", "天空为什么是蓝色？", "émoji 🌶 e\u0301", "  two  spaces\n\n\nand\tlines",
    "def f(x):\n    return x+1", "12345 007", "don't we'll", "Cửa Việt", "．ＡＢＣ", "",
)  # fmt: skip


def auto_tokenizer_difference(artifact: TokenizerArtifact) -> dict[str, Any] | None:
    """Compare with AutoTokenizer on a few telling texts; None for a family that it does not load.

    Only for pinned files: AutoTokenizer opens whatever a configuration names. It writes temporary links, which a
    sandboxed child may not.
    """
    from inspector.tokenizers import load_tokenizer

    if artifact.family != "fast":
        return None
    return loading_difference(artifact, load_tokenizer(artifact), _PROBES).to_dict()


def differences(
    artifact: TokenizerArtifact,
    tokenizer: Tokenizer,
    *,
    config: Mapping[str, Any] | None,
    generation_config: Mapping[str, Any] | None,
    encoding: Encoding | None,
) -> dict[str, Any]:
    """Give the differences that bite for one tokenizer as JSON values, apart from `auto_tokenizer_difference`.

    `encoding`: a render of a short chat with an answer by the tokenizer's own template, None where it has none.
    """
    from inspector.control import terminator

    end = None if encoding is None else terminator(encoding)
    pattern = pattern_remark(tokenizer)
    return {
        "tokenizer": {"ref": artifact.ref, "id": artifact.id, "digest": artifact.digest},
        "reconstructed": tokenizer.reconstructed,
        "sizes": asdict(vocabulary_sizes(tokenizer, config)),
        "ends": asdict(end_tokens(tokenizer, generation_config, end)),
        "bos": asdict(bos_rules(tokenizer, encoding)),
        "file": {"remarks": [text for _fact, text in file_remarks(tokenizer)]},
        "pattern": {"known": known_pattern(tokenizer), "remark": pattern},
    }


# --- known pre-tokenizer patterns ---------------------------------------------------------------------------------------

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CASED_CONTRACTED = "|".join(
    rf"[^\r\n\p{{L}}\p{{N}}]?{word}{_CONTRACTIONS}?" for word in (f"{_UPPER}*{_LOWER}+", f"{_UPPER}+{_LOWER}*")
)
PATTERNS: dict[str, str] = {
    rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}": "llama3",
    rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_REST}": "qwen2",
    rf"{_CASED}|\p{{N}}|{_SLASH}": "tekken",
    rf"{_CASED_CONTRACTED}|\p{{N}}{{1,3}}|{_SLASH}": "o200k",
}


def known_pattern(tokenizer: Any) -> str | None:
    """Name the pattern that splits text before the merges, if it is a well-known one."""
    return next((PATTERNS[pattern] for pattern in patterns_of(tokenizer) if pattern in PATTERNS), None)


def patterns_of(tokenizer: Any) -> list[str]:
    """Give the regular expressions of the pre-tokenizer."""
    if hasattr(tokenizer, "pattern"):
        return [tokenizer.pattern]
    steps = rules_of(tokenizer).get("pre_tokenizer") or []
    patterns = [step.get("pattern") for step in steps if isinstance(step, dict)]
    return [pattern["Regex"] for pattern in patterns if isinstance(pattern, dict) and "Regex" in pattern]


def pattern_remark(tokenizer: Any) -> str | None:
    """Say so if a Mistral vocabulary carries Llama 3's pattern, as wrongly converted files do."""
    named = f"{tokenizer.ref} {tokenizer.id}".lower()
    if known_pattern(tokenizer) == "llama3" and ("mistral" in named or "tekken" in named):
        return (
            "the pre-tokenizer has Llama 3's pattern, Mistral's tekken vocabularies were trained with another: mixed-case "
            "words, digits and apostrophes are split differently"
        )
    return None
