"""The four stages: exact against the libraries, merge steps equal to tiktoken's educational encoder, and the trainer."""

from __future__ import annotations

import functools
import itertools
import json
import unicodedata
from pathlib import Path

import pytest
from texts import many_texts

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_tokenizer
from inspector.stages import GPT2_PATTERN, MAX_CHARS, StageTrace, code_points, token_merges, trace_stages, train
from inspector.tokenizers import TokenizerArtifact, load_tokenizer
from inspector.tokenizers.base import ArtifactFile, Tokenizer
from inspector.tokenizers.steps import best_paths, greedy_steps, merge_steps

RANKS = ("cl100k", "o200k", "qwen3.6", "mistral-tekken")
STEPPED = (
    *RANKS, "r50k", "smollm2", "qwen3", "llama3", "gemma2", "gemma3", "deepseek-v3", "gpt-oss", "minilm", "rwkv-world",
    "mistral-v1", "mistral-v3",
)  # fmt: skip


@functools.lru_cache(maxsize=2)
def tokenizer(ref: str) -> Tokenizer:
    return load_tokenizer(resolve_tokenizer(ref))


def piece_traces(trace: StageTrace):
    return itertools.chain.from_iterable(section.pieces for section in trace.sections)


@pytest.mark.parametrize("ref", STEPPED)
def test_the_stages_end_in_the_tokenizer_s_ids_with_steps_for_every_piece(ref):
    tok = tokenizer(ref)
    for text in many_texts(250, tuple(t.content for t in tok.added_tokens[:6]))[::3]:
        trace = trace_stages(text, tok)
        assert trace.exact, text
        assert list(trace.input_ids) == tok.encode(text, add_special_tokens=True).input_ids.tolist()
        for piece in piece_traces(trace):
            assert piece.algorithm and not (piece.note and "entry" not in piece.note), (text, piece)
        parts = [text.encode()[section.start : section.end] for section in trace.sections]
        assert b"".join(parts) == text.encode()
        json.dumps(trace.to_dict())


def tree_text(node: dict) -> str:
    return node["text"] if not node["children"] else "".join(map(tree_text, node["children"]))


@pytest.mark.parametrize("ref", ["cl100k", "qwen3", "gemma3"])
def test_a_merge_tree_s_leaves_spell_its_token_and_ranks_are_those_of_the_steps(ref):
    tok = tokenizer(ref)
    for text in many_texts(250)[::12]:
        for piece in piece_traces(trace_stages(text, tok)):
            if piece.note:
                continue
            assert len(piece.tree) == len(piece.tokens)
            ranks: list[float] = []
            todo = list(piece.tree)
            while todo:
                node = todo.pop()
                ranks += [node["rank"]] if node["children"] else []
                assert len(node["children"]) in (0, 2) and (node["rank"] is None) == (not node["children"])
                todo += node["children"]
            assert sorted(ranks) == sorted(step["rank"] for step in piece.steps)


def educational(tok) -> object:
    from tiktoken._educational import SimpleBytePairEncoding

    return SimpleBytePairEncoding(pat_str=tok.pattern, mergeable_ranks=tok.ranks)


@pytest.mark.parametrize("ref", RANKS)
def test_merge_steps_equal_the_educational_encoder_s_on_more_than_200_texts(ref, monkeypatch):
    """State by state: its encoder draws the parts before every merge, and we listen."""
    import tiktoken._educational as module

    tok = tokenizer(ref)
    drawn: list[tuple[bytes, ...]] = []
    monkeypatch.setattr(module, "visualise_tokens", lambda parts: drawn.append(tuple(parts)))
    monkeypatch.setattr(module, "print", lambda: None, raising=False)
    reference = educational(tok)
    spelled = [token.content for token in tok.added_tokens]
    texts = [t for t in many_texts(250) if len(t) < 300 and not any(content in t for content in spelled)]
    assert len(texts) >= 200
    for text in texts:
        normal = unicodedata.normalize("NFC", text) if tok.form else text
        drawn.clear()
        ids = reference.encode(normal)
        trace = trace_stages(text, tok, add_special_tokens=False)
        shift = getattr(tok, "num_special", 0)
        assert [i - shift for i in trace.input_ids] == ids, text
        states = []
        for section in trace.sections:
            for piece in section.pieces:
                data = piece.text.encode()
                made = merge_steps([data[i : i + 1] for i in range(len(data))], lambda a, b: tok.ranks.get(a + b))
                assert [(m.rank, m.at) for m in made.merges] == [(s["rank"], s["at"]) for s in piece.steps]
                states += made.states()
        assert states == drawn, text


