"""Answers of the named endpoints as the text that goes out, made in a child: short where that was asked, refused where too
long, and nothing that cannot be sent. The process that serves hands it on and reads none of it.
"""

from __future__ import annotations

import re
from typing import Any

from inspector import limits
from inspector.errors import ErrorKind
from inspector.request import dump_request

BRIEF_TEXT = 2000  # characters of the rendered text in a brief answer
LISTS = ("tokens", "input_ids", "attention_mask", "position_ids", "assistant_mask", "safe_input_ids")
_SURROGATE = re.compile("[\ud800-\udfff]")  # as an escape, JSON text can be sent


def escaped(text: str) -> str:
    """Write lone surrogates of JSON text as escapes, which can be sent."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def text_of(value: dict[str, Any], *, brief: bool, most: int, has_brief: bool) -> str:
    """Give an answer as JSON text.

    Errors: OutputTooLarge above `most` characters.
    """
    text = escaped(dump_request(shortened(value) if brief else value))
    if len(text) > most:
        what = f"the answer has {len(text):,} characters; the limit is {most:,}"
        remedy = "set brief, or send a shorter request" if has_brief else "send a shorter request"
        raise limits.over("api_chars", what, ErrorKind.OutputTooLarge, "sandbox", remedy, {"limit": most})
    return text


def shortened(value: dict[str, Any]) -> dict[str, Any]:
    """Give `inspection/1` or `comparison/1` without what has an entry a token, as `inspection-brief/1` or
    `comparison-brief/1`."""
    if value["schema"] == "comparison/1":
        kept = {key: entry for key, entry in value.items() if key != "token_diff"}
        return {**kept, "schema": "comparison-brief/1", "a": shortened(value["a"]), "b": shortened(value["b"])}
    kept = {key: entry for key, entry in value.items() if key not in (*LISTS, "request")}
    ids, rendered = value["input_ids"], value["rendered"]
    if rendered is not None:
        text = rendered["text"]
        cut = None if text is None else text[:BRIEF_TEXT]
        rendered = {
            **{key: entry for key, entry in rendered.items() if key != "segments"},
            "text": cut,
            "cut": cut != text,
        }
    return {
        **kept,
        "schema": "inspection-brief/1",
        "num_tokens": None if ids is None else len(ids),
        "rendered": rendered,
    }
