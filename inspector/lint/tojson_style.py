"""The style in which tools are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject
from inspector.provenance import SegmentKind, plain


def check(subject: Subject) -> Iterator[Finding]:
    if not subject.tools or subject.tokenizer is None or not subject.traced or subject.rendered is None:
        return
    segments = subject.rendered.segments
    lines = {
        int(segments.line[row]) for path, rows in subject.rows_of.items() if path.startswith("tools") for row in rows
    }
    for style in subject.facts.json:
        chosen = {key: value for key, value in style.arguments if key in ("indent", "separators") and value is not None}
        if not chosen or style.line not in lines:
            continue
        compact = json.dumps(plain(subject.tools), ensure_ascii=False)
        costs = subject.tokenizer.encode(compact).input_ids
        ours = sum(1 for kind in subject.token_kinds if kind == SegmentKind.TOOL)
        named = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
        yield RULE.finding(
            f"tools are written with {named}: {ours} tokens hold text of schemas; all of them as plain JSON take {len(costs)}",
            {"line": style.line, "path": "tools"},
        )


RULE = Rule(
    id="tojson-style",
    topic="tool-schema",
    severity=Severity.NOTE,
    title="tool schemas are written with an indent or separators of their own",
    why="the same schema costs other tokens, and a runtime that ignores the arguments of tojson sends another prompt",
    remedy="check that the serving program's tojson takes indent and separators",
    check=check,
)
