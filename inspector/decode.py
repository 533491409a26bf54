"""Decode ids one at a time, as a stream must: a push gives what is settled, and keeps back what the next id decides.

The truth here is bytes: nothing is replaced by U+FFFD, and nothing is cleaned up that the decoder itself would leave.
What a library's `decode` would show otherwise (clean-up, a lone id, skipped special tokens) is told beside it. Nothing
is generated and no text is encoded.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import Tokenizer


class Joining(enum.Enum):
    """What a family's decoder does between and before pieces."""

    BYTES = "bytes"  # pieces one after the other
    STRIP_FIRST_SPACE = "strip_first_space"  # the space that encoding put before the text is taken away again
    WORDS = "words"  # WordPiece: a space before every piece that does not continue a word, punctuation cleaned up


def joining_of(tokenizer: Any) -> Joining:
    """Tell how the tokenizer's decoder joins pieces."""
    if hasattr(tokenizer, "processor"):
        spec = tokenizer.model
        return Joining.STRIP_FIRST_SPACE if spec.add_dummy_prefix or spec.remove_extra_whitespaces else Joining.BYTES
    if not hasattr(tokenizer, "decoder_steps"):
        return Joining.BYTES
    for step in tokenizer.decoder_steps():
        if step.get("type") == "WordPiece":
            return Joining.WORDS
        if step.get("type") == "Strip" and step.get("content") == " " and step.get("start", 0) > 0:
            return Joining.STRIP_FIRST_SPACE
        if step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never":
            return Joining.STRIP_FIRST_SPACE
    return Joining.BYTES


