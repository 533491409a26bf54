"""An inspection or a comparison as one HTML file: no script, no network, nothing of this machine in it.

It is written from `inspection/1` and `comparison/1` alone, and the template's text. All foreign text is text: escaped,
isolated from its neighbours' direction, with a sign for what would not show.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from inspector.exports.base import Export, File, Side
from inspector.exports.markup import Markup, join, tag
from inspector.exports.shown import shown
from inspector.findings import spell

MOST_ROWS = 20_000  # tokens in the table: more make a file that browsers open slowly; csv and parquet have all
MOST_HUNK = 300  # characters of a differing region
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #c9d1d9; --soft: #57606a; --template: #eaeef2;
  --message: #bcd8ff; --tool: #ffe3b3; --other: #e2d7f5; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #3d444d; --soft: #9198a1;
  --template: #262c36; --message: #1f3f66; --tool: #5a3f10; --other: #41325c; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 0 auto;
  padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; white-space: nowrap; } td { min-width: 3.5rem; } td:first-child { overflow-wrap: normal; } .num { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: .9em/1.5 ui-monospace, monospace; } pre { white-space: pre-wrap; padding: .7rem; border: 1px solid var(--line); }
bdi { unicode-bidi: isolate; } .soft { color: var(--soft); } .bad { color: var(--bad); font-weight: 600; }
.template { background: var(--template); } .message { background: var(--message); } .tool, .document { background: var(--tool); }
.other { background: var(--other); } .special { text-decoration: underline double; } .forged { outline: 2px solid var(--bad); }
.legend span { padding: 0 .4rem; margin-right: .5rem; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
@media print { details { display: block; } }
"""
_KINDS = ("template", "message", "tool", "document")
_WRITERS = (
    ("template", "the template"),
    ("message", "messages"),
    ("tool", "tools and documents"),
    ("other", "everything else"),
)


def _make(sides: Sequence[Side]) -> tuple[File, ...]:
    values = [side.public() for side in sides]
    title = "Inspection" if len(sides) == 1 else "Comparison"
    sections = [_side(value, side) for value, side in zip(values, sides)]
    if len(sides) == 2:
        pairs = zip("AB", sections, values)
        folded = [tag("details", tag("summary", f"{name}: {_named(value)}"), part) for name, part, value in pairs]
        sections = [_difference(values, sides), *folded]
    page = tag(
        "html",
        _head(title),
        tag("body", tag("h1", f"{title} of a chat request"), sections, _foot(values[0])),
        lang="en",
    )
    return (File("report.html", ("<!DOCTYPE html>\n" + page + "\n").encode("utf-8")),)


def _head(title: str) -> Markup:
    metas = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer">'),
    ]
    return tag("head", metas, tag("title", title), tag("style", Markup(_STYLE)))


def _foot(value: dict[str, Any]) -> Markup:
    versions = ", ".join(f"{name} {version}" for name, version in value["versions"].items())
    signs = "Signs such as ⏎, ⇥, ␛ and ‹202E› stand for characters that would not show."
    return tag("p", signs, " Made with ", text(versions), ".", class_="soft")


# --- one side -------------------------------------------------------------------------------------------------------


def _side(value: dict[str, Any], side: Side) -> Markup:
    parts = [
        _facts(value),
        _error(value["error"]),
        _findings(value["findings"]),
        _prompt(value),
        _counts(value["counts"]),
    ]
    parts += [_budget(value["budget"]), _logits(value["logits"]), _tokens(value["tokens"]), _request(value["request"])]
    template = side.inspection.template
    if template is not None:
        parts.append(_folded("The template's source", tag("pre", code_lines(template.text))))
    return join(parts)


def _named(value: dict[str, Any]) -> str:
    tokenizer, template = value["tokenizer"] or {}, value["template"] or {}
    revision = f"@{template['revision']}" if template.get("revision") else ""
    how = f"{template.get('id')}{revision}" if template else "its own format"
    return shown(f"{tokenizer.get('id') or value['options']['tokenizer']}, {how}").replace("·", " ")


def _facts(value: dict[str, Any]) -> Markup:
    options, tokenizer, template, rendered = (
        value[name] or {} for name in ("options", "tokenizer", "template", "rendered")
    )
    ids = value["input_ids"]
    clock = f"{options['clock']} ({'given' if options['clock_from'] == 'given' else 'the time of the run'})"
    facts = {
        "tokens": None if ids is None else f"{len(ids):,}",
        "tokenizer": tokenizer.get("ref") or options["tokenizer"],
        "tokenizer digest": tokenizer.get("digest"),
        "tokenizer note": "rebuilt from other files, marked reconstructed" if tokenizer.get("reconstructed") else None,
        "template": template.get("ref"),
        "template revision": template.get("revision"),
        "template digest": template.get("digest"),
        "rendered text, SHA-256": rendered.get("sha256"),
        "template arguments": json.dumps(options["arguments"], ensure_ascii=False) if options["arguments"] else None,
        "generation prompt": "yes" if options["add_generation_prompt"] else "no",
        "continues the last message": "yes" if options["continue_final_message"] else None,
        "clock": clock,
        "profile": options["profile"],
        "engine": options["engine"],
    }
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", text(fact))) for name, fact in facts.items() if fact]
    return tag("div", tag("table", rows), class_="wide")


