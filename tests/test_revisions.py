"""Revisions: commits that changed a template or tokenizer, which template wins (as transformers says), edits."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fake_hub import Repository, State, serve, sha256
from test_cli import run
from test_sources_contract import _Registry, tarball, write_wheel

from inspector import service  # noqa: F401 - the commands below need what it imports
from inspector.errors import ErrorKind, InspectorError
from inspector.revisions import describe_change, edited, revisions, template_diff, template_places
from inspector.sources import cache, hub, resolve_template, resolve_tokenizer
from inspector.template import Template

OWN_CACHE = cache.cache_dir()
TOKENIZER = json.dumps(
    {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}
).encode()


def config(template: Any = None, **keys: Any) -> bytes:
    table = {"tokenizer_class": "PreTrainedTokenizerFast", **keys}
    return json.dumps(table | ({} if template is None else {"chat_template": template})).encode()


COMMITS: list[tuple[str, str, dict[str, bytes]]] = [
    ("Add README", "2024-12-01T00:00:00.000Z", {"README.md": b"1"}),
    ("First", "2025-01-01T00:00:00.000Z", {"tokenizer.json": TOKENIZER, "tokenizer_config.json": config("A\nB", eos_token="a")}),
    ("Weights", "2025-01-02T00:00:00.000Z", {"tokenizer.json": TOKENIZER, "model.safetensors": b"w",
                                             "tokenizer_config.json": config("A\nB", eos_token="a")}),
    ("Fix EOS", "2025-02-01T00:00:00.000Z", {"tokenizer.json": TOKENIZER, "tokenizer_config.json": config("A\nB", eos_token="b"),
                                             "chat_template.json": b'{"chat_template": "P"}'}),
    ("Move template", "2025-03-01T00:00:00.000Z", {
        "tokenizer.json": TOKENIZER, "tokenizer_config.json": config(eos_token="b"), "chat_template.jinja": b"A\nC\nD",
        "additional_chat_templates/rag.jinja": b"R", "chat_template.json": b'{"chat_template": "P"}'}),
    ("Drop the processor's", "2025-03-02T00:00:00.000Z", {
        "tokenizer.json": TOKENIZER, "tokenizer_config.json": config(eos_token="b"), "chat_template.jinja": b"A\nC\nD",
        "additional_chat_templates/rag.jinja": b"R"}),
    ("README again", "2025-03-03T00:00:00.000Z", {
        "tokenizer.json": TOKENIZER, "tokenizer_config.json": config(eos_token="b"), "chat_template.jinja": b"A\nC\nD",
        "additional_chat_templates/rag.jinja": b"R", "README.md": b"2"}),
]  # fmt: skip


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[State]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "_reachable", {})
    state = State({"org/name": Repository(list(COMMITS))})
    with serve(state) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield state


def test_the_commits_that_changed_a_template_or_tokenizer_are_listed_with_what_changed(state: State) -> None:
    found = revisions("hf:org/name")
    repository = state.repositories["org/name"]
    assert [(entry.title, entry.what) for entry in found.revisions] == [
        ("Drop the processor's", "chat_template.json removed"),
        ("Move template", "additional_chat_templates/rag.jinja added; chat_template.jinja added; "
                          "tokenizer_config.json: chat_template removed"),
        ("Fix EOS", 'chat_template.json added; tokenizer_config.json: eos_token "a" -> "b"'),
        ("First", "tokenizer.json added; tokenizer_config.json added"),
    ]  # fmt: skip
    assert [entry.revision for entry in found.revisions] == [repository.commit_id(i) for i in (5, 4, 3, 1)]
    assert found.revisions[0].date == "2025-03-02T00:00:00.000Z" and found.complete
    states = {file.file: file for file in found.revisions[0].files}
    assert states["chat_template.jinja"].sha256 == sha256(b"A\nC\nD")
    assert [(place.file, place.name, place.wins_for) for place in found.places] == [
        ("chat_template.jinja", "default", ("tokenizer", "processor")),
        ("additional_chat_templates/rag.jinja", "rag", ("tokenizer", "processor")),
    ]


def test_every_listed_revision_can_be_picked_for_a_comparison(state: State) -> None:
    found = revisions("hf:org/name").revisions
    assert [resolve_template(entry.ref).text for entry in found] == ["A\nC\nD", "A\nC\nD", "A\nB", "A\nB"]
    assert resolve_template(found[0].ref, name="rag").text == "R"
    assert {resolve_tokenizer(entry.ref).id for entry in found} == {entry.ref for entry in found}


def test_the_walk_makes_a_few_requests_and_not_one_a_commit(state: State) -> None:
    repository = state.repositories["org/name"]
    files = repository.commits[-1][2]
    repository.commits += [
        (f"Edit {i}", "2025-04-01T00:00:00.000Z", {**files, "README.md": b"%d" % i}) for i in range(120)
    ]
    assert [entry.title for entry in revisions("hf:org/name").revisions][:2] == [
        "Drop the processor's",
        "Move template",
    ]
    assert sum("/paths-info/" in path for _method, path, _token in state.log) < 50
    asked = len(state.log)
    revisions("hf:org/name")
    assert sum("/resolve/" in path for _method, path, _token in state.log[asked:]) == 0  # blobs are kept by their id


def test_a_repository_without_such_files_has_no_revision(state: State) -> None:
    state.repositories["org/bare"] = Repository(COMMITS[:1])
    with pytest.raises(InspectorError) as caught:
        revisions("hf:org/bare")
    assert caught.value.kind is ErrorKind.ArtifactUnavailable


def test_the_versions_of_a_package_are_its_revisions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "index").mkdir()
    for version in ("1.0", "1.1"):
        write_wheel(tmp_path / "index" / f"inspector_probe-{version}-py3-none-any.whl", b"{}")
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
    }.items():
        monkeypatch.setenv(name, value)
    found = revisions("pypi:inspector-probe==1.0!probe/tokenizer.json").revisions
    assert [entry.ref for entry in found] == [f"pypi:inspector-probe=={v}!probe/tokenizer.json" for v in ("1.1", "1.0")]
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Registry", (_Registry,), {"packed": tarball(b"{}")}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    for name, value in {"npm_config_registry": f"http://127.0.0.1:{server.server_port}", "npm_config_fetch_retries": "0",
                        "npm_config_cache": str(tmp_path / "npm"), "npm_config_userconfig": os.devnull}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert [entry.ref for entry in revisions("npm:probe@1.0.0!tokenizer.json").revisions] == [
        "npm:probe@1.0.0!tokenizer.json"
    ]
    server.shutdown()
    server.server_close()
    with pytest.raises(InspectorError) as caught:
        revisions("pypi:--index-url")
    assert caught.value.kind is ErrorKind.RepoNameInvalid


# --- which one wins, against transformers ------------------------------------------------------------------------

FOLDERS: dict[str, dict[str, bytes]] = {
    "config": {"tokenizer_config.json": config("C")},
    "config list": {"tokenizer_config.json": config([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}])},
    "file": {"tokenizer_config.json": config(), "chat_template.jinja": b"J"},
    "file over config": {"tokenizer_config.json": config("C"), "chat_template.jinja": b"J"},
    "file equals config": {"tokenizer_config.json": config("J"), "chat_template.jinja": b"J"},
    "file over config list": {
        "tokenizer_config.json": config([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]),
        "chat_template.jinja": b"J",
    },
    "files": {"chat_template.jinja": b"J", "additional_chat_templates/tool_use.jinja": b"U",
              "additional_chat_templates/rag.jinja": b"R", "tokenizer_config.json": config("C")},
    "additional only": {"additional_chat_templates/tool_use.jinja": b"U", "tokenizer_config.json": config("C")},
    "processor's own": {"chat_template.json": b'{"chat_template": "P"}', "tokenizer_config.json": config("C")},
    "processor's own over file": {"chat_template.json": b'{"chat_template": "P"}', "chat_template.jinja": b"J",
                                  "tokenizer_config.json": config("C")},
    "processor's key": {"processor_config.json": b'{"chat_template": "K"}', "chat_template.json": b'{"chat_template": "P"}',
                        "chat_template.jinja": b"J", "tokenizer_config.json": config("C")},
    "none": {"tokenizer_config.json": config()},
}  # fmt: skip


def named(value: Any) -> dict[str, str]:
    return {} if value is None else {"default": value} if isinstance(value, str) else dict(value)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_winner_is_the_one_that_transformers_takes(folder: str, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast
    from transformers.processing_utils import ProcessorMixin

    files = {"tokenizer.json": TOKENIZER, **FOLDERS[folder]}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    places = template_places(files)
    wins = {
        who: {place.name: place.text for place in places if who in place.wins_for} for who in ("tokenizer", "processor")
    }
    assert wins["tokenizer"] == named(PreTrainedTokenizerFast.from_pretrained(tmp_path).chat_template)
    table, _rest = ProcessorMixin.get_processor_dict(tmp_path)
    assert wins["processor"] == named(table.get("chat_template"))
    if wins["tokenizer"].get("default"):
        assert resolve_template(f"folder:{tmp_path}").text == wins["tokenizer"]["default"]
    for place in places:
        assert place.digest == sha256(place.text.encode())


def test_a_template_that_loses_says_whether_it_differs_from_the_winner() -> None:
    def losers(folder: str) -> dict[str, bool | None]:
        return {place.text: place.equal for place in template_places(FOLDERS[folder]) if not place.wins_for}

    assert losers("file over config") == {"C": False} and losers("file equals config") == {"J": True}
    assert losers("file over config list") == {"D": False, "T": None}
    assert losers("processor's own") == {} and losers("processor's key") == {"C": False, "P": False}


def test_the_template_of_a_gguf_is_shown_beside_the_repositorys(tmp_path: Path) -> None:
    """TID-05: the template inside a GGUF differs from the one in the repository."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    body = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    body += text("tokenizer.chat_template") + struct.pack("<I", 8) + text("G")
    body += text("tokenizer.chat_template.tool_use") + struct.pack("<I", 8) + text("GT")
    body += text("tokenizer.chat_templates") + struct.pack("<IIQ", 9, 8, 1) + text("tool_use")
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 4) + body)
    places = template_places({"chat_template.jinja": b"J", "m.gguf": str(path).encode()})
    assert [(place.text, place.wins_for) for place in places] == [
        ("J", ("tokenizer", "processor")), ("G", ("gguf",)), ("GT", ("gguf",)),
    ]  # fmt: skip
    assert (
        resolve_template(f"gguf:{path}").text == "G" and resolve_template(f"gguf:{path}", name="tool_use").text == "GT"
    )
    assert (
        template_diff(resolve_template(f"gguf:{path}"), Template("r", "r", "main", "default", "x", "J")).count("\n")
        == 7
    )


