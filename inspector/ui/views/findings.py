"""What the rules found and what the template can do, pane by pane. It probes, so it is asked for when its tab is opened.

lint/ judges; here its report gets what the page shows beside each finding. What the cheap rules find is only counted,
for the heads of the panes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from inspector.ui.views.base import View


def answer(result: dict[str, Any]) -> dict[str, Any]:
    """Give the answer for one pane from its `lint/1`: {lint, rules: {id: {topic, title, why}}, sarif, error: null}.

    `rules` and the log's driver name only the rules that found something.
    """
    from inspector.lint import RULES, sarif

    found = {finding["rule"] for finding in result["findings"]}
    rules = [rule for rule in RULES if rule.id in found]
    return {
        "lint": result,
        "rules": {rule.id: {name: getattr(rule, name) for name in ("topic", "title", "why")} for rule in rules},
        "sarif": sarif.log([(finding, None, None) for finding in result["findings"]], rules),
        "error": None,
    }


def live_counts(inspection: Any) -> list[list[Any]]:
    """Count what the cheap rules found: [rule, severity, how often]."""
    counts = Counter((finding.rule, str(finding.severity)) for finding in inspection.findings)
    return [[rule, severity, count] for (rule, severity), count in counts.items()]


VIEW = View("findings")
