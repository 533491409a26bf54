"""States kept on the server, short links, embedding: bounded, dated, unguessable, opening to the same bytes."""

from __future__ import annotations

import json
import random
import re
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from axe import add_axe, faults
from page import ANSWER_MS, NARROW, messages, shot

from inspector import caller
from inspector.ui import framing, shares

SESSION = "0" * 32
STATE = json.dumps(
    {"schema": "page-state/1", "inputs": {"messages": "é\u2028 \\ud800"}}, separators=(",", ":"), ensure_ascii=False
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path))
    return tmp_path / "shares"


def keep(state: Any = STATE) -> dict[str, Any]:
    return json.loads(shares.share_keep({"session": SESSION, "state": state}))


def opened(share: Any) -> dict[str, Any]:
    return json.loads(shares.share_open({"session": SESSION, "id": share}))


def drop(share: Any, key: Any) -> dict[str, Any]:
    return json.loads(shares.share_drop({"session": SESSION, "id": share, "key": key}))


def test_a_kept_state_comes_back_to_the_byte_and_its_id_cannot_be_guessed_or_listed(store: Path) -> None:
    kept = keep()
    assert opened(kept["id"]) == {"state": STATE, "until": kept["until"], "error": None}
    assert len({keep()["id"] for _ in range(20)}) == 20 and re.fullmatch(r"[\w-]{22}", kept["id"])
    assert not [path for path in store.iterdir() if kept["id"] in path.name or kept["key"] in path.read_text("latin-1")]
    for wrong in ("", kept["id"][:-1] + "!", "../../etc/passwd", "A" * 22, None, 7, kept["id"] + "\n"):
        assert opened(wrong)["kind"] == "ArtifactUnavailable"


def test_only_its_maker_deletes_a_state(store: Path) -> None:
    mine, other = keep(), keep()
    for key in (other["key"], "", None, mine["key"][:-1]):
        assert drop(mine["id"], key)["error"] and opened(mine["id"])["error"] is None
    assert drop(mine["id"], mine["key"])["dropped"] and opened(mine["id"])["kind"] == "ArtifactUnavailable"
    assert opened(other["id"])["error"] is None


def test_states_run_out_and_all_together_are_bounded(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_800_000_000.0]
    monkeypatch.setattr(shares, "now", lambda: clock[0])
    first = keep()
    assert first["until"] == int((clock[0] + shares.DAYS * 86400) * 1000)
    monkeypatch.setattr(shares, "MOST_TOTAL", 3 * next(store.iterdir()).stat().st_size)
    assert [keep().get("kind") for _ in range(4)] == [None, None, "CacheFull", "CacheFull"]
    clock[0] += shares.DAYS * 86400 + 1
    assert opened(first["id"])["kind"] == "ArtifactUnavailable"
    assert keep()["error"] is None and len(list(store.iterdir())) == 1
    monkeypatch.setattr(shares, "MOST_STATE", 100)
    assert keep(STATE[:-1] + " " * 100 + "}")["kind"] == "InputTooLarge"
    for other in ("", "{}", 7, None, json.dumps({"schema": "other/1"}), [STATE]):
        assert keep(other)["kind"] == "OptionInvalid"


def test_a_stranger_stores_so_much_an_hour_and_a_person_at_home_as_much_as_there_is(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "AN_HOUR", 3)
    monkeypatch.setattr(shares, "CHARACTERS_AN_HOUR", 4 * len(STATE))
    monkeypatch.setattr(shares, "own_machine", lambda: False)
    shares._rates.cache_clear()
    try:
        found = {}
        for address, states in (("1.1.1.1", [STATE] * 4), ("2.2.2.2", [STATE, STATE + " " * 4 * len(STATE), STATE])):
            with caller.asked_by(caller.Caller("page", address)):
                found[address] = [keep(state).get("kind") for state in states]
        assert found == {"1.1.1.1": [None, None, None, "Busy"], "2.2.2.2": [None, "Busy", None]}
        monkeypatch.setattr(shares, "own_machine", lambda: True)
        assert [keep()["error"] for _ in range(5)] == [None] * 5
    finally:
        shares._rates.cache_clear()


def test_many_at_once_are_all_whole(store: Path) -> None:
    kept: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: kept.append(keep())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {opened(each["id"])["state"] for each in kept} == {STATE} and len(list(store.iterdir())) == 12


