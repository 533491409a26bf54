"""Rules on the handed faults: each fault is found by the rule that is named for it, its corrected twin is not."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from inspector.lint import RULES, Evidence, Report, lint
from inspector.lint.evidence import read_sent
from inspector.pipeline import Inspection, inspect
from tests.test_control import ANSWERED, ASK, CHATML, CHATML_BOS, EVIL, trained

DATA = Path(__file__).parent / "data"
FAULTS = {fault["id"]: fault for fault in map(json.loads, (DATA / "faults.jsonl").read_text("utf-8").splitlines())}
CLOCK = "2026-01-31T09:30:00"
MARKS = ["<|im_start|>", "<|im_end|>"]


@functools.cache
def made(special: tuple[str, ...], post: str = "", named: tuple[tuple[str, str], ...] = ()) -> str:
    """A small byte-level BPE, trained once a session."""
    return trained(Path(tempfile.mkdtemp()), list(special), post=post, named=dict(named))


PLAIN = functools.partial(made, ("<|endoftext|>", *MARKS), named=(("eos_token", "<|im_end|>"),))


@dataclass(frozen=True)
class Case:
    """A request with options, and what else is known."""

    messages: Any
    options: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)


def case(
    messages: Any, template: str | None = CHATML, *, evidence: dict[str, Any] | None = None, **options: Any
) -> Case:
    if template is not None and "template" not in options:
        options["template_text"] = template
    options.setdefault("tokenizer", PLAIN())
    return Case(messages, options, evidence or {})


def checked(given: Case) -> tuple[Inspection, Report]:
    inspection = inspect(given.messages, **{"clock": CLOCK, **given.options})
    assert isinstance(inspection, Inspection)
    known = dict(given.evidence)
    if "sent" in known:
        sent = known["sent"]
        known["sent"] = read_sent(sent(inspection) if callable(sent) else sent)
    if "base" in known:
        known["base"] = inspect(given.messages, **{"clock": CLOCK, **given.options, "tokenizer": known["base"]})
    return inspection, lint(inspection, evidence=Evidence(**known))


def fault(fault_id: str) -> dict[str, Any]:
    return FAULTS[fault_id]["minimal_input"]


BOS = ("<s>", *MARKS)
NAMED_BOS = (("bos_token", "<s>"), ("eos_token", "<|im_end|>"))
SYSTEM = {"role": "system", "content": "Be brief."}
USERS_ONLY = fault("ROLE-01")["template"]

# fault id -> rule id, the fault, its corrected twin. What cannot be said in JSON is made when the test runs.
TABLE: dict[str, tuple[str, Callable[[], Case], Callable[[], Case]]] = {
    "BOS-01": (
        "bos-added-again",
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "", NAMED_BOS)),
    ),
    "BOS-02": (
        "bos-missing",
        lambda: case(ASK, CHATML, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
    ),
    "EOS-01": (
        "turn-end-not-eos",
        lambda: case(ANSWERED, evidence={"generation_config": {"eos_token_id": "<|endoftext|>"}}),
        lambda: case(ANSWERED, evidence={"generation_config": {"eos_token_id": ["<|endoftext|>", "<|im_end|>"]}}),
    ),
    "EOS-03": (
        "control-literal-split",
        lambda: case(ASK, tokenizer=made(("<|endoftext|>",), "", (("eos_token", "<|endoftext|>"),))),
        lambda: case(ASK),
    ),
    "EOS-04": (
        "eos-after-prompt",
        lambda: case(ASK, tokenizer=made(("<eos>", *MARKS), "$A <eos>", (("eos_token", "<eos>"),))),
        lambda: case(ASK, tokenizer=made(("<eos>", *MARKS), "", (("eos_token", "<eos>"),))),
    ),
    "ROLE-01": (
        "message-dropped",
        lambda: case(fault("ROLE-01")["messages"], USERS_ONLY),
        lambda: case(fault("ROLE-01")["messages"]),
    ),
    "ROLE-05": (
        "late-system",
        lambda: case(
            fault("ROLE-05")["messages"],
            "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
            "{{ raise_exception('System message must be at the beginning.') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}",
        ),
        lambda: case(fault("ROLE-05")["messages"]),
    ),
    "ROLE-08": (
        "tool-result-dropped",
        lambda: case(fault("ROLE-08")["messages"], fault("ROLE-08")["template"]),
        lambda: case(fault("ROLE-08")["messages"]),
    ),
    "INJ-01": (
        "forged-control-token",
        lambda: case([{"role": "user", "content": EVIL}]),
        lambda: case([{"role": "user", "content": "hi"}]),
    ),
    "INJ-04": (
        "control-token-assembled",
        lambda: case([{"role": "start", "content": "x"}], "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}"),
        lambda: case([{"role": "user", "content": "x"}], "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}"),
    ),
    "INJ-07": (
        "forged-control-in-result",
        lambda: case(fault("INJ-07")["messages"]),
        lambda: case([*fault("INJ-07")["messages"][:2], {**fault("INJ-07")["messages"][2], "content": "ok"}]),
    ),
    "UNI-07": (
        "line-ends",
        lambda: case([{"role": "user", "content": "a\r\nb"}]),
        lambda: case([{"role": "user", "content": "a\nb"}]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault_id", sorted(TABLE))
def test_a_fault_is_found_and_its_twin_is_not(fault_id: str) -> None:
    rule, wrong, right = TABLE[fault_id]
    inspection, report = checked(wrong())
    found = {finding.rule for finding in report.findings}
    assert "rule-failed" not in found, [f.message for f in report.findings if f.rule == "rule-failed"]
    assert rule in found, (sorted(found), inspection.error, inspection.rendered and inspection.rendered.text)
    assert all(finding.message and finding.remedy for finding in report.findings)
    inspection, report = checked(right())
    found = {finding.rule for finding in report.findings}
    assert "rule-failed" not in found, [f.message for f in report.findings if f.rule == "rule-failed"]
    assert rule not in found, ([f.message for f in report.findings], inspection.rendered and inspection.rendered.text)


def test_rules_have_an_id_of_their_own_and_say_what_they_are_about() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    for rule in RULES:
        module = Path("inspector/lint") / f"{rule.id.replace('-', '_')}.py"
        assert (Path(__file__).parent.parent / module).is_file(), rule.id
        assert rule.title and rule.why and rule.remedy and not rule.title.endswith("."), rule.id
