"""Family `mistral`: Mistral's vocabularies, whose formats encode a request themselves, without a text in between.

The vocabulary is a SentencePiece model or a tekken file, run by sentencepiece or tiktoken. The format (which control
ids stand where, what is joined and what is left out) is mistral-common's own: its encoder runs, and this module only
watches which texts it encodes, in order, to tell where each id came from. It renders no Jinja template and shows no
text that nobody wrote: control ids have no textual form that the encoder would read.
"""

from __future__ import annotations

import base64
import copy
import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from inspector import meter
from inspector.errors import ErrorKind, InspectorError
from inspector.provenance import SegmentKind, plain
from inspector.sources.cache import read_verified
from inspector.tokenizers.base import AddedToken, ArtifactFile, RawEncoding, TokenizerArtifact
from inspector.tokenizers.bytetable import ByteTable, byte_of_char, spans_from_ends
from inspector.tokenizers.config import invalid, parse_object
from inspector.tokenizers.fast import guarded, utf8_or_raise
from inspector.tokenizers.mistral_origins import Stretch, Watcher, describe_calls
from inspector.tokenizers.sentencepieces import SentencePieceTokenizer

if TYPE_CHECKING:
    from inspector.messages import Conversation
    from inspector.render import Rendered


def load(artifact: TokenizerArtifact) -> SentencePieceMistral | TekkenMistral:
    """Build the tokenizer of a Mistral vocabulary file; its name says the version, as mistral-common reads it.

    Errors: TokenizerInvalid, ArtifactMismatch.
    """
    if len(artifact.files) != 1:
        raise invalid("a Mistral vocabulary is one file", {"ref": artifact.ref})
    file = artifact.files[0]
    if file.name.endswith(".json"):
        return TekkenMistral(artifact, file)
    return SentencePieceMistral(artifact, file)


class _Format:
    """What both vocabularies share: the request encoder, loaded when a request first comes."""

    _file: ArtifactFile
    special_token_ids: dict[str, int]
    control_needs_template = True

    @functools.cached_property
    def _library(self: Any) -> Any:
        with meter.loading(self.id):
            return self._loaded_library()

    def _loaded_library(self: Any) -> Any:
        try:
            from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
        except ImportError as error:
            raise InspectorError(
                ErrorKind.ArtifactUnavailable,
                "the library mistral-common is not installed",
                stage="render",
                remedy="pip install mistral-common sentencepiece",
            ) from error
        read_verified(self._file)
        return guarded(lambda: MistralTokenizer.from_file(Path(self._file.path)), "mistral-common cannot load the file")

    def render_request(
        self: Any,
        conversation: Conversation,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool | str = False,
    ) -> Rendered:
        """Encode a request as mistral-common's `encode_chat_completion` does; give ids with the origin of each.

        `add_generation_prompt` makes no difference: no Mistral format has such a prompt.
        Errors: InputInvalid (the library refuses the request), OptionInvalid (documents, template arguments).
        """
        _refuse_extras(conversation)
        library = self._library
        watcher = Watcher(library.instruct_tokenizer.tokenizer)
        instruct = copy.copy(library.instruct_tokenizer)
        instruct.tokenizer = watcher
        ids = _library_ids(library, instruct, conversation, bool(continue_final_message))
        stretches = describe_calls(ids, watcher.calls, conversation, self)
        return _rendered(ids, stretches, self, library.version.value)


def _refuse_extras(conversation: Conversation) -> None:
    given = [
        name for name, value in (("documents", conversation.documents), ("arguments", conversation.kwargs)) if value
    ]
    if given:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"Mistral's own formats take no {' and no '.join(given)}",
            stage="render",
            where={"field": given[0]},
            remedy="leave them out, or choose a Jinja template, which can use them",
        )