def _error(error: dict[str, Any] | None) -> Markup:
    if error is None:
        return Markup("")
    where = ", ".join(f"{key} {value}" for key, value in (error["where"] or {}).items())
    lines = [tag("p", f"{error['kind']} in stage {error['stage']}", class_="bad"), tag("p", sentence(error["message"]))]
    lines += [tag("p", "Place: ", text(where))] if where else []
    lines += [tag("p", "Remedy: ", sentence(error["remedy"]))] if error["remedy"] else []
    return join([tag("h2", "It stopped"), lines])


def _findings(findings: list[dict[str, Any]]) -> Markup:
    if not findings:
        return Markup("")
    rows = [
        (
            f["severity"],
            f["rule"],
            text(spell(f["where"])),
            text(f["message"]),
            text(f["remedy"] or f["silenced"] or ""),
        )
        for f in findings
    ]
    return _table("Findings", ("severity", "rule", "place", "what", "remedy"), rows)


def _prompt(value: dict[str, Any]) -> Markup:
    """The rendered text by who wrote it; control tokens underlined, those that content wrote framed."""
    rendered = value["rendered"]
    if rendered is None or rendered["text"] is None:
        return Markup("")
    data = rendered["text"].encode()
    forged = {(t["start"], t["end"]) for t in value["tokens"] or () if "from_content" in t["flags"]}
    control = {(t["start"], t["end"]) for t in value["tokens"] or () if {"special", "added"} & set(t["flags"])} | forged
    cuts = sorted({0, len(data), *(at for span in control for at in span)})
    pieces = [
        _piece(data[start:end], segment, (lo, hi) in control, (lo, hi) in forged)
        for segment, lo, hi, start, end in _stretches(rendered["segments"], cuts)
    ]
    legend = tag(
        "p", [tag("span", words, class_=kind) for kind, words in _WRITERS],
        tag("span", "control token", class_="special"), tag("span", "control token written by content", class_="forged"),
        class_="legend",
    )  # fmt: skip
    return join([tag("h2", "What is sent, by who wrote it"), legend, tag("pre", pieces)])


def _stretches(segments: list[dict[str, Any]], cuts: list[int]) -> Iterable[tuple[dict[str, Any], int, int, int, int]]:
    """Give every segment, cut at the edges of control tokens: (segment, the cuts around it, its own start and end)."""
    k = 0
    for segment in segments:
        start = segment["start"]
        while start < segment["end"]:
            while cuts[k + 1] <= start:
                k += 1
            end = min(segment["end"], cuts[k + 1])
            yield segment, cuts[k], cuts[k + 1], start, end
            start = end


def _piece(data: bytes, segment: dict[str, Any], control: bool, forged: bool) -> Markup:
    kind = segment["kind"] if segment["kind"] in _KINDS else "other"
    names = [kind, *(["special"] if control else []), *(["forged"] if forged else [])]
    place = segment["path"] or (f"template line {segment['line']}" if segment["line"] else segment["kind"])
    return tag("span", code_lines(data.decode("utf-8", "replace")), class_=" ".join(names), title=shown(place))


def _counts(counts: dict[str, Any] | None) -> Markup:
    if counts is None:
        return Markup("")
    both = [*counts["by_origin"].items(), *counts["by_path"].items()]
    rows = [(text(name), f"{number:,}") for name, number in both if number]
    return _folded("Tokens by origin and by field", _table("", ("origin or field", "tokens"), rows))


def _budget(budget: dict[str, Any] | None) -> Markup:
    if budget is None:
        return Markup("")
    said = f"{budget['input_tokens']} of at most {budget['max_input_tokens']} input tokens, policy {budget['policy']}."
    rows: list[tuple[str, ...]] = [
        ("dropped", text(unit["path"]), sentence(unit["reason"])) for unit in budget["dropped"]
    ]
    rows += [("cut", text(unit["path"]), f"{unit['tokens_lost']} tokens lost") for unit in budget["cut"]]
    rows += [("broken", text(broken["path"] or ""), sentence(broken["what"])) for broken in budget["broken"]]
    parts = _table("", ("what", "unit", "why"), rows) if rows else Markup("")
    return join([tag("h2", "Budget"), tag("p", said), parts])


