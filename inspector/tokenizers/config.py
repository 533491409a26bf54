"""tokenizer_config.json through an allow-list: named special tokens, added tokens, templates, window, BOS/EOS switches.

Every other key (code references, processors, class names, paths) is ignored: a configuration is data, and foreign.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.base import AddedToken

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_LARGEST_WINDOW = 1 << 40  # larger values are sentinels (1e30, 2**63 - 1, ...) that mean "no limit is known"


@dataclass(frozen=True, slots=True)
class TokenizerConfig:
    """What a tokenizer's configuration says, as far as this tool reads it.

    `special_tokens` is in the order of transformers' special_tokens_map. `add_bos_token`/`add_eos_token` count only
    where there is no tokenizer.json: beside one, transformers ignores them, and its post-processor decides alone.
    """

    special_tokens: dict[str, str]
    named: tuple[AddedToken, ...] = ()
    added: tuple[AddedToken, ...] = ()
    extra: tuple[str, ...] = ()
    model_max_length: int | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None


def read_config(data: bytes | None) -> TokenizerConfig:
    """Read a tokenizer_config.json; None gives an empty configuration.

    Errors: TokenizerInvalid if it is not a JSON object or an allowed key has a wrong type.
    """
    return config_of(parse_object(data, "tokenizer_config.json") if data is not None else {})


def config_of(table: dict[str, Any]) -> TokenizerConfig:
    """Read an already parsed configuration."""
    extra = table.get("extra_special_tokens") or table.get("additional_special_tokens")
    named = _named_tokens(table, extra)
    return TokenizerConfig(
        special_tokens={name: token.content for name, token in named.items()},
        named=tuple(named.values()),
        added=_added_tokens(table.get("added_tokens_decoder") or {}),
        extra=tuple(_content(token) for token in extra) if isinstance(extra, list) else (),
        model_max_length=_window(table.get("model_max_length")),
        add_bos_token=_switch(table, "add_bos_token"),
        add_eos_token=_switch(table, "add_eos_token"),
    )


def parse_object(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Errors: TokenizerInvalid with line and column.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        where: dict[str, Any] = {"file": name}
        if isinstance(error, json.JSONDecodeError):
            where |= {"line": error.lineno, "column": error.colno}
        raise invalid(f"{name} is not JSON: {error}", where) from error
    if not isinstance(value, dict):
        raise invalid(f"{name} is a JSON {type(value).__name__}, not an object", {"file": name})
    return value


ADDITIONAL_TEMPLATES = "additional_chat_templates/"


def chat_templates_of(files: dict[str, bytes]) -> dict[str, str]:
    """Give the templates of a tokenizer's files by name; template files, where there are any, replace the
    configuration's, as in transformers."""
    own = {
        _template_name(name): decode_text(data, name)
        for name, data in files.items()
        if name == "chat_template.jinja" or name.startswith(ADDITIONAL_TEMPLATES)
    }
    if own or "tokenizer_config.json" not in files:
        return own
    return templates_of(parse_object(files["tokenizer_config.json"], "tokenizer_config.json").get("chat_template"))


def _template_name(file: str) -> str:
    return "default" if file == "chat_template.jinja" else file[len(ADDITIONAL_TEMPLATES) :].removesuffix(".jinja")


def templates_of(value: Any) -> dict[str, str]:
    """Read `chat_template`: one text, or a list of {name, template}.

    Errors: TokenizerInvalid.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    try:
        return {str(entry["name"]): _string(entry["template"]) for entry in value}
    except (TypeError, KeyError) as error:
        raise invalid(
            "chat_template is neither a text nor a list of {name, template}", {"key": "chat_template"}
        ) from error


def decode_text(data: bytes, name: str) -> str:
    """Decode UTF-8.

    Errors: TokenizerInvalid with the byte's offset.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid(f"{name} is not UTF-8", {"file": name, "byte": error.start}) from error


def invalid(message: str, where: dict[str, Any] | None = None, remedy: str = "") -> InspectorError:
    """Build the error of tokenizer files that cannot be used."""
    return InspectorError(
        ErrorKind.TokenizerInvalid,
        message,
        stage="source",
        where=where,
        remedy=remedy or "use the tokenizer's original files",
    )


def _named_tokens(table: dict[str, Any], extra: Any) -> dict[str, AddedToken]:
    """Give name -> token: the standard names, then further `*_token` keys, then a dictionary of extra ones."""
    found = {name: table[name] for name in NAMED_TOKENS if table.get(name) is not None}
    for key, value in table.items():
        if key.endswith("_token") and key not in NAMED_TOKENS and isinstance(value, str):
            found[key] = value
    if isinstance(extra, dict):
        found.update(extra)
    return {name: replace(_token(value, -1), special=True) for name, value in found.items()}


def _added_tokens(table: Any) -> tuple[AddedToken, ...]:
    if not isinstance(table, dict):
        raise invalid("added_tokens_decoder is not an object", {"key": "added_tokens_decoder"})
    try:
        return tuple(_token(value, int(key)) for key, value in sorted(table.items(), key=lambda item: int(item[0])))
    except (TypeError, ValueError) as error:
        raise invalid("added_tokens_decoder has a key that is no id", {"key": "added_tokens_decoder"}) from error


def _token(value: Any, token_id: int) -> AddedToken:
    if isinstance(value, str):
        return AddedToken(token_id, value, special=True)
    content = _content(value)
    flags = {flag: value.get(flag) is True for flag in ("lstrip", "rstrip", "normalized", "single_word")}
    return AddedToken(token_id, content, special=value.get("special") is True, **flags)


def _content(value: Any) -> str:
    return _string(value if isinstance(value, str) else value.get("content") if isinstance(value, dict) else None)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise invalid(f"a token or template is a {type(value).__name__}, not a text", {"file": "tokenizer_config.json"})
    return value


def _window(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST_WINDOW:
        return None
    return int(value)


def _switch(table: dict[str, Any], key: str) -> bool | None:
    value = table.get(key)
    return value if isinstance(value, bool) else None
