"""What a tokenizer.json says and loading passes over in silence: cuts, padding, moved ids, keys that stand twice.

Nothing here loads a tokenizer; `remarks` puts the facts into words for the rules and for `differences`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_SHOWN = 4
Fact = Literal["truncates", "pads", "id-moved", "id-shared", "key-twice", "key-ignored"]


@dataclass(frozen=True, slots=True)
class CutsAndPads:
    """The truncation and the padding of a tokenizer.json, as the library states them; None where it has none."""

    truncation: Mapping[str, Any] | None = None
    padding: Mapping[str, Any] | None = None

    @property
    def longest(self) -> int | None:
        """The number of tokens to which the file cuts a text."""
        return None if self.truncation is None else int(self.truncation["max_length"])

    @property
    def padded_to(self) -> int | None:
        """The number of tokens to which the file fills every text up; None where it pads a batch to its longest."""
        return None if self.padding is None else self.padding.get("length")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What only the file's own text tells. `moved`: content, the id that the file states, the one that it gets.
    `twice`: a key with its first and its last value, shortened; loading takes the last."""

    moved: tuple[tuple[str, int, int | None], ...] = ()
    twice: tuple[tuple[str, str, str], ...] = ()


def read_facts(data: bytes, id_of: Callable[[str], int | None]) -> FileFacts:
    """Read the facts of a tokenizer.json that was loaded. `id_of`: the id that a token has there."""
    twice: list[tuple[str, str, str]] = []

    def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            first = dict(reversed(pairs))
            seen: set[str] = set()
            again = dict.fromkeys(key for key, _value in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            twice.extend((key, _short(first[key]), _short(table[key])) for key in again)
        return table

    table = json.loads(data, object_pairs_hook=joined)
    entries = table.get("added_tokens") or ()
    stated = [(entry["content"], entry["id"]) for entry in entries if type(entry.get("id")) is int]
    moved = ((content, said, id_of(content)) for content, said in stated)
    return FileFacts(tuple(entry for entry in moved if entry[1] != entry[2]), tuple(twice))


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value):,}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"


def remarks(tokenizer: Any, *, reading: bool = True) -> list[tuple[Fact, str]]:
    """Say what a tokenizer's file holds that bites; nothing for a family without a tokenizer.json.

    `reading` False leaves out what only reading the file once more can tell.
    """
    carried: CutsAndPads = getattr(tokenizer, "cuts_and_pads", CutsAndPads())
    found: list[tuple[Fact, str]] = []
    if carried.truncation is not None:
        side = str(carried.truncation.get("direction", "right"))
        found.append(("truncates", f"tokenizer.json carries truncation to {carried.longest} tokens (on the {side})"))
    if carried.padded_to is not None:
        found.append(("pads", f"tokenizer.json carries padding: every text is filled up to {carried.padded_to} tokens"))
    elif carried.padding is not None and (carried.padding.get("pad_to_multiple_of") or 1) > 1:
        multiple = carried.padding["pad_to_multiple_of"]
        found.append(
            ("pads", f"tokenizer.json carries padding: every text is filled up to a multiple of {multiple} tokens")
        )
    found += [("key-ignored", f"tokenizer_config.json has {_quoted(key)}: {_short(value)}, which is not read")
              for key, value in getattr(tokenizer, "ignored_keys", ())]  # fmt: skip
    found += [("id-shared", text) for text in shared(getattr(tokenizer, "shared_ids", {}))]
    facts: FileFacts = getattr(tokenizer, "file_facts", FileFacts()) if reading else FileFacts()
    found += [("id-moved", text) for text in _moved(facts.moved)]
    found += [("key-twice", f"tokenizer.json has the key {_quoted(key)} twice: first {first}, last {last}, which counts")
              for key, first, last in facts.twice[:_SHOWN]]  # fmt: skip
    return found


def shared(ids: Mapping[int, Sequence[str]]) -> list[str]:
    """Say which tokens share an id."""
    said = [
        f"{len(pieces)} tokens share the id {token_id}: {_quoted(pieces[0])} … {_quoted(pieces[-1])}"
        for token_id, pieces in list(ids.items())[:_SHOWN]
    ]
    return said + ([f"{len(ids) - _SHOWN} more ids are shared"] if len(ids) > _SHOWN else [])


def _moved(moved: Sequence[tuple[str, int, int | None]]) -> list[str]:
    said = [
        f"tokenizer.json gives {_quoted(content)} the id {stated}, it is loaded as {'none' if got is None else got}"
        for content, stated, got in moved[:_SHOWN]
    ]
    return said + ([f"{len(moved) - _SHOWN} more added tokens get another id"] if len(moved) > _SHOWN else [])


def _quoted(text: str) -> str:
    return json.dumps(text if len(text) <= 40 else f"{text[:39]}…", ensure_ascii=False)
