"""Every example of the gallery shows what its title says: proved on what the pipeline really gives for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from inspector.comparison import compare_inspections
from inspector.encode import TokenFlag
from inspector.job import Fields, Job, make_options, prepare
from inspector.pipeline import Inspection, run
from inspector.presets import tokenizers
from inspector.render import SegmentKind
from inspector.tensors import PaddingSide
from inspector.training.batch import pad_batch
from inspector.training.labels import AlarmKind, make_labels
from inspector.training.runs import prefix
from inspector.ui.examples import EXAMPLES, TOPICS, Example
from inspector.ui.layout import choices
from inspector.ui.serve import whole_number
from inspector.ui.strings import STRINGS
from inspector.ui.views import VIEWS

BY_ID = {example.id: example for example in EXAMPLES}
RESTING = {"messages": "[]", "tools": "", "documents": "", "arguments": ""}
Sides = tuple[Inspection, Inspection]


def inspections(example: Example) -> Sides:
    """Run an example as the page does."""
    given = {name: value for name, value in example.options.items() if name != "training"}  # of a view, of no run
    numbers = {name: whole_number(name, given.pop(name, "")) for name in ("context_window", "max_new_tokens")}
    options = {**given, **numbers, "max_new_tokens": numbers["max_new_tokens"] or 0}
    fields = Fields(**{**RESTING, **example.fields})
    sides = [
        run(prepare(fields, make_options(tokenizer=p.tokenizer, template=p.template or None, template_text=p.template_text, **options)))
        for p in example.panes
    ]  # fmt: skip
    for side in sides:
        assert side.error is None, (example.id, side.error)
    return sides[0], sides[1]


def text(side: Inspection) -> str:
    return side.rendered.text


def ids(side: Inspection) -> list[int]:
    return side.encoding.input_ids.tolist()


def flagged(side: Inspection, flag: TokenFlag) -> int:
    return int(((side.encoding.flags & flag) != 0).sum())


def has_clock(side: Inspection) -> bool:
    return bool((side.rendered.segments.kind == SegmentKind.CLOCK).any())


def bytes_per_token(side: Inspection) -> float:
    return len(side.rendered.utf8) / len(side.encoding)


def forged_turn(a: Inspection, b: Inspection) -> bool:
    return flagged(a, TokenFlag.FROM_CONTENT) == 2 and flagged(b, TokenFlag.FROM_CONTENT) == 0 and text(a) == text(b)


def look_alike(a: Inspection, b: Inspection) -> bool:
    return all(flagged(s, TokenFlag.LOOK_ALIKE) > 1 and flagged(s, TokenFlag.FROM_CONTENT) == 0 for s in (a, b))


def double_bos(a: Inspection, b: Inspection) -> bool:
    bos = a.tokenizer.special_tokens["bos_token"]
    return text(a).startswith(bos * 2) and ids(a)[0] == ids(a)[1] == ids(b)[0] != ids(b)[1]


def default_system(a: Inspection, b: Inspection) -> bool:
    return "system\nYou are" in text(a) and "system" not in text(b)


def system_moves(a: Inspection, b: Inspection) -> bool:
    rule, first, last = "one word", "France", "Italy"
    order_a, order_b = ([text(side).index(part) for part in (rule, first, last)] for side in (a, b))
    return order_a[0] < order_a[1] < order_a[2] and order_b[1] < order_b[0] < order_b[2]


def content_lost(a: Inspection, b: Inspection) -> bool:
    return "France" not in text(a) and "one word" not in text(a) and "France" in text(b)


def no_generation_prompt(a: Inspection, b: Inspection) -> bool:
    return flagged(a, TokenFlag.GENERATION_PROMPT) == 0 and text(a).endswith("<|im_end|>\n") and text(b).endswith("assistant\n")  # fmt: skip


def date_drift(a: Inspection, b: Inspection) -> bool:
    return has_clock(a) and a.clock.strftime("%d %b %Y") in text(a) and not has_clock(b) and "Jul 2024" in text(b)


def two_revisions(a: Inspection, b: Inspection) -> bool:
    same = a.template.id == b.template.id and a.template.digest != b.template.digest
    return same and text(a).endswith("<think>\n") and rests(a, b) == ("", "</think>")


def rests(a: Inspection, b: Inspection) -> tuple[str, str]:
    """What each side writes from the first difference on, as the page's comparison finds it."""
    found = compare_inspections(a, b).first_difference
    assert found is not None and found.byte is not None
    return a.rendered.utf8[found.byte :].decode(), b.rendered.utf8[found.byte :].decode()


def trimmed(a: Inspection, b: Inspection) -> bool:
    typed = json.loads(BY_ID["trimmed"].fields["messages"])[0]["content"]
    lost = typed not in text(a) and typed.strip() in text(a) and typed in text(b)
    rest_a, rest_b = rests(a, b)
    return lost and rest_a.startswith(typed.strip()) and rest_b.startswith(typed)


def thinking_stripped(a: Inspection, b: Inspection) -> bool:
    return "<think>" not in text(a) and "91 = 7 × 13\n</think>" in text(b) and "No: 91" in text(a)