def test_two_folders_of_one_tokenizer_show_what_saving_it_changed() -> None:
    """TID-08: after fine-tuning, the special tokens or the template differ from the base model's."""
    base = {"tokenizer_config.json": config("A\nB", eos_token="a", pad_token="p")}
    saved = {"tokenizer_config.json": config(None, eos_token="b"), "chat_template.jinja": b"A\nC"}
    hashes = [{name: sha256(data) for name, data in files.items()} for files in (base, saved)]
    assert describe_change(*hashes, base, saved) == (
        'chat_template.jinja added; tokenizer_config.json: chat_template removed, eos_token "a" -> "b", pad_token removed'
    )


# --- edits -------------------------------------------------------------------------------------------------------


def test_an_edit_is_a_revision_of_its_origin_with_its_own_digest_and_a_diff() -> None:
    origin = Template("qwq-32b@16488a", "qwq-32b", "16488a", "default", "Q.jinja", "one\ntwo\u2028x\nthree")
    edit = edited(origin, "one\n2\u2028x\nthree\n")
    assert (edit.id, edit.revision, edit.name, edit.file) == ("qwq-32b", "edited", "default", "Q.jinja")
    assert edit.digest == sha256(edit.text.encode()) != origin.digest
    assert edited(origin, origin.text) is origin
    assert template_diff(origin, edit).splitlines(keepends=False)[0].startswith("--- qwq-32b@16488a (default)")
    assert "\\ No newline at end of file" in template_diff(origin, edit)
    assert template_diff(origin, origin) == ""


def test_the_diff_of_real_revisions_applies_to_the_one_and_gives_the_other(tmp_path: Path) -> None:
    import shutil
    import subprocess

    if not shutil.which("patch"):
        pytest.skip("the patch program is not installed")
    for one, other in (("qwq-32b@16488a", "qwq-32b"), ("qwen3-0.6b@a55ee1", "qwen3-0.6b")):
        before, after = resolve_template(one), resolve_template(other)
        (tmp_path / "t").write_text(before.text, newline="")
        subprocess.run(["patch", "-s", str(tmp_path / "t")], input=template_diff(before, after).encode(), check=True)
        assert (tmp_path / "t").read_bytes().decode() == after.text


def test_the_command_prints_revisions_and_templates(state: State) -> None:
    done = run("revisions", "hf:org/name", "--json")
    result = json.loads(done.stdout)
    assert result["schema"] == "revisions/1" and result["error"] is None and len(result["revisions"]) == 4
    text = run("revisions", "hf:org/name").stdout.decode()
    assert "Fix EOS" in text and "wins for tokenizer and processor" in text
    failed = run("revisions", "hf:org/absent", "--json")
    assert failed.returncode == 3 and json.loads(failed.stdout)["error"]["kind"] == "HubNotFound"
