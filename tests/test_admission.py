"""Who runs and who waits: lanes, sessions, addresses, places; nobody starves and nobody is forgotten."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from inspector.caller import Caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sandbox import CallCancelled
from inspector.ui import calls, gate
from inspector.ui.admission import LOCAL, MODEL, PAGE, PUBLIC, Admission

BOUNDS = replace(PUBLIC, places=2, model_places=2, session_running=2, session_waiting=4, address_running=2, address_waiting=8, waiting=12, wait_s=0.4)  # fmt: skip


def ask(queue: Admission, address: str = "a", session: str = "s", lane: str | None = None, **named: Any) -> Any:
    return queue.reserve(Caller(address=address, cancel=threading.Event()), session, lane, **named)


def kind(ticket: Any) -> Any:
    error = ticket.granted.exception(0)
    return error.kind if isinstance(error, InspectorError) else type(error)


def test_one_of_a_lane_runs_and_one_waits_and_the_newest_wins_where_it_should() -> None:
    queue = Admission(BOUNDS)
    first, second = ask(queue, lane="program"), ask(queue, lane="program")
    assert first.running and not second.running
    with pytest.raises(InspectorError) as refused:
        ask(queue, lane="program")
    assert refused.value.kind is ErrorKind.Busy and refused.value.remedy and queue.status()["refused"] == 1
    queue.leave(first)
    assert second.running
    queue.leave(second)
    for _ in range(2):
        ask(queue, session="dormant", lane="program", ready=False)
    with pytest.raises(InspectorError):
        ask(queue, session="dormant", lane="program", ready=False)
    queue.cancel_session("a", "dormant")
    views = [ask(queue, lane="view 1", after_s=0.1, turn=turn) for turn in (1, 2, 3)]
    assert [ticket.running for ticket in views] == [True, False, False] and kind(views[1]) is CallCancelled
    with pytest.raises(CallCancelled):
        ask(queue, lane="view 1", after_s=0.1, turn=2)  # the network turned the order round
    queue.tick(views[2], 0.05)
    assert not views[0].cancel.is_set()
    queue.tick(views[2], 0.1)
    assert views[0].cancel.is_set() and not views[2].running
    queue.leave(views[0])
    assert views[2].running
    queue.leave(views[2])
    assert queue.status() | {"admitted": 0, "refused": 0} == dict.fromkeys(queue.status(), 0)


def test_a_call_that_waits_can_be_asked_why_and_behind_how_many_of_its_address() -> None:
    queue = Admission(BOUNDS)
    running = [ask(queue), ask(queue)]
    others = [ask(queue, session=f"s{k}") for k in range(2)]
    mine = ask(queue, session="mine", lane="view 1")
    stranger = ask(queue, "b", "theirs", "view 1")
    assert queue.waits("a", "mine", "view 1") == {"why": "own", "before": 2}
    assert queue.waits("b", "theirs", "view 1") == {"why": "others", "before": 0}
    assert queue.waits("a", "theirs", "view 1") is queue.waits("a", "mine", "view 2") is None
    for ticket in (*running, *others):
        queue.leave(ticket)
    assert mine.running and stranger.running and queue.waits("a", "mine", "view 1") is None


def test_places_go_round_robin_over_addresses_and_sessions() -> None:
    queue = Admission(replace(BOUNDS, session_running=9, address_running=9, places=1))
    running = ask(queue, "flood")
    flood = [ask(queue, "flood", f"s{k % 3}") for k in range(8)]
    calm = [ask(queue, "calm", f"p{k}") for k in range(2)]
    order = []
    waiting = {id(t): name for t, name in [*((t, f"flood {t.session}") for t in flood), *((t, f"calm {t.session}") for t in calm)]}  # fmt: skip
    while waiting:
        queue.leave(running)
        running = next(t for t in (*flood, *calm) if t.running)
        order.append(waiting.pop(id(running)))
    assert order[:6] == ["flood s0", "calm p0", "flood s1", "calm p1", "flood s2", "flood s0"]
    model = Admission(BOUNDS)
    mine = [ask(model, pool=MODEL) for _ in range(2)]
    assert [t.running for t in mine] == [True, False] and ask(model, "b", pool=MODEL).running and ask(model).running


def test_every_queue_is_bounded_and_the_heaviest_gives_way_when_all_are_full() -> None:
    queue = Admission(replace(BOUNDS, session_running=0))  # nothing runs
    heavy = [ask(queue, "a") for _ in range(4)]
    with pytest.raises(InspectorError, match="already has 4 questions"):
        ask(queue, "a")
    heavy += [ask(queue, "a", "t") for _ in range(4)]
    with pytest.raises(InspectorError, match="from your address"):
        ask(queue, "a", "u")
    for k in range(4):
        ask(queue, "b", f"s{k}")
    assert queue.status()["waiting"] == 12
    newcomer = ask(queue, "c")
    assert queue.status()["waiting"] == 12 and not newcomer.granted.done()
    assert [kind(ticket) for ticket in heavy if ticket.granted.done()] == [ErrorKind.Busy]
    balanced = Admission(replace(BOUNDS, session_running=0, waiting=2))
    ask(balanced, "a"), ask(balanced, "b")
    with pytest.raises(InspectorError):
        ask(balanced, "c")


def test_who_leaves_or_waits_too_long_is_out_of_the_queue() -> None:
    queue = Admission(replace(BOUNDS, places=1))
    running, waits, gone = ask(queue), ask(queue, "b"), ask(queue, "c")
    queue.cancel(gone)
    assert kind(gone) is CallCancelled and gone.cancel.is_set()
    began = time.monotonic()
    with pytest.raises(InspectorError, match=r"within 0\.4 s"):
        queue.wait(waits)
    assert 0.3 < time.monotonic() - began < 5
    dormant = ask(queue, "d", ready=False)
    queue.leave(running)
    assert not dormant.running and queue.status()["running"] == 0
    other = ask(queue, "e")
    assert other.running  # a call that Gradio still holds takes nobody's place
    queue.cancel_session("e", "s")
    queue.leave(other)
    thread = threading.Thread(target=queue.wait, args=(dormant,))
    thread.start()
    thread.join(5)
    assert dormant.running


def test_no_more_run_than_there_may_be_children() -> None:
    rng = random.Random(3)
    for children in (1, 2, 3, 8, 16):
        queue = Admission(calls._fitted(PUBLIC, children))
        tickets: list[Any] = []
        for k in range(120):
            pool = rng.choice([PAGE, MODEL])
            tickets.append(ask(queue, f"a{k % 9}", f"s{k}", pool=pool))
            assert sum(ticket.running for ticket in tickets) <= children
            if rng.random() < 0.4:
                queue.leave(next(ticket for ticket in tickets if ticket.running))
        while running := [ticket for ticket in tickets if ticket.running]:
            assert len(running) <= children
            queue.leave(running[0])
        assert all(ticket.granted.done() for ticket in tickets) and queue.status()["admitted"] == 120
        assert queue.status()["running"] + queue.status()["running_model"] == 0


def test_a_long_call_lets_others_go_first_between_its_parts() -> None:
    queue = Admission(replace(BOUNDS, places=1))
    long = ask(queue, "long")
    queue.give_way(long)
    assert long.running  # nobody waits
    other = ask(queue, "other")
    thread = threading.Thread(target=queue.give_way, args=(long,))
    thread.start()
    other.granted.result(5)
    assert other.running and not long.running
    queue.leave(other)
    thread.join(5)
    assert long.running
    ask(queue, "other")
    with pytest.raises(InspectorError, match=r"within 0\.4 s"):  # of two waits, the later one is too long
        queue.give_way(long)
    assert not long.running
    queue.cancel(long)
    with pytest.raises(CallCancelled):
        queue.give_way(long)
    queue.leave(long)
    assert queue.status()["waiting"] == 0


def test_many_threads_end_each_with_its_place_or_a_refusal() -> None:
    queue = Admission(replace(BOUNDS, places=3, wait_s=30, session_waiting=50, address_waiting=50, waiting=60))
    rng, most, now, done = random.Random(7), [0], [0], []
    guard = threading.Lock()

    def work(k: int) -> None:
        for _ in range(6):
            try:
                ticket = ask(queue, f"a{k % 5}", f"s{k}", rng.choice(["view 1", "view 2", None]), after_s=0.0)
                queue.wait(ticket)
            except (InspectorError, CallCancelled) as error:
                done.append(type(error))
                continue
            with guard:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(rng.random() / 500)
            with guard:
                now[0] -= 1
            queue.leave(ticket)
            done.append("ran")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 120 and most[0] <= 3 and done.count("ran") > 60
    assert queue.status()["running"] == queue.status()["waiting"] == 0


@pytest.mark.parametrize(
    ("peer", "header", "environment", "client"),
    [
        ("9.9.9.9", "1.1.1.1", {}, "9.9.9.9"),
        ("9.9.9.9", "1.1.1.1, 2.2.2.2", {"SPACE_ID": "a/b"}, "2.2.2.2"),
        ("9.9.9.9", "1.1.1.1, 2.2.2.2", {"INSPECTOR_PROXIES": "2"}, "1.1.1.1"),
        ("9.9.9.9", "2.2.2.2", {"INSPECTOR_PROXIES": "2"}, "9.9.9.9"),
        ("9.9.9.9", "'; drop", {"SPACE_ID": "a/b"}, "unknown"),
        ("2001:db8:1:2:3::1", "", {}, "2001:db8:1:2::/64"),
        ("::ffff:9.9.9.9", "", {}, "9.9.9.9"),
    ],
)
def test_a_client_is_named_by_what_a_trusted_proxy_wrote(
    peer: str, header: str, environment: dict[str, str], client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPACE_ID", "INSPECTOR_PROXIES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert gate.client_of({"client": (peer, 1), "headers": [(b"x-forwarded-for", header.encode())]}) == client


@pytest.mark.parametrize(
    ("host", "peer", "header", "hosts", "taken"),
    [
        ("127.0.0.1:7860", "127.0.0.1", "", "", True),
        ("localhost", "127.0.0.1", "", "", True),
        ("page.localhost:7860", "::1", "", "", True),
        ("[::1]:7860", "::1", "", "", True),
        ("evil.example:7860", "127.0.0.1", "", "", False),  # DNS rebinding: the name leads here, the page is theirs
        ("127.0.0.1.evil.example", "127.0.0.1", "", "", False),
        ("localhost.evil.example", "127.0.0.1", "", "", False),
        ("", "127.0.0.1", "", "", False),
        ("[::1", "127.0.0.1", "", "", False),
        ("127.0.0.1:7860", "9.9.9.9", "", "", False),  # what uvicorn makes of a proxy's word
        ("127.0.0.1:7860", "127.0.0.1", "9.9.9.9", "", True),  # its word is not looked at
        ("Tide.example:443", "9.9.9.9", "", "port.example, tide.example", True),
    ],
)
def test_a_page_for_oneself_answers_to_its_machines_names_alone(
    host: str, peer: str, header: str, hosts: str, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPECTOR_HOSTS", hosts)
    monkeypatch.delenv("INSPECTOR_PROXIES", raising=False)
    scope = {"client": (peer, 1), "headers": [(b"host", host.encode()), (b"x-forwarded-for", header.encode())]}
    said = gate._stranger(scope)
    assert (said is None) is taken and (said is None or "INSPECTOR_HOSTS" in said.remedy)


def test_a_person_on_their_own_machine_meets_no_bound() -> None:
    assert LOCAL.session_running >= 6 + 5 and LOCAL.body_bytes >= 128 << 20 and LOCAL.wait_s >= 600
    assert PUBLIC.session_waiting >= 6 + 5  # six panes and their comparisons
