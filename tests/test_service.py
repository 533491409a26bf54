"""What shells get from the service when a side or a limit stops a run."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from inspector import service
from inspector.job import Options
from inspector.limits import LOCAL
from inspector.pipeline import Inspection, run_clock
from inspector.sandbox import Sandbox

HELLO = json.dumps([{"role": "user", "content": "hi"}]).encode()
BYTES = Options(tokenizer="bytes")
ENDLESS = (
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}"
)


def test_only_the_side_that_cannot_be_had_carries_the_error() -> None:
    result = service.compare(HELLO, BYTES, Options(tokenizer="no-such-preset"))
    assert result["a"]["error"] is None and result["a"]["input_ids"]
    assert result["b"]["error"]["kind"] == "UnknownPreset" and result["b"]["input_ids"] is None
    assert result["equal"] == {"bytes": False, "ids": False} and result["schema"] == "comparison/1"
    assert set(result) == set(service.compare(HELLO, BYTES, BYTES))


def test_a_limit_stops_a_run_with_a_whole_inspection_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox.start(replace(LOCAL, cpu_s=1)) as strict:
        monkeypatch.setattr(service, "_sandbox", strict)
        result = service.inspect(HELLO, replace(BYTES, template_text=ENDLESS))
    assert result["error"]["kind"] == "TimeLimit", result["error"]
    assert set(result) == set(Inspection(BYTES, run_clock(BYTES)).to_dict())


def test_many_threads_share_one_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_sandbox", None)
    seen: list[Sandbox] = []
    threads = [threading.Thread(target=lambda: seen.append(service.sandbox())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8 and len(set(map(id, seen))) == 1
    seen[0].close()


def test_presets_that_are_here_are_loaded_once_for_all_children(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspector import jobs, limits, service, tokenizers
    from inspector.sources import resolve_tokenizer

    artifact = resolve_tokenizer("smollm2")
    tokenizers._load.cache_clear()
    jobs.preload(("smollm2", "no such preset"))
    before = tokenizers._load.cache_info()
    tokenizers.load_tokenizer(artifact)
    assert (tokenizers._load.cache_info().hits, tokenizers._load.cache_info().misses) == (
        before.hits + 1,
        before.misses,
    )
    monkeypatch.setenv("INSPECTOR_CACHE", "/nonexistent")
    jobs.preload(("qwen3",))  # its files are not there: nothing is fetched, nothing fails
    assert tokenizers._load.cache_info().misses == before.misses
    bounds = limits.in_force()
    try:
        for mode, names in ((limits.LOCAL, ()), (limits.PUBLIC, service.PRELOADED)):
            limits.use(mode)
            assert service._preloaded() == names
        monkeypatch.setenv("INSPECTOR_PRELOAD", " bytes, qwen3 ,")
        assert service._preloaded() == ("bytes", "qwen3")
    finally:
        limits.use(bounds)