def _logits(logits: dict[str, Any] | None) -> Markup:
    if logits is None:
        return Markup("")
    rows = [
        (str(row["id"]), text(row["piece"] or ""), f"{row['logit']:.4f}", f"{row['prob']:.4f}") for row in logits["top"]
    ]
    return _table(f"Next tokens of {shown(logits['model'])}", ("id", "piece", "logit", "probability"), rows)


def _tokens(tokens: list[dict[str, Any]] | None) -> Markup:
    if not tokens:
        return Markup("")
    rows = [
        (
            str(index), str(token["id"]), text(token["piece"]), token["bytes"], f"{token['start']}–{token['end']}",
            " ".join(token["flags"]), text(token["path"] or token["kind"] or "inserted"), str(token["line"] or ""),
        )
        for index, token in enumerate(tokens[:MOST_ROWS])
    ]  # fmt: skip
    heads = ("index", "id", "piece", "bytes", "byte range", "flags", "writer", "template line")
    left_out = len(tokens) - len(rows)
    note = (
        tag("p", f"{left_out:,} more tokens: export csv or parquet for all.", class_="bad")
        if left_out > 0
        else Markup("")
    )
    return _folded(f"{len(tokens):,} tokens", join([note, _table("", heads, rows)]))


def _request(request: dict[str, Any] | None) -> Markup:
    if request is None:
        return Markup("")
    from inspector.request import KNOWN_KEYS, dump_request
    from inspector.withheld import without_secrets

    kept: list[dict[str, str]] = []
    given = {key: value for key, value in request.items() if key != "changes"}
    given |= without_secrets({key: value for key, value in given.items() if key not in KNOWN_KEYS}, "", kept)
    rows = [(text(c["path"]), sentence(c["what"]), text(c["by"])) for c in request["changes"]]
    changes = _table("Changes before rendering", ("path", "what", "by"), rows) if rows else Markup("")
    reasons = [(text(each["path"]), sentence(each["why"])) for each in kept]
    withheld = _table("Withheld", ("path", "why"), reasons) if kept else Markup("")
    shown_request = _folded("The request", tag("pre", code_lines(dump_request(given, indent=2))))
    return join([shown_request, withheld, changes])


# --- two sides ------------------------------------------------------------------------------------------------------


def _difference(values: list[dict[str, Any]], sides: Sequence[Side]) -> Markup:
    from inspector.comparison import compare_inspections

    found = compare_inspections(sides[0].inspection, sides[1].inspection).to_dict()
    heads = [tag("p", tag("b", f"{name}: "), text(_named(value))) for name, value in zip("AB", values)]
    equal = found["equal"]
    said = f"Bytes {'equal' if equal['bytes'] else 'differ'}, ids {'equal' if equal['ids'] else 'differ'}."
    first = found["first_difference"]
    why = (
        Markup("")
        if first is None
        else tag("p", f"First difference, at byte {first['byte']}: ", sentence(first["reason"]))
    )
    texts = [None if value["rendered"] is None or value["rendered"]["text"] is None else value["rendered"]["text"].encode()
             for value in values]  # fmt: skip
    rows = [
        (sentence(hunk["reason"]), *(_region(data, hunk[side]["bytes"]) for data, side in zip(texts, "ab")))
        for hunk in found["hunks"]["listed"]
    ]
    total = found["hunks"]["total"]
    more = f" of {total:,}" if total > len(rows) else ""
    table = _table(f"Differing regions ({len(rows):,}{more})", ("why", "A", "B"), rows) if rows else Markup("")
    return join([heads, tag("p", said), why, table])


def _region(data: bytes | None, span: list[int]) -> Markup:
    if data is None:
        return text("")
    words = data[span[0] : span[1]].decode("utf-8", "replace")
    return text(words if len(words) <= MOST_HUNK else words[:MOST_HUNK] + "…")


# --- pieces ---------------------------------------------------------------------------------------------------------


def text(words: str) -> Markup:
    """Foreign text in a line: isolated, with signs."""
    return tag("bdi", tag("code", shown(words).replace("‹00B7›", "·")))


def sentence(words: str) -> Markup:
    """A sentence that may quote foreign text: isolated, with signs."""
    return tag("bdi", shown(words).replace("‹00B7›", "·"))


def code_lines(words: str) -> Markup:
    """Foreign text in a block: the same, and a line feed begins a new line after its sign."""
    return join(
        tag("bdi", shown(line) + ("\n" if line.endswith("\n") else "")) for line in words.splitlines(True) or [""]
    )


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    head = tag("tr", [tag("th", name, scope="col") for name in heads])
    body = [tag("tr", [tag("td", cell) for cell in row]) for row in rows]
    table = tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="wide")
    return join([tag("h2", title), table]) if title else table


def _folded(title: str, inside: Markup) -> Markup:
    return tag("details", tag("summary", title), inside)


EXPORT = Export("html", "a report to read: one file, no script, no network", _make, most_sides=2)
