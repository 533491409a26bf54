"""Next-token logits: known answers of the embedded model, figures against brute force, and every refusal."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from inspector import caller
from inspector.backends import PaddedRows, RawLogits, load_backend
from inspector.backends.local import LocalBackend, check_ids, converted_folder
from inspector.backends.worker import LocalWorker
from inspector.errors import ErrorKind, InspectorError
from inspector.logits import NextTokenLogits, compare_logits, log_softmax, next_token_logits, summarize, top_ids
from inspector.sandbox import CallCancelled
from inspector.sources import resolve_model, resolve_tokenizer
from inspector.sources.cache import sha256_of
from inspector.sources.resolve import ModelArtifact
from inspector.tokenizers import load_tokenizer
from inspector.tokenizers.base import ArtifactFile

ROOT = Path(__file__).resolve().parent.parent
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
KNOWN_TOP = [
    ("The", 0.152), ("L", 0.140), ("La", 0.104), ("Al", 0.060), ("Le", 0.055),
    ("Est", 0.046), ("B", 0.044), ("Un", 0.041), ("Bon", 0.023), ("Capital", 0.022),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(resolve_tokenizer("smollm2"))


@pytest.fixture(scope="module")
def model():
    return resolve_model("smollm2")


@pytest.fixture(scope="module")
def ids(tokenizer):
    from transformers.utils.chat_template_utils import render_jinja_template

    template = tokenizer.chat_templates["default"]
    (text,), _ = render_jinja_template(
        conversations=[QUESTION], chat_template=template, add_generation_prompt=True, **tokenizer.special_tokens
    )
    return tokenizer.encode(text).input_ids.tolist()


@pytest.fixture(scope="module")
def worker():
    client = LocalWorker()
    yield client
    client.close()


@pytest.fixture(scope="module")
def local():
    """A backend of this module's own, on the CPU: what it keeps is known."""
    return LocalBackend(device="cpu")


@pytest.fixture(scope="module")
def loaded(local, model):
    """The transformers model inside `local`."""
    local.next_token_logits(model, [[1]])
    return local._loaded[model.digest, "float32"]


def raw(values) -> RawLogits:
    return RawLogits(np.array(values, np.float32), "local", "cpu", "float32")


def made(values, top_k: int = 3, tokenizer=None) -> NextTokenLogits:
    return summarize(raw(values), "m", top_k=top_k, tokenizer=tokenizer)


# ------------------------------------------------------------------------------------------- the model's known answers


@pytest.mark.parametrize("backend", ["local", "worker"])
def test_smollm2_s_top_ten_is_the_known_one(ids, model, tokenizer, worker, backend):
    chosen = worker if backend == "worker" else load_backend(backend)
    logits = next_token_logits(ids, model, top_k=10, tokenizer=tokenizer, backend=chosen)
    assert [(row.piece, round(row.prob, 3)) for row in logits.top] == KNOWN_TOP
    assert logits.logits.shape == (49152,) and logits.logits.dtype == np.float32
    assert (logits.model, logits.backend, logits.dtype) == ("smollm2", "local", "float32")


def test_greedy_decoding_gives_the_known_sentence(ids, model, tokenizer):
    out: list[int] = []
    end = tokenizer.special_token_ids["eos_token"]
    while end not in out and len(out) < 20:
        out.append(next_token_logits(ids + out, model, top_k=1).top[0].id)
    assert tokenizer.decode(out) == b"The capital of France is Paris.<|im_end|>"


def test_the_worker_s_logits_are_this_process_s_bit_by_bit(ids, model, worker):
    here = LocalBackend(device="cpu").next_token_logits(model, [ids, ids[:5]])
    there = worker.next_token_logits(model, [ids, ids[:5]])
    if there[0].device == "cpu":
        assert all(np.array_equal(a.values, b.values) for a, b in zip(here, there, strict=True))
    assert not np.array_equal(here[0].values, here[1].values)


def plain_logits(loaded, ids):
    """The oracle: the library's own forward pass, nothing kept: float32[T, V]."""
    import torch

    with torch.inference_mode():
        return loaded.model(input_ids=torch.tensor([ids])).logits[0].float().numpy()


