"""The cache's bound: least recently used goes first, what is in use stays, several processes at once; the command."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli import run

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import bounds, cache
from inspector.tokenizers.base import ArtifactFile


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("INSPECTOR_CACHE_BYTES", "1000")


def put(letter: str, size: int = 300, used_s_ago: float = 1000.0) -> ArtifactFile:
    file = cache.store_bytes(letter.encode() * size, f"{letter}.json")
    os.utime(file.path, (time.time() - used_s_ago, os.stat(file.path).st_mtime))
    return file


def there(*files: ArtifactFile) -> list[str]:
    return [file.name[0] for file in files if Path(file.path).exists()]


def test_the_least_recently_used_file_makes_room_and_the_bound_holds() -> None:
    a, b, c = put("a", used_s_ago=3000), put("b", used_s_ago=2000), put("c", used_s_ago=1000)
    assert cache.lookup(a.sha256, a.name) is not None
    d = put("d")
    assert there(a, b, c, d) == ["a", "c", "d"]
    assert sum(entry.size for entry in bounds.entries()) <= 1000
    assert cache.lookup(b.sha256, b.name) is None


def test_what_is_in_use_is_never_evicted_and_the_error_says_what_to_do() -> None:
    a, b, c = put("a"), put("b"), put("c")
    with cache.held((a, b, c)), pytest.raises(InspectorError) as caught:
        put("d")
    assert caught.value.kind is ErrorKind.CacheFull and "INSPECTOR_CACHE_BYTES" in caught.value.remedy
    assert there(a, b, c) == ["a", "b", "c"] and not list(cache.cache_dir().glob("tmp/*"))
    for file in (a, b, c):
        cache.lookup(file.sha256, file.name)  # just used: kept for a while without a hold
    with pytest.raises(InspectorError):
        put("d")
    with pytest.raises(InspectorError) as caught:
        put("e", size=1001)
    assert caught.value.kind is ErrorKind.CacheFull


def test_a_file_that_was_evicted_cannot_be_held() -> None:
    a = put("a")
    Path(a.path).unlink()
    with pytest.raises(InspectorError) as caught, cache.held((a,)):
        raise AssertionError("it was held")
    assert caught.value.kind is ErrorKind.ArtifactUnavailable


def test_a_converted_model_counts_and_goes_whole() -> None:
    folder = cache.cache_dir() / "models" / "m"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w" * 500)
    os.utime(folder, (1, 1))
    os.utime(folder / "model.safetensors", (1, 1))
    files = [put("a"), put("b")]
    assert not folder.exists() and there(*files) == ["a", "b"]


@pytest.mark.parametrize("text", ["-1", "0", "20GB", "1e9", "²"])
def test_a_bound_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("INSPECTOR_CACHE_BYTES", text)
    with pytest.raises(InspectorError) as caught:
        put("a")
    assert caught.value.kind is ErrorKind.OptionInvalid
    monkeypatch.delenv("INSPECTOR_CACHE_BYTES")
    assert bounds.byte_limit() == 20 << 30


def test_drafts_of_killed_processes_are_removed_after_a_while() -> None:
    old, new = cache.cache_dir() / "tmp" / "old", cache.cache_dir() / "tmp" / "new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (1, 1))
    put("a")
    assert not old.exists() and new.exists()


HAMMER = """
import hashlib, random, sys
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import bounds, cache
bounds.IN_USE_S = 0.05
chooser, full, evicted = random.Random(int(sys.argv[1])), 0, 0
for step in range(150):
    number = chooser.randrange(24)
    data = bytes([number]) * (4000 + number)
    name, digest = f"{number}.json", hashlib.sha256(data).hexdigest()
    try:
        file = cache.lookup(digest, name) or cache.store_bytes(data, name)
        with cache.held((file,)):
            for _ in range(3):
                assert cache.read_verified(file) == data, "other bytes"
    except InspectorError as error:
        assert error.kind in (ErrorKind.CacheFull, ErrorKind.ArtifactUnavailable), error.one_line()
        full += error.kind is ErrorKind.CacheFull
        evicted += error.kind is ErrorKind.ArtifactUnavailable
    with bounds._eviction_lock():
        total = sum(entry.size for entry in bounds.entries())
    assert total <= 50000, total
print(full, evicted)
"""


def test_four_processes_at_once_keep_the_bound_and_read_only_whole_files() -> None:
    environment = {**os.environ, "INSPECTOR_CACHE_BYTES": "50000"}
    children = [
        subprocess.Popen([sys.executable, "-c", HAMMER, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=environment, cwd=Path(__file__).parent.parent)
        for seed in range(4)
    ]  # fmt: skip
    for child in children:
        out, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors.decode()
        full, evicted = map(int, out.split())
        assert full + evicted < 75  # refused under load now and then; mostly served
    for path in cache.cache_dir().glob("files/*/*/*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name
    assert not list(cache.cache_dir().glob("tmp/*"))


# --- the command -------------------------------------------------------------------------------------------------


def test_the_hashes_of_many_files_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache, "_MOST_HASHED", 8)
    monkeypatch.setattr(cache, "_hashed", {})
    for number in range(20):
        path = tmp_path / str(number)
        path.write_bytes(b"tide %d" % number)
        assert cache.sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [Path(key[0]).name for key in cache._hashed] == [str(number) for number in range(12, 20)]


def test_the_command_lists_says_where_and_clears() -> None:
    a, b = put("a"), put("b", used_s_ago=500)
    cache.remember("hf:org/name@main!./[x]#token:abc", {"a.json": a.sha256})
    assert run("cache", "path").stdout.decode().strip() == str(cache.cache_dir())
    listing = json.loads(run("cache", "--json").stdout)
    assert listing["schema"] == "cache/1" and (listing["bytes"], listing["limit"]) == (600, 1000)
    assert [entry["sha256"] for entry in listing["entries"]] == [b.sha256, a.sha256]
    assert listing["entries"][1]["refs"] == ["hf:org/name@main"]
    text = run("cache", "list").stdout.decode()
    assert "a.json" in text and a.sha256[:12] in text and "600" in text
    with cache.held((b,)):
        cleared = json.loads(run("cache", "clear", "--json").stdout)
    assert (cleared["removed"], cleared["kept"]) == (300, 300) and there(a, b) == ["b"]
    assert "300" in run("cache", "clear").stdout.decode()
    assert json.loads(run("cache", "list", "--json").stdout)["entries"] == []


def test_another_action_is_refused_with_the_ones_that_there_are() -> None:
    done = run("cache", "empty")
    assert done.returncode == 2 and b"list, clear, path" in done.stderr
    assert b"python -m inspector cache" in run("cache", "--help").stdout
