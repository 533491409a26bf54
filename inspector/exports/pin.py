"""A pytest file that pins an input: red when template, tokenizer, library or conversation make another one."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.exports.base import Export, File, Side
from inspector.exports.code import Recipe, sha256

_CODE = '''"""Pins what a model is sent. PROMPT_FOLDER names the folder with the files to check; default: beside this file."""

{about}

import datetime
import hashlib
import json
import os
from pathlib import Path

import pytest
{imports}from transformers import PreTrainedTokenizerFast

FOLDER = Path(os.environ.get("PROMPT_FOLDER") or Path(__file__).parent)
{setup}


def call(tokenize):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer.json"), **SPECIAL_TOKENS)
    template = (FOLDER / "chat_template.jinja").read_bytes().decode()
    given = {{"chat_template": template, **CONVERSATION, **OPTIONS, **ARGUMENTS}}
    return tokenizer.apply_chat_template(given.pop("messages"), tokenize=tokenize, return_dict=False, **given)


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("chat_template.jinja", "{template}"),
        ("tokenizer.json", "{tokenizer}"),
    ],
)
def test_the_file_is_the_pinned_one(name, sha256):
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == sha256


def test_the_text_is_the_pinned_one():
    assert hashlib.sha256(call(tokenize=False).encode()).hexdigest() == "{text}"


def test_the_ids_are_the_pinned_ones():
    assert call(tokenize=True) == INPUT_IDS
'''


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    recipe = Recipe.of(sides[0])
    template = recipe.template.encode()
    code = _CODE.format(
        about="\n".join(recipe.about),
        imports=recipe.imports(),
        setup=recipe.setup(),
        template=sha256(template),
        tokenizer=sha256(recipe.tokenizer_json),
        text=recipe.text_sha256,
    )
    return (
        File("test_prompt.py", code.encode("ascii")),
        File("chat_template.jinja", template),
        File("tokenizer.json", recipe.tokenizer_json),
    )


EXPORT = Export("pytest", "a pytest file that pins the input, with the files it checks", _make, folder=True)