def test_keeping_one_position_s_logits_changes_none_of_them(ids, loaded, local, model):
    (found,) = local.next_token_logits(model, [ids])
    np.testing.assert_allclose(found.values, plain_logits(loaded, ids)[-1], atol=1e-4)


# ------------------------------------------------------------------------------------------------ figures, by brute force


def test_top_k_entropy_and_probabilities_agree_with_a_plain_loop():
    values = [0.5, -2.0, 3.25, 3.25, 0.0]
    total = sum(math.exp(value) for value in values)
    probs = [math.exp(value) / total for value in values]
    logits = made(values, top_k=10)
    assert [row.id for row in logits.top] == [2, 3, 0, 4, 1]  # equal logits by id
    for row in logits.top:
        assert row.prob == pytest.approx(probs[row.id]) and row.logprob == pytest.approx(math.log(probs[row.id]))
    assert logits.entropy == pytest.approx(-sum(p * math.log(p) for p in probs))


def test_top_ids_equal_a_full_sort_on_random_logits():
    generator = np.random.default_rng(7)
    for size in (1, 2, 50, 3000):
        values = generator.integers(-20, 20, size).astype(np.float32)  # many ties
        expected = sorted(range(size), key=lambda token: (-values[token], token))
        for k in (1, 5, size):
            assert top_ids(values, k).tolist() == expected[:k]


def test_extreme_logits_give_finite_figures():
    logits = made([3e38, -3e38, 0.0])
    assert logits.top[0].prob == 1.0 and logits.entropy == 0.0
    assert "-0.0" not in json.dumps(logits.to_dict())
    assert log_softmax(np.array([1e4, 1e4], np.float32)).tolist() == pytest.approx([-math.log(2)] * 2)


def test_divergences_agree_with_the_formula_and_are_zero_for_equal_logits():
    a, b = [1.0, 2.0, 0.0], [0.0, 0.5, 2.5]
    p, q = (np.exp(np.array(v)) / np.exp(np.array(v)).sum() for v in (a, b))
    m = (p + q) / 2
    found = compare_logits(made(a), made(b))
    assert found["kl_ab"] == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-5)
    assert found["kl_ba"] == pytest.approx(float((q * np.log(q / p)).sum()), rel=1e-5)
    js = 0.5 * float((p * np.log(p / m)).sum()) + 0.5 * float((q * np.log(q / m)).sum())
    assert found["js"] == pytest.approx(js, rel=1e-5)
    assert found["top1_changed"] is True
    assert compare_logits(made(a), made(a)) == {"kl_ab": 0.0, "kl_ba": 0.0, "js": 0.0, "top1_changed": False}


def test_js_of_disjoint_distributions_is_log_two_and_bounds_hold_on_random_logits():
    assert compare_logits(made([500.0, -500.0]), made([-500.0, 500.0]))["js"] == pytest.approx(math.log(2), rel=1e-5)
    generator = np.random.default_rng(3)
    for _ in range(50):
        a, b = (made(generator.normal(0, 5, 200)) for _ in range(2))
        there, back = compare_logits(a, b), compare_logits(b, a)
        assert (there["kl_ab"], there["js"]) == (back["kl_ba"], back["js"])
        assert 0 <= there["js"] <= math.log(2) and there["kl_ab"] >= 0


def test_logits_of_different_sizes_are_not_compared():
    with pytest.raises(InspectorError) as caught:
        compare_logits(made([1.0, 2.0]), made([1.0, 2.0, 3.0]))
    assert caught.value.kind is ErrorKind.OptionInvalid and "2 and 3" in caught.value.message


def test_the_dictionary_has_the_contract_s_keys_and_six_digits(ids, model, tokenizer):
    record = next_token_logits(ids, model, top_k=3, tokenizer=tokenizer).to_dict()
    assert list(record) == ["model", "backend", "device", "dtype", "entropy", "top", "missing", "note"]
    assert list(record["top"][0]) == ["id", "piece", "logit", "logprob", "prob"]
    for row in record["top"]:
        assert all(float(f"{row[key]:.6g}") == row[key] for key in ("logit", "logprob", "prob"))
    assert json.loads(json.dumps(record)) == record


