"""tiktoken by name: encodings, models, the alias gpt2, a plug-in package, and an encoding of one's own."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from texts import many_texts

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.encodings import RANKS_OF, encoding_artifact, encoding_name, own_encoding


def reference(name: str, folder: Path):
    """tiktoken's own encoding, with the verified rank file where tiktoken looks for its download."""
    import tiktoken
    from tiktoken_ext import openai_public

    file = resolve_tokenizer(RANKS_OF[name]).files[0]
    source = inspect.getsource(openai_public)
    address = next(a for a in re.findall(r'"(\w+://[^"]+\.tiktoken)"', source) if file.name in a)
    os.symlink(file.path, folder / hashlib.sha1(address.encode()).hexdigest())
    base = "r50k_base" if name == "gpt2" else name
    return tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[base]())


@pytest.mark.parametrize("name", RANKS_OF)
def test_every_encoding_of_the_package_gives_its_ids(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    theirs, ours = reference(name, tmp_path), load_tokenizer(encoding_artifact(name))
    special = tuple(theirs.special_tokens_set)[:6]
    for text in many_texts(120, special):
        assert ours.encode(text).input_ids.tolist() == theirs.encode(text, allowed_special="all"), text
    assert ours.size == theirs.n_vocab
    assert {t.content for t in ours.added_tokens} == theirs.special_tokens_set


def test_model_names_mean_what_encoding_for_model_says():
    from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING, encoding_name_for_model

    for model in (*MODEL_TO_ENCODING, *(f"{prefix}x" for prefix in MODEL_PREFIX_TO_ENCODING)):
        assert encoding_name(model) == encoding_name_for_model(model)
    assert set(MODEL_TO_ENCODING.values()) | set(MODEL_PREFIX_TO_ENCODING.values()) <= set(RANKS_OF)
    for model, encoding in (("gpt-4o-mini", "o200k_base"), ("gpt-4", "cl100k_base"), ("davinci", "r50k_base")):
        assert load_tokenizer(encoding_artifact(model)).digest == load_tokenizer(encoding_artifact(encoding)).digest


def test_the_alias_gpt2_is_r50k():
    text = "antidisestablishmentarianism<|endoftext|>"
    gpt2, r50k = (load_tokenizer(encoding_artifact(name)) for name in ("gpt2", "r50k_base"))
    assert (
        gpt2.encode(text).input_ids.tolist()
        == r50k.encode(text).input_ids.tolist()
        == [415, 29207, 44390, 3699, 1042, 50256]
    )


def test_a_reference_may_be_any_name_that_tiktoken_knows():
    for name, size in (("gpt-4o-mini", 200019), ("gpt2", 50257), ("gpt-oss-20b", 201088), ("p50k_edit", 50284)):
        tok = load_tokenizer(resolve_tokenizer(f"tiktoken:{name}"))
        assert (tok.ref, tok.size) == (f"tiktoken:{name}", size)


def test_an_unknown_name_lists_the_encodings():
    with pytest.raises(InspectorError) as caught:
        encoding_artifact("gpt-nonesuch")
    assert caught.value.kind is ErrorKind.UnknownPreset and "o200k_harmony" in caught.value.remedy


def test_an_encoding_of_one_s_own_cl100k_im():
    import tiktoken

    base = load_tokenizer(encoding_artifact("cl100k_base"))
    special = {token.content: token.id for token in base.added_tokens} | {"<|im_start|>": 100264, "<|im_end|>": 100265}
    ours = load_tokenizer(own_encoding("cl100k_im", base.pattern, base.ranks, special))
    theirs = tiktoken.Encoding(
        name="cl100k_im", pat_str=base.pattern, mergeable_ranks=base.ranks, special_tokens=special
    )
    assert ours.encode("<|im_start|>user\nhi<|im_end|>").input_ids.tolist() == [100264, 882, 198, 6151, 100265]
    assert base.encode("<|im_start|>").input_ids.tolist() != [100264]
    for text in many_texts(250, ("<|im_start|>", "<|im_end|>", "<|endoftext|>")):
        assert ours.encode(text).input_ids.tolist() == theirs.encode(text, allowed_special="all"), text
    assert (ours.id, ours.size) == ("cl100k_im", theirs.n_vocab) and ours.digest != base.digest
    assert own_encoding("cl100k_im", base.pattern, base.ranks, special).digest == ours.digest


PLUGIN = r"""
def wordy():
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 257}
    return {"name": "wordy", "pat_str": r"\w+|\W", "mergeable_ranks": ranks, "special_tokens": {"<|stop|>": 300}}


def broken():
    raise OSError("the ranks are on another machine")


ENCODING_CONSTRUCTORS = {"wordy": wordy, "broken": broken}
"""
SETUP = """
from setuptools import setup, find_namespace_packages
setup(name="wordy_tiktoken_extension", version="1", packages=find_namespace_packages(include=["tiktoken_ext*"]))
"""
USE = """
import json, sys
import tiktoken
from inspector.errors import InspectorError
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.encodings import encoding_artifact
artifact = encoding_artifact("wordy")
ours, theirs = load_tokenizer(artifact), tiktoken.get_encoding("wordy")
text = "low lower<|stop|>slow"
try:
    encoding_artifact("broken")
except InspectorError as error:
    said = error.one_line()
print(json.dumps([ours.encode(text).input_ids.tolist(), theirs.encode(text, allowed_special="all"), artifact.ref, said]))
"""


def test_a_plugin_package_that_is_installed_is_found_by_its_encoding_s_name(tmp_path):
    package, target = tmp_path / "package", tmp_path / "installed"
    (package / "tiktoken_ext").mkdir(parents=True)
    (package / "setup.py").write_text(SETUP)
    (package / "tiktoken_ext" / "wordy_encodings.py").write_text(PLUGIN)
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target", str(target), str(package)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True, capture_output=True)
    paths = os.pathsep.join([str(target), str(Path(__file__).parent.parent)])
    made = subprocess.run(
        [sys.executable, "-c", USE], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    ours, theirs, ref, said = json.loads(made.stdout)
    assert ours == theirs == [257, 32, 257, 101, 114, 300, 115, 257]
    assert ref == "tiktoken:wordy"
    assert said.startswith("TokenizerInvalid") and "the ranks are on another machine" in said
