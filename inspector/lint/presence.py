"""Which of what rules are about is there: looked at once, so that a rule with nothing to look at is not asked.

It must never leave out what a rule would find: where it is not plain that nothing is there, it says that it is.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from inspector.encode import TokenFlag
from inspector.lint.base import Need
from inspector.provenance import SegmentKind
from inspector.templatefacts import template_facts
from inspector.tokenizers.base import Tokenizer
from inspector.tokenizers.fast import FastTokenizer

if TYPE_CHECKING:
    from inspector.lint.subject import Subject

_OF_KEYS = {
    "tool_calls": Need.CALLS,
    "function_call": Need.CALLS,
    "reasoning_content": Need.REASONING,
    "thinking": Need.REASONING,
    "reasoning": Need.REASONING,
}
_OF_ROLES = {"tool": Need.RESULTS, "function": Need.RESULTS}
_OF_FLAGS = (
    (int(TokenFlag.FROM_CONTENT), Need.FORGED),
    (int(TokenFlag.CROSSES_SEGMENT), Need.CROSSING),
    (int(TokenFlag.LOOK_ALIKE), Need.LOOK_ALIKE),
    (int(TokenFlag.PARTIAL_CHAR), Need.PARTIAL),
    (int(TokenFlag.UNKNOWN), Need.UNKNOWN),
)
_CLOCK = int(SegmentKind.CLOCK)


def present(subject: Subject) -> int:
    """Give the bits of `Need` for what a subject has."""
    template = subject.template
    there = 0 if template is None else _in_template(template.text)
    return there | _in_request(subject) | _in_messages(subject.messages) | _in_prompt(subject) | _in_tokens(subject)


@functools.lru_cache(maxsize=256)
def _in_template(text: str) -> int:
    facts = template_facts(text)
    there = (Need.TAGS if facts.tags else 0) | (Need.PRIVATE if facts.private else 0)
    return there | (Need.PRINTED if facts.printed else 0)


_KEEPING = ("NFC", "NFD", "Sequence", "Split", "Digits", "ByteLevel")  # neither fold case nor add a blank


@functools.lru_cache(maxsize=16)
def _keeps_text(tokenizer: Tokenizer | None) -> bool:
    """Say whether what a tokenizer does before its model is known to leave capitals and blanks as they are."""
    if not isinstance(tokenizer, FastTokenizer):
        return False
    steps = [json.loads(part.__getstate__()) for part in tokenizer.parts() if part is not None]
    while steps:
        step = steps.pop()
        if step["type"] not in _KEEPING or step.get("add_prefix_space"):
            return False
        steps += step.get("normalizers", ()) or step.get("pretokenizers", ())
    return True


def _in_request(subject: Subject) -> int:
    inspection, options = subject.inspection, subject.options
    request, conversation = inspection.request, inspection.conversation
    there = Need.TOOLS if subject.tools else 0
    if request is not None:
        there |= (Need.DOCUMENTS if request.documents else 0) | (Need.NOTES if request.notes else 0)
    if conversation is not None:
        there |= (Need.ARGUMENTS if conversation.kwargs else 0) | (Need.CHANGES if conversation.changes else 0)
    there |= Need.ASKS if options.add_generation_prompt else 0
    there |= Need.CONTINUES if options.continue_final_message else 0
    there |= Need.CHOSEN if subject.chosen_template else 0
    there |= Need.ERROR if subject.error is not None else 0
    return there | (Need.BUDGET if inspection.budget is not None else 0)


def _in_messages(messages: list[dict[str, Any]]) -> int:
    there = 0
    for message in messages:
        for key in message:
            there |= _OF_KEYS.get(key, 0)
        there |= _OF_ROLES.get(message["role"], 0)
        there |= Need.PARTS if type(message.get("content")) is list else 0
    return there


def _in_prompt(subject: Subject) -> int:
    rendered = subject.rendered
    if rendered is None:
        return 0
    there = 0 if subject.utf8.isascii() else Need.WIDE
    there |= Need.CLOCK if _CLOCK in rendered.segments.kind.tobytes() else 0
    there |= Need.UNTRACED if rendered.provenance == "unknown" else 0
    there |= Need.WARNINGS if rendered.warnings else 0
    there |= Need.GENERATION if rendered.assistant_from == "generation" else 0
    return there | (Need.PROMPT if rendered.generation_prompt is not None else 0)


def _in_tokens(subject: Subject) -> int:
    there = Need.REMARKS if subject.file_remarks else 0
    there |= 0 if _keeps_text(subject.tokenizer) else Need.REWRITES
    encoding = subject.encoding
    if encoding is None:
        return there
    flags = subject.any_flag
    there |= Need.UNCOVERED if encoding.uncovered else 0
    return there | sum(need for flag, need in _OF_FLAGS if flags & flag)