def test_an_id_beyond_the_tokenizer_has_no_piece(tokenizer):
    values = np.zeros(tokenizer.size + 3, np.float32)
    values[-1] = 9
    assert [row.piece for row in made(values, top_k=2, tokenizer=tokenizer).top] == [None, tokenizer.piece(0)]


# ------------------------------------------------------------------------------------------------------------ refusals


def refusal(*arguments, **options) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        next_token_logits(*arguments, **options)
    return caught.value


def test_an_id_beyond_the_embedding_names_token_place_and_both_numbers(ids, model, tokenizer):
    error = refusal([*ids, 49152], model)
    assert error.kind is ErrorKind.TokenOutOfModelVocab and error.where == {"token": len(ids), "id": 49152}
    assert "49152" in error.message and "49151" in error.message
    assert refusal([-1], model).kind is ErrorKind.TokenOutOfModelVocab


def test_a_prompt_beyond_the_window_gives_both_numbers(model):
    error = refusal([1] * 8193, model)
    assert error.kind is ErrorKind.PromptTooLong
    assert "8193" in error.message and "8192" in error.message


def test_no_token_and_no_row_are_refused(ids, model):
    assert refusal([], model).kind is ErrorKind.InputInvalid
    assert refusal(ids, model, top_k=0).kind is ErrorKind.OptionInvalid
    with pytest.raises(InspectorError):
        load_backend("nosuch")
    check_ids([0, 1], 2, None)


def artifact(folder: Path, kind: str = "safetensors") -> ModelArtifact:
    files = tuple(ArtifactFile(path.name, str(path), sha256_of(path)) for path in sorted(folder.iterdir()))
    return ModelArtifact("folder", "made", files, sha256_of(folder / "config.json") + str(folder), kind)


