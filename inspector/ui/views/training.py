"""Labels, turn-by-turn prefixes and new special tokens; each part is asked for when it is opened.

training/ computes. Here its values get what the page needs to draw them: the text of every id, and no more than it draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views.base import View

MOST_STEPS = 64  # steps of a conversation that are compared on the page: every one is rendered and tokenized
MOST_NEW = 64
MOST_NEW_CHARS = 200
MOST_RESERVED = 300


def labels(found: Any, tokenizer: Any) -> dict[str, Any]:
    """Give `labels/1` without the labels themselves, which follow from ids and runs, and with the text of every id."""
    value = found.to_dict()
    del value["labels"]
    return {**value, "pieces": spelled(tokenizer, value["input_ids"]), "error": None}


def spelled(tokenizer: Any, ids: Iterable[int]) -> dict[int, list[str]]:
    """Give the text of each id, and how it is told: "text" for its bytes as UTF-8, "hex" for bytes that are no text.

    A control token is its literal.
    """
    rows: dict[int, list[str]] = {}
    for token_id in set(ids):
        data = tokenizer.token_bytes(token_id)
        try:
            rows[token_id] = ["text", data.decode("utf-8") or tokenizer.piece(token_id)]
        except UnicodeDecodeError:
            rows[token_id] = ["hex", data.hex(" ")]
    return rows


def checked_tokens(tokens: Any) -> list[str]:
    """Give the literals of new tokens.

    Errors: InputInvalid for another shape; InputTooLarge.
    """
    if not isinstance(tokens, list) or not all(isinstance(text, str) for text in tokens):
        raise _invalid("these are no tokens", "write one a line")
    if len(tokens) > MOST_NEW or any(len(text) > MOST_NEW_CHARS for text in tokens):
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{len(tokens)} tokens were given; the page plans up to {MOST_NEW}, of {MOST_NEW_CHARS} characters each",
            stage="tensors",
            remedy="give fewer or shorter ones",
        )
    return tokens


def vocabulary(planned: Any, tokenizer: Any, given: list[str]) -> dict[str, Any]:
    """Give `vocabulary/1` with what each token is today, and few of the reserved slots."""
    value = planned.to_dict()
    today = []
    for text in given:
        ids = tokenizer.encode(text).input_ids.tolist()
        today.append({"content": text, "ids": ids, "pieces": [tokenizer.piece(token_id) for token_id in ids]})
    reserved = value["reserved"]
    return {**value, "today": today, "reserved": reserved[:MOST_RESERVED], "num_reserved": len(reserved), "error": None}


def _invalid(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.InputInvalid, message, stage="tensors", remedy=remedy)


VIEW = View("training")