def _library_ids(library: Any, instruct: Any, conversation: Conversation, continued: bool) -> list[int]:
    """Run the library's own steps: convert, validate, normalise, encode."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    try:
        request = ChatCompletionRequest.from_openai(
            plain(conversation.messages), tools=plain(conversation.tools) or None, continue_final_message=continued
        )
        validated = library._chat_completion_request_validator.validate_request(request)
        normalised = library._instruct_request_normalizer.from_chat_completion_request(validated)
        return [int(token_id) for token_id in instruct.encode_instruct(normalised).tokens]
    except (InspectorError, MemoryError):
        raise
    except Exception as error:  # the library refuses with its own, pydantic's and assertion errors
        _raise_refusal(error)


def _raise_refusal(error: Exception) -> NoReturn:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = "; ".join(lines[:3])[:300] or type(error).__name__
    raise InspectorError(
        ErrorKind.InputInvalid,
        f"mistral-common refuses the request: {reason}",
        stage="render",
        where={"exception": type(error).__name__},
        remedy="change the messages or tools as the message says",
    ) from error


def _rendered(ids: list[int], stretches: Sequence[Stretch], tokenizer: Any, version: str) -> Rendered:
    from inspector.render import Rendered, Segments

    rows = _runs(stretches)
    paths = tuple(dict.fromkeys(row.path for row in rows if row.path))
    index = {path: number for number, path in enumerate(paths)}
    zeros = np.zeros(len(rows), np.int64)
    segments = Segments(
        start=zeros,
        end=zeros,
        kind=np.array([int(row.kind) for row in rows], np.uint8),
        line=np.zeros(len(rows), np.int32),
        path=np.array([index.get(row.path, -1) if row.path else -1 for row in rows], np.int32),
        field_start=np.array([row.field_start for row in rows], np.int64),
        paths=paths,
        ids=tuple(row.ids for row in rows),
    )
    name = f"mistral-common {_library_version()}, format {version}"
    unknown = any(row.kind is SegmentKind.UNKNOWN for row in rows)
    return Rendered(
        kind="token_segments",
        text="",
        utf8=b"",
        sha256=hashlib.sha256(np.array(ids, "<u4").tobytes()).hexdigest(),
        template_id=f"{tokenizer.id} ({version})",
        template_digest=hashlib.sha256(name.encode()).hexdigest(),
        segments=segments,
        provenance="unknown" if unknown else "traced",
        provenance_note="the format rewrote a field before it was encoded" if unknown else "",
        assistant_spans=_assistant_spans(stretches),
        assistant_from="provenance",
    )


def _library_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("mistral-common")


@dataclass(frozen=True, slots=True)
class _Row:
    kind: SegmentKind
    path: str | None
    field_start: int
    ids: tuple[int, ...]


def _runs(stretches: Iterable[Stretch]) -> list[_Row]:
    """Join neighbouring tokens of one origin; a token that begins a field again begins a row."""
    rows: list[_Row] = []
    for stretch in stretches:
        last = rows[-1] if rows else None
        same = last is not None and (last.kind, last.path) == (stretch.kind, stretch.path)
        if same and last is not None and stretch.kind is not SegmentKind.SPECIAL:
            rows[-1] = _Row(last.kind, last.path, last.field_start, (*last.ids, stretch.id))
        else:
            rows.append(_Row(stretch.kind, stretch.path, stretch.field_start, (stretch.id,)))
    return rows


def _assistant_spans(stretches: Sequence[Stretch]) -> tuple[tuple[int, int], ...]:
    """Give the token ranges that the model writes: an assistant message's tokens up to its end mark."""
    spans: list[tuple[int, int]] = []
    for index, stretch in enumerate(stretches):
        if not stretch.assistant:
            continue
        if spans and spans[-1][1] == index:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return tuple(spans)


class SentencePieceMistral(_Format, SentencePieceTokenizer):
    """A SentencePiece vocabulary of Mistral. Control pieces come only from the format, never from text."""

    def __init__(self, artifact: TokenizerArtifact, file: ArtifactFile) -> None:
        super().__init__(artifact, read_verified(file))
        self._file = file

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode as the library's text tokenizer does; `add_special_tokens` puts BOS first (`bos=True`)."""
        raw = super().encode(text)
        return with_bos(raw, self.special_token_ids["bos_token"]) if add_special_tokens else raw


def with_bos(raw: RawEncoding, bos: int) -> RawEncoding:
    """Put BOS, which stands for no byte, before the ids."""
    return RawEncoding(
        np.concatenate([[bos], raw.input_ids]), np.concatenate([[0], raw.start]), np.concatenate([[0], raw.end])
    )


class _Tekken(NamedTuple):
    ranks: dict[bytes, int]
    special: tuple[tuple[int, str, bool], ...]
    pattern: str
    vocab_size: int


_DEFAULT_SPECIAL = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [IMG] "
    "<pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()