@pytest.mark.parametrize("seed", range(4))
def test_the_trainer_learns_the_merges_of_the_educational_trainer(seed):
    from tiktoken._educational import bpe_train

    text = "".join(many_texts(250)[seed::17])[:6000]
    reference = bpe_train(data=text, vocab_size=256 + 120, pat_str=GPT2_PATTERN, visualise=None)
    learned = train(text, 120)
    assert learned.ranks() == reference
    assert [step.token for step in learned.merges] == [token for token, rank in reference.items() if rank > 255]
    counts = [step.count for step in learned.merges]
    assert counts == sorted(counts, reverse=True)


def test_an_encoding_of_the_learned_ranks_uses_them():
    import tiktoken

    learned = train("low lower lowest low low", 4)
    assert [step.token for step in learned.merges[:2]] == [b"lo", b"low"]
    encoding = tiktoken.Encoding("own", pat_str=GPT2_PATTERN, mergeable_ranks=learned.ranks(), special_tokens={})
    assert encoding.decode_bytes([learned.ranks()[b"low"]]) == b"low"
    assert encoding.encode("low")[0] == learned.ranks()[b"low"]
    json.dumps(learned.to_dict())


def test_training_ends_when_nothing_is_left_to_merge():
    assert [step.token for step in train("ab", 10).merges] == [b"ab"]
    with pytest.raises(InspectorError) as caught:
        train("a" * (MAX_CHARS + 1), 1)
    assert caught.value.kind is ErrorKind.InputTooLarge
    with pytest.raises(InspectorError) as caught:
        train("a", 1, pattern="(")
    assert caught.value.kind is ErrorKind.OptionInvalid


def test_merges_take_the_lowest_rank_and_the_leftmost_of_equals():
    trace = merge_steps("aaaa", lambda a, b: {"aa": 0, "aaaa": 1}.get(a + b))
    assert list(trace.states()) == [("a", "a", "a", "a"), ("aa", "a", "a"), ("aa", "aa"), ("aaaa",)]
    assert [(m.rank, m.at) for m in trace.merges] == [(0, 0), (0, 1), (1, 0)]


# --- Unigram and WordPiece ----------------------------------------------------------------------------------------------


def all_paths(text: str, scores: dict[str, float], unknown: float) -> list[tuple[float, tuple[str, ...]]]:
    """Every way to cut a text, from the definition."""
    if not text:
        return [(0.0, ())]
    found = []
    for size in range(1, len(text) + 1):
        score = scores.get(text[:size], unknown if size == 1 else None)
        if score is not None:
            found += [(score + rest, (text[:size], *parts)) for rest, parts in all_paths(text[size:], scores, unknown)]
    return found