def test_only_the_embedded_form_may_be_framed_by_others(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for query, wanted in (
        ("", "frame-ancestors 'self'"),
        ("?embed=1", "frame-ancestors *"),
        ("?embed=10", "frame-ancestors 'self'"),
    ):
        with urllib.request.urlopen(address + query, timeout=30) as answer:
            assert answer.headers["Content-Security-Policy"].endswith(f"; {wanted}")
    monkeypatch.setenv("SPACE_ID", "org/space")
    assert "https://huggingface.co" in framing.policy("")


# --- the page -------------------------------------------------------------------------------------------------------


def share_link(bench: Any) -> str:
    return bench.page.input_value(".ti-link-text")


@pytest.mark.browser
def test_a_state_too_long_for_a_link_is_kept_opened_elsewhere_to_the_same_bytes_and_deleted(open_page: Any) -> None:
    noise = "".join(chr(code) for code in random.Random(3).choices(range(0x4E00, 0x9000), k=3400))
    mine = open_page()
    mine.type_in("messages", messages(noise, '<img src=x onerror="window.pwned=1">'))
    mine.page.click('[data-act="share"]')
    mine.page.wait_for_selector(".ti-keep:not([hidden])")
    said = mine.page.inner_text(".ti-keep")
    assert f"{shares.DAYS} days" in said and "delete" in said and not mine.page.is_visible(".ti-link-text")
    mine.page.screenshot(path=shot("share-long"))
    mine.page.click('[data-act="keep-state"]')
    mine.page.wait_for_selector(".ti-link-text:visible")
    link = share_link(mine)
    assert re.search(r"#share=[\w-]{22}$", link) and len(link) < 100
    mine.page.screenshot(path=shot("share-kept"))
    other = open_page()
    other.page.goto("about:blank")
    other.page.goto(link)
    other.settle()
    assert [other.pane(q) for q in (0, 1)] == [mine.pane(q) for q in (0, 1)] and noise in other.pane(0)["text"]
    mine.page.click('[data-act="drop-state"]')
    mine.page.wait_for_function(
        "() => !document.querySelector('.ti-keep').hidden && document.querySelector('.ti-linkrow').hidden"
    )
    other.page.goto("about:blank")
    other.page.goto(link)
    other.settle()
    other.page.wait_for_selector(".ti-notice.ti-err")
    assert "ran out, was deleted" in other.page.inner_text(".ti-notice") and "#" not in other.page.url


@pytest.mark.browser
def test_a_short_link_opens_with_its_choices_and_the_embedded_form_has_no_header(open_page: Any, address: str) -> None:
    bench = open_page()
    for query, tokenizer, template in (
        ("model=qwen3&template=qwq-32b&revision=16488a", "qwen3", "qwq-32b@16488a"),
        ("model=bytes", "bytes", ""),
        ("model=%3Cimg%20src=x%20onerror=alert(1)%3E&template=chatml", None, "chatml"),
    ):
        bench.page.goto("about:blank")
        bench.page.goto(f"{address}?{query}")
        bench.settle()
        if tokenizer:
            assert bench.page.input_value('[data-in="tokenizer0"]') == tokenizer
        assert bench.page.input_value('[data-in="template0"]') == template
    bench.choose("tokenizer0", "bytes")
    bench.page.wait_for_function("() => !location.search.includes('model')", timeout=ANSWER_MS)
    bench.page.goto("about:blank")
    bench.page.goto(f"{address}?embed=1&model=bytes&template=chatml")
    bench.settle()
    assert not bench.page.is_visible("h1") and not bench.page.is_visible('[data-act="examples"]')
    assert bench.page.is_visible('[data-act="whole-page"]') and bench.pane(0)["ids"]
    bench.page.screenshot(path=shot("embed"))
    bench.page.set_viewport_size(NARROW)
    bench.page.screenshot(path=shot("embed-narrow"))
    bench.page.set_viewport_size({"width": 1440, "height": 900})
    bench.page.goto(address)
    bench.settle()
    bench.page.click('[data-act="share"]')
    bench.page.wait_for_selector(".ti-link-text:visible")
    assert share_link(bench).startswith(f"{address}#state=")
    bench.page.click(".ti-more-links > summary")
    short = bench.page.input_value(".ti-short-text")
    assert short == f"{address}?model=bytes&template=chatml"
    code = bench.page.input_value(".ti-embed-text")
    assert code.startswith('<iframe src="') and "?embed=1#state=" in code and code.endswith("></iframe>")
    bench.page.screenshot(path=shot("share-dialog"))
    add_axe(bench.page)
    assert not faults(bench.page)
    bench.page.evaluate("() => document.querySelector('.ti-share').close()")
    bench.page.click('[data-act="dark"]')
    bench.page.click('[data-act="language"]')
    bench.page.set_viewport_size(NARROW)
    bench.page.click('[data-act="share"]')
    bench.page.wait_for_selector(".ti-link-text:visible")
    assert not faults(bench.page)
    assert bench.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    bench.page.screenshot(path=shot("share-narrow-dark"))
    bench.page.set_content(code)
    frame = bench.page.frame_locator("iframe")
    frame.locator('.ti[data-ready="1"]').wait_for(timeout=ANSWER_MS)
    assert frame.locator(".ti-seg, .ti-line, [role=row]").count()
