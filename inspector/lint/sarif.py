"""Findings as SARIF 2.1.0, which code hosts show beside the lines. It finds no file and no line: its callers know them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inspector.findings import spell
from inspector.lint.base import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note"}

Placed = tuple[dict[str, Any], str | None, int | None]  # a finding as `lint/1` lists it, its file and line where known


def log(findings: Iterable[Placed], rules: Iterable[Rule]) -> dict[str, Any]:
    """Give a log of one run. `rules`: what the run says it can find; a finding of another one has no index."""
    from inspector import __version__

    listed = list(rules)
    ids = [rule.id for rule in listed]
    driver = {"name": "inspector", "version": __version__, "rules": [_rule(rule) for rule in listed]}
    results = [_result(finding, file, line, ids) for finding, file, line in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {"topic": rule.topic},
    }


def _result(finding: dict[str, Any], file: str | None, line: int | None, ids: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if file is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": Path(file).as_posix()}}
        if line is not None:
            location["physicalLocation"]["region"] = {"startLine": line}
    place = spell(finding["where"])
    if place:
        location["logicalLocations"] = [{"fullyQualifiedName": place}]
    result = {
        "ruleId": finding["rule"],
        "level": LEVELS[finding["severity"]],
        "message": {"text": f"{finding['message']}\n{finding['remedy']}"},
        "properties": finding["where"],
    }
    if finding["rule"] in ids:
        result["ruleIndex"] = ids.index(finding["rule"])
    if location:
        result["locations"] = [location]
    if finding["silenced"] is not None:
        result["suppressions"] = [{"kind": "external", "justification": finding["silenced"]}]
    return result