class IncrementalDecoder:
    """Turns ids into bytes, one push at a time; what is pushed joins to what `decode_whole` gives.

    A push gives whole characters, and bytes that no further byte can make a character; it keeps an unfinished
    character. Not to be shared between threads.

    >>> from inspector.sources import resolve_tokenizer
    >>> from inspector.tokenizers import load_tokenizer
    >>> decoder = IncrementalDecoder(load_tokenizer(resolve_tokenizer("bytes")))
    >>> [decoder.push(byte) for byte in "é!".encode()], decoder.finish()
    ([b'', b'\\xc3\\xa9', b'!'], b'')
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = False) -> None:
        self._joiner = _Joiner(tokenizer, skip_special_tokens)
        self._held = b""

    @property
    def held(self) -> bytes:
        """The bytes that are kept back: the beginning of a character."""
        return self._held

    def push(self, token_id: int) -> bytes:
        """Take one id; give the bytes that are settled by it.

        Errors: InputInvalid for an id that the tokenizer does not have.
        """
        data = self._held + self._joiner.next(token_id)
        settled = len(data) - unfinished(data)
        self._held = data[settled:]
        return data[:settled]

    def finish(self, *, strict: bool = True) -> bytes:
        """End the stream; give the remaining bytes.

        Errors: InputInvalid if they are the beginning of a character; with `strict` False they are given as they are.
        """
        rest, self._held = self._held, b""
        if rest and strict:
            raise InspectorError(
                ErrorKind.InputInvalid,
                f"the ids end inside a character: {rest.hex(' ')} is only its beginning",
                stage="decode",
                where={"bytes": rest.hex()},
                remedy="wait for the next id, or call finish(strict=False) for the bytes themselves",
            )
        return rest


def decode_whole(ids: Iterable[int], tokenizer: Tokenizer, *, skip_special_tokens: bool = False) -> bytes:
    """Decode all ids at once, as the family's decoder joins them, without clean-up.

    Errors: InputInvalid for an id that the tokenizer does not have.
    """
    joiner = _Joiner(tokenizer, skip_special_tokens)
    return b"".join(joiner.next(token_id) for token_id in ids)


def unfinished(data: bytes) -> int:
    """Count the bytes at the end that may still become a character.

    >>> unfinished("é".encode()[:1]), unfinished(b"a"), unfinished(b"\\xe5\\xa4"), unfinished(b"\\xe5\\xff")
    (1, 0, 2, 0)
    """
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            return back if _may_begin(data[-back:]) else 0
        if byte < 0x80:
            return 0
    return 0


def _may_begin(data: bytes) -> bool:
    """Say whether the bytes are a proper beginning of some character (no surrogates, nothing over U+10FFFF)."""
    lead = data[0]
    size = 2 if 0xC2 <= lead <= 0xDF else 3 if 0xE0 <= lead <= 0xEF else 4 if 0xF0 <= lead <= 0xF4 else 0
    if len(data) >= size:
        return False
    low, high = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}.get(lead, (0x80, 0xBF))
    return len(data) == 1 or low <= data[1] <= high


class _Joiner:
    """Gives the bytes that each id adds."""

    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._joining = joining_of(tokenizer)
        self._special = frozenset(token.id for token in tokenizer.added_tokens if token.special)
        self._skip = skip_special_tokens
        self._prefix, self._cleans = _word_rules(tokenizer) if self._joining is Joining.WORDS else ("", False)
        self._first = True

    def next(self, token_id: int) -> bytes:
        """Give the bytes of the next id."""
        if not 0 <= token_id < self._tokenizer.size:
            raise InspectorError(
                ErrorKind.InputInvalid,
                f"{self._tokenizer.id} has no id {token_id}: its ids are below {self._tokenizer.size}",
                stage="decode",
                where={"token": token_id},
                remedy="decode with the tokenizer that made the ids",
            )
        special = token_id in self._special
        if special and self._skip:
            return b""
        data = self._tokenizer.token_bytes(token_id)
        first, self._first = self._first, False
        if self._joining is Joining.WORDS:
            continues = bool(self._prefix) and self._tokenizer.piece(token_id).startswith(self._prefix)
            joined = data if first or continues else b" " + data
            return clean_up(joined.decode("utf-8", "replace")).encode() if self._cleans else joined
        if self._joining is Joining.STRIP_FIRST_SPACE:
            if special:
                self._first = first  # a control token is no text: the space after it still begins the text
            elif first and data[:1] == b" ":
                return data[1:]
        return data


def _word_rules(tokenizer: Any) -> tuple[str, bool]:
    """Give the mark of a continuing piece, and whether the decoder cleans each piece up (WordPiece does so by itself)."""
    step = next(step for step in tokenizer.decoder_steps() if step.get("type") == "WordPiece")
    return str(step["prefix"]), step.get("cleanup") is True


# --- what a stream shows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamStep:
    """One id of a stream.

    `shown`: the text that becomes visible with it; `held`: bytes kept back as the beginning of a character;
    `held_for_stop`: text kept back because a stop string may begin with it; `alone`: what `decode([id])` shows;
    `alone_is_wrong`: that this is not what the id adds; `skipped`: left out as a special token; `stopped_by`: the stop
    string that ended the stream here ("" if none did).
    """

    index: int
    id: int
    piece: str
    held: bytes
    bytes: bytes
    shown: str
    held_for_stop: str
    alone: str
    alone_is_wrong: bool
    skipped: bool
    stopped_by: str

    def to_dict(self) -> dict[str, Any]:
        """Give the step with its bytes in hex."""
        return {
            "index": self.index,
            "id": self.id,
            "piece": self.piece,
            "bytes": self.bytes.hex(),
            "shown": self.shown,
            "held": self.held.hex(),
            "held_for_stop": self.held_for_stop,
            "alone": self.alone,
            "alone_is_wrong": self.alone_is_wrong,
            "skipped": self.skipped,
            "stopped_by": self.stopped_by,
        }


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of ids as it was shown.

    `text`: what was shown, up to the stop string; `leftover`: bytes of a character that the ids do not finish;
    `with_special_tokens`, `without_special_tokens`: the whole text either way; `cleaned`: what
    clean_up_tokenization_spaces makes of the text; `alone`: the texts of single ids one after the other.
    """

    steps: tuple[StreamStep, ...]
    text: str
    leftover: bytes
    with_special_tokens: str
    without_special_tokens: str
    cleaned: str
    alone: str

    @property
    def stopped_by(self) -> str:
        """The stop string that ended the stream, or ""."""
        return self.steps[-1].stopped_by if self.steps else ""

    def to_dict(self) -> dict[str, Any]:
        """Give `stream/1`."""
        return {
            "schema": "stream/1",
            "steps": [step.to_dict() for step in self.steps],
            "text": self.text,
            "leftover": self.leftover.hex(),
            "stopped_by": self.stopped_by,
            "with_special_tokens": self.with_special_tokens,
            "without_special_tokens": self.without_special_tokens,
            "cleaned": self.cleaned,
            "clean_up_changes": self.cleaned != self.text,
            "alone": self.alone,
            "alone_is_wrong": self.alone != self.text,
        }