def test_the_best_path_and_the_runner_up_are_the_best_of_all_paths():
    import random

    rng = random.Random(7)
    for _ in range(150):
        pieces = {"".join(rng.choices("abc", k=rng.randint(1, 4))): -rng.uniform(0.5, 9) for _ in range(12)}
        text = "".join(rng.choices("abcd", k=rng.randint(1, 9)))
        lowest = min(pieces.values())
        ranked = sorted(all_paths(text, pieces, lowest - 10), reverse=True)[:2]
        found = best_paths(text, pieces, max(map(len, pieces)), lowest)
        assert [path.score for path in found] == [pytest.approx(score) for score, _parts in ranked]
        assert found[0].pieces in [parts for score, parts in ranked if score == pytest.approx(ranked[0][0])]


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    """A Unigram model trained here, without user-defined pieces (sentencepiece scores those in a way of its own)."""
    import hashlib

    import sentencepiece

    folder = tmp_path_factory.mktemp("unigram")
    (folder / "corpus.txt").write_text("\n".join(" ".join(t.split()) for t in many_texts(250) if t.strip()), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"), model_prefix=str(folder / "u"), vocab_size=2500, model_type="unigram",
        character_coverage=0.98, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    data = (folder / "u.model").read_bytes()
    file = ArtifactFile("u.model", str(folder / "u.model"), hashlib.sha256(data).hexdigest())
    return load_tokenizer(TokenizerArtifact("u", "u", "sentencepiece", file.sha256, (file,)))


def test_unigram_steps_show_sentencepiece_s_own_best_two(unigram):
    shown = compared = 0
    for text in many_texts(250)[:120]:
        trace = trace_stages(text, unigram, add_special_tokens=False)
        assert trace.exact
        for piece in piece_traces(trace):
            if piece.note:
                continue
            shown += 1
            assert piece.algorithm == "unigram" and len(piece.steps) <= 2
            assert piece.steps[0]["score"] >= piece.steps[-1]["score"] - 1e-3
            best = unigram.processor.nbest_encode_as_pieces(text, 2)
            if len(text) < 80 and "⁇" not in "".join(best[0]) and len(best) == len(piece.steps) == 2:
                known = {entry.piece for entry in unigram.model.pieces}
                if all(set(path) <= known for path in best) and best[0] == piece.steps[0]["pieces"]:
                    compared += piece.steps[1]["pieces"] == best[1]
    assert shown > 60 and compared > 20


def test_a_unigram_tokenizer_json_is_stepped_through_too(tmp_path):
    scores = {
        "▁": -4.0,
        "▁low": -2.0,
        "er": -2.5,
        "e": -5.0,
        "r": -5.0,
        "▁l": -4.0,
        "ow": -3.0,
        "l": -6.0,
        "o": -6.0,
        "w": -6.0,
    }
    table = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": False,
            "vocab": [["<unk>", 0.0], *map(list, scores.items())],
        },
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    tok = load_tokenizer(resolve_tokenizer(str(tmp_path)))
    (piece,) = piece_traces(trace_stages("lower", tok))
    assert piece.steps[0]["pieces"] == ["▁low", "er"] and piece.steps[0]["score"] == pytest.approx(-4.5)
    assert piece.steps[1]["score"] == pytest.approx(
        max(s for s, p in all_paths("▁lower", scores, -16.0) if p != ("▁low", "er"))
    )


def test_wordpiece_steps_are_greedy_from_the_left():
    steps = greedy_steps("unaffable", {"un": 0, "##aff": 1, "##able": 2, "##a": 3}, "##", 100)
    assert [(s.at, s.tried, s.match) for s in steps] == [(0, 7, "un"), (2, 4, "##aff"), (5, 0, "##able")]
    assert greedy_steps("xyz", {"x": 0}, "##", 100)[-1].match is None
    assert greedy_steps("xyz", {"xyz": 0}, "##", 2) == (type(steps[0])(0, 0, None),)
    (piece,) = piece_traces(trace_stages("tokenization", tokenizer("minilm")))
    assert [step["match"] for step in piece.steps] == ["token", "##ization"]


def test_post_processor_insertions_are_named():
    trace = trace_stages("hi", tokenizer("minilm"))
    assert [t.piece for t in trace.inserted_before] == ["[CLS]"] and [t.piece for t in trace.inserted_after] == [
        "[SEP]"
    ]
    assert [t.piece for t in trace_stages("hi", tokenizer("gemma2")).inserted_before] == ["<bos>"]
    assert trace_stages("hi", tokenizer("llama3")).inserted_before == ()


# --- fault cases ---------------------------------------------------------------------------------------------------------


def test_uni_04_nfc_shows_the_one_character_that_it_composed():
    (section,) = trace_stages("cafe\u0301", tokenizer("qwen3")).sections
    (rewrite,) = section.rewrites
    assert (rewrite.before, rewrite.after) == ("e\u0301", "\xe9")
    told = rewrite.to_dict()
    assert told["points_before"] == ["U+0065 LATIN SMALL LETTER E", "U+0301 COMBINING ACUTE ACCENT"]
    assert told["points_after"] == ["U+00E9 LATIN SMALL LETTER E WITH ACUTE"]
    (kept,) = trace_stages("cafe\u0301", tokenizer("smollm2")).sections
    assert kept.rewrites == () and kept.normalized == "cafe\u0301"


def test_uni_05_nfkc_lists_each_folded_character(unigram):
    (section,) = trace_stages("︰ Ａ ① ½", unigram).sections
    told = {(r.before, r.after) for r in section.rewrites}
    assert {("Ａ", "A"), ("①", "1"), ("½", "1⁄2"), ("︰", "▁..")} <= told
    assert code_points("①") == ["U+2460 CIRCLED DIGIT ONE"]


