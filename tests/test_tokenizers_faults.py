"""Fault cases about special tokens and surrogates that end before or beside the tokenizer (SPEC-01, UNI-06, UNI-09)."""

from __future__ import annotations

import pytest

from inspector.errors import ErrorKind
from inspector.pipeline import inspect


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
