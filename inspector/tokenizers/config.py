"""tokenizer_config.json through an allow-list: named special tokens, added tokens, templates, window, BOS/EOS switches.

Every other key (code references, processors, class names, paths) is ignored: a configuration is data, and foreign.
"""

from __future__ import annotations

import json
import re
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
    `ignored`: what would make transformers open files or run code, with its value.
    """

    special_tokens: dict[str, str]
    named: tuple[AddedToken, ...] = ()
    added: tuple[AddedToken, ...] = ()
    extra: tuple[str, ...] = ()
    model_max_length: int | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    ignored: tuple[tuple[str, Any], ...] = ()


def read_config(data: bytes | None) -> TokenizerConfig:
    """Read a tokenizer_config.json; None gives an empty configuration.

    Errors: TokenizerInvalid if it is not a JSON object or an allowed key has a wrong type; those of check_class.
    """
    table = parse_object(data, "tokenizer_config.json") if data is not None else {}
    check_class(table)
    return config_of(table)


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
        ignored=tuple((key, value) for key, value in table.items() if value and _OPENS.fullmatch(key))[:_MOST_IGNORED],
    )


_MOST_IGNORED = 8
_OPENS = re.compile(r"vocab|merges|init_inputs|auto_map|(?!special_tokens_map_)\w{0,80}_files?")


def check_class(table: dict[str, Any]) -> None:
    """Refuse a configuration that names no tokenizer class, or one that only the repository's own code has.

    The class itself is never used: tokenizer.json says everything. Beside `auto_map`, transformers runs foreign code
    unless it has the class itself.

    Errors: InputInvalid, UnsupportedTokenizerClass, RemoteCodeRefused.
    """
    name, mapped = table.get("tokenizer_class"), table.get("auto_map")
    where = {"file": "tokenizer_config.json", "key": "tokenizer_class"}
    if name is not None and not isinstance(name, str):
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"tokenizer_class is {_kind_of(name)}, not the name of a class",
            stage="source",
            where=where,
            remedy='write it like "tokenizer_class": "PreTrainedTokenizerFast", or leave it out',
        )
    if name and not _TOKENIZER_CLASS.fullmatch(name):
        raise InspectorError(
            ErrorKind.UnsupportedTokenizerClass,
            f"tokenizer_class is {name[:80]!r}, which is no tokenizer class",
            stage="source",
            where=where,
            remedy="write PreTrainedTokenizerFast, or leave it out: tokenizer.json says the rest",
        )
    code = mapped.get("AutoTokenizer") if isinstance(mapped, dict) else mapped
    known = name and name.removesuffix("Fast").removesuffix("Tokenizer") in LIBRARY_CLASSES
    if code and not known:
        named = [item for item in (code if isinstance(code, list) else [code]) if item]
        raise InspectorError(
            ErrorKind.RemoteCodeRefused,
            f"auto_map names {str(named[0] if named else code)[:80]!r}: this tokenizer is Python code of the repository, "
            "which is not run",
            stage="source",
            where={"file": "tokenizer_config.json", "key": "auto_map"},
            remedy="give its tokenizer.json alone, if it has one: what the code does besides is then not shown",
        )


_TOKENIZER_CLASS = re.compile(
    r"\w{0,80}(?:Tokenizer|TokenizerFast|TokenizersBackend|CommonBackend|SentencePieceBackend)"
)
# Stems of the classes that transformers has itself: beside these, `auto_map` is not followed.
LIBRARY_CLASSES = frozenset(
    """PreTrained Albert Bart Barthez Bert BigBird Blenderbot BlenderbotSmall CLIP Camembert CodeGen CodeLlama Cohere
    Cohere2 Deberta DebertaV2 Electra Esm Funnel GPT2 GPTNeoX GPTNeoXJapanese GPTSw3 Gemma Herbert LED LayoutLMv2
    LayoutLMv3 Llama Longformer Luke M2M100 MBart MBart50 MPNet Marian MobileBert Nllb Nougat OpenAIGPT Pegasus Qwen2
    Qwen3_5 RemBert RoFormer Roberta SeamlessM4T Siglip Splinter T5 TokenizersBackend MistralCommonBackend Udop Whisper
    XGLM XLMRoberta XLNet""".split()
)


def _kind_of(value: Any) -> str:
    return next((said for kind, said in _KINDS if isinstance(value, kind)), "something else")


_KINDS = ((bool, "true or false"), (int | float, "a number"), (list, "an array"), (dict, "an object"), (str, "a text"))


MOST_VALUES = 1_000_000  # 100,000 added tokens take 700,000


def parse_object(data: bytes, name: str, most_values: int | None = MOST_VALUES) -> dict[str, Any]:
    """Parse a JSON object of a bounded number of values: each takes up to thirty times its bytes in memory, and a page's
    own process reads configurations that visitors give.

    Errors: TokenizerInvalid with line and column; InputTooLarge.
    """
    values = data.count(b",") + data.count(b"{") + data.count(b"[")
    if most_values is not None and values > most_values:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{name} has about {values:,} values, the limit is {most_values:,}",
            stage="source",
            where={"file": name, "limit": most_values},
            remedy="take out of the file what the tokenizer and the template do not need",
        )
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        where: dict[str, Any] = {"file": name}
        if isinstance(error, json.JSONDecodeError):
            where |= {"line": error.lineno, "column": error.colno}
        raise invalid(f"{name} is not JSON: {error}", where) from error
    if not isinstance(value, dict):
        raise invalid(f"{name} is {_kind_of(value)}, not an object", {"file": name})
    return value


def check_encoding(data: bytes, name: str) -> None:
    """Refuse a byte order mark and UTF-16 by name: the libraries say only "expected value at line 1 column 1".

    Errors: TokenizerInvalid.
    """
    found = next((said for mark, said in _MARKS if data.startswith(mark)), None)
    if found is None and data[:4].count(0) >= 2:
        found = "is UTF-16 or UTF-32"
    if found:
        raise invalid(
            f"{name} {found}, not plain UTF-8", {"file": name, "byte": 0}, "save it as UTF-8 without a byte order mark"
        )


_MARKS = (
    (b"\xef\xbb\xbf", "begins with a byte order mark (BOM)"),
    (b"\xff\xfe", "is UTF-16"),
    (b"\xfe\xff", "is UTF-16"),
)

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
        raise invalid(f"a token or template is {_kind_of(value)}, not a text", {"file": "tokenizer_config.json"})
    return value


def _window(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST_WINDOW:
        return None
    return int(value)


def _switch(table: dict[str, Any], key: str) -> bool | None:
    value = table.get(key)
    return value if isinstance(value, bool) else None
