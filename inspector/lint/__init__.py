"""Rules about one inspection, one file each, joined in `RULES`; which of them ran, and what they found.

A rule reads who wrote what (segments, token flags), the template's syntax tree, and what probes answer. None renders or
encodes by itself, but through lint/probes.py, and none of them changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inspector.findings import Finding
from inspector.lint import (
    bos_added_again,
    bos_missing,
    budget_dropped,
    control_literal_split,
    control_token_assembled,
    double_bos,
    eos_after_prompt,
    forged_control_in_result,
    forged_control_token,
    late_system,
    line_ends,
    look_alike_control,
    message_dropped,
    provenance_unknown,
    sandbox_blocked,
    template_missing,
    template_pairing,
    tool_result_dropped,
    turn_end_not_eos,
    uncovered_bytes,
)
from inspector.lint.base import Rule
from inspector.lint.evidence import Evidence
from inspector.lint.report import Report, check_ignored, run_rules
from inspector.lint.subject import Subject

if TYPE_CHECKING:
    from inspector.pipeline import Inspection

RULES: tuple[Rule, ...] = (
    bos_added_again.RULE,
    bos_missing.RULE,
    control_literal_split.RULE,
    double_bos.RULE,
    eos_after_prompt.RULE,
    turn_end_not_eos.RULE,
    late_system.RULE,
    message_dropped.RULE,
    tool_result_dropped.RULE,
    control_token_assembled.RULE,
    forged_control_in_result.RULE,
    forged_control_token.RULE,
    look_alike_control.RULE,
    provenance_unknown.RULE,
    sandbox_blocked.RULE,
    template_missing.RULE,
    template_pairing.RULE,
    line_ends.RULE,
    uncovered_bytes.RULE,
    budget_dropped.RULE,
)
LIVE: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.live)


def live_findings(inspection: Inspection) -> tuple[Finding, ...]:
    """Give what the cheap rules find: those that read one inspection and run on each."""
    return run_rules(LIVE, Subject(inspection))


def lint(
    inspection: Inspection,
    *,
    evidence: Evidence | None = None,
    ignore: Mapping[str, str] | None = None,
    rules: Iterable[Rule] = RULES,
) -> Report:
    """Check one inspection with every rule, probing where they ask.

    `ignore`: rule id -> reason; also read from the request's own `lint.ignore`.
    Errors: OptionInvalid for a rule that does not exist, or that has no reason.

    >>> from inspector import inspect
    >>> report = lint(inspect([{"role": "user", "content": "hi"}], tokenizer="bytes"))
    >>> [finding.rule for finding in report.findings if finding.severity == "error"]
    []
    """
    subject = Subject(inspection, evidence)
    silenced = check_ignored({**_ignored_by(inspection), **(ignore or {})}, (rule.id for rule in RULES))
    findings = run_rules(rules, subject, silenced)
    card = subject.card if inspection.template is not None else None
    return Report(findings, card, subject.probes.rows(), inspection.error)


def _ignored_by(inspection: Inspection) -> Mapping[str, Any]:
    given = inspection.request.extra.get("lint") if inspection.request is not None else None
    ignored = given.get("ignore") if isinstance(given, dict) else None
    return ignored if isinstance(ignored, dict) else {}


__all__ = ["LIVE", "RULES", "Evidence", "Report", "Rule", "Subject", "lint", "live_findings"]
