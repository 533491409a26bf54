"""What a rule is. The rules are one file each beside this one, joined in `RULES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspector.findings import Finding, Severity

if TYPE_CHECKING:
    from inspector.lint.subject import Subject


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    `id` is kebab-case and never changes its meaning; `title` says what is wrong in one line, `why` whom it hurts and
    how, `remedy` what to do. `live`: it reads one inspection, cheaply, and runs on each; the others probe, or need
    more than the request.
    """

    id: str
    topic: str
    severity: Severity
    title: str
    why: str
    remedy: str
    check: Callable[[Subject], Iterable[Finding]]
    live: bool = False

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