def read_tekken(data: bytes, name: str) -> _Tekken:
    """Read a tekken file: ranks, special tokens (the standard ones where the file lists none), pattern.

    Errors: TokenizerInvalid naming what is wrong.
    """
    table = parse_object(data, name, None)  # a vocabulary; only a child reads it
    try:
        config = table["config"]
        size, num_special = int(config["default_vocab_size"]), int(config["default_num_special_tokens"])
        listed = table.get("special_tokens")
        special = [(int(t["rank"]), str(t["token_str"]), bool(t["is_control"])) for t in listed or ()]
        if listed is None:
            special = [(i, text, True) for i, text in enumerate(_DEFAULT_SPECIAL)]
        special += [(i, f"<SPECIAL_{i}>", True) for i in range(len(special), num_special)]
        entries = table["vocab"][: size - num_special]
        ranks = {base64.b64decode(entry["token_bytes"]): int(entry["rank"]) for entry in entries}
        pattern = str(config["pattern"])
    except (KeyError, TypeError, ValueError) as error:
        raise invalid(f"{name} is no tekken file: {type(error).__name__} {error}", {"file": name}) from error
    if sorted(ranks.values()) != list(range(size - num_special)) or sorted(t[0] for t in special) != list(
        range(num_special)
    ):
        raise invalid(f"{name}: the ranks are not the numbers from 0 up, each once", {"file": name})
    return _Tekken(ranks, tuple(special), pattern, size)


_TEKKEN_NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_CHAR_OF_BYTE = {byte: char for char, byte in byte_of_char().items()}


class TekkenMistral(_Format):
    """A tekken vocabulary: byte-pair ranks after a block of control ids."""

    reconstructed = False
    byte_pieces = True
    form = None

    def __init__(self, artifact: TokenizerArtifact, file: ArtifactFile) -> None:
        import tiktoken

        self.ref, self.id, self.digest = artifact.ref, artifact.id, artifact.digest
        self.files = {file.name: file.sha256}
        self.model_max_length = artifact.context_window
        self.chat_templates: dict[str, str] = {}
        self._file = file
        table = read_tekken(read_verified(file), file.name)
        self.ranks, self.pattern, self.num_special = table.ranks, table.pattern, len(table.special)
        self._encoding = guarded(
            lambda: tiktoken.Encoding("tekken", pat_str=table.pattern, mergeable_ranks=table.ranks, special_tokens={}),
            "tiktoken cannot build the encoding",
        )
        self.size = self.vocab_size = table.vocab_size
        self.added_tokens = tuple(AddedToken(i, text, special=control) for i, text, control in table.special)
        ids = {text: i for i, text, _control in table.special}
        self.special_tokens = {name: text for name, text in _TEKKEN_NAMES.items() if text in ids}
        self.special_token_ids = {name: ids[text] for name, text in self.special_tokens.items()}
        pieces = [text.encode() for _i, text, _control in sorted(table.special)] + [b""] * len(table.ranks)
        for piece, rank in table.ranks.items():
            pieces[rank + self.num_special] = piece
        self._bytes = ByteTable(pieces)

    def encode(
        self, text: str, *, add_special_tokens: bool = False, content: Sequence[tuple[int, int]] = ()
    ) -> RawEncoding:
        """Encode as the library's text tokenizer does: control tokens are no text."""
        utf8_or_raise(text)
        ranks = guarded(lambda: self._encoding.encode_to_numpy(text, disallowed_special=()), "tiktoken")
        ids = ranks.astype(np.int64) + self.num_special
        raw = RawEncoding(ids, *spans_from_ends(self._bytes.ends(ids)))
        return with_bos(raw, self.special_token_ids["bos_token"]) if add_special_tokens else raw

    def encode_plain(self, text: str, *, first: bool = True) -> RawEncoding:
        """Encode as `encode` does: nothing in a text is a control token."""
        return self.encode(text)

    def encode_stretch(self, text: str, *, first: bool) -> RawEncoding:
        """Encode as `encode` does."""
        return self.encode(text)

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes of an id."""
        return self._bytes.pieces[token_id] if 0 <= token_id < self.size else b""

    def piece(self, token_id: int) -> str:
        """Spell an id: a control token by its name, others in the byte-level alphabet."""
        data = self.token_bytes(token_id)
        if token_id < self.num_special:
            return data.decode()
        return "".join(_CHAR_OF_BYTE[byte] for byte in data)

    def is_byte_fallback(self, token_id: int) -> bool:
        """Say False: every byte is an ordinary token here."""
        return False

    def decode(self, ids: Sequence[int]) -> bytes:
        """Join the bytes of the ids."""
        return self._bytes.join([i for i in ids if 0 <= i < self.size])
