"""Replays: golden records replay equal, each failure of the document stops at the stage that its table names, and one
changed byte of anything is found where it shows first."""

from __future__ import annotations

import base64
import itertools
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pictures import data_url
from pictures import picture as file_of
from random_chats import random_request
from typer.testing import CliRunner

from inspector import inspect, presets, schemas
from inspector.cli import app
from inspector.errors import ErrorKind, InspectorError
from inspector.job import make_options, prepare
from inspector.lint import lint
from inspector.lint.evidence import read_sent
from inspector.parting import Replay, Stage, compare_records
from inspector.pipeline import lint_dict
from inspector.record import record, sealed
from inspector.replay import as_sent, read_record, replay

GOLDEN = sorted((Path(__file__).parent / "data" / "records").glob("*.json"))
CLOCK = "2026-01-31T09:30:00"
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "When is high tide?"},
    {"role": "assistant", "content": "At noon."},
    {"role": "user", "content": "Where?"},
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "tide", "parameters": {"type": "object", "properties": {"day": {"type": "string"}}}},
    }
]
OWN = "{{ tools | tojson if tools else '' }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
DATED = OWN + "{{ strftime_now('%d %b %Y') }}"


def make(data: bytes, options: dict[str, Any]) -> dict[str, Any]:
    return record(prepare(data, make_options(**options))).value


def made(request: Any, **options: Any) -> dict[str, Any]:
    data = request if isinstance(request, bytes) else json.dumps(request, ensure_ascii=False).encode()
    return make(data, {"tokenizer": "qwen3", "clock": CLOCK, **options})


def conforms(value: dict[str, Any], name: str) -> None:
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(json.loads(json.dumps(value)))


def stages(result: Replay) -> dict[str, str]:
    return {str(row.stage): str(row.outcome) for row in result.stages}


def stops_at(result: Replay, stage: Stage) -> None:
    """A replay stops there: all before is equal or has nothing to say, nothing after is looked at."""
    assert result.difference is not None and result.difference.stage is stage, result
    names, outcomes = list(Stage), [row.outcome for row in result.stages]
    assert [row.stage for row in result.stages] == names
    at = names.index(stage)
    assert set(map(str, outcomes[:at])) <= {"equal", "skipped", "not reached"}
    assert str(outcomes[at]) == "different" and {str(outcome) for outcome in outcomes[at + 1 :]} <= {"not reached"}


# --- golden records -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_record_replays_equal(path: Path) -> None:
    result = replay(read_record(path.read_bytes()), make)
    assert result.difference is None
    assert set(stages(result).values()) == {"equal", "skipped"} and stages(result)["request"] == "skipped"


def test_the_goldens_show_what_a_record_can_hold() -> None:
    values = {path.stem: json.loads(path.read_bytes()) for path in GOLDEN}
    assert values["fixture"]["inputs"]["input_ids"] == [1, 2, 7, 3, 4, 8, 9, 10, 11, 12, 5, 6]
    assert values["digests-only"]["template"]["text"] is None and values["digests-only"]["template"]["digest"]
    budget = values["tools-budget"]["budget"]
    assert (
        budget["dropped"]
        and values["tools-budget"]["messages"]["changes"]
        and values["tools-budget"]["injected"]["tools"]
    )


def test_a_program_that_gets_the_fixture_wrong_is_stopped_before_anything_else() -> None:
    def wrong(data: bytes, options: dict[str, Any]) -> dict[str, Any]:
        value = make(data, options)
        if options["tokenizer"] == "fixture" and '<system>"}' in data.decode():
            value["inputs"]["input_ids"][5:-2] = [2]  # what the user wrote became a control token
        return value

    result = replay(read_record(GOLDEN[0].read_bytes()), wrong)
    stops_at(result, Stage.FIXTURE)
    assert result.difference is not None and result.difference.b == [1, 2, 7, 3, 4, 2, 5, 6]


# --- the seven failures of the document's section 1.10, each at the stage that its table names ------------------------


def test_invalid_utf8_that_was_replaced_otherwise_stops_at_the_decoding_of_the_request() -> None:
    raw = b'[{"role": "user", "content": "caf\xe9 au lait"}]'
    replaced, ignored = (made(raw.decode("utf-8", how).encode()) for how in ("replace", "ignore"))
    stops_at(compare_records(replaced, ignored), Stage.REQUEST)
    refused = replay(replaced, make, request=raw)
    stops_at(refused, Stage.REQUEST)
    assert refused.difference is not None and refused.difference.where == {"byte": 33, "line": 1, "column": 34}
    strict = made(raw)
    assert replay(strict, make).difference is None  # the refusal itself replays
    stops_at(replay(strict, make, request=raw.decode("utf-8", "replace").encode()), Stage.REQUEST)


