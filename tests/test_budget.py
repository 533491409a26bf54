"""The budget: required parts are kept or the request is refused, pairs stay whole, the limit always holds."""

from __future__ import annotations

from typing import Any

import pytest

from inspector.budget import make_budget, message_units, required_messages
from inspector.errors import ErrorKind, InspectorError
from inspector.pipeline import Inspection, inspect

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "abcdefghi", "type": "function", "function": {"name": "tide", "arguments": {"port": "Brest"}}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "name": "tide", "content": "3.2 metres"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def fit(messages: list[dict[str, Any]], window: int, **options: Any) -> Inspection:
    options.setdefault("tokenizer", "smollm2")
    options.setdefault("template", "chatml")
    return inspect(messages, context_window=window, clock="2026-01-31T09:30:00", **options)


def full_length(messages: list[dict[str, Any]], **options: Any) -> int:
    return fit(messages, 1_000_000, **options).budget.input_tokens


def test_a_tool_call_and_its_results_are_one_unit_also_when_parallel_or_out_of_order() -> None:
    two = {"role": "assistant", "tool_calls": [{"id": "x"}, {"id": "y"}]}
    messages = [user("q"), two, {"role": "tool", "tool_call_id": "y"}, {"role": "tool", "tool_call_id": "x"}, user("z")]
    assert message_units(messages) == [(0,), (1, 2, 3), (4,)]


def test_a_result_without_an_id_belongs_to_the_call_before_it_and_an_orphan_stands_alone() -> None:
    assert message_units([{"role": "tool"}, {"role": "assistant", "tool_calls": [{}]}, {"role": "tool"}]) == [
        (0,),
        (1, 2),
    ]


def test_required_are_the_leading_instructions_and_everything_from_the_last_user_message() -> None:
    messages = [SYSTEM, user("a"), assistant("b"), user("c"), CALL, RESULT]
    assert required_messages(messages) == {0, 3, 4, 5}


def test_what_fits_is_kept_whole_and_g_is_reserved() -> None:
    messages = [SYSTEM, user("hello"), assistant("hi"), user("bye")]
    length = full_length(messages)
    exact = fit(messages, length + 7, max_new_tokens=7)
    assert exact.error is None and exact.budget.input_tokens == length and not exact.budget.dropped
    tight = fit(messages, length + 6, max_new_tokens=7)
    assert tight.error is None and tight.budget.input_tokens <= length - 1 and tight.budget.dropped


def test_the_oldest_history_goes_first_and_required_parts_stay() -> None:
    messages = [SYSTEM, user("one " * 30), assistant("two " * 30), user("three"), assistant("four"), user("five")]
    result = fit(messages, full_length(messages) - 40)
    paths = [entry.path for entry in result.budget.dropped]
    assert "messages[1]" in paths and not {"messages[0]", "messages[5]"}.intersection(paths)
    assert {*result.budget.kept, *paths} == {f"messages[{index}]" for index in range(6)}
    assert len(result.budget.kept) + len(paths) == 6


def test_what_does_not_fit_is_passed_over_and_the_search_goes_on() -> None:
    messages = [user("small"), assistant("large " * 200), user("last")]
    result = fit(messages, full_length([messages[0], messages[2]]) + 5)
    assert result.budget.kept == ("messages[0]", "messages[2]")
    assert [entry.path for entry in result.budget.dropped] == ["messages[1]"]
    assert result.budget.dropped[0].tokens > 200


def test_a_call_and_its_result_are_dropped_together() -> None:
    messages = [SYSTEM, user("When is high tide?"), CALL, RESULT, user("thanks")]
    for window in range(1, full_length(messages, template=None) + 1):
        result = fit(messages, window, template=None)
        if result.error is None:
            kept = set(result.budget.kept)
            assert ("messages[2]" in kept) == ("messages[3]" in kept)
            assert len(result.encoding) <= window


def test_required_parts_over_the_limit_are_refused_with_both_numbers() -> None:
    result = fit([SYSTEM, user("word " * 100)], 50)
    assert result.error is not None and result.error.kind is ErrorKind.BudgetExceeded
    assert result.budget.required_tokens > 50 and str(result.budget.required_tokens) in result.error.message
    assert result.rendered is not None and result.encoding is not None


def test_a_template_that_demands_alternating_roles_gets_whole_turns() -> None:
    strict = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.content }}]{% endfor %}"
    )
    messages = [user("a " * 50), assistant("b"), user("c"), assistant("d"), user("e")]
    result = fit(messages, 30, template=None, template_text=strict)
    assert result.error is None and result.budget.kept == ("messages[2]", "messages[3]", "messages[4]")


def test_documents_come_after_history_in_the_given_order() -> None:
    request = {"messages": [user("q")], "documents": [{"title": str(n), "text": "word " * 20} for n in range(4)]}
    text = "{% for d in documents %}{{ d.text }}{% endfor %}{{ messages[-1].content }}"
    options = {"tokenizer": "smollm2", "template_text": text}
    whole = inspect(request, context_window=10_000, **options).budget
    some = inspect(request, context_window=whole.input_tokens - 25, **options).budget
    assert whole.kept[-1] == "documents[3]"
    assert some.kept == ("messages[0]", "documents[0]", "documents[1]")


@pytest.mark.parametrize("policy", ["tokens_left", "tokens_right", "tokens_middle"])
def test_token_cuts_keep_exactly_the_limit_and_say_what_lost_tokens(policy: str) -> None:
    messages = [SYSTEM, user("天空为什么是蓝色的 🌶 " * 10), assistant("b " * 10), user("last one")]
    whole = fit(messages, 100_000)
    ids = whole.encoding.input_ids.tolist()
    result = fit(messages, 60, policy=policy)
    kept = result.encoding.input_ids.tolist()
    assert len(kept) == 60 == result.budget.input_tokens
    expected = {"tokens_left": ids[-60:], "tokens_right": ids[:60], "tokens_middle": ids[:30] + ids[-30:]}[policy]
    assert kept == expected
    parts = [*result.budget.kept, *(path for path, _ in result.budget.cut), *(d.path for d in result.budget.dropped)]
    assert sorted(parts) == [f"messages[{index}]" for index in range(4)]
    segments = result.rendered.segments
    assert segments.start[0] == 0 and segments.end[-1] == len(result.rendered.utf8)
    assert (segments.start[1:] == segments.end[:-1]).all()
    assert len(result.inputs.position_ids[0]) == 60


def test_reject_refuses_what_does_not_fit_and_takes_what_does() -> None:
    messages = [user("hello there")]
    length = full_length(messages)
    assert fit(messages, length, policy="reject").error is None
    assert fit(messages, length - 1, policy="reject").error.kind is ErrorKind.BudgetExceeded


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ((0,), "context_window"),
        ((10, 10), "max_new_tokens"),
        ((10, -1), "max_new_tokens"),
        ((10, 0, "newest"), "policy"),
    ],
)
def test_impossible_budgets_name_their_option(arguments: tuple[Any, ...], option: str) -> None:
    with pytest.raises(InspectorError) as caught:
        make_budget(*arguments)
    assert caught.value.kind is ErrorKind.OptionInvalid and caught.value.where == {"option": option}
