"""Probes answer yes, no or failed, once each and in bounded time; the card and the facts are what the templates do."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from inspector.engines.bare import UndefinedUse
from inspector.lint import LIVE, RULES, Rule, Subject, lint, live_findings
from inspector.lint.capabilities import ROWS
from inspector.lint.probes import Answer, Probes
from inspector.lint.report import MAX_OF_A_RULE, run_rules
from inspector.pipeline import Inspection, inspect
from inspector.templatefacts import TemplateFacts, template_facts
from tests.test_control import ASK, CHATML

SLOW = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def run(template: str, messages: Any = ASK, **options: Any) -> Inspection:
    result = inspect(messages, tokenizer="bytes", template_text=template, clock="2026-01-31T09:30:00", **options)
    assert isinstance(result, Inspection)
    return result


def test_a_probe_is_rendered_once_and_says_yes_no_or_why_it_failed() -> None:
    template = "{% if messages | length > 1 %}{{ raise_exception('one only') }}{% endif %}{{ messages[0].content }}"
    probes = Probes(run(template))
    assert probes.as_given() is probes.as_given() and probes.as_given().text == "When is high tide?"
    refused = probes.outcome("two", messages=[*probes.messages(), *probes.messages()])
    assert refused.rendered is None and refused.refused and refused.reason == "one only"
    spent = Probes(run(template), all_s=0)
    late = spent.as_given()
    assert late.rendered is None and not late.refused and "used up" in late.why
    assert [(row.name, row.answer) for row in probes.rows()] == [("as given", Answer.YES), ("two", Answer.NO)]
    assert [row.answer for row in spent.rows()] == [Answer.FAILED]


def test_a_probe_that_does_not_end_is_interrupted_and_the_others_go_on() -> None:
    probes = Probes(run("{% if tools %}" + SLOW + "{% endif %}{{ messages[0].content }}"), probe_s=0.3)
    began = time.monotonic()
    stuck = probes.outcome("with tools", tools=[{"name": "x"}])
    assert stuck.rendered is None and stuck.why == "it took longer than 0.3 s" and time.monotonic() - began < 5
    assert probes.as_given().rendered is not None


def test_probes_run_in_other_threads_too_where_no_signal_can_interrupt_them() -> None:
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.append(Probes(run(CHATML)).as_given().text))
    worker.start()
    worker.join()
    assert found and found[0].startswith("<|im_start|>user")


def test_undefined_values_are_listed_with_their_line_and_owner() -> None:
    probes = Probes(
        run("{{ messages[0].content }}\n{{ messages[0].contents }}{% if nothing %}x{% endif %}\n{{ gone }}")
    )
    assert probes.undefined_uses() == [UndefinedUse("contents", "dict", 2), UndefinedUse("gone", None, 3)]


def test_bare_renderings_differ_from_the_reference_only_in_what_is_asked_for() -> None:
    probes = Probes(run("{{ {'b': '<', 'a': 'é'} | tojson }}{{ add_generation_prompt }}{{ messages[0].content }}\n"))
    ours = probes.as_given().text
    assert probes.bare("as it is") == ours == '{"b": "<", "a": "é"}TrueWhen is high tide?'
    assert probes.bare("plain", plain_jinja=True) == '{"a": "\\u00e9", "b": "\\u003c"}TrueWhen is high tide?'
    assert probes.bare("left out", omit=("add_generation_prompt",)) == '{"b": "<", "a": "é"}When is high tide?'
    assert probes.bare("kept", keep_trailing_newline=True) == f"{ours}\n"
    assert probes.bare("broken", messages=[]) is None and "UndefinedError" in probes.why("broken")


def test_the_reasons_for_silence_are_in_the_findings_and_nothing_silenced_counts() -> None:
    inspection = run("{{ true }}")
    heard = lint(inspection)
    silenced = lint(inspection, ignore={"python-spelling": "the page shows it so", "message-dropped": "a test"})
    assert heard.counts()["error"] == 1 and silenced.counts()["error"] == 0
    reasons = {finding.rule: finding.silenced for finding in silenced.findings}
    assert reasons["python-spelling"] == "the page shows it so" and reasons["message-dropped"] == "a test"
    chat = {"messages": ASK, "lint": {"ignore": {"message-dropped": "said in the request"}}}
    assert lint(run("{{ true }}", chat)).counts()["error"] == 0
    for wrong in ({"no-such-rule": "x"}, {"message-dropped": " "}):
        with pytest.raises(Exception, match=r"no rule|no reason"):
            lint(inspection, ignore=wrong)


def test_a_refusal_whose_reason_a_probe_found_is_told_once() -> None:
    chat = [{"role": "critic", "content": "x"}, *ASK]
    strict = "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('who?') }}{% endif %}{{ m.content }}{% endfor %}"
    inspection = run(strict, chat)
    assert [finding.rule for finding in inspection.findings] == ["render-failed"]
    assert [f.rule for f in lint(inspection).findings if f.severity == "error"] == ["role-refused"]


def test_a_rule_that_breaks_is_told_and_many_findings_are_one_line() -> None:
    def breaks(_subject: Subject) -> Any:
        raise ZeroDivisionError("on purpose")

    rule = RULES[0]
    copy = Rule("x", rule.topic, rule.severity, "t", "w", "r", breaks)
    many = Rule("y", rule.topic, rule.severity, "t", "w", "r", lambda _s: (many.finding(str(i)) for i in range(99)))
    found = run_rules((copy, many), Subject(run(CHATML)))
    assert found[0].rule == "rule-failed" and "ZeroDivisionError: on purpose" in found[0].message
    assert len(found) == 1 + MAX_OF_A_RULE and found[-1].message.endswith("(and 79 more places)")


def test_live_rules_read_one_inspection_and_probe_nothing() -> None:
    inspection = run(CHATML, [{"role": "user", "content": "a\r\nb"}])
    subject = Subject(inspection)
    run_rules(LIVE, subject)
    assert subject.probes.rows() == ()
    assert [finding.rule for finding in inspection.findings] == [finding.rule for finding in live_findings(inspection)]
    assert "line-ends" in {finding.rule for finding in inspection.findings}


CARDS: dict[str, tuple[str, dict[str, str]]] = {
    "chatml": (CHATML, {
        "system": "yes", "developer": "yes", "tools": "no", "tool_calls": "no", "tool_results": "yes", "parts": "no",
        "reasoning": "no", "generation_marks": "no", "generation_prompt": "yes", "prefill": "yes",
        "prefix_preserving": "yes", "clock": "no", "arguments_read": "none", "unknown_role": "printed",
        "empty_message": "kept as an empty turn", "repeated_system": "printed", "two_users_in_a_row": "printed",
        "separators": "'<|im_end|>\\n<|im_start|>assistant\\n'", "line_ends": "CR LF of content is kept",
        "blanks_around_text": "kept", "date": "none",
    }),
    "strict": (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}"
        "{% if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('role') }}{% endif %}"
        "{% if m.content %}<{{ m.role }}>{{ m.content | trim }}{% endif %}{% if m.reasoning_content %}{{ m.reasoning_content }}{% endif %}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}{{ strftime_now('%d %b %Y') }}{% if think %}<think>{% endif %}",
        {
            "system": "yes", "developer": "no", "tools": "yes", "tool_calls": "yes", "parallel_calls": "yes",
            "call_arguments": "object", "reasoning": "yes", "reasoning_kept_in_history": "yes", "clock": "yes",
            "date": "from the clock", "arguments_read": "think", "unknown_role": "refused", "late_system": "refused",
            "repeated_system": "refused", "empty_message": "dropped", "generation_prompt": "no",
            "prefix_preserving": "no", "tool_field_order": "as given", "escaping": "JSON quotes",
            "blanks_around_text": "trimmed", "absent_fields": "left out",
            "numbers_and_booleans": "10 as 10; 1.0 as 1.0; 1e+22 as 1e+22; 1e-07 as 1e-07; True as true; None as null",
        },
    ),
    "parts": (
        "{% for m in messages %}{% for p in m.content %}{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}"
        "{% generation %}x{% endgeneration %}{% endfor %}",
        {"parts": "yes", "images": "yes", "generation_marks": "yes"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CARDS)
def test_the_card_says_what_the_template_does(name: str) -> None:
    template, expected = CARDS[name]
    card = lint(run(template)).card
    assert [row.name for row in card.rows] == list(ROWS)
    answers = {row.name: row.value if row.value is not None else str(row.answer) for row in card.rows}
    assert {key: answers[key] for key in expected} == expected, [(row.name, row.why) for row in card.rows]


def test_facts_of_a_template_are_what_is_written_in_it() -> None:
    facts = template_facts(
        "{% set ns = namespace(_a=1) %}\n{% if not date is defined %}{% set date = '26 Jul 2024' %}{% endif %}\n"
        "{{ tools | tojson(indent=4) }}{{ none | trim }}{{ true }}{{ x['key'].attr.get('got') }}\n{% break %}"
        "{% set a = y | tojson %}{{ 'q' + a }}"
    )
    assert facts.parsed and {"date", "tools", "x", "y"} <= facts.names
    assert {"key", "attr", "got"} <= facts.fields
    assert facts.private == (("_a", 1),) and facts.null_filters == (3,) and facts.printed == (("True", 3),)
    assert [(d.name, d.value, d.line) for d in facts.defaults] == [("date", "26 Jul 2024", 2)]
    assert facts.json[0].arguments == (("indent", 4),) and facts.tags == (("break", 4),) and facts.concatenated == (4,)
    assert template_facts("{% if") == TemplateFacts(False)
