"""A Python file that makes the same ids again with transformers alone, beside the tokenizer.json that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.exports.base import Export, File, Side
from inspector.exports.code import Recipe, literal, sha256

_CODE = '''"""Makes the same input again, with transformers alone: python reproduce.py"""

{about}

import datetime
import hashlib
import json
import sys
from pathlib import Path

{imports}from transformers import PreTrainedTokenizerFast

TEMPLATE = {template}
{setup}

file = Path(__file__).with_name("tokenizer.json")
if hashlib.sha256(file.read_bytes()).hexdigest() != "{tokenizer}":
    sys.exit("tokenizer.json is another file")
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file), **SPECIAL_TOKENS)
call = {{"chat_template": TEMPLATE, **CONVERSATION, **OPTIONS, **ARGUMENTS}}
messages = call.pop("messages")
text = tokenizer.apply_chat_template(messages, tokenize=False, **call)
input_ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **call)
print(json.dumps(text))
print(input_ids)
if hashlib.sha256(text.encode()).hexdigest() != "{text}":
    sys.exit("the text is another one")
if input_ids != INPUT_IDS:
    sys.exit("the ids are others")
'''


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    recipe = Recipe.of(sides[0])
    code = _CODE.format(
        about="\n".join(recipe.about),
        imports=recipe.imports(),
        template=literal(recipe.template),
        setup=recipe.setup(),
        tokenizer=sha256(recipe.tokenizer_json),
        text=recipe.text_sha256,
    )
    return File("reproduce.py", code.encode("ascii")), File("tokenizer.json", recipe.tokenizer_json)


EXPORT = Export("python", "code that makes the same ids with transformers alone", _make, folder=True)
