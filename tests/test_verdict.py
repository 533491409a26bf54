"""The verdict's table, the sampler, walks, what-ifs and prompt heat: brute force, transformers, and the known answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inspector.backends import PromptScores, RawLogits, load_backend
from inspector.errors import ErrorKind, InspectorError
from inspector.heat import Run, prompt_heat
from inspector.job import make_options
from inspector.logits import compare_logits, log_softmax, summarize
from inspector.modelinput import thinking_argument, watched
from inspector.modelservice import (
    Asking,
    Going,
    ask_heat,
    ask_sampler,
    ask_verdict,
    ask_walk,
    ask_whatif,
)
from inspector.sampling import ORDERS, Sampler, sample_view
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
from inspector.verdict import Pin, distance, verdict
from inspector.walk import StopRules, stop_ids, walk
from inspector.whatif import other_render, sent_otherwise

QUESTION = json.dumps([{"role": "user", "content": "What is the capital of France?"}]).encode()
SMOLLM2 = make_options(tokenizer="smollm2")


def raw(values, **more) -> RawLogits:
    return RawLogits(np.array(values, np.float32), "local", "cpu", "float32", **more)


def random_raw(seed: int, size: int = 300) -> RawLogits:
    return raw(np.random.default_rng(seed).normal(0, 4, size))


@pytest.fixture(scope="module")
def asking():
    return Asking("smollm2", load_backend("local"))


# ------------------------------------------------------------------------------------------------------- the table


def test_the_table_is_the_union_of_both_top_k_with_each_rank_in_the_other():
    a, b = random_raw(1), random_raw(2)
    table = verdict([a, b], top_k=4)
    orders = [np.argsort(-side.values, kind="stable").tolist() for side in (a, b)]
    assert {row.id for row in table.rows} == {*orders[0][:4], *orders[1][:4]}
    for row in table.rows:
        for cell, side, order in zip(row.cells, (a, b), orders, strict=True):
            assert cell.rank == order.index(row.id) + 1
            assert cell.logprob == pytest.approx(log_softmax(side.values)[row.id])
    best = [max(cell.logprob for cell in row.cells) for row in table.rows]
    assert best == sorted(best, reverse=True)


def test_the_distances_are_those_of_compare_logits_and_the_table_s_own_sums():
    a, b = random_raw(3), random_raw(4)
    (found,) = verdict([a, b], top_k=1).distances
    expected = compare_logits(summarize(a, "m", top_k=1), summarize(b, "m", top_k=1))
    assert {name: value for name, value in found.to_dict().items() if name != "max_logit_change"} == expected
    assert found.max_logit_change == pytest.approx(float(np.abs(a.values - b.values).max()))
    same = distance(a, a)
    assert (same.kl_ab, same.max_logit_change, same.top1_changed) == (0, 0, False) and same.js < 1e-15


def test_pinned_rows_come_after_the_top_once_with_all_their_reasons():
    table = verdict(
        [raw([5, 4, 3, 2, 1])], top_k=2, pins=[Pin(4, "eos"), Pin(0, "typed", "x"), Pin(4, "turn_end"), Pin(9, "eos")]
    )
    assert [(row.id, [pin.why for pin in row.pins]) for row in table.rows] == [
        (0, ["typed"]),
        (1, []),
        (4, ["eos", "turn_end"]),
    ]


def test_equal_logits_rank_by_id_and_ids_without_a_token_are_marked_with_their_mass():
    """VOCAB-01: the model has more rows than the tokenizer has ids."""
    side = raw([1.0, 2.0, 2.0, 2.0, 0.0])
    table = verdict([side], top_k=4, num_tokens=3)
    assert [(row.id, row.cells[0].rank, row.has_token) for row in table.rows] == [
        (1, 1, True), (2, 2, True), (3, 3, False), (0, 4, True),
    ]  # fmt: skip
    probs = np.exp(log_softmax(side.values))
    assert table.sides[0].without_token == pytest.approx(float(probs[3:].sum()))


def test_a_list_of_the_most_probable_tokens_gives_no_divergence_and_no_invented_cell():
    whole = raw([3.0, 2.0, 1.0, 0.0])
    listed = raw([-0.5, -1.5], ids=np.array([2, 0]))
    table = verdict([whole, listed], top_k=2)
    cells = {row.id: row.cells[1] for row in table.rows}
    assert cells[1] is None and cells[2].rank == 1 and cells[2].logit is None
    (found,) = table.distances
    assert (found.kl_ab, found.kl_ba, found.js, found.max_logit_change, found.top1_changed) == (
        None,
        None,
        None,
        None,
        True,
    )
    low, high = found.to_dict()["bounds"]["js"]
    assert 0 < low < high <= 0.693148
    assert table.sides[1].entropy is None and table.sides[1].listed == 2


def test_watched_tokens_are_found_in_vocabulary_and_template():
    tokenizer = load_tokenizer(resolve_tokenizer("qwen3"))
    ids = {token.content: token.id for token in tokenizer.added_tokens}
    from inspector.job import Job
    from inspector.pipeline import run

    chat = b'[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]'
    options = make_options(tokenizer="qwen3", add_generation_prompt=False)
    answered = run(Job(chat, options, resolve_tokenizer("qwen3"), None)).encoding
    pins = {(pin.id, pin.why) for pin in watched(tokenizer, tokenizer.chat_templates["default"], answered)}
    assert {
        (ids["<|im_end|>"], "eos"),
        (ids["<|im_end|>"], "turn_end"),
        (ids["<tool_call>"], "tool_call"),
        (ids["<think>"], "think"),
    } <= pins
    assert not any(token == ids["</think>"] for token, _why in pins)
    assert thinking_argument(tokenizer.chat_templates["default"]) == "enable_thinking"
    assert (
        stop_ids({"eos_token_id": [7, 9]}, 2) == [7, 9]
        and stop_ids({"eos_token_id": 7}, 2) == [7]
        and stop_ids({}, 2) == [2]
    )


# --------------------------------------------------------------------------------------------------------- the sampler


@pytest.mark.parametrize("seed", range(12))
def test_the_sampler_is_transformers_own_filters_in_its_order(seed):
    import torch
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    generator = np.random.default_rng(seed)
    values = np.round(generator.normal(0, 3, 200), 1)  # with ties
    seen = generator.integers(0, 200, 30).tolist()
    sampler = Sampler(
        float(generator.uniform(0.2, 2)), int(generator.integers(1, 60)), float(generator.uniform(0.3, 0.99)),
        float(generator.uniform(0, 0.3)), float(generator.uniform(0.6, 1.8)),
    )  # fmt: skip
    steps = LogitsProcessorList([
        RepetitionPenaltyLogitsProcessor(sampler.repetition_penalty), TemperatureLogitsWarper(sampler.temperature),
        TopKLogitsWarper(sampler.top_k), TopPLogitsWarper(sampler.top_p), MinPLogitsWarper(sampler.min_p),
    ])  # fmt: skip
    expected = steps(torch.tensor([seen]), torch.tensor(values[None].copy()))[0].numpy()
    view = sample_view(values, sampler, seen, top_k=200)
    np.testing.assert_allclose(view.logits, expected)
    probs = np.exp(expected - expected.max()) / np.exp(expected - expected.max()).sum()
    for row in view.rows:
        assert row.after == pytest.approx(probs[row.id]) and (row.cut_by is None) == bool(probs[row.id] > 0)
    assert view.cuts[-1].left == int((probs > 0).sum())


def test_settings_that_change_nothing_cut_nothing_and_greedy_leaves_one():
    side = random_raw(5)
    assert sample_view(side.values, Sampler()).cuts == ()
    assert all(row.raw == pytest.approx(row.after) for row in sample_view(side.values, Sampler()).rows)
    greedy = sample_view(side.values, Sampler(temperature=0))
    assert greedy.cuts[-1].left == 1 and greedy.rows[0].after == 1.0


def test_the_order_of_engines_matters_and_is_a_choice():
    values = np.array([4.0, 3.0, 2.0, 1.0, 0.0])
    left = {order: sample_view(values, Sampler(2.0, 0, 0.7, 0, 1.0, order)).cuts[-1].left for order in ORDERS}
    chain = [cut.filter for cut in sample_view(values, Sampler(2.0, 0, 0.7, 0, 1.0, "llama.cpp")).cuts]
    assert chain == ["top_p", "temperature"] and left["llama.cpp"] < left["transformers"]


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": -1},
        {"top_p": "0.9"},
        {"top_k": 1.5},
        {"min_p": 2},
        {"temperature": True},
        {"order": "sglang"},
        {"temperature": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused_by_name(given):
    with pytest.raises(InspectorError) as caught:
        Sampler.of(given)
    assert caught.value.kind is ErrorKind.OptionInvalid and caught.value.where == {"option": next(iter(given))}


# ---------------------------------------------------------------------------------------------------- walks and what-ifs


def table_step(table: dict[int, list[float]]):
    """A step whose logits depend on the last id only: enough to see which rule stops."""
    return lambda ids: raw(table[ids[-1]])


CYCLE = {0: [0, 9, 0, 0], 1: [0, 0, 9, 0], 2: [9, 0, 0, 0], 3: [9, 0, 0, 0]}


def walked(rules: StopRules, **more) -> list[tuple[int, str | None]]:
    return [(step.id, step.stop) for step in walk([0], table_step(CYCLE), rules, **more)]


def test_a_walk_stops_as_engines_do_and_says_by_which_rule():
    assert walked(StopRules(max_tokens=4)) == [(1, None), (2, None), (0, None), (1, "length")]
    assert walked(StopRules(stop_ids=frozenset({2}))) == [(1, None), (2, "eos")]
    assert walked(StopRules(window=3)) == [(1, None), (2, "window")]
    assert walked(StopRules(window=1)) == []
    letters = {"decode": lambda ids: bytes(97 + token for token in ids)}
    assert walked(StopRules(stop_strings=("ca",)), **letters) == [(1, None), (2, None), (0, "ca")]


def test_a_person_s_tokens_are_taken_first_even_past_an_end():
    rules = StopRules(stop_ids=frozenset({2}), max_tokens=5)
    assert walked(rules, forced=[2, 3]) == [(2, "eos"), (3, None), (0, None), (1, None), (2, "eos")]
    assert walked(rules, forced=[3], before=[1, 1, 1, 1]) == [(3, "length")]
    steps = list(walk([0], table_step(CYCLE), StopRules(max_tokens=1), forced=[3], num_candidates=2))
    assert steps[0].rank == 4 and [token for token, _logprob in steps[0].candidates] == [1, 0]


def test_a_greedy_walk_is_the_model_s_own_greedy_generation(asking):
    import torch

    from inspector.sources import resolve_model

    chat = json.dumps([{"role": "user", "content": "Count to five."}]).encode()
    steps = list(ask_walk(chat, SMOLLM2, asking, Going(tokens=10)))
    loaded = asking.backend._loaded[resolve_model("smollm2").digest, "float32"]
    ids = ask_heat(chat, SMOLLM2, asking)["input_ids"]
    with torch.inference_mode():
        out = loaded.model.generate(
            torch.tensor([ids]), max_new_tokens=10, do_sample=False, eos_token_id=2, pad_token_id=2
        )
    assert [step["id"] for step in steps] == out[0, len(ids) :].tolist()


def test_the_known_answer_is_walked_and_its_end_is_a_control_token_that_stops(asking):
    steps = list(ask_walk(QUESTION, SMOLLM2, asking, Going(tokens=20)))
    assert b"".join(bytes.fromhex(step["settled"]) for step in steps) == b"The capital of France is Paris.<|im_end|>"
    assert (steps[-1]["control"], steps[-1]["stop"]) == (True, "eos") and not any(
        step["control"] for step in steps[:-1]
    )
    forked = list(ask_walk(QUESTION, SMOLLM2, asking, Going(appended=(steps[0]["id"],), text=" Eiffel", tokens=2)))
    assert "".join(step["piece"] for step in forked) == "ĠEiffel" or forked[0]["rank"] > 1


def test_what_ifs_are_what_a_faulty_program_would_send():
    variants = {variant.name: variant for variant in sent_otherwise([1, 5, 6], [1, 5, 6], bos_id=1, pad_id=0)}
    assert variants["double_bos"].input_ids == (1, 1, 5, 6) and variants["no_bos"].input_ids == (5, 6)
    right, bare, left = (variants[n].padded for n in ("right_padded", "left_padded_no_positions", "left_padded"))
    assert right.input_ids.tolist() == [[1, 5, 6, 0, 0, 0, 0]] and right.read_at.tolist() == [6]
    assert left.position_ids.tolist() == [[0, 0, 0, 0, 0, 1, 2]] and bare.position_ids.tolist() == [
        [0, 1, 2, 3, 4, 5, 6]
    ]
    assert variants["safe_ids"].input_ids is None and "same" in variants["safe_ids"].why_not
    assert all(v.why_not for v in sent_otherwise([5], [7], bos_id=None, pad_id=None) if v.name != "safe_ids")
    assert other_render("x", [1, 2], [1, 2]).why_not and other_render("x", [1, 2], [1]).input_ids == (1,)


def test_the_known_answer_and_its_what_ifs(asking):
    sides = [SMOLLM2, make_options(tokenizer="smollm2", add_generation_prompt=False)]
    table = ask_verdict(QUESTION, sides, asking, top_k=10, typed="#2")
    assert [row["piece"] for row in table["rows"] if row["cells"][0]["rank"] <= 10][:3] == ["The", "L", "La"]
    assert table["sides"][1]["reused"] >= 32
    assert set(table["sides"][0]["timings_ms"]) - {"prefill", "decode"} == {"template", "tokenization", "queue", "load"}
    pins = {pin["why"] for row in table["rows"] if row["id"] == 2 for pin in row["pins"]}
    assert pins == {"eos", "turn_end", "typed"} and table["distances"][0]["top1_changed"]
    assert (table["vocab_size"], table["size_of_tokenizer"], table["rows_of_model"]) == (
        49152,
        49152,
        49152,
    )  # VOCAB-03
    rows = {row["name"]: row for row in ask_whatif(QUESTION, SMOLLM2, asking)["rows"]}
    assert rows["without_generation_prompt"]["distance"]["kl_ab"] == table["distances"][0]["kl_ab"]
    assert rows["right_padded"]["distance"]["top1_changed"] and rows["left_padded"]["distance"]["js"] < 1e-8
    assert 0.01 < rows["dtype_bfloat16"]["distance"]["max_logit_change"] < 2
    assert rows["thinking_on"]["why_not"] and rows["safe_ids"]["why_not"]


def test_a_side_that_fails_leaves_the_other_s_rows(asking):
    table = ask_verdict(QUESTION, [SMOLLM2, make_options(tokenizer="qwen3")], asking, top_k=3)
    assert table["sides"][1]["error"]["kind"] == "ModelInvalid" and table["sides"][0]["error"] is None
    assert [row["cells"][1] for row in table["rows"]] == [None] * len(table["rows"]) and table["distances"] == []
    assert ask_verdict(b"[]", [SMOLLM2], asking)["rows"] == []


def test_a_sampler_goes_through_the_model_s_distribution(asking):
    found = ask_sampler(QUESTION, SMOLLM2, asking, {"top_k": 3, "temperature": 0.5}, top_k=5, ids=[2])
    assert [row["cut_by"] for row in found["rows"]] == [None, None, None, "top_k", "top_k", "top_k"]
    assert (
        sum(row["after"] for row in found["rows"]) == pytest.approx(1, abs=1e-5)
        and found["rows"][5]["piece"] == "<|im_end|>"
    )


# --------------------------------------------------------------------------------------------------------- prompt heat


def test_heat_adds_up_by_part_and_tokens_without_a_past_do_not_count():
    logprobs = np.array([np.nan, -1.0, -2.0, -5.0])
    scores = PromptScores(logprobs, np.array([0, 1, 2, 9]), "local", "cpu", "float32")
    heat = prompt_heat(
        scores, [Run(0, 1, "template", ""), Run(1, 3, "message", "messages[0].content"), Run(3, 4, "template", "")]
    )
    assert (heat.total, heat.mean) == (-8.0, pytest.approx(-8 / 3))
    parts = {(part.kind, part.path): (part.tokens, part.total, part.worst) for part in heat.parts}
    assert parts == {("template", ""): (1, -5.0, 3), ("message", "messages[0].content"): (2, -3.0, 2)}
    record = heat.to_dict()
    assert record["logprobs"] == [None, -1.0, -2.0, -5.0] and json.loads(json.dumps(record)) == record


def test_heat_of_a_chat_names_each_message_and_its_parts_partition_the_prompt(asking):
    chat = json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Xylophone qq"}]).encode()
    heat = ask_heat(chat, SMOLLM2, asking)
    assert sum(part["tokens"] for part in heat["parts"]) == heat["tokens"] - 1
    means = {part["path"]: part["mean"] for part in heat["parts"] if part["path"].endswith("content")}
    assert set(means) == {"messages[0].content", "messages[1].content"} and means["messages[1].content"] < -3
    assert heat["total"] == pytest.approx(sum(part["total"] for part in heat["parts"]), rel=1e-4)
