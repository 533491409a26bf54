"""The Hub on the loopback: commits, tokens, gated repositories, and every fault with its own clear error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import CASES, of
from fake_hub import Repository, State, serve, sha256

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache, hub, hub_http, resolve_files, resolve_template, resolve_tokenizer

FILES = {
    "tokenizer.json": json.dumps({"hub": 1, "pad": "x" * 600_000}).encode(),
    "tokenizer_config.json": b'{"chat_template": "{{ config }}"}',
    "chat_template.jinja": b"{{ messages }}",
    "additional_chat_templates/tool_use.jinja": b"{{ tools }}",
    "README.md": b"# never asked for",
    "config.json": b"{}",
}
OLD = {"tokenizer.json": b'{"hub": 0}', "tokenizer_config.json": b"{}"}


def fails(action: Any, kind: ErrorKind) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        action()
    assert caught.value.kind is kind, caught.value.one_line()
    assert caught.value.remedy and "\n" not in caught.value.one_line()
    return caught.value


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[State]:
    commits = [("First", "2025-01-01T00:00:00.000Z", OLD), ("Second", "2025-02-01T00:00:00.000Z", FILES)]
    repository = Repository(commits, {"main": -1, "v1": 0, "feature/x": 0, "refs/pr/7": 1})
    state = State({"org/name": repository})
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
        "HF_TOKEN",
        "SPACE_ID",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "_reachable", {})
    monkeypatch.setattr(hub_http, "DEADLINE_S", 1.0)
    with serve(state) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield state


def commit(state: State, index: int = 1) -> str:
    return state.repositories["org/name"].commit_id(index)


def left_over() -> list[Path]:
    """Whatever lies in the cache that is not a whole file, a lock or a record."""
    folder = cache.cache_dir()
    blobs = [path for path in folder.glob("files/*/*/*") if sha256(path.read_bytes()) != path.parent.name]
    return [*blobs, *folder.glob("tmp/*")]


@pytest.mark.parametrize("revision", ["", "@main", "@refs/pr/7", "@COMMIT"])
def test_a_repository_is_taken_at_its_commit_and_works_offline_afterwards(state: State, monkeypatch, revision) -> None:
    ref = "hf:org/name" + revision.replace("COMMIT", commit(state))
    artifact = resolve_tokenizer(ref)
    named = {
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
    }
    assert {file.name: file.sha256 for file in artifact.files} == {name: sha256(FILES[name]) for name in named}
    assert (artifact.ref, artifact.id) == (ref, f"hf:org/name@{commit(state)}")
    template = resolve_template(ref)
    assert (template.text, template.id, template.revision) == ("{{ messages }}", "hf:org/name", commit(state))
    assert resolve_template(ref, name="tool_use").text == "{{ tools }}"
    assert not any("README" in path for _method, path, _token in state.log)
    asked = len(state.log)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert resolve_tokenizer(ref) == artifact
    assert resolve_tokenizer(artifact.id).digest == artifact.digest
    assert resolve_template(f"{template.id}@{template.revision}").digest == template.digest
    assert len(state.log) == asked and not left_over()


@pytest.mark.parametrize("revision", ["v1", "feature/x"])
def test_a_tag_and_a_branch_with_a_slash_name_their_commit(state: State, revision: str) -> None:
    artifact = resolve_tokenizer(f"hf:org/name@{revision}")
    assert artifact.id == f"hf:org/name@{commit(state, 0)}"
    assert {file.name for file in artifact.files} == set(OLD)


def test_a_branch_that_moved_gives_its_new_commit_and_the_old_one_stays(state: State) -> None:
    before = resolve_tokenizer("hf:org/name")
    repository = state.repositories["org/name"]
    repository.commits.append(("Third", "2025-03-01T00:00:00.000Z", {"tokenizer.json": b'{"hub": 2}'}))
    after = resolve_tokenizer("hf:org/name")
    assert after.id == f"hf:org/name@{commit(state, 2)}" != before.id
    assert resolve_tokenizer(before.id).digest == before.digest


def test_a_large_file_is_held_to_the_hash_of_lfs(state: State) -> None:
    state.repositories["org/name"].lfs_from = 1
    assert resolve_tokenizer("hf:org/name").files[0].sha256 == sha256(
        FILES[resolve_tokenizer("hf:org/name").files[0].name]
    )
    state.fault, state.where = "other", "/org/name/resolve/"
    fails(lambda: resolve_files("hf:org/name", ("config.json",)), ErrorKind.ArtifactMismatch)


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "environment", "sent"),
    [
        (None, {"HF_TOKEN": "hf_own"}, "Bearer hf_own"),
        (None, {"HF_TOKEN": "hf_space", "SPACE_ID": "org/space"}, ""),
        (False, {"HF_TOKEN": "hf_own"}, ""),
        ("hf_visitor", {"HF_TOKEN": "hf_space", "SPACE_ID": "org/space"}, "Bearer hf_visitor"),
        (None, {}, ""),
    ],
)
def test_a_token_goes_only_where_it_is_meant_to_go(state: State, monkeypatch, token, environment, sent) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    resolve_tokenizer("hf:org/name", token=token)
    assert {authorization for method, _path, authorization in state.log if method != "HEAD"} == {sent}


def test_what_a_gated_repository_gave_to_one_visitor_is_not_given_to_another(state: State) -> None:
    state.repositories["org/name"].gated = True
    assert "ask for access" in fails(lambda: resolve_tokenizer("hf:org/name", token=False), ErrorKind.HubGated).remedy
    artifact = resolve_tokenizer("hf:org/name", token="hf_reader")
    for token in (False, "hf_other"):
        for ref in ("hf:org/name", artifact.id):
            fails(lambda ref=ref, token=token: resolve_tokenizer(ref, token=token), ErrorKind.HubGated)
    assert resolve_tokenizer("hf:org/name", token="hf_reader") == artifact


def test_a_private_repository_is_not_there_for_others_even_when_it_is_cached(state: State, monkeypatch) -> None:
    state.repositories["org/name"].private = True
    artifact = resolve_tokenizer("hf:org/name", token="hf_reader")
    assert "private" in fails(lambda: resolve_tokenizer("hf:org/name", token=False), ErrorKind.HubNotFound).remedy
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fails(lambda: resolve_tokenizer(artifact.id, token=False), ErrorKind.ArtifactUnavailable)
    assert resolve_tokenizer(artifact.id, token="hf_reader").digest == artifact.digest


def test_a_token_is_in_no_repr_and_in_no_record(state: State) -> None:
    state.repositories["org/name"].private = True
    resolve_tokenizer("hf:org/name", token="hf_reader")
    assert "hf_reader" not in repr(hub.HubSource("hf_reader"))
    for path in cache.cache_dir().rglob("*.json"):
        assert b"hf_reader" not in path.read_bytes()


# --- faults ------------------------------------------------------------------------------------------------------

API, FILE = "/api/models/org/name", "/org/name/resolve/"


@pytest.mark.parametrize(
    ("fault", "where", "headers", "kind"),
    [
        ("403", FILE, {"X-Error-Code": "GatedRepo"}, ErrorKind.HubGated),
        ("401", API, {"X-Error-Code": "GatedRepo"}, ErrorKind.HubGated),
        ("401", API, {}, ErrorKind.HubAuth),
        ("403", FILE, {}, ErrorKind.HubAuth),
        ("404", API, {"X-Error-Code": "RepoNotFound"}, ErrorKind.HubNotFound),
        ("404", API, {"X-Error-Code": "RevisionNotFound"}, ErrorKind.HubNotFound),
        ("404", FILE, {"X-Error-Code": "EntryNotFound"}, ErrorKind.HubNotFound),
        ("404", API, {}, ErrorKind.HubNotFound),
        ("400", API, {}, ErrorKind.HubError),
        ("429", FILE, {"Retry-After": "17"}, ErrorKind.HubError),
        ("500", FILE, {}, ErrorKind.HubTimeout),
        ("503", API, {}, ErrorKind.HubTimeout),
        ("hang", API, {}, ErrorKind.HubTimeout),
        ("hang", FILE, {}, ErrorKind.HubTimeout),
        ("drip", API, {}, ErrorKind.HubTimeout),
        ("drip", FILE + "COMMIT/tokenizer.json", {}, ErrorKind.HubTimeout),
        ("half-then-silence", FILE + "COMMIT/tokenizer.json", {}, ErrorKind.HubTimeout),
        ("half-then-close", FILE + "COMMIT/tokenizer.json", {}, ErrorKind.HubError),
        ("drop", API, {}, ErrorKind.HubError),
        ("drop", FILE, {}, ErrorKind.HubError),
        ("html", API, {}, ErrorKind.HubError),
        ("html", FILE, {}, ErrorKind.TokenizerInvalid),
        ("garbage", API, {}, ErrorKind.HubError),
        ("list", API, {}, ErrorKind.HubError),
        ("short", FILE, {}, ErrorKind.HubError),
        ("long", FILE, {}, ErrorKind.HubError),
        ("other", FILE, {}, ErrorKind.ArtifactMismatch),
        ("other-commit", FILE, {}, ErrorKind.ArtifactMismatch),
        ("redirect", FILE, {"Location": "http://127.0.0.1:9/elsewhere"}, ErrorKind.HubError),
        ("redirect", FILE, {"Location": "https://evil.example/tokenizer.json"}, ErrorKind.HubError),
        ("redirect", API, {"Location": "file:///etc/passwd"}, ErrorKind.HubError),
        ("loop", FILE, {}, ErrorKind.HubError),
    ],
)
def test_every_fault_ends_in_its_own_error_and_leaves_nothing_behind(state: State, fault, where, headers, kind) -> None:
    state.fault, state.where, state.headers = fault, where.replace("COMMIT", commit(state)), headers
    started = time.monotonic()
    error = fails(lambda: resolve_tokenizer("hf:org/name@main"), kind)
    assert "<script>" not in error.one_line()
    assert time.monotonic() - started < 2.5
    assert "org/name" in error.message or error.where["repository"] == "org/name"
    assert error.where.get("revision") in ("main", commit(state))
    assert not left_over() and not list(cache.cache_dir().glob("files/*/*/tokenizer.json"))
    state.fault = ""
    state.released.set()
    assert len(resolve_tokenizer("hf:org/name@main").files) == 4


def test_a_server_that_fails_for_a_moment_is_asked_again(state: State, monkeypatch) -> None:
    monkeypatch.setattr(hub, "_RETRY_S", (0.3, 0.3))
    state.fault, state.where = "502", API
    threading.Timer(0.2, lambda: setattr(state, "fault", "")).start()
    assert len(resolve_tokenizer("hf:org/name").files) == 4


def test_the_deadline_is_ten_seconds() -> None:
    """The tests above shorten it; this is what everybody else has."""
    import importlib

    assert importlib.reload(hub_http).DEADLINE_S == 10.0


def test_a_redirect_within_the_hub_is_followed_and_the_token_stays_there(state: State) -> None:
    state.repositories["new/name"] = state.repositories["org/name"]
    answer = hub_http.perform(hub_http.Request(hub.endpoint(), "/api/models/org/name/revision/main", None, "hf_x"))
    assert answer.status == 200 and state.log[-1][2] == "Bearer hf_x"
    assert hub_http._may_follow("https://huggingface.co", "https://cas-bridge.xethub.hf.co/file?sig=1")
    assert not hub_http._may_follow("https://huggingface.co", "http://cas-bridge.xethub.hf.co/file")
    assert not hub_http._may_follow("https://huggingface.co", "https://evilhf.co/file")
    assert not hub_http._may_follow("https://huggingface.co", "https://cdn.hf.co:8443/file")


def test_a_file_over_its_limit_is_refused_before_it_is_fetched(state: State, monkeypatch) -> None:
    monkeypatch.setattr(hub, "size_limit", lambda name: 1000)
    fails(lambda: resolve_tokenizer("hf:org/name"), ErrorKind.InputTooLarge)
    assert not any("/resolve/" in path for _method, path, _token in state.log)


def test_a_full_disk_is_said_and_leaves_nothing(state: State, monkeypatch) -> None:
    import resource
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        fails(lambda: resolve_tokenizer("hf:org/name"), ErrorKind.CacheFull)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not left_over()


def test_a_truncated_cached_file_is_noticed_and_fetched_again(state: State) -> None:
    artifact = resolve_tokenizer("hf:org/name")
    path = Path(next(file.path for file in artifact.files if file.name == "tokenizer.json"))
    path.write_bytes(FILES["tokenizer.json"][:1000])
    assert resolve_tokenizer("hf:org/name") == artifact
    assert path.read_bytes() == FILES["tokenizer.json"]


# --- offline -----------------------------------------------------------------------------------------------------


def test_an_unreachable_hub_is_tried_once_in_under_three_seconds_and_again_a_minute_later(state, monkeypatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://192.0.2.1")  # TEST-NET-1: nobody answers
    started = time.monotonic()
    fails(lambda: resolve_tokenizer("hf:org/name"), ErrorKind.ArtifactUnavailable)
    assert time.monotonic() - started < 3
    probes: list[str] = []
    monkeypatch.setattr(hub, "_probe", lambda address: probes.append(address) or False)
    fails(lambda: resolve_tokenizer("hf:org/name"), ErrorKind.ArtifactUnavailable)
    assert not probes
    monkeypatch.setattr(hub, "_PROBE_AGAIN_S", 0.0)
    fails(lambda: resolve_tokenizer("hf:org/name"), ErrorKind.ArtifactUnavailable)
    assert probes == ["http://192.0.2.1"]


# --- the attack cases --------------------------------------------------------------------------------------------


def payload(attack: str) -> str:
    return "g" * 300 + "/x" if attack == "R17" else CASES[attack]["payload"].partition(" (")[0]


@pytest.mark.parametrize("attack", of("repo_name", "R"))
def test_hostile_names_are_refused_before_any_network(state: State, monkeypatch, tmp_path, attack: str) -> None:
    (tmp_path / "org" / "localrepo").mkdir(parents=True)
    (tmp_path / "org" / "localrepo" / "tokenizer.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    text, group = payload(attack), attack.rstrip("0123456789")
    if attack in ("RV07", "RV08"):
        if text:
            state.repositories["org/name"].refs[text] = 1
        assert resolve_tokenizer(f"hf:org/name@{text}").id == f"hf:org/name@{commit(state)}"
        return
    if attack == "R07":  # as a repository it is asked for on the Hub; as a path no visitor may open it
        fails(lambda: resolve_tokenizer("hf:org/localrepo"), ErrorKind.HubNotFound)
        fails(lambda: resolve_tokenizer(text, local=False), ErrorKind.RepoNameInvalid)
        return
    monkeypatch.setattr(hub, "_probe", lambda address: pytest.fail("the network was used"))
    ref = {"R": f"hf:{text}", "RV": f"hf:org/name@{text}", "RF": f"hf:org/name@main!{text}"}[group]
    kind = {"R": "RepoNameInvalid", "RV": "RevisionInvalid", "RF": "FileNameInvalid"}[group]
    assert kind in CASES[attack]["expected_behaviour"]
    for error in (
        fails(lambda: resolve_tokenizer(ref), ErrorKind[kind]),
        fails(lambda: resolve_template(ref), ErrorKind[kind]),
    ):
        assert error.one_line().isprintable()
    assert not state.log


HUB_FAULTS = {
    "H01": ("403", FILE, {"X-Error-Code": "GatedRepo"}, ErrorKind.HubGated),
    "H02": ("401", API, {}, ErrorKind.HubAuth),
    "H03": ("404", API, {}, ErrorKind.HubNotFound),
    "H04": ("500", FILE, {}, ErrorKind.HubTimeout),
    "H06": ("hang", FILE, {}, ErrorKind.HubTimeout),
    "H07": ("half-then-silence", FILE + "COMMIT/tokenizer.json", {}, ErrorKind.HubTimeout),
    "H10": ("html", FILE, {}, ErrorKind.TokenizerInvalid),
    "H11": ("redirect", FILE, {"Location": "http://127.0.0.1:9/elsewhere"}, ErrorKind.HubError),
}


@pytest.mark.parametrize("attack", of("repo_name", "H"))
def test_hub_faults_of_the_attack_cases(state: State, attack: str) -> None:
    if attack == "H12":
        return test_a_truncated_cached_file_is_noticed_and_fetched_again(state)
    if attack == "H13":
        return test_a_full_disk_is_said_and_leaves_nothing(state, None)
    fault, where, headers, kind = HUB_FAULTS[attack]
    state.fault, state.where, state.headers = fault, where.replace("COMMIT", commit(state)), headers
    started = time.monotonic()
    error = fails(lambda: resolve_tokenizer("hf:org/name@main"), kind)
    assert kind.name in CASES[attack]["expected_behaviour"] and time.monotonic() - started < 6
    assert "<script>" not in error.one_line() and (attack != "H10" or "HTML page" in error.message)
    assert not left_over() and not list(cache.cache_dir().glob("files/*/*/tokenizer.json"))
    return None


@pytest.mark.parametrize("ref", ["/proc/self/environ", "folder:/", "gguf:/etc/passwd", "./x/tokenizer.json", "~/x"])
def test_visitors_open_no_path_of_the_server(state: State, ref: str) -> None:
    fails(lambda: resolve_tokenizer(ref, local=False), ErrorKind.RepoNameInvalid)
    fails(lambda: resolve_template(ref, local=False), ErrorKind.RepoNameInvalid)


@pytest.mark.parametrize("member", ["pytorch_model.bin", "modeling_x.py", "secret.json", "sub/.git/config"])
def test_only_names_of_the_fixed_lists_are_asked_for(state: State, member: str) -> None:
    fails(lambda: resolve_tokenizer(f"hf:org/name!{member}"), ErrorKind.FileNameInvalid)
    assert not state.log
