"""Hostile models and inputs of models of data/attacks.jsonl, against the backend that loads them."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attacks import CASES, attack_helpers, of

from inspector import limits
from inspector.backends.local import LocalBackend
from inspector.errors import ErrorKind, InspectorError
from inspector.job import check_model_tokens
from inspector.logits import next_token_logits
from inspector.sampling import Sampler, sample_view
from inspector.sources import resolve_model
from inspector.sources.cache import sha256_of
from inspector.sources.resolve import ModelArtifact
from inspector.tokenizers.base import ArtifactFile

READ_OTHERWISE = {
    "L23": "auto_map beside an architecture of transformers is never followed, and says nothing to a person: no note",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers, with real (random) weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=32)  # fmt: skip
    folder = tmp_path_factory.mktemp("model") / "tiny"
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tiny"))


def artifact(folder: Path) -> ModelArtifact:
    files = tuple(ArtifactFile(path.name, str(path), sha256_of(path)) for path in sorted(folder.iterdir()))
    return ModelArtifact("folder", "made", files, "".join(file.sha256 for file in files)[:200], "safetensors")


def ask(folder: Path, ids: list[int] = [1, 2, 3]) -> Any:  # noqa: B006
    return next_token_logits(ids, artifact(folder), backend=LocalBackend(device="cpu"))


def refused(folder: Path, *kinds: ErrorKind, ids: list[int] | None = None) -> InspectorError:
    began = time.process_time()
    with pytest.raises(InspectorError) as caught:
        ask(folder, [1, 2] if ids is None else ids)
    assert caught.value.kind in kinds, caught.value.one_line()
    assert caught.value.remedy and time.process_time() - began < 8 and str(folder) not in caught.value.one_line()
    return caught.value


def configured(folder: Path, **changed: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changed))


def weights(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)


def too_long(count: int) -> None:
    before = limits.in_force()
    limits.use(limits.PUBLIC)
    try:
        began = time.perf_counter()
        with pytest.raises(InspectorError) as caught:
            check_model_tokens(count)
        assert caught.value.kind is ErrorKind.PromptTooLong and "4,096" in caught.value.message
        assert time.perf_counter() - began < 0.1
    finally:
        limits.use(before)


def negative_id(tiny: Path) -> None:
    error = refused(tiny, ErrorKind.TokenOutOfModelVocab, ids=[1, -5])
    assert error.where == {"token": 1, "id": -5}


def over_window(tiny: Path) -> None:
    error = refused(tiny, ErrorKind.PromptTooLong, ids=[1] * 33)
    assert "33" in error.message and "32" in error.message


def temperature_zero(_tiny: Path) -> None:
    values = np.array([1.0, 3.0, 2.0], np.float32)
    view = sample_view(values, Sampler.of({"temperature": 0}), [0])
    assert np.isfinite(view.logits).sum() == 1 and view.logits.argmax() == 1
    assert all(np.isfinite(row.after) for row in view.rows)


def nan_logits(tiny: Path) -> None:
    from safetensors.torch import load_file, save_file

    for bad in (float("nan"), float("inf")):
        tensors = load_file(tiny / "model.safetensors")
        tensors["model.norm.weight"] *= bad
        save_file(tensors, tiny / "model.safetensors", {"format": "pt"})
        refused(tiny, ErrorKind.NonFiniteLogits)


def size_of(name: str, value: int) -> Callable[[Path], None]:
    def check(tiny: Path) -> None:
        configured(tiny, **{name: value})
        began = time.process_time()
        error = refused(tiny, ErrorKind.ModelInvalid)
        assert f"{value:,}" in error.message and time.process_time() - began < 1

    return check


def foreign_code(tiny: Path) -> None:
    (tiny / "evil.py").write_text("raise SystemExit('it ran')")
    configured(tiny, auto_map={"AutoModelForCausalLM": "evil.Evil", "AutoConfig": "evil.EvilConfig"})
    (tiny / "evil.py").rename(tiny.parent / "evil.py")
    assert len(ask(tiny).logits) == 40 and "evil" not in sys.modules


def kernels(tiny: Path) -> None:
    wanted = ask(tiny).logits
    configured(tiny, _attn_implementation="attacker/kernels", attn_implementation="attacker/kernels", use_kernels=True)
    np.testing.assert_array_equal(ask(tiny).logits, wanted)


def quantization(tiny: Path) -> None:
    for method in ({"quant_method": "evil", "modules": "os.system"}, "evil", {"quant_method": ["x"]}, {}):
        configured(tiny, quantization_config=method)
        assert "quantization" in refused(tiny, ErrorKind.ModelInvalid).message


def changed(**values: Any) -> Callable[[Path], None]:
    def check(tiny: Path) -> None:
        configured(tiny, **values)
        refused(tiny, ErrorKind.ModelInvalid)

    return check


def pickled(tiny: Path) -> None:
    (tiny / "model.safetensors").unlink()
    (tiny / "pytorch_model.bin").write_bytes(pickle.dumps({"w": 1}))
    refused(tiny, ErrorKind.UnsafeWeights)
    with pytest.raises(InspectorError) as caught:
        resolve_model(f"folder:{tiny}")
    assert caught.value.kind is ErrorKind.UnsafeWeights


def damaged(data: Any) -> Callable[[Path], None]:
    def check(tiny: Path) -> None:
        weights(tiny, data(tiny) if callable(data) else data)
        refused(tiny, ErrorKind.ModelInvalid, ErrorKind.WeightsIncomplete)

    return check


def empty(tiny: Path) -> None:
    weights(tiny, attack_helpers.st({"__metadata__": {"format": "pt"}}))
    assert "noise" in refused(tiny, ErrorKind.WeightsIncomplete).message


def tensors(*entries: tuple[str, list[int], list[int]]) -> dict[str, Any]:
    return {name: {"dtype": "F32", "shape": shape, "data_offsets": at} for name, shape, at in entries}


PT = {"__metadata__": {"format": "pt"}}
BODY = bytes(64)
CHECKS: dict[str, Callable[[Path], None]] = {
    "L02": negative_id,
    "L04": over_window,
    "L05": lambda _tiny: too_long(60_000),
    "L06": lambda _tiny: too_long(300_000),
    "L09": temperature_zero,
    "L10": nan_logits,
    "L20": size_of("vocab_size", 1_000_000_000),
    "L22": size_of("hidden_size", 1_000_000),
    "L23": foreign_code,
    "L24": kernels,
    "L25": quantization,
    "L26": changed(num_attention_heads=-4),
    "L27": changed(hidden_size="64", num_hidden_layers="2"),
    "L31": pickled,
    "L32": damaged(struct.pack("<Q", 2**63) + BODY),
    "L33": damaged(struct.pack("<Q", 1 << 30) + BODY),
    "L34": damaged(attack_helpers.st(PT | tensors(("a", [4], [0, 16]), ("b", [4], [8, 24])), body=bytes(24))),
    "L35": damaged(attack_helpers.st(PT | tensors(("a", [2**40, 2**40], [0, 16])), body=bytes(16))),
    "L36": damaged(lambda tiny: (tiny / "model.safetensors").read_bytes()[:-100]),
    "L37": empty,
}
# The same kinds, made here: what a header or a configuration may claim.
MORE: dict[str, Callable[[Path], None]] = {
    "weights-empty-file": damaged(b""),
    "header-not-json": damaged(attack_helpers.st(b"{" * 64)),
    "header-list": damaged(attack_helpers.st(b"[]")),
    "header-negative-offset": damaged(attack_helpers.st(PT | tensors(("a", [4], [-16, 0])), body=BODY)),
    "header-float-shape": damaged(attack_helpers.st(b'{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,16]}}', body=BODY)),
    "header-unknown-dtype": damaged(attack_helpers.st(b'{"a":{"dtype":"EVIL","shape":[4],"data_offsets":[0,16]}}', body=BODY)),
    "header-deep-metadata": damaged(attack_helpers.st(b'{"__metadata__":' + b"[" * 5000 + b"]" * 5000 + b"}")),
    "pickle-named-safetensors": damaged(pickle.dumps({"a": 1})),
    "config-list": lambda tiny: ((tiny / "config.json").write_text("[]"), refused(tiny, ErrorKind.ModelInvalid))[0],
    "config-deep": lambda tiny: ((tiny / "config.json").write_text("[" * 100_000), refused(tiny, ErrorKind.ModelInvalid))[0],
    "config-unknown-type": changed(model_type="../../etc/passwd", architectures=["Evil"]),
    "config-layers-negative": changed(num_hidden_layers=-1),
    "config-vocabulary-in-text-config": changed(model_type="llava", text_config={"vocab_size": 10**12, "hidden_size": 10**6}),
}  # fmt: skip


@pytest.mark.parametrize("attack", of("logits"))
def test_hostile_models_end_as_the_file_says(tiny: Path, attack: str) -> None:
    assert CASES[attack]["surface"] == "logits"
    CHECKS[attack](tiny)


@pytest.mark.parametrize("name", MORE)
def test_other_hostile_models_are_refused(tiny: Path, name: str) -> None:
    MORE[name](tiny)
