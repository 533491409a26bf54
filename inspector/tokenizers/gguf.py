"""Family `gguf`: a byte-level BPE tokenizer rebuilt from a GGUF file's metadata.

A GGUF holds vocabulary and merges, but the pre-tokenizer only as a name, so the result is marked as reconstructed.
Only names whose rule is known and checked are accepted; others are refused, never guessed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inspector.sources.cache import read_verified, sha256_of
from inspector.tokenizers.base import ArtifactFile, TokenizerArtifact
from inspector.tokenizers.config import config_of, invalid, templates_of
from inspector.tokenizers.fast import FastTokenizer
from inspector.tokenizers.gguf_metadata import read_metadata

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
# tokenizer.ggml.pre -> pre-tokenizer. "smollm": each digit alone, then GPT-2's pattern (without the first step,
# 122 of 518 texts differed from llama.cpp; with it none).
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "smollm": {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTE_LEVEL]},
    "gpt-2": _BYTE_LEVEL,
}
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # tokenizer.ggml.token_type
_SPECIAL_IDS = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def load(artifact: TokenizerArtifact) -> FastTokenizer:
    """Rebuild the tokenizer of a GGUF file.

    Errors: GgufInvalid, TokenizerInvalid, ArtifactMismatch.
    """
    file = next(file for file in artifact.files if file.name.endswith(".gguf"))
    metadata = read_metadata(_verified(file))
    data = json.dumps(tokenizer_json(metadata), ensure_ascii=False).encode("utf-8", "replace")
    templates = templates_of(metadata.get("tokenizer.chat_template"))
    own = {other.name: read_verified(other) for other in artifact.files if other.name == "chat_template.jinja"}
    if own:
        templates = {**templates, "default": own["chat_template.jinja"].decode("utf-8")}
    return FastTokenizer(artifact, data, config_of(configuration(metadata)), templates)


def _verified(file: ArtifactFile) -> Path:
    """Check a large file's hash without holding its bytes."""
    path = Path(file.path)
    if not path.is_file() or sha256_of(path) != file.sha256:
        read_verified(file)  # raises the error with its reason
    return path


def tokenizer_json(metadata: dict[str, Any]) -> dict[str, Any]:
    """Rebuild a tokenizer.json from the metadata of a GGUF.

    Errors: TokenizerInvalid if the model or its pre-tokenizer is not one that is rebuilt soundly.
    """
    model, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise invalid(
            f"tokenizer.ggml.model {model!r} with tokenizer.ggml.pre {pre!r} cannot be rebuilt soundly",
            {"field": "tokenizer.ggml.pre"},
            "use the model's tokenizer.json",
        )
    tokens, types = _texts(metadata, "tokens"), _types(metadata)
    merges = [_merge(text) for text in _texts(metadata, "merges")]
    if len(types) != len(tokens):
        raise invalid(f"{len(tokens)} tokens, but {len(types)} token types", {"field": "tokenizer.ggml.token_type"})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(i, tokens[i], kind) for i, kind in enumerate(types) if kind in (2, 3, 4)],
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def configuration(metadata: dict[str, Any]) -> dict[str, Any]:
    """Give the named special tokens, the window and the BOS/EOS switches as a configuration table."""
    tokens = _texts(metadata, "tokens")
    table: dict[str, Any] = {}
    for name, key in _SPECIAL_IDS.items():
        token_id = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(token_id, int) and 0 <= token_id < len(tokens):
            table[name] = tokens[token_id]
    for switch in ("add_bos_token", "add_eos_token"):
        if metadata.get(f"tokenizer.ggml.{switch}") is True:
            table[switch] = True
    table["model_max_length"] = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    return table


def _texts(metadata: dict[str, Any], name: str) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise invalid(f"tokenizer.ggml.{name} is not a list of texts", {"field": f"tokenizer.ggml.{name}"})
    return value


def _types(metadata: dict[str, Any]) -> list[int]:
    value = metadata.get("tokenizer.ggml.token_type")
    if not isinstance(value, list) or not all(isinstance(kind, int) for kind in value):
        raise invalid("tokenizer.ggml.token_type is not a list of integers", {"field": "tokenizer.ggml.token_type"})
    return value


def _merge(text: str) -> list[str]:
    left, space, right = text.partition(" ")
    if not space or not left or not right or " " in right:
        raise invalid(f"the merge {text[:40]!r} is not two pieces", {"field": "tokenizer.ggml.merges"})
    return [left, right]


def _added(token_id: int, content: str, kind: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": kind != _USER_DEFINED}
