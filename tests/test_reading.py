"""Reading prompts: chunks, kept keys and values, turns, memory and padding, against the library's plain forward pass."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from inspector import caller
from inspector.backends import Capabilities, PaddedRows, load_backend, memory, reading
from inspector.backends.local import LocalBackend
from inspector.backends.prefixes import Prefixes, shared_length
from inspector.backends.turns import Turns
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled
from inspector.sources import resolve_model
from inspector.sources.cache import sha256_of
from inspector.sources.resolve import ModelArtifact
from inspector.tokenizers.base import ArtifactFile

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "data" / "faults.jsonl").read_text("utf-8").splitlines())
}
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model():
    return resolve_model("smollm2")


@pytest.fixture(scope="module")
def local():
    return load_backend("local")


@pytest.fixture(scope="module")
def loaded(local, model):
    local.next_token_logits(model, [[1]])
    return local._loaded[model.digest, "float32"]


@pytest.fixture
def fresh(loaded):
    """The loaded model with nothing kept."""
    loaded.kept.clear()
    return loaded


def random_ids(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(20, 40_000, count).tolist()


def plain(loaded, ids, **arguments):
    """The oracle: one plain forward pass, nothing kept: float32[T, V]."""
    import torch

    with torch.inference_mode():
        return loaded.model(input_ids=torch.tensor([ids]), use_cache=False, **arguments).logits[0].float().numpy()


def test_what_is_kept_and_what_is_chunked_changes_no_logit(local, model, fresh, monkeypatch):
    monkeypatch.setitem(reading.CHUNK, "cpu", 48)
    base = random_ids(130)
    cases = [
        (base, 0),
        (base, 130),  # the same again: nothing is read
        (base[:125] + random_ids(5, 1), 125),  # an edit at the end
        (base[:60] + random_ids(30, 2), 60),
        (base[:125], 124),  # a beginning: its last token is read again for its logits
        (base + random_ids(3, 3), 130),
        (random_ids(20, 4), 0),
    ]
    for ids, reused in cases:
        (found,) = local.next_token_logits(model, [ids])
        assert found.reused == reused
        np.testing.assert_allclose(found.values, plain(fresh, ids)[-1], atol=TOLERANCE)


def test_one_token_more_is_a_decode_step_and_the_rest_is_prefill(local, model, fresh):
    ids = random_ids(20)
    (first,) = local.next_token_logits(model, [ids])
    (second,) = local.next_token_logits(model, [[*ids, 7]])
    assert set(first.timings_ms) == {"queue", "load", "prefill"} and set(second.timings_ms) == {
        "queue",
        "load",
        "decode",
    }
    assert local.capabilities == Capabilities(True, True, True, True, ("float32", "bfloat16", "float16"))


def test_prompt_heat_is_the_model_s_own_loss_and_ranks_are_those_of_a_sort(local, model, fresh, monkeypatch):
    import torch

    monkeypatch.setattr(reading, "LOGITS_BYTES", 20 * 4 * 49152)  # chunks of 20 tokens
    widths = []
    hook = fresh.model.lm_head.register_forward_hook(lambda _m, _i, out: widths.append(out.shape[1]))
    ids = random_ids(90, 5)
    try:
        scores = local.prompt_logprobs(model, ids)
    finally:
        hook.remove()
    assert max(widths) == 20  # never all positions at once
    with torch.inference_mode():
        loss = float(fresh.model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss)
    assert np.isnan(scores.logprobs[0]) and scores.ranks[0] == 0
    assert -np.nanmean(scores.logprobs) == pytest.approx(loss, abs=TOLERANCE)
    logits = plain(fresh, ids)
    for place in (1, 19, 20, 21, 89):
        order = np.argsort(-logits[place - 1], kind="stable")
        assert abs(int(np.flatnonzero(order == ids[place])[0]) + 1 - scores.ranks[place]) <= 2  # neighbours may swap


def test_a_prompt_beyond_the_window_is_refused_for_heat_too(local, model):
    with pytest.raises(InspectorError) as caught:
        local.prompt_logprobs(model, [1] * 8193)
    assert caught.value.kind is ErrorKind.PromptTooLong and "8193" in str(caught.value) and "8192" in str(caught.value)


def test_a_left_padded_batch_gives_what_each_row_gives_alone(local, model, fresh):
    rows = [random_ids(9, 6), random_ids(14, 7)]
    ids = np.zeros((2, 14), np.int64)
    mask = np.zeros((2, 14), np.int64)
    for q, row in enumerate(rows):
        ids[q, 14 - len(row) :], mask[q, 14 - len(row) :] = row, 1
    positions = np.where(mask == 1, np.cumsum(mask, 1) - 1, 0)
    found = local.padded_logits(model, PaddedRows(ids, mask, positions, np.array([13, 13])))
    for raw, row in zip(found, rows, strict=True):
        np.testing.assert_allclose(raw.values, plain(fresh, row)[-1], atol=TOLERANCE)


# ------------------------------------------------------------------------------------------- turns, progress, cancelling


def test_turns_are_given_in_the_order_of_asking():
    turns, order, begun = Turns(), [], threading.Event()

    def ask(name: str) -> None:
        with turns.turn(lambda: None):
            order.append(name)

    with turns.turn(begun.set):
        threads = []
        for name in "abc":
            threads.append(threading.Thread(target=ask, args=(name,)))
            threads[-1].start()
            while turns.waiting() < len(threads) + 1:
                pass
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c"]


def test_one_who_stops_waiting_leaves_the_queue():
    turns = Turns()

    def stop() -> None:
        raise CallCancelled

    with turns.turn(lambda: None):
        with pytest.raises(CallCancelled), turns.turn(stop):
            raise AssertionError
        assert turns.waiting() == 1
    assert turns.waiting() == 0


def test_a_short_prompt_passes_a_long_one_and_progress_is_told(local, model, fresh, monkeypatch):
    monkeypatch.setitem(reading.CHUNK, "cpu", 64)
    told: list[tuple[int, int]] = []
    under_way, answered = threading.Event(), []

    def report(doing: str, done: int = 0, total: int = 0, /) -> None:
        if doing == "computing":
            told.append((done, total))
            under_way.set()

    def long() -> None:
        local.next_token_logits(model, [random_ids(320, 8)], report=report)
        answered.append("long")

    thread = threading.Thread(target=long)
    thread.start()
    under_way.wait(60)
    local.next_token_logits(model, [random_ids(5, 9)])
    answered.append("short")
    thread.join()
    assert answered == ["short", "long"]
    assert told == [(done, 320) for done in range(0, 320, 64)]


def test_a_cancelled_prompt_stops_after_its_chunk_and_what_it_read_is_kept(local, model, fresh, monkeypatch):
    monkeypatch.setitem(reading.CHUNK, "cpu", 32)
    cancel, told, ids = threading.Event(), [], random_ids(220, 10)

    def report(doing: str, done: int = 0, total: int = 0, /) -> None:
        told.append(done)
        if done >= 64:
            cancel.set()

    with pytest.raises(CallCancelled):
        local.next_token_logits(model, [ids], report=report, cancel=cancel)
    assert max(told) == 64
    (found,) = local.next_token_logits(model, [ids[:120]])
    assert found.reused >= 96
    np.testing.assert_allclose(found.values, plain(fresh, ids[:120])[-1], atol=TOLERANCE)


# ------------------------------------------------------------------------------------------------------ memory and dtype


def test_out_of_memory_says_how_many_tokens_would_fit(local, model, loaded, monkeypatch):
    free = 40 << 20
    monkeypatch.setattr(memory, "free_bytes", lambda _device: free)
    with pytest.raises(InspectorError) as caught:
        local.next_token_logits(model, [random_ids(4000, 11)])
    error = caught.value
    fit = error.where["fit"]
    assert error.kind is ErrorKind.MemoryLimit and 0 < fit < 4000 and str(fit) in error.message
    assert len(local.next_token_logits(model, [random_ids(fit, 11)])[0].values) == 49152
    config = loaded.model.config
    assert memory.token_bytes(config, 4) == 2 * 30 * 3 * 64 * 4
    fits = [memory.tokens_that_fit(config, 49152, 256, 8192, 4, 1, size << 20) for size in (30, 60, 120, 240, 1 << 20)]
    assert fits == sorted(fits) and fits[-1] == 8192


def test_kept_prefixes_stay_within_their_bound():
    import torch

    from inspector.backends.prefixes import Prefix

    def prefix(start: int) -> Prefix:
        layer = (torch.zeros(1, 1, 10, 4), torch.zeros(1, 1, 10, 4))
        return Prefix(np.arange(start, start + 10), (layer, None))

    kept = Prefixes(max_bytes=3 * prefix(0).nbytes)
    for start in (0, 100, 200, 300):
        kept.keep(prefix(start))
    assert kept.longest(np.arange(0, 9)) is None
    found = kept.longest(np.array([300, 301, 302, 7, 8]))
    assert found is not None and found.ids.tolist() == [300, 301, 302] and found.layers[0][0].shape[-2] == 3
    kept.clear()
    assert kept.longest(np.arange(300, 310)) is None


def test_what_one_visitor_read_makes_no_other_s_answer_quicker(local, model, fresh):
    ids = list(range(100, 140))

    def reused(owner: str) -> int:
        with caller.asked_by(caller.Caller(owner)):
            return local.next_token_logits(model, [ids])[0].reused

    assert [reused(owner) for owner in ("a", "b", "a", "b", "")] == [0, 0, 40, 40, 0]
    with caller.asked_by(caller.Caller("b")):
        assert local.next_token_logits(model, [[*ids, 7]])[0].reused == 40
    with caller.asked_by(caller.Caller("c")):
        assert local.next_token_logits(model, [[*ids, 7]])[0].reused == 0
    assert shared_length([], [1]) == 0


def test_bfloat16_is_named_and_moves_the_logits_a_little(local, model, loaded):
    ids = random_ids(12, 12)
    (exact,), (rounded,) = (local.next_token_logits(model, [ids], dtype=dtype) for dtype in (None, "bfloat16"))
    change = float(np.abs(exact.values - rounded.values).max())
    assert (exact.dtype, rounded.dtype) == ("float32", "bfloat16") and 0.01 < change < 3
    with pytest.raises(InspectorError) as caught:
        local.next_token_logits(model, [ids], dtype="int3")
    assert caught.value.kind is ErrorKind.OptionInvalid and "bfloat16" in caught.value.remedy


# ------------------------------------------------------------------------------------------------ small models of all kinds


def small(tmp_path: Path, made) -> ModelArtifact:
    import torch

    torch.manual_seed(1)
    folder = tmp_path / "model"
    made().save_pretrained(folder)
    files = tuple(ArtifactFile(path.name, str(path), sha256_of(path)) for path in sorted(folder.iterdir()))
    return ModelArtifact("folder", "made", files, str(folder), "safetensors")


def llama(rows: int = 410, **settings):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=rows, num_key_value_heads=1, max_position_embeddings=64, initializer_range=0.3, **sizes, **settings
    )
    return LlamaForCausalLM(config)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=410, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.3)
    )


def sliding():
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(
        MistralConfig(vocab_size=410, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                      num_key_value_heads=1, max_position_embeddings=64, sliding_window=8)
    )  # fmt: skip


def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(MambaConfig(vocab_size=410, hidden_size=32, num_hidden_layers=2, state_size=4))


def dynamic():
    return llama(rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0})


@pytest.mark.parametrize(
    ("made", "chunks"), [(llama, True), (gpt2, True), (sliding, False), (mamba, False), (dynamic, False)]
)
def test_models_that_cannot_go_on_from_kept_keys_are_read_whole_every_time(tmp_path, made, chunks):
    backend, artifact = LocalBackend(device="cpu"), small(tmp_path, made)
    ids = np.random.default_rng(2).integers(0, 410, 40).tolist()
    backend.next_token_logits(artifact, [ids[:30]])
    (found,) = backend.next_token_logits(artifact, [ids])
    loaded = backend._loaded[artifact.digest, "float32"]
    assert loaded.chunks is chunks and (found.reused > 0) is chunks
    np.testing.assert_allclose(found.values, plain(loaded, ids)[-1], atol=TOLERANCE)
    scores = backend.prompt_logprobs(artifact, ids)
    wanted = plain(loaded, ids)[:-1]
    wanted = wanted - np.log(np.exp(wanted).sum(-1, keepdims=True))
    np.testing.assert_allclose(scores.logprobs[1:], wanted[np.arange(39), ids[1:]], atol=TOLERANCE)


def padded(side: str, positions: str) -> PaddedRows:
    """ "one two" and "one two three four five six" as a batch; the short row is read where `side` says its last place is."""
    short, long = [5, 6], [5, 6, 7, 8, 9, 10]
    ids, mask = np.zeros((2, 6), np.int64), np.zeros((2, 6), np.int64)
    place = slice(4, 6) if side == "left" else slice(0, 2)
    ids[0, place], mask[0, place], ids[1], mask[1] = short, 1, long, 1
    counted = np.where(mask == 1, np.cumsum(mask, 1) - 1, 0)
    return PaddedRows(ids, mask, counted if positions == "mask" else np.tile(np.arange(6), (2, 1)), np.array([5, 5]))


def test_batch_01_right_padding_read_at_the_last_place_is_a_pad_token_s(tmp_path):
    assert CASES["BATCH-01"]["minimal_input"]["padding_side"] == "right"
    backend, artifact = LocalBackend(device="cpu"), small(tmp_path, llama)
    (single,) = backend.next_token_logits(artifact, [[5, 6]])
    wrong = padded("right", "mask")
    right = PaddedRows(wrong.input_ids, wrong.attention_mask, wrong.position_ids, np.array([1, 5]))
    at_pad, at_last = (backend.padded_logits(artifact, rows)[0].values for rows in (wrong, right))
    assert np.abs(at_pad - single.values).max() > 0.1
    np.testing.assert_allclose(at_last, single.values, atol=TOLERANCE)


def test_batch_02_left_padding_needs_positions_from_the_mask(tmp_path):
    assert CASES["BATCH-02"]["minimal_input"]["padding_side"] == "left"
    backend, artifact = LocalBackend(device="cpu"), small(tmp_path, gpt2)
    (single,) = backend.next_token_logits(artifact, [[5, 6]])
    counted, shifted = (backend.padded_logits(artifact, padded("left", how))[0].values for how in ("mask", "arange"))
    assert np.abs(shifted - single.values).max() > 0.1
    np.testing.assert_allclose(counted, single.values, atol=TOLERANCE)


@pytest.mark.parametrize("rows", [0, 17])
def test_a_batch_of_no_or_too_many_rows_is_refused(local, model, rows):
    arrays = np.ones((rows, 3), np.int64)
    with pytest.raises(InspectorError) as caught:
        local.padded_logits(model, PaddedRows(arrays, arrays, None, np.full(rows, 2)))
    assert caught.value.kind is ErrorKind.InputInvalid
