"""The request within the lines of a server's log: llama.cpp, vLLM, SGLang, or any line that ends in a JSON body.

Known are the words that these servers put before a request. A text without them is no log line. The value is found here;
what it means is decided by pasting.py. Nothing is run.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from dataclasses import dataclass
from typing import Any

from inspector.errors import InspectorError
from inspector.jsontext import JsonLimits, loads
from inspector.pythontext import read_python

_STRING = r"(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
_VLLM = re.compile(
    rf"\b(?:Received request|Request) \S{{1,200}}?:? (?:details: )?prompt: (?P<prompt>{_STRING}|None)(?=,)"
)
_SGLANG = re.compile(rf"Receive: obj=\w*GenerateReqInput\((?=[^\n]{{0,400}}?\btext=(?P<prompt>{_STRING}))")
_IDS = re.compile(r"\b(?:prompt_token_ids|input_ids)[=:] ?\[(?P<ids>\d{1,9}(?:, ?\d{1,9})*+)\]")
_BODY = re.compile(
    r"(?:\brequest: |\bJSON body: |Receive OpenAI: obj=|\b(?:request|body|payload|data)[ =:]{1,3}(?=\{)|\bmsg=(?=\{))\s*(?=\{)",
    re.IGNORECASE,
)
_TOKENS = re.compile(rf"{_STRING}|[{{}}\[\]]|[^'\"{{}}\[\]]++")
_MOST_TRIED = 20  # each may read to the text's end
_OPENING = re.compile(r"\s*(?:\{|\[\s*[\[{\"'])")  # a log's line may begin with [2026-11-30 …]


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """What a log line holds: a JSON-like value, in the line of that number; `dropped`: what stood beside it."""

    value: Any
    line: int
    dropped: tuple[str, ...]


def read_log(text: str, limits: JsonLimits) -> LoggedRequest | None:
    """Find the first request in a text of log lines; None for a text that is no log.

    Errors: those of reading JSON, for a body that cannot be read.
    """
    if _OPENING.match(text):
        return None  # JSON or Python itself, not a line about it
    found = _rendered(text) or _body(text, limits)
    if found is None:
        return None
    place, value, dropped = found
    line = text.count("\n", 0, place) + 1
    others = len([each for each in text.splitlines() if each.strip()]) > 1
    return LoggedRequest(value, line, (*dropped, *(("other lines",) if others else ())))


def _rendered(text: str) -> tuple[int, Any, tuple[str, ...]] | None:
    """vLLM and SGLang log the prompt as Python spells it, then its ids and parameters."""
    for pattern in (_VLLM, _SGLANG):
        found = pattern.search(text)
        if found is None:
            continue
        end = text.find("\n", found.end())
        rest = text[found.end() : end if end >= 0 else len(text)]
        if found["prompt"] != "None":
            rest = rest.replace(found["prompt"], "", 1)
        value: dict[str, Any] = {}
        try:
            value["prompt"] = ast.literal_eval(found["prompt"])
        except (ValueError, SyntaxError):
            continue
        ids = _IDS.search(rest)
        value["prompt_token_ids"] = [int(each) for each in ids["ids"].split(",")] if ids else None
        dropped = tuple(name for name in ("params", "sampling_params", "lora_request") if re.search(rf"\b{name}[=:]", rest))  # fmt: skip
        return found.start(), value, dropped
    return None


def _body(text: str, limits: JsonLimits) -> tuple[int, Any, tuple[str, ...]] | None:
    """A body after one of the words that servers put before it; the first that reads as an object with a request's keys."""
    for found in itertools.islice(_BODY.finditer(text), _MOST_TRIED):
        value = _object(text, found.end(), limits)
        if isinstance(value, dict) and value.keys() & {"messages", "prompt", "contents", "input_ids"}:
            return found.start(), value, ()
    return None


def _object(text: str, start: int, limits: JsonLimits) -> Any:
    """Read the JSON or Python object that begins at `start`; a body may run over several lines."""
    try:
        _value, end = json.JSONDecoder().raw_decode(text, start)  # only to find its end
        return loads(text[start:end], limits=limits)
    except (ValueError, RecursionError, InspectorError):
        pass
    depth, at = 0, start
    while (token := _TOKENS.match(text, at)) is not None:
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        at = token.end()
        if depth == 0:
            read = read_python(text[start:at], limits.depth)
            return None if read is None else read.value
    return None