def test_uni_07_carriage_returns_are_pieces_that_can_be_seen():
    crlf, lf = (trace_stages(text, tokenizer("qwen3")) for text in ("a\r\nb", "a\nb"))
    assert [list(t.input_ids) for t in (crlf, lf)] == [[64, 319, 65], [64, 198, 65]]
    assert [p.text for p in piece_traces(crlf)] == ["a", "čĊ", "b"]


def test_map_05_a_space_that_no_character_explains_is_in_the_normalised_text_only():
    v1 = tokenizer("mistral-v1")
    (section,) = trace_stages("port", v1).sections
    assert (section.text, section.normalized) == ("port", "▁port")
    assert [(r.before, r.after) for r in section.rewrites] == [("", "▁")]


def test_map_08_the_pieces_row_shows_what_a_wrong_pattern_does():
    text = "eBay pH 2026's"
    llama, tekken = (trace_stages(text, tokenizer(ref)) for ref in ("llama3", "mistral-tekken"))
    assert [p.text.replace("Ġ", " ") for p in piece_traces(llama)] == ["eBay", " pH", " ", "202", "6", "'s"]
    assert [p.text for p in piece_traces(tekken)] == ["e", "Bay", " p", "H", " ", "2", "0", "2", "6", "'s"]


def test_map_09_two_line_ends_are_one_piece_and_one_token():
    trace = trace_stages("<|end_header_id|>\n\n", tokenizer("llama3"))
    assert trace.input_ids == (128007, 271)
    assert trace.sections[0].token is not None and trace.sections[1].pieces[0].tokens[0].bytes == b"\n\n"


def test_map_07_a_lost_ignore_merges_is_seen_in_the_steps(tmp_path):
    artifact = resolve_tokenizer("llama3")
    table = json.loads(Path(artifact.files[0].path).read_text("utf-8"))
    assert table["model"]["ignore_merges"] is True
    table["model"]["ignore_merges"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    lost = load_tokenizer(resolve_tokenizer(str(tmp_path)))
    right = tokenizer("llama3")
    text = "Cửa Việt"
    assert trace_stages(text, right).input_ids == (34, 91163, 101798)
    assert trace_stages(text, lost).input_ids == (34, 91163, 11655, 26298, 83)
    whole = [p for p in piece_traces(trace_stages(text, right)) if len(p.tokens) == 1][-1]
    assert "merges are ignored" in whole.note


def test_a_stretch_that_is_too_long_is_refused_and_a_long_piece_has_no_steps():
    tok = tokenizer("cl100k")
    with pytest.raises(InspectorError) as caught:
        trace_stages("a" * (MAX_CHARS + 1), tok)
    assert caught.value.kind is ErrorKind.InputTooLarge
    (piece,) = piece_traces(trace_stages("a" * 5000, tok))
    assert piece.steps == () and "5,000 bytes" in piece.note and piece.tokens


@pytest.mark.parametrize("ref", ["smollm2", "o200k"])
def test_a_token_names_the_merge_that_built_it_and_those_with_its_neighbours(ref: str) -> None:
    tokenizer = load_tokenizer(resolve_tokenizer(ref))
    ids = [int(i) for i in tokenizer.encode(" hello there, Hello unhappiness").input_ids]
    for before, own, after in zip(ids, ids[1:], ids[2:], strict=False):
        told = token_merges([before, own, after], tokenizer)
        piece = tokenizer.token_bytes(own).decode()
        assert told["bpe"] and (told["made"] is None) == (len(piece) == 1)
        if told["made"]:
            rebuilt = told["made"]["left"] + told["made"]["right"]
            assert rebuilt.replace("Ġ", " ") == piece and told["made"]["rank"] >= 0
    halves = trace_stages(" hello", tokenizer).sections[0].pieces[0].steps[-1]
    left, right = (int(tokenizer.encode(part.replace("Ġ", " ")).input_ids[0]) for part in (halves["left"], halves["right"]))  # fmt: skip
    joined = token_merges([left, right, left], tokenizer)
    assert (
        joined["before"] == halves["rank"] and token_merges([None, left, right], tokenizer)["after"] == halves["rank"]
    )
    assert token_merges([None, left, None], tokenizer)["before"] is None
    assert token_merges([1, 5, 1], load_tokenizer(resolve_tokenizer("minilm")))["bpe"] is False
