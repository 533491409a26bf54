"""Print an inspection or a comparison for people in a terminal, from the JSON values alone.

Foreign text is shown with control characters made visible, so that it cannot steer the terminal.
"""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

TWO_TONE = (Style(bgcolor="#bcd8ff", color="#111111"), Style(bgcolor="#fff0c9", color="#111111"))
CONTROL = Style(bgcolor="#2f3b52", color="#ffffff", underline=True)
INJECTED = Style(bgcolor="#b3261e", color="#ffffff", bold=True)
MAX_ROWS = 200


def console() -> Console:
    """Give a console for stdout; where it is no terminal, lines are wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=180)


def visible(text: str) -> str:
    """Replace what would not show, or would steer a terminal, by something that shows.

    >>> visible("a\\nb\\x1b[0m")
    'a⏎b␛[0m'
    """
    return "".join(_visible_char(char) for char in text)


def _visible_char(char: str) -> str:
    if char == "\n":
        return "⏎"
    if char < " ":
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "␡"
    if unicodedata.category(char) in ("Cf", "Cc", "Cs", "Co", "Zl", "Zp"):
        return f"<U+{ord(char):04X}>"
    return char


def print_inspection(result: dict[str, Any], console: Console) -> None:
    """Print the coloured tokens, a table of them, counts, findings, budget and logits."""
    _print_head(result, console)
    console.print(coloured_tokens(result), soft_wrap=True)
    _print_tokens(result["tokens"] or [], console)
    _print_budget(result["budget"], console)
    _print_media(result["media"], result["media_rule"], console)
    _print_logits(result["logits"], console)
    for finding in result["findings"]:
        console.print(Text(f"{finding['severity']}: {visible(finding['message'])}"))


def print_comparison(result: dict[str, Any], console: Console) -> None:
    """Print both heads, the first difference in words, and the changed stretches."""
    for side in ("a", "b"):
        console.print(Text(f"{side.upper()}:", style="bold"), end=" ")
        _print_head(result[side], console)
    first = result["first_difference"]
    if first is None:
        console.print(Text("equal: same bytes, same ids"))
        return
    console.print(Text(f"first difference: {visible(first['reason'])}"))
    for entry in [entry for entry in result["token_diff"] if entry["op"] != "equal"][:MAX_ROWS]:
        for sign, side in (("-", "a"), ("+", "b")):
            begin, end = entry[side]
            tokens = (result[side]["tokens"] or [])[begin:end]
            if tokens:
                console.print(
                    Text(f"{sign} {side.upper()}[{begin}:{end}] " + " ".join(visible(t["piece"]) for t in tokens))
                )
    if result["logits"]:
        console.print(Text("logits: " + ", ".join(f"{key} {value}" for key, value in result["logits"].items())))


def print_presets(listing: dict[str, Any], console: Console) -> None:
    """Print the catalogue as two tables."""
    tokenizers = Table("tokenizer", "title", "source", "cached")
    for row in listing["tokenizers"]:
        tokenizers.add_row(row["id"], row["title"], row["source"], "yes" if row["cached"] else "no")
    templates = Table("template", "revision", "source", "digest")
    for row in listing["templates"]:
        templates.add_row(row["id"], row["revision"] or "", row["source"], (row["digest"] or "")[:12])
    console.print(tokenizers)
    console.print(templates)


def coloured_tokens(result: dict[str, Any]) -> Text:
    """Give the rendered bytes, token by token, in two alternating tones; control tokens inverse, injected ones red."""
    text = Text()
    if result["rendered"]["kind"] == "token_segments":  # there is no text, only ids
        for index, token in enumerate(result["tokens"] or []):
            text.append(visible(token["piece"]) + " ", _style(index, token["flags"]))
        return text
    utf8 = result["rendered"]["text"].encode()
    covered, pending = 0, b""
    for index, token in enumerate(result["tokens"] or []):
        pending += utf8[max(covered, token["start"]) : token["end"]]
        covered = max(covered, token["end"])
        if not _whole(pending):
            continue  # a character split over tokens is shown once, with its last token
        text.append(visible(pending.decode("utf-8")), _style(index, token["flags"]))
        if b"\n" in pending:
            text.append("\n")
        pending = b""
    return text


def _style(index: int, flags: list[str]) -> Style:
    if "from_content" in flags:
        return INJECTED
    return CONTROL if {"special", "added"} & set(flags) else TWO_TONE[index % 2]


def _whole(chunk: bytes) -> bool:
    try:
        chunk.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _print_head(result: dict[str, Any], console: Console) -> None:
    tokens = result["tokens"] or []
    control = sum(1 for token in tokens if {"special", "added"} & set(token["flags"]))
    forged = sum(1 for token in tokens if "from_content" in token["flags"])
    tokenizer, template = result["tokenizer"] or {}, result["template"] or {}
    revision = f"@{template['revision']}" if template.get("revision") else ""
    how = f"with template {template.get('id')}{revision}" if template else "in its own format"
    line = f"{tokenizer.get('id')} {how}: {len(tokens)} tokens, {control} control"
    console.print(Text(visible(line) + (f", {forged} FROM CONTENT" if forged else "")))


def _print_tokens(tokens: list[dict[str, Any]], console: Console) -> None:
    table = Table("#", "id", "piece", "bytes", "origin", "line", Column("flags", overflow="fold"))
    for index, token in enumerate(tokens[:MAX_ROWS]):
        origin = token["path"] or token["kind"] or "inserted"
        cells = (
            visible(token["piece"]),
            token["bytes"],
            visible(origin),
            str(token["line"] or ""),
            " ".join(token["flags"]),
        )
        table.add_row(str(index), str(token["id"]), *(Text(cell) for cell in cells))
    console.print(table)
    if len(tokens) > MAX_ROWS:
        console.print(f"{len(tokens) - MAX_ROWS} more tokens: --json gives all")


def _print_budget(budget: dict[str, Any] | None, console: Console) -> None:
    if budget is None:
        return
    console.print(
        Text(f"budget: {budget['input_tokens']} of {budget['max_input_tokens']} input tokens ({budget['policy']})")
    )
    for entry in budget["dropped"]:
        console.print(Text(f"  dropped {entry['path']}: {entry['reason']}"))
    for entry in budget["cut"]:
        console.print(Text(f"  cut {entry['path']}: {entry['tokens_lost']} tokens lost"))


def _print_media(items: list[dict[str, Any]] | None, how: dict[str, Any] | None, console: Console) -> None:
    if items is None or how is None:
        return
    rule = how["rule"]
    counted = "as the processor writes it" if how["expanded"] else "as its placeholder"
    named = "no rule known for this template" if rule is None else f"rule {rule['id']} ({rule['title']})"
    table = Table(
        "media", "identity", "pixels", "resized", "grid", "positions", "tokens", Column("remarks", overflow="fold"),
        title=Text(visible(f"media: {named}; each counted {counted}")),
    )  # fmt: skip
    for item in items:
        table.add_row(*(Text(visible(cell)) for cell in _media_cells(item)))
    console.print(table)
    for problem in how["problems"]:
        console.print(Text(visible(f"media: {problem['path'] or 'prompt'}: {problem['what']} -> {problem['remedy']}")))


def _media_cells(item: dict[str, Any]) -> tuple[str, ...]:
    identity, decoding, plan = item["identity"], item["decoding"], item["plan"]
    who = (
        item["source"]
        if identity is None
        else f"{identity['media_type']} {identity['sha256'][:12]} {identity['bytes']} B"
    )
    pixels = "" if decoding is None else "x".join(map(str, decoding["size"]))
    number = item["positions"] if item["memory"] is None else f"{item['memory']} memory entries"
    count = "unknown" if number is None else f"{number}{' (estimate)' if item['estimate'] else ''}"
    tokens = "" if item["tokens"] is None else "[{}, {})".format(*item["tokens"])
    error = [] if item["error"] is None else [item["error"]["message"]]
    turned = ["turned by EXIF orientation"] if decoding is not None and decoding["turned"] else []
    return (
        item["path"], who, pixels, "" if plan is None else "x".join(map(str, plan["resized"])),
        "" if plan is None else "{}x{} ".format(*plan["grid"]) + plan["grid_of"], count, tokens,
        "; ".join([*error, *turned, *item["notes"]]),
    )  # fmt: skip


def _print_logits(logits: dict[str, Any] | None, console: Console) -> None:
    if logits is None:
        return
    table = Table(
        "next token",
        "id",
        "logit",
        "logprob",
        "prob",
        title=f"{logits['model']} ({logits['device']}, {logits['dtype']})",
    )
    for row in logits["top"]:
        piece = "(no such token)" if row["piece"] is None else visible(row["piece"])
        logit = "" if row["logit"] is None else f"{row['logit']:.3f}"
        table.add_row(Text(piece), str(row["id"]), logit, f"{row['logprob']:.3f}", f"{row['prob']:.4f}")
    console.print(table)
    if logits["note"]:
        console.print(Text(visible(logits["note"])))
    if logits["missing"] is not None:
        console.print(
            Text(f"the server lists its most probable tokens only; all others together: {logits['missing']:.4f}")
        )
