"""What a rule is. The rules are one file each beside this one, joined in `RULES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspector.findings import Finding, Severity

if TYPE_CHECKING:
    from inspector.lint.subject import Subject


class Need:
    """What a subject can have that a rule is about. Where none of a rule's needs is there it cannot find anything.

    Bits as plain integers: an enum takes ten times as long to be joined with another, and it is done for every row."""

    CALLS = 1 << 0  # a message has tool_calls or a function_call
    RESULTS = 1 << 1  # a message is a tool's or a function's
    REASONING = 1 << 2  # a message has a reasoning field
    PARTS = 1 << 3  # a content is a list
    TOOLS = 1 << 4  # as the two after it: the request has some
    DOCUMENTS = 1 << 5
    ARGUMENTS = 1 << 6  # template arguments
    NOTES = 1 << 7  # the request was read with a note
    CHANGES = 1 << 8  # something was done to the request
    ERROR = 1 << 9
    WIDE = 1 << 10  # a byte of the prompt is not ASCII
    CLOCK = 1 << 11  # the clock wrote a byte
    UNTRACED = 1 << 12  # who wrote what is not known
    WARNINGS = 1 << 13  # the sandbox blocked something
    GENERATION = 1 << 14  # the template marks what the assistant says
    PROMPT = 1 << 15  # the prompt ends with a generation prompt
    ASKS = 1 << 16  # a generation prompt was asked for
    CONTINUES = 1 << 17  # the final message is to be continued
    BUDGET = 1 << 18
    CHOSEN = 1 << 19  # the template is not the tokenizer's own
    FORGED = 1 << 20  # tokens with this flag, as the next four
    CROSSING = 1 << 21
    LOOK_ALIKE = 1 << 22
    PARTIAL = 1 << 23
    UNKNOWN = 1 << 24
    UNCOVERED = 1 << 25  # bytes that no token covers
    REWRITES = 1 << 30  # the tokenizer may write another text than it is given
    REMARKS = 1 << 26  # the tokenizer's file holds what bites
    TAGS = 1 << 27  # the template has extension tags, or sets or prints what the next two say
    PRIVATE = 1 << 28
    PRINTED = 1 << 29


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    `id` is kebab-case and never changes its meaning; `title` says what is wrong in one line, `why` whom it hurts and
    how, `remedy` what to do. `live`: it reads one inspection, cheaply, and runs on each; the others probe, or need
    more than the request. `needs`: one of these has to be there, or it finds nothing; live runs do not ask it then.
    """

    id: str
    topic: str
    severity: Severity
    title: str
    why: str
    remedy: str
    check: Callable[[Subject], Iterable[Finding]]
    live: bool = False
    needs: int = 0  # bits of Need; 0: whatever there is

    def finding(
        self, message: str, where: dict[str, Any] | None = None, *, remedy: str = "", severity: Severity | None = None
    ) -> Finding:
        """Make a finding of this rule; remedy and severity are the rule's unless the evidence says more."""
        places = {key: value for key, value in (where or {}).items() if value is not None}
        return Finding(self.id, severity or self.severity, message, places, remedy or self.remedy)

    def to_dict(self) -> dict[str, Any]:
        """Give the rule as `lint --rules --format json` lists it."""
        names = ("id", "topic", "title", "why", "remedy", "live")
        return {**{name: getattr(self, name) for name in names}, "severity": str(self.severity)}


def shown(text: str, limit: int = 60) -> str:
    """Quote text for a message, cut in the middle.

    >>> shown("a" * 100, 11)
    "'aaaaa…aaaaa'"
    """
    if len(text) > limit:
        half = (limit - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return repr(text)