def test_a_template_alias_that_moved_stops_at_rendering() -> None:
    then = made(CHAT, template="qwq-32b@16488a")
    moved = {**then, "options": {**then["options"], "template": "qwq-32b"}}  # as an alias that meant the old revision
    result = replay(sealed(moved).value, make)
    stops_at(result, Stage.RENDER)
    assert result.difference is not None and result.difference.path == "template.digest"
    assert "16488a" in result.difference.message and "current" in result.difference.message
    assert result.difference.where and result.difference.where["template_line"] and result.difference.where["byte"]


def test_schema_fields_in_another_order_stop_at_rendering() -> None:
    function = TOOLS[0]["function"]
    other = [{"type": "function", "function": {key: function[key] for key in reversed(function)}}]
    then = made({"messages": CHAT, "tools": TOOLS}, template_text=OWN)
    result = replay(then, make, request=json.dumps({"messages": CHAT, "tools": other}).encode())
    stops_at(result, Stage.RENDER)
    assert result.difference is not None and result.difference.path == "rendered.text"
    assert "the keys of tools[0].function are in another order" in "".join(result.difference.causes)


def test_a_vocabulary_of_another_model_stops_at_tokenization(folder: Path) -> None:
    then = made(CHAT, tokenizer=str(folder))
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    words = vocabulary["model"]["vocab"]
    words["e"], words["t"] = words["t"], words["e"]
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    result = replay(then, make, places={"tokenizer": str(folder)})
    stops_at(result, Stage.TOKENIZE)
    assert result.difference is not None and result.difference.path == 'tokenizer.files["tokenizer.json"]'
    token = (result.difference.where or {})["token"]
    now = made(CHAT, tokenizer=str(folder))
    assert then["tokens"]["input_ids"][:token] == now["tokens"]["input_ids"][:token]
    assert then["tokens"]["input_ids"][token] != now["tokens"]["input_ids"][token]


def test_a_cut_between_a_tool_call_and_its_result_stops_at_the_budget() -> None:
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": {"day": "today"}}}],
    }
    chat = [
        CHAT[1],
        call,
        {"role": "tool", "tool_call_id": "c1", "content": "12:04"},
        {"role": "user", "content": "And tomorrow?"},
    ]
    whole = made({"messages": chat, "tools": TOOLS})
    text, ends = whole["rendered"]["text"].encode(), whole["tokens"]["end"]
    window = sum(1 for end in ends if end > text.index(b"12:04")) + 1
    then = made({"messages": chat, "tools": TOOLS}, context_window=len(ends) - 1)
    result = replay(then, make, against={"policy": "tokens_left"})
    stops_at(result, Stage.BUDGET)
    cut = made({"messages": chat, "tools": TOOLS}, context_window=window, policy="tokens_left")
    kept = made({"messages": chat, "tools": TOOLS}, context_window=window, policy="tokens_right")
    parted = compare_records(kept, cut).difference
    assert parted is not None and parted.stage is Stage.BUDGET and "tool_pair_parted" in parted.message


@pytest.mark.parametrize("name", ["attention_mask", "position_ids"])
def test_a_misplaced_mask_or_positions_stop_at_the_model_entry(name: str) -> None:
    then = made(CHAT)
    shifted = [*then["inputs"][name][1:], 0]
    result = compare_records(then, sealed({**then, "inputs": {**then["inputs"], name: shifted}}).value)
    stops_at(result, Stage.INPUTS)
    ids = then["inputs"]["input_ids"]
    padded = {"input_ids": [[0, 0, *ids]], "attention_mask": [[0, 0] + [1] * len(ids)]}
    assert compare_records(then, as_sent(then, read_sent(padded))).difference is None
    wrong = {**padded, "position_ids": [list(range(len(ids) + 2))]}  # counted over the padding
    sent = compare_records(then, as_sent(then, read_sent(wrong)))
    stops_at(sent, Stage.INPUTS)
    assert sent.difference is not None and sent.difference.path == "inputs.position_ids[0]"


