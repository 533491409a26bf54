"""The sandbox against real bombs: each must end as a typed error, leave nothing behind and harm no other call."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sandbox_bombs

from inspector import confinement, service
from inspector import sandbox as sandbox_module
from inspector.caller import Caller, asked_by
from inspector.errors import ErrorKind, InspectorError
from inspector.jobs import JOBS
from inspector.limits import LOCAL, MIB, PUBLIC, Limits
from inspector.sandbox import CallCancelled, Sandbox, death_error
from inspector.sources import resolve_tokenizer, store_upload, visitors
from inspector.ui import shares

ROOT = Path(__file__).resolve().parent.parent
LIMITS = replace(LOCAL, cpu_s=2, wall_s=30, memory_mb=300, answer_bytes=4 * MIB, payload_bytes=2 * MIB, children=8)

# Hashing a tuple a million deep overflows the C stack: no Python limit applies.
CRASHING_TEMPLATE = (
    b"{% set ns = namespace(t=()) %}{% for i in range(100000) %}"
    b"{% set ns.t = ((((((((((ns.t,),),),),),),),),),) %}{% endfor %}{{ {}[ns.t] }}"
)


def start(limits: Limits = LIMITS, *, own_files: bool = False, warm: str | None = "inspector.jobs:warm") -> Sandbox:
    preload = ("sandbox_bombs", "numpy", "tokenizers")
    return Sandbox.start(limits, jobs=JOBS | sandbox_bombs.JOBS, preload=preload, warm=warm, own_files=own_files)


@pytest.fixture(scope="module")
def sandbox():
    with start() as running:
        yield running


def failure(sandbox: Sandbox, job: str, payload: bytes = b"", **options) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        sandbox.call(job, payload, **options)
    assert sandbox.call("echo", b"still here") == b"still here"
    return caught.value


def children_of(pid: int) -> list[tuple[int, str]]:
    """(pid, state) of the process's children; state Z is a zombie."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[1]) == pid:
                    found.append((int(entry.name), after_name[0]))
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until(condition, timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


CONFINED = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
REFUSED = (ErrorKind.SandboxBlocked, "the sandbox refuses") if CONFINED else (ErrorKind.WorkerCrashed, "OSError")

# ---------------------------------------------------------------------------------------------------------- bombs


ENDLESS = b"one\n{% for a in range(100000) %}\n{% for b in range(100000) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("session", [None, "visitor"])
@pytest.mark.parametrize(
    ("job", "payload", "kind", "words"),
    [
        ("spin", b"", ErrorKind.TimeLimit, "2 s of CPU"),
        ("native_spin", b"", ErrorKind.TimeLimit, "2 s of CPU"),
        ("fill_memory", b"4000000000", ErrorKind.MemoryLimit, "300 MiB"),
        ("fill_memory_slowly", b"", ErrorKind.MemoryLimit, "300 MiB"),
        ("recurse", b"", ErrorKind.RecursionLimit, "frames"),
        ("abort", b"", ErrorKind.WorkerCrashed, "SIGABRT"),
        ("abort_like_rust", b"", ErrorKind.MemoryLimit, "300 MiB"),
        ("overflow_like_rust", b"", ErrorKind.RecursionLimit, "native stack"),
        ("segfault", b"", ErrorKind.WorkerCrashed, "SIGSEGV"),
        ("kill_self", b"", ErrorKind.WorkerCrashed, "SIGKILL"),
        ("huge", b"5000000", ErrorKind.OutputTooLarge, "5,000,000 bytes; the limit is 4,194,304"),
        ("not_bytes", b"", ErrorKind.WorkerCrashed, "TypeError"),
        ("raise_exit", b"", ErrorKind.WorkerCrashed, "SystemExit"),
        ("rust_panic", b"", ErrorKind.TokenizerInvalid, "panic"),
        ("render", CRASHING_TEMPLATE, ErrorKind.WorkerCrashed, "SIGSEGV"),
        ("flood", b'\x07\x00\x00\x00\x09["", "x"]', ErrorKind.WorkerCrashed, "keep to the protocol"),
        ("flood", b"\x07\x00\x00\x00\x02{}", ErrorKind.WorkerCrashed, "keep to the protocol"),
        ("forge_length", b"", ErrorKind.OutputTooLarge, "4,294,967,295"),
        ("forge_error", b"", ErrorKind.WorkerCrashed, "not an error record"),
        ("forge_error", b'{"kind": "NoSuchKind"}', ErrorKind.WorkerCrashed, "not an error record"),
        ("write_file", b"/tmp/inspector-sandbox-test", *REFUSED),
        ("read_file", b"/etc/passwd", *REFUSED),
        ("connect", b"127.0.0.1:9", *REFUSED),
        ("run", b"/bin/true", *REFUSED),
        ("signal_parent", b"", *REFUSED),
    ],
)
def test_a_bomb_becomes_its_typed_error(sandbox, job, payload, kind, words, session):
    error = failure(sandbox, job, payload, session=session)
    assert (error.kind, error.stage) == (kind, "sandbox")
    assert words in error.message
    assert error.remedy and "\n" not in error.message


def test_the_wall_clock_ends_a_sleeper_and_names_the_limit(sandbox):
    began = time.monotonic()
    error = failure(sandbox, "sleep", b"60", wall_s=0.5)
    assert error.kind is ErrorKind.TimeLimit and "0.5 s" in error.message and error.where == {"limit": "wall_s"}
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("session", [None, "template"])
def test_the_error_of_a_template_that_takes_too_long_names_it_and_where_known_the_line(sandbox, session):
    roomy = replace(LIMITS, cpu_s=0.3)
    error = failure(sandbox, "endless", ENDLESS, session=session, limits=roomy)
    assert (error.kind, error.stage) == (ErrorKind.TimeLimit, "render")
    assert error.where == {"line": 3, "template": "mine", "limit": "cpu_s"}
    assert error.message == "the template mine used up all of the request's 0.3 s of CPU time and was at line 3"
    error = failure(sandbox, "endless", b"native", session=session, limits=roomy)
    assert error.where == {"template": "mine", "limit": "cpu_s"} and "the template mine" in error.message
    began = time.monotonic()
    error = failure(sandbox, "endless", ENDLESS, session=session, limits=replace(LIMITS, cpu_s=20, wall_s=0.5))
    assert error.where | {"line": 3} == {
        "line": 3,
        "template": "mine",
        "limit": "wall_s",
    }  # a starved child says no line
    error = failure(sandbox, "endless", b"native", session=session, limits=replace(LIMITS, cpu_s=20, wall_s=0.5))
    assert error.where == {"template": "mine", "limit": "wall_s"}
    assert time.monotonic() - began < 4


def test_loading_has_time_of_its_own_once_a_request(sandbox):
    limits = replace(LIMITS, cpu_s=0.2, load_cpu_s=0.4)
    for session in (None, "loads"):
        assert float(sandbox.call("load", b"0.3 0.1", session=session, limits=limits)) >= 0.4
    error = failure(sandbox, "load", b"0.2 0.4", session="loads", limits=limits)
    assert error.kind is ErrorKind.TimeLimit and error.where == {"limit": "cpu_s"}
    error = failure(sandbox, "load", b"0.3 0.4 0.1", session="loads", limits=limits)
    assert error.where == {"tokenizer": "slow", "limit": "load_cpu_s"} and "its 0.4 s" in error.message
    limits = replace(LIMITS, cpu_s=20, load_cpu_s=20, wall_s=0.5, load_wall_s=1)
    began = time.monotonic()
    assert failure(sandbox, "load", b"20 0", limits=limits).where == {"tokenizer": "slow", "limit": "load_wall_s"}
    assert 1.4 < time.monotonic() - began < 4


@pytest.mark.parametrize("session", [None, "deaf"])
def test_a_child_that_ignores_its_clocks_is_killed_all_the_same(sandbox, session):
    began = time.monotonic()
    error = failure(sandbox, "ignore_clocks", session=session, limits=replace(LIMITS, cpu_s=0.2, wall_s=1))
    assert error.kind is ErrorKind.TimeLimit and time.monotonic() - began < 4


def test_what_a_child_kept_of_earlier_requests_costs_no_later_one_its_memory(sandbox):
    first = sandbox.call("pid", b"", session="keeps")
    for _ in range(3):
        assert sandbox.call("keep", b"200000000", session="keeps") == b"kept"
    assert sandbox.call("pid", b"", session="keeps") != first
    assert failure(sandbox, "keep", b"400000000", session="keeps").kind is ErrorKind.MemoryLimit


def test_a_job_s_own_error_arrives_whole(sandbox):
    error = failure(sandbox, "raise_error")
    assert error.to_dict() == {
        "stage": "render",
        "kind": "TemplateSyntax",
        "message": "unexpected '}' \ud800",
        "where": {"line": 3},
        "remedy": "close the block",
    }


def test_an_unexpected_exception_tells_its_type_and_nothing_else(sandbox):
    error = failure(sandbox, "raise_secret")
    assert error.kind is ErrorKind.WorkerCrashed and "KeyError" in error.message and "hidden" not in error.one_line()


def test_a_request_over_the_bound_is_refused_with_both_numbers(sandbox):
    error = failure(sandbox, "echo", bytes(2 * MIB + 1))
    assert error.kind is ErrorKind.InputTooLarge and "2,097,153" in error.message and "2,097,152" in error.message


def test_empty_and_large_payloads_come_back_unchanged(sandbox):
    for payload in (b"", bytes(range(256)) * 4096):
        assert sandbox.call("echo", payload) == payload
        assert sandbox.call("echo", payload, session="sizes") == payload


def test_output_on_stdout_and_stderr_neither_blocks_nor_reaches_the_answer(sandbox):
    assert sandbox.call("chatter", b"") == b"done"
    assert sandbox.call("chatter", b"", session="chatter") == b"done"
    assert sandbox.call("chatter", b"", session="chatter") == b"done"


def test_a_limit_can_be_raised_for_one_call(sandbox):
    roomy = replace(LIMITS, memory_mb=700, answer_bytes=600 * MIB)
    assert len(sandbox.call("fill_memory", b"300000000", limits=roomy)) == 300_000_000
    assert failure(sandbox, "fill_memory", b"400000000").kind is ErrorKind.MemoryLimit


def test_death_by_the_hard_cpu_limit_is_a_time_limit():
    assert death_error(signal.SIGKILL, 2.01, LIMITS).kind is ErrorKind.TimeLimit
    assert death_error(signal.SIGKILL, 0.5, LIMITS).kind is ErrorKind.WorkerCrashed
    assert death_error(signal.SIGXCPU, 0.5, LIMITS).kind is ErrorKind.TimeLimit


# ---------------------------------------------------------------------------------------------------- surroundings


def test_a_child_sees_a_scrubbed_environment_no_torch_and_no_descriptor_of_ours(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy")
    monkeypatch.setenv("LC_TIME", "C")
    with start() as sandbox:
        facts = json.loads(sandbox.call("environment", b"", session="looked at"))
        own = Path(f"/proc/{facts['pid']}")
        assert len(os.listdir(own / "task")) == 1
        assert sorted(os.listdir(own / "fd")) == ["0", "1", "2", "3"]  # 3 is the socket
    assert not any("secret" in value for value in facts["environ"].values())
    assert "HOME" not in facts["environ"] and facts["environ"]["LC_TIME"] == "C"
    assert facts["environ"]["OPENBLAS_NUM_THREADS"] == "1" and facts["environ"]["TOKENIZERS_PARALLELISM"] == "false"
    assert "torch" not in facts["modules"] and "gradio" not in facts["modules"]
    assert facts["package"] == str(ROOT / "inspector")


def test_the_default_sandbox_loads_the_real_code_without_torch():
    with Sandbox.start() as sandbox:
        facts = json.loads(sandbox.call("self_test", b""))
        status = sandbox.status()
        assert len(os.listdir(f"/proc/{sandbox._zygote.process.pid}/task")) == 1  # forking with threads is unsound
    assert facts["torch_loaded"] is False and facts["own_session"] is True
    assert all(status["rlimits"][name] is not None for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE"))
    assert status["seccomp"] is CONFINED
    assert (status["seccomp"] and status["landlock"]) == all(status["refused"].values())
    assert [note for note in status["notes"] if "refused" in note] == [
        f"{what} is not refused to the children on this system" for what, no in status["refused"].items() if not no
    ]


def test_own_files_can_be_read_where_they_are_the_persons_and_nothing_else(tmp_path):
    (tmp_path / "own.txt").write_text("mine")
    with start(own_files=True) as own:
        assert own.call("read_file", str(tmp_path / "own.txt").encode()) == b"mine"
        if CONFINED:
            assert failure(own, "read_file", f"/proc/{os.getpid()}/environ".encode()).kind is ErrorKind.SandboxBlocked
            assert failure(own, "write_file", str(tmp_path / "new").encode()).kind is ErrorKind.SandboxBlocked


@pytest.mark.skipif(not CONFINED, reason="needs Landlock")
def test_a_child_reads_what_its_own_page_uploaded_and_neither_another_s_nor_what_is_shared(monkeypatch, tmp_path):
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(visitors, "UPLOADS", kept := visitors.VisitorUploads())
    vocabulary = b'{"version":"1.0","model":{"type":"WordLevel","vocab":{"tide":0,"?":1},"unk_token":"?"}}'
    shares.share_keep({"session": "a" * 32, "state": '{"schema":"page-state/1","secret":1}'})
    (share,) = (tmp_path / "cache" / "shares").iterdir()
    a, b = Caller("page-a", "1.1.1.1"), Caller("page-b", "2.2.2.2")

    def read(path, who) -> bytes:
        with asked_by(who):
            readable = service.readable()
        return running.call("read_file", str(path).encode(), session=f"{who.owner}-child", readable=readable)

    with start(warm=None) as running:
        monkeypatch.setattr(service, "_sandbox", running)
        places = {}
        for who in (a, b):
            with pytest.raises(InspectorError):
                read(share, who)  # the child is there, and warm, before its page uploads anything
            with asked_by(who):
                (file,) = resolve_tokenizer(store_upload({"tokenizer.json": vocabulary}), local=False).files
                places[who] = Path(file.path)
        for who, other in ((a, b), (b, a)):
            assert read(places[who], who) == vocabulary
            for path in (places[other], share, places[other].parents[2], tmp_path / "cache"):
                with pytest.raises(InspectorError) as caught:
                    read(path, who)
                assert caught.value.kind is ErrorKind.SandboxBlocked, path
        with asked_by(a):  # the same of a real job that names the other page's files
            artifact = resolve_tokenizer(store_upload({"tokenizer.json": vocabulary}), local=False)
            assert service.call_child("encode_text", (artifact, "tide"), "page-a") == {"ids": [0], "error": None}
        with asked_by(b):
            answer = service.call_child("encode_text", (artifact, "tide"), "page-b")
        assert answer["ids"] == [] and "Permission denied" in answer["error"]["message"]
        assert "listing what visitors uploaded or share" in running.status()["refused"]
        kept.forget("page-a")
        kept.forget("page-b")
        assert [path.name for path in (tmp_path / "cache" / "uploads").glob("*/*")] == ["lock"]
    kept.close()


@pytest.mark.parametrize("machine", confinement._MACHINES)
def test_the_filter_of_system_calls_can_be_assembled_for_every_machine(machine):
    rows = confinement._filter(machine, 1)
    assert len(rows) < 4096  # the kernel's bound
    assert all(0 <= jump < len(rows) - at for at, (_code, yes, no, _operand) in enumerate(rows) for jump in (yes, no))
    assert rows[-1] == (confinement._RETURN, 0, 0, confinement._ERRNO | confinement._EPERM)


def test_open_files_are_bounded(sandbox):
    assert int(sandbox.call("open_files", b"")) < LIMITS.max_files


def test_the_documented_limits_are_ordered():
    assert PUBLIC.cpu_s == 2 and PUBLIC.wall_s == 4 and PUBLIC.memory_mb == 1024
    assert LOCAL.cpu_s >= 10 * PUBLIC.cpu_s and LOCAL.memory_mb >= 4096


# -------------------------------------------------------------------------------------------------------- sessions


def test_a_session_keeps_its_child_and_shares_it_with_nobody(sandbox):
    assert sandbox.call("remember", b"a1", session="a") == b"a1"
    assert sandbox.call("remember", b"b1", session="b") == b"b1"
    assert sandbox.call("remember", b"a2", session="a") == b"a1,a2"
    assert sandbox.call("remember", b"x") == b"x"
    assert sandbox.call("pid", b"", session="a") != sandbox.call("pid", b"", session="b")
    sandbox.end_session("a")
    assert sandbox.call("remember", b"a3", session="a") == b"a3"


def test_a_warm_child_gets_its_cpu_time_anew_for_each_request():
    with start(replace(LIMITS, cpu_s=1), warm=None) as sandbox:
        used = [float(sandbox.call("burn", b"0.7", session="s")) for _ in range(4)]
        assert used[-1] > 2.5, used  # one child has used more than the limit of one request
        first = sandbox.call("pid", b"", session="s")
        assert failure(sandbox, "spin", session="s").kind is ErrorKind.TimeLimit
        assert sandbox.call("pid", b"", session="s") != first  # recycled after a limit


def test_a_session_s_child_is_recycled_after_its_calls_and_when_idle():
    with start(replace(LIMITS, max_calls=3, idle_s=0.4)) as sandbox:
        pids = [sandbox.call("pid", b"", session="s") for _ in range(6)]
        assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4] == pids[5]
        assert wait_until(lambda: gone(int(pids[5])), 5)
        assert sandbox.status()["sessions"] == 0


def test_the_least_recently_used_session_gives_up_its_child():
    with start(replace(LIMITS, children=2)) as sandbox:
        first = sandbox.call("pid", b"", session="a")
        second = sandbox.call("pid", b"", session="b")
        assert sandbox.call("pid", b"", session="a") == first
        sandbox.call("pid", b"", session="c")
        assert sandbox.status()["children"] <= 2
        assert sandbox.call("pid", b"", session="b") != second


def test_a_dead_warm_child_is_replaced_before_the_next_request(sandbox):
    victim = int(sandbox.call("pid", b"", session="dead"))
    os.kill(victim, signal.SIGKILL)
    assert wait_until(lambda: gone(victim))
    assert int(sandbox.call("pid", b"", session="dead")) != victim


def test_a_child_that_ends_before_it_began_the_job_costs_no_answer_and_a_job_never_runs_twice(sandbox):
    victim = int(sandbox.call("pid", b"", session="idle"))
    os.kill(victim, signal.SIGSTOP)  # alive to every check, and it reads no request
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sandbox.call, "pid", b"", session="idle")
        assert wait_until(lambda: not sandbox._sessions["idle"].child.hung_up() and sandbox._sessions["idle"].busy)
        time.sleep(0.1)
        os.kill(victim, signal.SIGKILL)
        assert int(answer.result(10)) != victim
    assert sandbox.call("remember", b"first", session="begun") == b"first"
    assert "SIGKILL" in failure(sandbox, "kill_self", session="begun").message
    assert sandbox.call("remember", b"again", session="begun") == b"again"


def test_of_waiting_superseding_calls_only_the_newest_runs(sandbox):
    sandbox.call("remember", b"start", session="typing")
    outcomes: dict[int, object] = {}

    def type_key(number: int) -> None:
        job, payload = ("sleep", b"0.6") if number == 0 else ("remember", str(number).encode())
        try:
            outcomes[number] = sandbox.call(job, payload, session="typing", supersede=True)
        except CallCancelled as cancelled:
            outcomes[number] = cancelled

    threads = [threading.Thread(target=type_key, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert outcomes[0] == b"slept"  # it ran already: killing it would lose the caches
    assert isinstance(outcomes[1], CallCancelled) and isinstance(outcomes[2], CallCancelled)
    assert outcomes[3] == b"start,3"


def test_a_superseded_call_that_runs_on_too_long_is_killed():
    with start(replace(LIMITS, supersede_after_s=0.3)) as sandbox:
        sandbox.wait_ready()
        with ThreadPoolExecutor(2) as pool:
            old = pool.submit(sandbox.call, "sleep", b"8", session="s", supersede=True)
            time.sleep(0.3)
            began = time.monotonic()
            assert pool.submit(sandbox.call, "echo", b"new", session="s", supersede=True).result() == b"new"
            assert time.monotonic() - began < 4
            with pytest.raises(CallCancelled):
                old.result()


def test_a_running_call_can_be_cancelled(sandbox):
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(CallCancelled):
        sandbox.call("sleep", b"8", cancel=cancel)
    assert time.monotonic() - began < 4


# ----------------------------------------------------------------------------------------------------- concurrency


def test_eight_threads_get_their_own_answers_beside_bombs(sandbox):
    def work(number: int) -> bool:
        payload = str(number).encode() * 1000
        if number % 6 == 5:
            with pytest.raises(InspectorError) as caught:
                sandbox.call("segfault" if number % 12 == 5 else "fill_memory_slowly", b"")
            return caught.value.kind in (ErrorKind.WorkerCrashed, ErrorKind.MemoryLimit)
        return sandbox.call("echo", payload, session=f"s{number % 3}" if number % 2 else None) == payload

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(96)))


def test_more_callers_than_children_wait_their_turn():
    with start(replace(LIMITS, children=2)) as sandbox, ThreadPoolExecutor(8) as pool:
        sandbox.wait_ready()
        answers = list(pool.map(lambda number: sandbox.call("echo", b"%d" % number), range(40)))
        assert answers == [b"%d" % number for number in range(40)]
        busy = [pool.submit(sandbox.call, "sleep", b"3", wall_s=6) for _ in range(2)]
        time.sleep(0.3)
        sandbox.limits = replace(sandbox.limits, wall_s=0.5)
        with pytest.raises(InspectorError) as caught:
            sandbox.call("echo", b"x")
        assert caught.value.where == {"limit": "children"} and "2 children" in caught.value.message
        assert [future.result() for future in busy] == [b"slept", b"slept"]


# ---------------------------------------------------------------------------------------------------- no leftovers


def test_two_hundred_calls_leave_no_zombie_no_child_and_no_descriptor(sandbox):
    zygote = sandbox._zygote.process.pid
    sandbox.call("echo", b"")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(200):
        if number % 20 == 19:
            with pytest.raises(InspectorError):
                sandbox.call("abort", b"")
        else:
            sandbox.call("echo", b"x")
    assert len(os.listdir("/proc/self/fd")) == before
    warm = sandbox.status()["sessions"]
    assert wait_until(lambda: len(children_of(zygote)) == warm), children_of(zygote)
    assert not [pid for pid, state in children_of(zygote) if state == "Z"]


def test_no_job_forks_and_where_one_can_what_it_forked_is_killed_with_it(sandbox):
    if CONFINED:
        assert failure(sandbox, "fork_sleeper").kind is ErrorKind.SandboxBlocked
        return
    grandchild = int(sandbox.call("fork_sleeper", b""))
    assert wait_until(lambda: gone(grandchild))


def test_a_killed_zygote_takes_its_children_along_and_the_next_call_works():
    with start() as sandbox:
        child = int(sandbox.call("pid", b"", session="s"))
        os.kill(sandbox._zygote.process.pid, signal.SIGKILL)
        assert sandbox.call("echo", b"again") == b"again"
        assert wait_until(lambda: gone(child))
        assert int(sandbox.call("pid", b"", session="s")) != child
        assert sandbox.restarts == 1


def test_a_zygote_killed_during_a_request_gives_a_typed_error():
    with start() as sandbox, ThreadPoolExecutor(1) as pool:
        sandbox.wait_ready()
        running = pool.submit(sandbox.call, "sleep", b"8")
        time.sleep(0.3)
        os.kill(sandbox._zygote.process.pid, signal.SIGKILL)
        with pytest.raises(InspectorError) as caught:
            running.result(5)
        assert caught.value.kind is ErrorKind.WorkerCrashed
        assert sandbox.call("echo", b"again") == b"again"


def test_a_zygote_that_hangs_is_replaced_in_bounded_time_and_the_call_answered(monkeypatch):
    monkeypatch.setattr(sandbox_module, "FORK_S", 1.0)
    monkeypatch.setattr(sandbox_module, "REAP_S", 1.0)
    with start(warm=None) as sandbox:
        warm = sandbox.call("pid", b"", session="warm")
        hung = sandbox._zygote.process.pid
        os.kill(hung, signal.SIGSTOP)
        assert sandbox.call("pid", b"", session="warm") == warm  # it needs no zygote
        began = time.monotonic()
        assert sandbox.call("echo", b"again") == b"again"
        assert time.monotonic() - began < 15
        assert wait_until(lambda: gone(hung) and gone(int(warm)))
        status = sandbox.status()
        assert (status["running"], status["restarts"], status["error"]) == (True, 1, None)


def test_a_zygote_that_does_not_answer_is_told_and_left_to_come_back(monkeypatch):
    monkeypatch.setattr(sandbox_module, "PING_S", 0.4)
    with start(warm=None) as sandbox:
        assert sandbox.status()["running"]
        zygote = sandbox._zygote.process.pid
        os.kill(zygote, signal.SIGSTOP)
        for _ in range(3):
            began = time.monotonic()
            status = sandbox.status()
            assert time.monotonic() - began < 3
            assert not status["running"] and "has not answered" in status["error"]
        os.kill(zygote, signal.SIGCONT)
        assert wait_until(lambda: sandbox.status()["running"])
        assert sandbox.status()["error"] is None
        child = sandbox.call("pid", b"", session="s")
        os.kill(int(child), signal.SIGKILL)  # its report is not taken for an answer to a ping
        assert sandbox.call("pid", b"", session="s") != child
        assert (sandbox._zygote.process.pid, sandbox.restarts) == (zygote, 0)


def test_a_zygote_killed_under_load_loses_no_call_and_leaves_nothing():
    outcomes: list[str] = []
    done = threading.Event()

    def work(sandbox: Sandbox, number: int) -> None:
        while not done.is_set():
            payload = os.urandom(2000)
            try:
                right = sandbox.call("echo", payload, session=f"s{number}" if number % 2 else None) == payload
                outcomes.append("right" if right else "wrong")
            except InspectorError as error:
                outcomes.append(error.kind.name)

    with start(warm=None) as sandbox, ThreadPoolExecutor(6) as pool:
        sandbox.wait_ready()
        running = [pool.submit(work, sandbox, number) for number in range(6)]
        zygotes = []
        for _ in range(2):
            time.sleep(0.5)
            zygotes.append(sandbox._zygote.process.pid)
            os.kill(zygotes[-1], signal.SIGKILL)
            assert wait_until(lambda: sandbox.restarts >= len(zygotes))
            assert sandbox.call("echo", b"again") == b"again"
        done.set()
        for future in running:
            future.result(20)
        assert set(outcomes) <= {"right", "WorkerCrashed"} and outcomes.count("right") > 20, outcomes
        assert sandbox.restarts == 2 and sandbox.status()["running"]
        assert not [pid for pid, state in children_of(os.getpid()) if state == "Z" and pid in zygotes]
        warm = sandbox.status()["sessions"]
        assert wait_until(lambda: len(children_of(sandbox._zygote.process.pid)) == warm)


def test_close_ends_every_process():
    sandbox = start()
    child = int(sandbox.call("pid", b"", session="s"))
    zygote = sandbox._zygote.process.pid
    sandbox.close()
    sandbox.close()
    assert wait_until(lambda: gone(child) and gone(zygote))
    with pytest.raises(RuntimeError):
        sandbox.call("echo", b"")


def test_a_zygote_that_cannot_start_is_an_error_not_a_hang(capfd):
    with Sandbox.start(LIMITS, preload=("no_such_module_here",)) as sandbox, pytest.raises(InspectorError) as caught:
        sandbox.call("echo", b"")
    assert caught.value.kind is ErrorKind.WorkerCrashed and "cannot start" in caught.value.message
    assert "no_such_module_here" in capfd.readouterr().err


CALLER = """
import sys, threading, time
from dataclasses import replace
import test_sandbox
sandbox = test_sandbox.start(replace(test_sandbox.LIMITS, cpu_s=60, wall_s=60))
idle = sandbox.call("pid", b"", session="idle").decode()
spinner = sandbox.call("pid", b"", session="busy").decode()
threading.Thread(target=sandbox.call, args=("spin", b""), kwargs={"session": "busy"}, daemon=True).start()
time.sleep(0.3)
print(sandbox._zygote.process.pid, idle, spinner, flush=True)
time.sleep(60)
"""


def test_when_the_caller_is_killed_nothing_of_it_runs_on():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    caller = subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, env=environment, text=True)
    assert caller.stdout is not None
    pids = [int(word) for word in caller.stdout.readline().split()]
    assert len(pids) == 3 and not any(gone(pid) for pid in pids)
    caller.kill()
    caller.wait()
    caller.stdout.close()
    assert wait_until(lambda: all(gone(pid) for pid in pids)), [(pid, gone(pid)) for pid in pids]