def argument_ignored(a: Inspection, b: Inspection) -> bool:
    return text(a).endswith("<think>\n\n</think>\n\n") and "<think>" not in text(b)


def training_mask(a: Inspection, b: Inspection) -> bool:
    masks = a.encoding.assistant_mask_from, b.encoding.assistant_mask_from
    return masks == ("provenance", "generation") and 0 < a.encoding.assistant_mask.sum() < b.encoding.assistant_mask.sum()  # fmt: skip


def arguments_doubled(a: Inspection, b: Inspection) -> bool:
    return '"arguments": "{\\"city\\": \\"Paris\\"}"' in text(a) and '"arguments": {"city": "Paris"}' in text(b)


def tools_ignored(a: Inspection, b: Inspection) -> bool:
    return "get_weather" not in text(a) and "get_weather" in text(b)


def tool_json(a: Inspection, b: Inspection) -> bool:
    order = text(a).index('"type"') < text(a).index('"function"'), text(b).index('"function"') < text(b).index('"type"')
    return all(order) and "天气" in text(a) and "\\u5929\\u6c14" in text(b) and len(ids(b)) > len(ids(a))


def tool_pair_cut(a: Inspection, b: Inspection) -> bool:
    dropped, cut = [part["path"] for part in a.budget.to_dict()["dropped"]], b.budget.to_dict()["cut"]
    kept = all("messages[3]" in side.budget.to_dict()["kept"] for side in (a, b))
    return kept and "messages[2]" in dropped and [part["path"] for part in cut] == ["messages[2]"]


def split_emoji(a: Inspection, b: Inspection) -> bool:
    return flagged(a, TokenFlag.PARTIAL_CHAR) > flagged(b, TokenFlag.PARTIAL_CHAR) > 4


def same_text_other_ids(a: Inspection, b: Inspection) -> bool:
    return text(a) == text(b) and ids(a) != ids(b) and len(ids(a)) < len(ids(b))


def right_padding(a: Inspection, b: Inspection) -> bool:
    batch = pad_batch([ids(a), ids(b)], 2, padding_side=PaddingSide.RIGHT, eos_id=2)
    return batch.to_dict()["last_column_is_padding"] == [True, False] and batch.pad_is_eos


def mask_empty(a: Inspection, b: Inspection) -> bool:
    made = [make_labels(s.encoding, s.conversation.messages, generation_tag_only=True) for s in (a, b)]
    kinds = {alarm.kind for alarm in made[0].alarms}
    return made[0].num_trained == 0 < made[1].num_trained and AlarmKind.ALL_MASKED in kinds and not made[1].alarms


def prefix_broken(a: Inspection, b: Inspection) -> bool:
    tables = [prefix(job_of(side), 16, "", "none")["steps"] for side in (a, b)]
    asked = [step["is_prefix"] for steps in tables for step in steps[:-1]]
    return asked == [True, False, True, True, True, True]


def job_of(side: Inspection) -> Job:
    example = BY_ID["prefix_broken"]
    pane = next(pane for pane in example.panes if pane.template == side.options.template)
    fields = Fields(**{**RESTING, **example.fields})
    return prepare(fields, make_options(tokenizer=pane.tokenizer, template=pane.template))


def chinese_cost(a: Inspection, b: Inspection) -> bool:
    return text(a) == text(b) and 1.4 * bytes_per_token(a) < bytes_per_token(b)


CHECKS: dict[str, Callable[[Inspection, Inspection], bool]] = {
    check.__name__: check
    for check in (
        forged_turn, look_alike, double_bos, default_system, system_moves, content_lost, no_generation_prompt,
        date_drift, two_revisions, trimmed, thinking_stripped, argument_ignored, training_mask, arguments_doubled,
        tools_ignored, tool_json, tool_pair_cut, split_emoji, same_text_other_ids, chinese_cost, right_padding,
        mask_empty, prefix_broken,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BY_ID))
def test_the_situation_of_the_example_really_occurs(name: str) -> None:
    a, b = inspections(BY_ID[name])
    assert CHECKS[name](a, b), (text(a), ids(a), text(b), ids(b))


def test_every_text_that_speaks_of_the_first_difference_has_it_proved() -> None:
    speaking = {name for name in BY_ID if "first difference" in STRINGS["en"][f"ex_{name}_text"].lower()}
    assert speaking == {"trimmed", "two_revisions"}  # `rests` of both is held to what the text says


def test_every_example_names_what_exists_and_says_two_sentences_in_both_languages() -> None:
    refs = {entry["ref"] for entry in choices()["templates"]}
    assert set(CHECKS) == set(BY_ID) and len(EXAMPLES) == len(BY_ID) >= 14
    assert {example.view for example in EXAMPLES} <= {view.id for view in VIEWS}
    for example in EXAMPLES:
        assert example.topic in TOPICS and len(example.panes) >= 2
        assert {pane.tokenizer for pane in example.panes} <= set(tokenizers())
        assert all(pane.template in refs for pane in example.panes if pane.template_text is None)
        for language, stop in (("en", r"\.( |$)"), ("zh", "。")):
            said = STRINGS[language][f"ex_{example.id}_text"]
            assert STRINGS[language][f"ex_{example.id}"] and len(re.findall(stop, said)) == 2, (language, said)