def stream_steps(
    ids: Sequence[int],
    tokenizer: Tokenizer,
    *,
    skip_special_tokens: bool = False,
    stop_strings: Sequence[str] = (),
) -> Stream:
    """Step through the ids as a stream would show them.

    A stop string is found wherever its text ends, also in the middle of a token and across tokens; its own text is not
    shown, and nothing after it is. Errors: InputInvalid for an id that the tokenizer does not have.
    """
    steps = tuple(_steps(ids, tokenizer, skip_special_tokens, [stop for stop in stop_strings if stop]))
    text = "".join(step.shown for step in steps)
    whole, plain = (decode_whole(ids, tokenizer, skip_special_tokens=skip) for skip in (False, True))
    stopped = bool(steps and steps[-1].stopped_by)
    return Stream(
        steps,
        text,
        b"" if stopped or not steps else steps[-1].held,
        _text(whole),
        _text(plain),
        clean_up(text),
        "".join(step.alone for step in steps),
    )


def _steps(ids: Sequence[int], tokenizer: Tokenizer, skip: bool, stops: list[str]) -> Iterator[StreamStep]:
    decoder = IncrementalDecoder(tokenizer, skip_special_tokens=skip)
    special = frozenset(token.id for token in tokenizer.added_tokens if token.special)
    waiting = ""
    for index, token_id in enumerate(ids):
        held_before = decoder.held
        settled = decoder.push(token_id)
        visible, waiting, stop = _until_stop(waiting + _text(settled), stops)
        if index == len(ids) - 1 and not stop:
            visible, waiting = visible + waiting, ""
        alone = _text(decode_whole([token_id], tokenizer, skip_special_tokens=skip))
        added = settled + decoder.held
        yield StreamStep(
            index=index,
            id=token_id,
            piece=tokenizer.piece(token_id),
            bytes=tokenizer.token_bytes(token_id),
            shown=visible,
            held=decoder.held,
            held_for_stop=waiting,
            alone=alone,
            alone_is_wrong=alone.encode() != added[len(held_before) :],
            skipped=skip and token_id in special,
            stopped_by=stop,
        )
        if stop:
            return


def _until_stop(text: str, stops: Sequence[str]) -> tuple[str, str, str]:
    """Give what may be shown, what must wait, and the stop string that came first ("" if none did)."""
    found = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if found:
        at, stop = min(found, key=lambda entry: (entry[0] + len(entry[1]), entry[0]))
        return text[:at], "", stop
    longest = max((_overlap(text, stop) for stop in stops), default=0)
    return text[: len(text) - longest], text[len(text) - longest :], ""


def _overlap(text: str, stop: str) -> int:
    """Count the characters at the end of the text that may be the beginning of the stop string."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


CLEANED = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"),
            (" 've", "'ve"), (" 're", "'re"))  # fmt: skip


def clean_up(text: str) -> str:
    """Do what clean_up_tokenization_spaces does: take spaces before punctuation and contractions away.

    transformers 5 ignores the flag for byte-pair vocabularies, with a warning; older versions applied it.

    >>> clean_up("x != y , ok")
    'x!= y, ok'
    """
    for spaced, joined in CLEANED:
        text = text.replace(spaced, joined)
    return text
