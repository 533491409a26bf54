"""Run rules over a subject, silence those that were given a reason, and give what came of it as `lint/1`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject

if TYPE_CHECKING:
    from inspector.lint.capabilities import Card
    from inspector.lint.probes import Row

MAX_OF_A_RULE = 20  # findings of one rule; the last one then says how many there are
FAILED_RULE = "rule-failed"


@dataclass(frozen=True, slots=True)
class Report:
    """What the rules found, what the template can do, and what was probed for it."""

    findings: tuple[Finding, ...]
    card: Card | None
    probes: tuple[Row, ...]
    error: InspectorError | None

    def at_or_above(self, severity: Severity) -> tuple[Finding, ...]:
        """Give the findings of that harm or more that nobody silenced."""
        return tuple(f for f in self.findings if f.silenced is None and Severity(f.severity).rank <= severity.rank)

    def counts(self) -> dict[str, int]:
        """Count by severity; silenced ones apart."""
        heard = [finding for finding in self.findings if finding.silenced is None]
        counts = {str(severity): sum(f.severity == severity for f in heard) for severity in Severity}
        return {**counts, "silenced": len(self.findings) - len(heard)}

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON object of schema `lint/1`, apart from what names the inspection."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "counts": self.counts(),
            "capabilities": None if self.card is None else self.card.to_dict(),
            "probes": [{"name": row.name, "answer": str(row.answer), "why": row.why} for row in self.probes],
            "error": None if self.error is None else self.error.to_dict(),
        }


def run_rules(rules: Iterable[Rule], subject: Subject, ignore: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Run rules in their order; findings of a rule in `ignore` carry its reason.

    A rule that breaks is a finding too: a program fault must not look like "nothing found".
    """
    found: list[Finding] = []
    for rule in rules:
        try:
            listed = list(rule.check(subject))
        except InspectorError as error:
            listed = [_failed(rule, error.message)]
        except Exception as error:
            listed = [_failed(rule, f"{type(error).__name__}: {error}")]
        if not listed:
            continue
        if len(listed) > MAX_OF_A_RULE:
            listed[MAX_OF_A_RULE - 1 :] = [_more(listed)]
        reason = (ignore or {}).get(rule.id)
        found += [replace(finding, silenced=reason) for finding in listed] if reason is not None else listed
    return tuple(found)


def _failed(rule: Rule, why: str) -> Finding:
    message = f"the rule {rule.id} could not be checked: {why}"
    return Finding(FAILED_RULE, str(Severity.WARNING), message, {"rule": rule.id}, "report this, with the template")


def _more(listed: list[Finding]) -> Finding:
    last = listed[MAX_OF_A_RULE - 1]
    return replace(last, message=f"{last.message} (and {len(listed) - MAX_OF_A_RULE} more places)")


def check_ignored(ignore: Mapping[str, Any], known: Iterable[str]) -> dict[str, str]:
    """Check that what is silenced are rules, each with a reason.

    Errors: OptionInvalid.
    """
    ids = set(known)
    for rule, reason in ignore.items():
        if rule not in ids:
            raise _bad_ignore(f"there is no rule {rule!r}", "see python -m inspector lint --rules")
        if not isinstance(reason, str) or not reason.strip():
            raise _bad_ignore(f"{rule} has no reason", f'write --ignore "{rule}=why it does not matter here"')
    return dict(ignore)


def _bad_ignore(message: str, remedy: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, message, stage="options", where={"option": "--ignore"}, remedy=remedy
    )