def picture(rows: list[bytes], level: int) -> str:
    """A PNG of grey pixels as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), level)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


@pytest.mark.parametrize("how", ["encoded again", "rotated"])
def test_a_picture_that_was_encoded_again_or_rotated_stops_at_the_media(how: str) -> None:
    rows = [bytes([9 * x + y for x in range(24)]) for y in range(12)]
    turned = [bytes(column) for column in zip(*rows[::-1])]
    now = picture(rows, 9) if how == "encoded again" else picture(turned, 1)
    text = "{% for m in messages %}{% for part in m.content %}{{ part.text or '<image>' }}{% endfor %}{% endfor %}"

    def asked(url: str) -> bytes:
        parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
        return json.dumps([{"role": "user", "content": parts}]).encode()

    then = made(asked(picture(rows, 1)), template_text=text)
    assert replay(then, make).difference is None
    result = replay(then, make, request=asked(now))
    stops_at(result, Stage.MEDIA)
    assert result.difference is not None and result.difference.where == {"path": "messages[0].content[1].image_url.url"}


def test_an_image_that_was_counted_replays_and_another_rule_or_orientation_stops_at_the_media() -> None:
    def asked(orientation: int = 1) -> bytes:
        url = data_url(file_of((320, 200), "JPEG", orientation=orientation), "image/jpeg")
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
        return json.dumps([{"role": "user", "content": parts}]).encode()

    how = {"template": "trl-qwen3-vl", "context_window": 400}
    then = made(asked(), **how)
    assert then["media_rule"]["rule"]["id"] == "qwen3-vl" and then["media"][0]["measured"]["positions"] > 1
    assert then["tokens"]["input_ids"] == then["inputs"]["input_ids"], "nothing was dropped, and both count the image"
    assert replay(then, make).difference is None
    stops_at(replay(then, make, request=asked(6)), Stage.MEDIA)
    other = compare_records(then, made(asked(), **how, media_rule="qwen2.5-vl"))
    stops_at(other, Stage.MEDIA)
    assert other.difference is not None and "plan" in other.difference.message


# --- one byte -------------------------------------------------------------------------------------------------------


def changed(data: bytes, chance: random.Random) -> bytes:
    """The data with one byte changed into another printable one."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.choice([c for c in range(33, 127) if c != data[at]])]) + data[at + 1 :]


def one_byte(folder: Path, name: str, then: dict[str, Any], chance: random.Random) -> str:
    """Change one byte of a file, replay, put it back; give the stage that found it."""
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(changed(whole, chance))
    try:
        result = replay(then, make, places={"tokenizer": str(folder)})
    except InspectorError as error:  # the file cannot be read at all
        assert error.kind is ErrorKind.TokenizerInvalid and error.exit_code == 2, error
        return "unreadable"
    finally:
        (folder / name).write_bytes(whole)
    assert result.difference is not None, f"{name}: nothing was found"
    stops_at(result, result.difference.stage)
    return str(result.difference.stage)


def check_one_byte(folder: Path, times: int, seed: int) -> None:
    then = made(CHAT, tokenizer=str(folder))
    chance = random.Random(seed)
    seen: dict[str, set[str]] = {}
    for name in sorted(path.name for path in folder.iterdir()):
        seen[name] = {one_byte(folder, name, then, chance) for _ in range(times)}
    assert seen["chat_template.jinja"] == {"render"}
    assert seen["tokenizer.json"] <= {"tokenize", "unreadable"} and "tokenize" in seen["tokenizer.json"]
    config = seen["tokenizer_config.json"]  # its bos_token is rendered
    assert config <= {"render", "tokenize", "unreadable"} and config & {"render", "tokenize"}
    assert replay(then, make, places={"tokenizer": str(folder)}).difference is None


def test_one_changed_byte_of_any_file_is_found_where_it_shows_first(folder: Path) -> None:
    check_one_byte(folder, 6, 20260131)


@pytest.mark.full
def test_one_changed_byte_of_any_file_is_found_where_it_shows_first_often(folder: Path) -> None:
    for seed in range(20):
        check_one_byte(folder, 25, seed)


def test_one_changed_byte_of_the_request_is_found_where_it_shows_first() -> None:
    data = json.dumps({"messages": CHAT, "tools": TOOLS}).encode()
    then, chance = made(data, template_text=OWN), random.Random(7)
    seen = set()
    for _ in range(16):
        result = replay(then, make, request=changed(data, chance))
        if result.difference is not None:
            stops_at(result, result.difference.stage)
            assert result.difference.where
        seen.add(str(result.difference.stage) if result.difference else "none")
    assert seen == {"request", "messages"}


