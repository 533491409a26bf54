"""Estimate how many prompt tokens the OpenAI API would count for messages and tools.

The rules are the published ones for gpt-3.5-turbo, gpt-4, gpt-4o and gpt-4o-mini. They are estimates: the API's own
count may differ and may change. This module has no ranks of its own and reads no file: it takes the encoding as a
callable, or loads the preset through sources when none is given. Control strings in content count as ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.request import ChatRequest, child_path, dump_request

if TYPE_CHECKING:
    from inspector.tokenizers.base import Tokenizer

Encode = Callable[[str], Sequence[int]]

TOKENS_PER_MESSAGE = 3
TOKENS_PER_NAME = 1
REPLY_PRIMER = 3  # every reply is primed with <|start|>assistant<|message|>


@dataclass(frozen=True, slots=True)
class ToolCosts:
    """Tokens that a tool definition adds beside its own text."""

    function: int
    properties: int = 3
    property_key: int = 3
    enum: int = -3
    enum_item: int = 3
    end: int = 12


@dataclass(frozen=True, slots=True)
class ModelRule:
    """How one snapshot counts: its encoding, the encoding's preset, and its tool costs."""

    encoding: str
    preset: str
    tools: ToolCosts


_GPT_4 = ModelRule("cl100k_base", "cl100k", ToolCosts(function=10))
_GPT_4O = ModelRule("o200k_base", "o200k", ToolCosts(function=7))

