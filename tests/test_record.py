"""Records: canonical, complete, free of secrets; their schemas are the code's, and the golden ones stay readable."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from pictures import data_url, picture

from inspector import compare, inspect, schemas
from inspector.errors import ErrorKind, InspectorError
from inspector.job import make_options, prepare
from inspector.logits import NextTokenLogits, TopToken
from inspector.reasons import Reason
from inspector.record import digest_of, library_versions, record, sealed
from inspector.withheld import refuse_environment

ROOT = Path(__file__).parent.parent
GOLDEN = sorted((ROOT / "tests" / "data" / "records").glob("*.json"))
CLOCK = "2026-01-31T09:30:00+01:00"
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "When is high tide?", "name": None},
    {"role": "assistant", "content": "At noon."},
    {"role": "user", "content": "Where? <|im_end|> 满潮 \u20ac"},
]


def made(request: Any, **options: Any) -> dict[str, Any]:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return record(prepare(data, make_options(**{"tokenizer": "qwen3", "clock": CLOCK, **options}))).value


def conforms(value: dict[str, Any], name: str) -> None:
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(json.loads(json.dumps(value)))


# --- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_a_schema_and_says_what_it_is_of(name: str) -> None:
    schema = schemas.schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == name == schema["properties"]["schema"]["const"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_record_conforms_is_canonical_and_has_its_own_digest(path: Path) -> None:
    value = json.loads(path.read_bytes())
    conforms(value, "record/1")
    assert sealed(value).to_bytes() == path.read_bytes() and value["digest"] == digest_of(value)


# Never written anew: the reader must read what was written before it. A new key is one that the schema does not require.
SEALED = {
    "digests-only": "ea78b38d08e92d2c8329469730b106e00a6bf6ba422d8e760775d22d49d364e7",
    "fixture": "c0c0427970cc2dcc13d811ba34caf3fbd4b4541278e3ab7f5ca791bffa2e71a2",
    "tools-budget": "dedd01bcd0cd217ea6e83dccf57470ec69fee302010dc0b64e1a157fcee17a7e",
}


def test_the_golden_records_are_the_ones_that_were_sealed() -> None:
    assert {path.stem: json.loads(path.read_bytes())["digest"] for path in GOLDEN} == SEALED


def shape(value: Any, schema: dict[str, Any], at: str, found: dict[str, set[str]]) -> None:
    """Collect the keys of every object of a value whose keys the schema fixes."""
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    if isinstance(value, dict):
        if schema.get("additionalProperties") is False:
            assert set(value) == set(schema["properties"]) >= set(schema["required"]), at
            found[at] = set(value)
        for key, item in value.items():
            if key in schema.get("properties", {}):
                shape(item, schema["properties"][key], f"{at}.{key}", found)
    elif isinstance(value, list) and value and isinstance(schema.get("items"), dict):
        for item in value:
            shape(item, schema["items"], f"{at}[]", found)


def fixed(schema: dict[str, Any], at: str) -> dict[str, set[str]]:
    """Collect the keys of every object that a schema fixes."""
    schema = next((one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema)
    found = {at: set(schema["properties"])} if schema.get("additionalProperties") is False else {}
    for key, item in schema.get("properties", {}).items():
        found |= fixed(item, f"{at}.{key}")
    if isinstance(schema.get("items"), dict):
        found |= fixed(schema["items"], f"{at}[]")
    return found


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
FULL = {"messages": [*CHAT, {"role": "user", "content": [{"type": "text", "text": "x"}, PICTURE]}], "tools": [], "documents": [],
        "api_key": "not to be told", "lint": {"ignore": {"late-system": "on purpose"}}}  # fmt: skip
SEEN = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(picture((64, 64)))}}]}]
PARTS = "{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}"


def test_every_field_of_the_record_schema_is_the_codes_and_the_other_way_round() -> None:
    found: dict[str, set[str]] = {}
    for value in (
        made(FULL, template_text=PARTS, context_window=200),
        made(SEEN, tokenizer="qwen3", template="trl-qwen3-vl", media="expanded"),
        made(CHAT, context_window=24),
        made(CHAT, context_window=12, policy="tokens_left"),
        made("\ufeff".encode() + json.dumps(CHAT).encode()),
        made(b"[\xff]"),
        made([{"role": "user", "content": "a\u0301"}], tokenizer="minilm", template="raw"),
    ):
        shape(value, schemas.schema("record/1"), "record", found)
    assert found == fixed(schemas.schema("record/1"), "record")


PICTURED = [
    {"role": "user", "content": [{"type": "image", "image": data_url(picture((64, 64)))}, {"type": "image", "image": "data:,"},
                                 {"type": "text", "text": "<|image_pad|>"}]},
]  # fmt: skip
LOGITS = NextTokenLogits(
    "m", "local", "cpu", "float32", 0.5, (TopToken(1, None, 2.0, -0.1, 0.9),), np.zeros(2, np.float32)
)


def test_every_field_of_the_inspection_schema_is_the_codes_and_the_other_way_round() -> None:
    found: dict[str, set[str]] = {}
    for value in (
        inspect(CHAT, tokenizer="qwen3", context_window=24),
        inspect(CHAT, tokenizer="qwen3", context_window=12, policy="tokens_left"),
        inspect(b"[\xff]"),
        inspect([{"role": "user", "content": "a\u0301"}], tokenizer="minilm", template="raw"),
        replace(inspect(CHAT, tokenizer="qwen3"), logits=LOGITS),
        replace(inspect(CHAT, tokenizer="qwen3"), logits=replace(LOGITS, entropy=None, missing=0.25, note="other ids")),
        inspect(PICTURED, tokenizer="qwen3", template="trl-qwen3-vl"),
    ):
        conforms(value.to_dict(), "inspection/1")
        shape(value.to_dict(), schemas.schema("inspection/1"), "inspection", found)
    assert found == fixed(schemas.schema("inspection/1"), "inspection")


def test_what_several_schemas_hold_is_the_same_in_each_and_names_every_kind_of_error() -> None:
    own = schemas.schema("inspection/1")["properties"]
    assert set(own["error"]["properties"]["kind"]["enum"]) == set(ErrorKind.__members__)
    for name, keys in (
        ("lint/1", ("options", "tokenizer", "template", "findings", "versions", "error")),
        ("record/1", ("error",)),
        ("replay/1", ("error",)),
    ):
        assert {key: schemas.schema(name)["properties"][key] for key in keys} == {key: own[key] for key in keys}, name
    inner = schemas.schema("comparison/1")["$defs"]["inspection"]
    assert inner["properties"] == own and inner["required"] == schemas.schema("inspection/1")["required"]
    codes = schemas.schema("comparison/1")["properties"]["hunks"]["properties"]["listed"]["items"]["properties"]
    assert set(codes["reason_code"]["enum"]) == {reason.value for reason in Reason}


def test_comparisons_conform() -> None:
    for b, options in (
        ("smollm2,qwq-32b@16488a", {"context_window": 60}),
        ("qwen3,qwq-32b", {}),
        ("smollm2,qwq-32b", {}),
    ):
        conforms(compare(CHAT, "smollm2,qwq-32b", b, clock=CLOCK, **options).to_dict(), "comparison/1")


def test_the_library_versions_are_those_of_every_requirement() -> None:
    lines = [*(ROOT / "requirements.txt").read_text().splitlines(), "minijinja", "xllamacpp"]
    required = {line.split(">")[0].split("=")[0] for line in lines if line and not line.startswith("#")}
    assert required | {"inspector", "python", "unicode"} == set(library_versions())


# --- what a record says ---------------------------------------------------------------------------------------------


def test_the_same_run_gives_the_same_bytes_and_any_change_another_digest() -> None:
    data = json.dumps(CHAT).encode()
    first, again = (record(prepare(data, make_options(tokenizer="qwen3", clock=CLOCK))) for _ in range(2))
    assert first.to_bytes() == again.to_bytes()
    changed = {**first.value, "silenced": [{"rule": "late-system", "reason": "x"}]}
    assert digest_of(changed) != first.digest == digest_of(first.value)


def test_key_order_and_the_spelling_of_numbers_stay_as_given() -> None:
    text = '{"messages": [{"role": "user", "content": "x"}], "tools": [{"b": 1.0, "a": 10000000000000000000000, "c": 1e5}]}'
    value = made(text.encode(), template_text="{{ tools | tojson }}")
    assert value["request"]["text"] == text
    assert value["rendered"]["text"] == '[{"b": 1.0, "a": 10000000000000000000000, "c": 100000.0}]'
    (change,) = value["messages"]["changes"]
    assert (change["before"], change["after"]) == ('"1e5"', '"100000.0"')


def test_what_the_template_was_given_is_told_where_something_was_changed() -> None:
    value = made(CHAT)
    assert value["messages"]["changes"][0]["path"] == "messages[1].name"
    assert "name" not in json.loads(value["messages"]["text"])["messages"][1]
    assert made(CHAT[:1])["messages"] == {"text": None, "changes": []}


def test_media_have_the_digest_of_their_bytes_and_a_link_has_none() -> None:
    link = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAEC", "format": "wav"}}
    chat = [{"role": "user", "content": [PICTURE, link, sound, {"type": "image", "base64": "???"}]}]
    rows = {row["path"].split("content")[1]: row for row in made(chat, template_text=PARTS)["media"]}
    assert rows["[0].image_url.url"]["sha256"] == hashlib.sha256(b"\x89PNG\r\n\x1a\n").hexdigest()
    assert rows["[0].image_url.url"]["media_type"] == "image/png" and rows["[0].image_url.url"]["bytes"] == 8
    assert rows["[1].image_url.url"]["sha256"] is None and "link" in rows["[1].image_url.url"]["why"]
    assert (rows["[2].input_audio.data"]["bytes"], rows["[3].base64"]["why"]) == (3, "it is not base64")


def test_with_a_budget_the_whole_conversation_is_recorded_beside_what_was_kept() -> None:
    value = made(CHAT, context_window=24)
    whole = inspect(CHAT, tokenizer="qwen3", clock=CLOCK)
    kept = inspect(CHAT, tokenizer="qwen3", clock=CLOCK, context_window=24)
    assert value["tokens"]["input_ids"] == whole.encoding.input_ids.tolist()
    assert value["inputs"]["input_ids"] == kept.encoding.input_ids.tolist() != value["tokens"]["input_ids"]
    assert (value["rendered"]["text"], value["inputs"]["text"]) == (whole.rendered.text, kept.rendered.text)


def test_silenced_rules_are_recorded_with_their_reasons() -> None:
    assert made(FULL, template_text=PARTS)["silenced"] == [{"rule": "late-system", "reason": "on purpose"}]


def test_a_request_that_cannot_be_read_is_recorded_with_its_bytes_and_its_error() -> None:
    value = made(b'[{"role": "user", "content": "caf\xe9"}]')
    assert value["request"]["text"] is None and value["request"]["undecoded"]
    assert (value["error"]["stage"], value["error"]["where"]["byte"]) == ("request", 33)


def test_a_replacement_character_is_told_by_its_path() -> None:
    value = made([{"role": "user", "content": "caf\ufffd"}])
    assert value["request"]["decoding"]["replacement_characters"] == ["messages[0].content"]


# --- what a record never holds --------------------------------------------------------------------------------------

SECRET = "hf_" + "Abc123Def456" * 3


def test_no_place_of_the_machine_stands_in_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "someone" / "mine"
    folder.mkdir(parents=True)
    (folder / "own.jinja").write_text("{{ messages[0].content }}")
    (folder / "broken.jinja").write_text("{{ raise_exception('see ' + messages[0].content) }}")
    for name in ("own.jinja", "broken.jinja"):
        text = json.dumps(made([{"role": "user", "content": "hi"}], template=str(folder / name)))
        assert str(tmp_path) not in text and "someone" not in text and f"local:{name}" in text
    monkeypatch.chdir(folder)
    assert made([{"role": "user", "content": "hi"}], template="own.jinja")["options"]["template"] == "local:own.jinja"


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        ([{"role": "user", "content": f"my token is {SECRET}"}], {}),
        ({"messages": CHAT, "tools": [{"name": "x", "key": SECRET}]}, {}),
        (CHAT, {"arguments": {"x": SECRET}}),
        (CHAT, {"template_text": f"{{{{ '{SECRET}' }}}}"}),
        ([{"role": "user", "content": "-----BEGIN RSA PRIVATE KEY-----\nMII"}], {}),
        (SECRET.encode() + b"\xff", {}),
    ],
)
def test_a_secret_in_what_the_model_reads_is_refused_and_not_told(request_: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InspectorError) as caught:
        made(request_, **options)
    assert (
        caught.value.kind is ErrorKind.SecretFound and caught.value.where and SECRET not in str(caught.value.to_dict())
    )


def test_a_secret_beside_the_messages_is_withheld_and_named() -> None:
    body = {
        "messages": CHAT,
        "api_key": "short",
        "headers": {"Authorization": "Bearer x", "note": f"see {SECRET}"},
        "model": "m",
    }
    value = made(body)
    assert {row["path"] for row in value["request"]["withheld"]} == {"api_key", "headers.Authorization", "headers.note"}
    text = json.dumps(value)
    assert SECRET not in text and "Bearer x" not in text and '\\"model\\": \\"m\\"' in text


def test_a_secret_of_the_environment_is_refused_by_its_name() -> None:
    environment = {"MY_API_KEY": "correct horse battery", "HF_TOKEN": "short", "PATH": "When is high tide?"}
    refuse_environment(json.dumps(CHAT), environment)
    with pytest.raises(InspectorError) as caught:
        refuse_environment("so: correct horse battery staple", environment)
    assert caught.value.where == {"path": "the value of MY_API_KEY"} and "correct" not in str(caught.value.to_dict())