def test_a_request_with_other_blanks_is_the_same_input_and_that_is_said() -> None:
    then = made(CHAT)
    result = replay(then, make, request=json.dumps(CHAT, indent=1).encode())
    assert result.difference is None and result.notes == (
        "request.sha256: the bytes of the request differ, what was read is the same",
    )


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"clock": "2026-02-01T09:30:00"}, Stage.INJECTED),
        ({"clock": f"{CLOCK}+01:00"}, Stage.INJECTED),
        ({"arguments": {"x": 2}}, Stage.INJECTED),
        ({"profile": "openai"}, Stage.MESSAGES),
        ({"engine": "minijinja"}, Stage.RENDER),
        ({"add_generation_prompt": False}, Stage.RENDER),
        ({"template_text": OWN + " "}, Stage.RENDER),
        ({"tokenizer": "smollm2"}, Stage.TOKENIZE),
        ({"context_window": 4096}, Stage.BUDGET),
    ],
)
def test_another_choice_is_found_at_its_stage(changes: dict[str, Any], stage: Stage) -> None:
    base: dict[str, Any] = {"template_text": OWN, "arguments": {"x": 1}}
    result = compare_records(made(CHAT, **base), made(CHAT, **{**base, **changes}))
    stops_at(result, stage)


# --- against, reading, the commands ---------------------------------------------------------------------------------


def test_what_is_said_to_differ_is_no_difference_and_what_it_changes_is_one() -> None:
    then = made(CHAT, template="qwq-32b", add_generation_prompt=False)
    same = replay(then, make, against={"template": "qwq-32b@16488a"})  # they part in the generation prompt only
    assert same.difference is None and same.notes[0] == "template.digest differs, as was said"
    dated = made(CHAT, template_text=DATED)
    later = replay(dated, make, against={"clock": "2026-02-01T09:30:00"})
    assert later.difference is not None and later.difference.path == "rendered.text"
    assert replay(made(CHAT, template_text=OWN), make, against={"clock": "2026-02-01T09:30:00"}).difference is None


def test_versions_of_libraries_are_named_and_stop_nothing() -> None:
    then = made(CHAT)
    older = sealed({**then, "versions": {**then["versions"], "jinja2": "2.11.3", "other": "1"}}).value
    result = replay(older, make)
    assert result.difference is None and ("other", "1", None) in result.versions
    other = sealed({**older, "rendered": {**then["rendered"], "text": "x", "sha256": "0" * 64}}).value
    found = replay(other, make).difference
    assert found is not None and any(cause.startswith("jinja2 2.11.3 then, ") for cause in found.causes)


def test_an_artifact_of_another_machine_must_be_named_and_is_checked(folder: Path) -> None:
    then = made(CHAT, tokenizer=str(folder))
    with pytest.raises(InspectorError) as caught:
        replay(then, make)
    assert caught.value.kind is ErrorKind.RecordInvalid and "--tokenizer" in caught.value.remedy
    template = folder / "own.jinja"
    template.write_text(OWN)
    own = made(CHAT, template=str(template))
    assert replay(own, make).difference is None  # its text is in the record
    bare = record(
        prepare(json.dumps(CHAT).encode(), make_options(tokenizer="qwen3", template=str(template))), digests_only=True
    )
    with pytest.raises(InspectorError):
        replay(bare.value, make)
    assert replay(bare.value, make, places={"template": str(template)}).difference is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data.replace(b"high", b"low", 1),
        lambda data: data.replace(b"record/1", b"record/2"),
        lambda data: data[:-1],
        lambda data: b"[]",
        lambda data: b"\xff" + data,
        lambda data: b'{"schema":"record/1"}',
    ],
)
def test_what_is_no_sealed_record_is_refused(spoil: Any) -> None:
    data = next(path for path in GOLDEN if path.stem == "digests-only").read_bytes()
    with pytest.raises(InspectorError) as caught:
        read_record(spoil(data))
    assert caught.value.kind is ErrorKind.RecordInvalid and caught.value.remedy


def test_a_record_may_be_laid_out_otherwise() -> None:
    value = json.loads(GOLDEN[0].read_bytes())
    assert read_record(json.dumps(dict(reversed(value.items())), indent=3).encode()) == value


