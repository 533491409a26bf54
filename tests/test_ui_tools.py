"""The tokenizer tools of the page without a browser: what their functions answer, and the tables that they draw."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from inspector import caller, service
from inspector.decode import stream_steps
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import resolve_template, resolve_tokenizer, store_upload, visitors
from inspector.stages import trace_stages, train
from inspector.tokenizers import load_tokenizer
from inspector.ui import calls, scanning, tools, uploads
from inspector.ui.strings import STRINGS
from inspector.ui.views import stages as stages_view
from inspector.ui.views import stream as stream_view
from inspector.ui.views import tokenizers as tokenizers_view
from inspector.vocabularies import side_by_side

SESSION = "5" * 32
TEXT = "Tokenization <|im_end|> ÉMOJI 🧮 天空\n  2026"


def ask(name: str, /, **request: Any) -> dict[str, Any]:
    return json.loads(getattr(tools, name)({"session": SESSION, **request}))


def loaded(preset: str) -> Any:
    return load_tokenizer(resolve_tokenizer(preset))


# --- stages --------------------------------------------------------------------------------------------------------------


def unflattened(nodes: list[list[Any]], root: int) -> dict[str, Any]:
    text, rank, *children = nodes[root]
    return {"text": text, "rank": rank, "children": [unflattened(nodes, k) for k in children if k is not None]}


def test_the_stages_of_the_page_are_those_of_the_tracer() -> None:
    answer = ask("stages", text=TEXT, tokenizers=["smollm2", "minilm", "nonsense"])
    assert [pane["ref"] for pane in answer["panes"]] == ["smollm2", "minilm", "nonsense"]
    assert "no preset is called 'nonsense'" in answer["panes"][2]["error"]
    for pane in answer["panes"][:2]:
        trace = trace_stages(TEXT, loaded(pane["ref"])).to_dict()
        assert pane["input_ids"] == trace["input_ids"] and pane["exact"] and pane["error"] is None
        for shown, traced in zip(pane["sections"], trace["sections"], strict=True):
            for piece, other in zip(shown["pieces"], traced["pieces"], strict=True):
                assert [unflattened(piece["nodes"], root) for root in piece["roots"]] == other["tree"]
                assert [row[0] for row in piece["nodes"] if row[2] is None] == _leaves(other["tree"])


def _leaves(trees: list[dict[str, Any]]) -> list[str]:
    return [leaf for tree in trees for leaf in (_leaves(tree["children"]) if tree["children"] else [tree["text"]])]


def test_a_merge_tree_of_any_depth_is_laid_out_without_recursion() -> None:
    tree: dict[str, Any] = {"text": "a", "rank": None, "children": []}
    for depth in range(5000):
        tree = {"text": "a" * 3, "rank": depth, "children": [tree, {"text": "b", "rank": None, "children": []}]}
    nodes, roots = stages_view.flat([tree])
    assert len(nodes) == 10_001 and roots == [10_000] and nodes[0] == ["a", None, None, None]
    assert json.loads(json.dumps(nodes)) == nodes


@pytest.mark.parametrize("preset", ["smollm2", "minilm", "o200k", "mistral-v1"])
def test_the_pieces_lie_in_the_normalised_text_where_they_say(preset: str) -> None:
    for section in trace_stages(TEXT, loaded(preset)).sections:
        at = 0
        for piece in section.pieces:
            assert at <= piece.start < piece.end <= len(section.normalized)
            assert not section.normalized[at : piece.start].strip()  # a pre-tokenizer may drop white space only
            at = piece.end
        assert not section.normalized[at:].strip()


def test_an_unknown_token_of_the_model_is_no_match_of_an_added_token() -> None:
    sections = trace_stages("a 🧮 [UNK]", loaded("minilm")).sections
    assert [section.text for section in sections if section.token] == ["[UNK]"]
    assert [token.piece for section in sections for piece in section.pieces for token in piece.tokens] == ["a", "[UNK]"]


def test_a_change_of_many_code_points_names_few_and_counts_the_rest() -> None:
    row = {"points_before": [f"U+{k}" for k in range(20)], "points_after": ["U+1"], "before": "x", "after": "y"}
    table = stages_view.table({"sections": [{"rewrites": [row], "pieces": []}]})["sections"][0]["rewrites"][0]
    assert len(table["points_before"]) == 12 and table["more_before"] == 8 and table["more_after"] == 0


def test_the_trainer_learns_what_the_library_function_learns() -> None:
    text = "low lower lowest newest widest"
    assert ask("train", text=text, num_merges=7)["merges"] == train(text, 7).to_dict()["merges"]


# --- stream --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_stop_string_is_found_across_the_tokens_that_hold_it(seed: int) -> None:
    tokenizer, rng = loaded("smollm2"), random.Random(seed)
    for _ in range(40):
        ids = [rng.randrange(20, 49_000) for _ in range(12)]
        text = stream_steps(ids, tokenizer).text
        begin = rng.randrange(len(text) - 6)
        stop = text[begin : begin + rng.randrange(1, 12)]
        stream = stream_steps(ids, tokenizer, stop_strings=[stop]).to_dict()
        rows = stream_view.cut(stream)
        if "\ufffd" in stop and stream["stopped_by"] != stop:
            continue
        assert stream["stopped_by"] == stop and "".join(row["part"] for row in rows) == stop, (ids, stop)
        assert rows[-1]["index"] == len(stream["steps"]) - 1
        assert [row["index"] for row in rows] == sorted({row["index"] for row in rows})


def test_the_stream_of_the_page_is_the_decoders() -> None:
    ids = loaded("smollm2").encode("é🧮</s> end").input_ids.tolist()
    answer = ask("stream", ids=ids, tokenizer="smollm2", stop_strings=["</s>"], skip_special_tokens=True)
    steps = [dict(zip(answer["columns"], row, strict=True)) for row in answer["steps"]]
    traced = stream_steps(ids, loaded("smollm2"), skip_special_tokens=True, stop_strings=["</s>"]).to_dict()
    assert steps == [{name: step[name] for name in stream_view.ROW} for step in traced["steps"]]
    assert answer["text"] == "é🧮" and answer["stopped_by"] == "</s>" and len(answer["cut"]) > 1
    assert any(step["held"] for step in steps) and any(step["alone_is_wrong"] for step in steps)


# --- tokenizers ----------------------------------------------------------------------------------------------------------


def test_tokenizers_side_by_side_keep_two_references_to_one_tokenizer_apart() -> None:
    refs = ["r50k", "tiktoken:gpt2", "smollm2", "nonsense"]
    answer = ask("tokenizers", text=TEXT, tokenizers=refs)
    assert [row["ref"] for row in answer["rows"]] == refs[:3] and [row["ref"] for row in answer["missing"]] == [
        "nonsense"
    ]
    assert answer["rows"][0]["ids"] == answer["rows"][1]["ids"] == loaded("r50k").encode(TEXT).input_ids.tolist()
    for stretch in answer["differing"]:
        joined = {"".join(cut) for cut in stretch["cuts"] if not any("\\x" in piece for piece in cut)}
        assert len(joined) <= 1 and len(stretch["cuts"]) == 3 and stretch["cuts"][0] == stretch["cuts"][1]


def test_a_long_text_shows_some_tokens_and_counts_all() -> None:
    side = side_by_side("ab" * 1000, [loaded("bytes")])
    (row,) = tokenizers_view.table(side, ["bytes"])["rows"]
    assert row["num_tokens"] == 2000 and len(row["ids"]) == len(row["pieces"]) == tokenizers_view.MOST_TOKENS


def test_the_csv_has_the_prices_and_no_formula() -> None:
    answer = ask("tokenizers", text="=1+1", tokenizers=["bytes", "r50k"], prices={"r50k": 2.5}, csv=True)
    rows = list(csv.DictReader(io.StringIO(answer["csv"])))
    assert [row["price_per_million"] for row in rows] == ["", "2.5"]
    assert float(rows[1]["cost"]) == int(rows[1]["tokens"]) * 2.5 / 1e6
    assert not any(cell[:1] in "=+-@" and cell for row in rows for cell in row.values())


def test_the_catalogue_names_what_is_cached_and_chooses_of_it() -> None:
    answer = ask("catalogue")
    cached = {row["id"] for row in answer["tokenizers"] if row["cached"]}
    assert {"smollm2", "bytes"} <= {row["id"] for row in answer["tokenizers"]} and set(answer["chosen"]) <= cached


def test_what_bites_gets_a_verdict_and_what_is_not_known_says_so() -> None:
    rows = {row["part"]: row for row in ask("differences", tokenizer="r50k")["rows"]}
    assert list(rows) == ["loading", "rebuilt", "file", "sizes", "ends", "bos", "pattern"]
    assert rows["loading"]["verdict"] == rows["sizes"]["verdict"] == "unknown" and rows["rebuilt"]["verdict"] == "ok"
    rebuilt = {row["part"]: row for row in ask("differences", tokenizer="smollm2")["rows"]}["rebuilt"]
    assert rebuilt["verdict"] == "bites"


def test_a_tokenizer_with_more_ids_than_rows_bites(tmp_path: Path) -> None:
    files = {file.name: Path(file.path).read_bytes() for file in resolve_tokenizer("minilm").files}
    config = json.dumps({"vocab_size": 30_000}).encode()
    ref = store_upload({**files, "config.json": config, "generation_config.json": b'{"eos_token_id": 99999}'})
    rows = {row["part"]: row for row in ask("differences", tokenizer=ref)["rows"]}
    assert rows["sizes"]["verdict"] == rows["ends"]["verdict"] == "bites"
    assert ["embedding_rows", 30_000] in rows["sizes"]["facts"]


def test_the_differences_of_an_answer_of_autotokenizer_are_told() -> None:
    loading = {"num_texts": 12, "differing": 3, "rules": [{"rule": "class", "a": "tokenizer.json", "b": "X"}],
               "first": {"text": "t", "index": 0, "a": ["p"], "b": ["q", "r"], "ids_a": [1], "ids_b": [2, 3]}}  # fmt: skip
    found = service.differences("bytes", loading=False) | {"loading": loading}
    row = tokenizers_view.verdicts(found)["rows"][0]
    assert (
        row["verdict"] == "bites"
        and ["differing_texts", "3 / 12"] in row["facts"]
        and ["auto_gives", "q r"] in row["facts"]
    )
    failed = tokenizers_view.verdicts(found | {"loading": None}, "it failed")["rows"][0]
    assert failed["verdict"] == "unknown" and failed["remarks"] == ["it failed"]


def test_every_name_that_the_verdicts_use_has_a_string() -> None:
    known = STRINGS["en"]
    for ref in ("bytes", "minilm", "smollm2"):
        for row in tokenizers_view.verdicts(service.differences(ref, loading=False))["rows"]:
            assert f"bite_part_{row['part']}" in known and f"bite_{row['verdict']}" in known
            assert f"bite_unknown_{row['part']}" in known
            for name, _value in row["facts"]:
                assert f"bite_{name}" in known or name in ("vocab_size", "len(tokenizer)"), name


# --- what is refused -----------------------------------------------------------------------------------------------------

WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("stages", {"text": 3, "tokenizers": ["bytes"]}, "OptionInvalid"),
    ("stages", {"text": "x" * 2001, "tokenizers": ["bytes"]}, "InputTooLarge"),
    ("stages", {"text": "\ud800", "tokenizers": ["bytes"]}, "UnencodableText"),
    ("stages", {"text": "x", "tokenizers": ["a\nb"]}, "OptionInvalid"),
    ("train", {"text": "x", "num_merges": None}, "OptionInvalid"),
    ("train", {"text": "x", "num_merges": True}, "OptionInvalid"),
    ("train", {"text": "x", "num_merges": 10**9}, "OptionInvalid"),
    ("train", {"text": "\udfff", "num_merges": 1}, "UnencodableText"),
    ("stream", {"ids": ["1"], "tokenizer": "bytes"}, "InputInvalid"),
    ("stream", {"ids": [1.5], "tokenizer": "bytes"}, "InputInvalid"),
    ("stream", {"ids": [10**12], "tokenizer": "bytes"}, "InputInvalid"),
    ("stream", {"ids": [0] * 4001, "tokenizer": "bytes"}, "InputTooLarge"),
    ("stream", {"ids": [1], "tokenizer": "bytes", "stop_strings": [3]}, "OptionInvalid"),
    ("stream", {"ids": [1], "tokenizer": None}, "OptionInvalid"),
    ("tokenizers", {"text": "x", "tokenizers": []}, "OptionInvalid"),
    ("tokenizers", {"text": "x", "tokenizers": ["bytes"], "prices": {"bytes": -1}}, "OptionInvalid"),
    ("tokenizers", {"text": "x", "tokenizers": ["bytes"], "prices": {"bytes": float("nan")}}, "OptionInvalid"),
    ("tokenizers", {"text": "x", "tokenizers": [str(k) for k in range(25)]}, "InputTooLarge"),
    ("differences", {"tokenizer": "nonsense"}, "UnknownPreset"),
    ("upload", {"first": True, "name": "tokenizer.json", "data": "%%"}, "InputInvalid"),
    ("upload", {"first": True, "name": "../x.json", "data": ""}, "FileNameInvalid"),
    ("upload", {"first": True, "name": "tokenizer.json", "data": "A" * (4 << 20)}, "InputTooLarge"),
    ("uploaded", {}, "InputInvalid"),
)


@pytest.mark.parametrize(("name", "request_", "kind"), WRONG)
def test_wrong_values_end_in_an_error_that_the_page_can_show(name: str, request_: dict[str, Any], kind: str) -> None:
    answer = ask(name, **request_)
    assert answer["kind"] == kind and "→" in answer["error"] and "Traceback" not in answer["error"]


def test_no_function_answers_a_request_without_a_session() -> None:
    for function in tools.FUNCTIONS:
        for request in (None, [], {}, {"session": "x"}, {"session": "../" * 11}):
            assert json.loads(function(request))["kind"] == "OptionInvalid"


@pytest.mark.parametrize("own", [False, True])
def test_a_page_for_others_opens_no_file_of_the_server(own: bool, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(calls, "_own_machine", own)
    for file in resolve_tokenizer("minilm").files:
        (tmp_path / file.name).write_bytes(Path(file.path).read_bytes())
    for ref in (f"folder:{tmp_path}", str(tmp_path / "tokenizer.json")):
        answers = [
            ask("stages", text="hi", tokenizers=[ref])["panes"][0],
            ask("stream", ids=[101], tokenizer=ref),
            ask("differences", tokenizer=ref),
        ]
        missing = ask("tokenizers", text="hi", tokenizers=["bytes", ref])["missing"]
        assert [answer["error"] is None for answer in answers] == [own] * 3 and (not missing) == own


# --- uploads -------------------------------------------------------------------------------------------------------------


def send(files: dict[str, bytes], session: str = SESSION, part: int = 1 << 20) -> dict[str, Any]:
    first, answer = True, {}
    for name, data in files.items():
        for at in range(0, max(1, len(data)), part):
            encoded = base64.b64encode(data[at : at + part]).decode()
            answer = ask("upload", session=session, first=first, name=name, data=encoded)
            first = False
            if answer["error"]:
                return answer
    return ask("uploaded", session=session)


def test_files_sent_in_parts_are_the_files() -> None:
    files = {file.name: Path(file.path).read_bytes() for file in resolve_tokenizer("minilm").files}
    answer = send(files, part=100_003)
    assert answer == {
        "ref": store_upload(files),
        "left_out": [],
        "names": sorted(files),
        "tokenizer": True,
        "template": False,
        "error": None,
    }
    ids = ask("tokenizers", text=TEXT, tokenizers=["minilm", answer["ref"]])["rows"]
    assert ids[0]["ids"] == ids[1]["ids"]


def test_a_zip_and_a_template_alone_are_told_apart() -> None:
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for file in resolve_tokenizer("minilm").files:
            packed.writestr(f"model/{file.name}", Path(file.path).read_bytes())
        packed.writestr("model/chat_template.jinja", "{{ messages[0].content }}")
    zipped = send({"mine.zip": out.getvalue()})
    assert zipped["tokenizer"] and zipped["template"] and "chat_template.jinja" in zipped["names"]
    alone = send({"any_name.jinja": b"{{ messages }}"})
    assert (alone["tokenizer"], alone["template"]) == (False, True)
    assert send({"mine.zip": b"PK", "tokenizer.json": b"{}"})["kind"] == "InputInvalid"
    assert send({"ranks.tiktoken": b"IQ== 0\n"})["kind"] == "TokenizerInvalid"


def test_an_upload_may_not_grow_without_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 1000)
    monkeypatch.setattr(uploads, "MAX_FILES", 3)
    assert send({"tokenizer.json": b"{" * 1001}, part=400)["kind"] == "InputTooLarge"
    assert send({f"t{k}.jinja": b"x" for k in range(4)})["kind"] == "InputTooLarge"
    assert ask("upload", first=False, name="tokenizer.json", data="")["kind"] == "InputInvalid"  # it was given up


def test_the_uploads_of_all_sessions_together_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "MAX_WAITING_BYTES", 2500)
    waiting = uploads.Uploads()
    data = base64.b64encode(b"x" * 1000).decode()
    for session in "abc":
        waiting.begin(session)
        waiting.add(session, "tokenizer.json", data)
    assert waiting.waiting_bytes() == 2000
    with pytest.raises(InspectorError) as caught:
        waiting.take("a")
    assert caught.value.kind is ErrorKind.InputInvalid and waiting.take("c") == {"tokenizer.json": b"x" * 1000}
    monkeypatch.setattr(uploads, "IDLE_S", -1.0)
    waiting.begin("d")
    assert waiting.waiting_bytes() == 0


def test_a_stranger_s_uploads_push_out_that_stranger_s_only(monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "MAX_BYTES", 2500)
    waiting = uploads.Uploads()
    data = base64.b64encode(b"x" * 1000).decode()
    for session, address in (("a", "1.1.1.1"), ("b", "2.2.2.2"), ("c", "2.2.2.2"), ("d", "2.2.2.2")):
        with caller.asked_by(caller.Caller(f"page-{session}", address)):
            waiting.begin(session)
            waiting.add(session, "tokenizer.json", data)
    for session, there in (("a", True), ("b", False), ("c", True), ("d", True)):
        assert (session in waiting._waiting) is there, session
    waiting.drop("a")
    assert waiting.waiting_bytes() == 2000


def test_one_upload_of_an_address_is_unpacked_at_a_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(uploads, "TURN_S", 0.05)
    waiting = uploads.Uploads()
    with caller.asked_by(caller.Caller("page-a", "1.1.1.1")), waiting.turn("a"):
        with caller.asked_by(caller.Caller("page-b", "1.1.1.1")), pytest.raises(InspectorError) as caught:
            waiting.turn("b").__enter__()
        with caller.asked_by(caller.Caller("page-c", "2.2.2.2")), waiting.turn("c"):
            pass
    assert caught.value.kind is ErrorKind.Busy
    with caller.asked_by(caller.Caller("page-b", "1.1.1.1")), waiting.turn("b"):
        pass


TEMPLATE = {"secret.jinja": b"{{ 'zzsecretzz' }}"}


@pytest.fixture
def visitors_kept(monkeypatch: Any, tmp_path: Path) -> Any:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    now = [1000.0]
    kept = visitors.VisitorUploads(lambda: now[0])
    monkeypatch.setattr(visitors, "UPLOADS", kept)
    yield (
        kept,
        now,
        lambda: [path for path in tmp_path.rglob("*") if path.is_file() and b"zzsecretzz" in path.read_bytes()],
    )
    kept.close()


def of_visitor(name: str, address: str = "1.1.1.1") -> Any:
    return caller.asked_by(caller.Caller(f"page-{name}", address))


def test_an_upload_is_its_pages_alone_and_goes_with_it(visitors_kept: Any) -> None:
    kept, now, found = visitors_kept
    with of_visitor("a"):
        ref = send(TEMPLATE)["ref"]
        assert resolve_template(ref, local=False).text == "{{ 'zzsecretzz' }}" and len(found()) == 1
    said = []
    for asker in (of_visitor("b"), caller.asked_by(caller.Caller("program-1.1.1.1", "1.1.1.1"))):
        with asker:
            for asked in (ref, "upload:" + "0" * 64):
                with pytest.raises(InspectorError) as caught:
                    resolve_template(asked, local=False)
                said.append((caught.value.kind, caught.value.one_line().replace(asked, "")))
    assert len(set(said)) == 1 and said[0][0] is ErrorKind.ArtifactUnavailable
    with pytest.raises(InspectorError):  # nor has the person at the machine what visitors gave
        resolve_template(ref)
    with of_visitor("b"):
        assert send(TEMPLATE, session="6" * 32)["ref"] == ref and len(found()) == 2
    with of_visitor("a"):
        tools.forget(SESSION)
        with pytest.raises(InspectorError):
            resolve_template(ref, local=False)
    assert len(found()) == 1
    now[0] += visitors.EXPIRE_S - 1
    with of_visitor("b"):
        assert resolve_template(ref, local=False)
    now[0] += visitors.EXPIRE_S - 1
    kept.expire()
    assert len(found()) == 1
    now[0] += 2
    kept.expire()
    assert found() == []


def test_an_upload_under_way_when_its_page_closes_is_not_kept(visitors_kept: Any, monkeypatch: Any) -> None:
    _kept, _now, found = visitors_kept
    with of_visitor("a"):
        since = visitors.UPLOADS._clock()
        tools.forget(SESSION)
        with pytest.raises(InspectorError):
            store_upload(TEMPLATE, since)
        assert found() == []
        visitors_kept[1][0] += 1  # the page came back
        assert store_upload(TEMPLATE, visitors.UPLOADS._clock()) and len(found()) == 1


def test_a_page_for_others_starts_no_scan_and_takes_no_dataset(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path))
    monkeypatch.setattr(calls, "_own_machine", False)
    for function, more in (
        (scanning.scan_start, {"source": "/", "limit": ""}), (scanning.scan_stop, {}),
        (scanning.scan_upload, {"name": "a.jsonl", "at": 0, "data": ""}),
    ):  # fmt: skip
        said = json.loads(function({"session": SESSION, **more}))
        assert said["kind"] == "OptionInvalid" and "it starts no scan" in said["error"]
    assert json.loads(scanning.scan_state({"session": SESSION})) == {"scan": None, "error": None}
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(calls, "_own_machine", True)
    for name, at in (("../a.jsonl", 0), (".a.jsonl", 0), ("a/b.jsonl", 0), ("a.jsonl", 5), ("a.jsonl", -1)):
        said = json.loads(scanning.scan_upload({"session": SESSION, "name": name, "at": at, "data": "YQ=="}))
        assert said["error"], name
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    for at in (0, 1):
        said = json.loads(scanning.scan_upload({"session": SESSION, "name": "a.jsonl", "at": at, "data": "YQ=="}))
    assert Path(said["path"]).read_bytes() == b"aa" and said["size"] == 2


def test_visitors_together_keep_no_more_than_the_bounds(visitors_kept: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(visitors, "ADDRESS_BYTES", 2500)
    monkeypatch.setattr(visitors, "ALL_BYTES", 5000)

    def there(name: str) -> bool:
        with of_visitor(name):
            try:
                return bool(resolve_template(refs[name], local=False))
            except InspectorError:
                return False

    refs = {}
    for name, address in (
        ("a", "1.1.1.1"),
        ("b", "2.2.2.2"),
        ("c", "2.2.2.2"),
        ("d", "2.2.2.2"),
        ("e", "3.3.3.3"),
        ("f", "4.4.4.4"),
    ):
        with of_visitor(name, address):
            refs[name] = store_upload({"x.jinja": name.encode() * 1000})
    assert [there(name) for name in "abcdef"] == [True, False, True, True, True, True]
    with of_visitor("g", "5.5.5.5"):
        refs["g"] = store_upload({"x.jinja": b"g" * 1000})
    assert [there(name) for name in "acdefg"] == [False, True, True, True, True, True]


def test_what_a_killed_server_left_is_removed_and_what_a_living_one_has_is_not(
    visitors_kept: Any, tmp_path: Path
) -> None:
    _kept, _now, found = visitors_kept
    script = (
        "import os; from inspector import caller; from inspector.sources import store_upload\n"
        "with caller.asked_by(caller.Caller('page-x', '1')): store_upload({'a.jinja': b'zzsecretzz'})\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "INSPECTOR_CACHE": str(tmp_path / "cache")})
    with of_visitor("a"):
        store_upload(TEMPLATE)
    assert len(found()) == 2
    visitors.remove_left()
    assert len(found()) == 1


def test_names_of_an_upload_that_a_terminal_or_a_page_would_act_on_are_refused() -> None:
    for name in ("<img src=x onerror=alert(1)>.jinja", "a\x1b[31m.jinja", "x\u202ejson.jinja", "=cmd.jinja"):
        answer = send({name: b"x"})
        assert answer["kind"] == "FileNameInvalid", name
        assert not any(unicodedata.category(char) == "Cc" for char in answer["error"])


@pytest.mark.parametrize(
    ("more", "b", "words"),
    [
        ({"source": "~a\0b"}, {}, "no path has"),
        ({"source": "~\ud800"}, {}, "no path has"),
        ({"source": "/", "b": True}, {"arguments": '{"enable_thinking": false}'}, "other template arguments"),
        ({"source": "/", "b": True}, {"profile": "openai"}, "another profile"),
        ({"source": "/", "arguments": "[1]"}, {}, "no JSON object"),
        ({"source": "/", "arguments": '{"x": 1'}, {}, ""),
        ({"source": "/", "arguments": json.dumps({"x": "y" * 70_000})}, {}, "65,536 characters"),
    ],
)
def test_what_a_scan_cannot_be_given_is_said_before_one_begins(
    more: dict[str, Any], b: dict[str, Any], words: str, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path))
    monkeypatch.setattr(calls, "_own_machine", True)
    pane = {"tokenizer": "bytes", "template": "chatml", "template_name": "", "arguments": "", "clock": "", "profile": "transformers",
            "context_window": "", "max_new_tokens": "", "policy": "messages"}  # fmt: skip
    fields = {"messages": "[]", "tools": "", "documents": "", "arguments": more.get("arguments", "")}
    panes = [{**pane, "slot": "p"}, {**pane, "slot": "q", **b}]
    said = json.loads(scanning.scan_start({"session": SESSION, "fields": fields, "panes": panes, "limit": "", **more}))
    assert said["kind"] in ("OptionInvalid", "InputInvalid") and words in said["error"], said
    assert not list(tmp_path.iterdir())
