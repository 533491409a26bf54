"""The mark that ends a turn does not end generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    tokenizer, end = subject.tokenizer, subject.turn_end
    if tokenizer is None or end is None:
        return
    listed = subject.evidence.generation_config.get("eos_token_id")
    ids = _ids(listed, tokenizer)
    stops = set(ids) or {subject.special_id("eos_token")} - {None}
    if not stops or end in stops:
        return
    named = ", ".join(f"{tokenizer.piece(item)} ({item})" for item in sorted(stops))  # type: ignore[type-var,arg-type]
    source = "generation_config.json stops" if ids else "the tokenizer's EOS, and so generation, stops"
    message = f"turns end with {tokenizer.piece(end)} ({end}); {source} only at {named}"
    yield RULE.finding(message, {}, severity=Severity.ERROR if ids else Severity.WARNING)


def _ids(listed: Any, tokenizer: Any) -> list[int]:
    """Read eos_token_id: an id, a list of ids, or (as people write it) the text of a special token."""
    by_text = {token.content: token.id for token in tokenizer.added_tokens}
    items = listed if isinstance(listed, list) else [listed]
    found = [by_text.get(item) if isinstance(item, str) else item for item in items]
    return [item for item in found if isinstance(item, int) and not isinstance(item, bool)]


RULE = Rule(
    id="turn-end-not-eos",
    topic="special-tokens",
    severity=Severity.WARNING,
    title="the mark that ends an assistant turn is not among the ids that stop generation",
    why="generation runs to its limit and opens new turns",
    remedy="add the turn's end to eos_token_id in generation_config.json, or pass it as a stop token",
    check=check,
)