def test_the_commands_write_replay_and_compare(tmp_path: Path) -> None:
    run = CliRunner().invoke
    chat, first, second = (tmp_path / name for name in ("chat.json", "a.json", "b.json"))
    chat.write_text(json.dumps(CHAT))
    assert run(app, ["inspect", str(chat), "--tokenizer", "bytes", "--record", str(first)]).exit_code == 2
    chat.write_text(json.dumps(CHAT[1:3]))
    assert run(app, ["inspect", str(chat), "--tokenizer", "bytes", "--record", str(first)]).exit_code == 0
    assert run(app, ["replay", str(first)]).exit_code == 0 and json.loads(first.read_text())["template"]["text"]
    bare = ["inspect", str(chat), "--tokenizer", "bytes", "--record", str(second), "--digests-only"]
    assert run(app, bare).exit_code == 0 and json.loads(second.read_text())["template"]["text"] is None
    other = run(app, ["replay", str(first), "--against", "tokenizer=qwen3", "--json"])
    result = json.loads(other.stdout)
    assert (other.exit_code, result["equal"], result["difference"]["stage"]) == (1, False, "render")
    run(app, ["inspect", str(chat), "--tokenizer", "bytes", "--clock", CLOCK, "--record", str(second)])
    compared = run(app, ["compare", str(first), str(second)])
    assert compared.exit_code == 1 and "first difference: injected, injected.clock" in compared.stdout
    assert run(app, ["compare", str(first), str(first)]).exit_code == 0
    sent = tmp_path / "sent.json"
    sent.write_text(json.dumps({"text": "x"}))
    assert "rendered.text" in run(app, ["replay", str(first), "--sent", str(sent)]).stdout
    failed = run(app, ["replay", str(chat), "--json"])
    assert failed.exit_code == 2 and json.loads(failed.stdout)["error"]["kind"] == "RecordInvalid"
    assert run(app, ["replay", str(first), "--against", "weather=wet"]).exit_code == 2
    assert json.loads(run(app, ["schema", "record/1"]).stdout)["title"] == "record/1"
    assert run(app, ["compare", str(chat)]).exit_code == 2


# --- real requests, templates and tokenizers ------------------------------------------------------------------------


def sampled(seed: int, size: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Random requests with templates of the catalogue, tokenizers, and a window for some."""
    chance = random.Random(seed)
    refs = [f"{preset.id}@{entry.revision}" for preset in presets.templates().values() for entry in preset.revisions]
    refs = [ref for ref in refs if ref.partition("@")[0] not in ("fixture", "bytes")]
    return [
        (
            random_request(chance, turns=4),
            {
                "tokenizer": chance.choice(["qwen3", "qwen3", "bytes", "mistral-tekken"]),
                "template": chance.choice([*refs, None]),
                "profile": chance.choice(["transformers", "vllm"]),
                **({"context_window": chance.randint(5, 300)} if chance.random() < 0.4 else {}),
                "policy": chance.choice(["messages", "keep_first", "tokens_left", "reject"]),
            },
        )
        for _ in range(size)
    ]


def check_sample(seed: int, size: int) -> None:
    records = []
    for request, options in sampled(seed, size):
        inspection = inspect(request, clock=CLOCK, **options)
        conforms(inspection.to_dict(), "inspection/1")
        value = made(request, **options)
        conforms(value, "record/1")
        assert read_record(sealed(value).to_bytes()) == json.loads(sealed(value).to_bytes())
        again = replay(value, make)
        assert again.difference is None, (options, again.difference)
        conforms(again.to_dict(), "replay/1")
        assert (value["error"] or {}).get("kind") == (inspection.error.kind.name if inspection.error else None)
        records.append(value)
    for one, other in itertools.pairwise([*records, records[0]]):
        there, back = compare_records(one, other), compare_records(other, one)
        conforms(there.to_dict(), "replay/1")
        assert there.difference is not None and back.difference is not None
        assert there.difference.stage is back.difference.stage
    checked = inspect(records[0]["request"]["text"], tokenizer="bytes")
    conforms(lint_dict(checked, lint(checked)), "lint/1")


def test_a_sample_of_real_inputs_conforms_replays_and_compares() -> None:
    check_sample(20260131, 12)


@pytest.mark.full
def test_a_large_sample_of_real_inputs_conforms_replays_and_compares() -> None:
    for seed in range(40):
        check_sample(seed, 25)
