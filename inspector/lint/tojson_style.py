"""The style in which tools are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject
from inspector.provenance import plain


def check(subject: Subject) -> Iterator[Finding]:
    encoding = subject.encoding
    if not subject.tools or subject.tokenizer is None or not subject.traced or encoding is None:
        return
    segments = encoding.rendered.segments
    lines = {
        int(segments.line[row]) for path, rows in subject.rows_of.items() if path.startswith("tools") for row in rows
    }
    for style in subject.facts.json:
        chosen = {key: value for key, value in style.arguments if key in ("indent", "separators") and value is not None}
        if not chosen or style.line not in lines:
            continue
        spans = [span for path in subject.rows_of if path.startswith("tools") for span in subject.spans(path)]
        first, last = min(start for start, _end in spans), max(end for _start, end in spans)
        ours = int(np.count_nonzero((encoding.end > first) & (encoding.start < last)))
        compact = subject.tokenizer.encode(json.dumps(plain(subject.tools), ensure_ascii=False)).input_ids
        named = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
        yield RULE.finding(
            f"tools are written with {named}: {ours} tokens from the first to the last; as json.dumps writes them, {len(compact)}",
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
