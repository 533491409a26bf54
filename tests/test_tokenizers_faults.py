"""Fault cases about special tokens and surrogates that end before or beside the tokenizer (SPEC-01, UNI-06, UNI-09)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inspector.errors import ErrorKind, InspectorError
from inspector.pipeline import inspect
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import fast, load_tokenizer
from inspector.tokenizers.file_facts import remarks

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
MODEL = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}


def folder(path: Path, config: dict[str, Any] | None = None, data: bytes | None = None, **changes: Any) -> Any:
    """A folder with a tokenizer.json of a few letters, and a configuration; the tokenizer that it gives."""
    table = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": BYTE_LEVEL,
        "decoder": BYTE_LEVEL,
        "model": MODEL,
        **changes,
    }
    (path / "tokenizer.json").write_bytes(data if data is not None else json.dumps(table).encode())
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return load_tokenizer(resolve_tokenizer(f"folder:{path}"))


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        ({"tokenizer_class": "AutoModel"}, "UnsupportedTokenizerClass", "'AutoModel'"),
        ({"tokenizer_class": "pipeline"}, "UnsupportedTokenizerClass", "'pipeline'"),
        ({"tokenizer_class": 5}, "InputInvalid", "tokenizer_class is a number"),
        ({"tokenizer_class": ["LlamaTokenizer"]}, "InputInvalid", "tokenizer_class is an array"),
        ({"auto_map": {"AutoTokenizer": ["evil.EvilTok", None]}}, "RemoteCodeRefused", "'evil.EvilTok'"),
        ({"auto_map": {"AutoTokenizer": [None, "other/repo--evil.EvilTok"]}}, "RemoteCodeRefused", "other/repo--evil"),
        ({"auto_map": {"AutoTokenizer": "evil.EvilTok"}, "tokenizer_class": "EvilTokenizer"}, "RemoteCodeRefused", "evil"),
    ],
)  # fmt: skip
def test_a_class_that_is_none_or_is_foreign_code_is_refused_by_its_name(tmp_path, config, kind, said):
    with pytest.raises(InspectorError) as caught:
        folder(tmp_path, config)
    assert caught.value.kind is ErrorKind[kind] and said in caught.value.message
    assert caught.value.where["key"] in ("tokenizer_class", "auto_map") and caught.value.remedy
    (tmp_path / "tokenizer.json").unlink()  # a repository of code alone
    with pytest.raises(InspectorError) as caught:
        resolve_tokenizer(f"folder:{tmp_path}")
    assert caught.value.kind is ErrorKind[kind]


@pytest.mark.parametrize(
    "name", ["PreTrainedTokenizerFast", "TokenizersBackend", "Qwen2Tokenizer", "NewTokenizerFast", None]
)
def test_a_class_of_the_library_loads_and_beside_it_auto_map_is_not_followed(tmp_path, name):
    known = name not in ("NewTokenizerFast", None)
    config = {"tokenizer_class": name, "auto_map": {"AutoTokenizer": ["x.Y", None]} if known else {"AutoModel": "x.Y"}}
    assert folder(tmp_path, config).encode("ab").input_ids.tolist() == [0, 1]


def test_an_id_far_away_takes_no_room(tmp_path):
    far = 4_294_967_295
    tokenizer = folder(tmp_path, model={**MODEL, "vocab": {"a": far, "b": 7}})
    raw = tokenizer.encode("aba")
    assert (raw.input_ids.tolist(), raw.start.tolist(), raw.end.tolist()) == ([far, 7, far], [0, 1, 2], [1, 2, 3])
    assert (tokenizer.piece(far), tokenizer.token_bytes(far), tokenizer.decode([7, far, 3])) == ("a", b"a", b"ba")
    inspection = inspect([{"role": "user", "content": "ab"}], tokenizer=f"folder:{tmp_path}", template="raw")
    assert inspection.raise_for_error().encoding.input_ids.tolist() == [far, 7]


def test_what_the_file_carries_is_said_in_words(tmp_path):
    cut = {"direction": "Left", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    tokenizer = folder(tmp_path, truncation=cut, model={**MODEL, "vocab": {"a": 0, "b": 0, "c": 1}})
    assert remarks(tokenizer) == [
        ("truncates", "tokenizer.json carries truncation to 3 tokens (on the left)"),
        ("id-shared", '2 tokens share the id 0: "a" … "b"'),
    ]
    assert tokenizer.piece(0) == "a"


@pytest.mark.parametrize(
    ("encoding", "said"), [("utf-8-sig", "byte order mark"), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16")]
)
def test_a_tokenizer_file_in_another_encoding_is_named(tmp_path, encoding, said):
    with pytest.raises(InspectorError) as caught:
        folder(tmp_path, data=json.dumps({"model": MODEL}).encode(encoding))
    assert caught.value.kind is ErrorKind.TokenizerInvalid and said in caught.value.message
    assert caught.value.where["file"] == "tokenizer.json" and "UTF-8" in caught.value.remedy


def test_spec_01_a_name_that_the_caller_no_longer_passes_is_named_with_its_line():
    text = "{{ additional_special_tokens[0] }}{{ messages[0].content }}"
    error = inspect([{"role": "user", "content": "When is high tide?"}], tokenizer="qwen3", template_text=text).error
    assert error is not None and error.kind is ErrorKind.TemplateRuntime
    assert "'additional_special_tokens' is undefined" in error.message and error.where["line"] == 1


@pytest.mark.parametrize("tokenizer", ["qwen3", "mistral-v3"])
def test_uni_06_a_lone_surrogate_is_found_before_any_tokenizer_is_called(tokenizer):
    error = inspect(b'[{"role": "user", "content": "x \\ud800"}]', tokenizer=tokenizer).error
    assert error is not None and error.kind is ErrorKind.UnencodableText and error.stage == "request"
    assert error.where["path"] == "messages[0].content"


def test_uni_09_a_paired_escape_is_the_one_character():
    inspection = inspect(b'[{"role": "user", "content": "\\ud83d\\ude00"}]', tokenizer="bytes").raise_for_error()
    assert bytes(i for i in inspection.encoding.input_ids.tolist() if i < 256) == "😀".encode()


def test_a_text_that_cannot_be_encoded_is_an_error_of_encoding_and_no_part_is_blamed_for_the_load(tmp_path):
    with pytest.raises(InspectorError) as caught:
        fast.guarded(lambda: 1 // 0, "the text cannot be encoded", "encode")
    assert caught.value.stage == "encode" and caught.value.kind is ErrorKind.TokenizerInvalid
    model = {
        "type": "WordLevel",
        "vocab": {"b": 0},
        "unk_token": "<unk>",
    }  # a text needs an unknown token that is not there
    with pytest.raises(InspectorError) as caught:
        folder(tmp_path, model=model)
    assert "post-processor" not in caught.value.message and "cannot be encoded" in caught.value.message
