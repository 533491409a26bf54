"""The rules on real templates: the table of docs/rules.md is so, and errors on plain chats have a reason."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from inspector.lint import RULES
from tests.lint_corpus import BEGIN, CHATS, END, PAGE, check, count, table, templates, written

# What an error on a plain chat may be about: the template drops or refuses something, names what nobody passes, or uses
# what transformers refuses. Anything else of severity error is a false alarm.
ACCEPTED = {
    "double-bos", "message-dropped", "render-failed", "role-refused", "roles-must-alternate", "special-name-missing", "namespace-underscore",
    "assistant-mask-empty", "generation-mask-shifted", "control-literal-split", "content-wants-parts", "needs-tools",
}  # fmt: skip


def test_the_table_lists_exactly_the_rules_in_their_order() -> None:
    stated = PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0].strip()
    assert stated == table(written(), len(templates())), "run python -m tests.lint_corpus"
    assert list(written()) == [rule.id for rule in RULES]


def test_on_a_sample_of_real_templates_errors_have_a_reason_and_the_table_counts_what_fires() -> None:
    stated = written()
    sample = random.Random(20260131).sample(templates(), 12)
    with tempfile.TemporaryDirectory() as work:
        for at, (name, text) in enumerate(sample):
            for chat, _inspection, finding in check(text, Path(work, str(at)), ["system and turns"]):
                assert finding.severity != "error" or finding.rule in ACCEPTED, (name, chat, finding)
                assert stated.get(finding.rule, 0) > 0, (name, chat, finding)


@pytest.mark.full
def test_on_all_real_templates_the_counts_are_those_of_the_table() -> None:
    assert len(CHATS) == 3 and {rule: n for rule, n in written().items() if n} == dict(count(templates()))