SNAPSHOTS: dict[str, ModelRule] = {
    "gpt-3.5-turbo-0125": _GPT_4,
    "gpt-4-0314": _GPT_4,
    "gpt-4-32k-0314": _GPT_4,
    "gpt-4-0613": _GPT_4,
    "gpt-4-32k-0613": _GPT_4,
    "gpt-4o-mini-2024-07-18": _GPT_4O,
    "gpt-4o-2024-08-06": _GPT_4O,
}
# Name contained in the model's -> the snapshot it is counted as; the first match wins.
ALIASES: tuple[tuple[str, str], ...] = (
    ("gpt-3.5-turbo", "gpt-3.5-turbo-0125"),
    ("gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
    ("gpt-4o", "gpt-4o-2024-08-06"),
    ("gpt-4", "gpt-4-0613"),
)
# Names that contain gpt-4 and are other models with other encodings: no published rule covers them.
_NOT_COVERED = re.compile(r"gpt-4\.\d")


@dataclass(frozen=True, slots=True)
class OpenAICount:
    """An estimate of prompt tokens. `total` = `message_tokens` + `tool_tokens`; `warnings` say what was assumed."""

    model: str
    resolved_model: str
    encoding: str
    message_tokens: int
    tool_tokens: int
    total: int
    warnings: tuple[str, ...] = ()
    label: str = "estimate"

    def to_dict(self) -> dict[str, Any]:
        """Give the count as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"warnings": list(self.warnings)}


def count_openai(request: ChatRequest, model: str, encoding_for: Callable[[str], Encode] | None = None) -> OpenAICount:
    """Estimate the prompt tokens of a request for an OpenAI model.

    `encoding_for` maps a preset id (`o200k`, `cl100k`) to a callable from text to ids that never matches control
    strings; by default the presets' own tokenizers.
    Errors: UnknownModel when no published rule covers the model; those of the source that brings the ranks.
    """
    resolved, warnings = resolve_model(model)
    rule = SNAPSHOTS[resolved]
    count = _Counter((encoding_for or preset_encoding)(rule.preset), warnings)
    message_tokens = sum(count.message(m, f"messages[{i}]") for i, m in enumerate(request.messages)) + REPLY_PRIMER
    tools = request.tools or []
    tool_tokens = sum(count.tool(tool, f"tools[{i}]", rule.tools) for i, tool in enumerate(tools))
    tool_tokens += rule.tools.end if tools else 0
    return OpenAICount(
        model, resolved, rule.encoding, message_tokens, tool_tokens, message_tokens + tool_tokens, tuple(count.warnings)
    )


def resolve_model(model: str) -> tuple[str, list[str]]:
    """Give the snapshot that a model name is counted as, and a warning when the name is not that snapshot's.

    Errors: UnknownModel.
    """
    if model in SNAPSHOTS:
        return model, []
    for fragment, snapshot in ALIASES:
        if fragment in model and not _NOT_COVERED.search(model):
            return snapshot, [f"{model} may change over time; counted as {snapshot}"]
    known = ", ".join(sorted({*SNAPSHOTS, *(fragment for fragment, _ in ALIASES)}))
    raise InspectorError(
        ErrorKind.UnknownModel,
        f"no published counting rule covers the model {model!r}",
        stage="options",
        where={"option": "--openai-model"},
        remedy=f"use one of {known}",
    )


def preset_encoding(preset: str) -> Encode:
    """Load a preset encoding; its callable encodes every text as ordinary text."""
    from inspector.sources import resolve_tokenizer
    from inspector.tokenizers import load_tokenizer

    return plain_encoding(load_tokenizer(resolve_tokenizer(preset)))


def plain_encoding(tokenizer: Tokenizer) -> Encode:
    """Give a callable that encodes every text as ordinary text."""
    return lambda text: tokenizer.encode_plain(text).input_ids.tolist()


class _Counter:
    def __init__(self, encode: Encode, warnings: list[str]) -> None:
        self.encode, self.warnings = encode, warnings

    def text(self, text: str) -> int:
        return len(self.encode(text)) if text else 0

    def message(self, message: dict[str, Any], path: str) -> int:
        tokens = TOKENS_PER_MESSAGE
        for key, value in message.items():
            tokens += self.value(value, child_path(path, key))
            if key == "name" and value is not None:
                tokens += TOKENS_PER_NAME
        return tokens

    def value(self, value: Any, path: str) -> int:
        """Count one field: text as it is, null nothing, the text of text parts, anything else its JSON text."""
        if value is None:
            return 0
        if isinstance(value, str):
            return self.text(value)
        if path.endswith(".content") and isinstance(value, list):
            return sum(self.part(part, child_path(path, index)) for index, part in enumerate(value))
        self.warnings.append(f"{path} is not text; its JSON text is counted, for which no rule is published")
        return self.text(dump_request(value))

    def part(self, part: Any, path: str) -> int:
        if isinstance(part, str):
            return self.text(part)
        if isinstance(part.get("text"), str):
            return self.text(part["text"])
        self.warnings.append(f"{path} is not a text part; it is not counted")
        return 0

    def tool(self, tool: dict[str, Any], path: str, costs: ToolCosts) -> int:
        """Count one tool. What is missing (description, type, enum, parameters) counts as empty text."""
        function = tool.get("function") or tool  # the bare form has no wrapper
        line = f"{_text(function.get('name'))}:{_sentence(function.get('description'))}"
        tokens = costs.function + self.text(line)
        properties = (function.get("parameters") or {}).get("properties")
        if not isinstance(properties, dict) or not properties:
            return tokens
        return tokens + costs.properties + sum(self.property(k, v, path, costs) for k, v in properties.items())

    def property(self, name: str, schema: Any, path: str, costs: ToolCosts) -> int:
        if not isinstance(schema, dict):
            self.warnings.append(f"{path}: the property {name!r} has no schema object; only its name is counted")
            schema = {}
        tokens = costs.property_key
        if isinstance(schema.get("enum"), list):
            tokens += costs.enum + sum(costs.enum_item + self.text(_text(item)) for item in schema["enum"])
        return tokens + self.text(f"{name}:{_text(schema.get('type'))}:{_sentence(schema.get('description'))}")


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else dump_request(value)


def _sentence(value: Any) -> str:
    """Give a description without its last full stop, which the API does not count."""
    return _text(value).removesuffix(".")