@pytest.fixture
def tiny(tmp_path):
    """A two-layer Llama with real (random) weights, saved as safetensors."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=32,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def rewrite(folder: Path, change) -> None:
    from safetensors.torch import load_file, save_file

    save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})


def test_a_safetensors_model_of_scattered_files_loads_and_answers(tiny, tmp_path):
    files = []
    for path in sorted(tiny.iterdir()):
        place = tmp_path / "blobs" / sha256_of(path)
        place.parent.mkdir(exist_ok=True)
        files.append(ArtifactFile(path.name, str(path.rename(place)), sha256_of(place)))
    model = ModelArtifact("made", "made", tuple(files), "scattered", "safetensors")
    assert len(next_token_logits([1, 2, 3], model, backend=LocalBackend(device="cpu")).logits) == 40


@pytest.mark.parametrize("lost", ["all", "one"])
def test_a_model_that_lacks_tensors_is_refused_as_noise(tiny, lost):
    def change(tensors):
        kept = list(tensors)[1:] if lost == "one" else []
        return {name: tensors[name] for name in kept}

    rewrite(tiny, change)
    error = refusal([1, 2], artifact(tiny), backend=LocalBackend(device="cpu"))
    assert error.kind is ErrorKind.WeightsIncomplete and "noise" in error.message


def test_a_tensor_of_another_shape_is_refused(tiny):
    rewrite(tiny, lambda tensors: tensors | {"model.norm.weight": tensors["model.norm.weight"][:4].contiguous()})
    error = refusal([1, 2], artifact(tiny), backend=LocalBackend(device="cpu"))
    assert error.kind in (ErrorKind.WeightsIncomplete, ErrorKind.ModelInvalid)


def test_not_finite_logits_are_refused(tiny):
    rewrite(tiny, lambda tensors: tensors | {"model.norm.weight": tensors["model.norm.weight"] * float("nan")})
    error = refusal([1, 2], artifact(tiny), backend=LocalBackend(device="cpu"))
    assert error.kind is ErrorKind.NonFiniteLogits and "40 of 40" in error.message


def test_damaged_files_pickles_and_remote_code_are_refused(tiny):
    backend = LocalBackend(device="cpu")
    model = artifact(tiny)
    (tiny / "model.safetensors").write_bytes(b"half a file")
    assert refusal([1], model, backend=backend).kind is ErrorKind.ArtifactMismatch
    assert refusal([1], artifact(tiny), backend=backend).kind is ErrorKind.ModelInvalid
    config = json.loads((tiny / "config.json").read_text())
    config |= {"model_type": "not_a_type", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (tiny / "config.json").write_text(json.dumps(config))
    assert refusal([1], artifact(tiny), backend=backend).kind is ErrorKind.RemoteCodeRefused
    (tiny / "pytorch_model.bin").write_bytes(b"")
    assert refusal([1], artifact(tiny), backend=backend).kind is ErrorKind.UnsafeWeights


def test_a_damaged_conversion_is_made_anew(model, monkeypatch, tmp_path):
    """Copy the conversion into a cache of its own, spoil one bit of the weights, and see them converted again."""
    good = converted_folder(model, lambda *_: None)
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path))
    shutil.copytree(good, tmp_path / "models" / good.name)
    told: list[str] = []
    folder = converted_folder(model, lambda doing, *_: told.append(doing))
    assert folder == tmp_path / "models" / good.name and told == []
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    assert converted_folder(model, lambda doing, *_: told.append(doing)) == folder and told == ["converting"]
    assert sha256_of(folder / "model.safetensors") == sha256_of(good / "model.safetensors")
    assert not list((tmp_path / "tmp").iterdir())


# ------------------------------------------------------------------------------------------------------------ the worker


def test_the_worker_tells_what_it_is_doing_and_starts_once(tiny):
    model, ids = artifact(tiny), [1, 2, 3]
    client, told = LocalWorker(), []
    try:
        client.next_token_logits(model, [ids], report=lambda doing, *_: told.append(doing))
        assert told[0] == "starting" and told[-2:] == ["loading", "computing"]
        told.clear()
        client.next_token_logits(model, [ids], report=lambda doing, *_: told.append(doing))
        assert "loading" not in told and client.starts == 1
    finally:
        client.close()
    assert client.pid() is None


def test_errors_cross_the_worker_s_boundary_whole(ids, model, worker):
    here = refusal([1] * 8193, model)
    assert refusal([1] * 8193, model, backend=worker).to_dict() == here.to_dict()


def test_threads_share_the_worker_and_get_their_own_answers(ids, model, worker):
    expected = {length: worker.next_token_logits(model, [ids[:length]])[0].values for length in range(2, 8)}
    found: dict[int, np.ndarray] = {}

    def ask(length: int) -> None:
        found[length] = worker.next_token_logits(model, [ids[:length]])[0].values

    threads = [threading.Thread(target=ask, args=(length,)) for length in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[length], expected[length]) for length in expected)


def test_the_worker_scores_prompts_and_reads_padded_rows_as_this_process_does(ids, model, local, worker):
    here, there = (each.prompt_logprobs(model, ids[:12]) for each in (local, worker))
    assert np.isnan(there.logprobs[0]) and there.ranks.tolist() == here.ranks.tolist()
    np.testing.assert_allclose(there.logprobs[1:], here.logprobs[1:], atol=1e-4)
    row = np.array([[0, 0, *ids[:4]]])
    rows = PaddedRows(row, np.array([[0, 0, 1, 1, 1, 1]]), np.array([[0, 0, 0, 1, 2, 3]]), np.array([5]))
    (padded,) = worker.padded_logits(model, rows)
    np.testing.assert_allclose(padded.values, local.next_token_logits(model, [ids[:4]])[0].values, atol=1e-4)
    assert worker.capabilities == local.capabilities


def test_a_worker_killed_between_requests_is_started_again(ids, model, worker):
    first = worker.next_token_logits(model, [ids])[0].values
    os.kill(worker.pid(), signal.SIGKILL)
    assert np.array_equal(worker.next_token_logits(model, [ids])[0].values, first)


def test_a_worker_killed_at_work_is_a_typed_error_and_the_next_request_works(model, worker):
    def kill(doing: str, *_) -> None:
        if doing == "computing":
            os.kill(worker.pid(), signal.SIGKILL)

    error = refusal([1] * 3000, model, backend=worker, report=kill)
    assert error.kind is ErrorKind.WorkerCrashed and "SIGKILL" in error.message
    assert len(worker.next_token_logits(model, [[1, 2]])[0].values) == 49152


@pytest.mark.skipif(sys.platform != "linux", reason="sets another process's limit")
def test_a_worker_without_memory_says_so_and_answers_the_next(ids, model, worker):
    import resource

    first, starts = worker.next_token_logits(model, [ids])[0].values, worker.starts
    with open(f"/proc/{worker.pid()}/statm") as statm:
        held = int(statm.read().split()[0]) * resource.getpagesize()
    before = resource.prlimit(worker.pid(), resource.RLIMIT_AS, (held + (64 << 20), resource.RLIM_INFINITY))
    error = refusal([7] * 3000, model, backend=worker)
    assert error.kind is ErrorKind.MemoryLimit and error.remedy
    resource.prlimit(worker.pid(), resource.RLIMIT_AS, before)
    np.testing.assert_allclose(worker.next_token_logits(model, [ids])[0].values, first, atol=1e-3)
    assert worker.starts == starts


@pytest.mark.parametrize("by", ["argument", "caller"])
def test_a_cancelled_request_returns_at_once_and_does_not_answer_the_next(ids, model, worker, by):
    expected = worker.next_token_logits(model, [ids])[0].values
    cancel, starts = threading.Event(), worker.starts

    def stop(doing: str, *_) -> None:
        if doing == "computing":
            cancel.set()

    began = time.monotonic()
    given = {"cancel": cancel} if by == "argument" else {}
    with pytest.raises(CallCancelled), caller.asked_by(caller.Caller("a visitor", cancel=cancel)):
        worker.next_token_logits(model, [[1] * 700], report=stop, **given)
    assert time.monotonic() - began < 5
    again = worker.next_token_logits(model, [ids])[0]
    assert np.array_equal(again.values, expected) and again.reused == len(ids)
    with caller.asked_by(caller.Caller(f"another visitor, {by}")):
        other = worker.next_token_logits(model, [ids])[0]
    assert np.array_equal(other.values, expected) and other.reused == 0  # the worker keeps visitors apart
    assert worker.starts == starts


def test_a_request_over_its_time_is_given_up_and_the_worker_lives_on(model, worker):
    worker.next_token_logits(model, [[1]])
    starts = worker.starts
    error = refusal([1] * 8000, model, backend=worker, timeout_s=0.2)
    assert error.kind is ErrorKind.TimeLimit and "0.2 s" in error.message
    worker.next_token_logits(model, [[1, 2]], timeout_s=60)
    assert worker.starts == starts


def test_a_worker_that_hangs_is_killed_when_its_time_is_over(model, worker, monkeypatch):
    monkeypatch.setattr("inspector.backends.worker.GRACE_S", 0.2)
    worker.next_token_logits(model, [[1]])
    os.kill(worker.pid(), signal.SIGSTOP)
    assert refusal([1, 2], model, backend=worker, timeout_s=0.2).kind is ErrorKind.TimeLimit
    deadline = time.monotonic() + 10
    while worker.pid() is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert worker.pid() is None


def test_an_idle_worker_ends_by_itself_and_the_next_request_starts_one(tiny):
    model, ids = artifact(tiny), [1, 2, 3]
    client = LocalWorker(idle_s=0.3)
    try:
        client.next_token_logits(model, [ids])
        deadline = time.monotonic() + 10
        while client.pid() is not None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.pid() is None
        client.next_token_logits(model, [ids])
        assert client.starts == 2
    finally:
        client.close()


# ------------------------------------------------------------------------------------------------------------- imports


@pytest.mark.parametrize("module", ["inspector.logits", "inspector.backends", "inspector.backends.worker"])
def test_torch_is_not_imported_before_logits_are_asked_for(module):
    code = f"import {module}, sys; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
