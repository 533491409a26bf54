"""The prefix table from growing prompts equals the one that renders and tokenizes every step, and renders few of them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from random_chats import random_request

from inspector.engines.incremental import PlainTemplate
from inspector.engines.jinja2_engine import reference
from inspector.job import make_options, prepare
from inspector.pipeline import Begun, begin
from inspector.training import growing
from inspector.training.growing import growing_prompts
from inspector.training.prefix import prefix_table

CLOCK = "2026-01-31T09:30:00"
PAIRS = [("smollm2", "chatml"), ("qwen3", None), ("llama3", None), ("smollm2", "qwq-32b"), ("gemma3", None),
         ("bytes", None), ("qwen3", "trl-qwen3-5-think"), ("minilm", "raw")]  # fmt: skip


def begun(request: Any, tokenizer: str, template: str | None) -> Begun:
    options = make_options(tokenizer=tokenizer, template=template, clock=CLOCK)
    return begin(prepare(json.dumps(request).encode(), options))


def hold(seed: int, turns: int) -> None:
    """Short and long conversations are told in two ways; both are tried on each."""
    source = random.Random(seed)
    tokenizer, template = source.choice(PAIRS)
    given = begun(random_request(source, turns), tokenizer, template)
    plain = prefix_table(given.conversation, given.assemble).to_dict()
    for short in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(growing, "PLAIN_MESSAGES", short)
            how = growing_prompts(given.call, given.tokenizer)
        told = prefix_table(given.conversation, given.assemble, growing=how)
        assert told.to_dict() == plain, (seed, tokenizer, template, short)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_told_equals_what_is_rendered(seed: int) -> None:
    hold(seed, 5)


PRINTS_AN_OBJECT = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>{{ raise_exception }}"


def test_addresses_that_are_no_part_of_the_text_are_told_as_they_are_rendered() -> None:
    request = [{"role": role, "content": f"word {n}"} for n, role in enumerate(("user", "assistant") * 3)]
    options = make_options(tokenizer="qwen3", template_text=PRINTS_AN_OBJECT, clock=CLOCK)
    given = begin(prepare(json.dumps(request).encode(), options))
    how = growing_prompts(given.call, given.tokenizer)
    plain, told = (
        prefix_table(given.conversation, given.assemble, growing=each, most_partings=0, with_keys=False)
        for each in (None, how)
    )
    assert [(step.tokens, step.shared_tokens) for step in told.steps] == [
        (step.tokens, step.shared_tokens) for step in plain.steps
    ]
    assert len(plain.steps) == 6 and how is not None and how.at(2, False) is None


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_what_is_told_equals_what_is_rendered_of_many_chats(seed: int) -> None:
    hold(seed, 12)


LOOK_UPS = (
    "{% set ns = namespace(n=0, role='a') %}{% for m in messages %}{{ loop.index }}{{ loop.last }}{{ loop.nothing }}"
    "{{ m.role }}{{ m.absent is defined }}{{ m.items() | list | length }}{{ m.content.strip('w').split(' ')[-1] }}"
    "{{ ns.role }}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ loop.first }}{% for k in m recursive %}{{ loop.depth }}{% endfor %}"
    "{% if m.content == 'word 5' %}{{ raise_exception('five') }}{% endif %}{% endfor %}"
    "{% set messages = {'role': 'b'} %}{{ messages.role }}{{ messages.keys() | list }}{{ '{}'.format(ns.n) }}"
)


@pytest.mark.parametrize("text", [LOOK_UPS, None])
def test_a_plain_rendering_is_the_references(text: str | None) -> None:
    chat = [{"role": ("user", "assistant")[k % 2], "content": f"word {k}"} for k in range(8)]
    call = begun(chat, "qwen3", None).call(True)
    call = call if text is None else replace(call, text=text)
    plain, refused = PlainTemplate(call), 0
    for count in (3, 8, 1, 5):  # one that is refused is in between
        for asks in (True, False):
            try:
                wanted = reference(replace(call, messages=call.messages[:count], add_generation_prompt=asks))
            except Exception as error:
                refused += 1
                with pytest.raises(type(error), match=str(error)):
                    plain.text(count, asks)
            else:
                assert plain.text(count, asks) == wanted
    assert refused == (2 if text else 0)


def test_steps_that_go_on_are_not_rendered() -> None:
    chat = [{"role": ("user", "assistant")[k % 2], "content": f"word {k}"} for k in range(200)]
    given = begun(chat, "smollm2", "chatml")
    calls = []

    def counted(part: Any, asks: bool) -> Any:
        calls.append(len(part.messages))
        return given.assemble(part, asks)

    how = growing_prompts(given.call, given.tokenizer)
    table = prefix_table(given.conversation, counted, growing=how)
    assert calls == [200] and len(table.steps) == 200 and all(step.is_prefix for step in table.steps[:-1])


def test_a_told_text_that_is_another_one_is_never_believed() -> None:
    chat = [{"role": ("user", "assistant")[k % 2], "content": f"word {k}"} for k in range(8)]
    given, other = begun(chat, "smollm2", "chatml"), begun([*chat[:-1], {"role": "assistant", "content": "x"}], "smollm2", "chatml")  # fmt: skip
    wrong = growing_prompts(other.call, other.tokenizer)
    told = prefix_table(given.conversation, given.assemble, growing=wrong)
    assert told.to_dict() == prefix_table(given.conversation, given.assemble).to_dict()
    assert growing_prompts(None, given.tokenizer) is None and replace(given, call=None).call is None
