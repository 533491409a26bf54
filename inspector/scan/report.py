"""A scan's summary as one HTML file: no script, no network, no place of this machine in it; written from `scan-summary/1` alone.

Every number leads to the first rows behind it, and every row says how it is opened: on the page, and by a command.
All foreign text is text: escaped, isolated from its neighbours' direction, with a sign for what would not show.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from inspector.exports.markup import Markup, join, tag
from inspector.exports.report import sentence, text
from inspector.exports.shown import shown
from inspector.scan import plots
from inspector.scan.summary import OF_SIDE_SAID

REPORT = "report.html"
PAGE = "http://127.0.0.1:7860/"  # where `serve` puts the page unless it is told otherwise
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
_STYLE = (
    """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --card: #f6f8fa; --line: #d0d7de; --soft: #57606a; --bad: #b3261e; --link: #0b57d0;
  --mark: #a8c7fa; --hot: #0b57d0; --first: #0b57d0; --other-line: #9a4f00; --share: #cfe0fc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --card: #161b22; --line: #30363d; --soft: #9198a1;
  --bad: #ff8a80; --link: #8ab4f8; --mark: #2f5d9f; --hot: #8ab4f8; --first: #8ab4f8; --other-line: #f0b26b; --share: #1f3f66; } }
* { box-sizing: border-box; } html { scroll-behavior: smooth; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; color: var(--ink); background: var(--paper); max-width: 74rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-top: .4rem; border-top: 1px solid var(--line); } h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--link); } a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: .6rem; margin: 1rem 0; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .7rem; } .tiles b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; font-weight: 650; overflow-wrap: normal; } .tiles span { color: var(--soft); font-size: .85rem; } .tiles b span { color: inherit; font-size: inherit; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; } th, td { text-align: left; vertical-align: top; padding: .22rem .7rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } thead th { white-space: nowrap; } .wide + .wide { margin-top: 1rem; } .list { list-style: none; margin: 0; padding: 0; } .num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } td.words { min-width: 14rem; }
code { font: .92em/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; } bdi { unicode-bidi: isolate; } .soft { color: var(--soft); } .bad { color: var(--bad); font-weight: 600; }
.share { display: inline-block; width: 7rem; height: .7rem; border: 1px solid var(--line); border-radius: 2px; } .share i { display: block; height: 100%; background: var(--first); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; } .group { scroll-margin-top: 1rem; } .group:target { background: var(--card); outline: 2px solid var(--link); outline-offset: .3rem; } .group ul { margin: .2rem 0 0; padding-left: 1.2rem; } .group li { padding: .1rem 0; }
@media print { body { max-width: none; } nav, .back { display: none; } h2 { break-after: avoid; } svg, table, .group { break-inside: avoid; } }
"""
    + plots.STYLE
)


def report(summary: dict[str, Any], *, page: str = PAGE) -> bytes:
    """Write `scan-summary/1` as an HTML file. `page`: the address of the page that its links lead to."""
    made = _Report(summary, page)
    facts, tiles = made.facts(), made.tiles()
    parts = made.parts()  # last: it holds the rows that the others named
    sections = [(name, title, part) for name, title, part in parts if part is not None]
    nav = tag(
        "nav", [tag("a", title, href=f"#{name}") for name, title, _part in sections], **{"aria-label": "sections"}
    )
    body = [tag("section", [tag("h2", title), part], id=name) for name, title, part in sections]
    title = f"Scan of {summary['scan']['name']}"
    whole = tag(
        "html",
        _head(title),
        tag("body", tag("h1", sentence(title)), facts, tiles, nav, body, made.foot()),
        lang="en",
    )
    return ("<!DOCTYPE html>\n" + whole + "\n").encode("utf-8", "backslashreplace")


def row_command(scan: str, file: str, row: int) -> str:
    """Spell the command that inspects a row of a scan.

    >>> row_command("my scan", "data/a.jsonl", 17)
    "python -m inspector row 'my scan' data/a.jsonl 17"
    """
    return f"python -m inspector row {shlex.quote(scan)} {shlex.quote(file)} {row}"


def row_link(page: str, scan_id: str, file: str, row: int) -> str:
    """Spell the link that opens a row of a scan on the page.

    >>> row_link("http://127.0.0.1:7860/", "0f3a", "data/a b.jsonl", 17)
    'http://127.0.0.1:7860/?scan=0f3a&row=data/a%20b.jsonl:17'
    """
    return f"{page}?scan={quote(scan_id)}&row={quote(file, safe='/')}:{row}"


def _head(title: str) -> Markup:
    metas = [
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer">'),
    ]
    return tag("head", metas, tag("title", shown(title).replace("‹00B7›", "·")), tag("style", Markup(_STYLE)))


class _Report:
    """The sections of one report, and the rows that they name, in the order in which they are named."""

    def __init__(self, summary: dict[str, Any], page: str) -> None:
        self.value, self.scan, self.page = summary, summary["scan"], page
        self.groups: list[Markup] = []

    # --- what every section uses ------------------------------------------------------------------------------------

    def group(self, title: str, entry: dict[str, Any]) -> str | None:
        """Name the first rows behind a number; give where they stand. None where there are none."""
        if not entry["examples"]:
            return None
        name = f"rows-{len(self.groups) + 1}"
        count = entry.get("rows", len(entry["examples"]))
        more = f", the first {len(entry['examples'])}" if count > len(entry["examples"]) else ""
        rows = [tag("li", self.row(place)) for place in entry["examples"]]
        head = tag("b", sentence(title), f" · {count:,} {_rows(count)}{more} ")
        self.groups.append(tag("div", head, tag("ul", rows), class_="group", id=name))
        return f"#{name}"

    def row(self, place: dict[str, Any]) -> Markup:
        file, row = place["file"], place["row"]
        link = tag("a", sentence(f"{file} · row {row}"), href=row_link(self.page, self.scan["id"], file, row))
        return join([link, "  ", tag("code", shown(row_command(self.scan["name"], file, row)), class_="soft")])

    def count(self, title: str, entry: dict[str, Any], key: str = "rows") -> Markup:
        """Give a number that leads to its rows."""
        number, to = f"{entry[key]:,}", self.group(title, entry)
        return tag("a", number, href=to) if to else tag("span", number)

    def share(self, rows: int, of: int | None = None) -> Markup:
        of = self.value["rows"]["total"] if of is None else of
        return tag("span", f"{100 * rows / of:.2f} %" if of else "–", class_="soft")

    # --- sections ---------------------------------------------------------------------------------------------------

    def facts(self) -> Markup:
        rows: list[tuple[str, Markup]] = []
        for name, side in zip("AB", self.scan["sides"]):
            rows.append(
                (f"tokenizer {name}" if len(self.scan["sides"]) > 1 else "tokenizer", _artifact(side["tokenizer"]))
            )
            rows.append(
                (f"template {name}" if len(self.scan["sides"]) > 1 else "template", _artifact(side["template"]))
            )
        options = self.scan["sides"][0]["options"]
        rows.append(("policy", text(f"{options['policy']}, {options['max_new_tokens']:,} tokens kept for the answer")))
        rows.append(("profile, engine, clock", text(f"{options['profile']}, {options['engine']}, {options['clock']}")))
        files = self.scan["source"]
        size = sum(file["bytes"] for file in files)
        named = ", ".join(file["file"] for file in files[:6]) + (
            f" and {len(files) - 6:,} more" if len(files) > 6 else ""
        )
        rows.append(("source", join([f"{len(files):,} files, {size:,} bytes: ", text(named)])))
        lines = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in rows]
        return join([self.unfinished(), tag("div", tag("table", lines), class_="wide")])

    def unfinished(self) -> Markup:
        parts, failed, said = self.scan["parts"], self.scan["failed_files"], []
        if not self.scan["complete"]:
            said.append(tag("p", f"The scan is not finished: {parts['there']:,} of {parts['of']:,} parts are there. "
                                 "The same command goes on with the others.", class_="bad"))  # fmt: skip
        if failed:
            rows = [[text(file["file"]), sentence(file["error"]["message"])] for file in failed]
            said += [tag("p", f"Files that cannot be read, or not to their end: {len(failed):,}.", class_="bad"),
                     _table(("file", "why"), rows)]  # fmt: skip
        skipped = self.scan["skipped_files"]
        if skipped["count"]:
            more = (
                f" and {skipped['count'] - len(skipped['files']):,} more"
                if skipped["count"] > len(skipped["files"])
                else ""
            )
            said.append(tag("p", f"Files of other formats or kinds that were not read, {skipped['count']:,}: ", text(", ".join(skipped["files"])), more + ".",
                            class_="soft"))  # fmt: skip
        return join(said)

    def tiles(self) -> Markup:
        value = self.value
        percentiles = {each["p"]: each for each in value["lengths"]["percentiles"]}
        tiles = [(f"{value['rows']['total']:,}", "rows"), (self.count("refused rows", value["rows"]["failed"]), "refused"),
                 (f"{value['lengths']['tokens']:,}", "tokens")]  # fmt: skip
        for p, name in (
            (50, "tokens in the middle row"),
            (99, "tokens that 99 % do not exceed"),
            (100, "tokens in the longest row"),
        ):
            if p in percentiles:
                tiles.append((self.count(f"{percentiles[p]['tokens']:,} {name}", percentiles[p], "tokens"), name))
        training, control, compare = value["training"], value["control"]["from_content"], value["compare"]
        tiles.append(
            (
                self.count("rows in which nothing is trained", training["nothing_trained"]),
                "rows without a trained token",
            )
        )
        tiles.append(
            (
                self.count("rows whose content writes control tokens", control),
                "rows whose content writes control tokens",
            )
        )
        if compare is not None:
            differing = sum(compare[name]["rows"] for name in ("ids_differ", "only_bytes_differ"))
            tiles.append((tag("a", f"{differing:,}", href="#compare"), "rows that differ between A and B"))
        return tag("ul", [tag("li", tag("b", number), tag("span", name)) for number, name in tiles], class_="tiles")

    def parts(self) -> list[tuple[str, str, Markup | None]]:
        value = self.value
        made = [
            ("refused", "Refused rows", self.refused(value["errors"], "")),
            ("lengths", "Lengths", self.lengths()),
            ("windows", "What a context window leaves out", self.windows()),
            ("findings", "Findings", self.findings()),
            ("training", "What is trained", self.training()),
            ("control", "Control tokens and losses", self.control()),
            ("prefix", "What a prefix cache keeps", self.prefix()),
            ("compare", "A against B", self.compare()),
            ("logits", "What a model gives next", self.logits()),
            ("read", "How rows were read", self.read()),
        ]
        return [*made, ("rows", "The rows behind the numbers", self.named())]

    def refused(self, errors: list[dict[str, Any]], side: str) -> Markup | None:
        if not errors:
            return tag("p", "None.", class_="soft") if not side else None
        rows = []
        for error in errors:
            for k, reason in enumerate(error["reasons"]):
                said = f"{error['kind']}{side}: {reason['reason']}"
                head = ["", ""] if k else [text(error["kind"]), error["stage"]]
                rows.append([*head, self.count(said, reason), self.share(reason["rows"]), sentence(reason["reason"])])
        return _table(("kind", "stage", "#rows", "#of all", "+why; # stands for a number"), rows)

    def lengths(self) -> Markup:
        lengths = self.value["lengths"]
        if not lengths["rows"]:
            return tag("p", "No row has a length.", class_="soft")
        parts = [self.histogram(lengths, "tokens in a row")]
        heads = [_p(each) for each in lengths["percentiles"]]
        cells = [
            self.count(f"{head}: {each['tokens']:,} tokens", each, "tokens")
            for head, each in zip(heads, lengths["percentiles"])
        ]
        parts.append(_table([f"#{head}" for head in heads], [cells]))
        mean, size = lengths["mean"], self.value["text_bytes"]
        rate = f"; {size / lengths['tokens']:.2f} bytes a token" if lengths["tokens"] and size else ""
        parts.append(
            tag(
                "p",
                f"{lengths['tokens']:,} tokens in {lengths['rows']:,} rows, {mean:,.1f} in the mean{rate}.",
                class_="soft",
            )
        )
        for name, title in (
            ("origin", "By who wrote it"),
            ("role", "By role of the message"),
            ("script", "By script of what messages say"),
        ):
            parts += [tag("h3", title), self.share_table(name)]
        return join(parts)

    def histogram(self, lengths: dict[str, Any], x_name: str) -> Markup:
        bars = []
        for bar in lengths["histogram"]:
            said = f"{bar['from']:,} to {bar['to'] - 1:,} tokens: {bar['rows']:,} {_rows(bar['rows'])}"
            bars.append((f"{bar['from']:,}", bar["rows"], said, self.group(said.rsplit(":", 1)[0], bar)))
        return plots.histogram(
            bars, x_name, "rows", f"Histogram of {x_name}: " + "; ".join(bar[2] for bar in bars if bar[1])
        )

    def share_table(self, kind: str) -> Markup:
        parts = self.value[f"by_{kind}"]
        rows = [
            [part[kind].replace("_", " "), f"{part['tokens']:,}", _bar(part["share"]), f"{100 * part['share']:.2f} %",
             self.count(f"rows with tokens of {kind} {part[kind]}", part),
             *(self.count(f"{kind} {part[kind]}, {_p(each)}", each, "tokens") for each in part["percentiles"])]
            for part in parts
        ]  # fmt: skip
        return _table(
            (kind, "#tokens", "share of all tokens", "#", "#rows with it", "#p50", "#p90", "#p99", "#longest"), rows
        )

    def windows(self) -> Markup | None:
        windows, total = self.value["windows"], self.value["lengths"]["rows"]
        if not total or not windows["curve"]:
            return None
        tokens = self.value["lengths"]["tokens"] or 1
        points = windows["curve"]
        lines = [("rows that do not fit", [(each["window"], each["rows"] / total) for each in points]),
                 ("tokens beyond it", [(each["window"], each["tokens"] / tokens) for each in points])]  # fmt: skip
        given, rows = [], []
        for each in windows["given"]:
            size, over = each["window"], each["over"]
            said = f"window {size:,}: {over['rows']:,} {_rows(over['rows'])} do not fit"
            given.append((size, over["rows"] / total, said, self.group(said.rsplit(":", 1)[0], over)))
            counts = [self.count(f"window {size:,}: {title}", each[name]) for name, title in _EFFECTS]
            lost = f"{each['cut']['times'] + each['dropped']['times']:,}"
            broken = tag(
                "ul",
                [
                    tag("li", self.count(f"window {size:,}: {b['what']}", b), " ", _words(b["what"]))
                    for b in each["broken"]
                ],
                class_="list",
            )
            rows.append([f"{size:,}", counts[0], self.share(over["rows"], total), *counts[1:], lost, broken])
        reserve = f", of which {windows['reserve']:,} tokens are kept for the answer" if windows["reserve"] else ""
        picture = plots.curve(lines, given, f"context window, tokens{reserve}", "share",
                              "Share of rows that do not fit, by context window: " + "; ".join(f"{each['window']:,} {each['rows'] / total:.1%}" for each in points[:: max(1, len(points) // 8)]))  # fmt: skip
        heads = (
            "#window",
            "#rows over it",
            "#of all",
            "#rejected",
            "#a part cut",
            "#parts dropped",
            "#trained tokens beyond",
            "#tokens lost",
            "broken by it",
        )
        table = (
            _table(heads, rows)
            if rows
            else tag(
                "p", "No window was asked for: give --context-window to see what the policy would do.", class_="soft"
            )
        )
        return join([picture, table])

    def findings(self) -> Markup:
        found, of_side = self.value["findings"], self.value["side_findings"]
        if not found and not of_side:
            return tag("p", "None.", class_="soft")
        rows = [
            [text(f["rule"]), f["severity"] or "", self.count(f"finding {f['rule']}", f), self.share(f["rows"]),
             _bar(f["rows"] / found[0]["rows"]), f"{f['times']:,}", sentence(f["title"] or "")]
            for f in found
        ]  # fmt: skip
        made = [_table(("rule", "severity", "#rows", "#of all", "", "#times", "+what"), rows)] if rows else []
        if of_side:
            once = [
                [
                    text(f["rule"]),
                    f["severity"] or "",
                    self.count(f"finding {f['rule']}", f),
                    sentence(f["title"] or ""),
                ]
                for f in of_side
            ]
            made += [tag("h3", "Of the template or the tokenizer"),
                     tag("p", "These come from the template or the tokenizer, whatever a row's text says, so that most or all rows have them: they are mended there, once.",
                         class_="soft"),
                     _table(("rule", "severity", "#rows", "+what"), once)]  # fmt: skip
        return join(made)

    def training(self) -> Markup:
        training = self.value["training"]
        whole = training["trained"] + training["masked"]
        said = (
            f"{training['trained']:,} of {whole:,} tokens are trained ({100 * training['trained'] / whole:.2f} %), labels {self.scan['label_mode']}. "
            if whole
            else ""
        )
        rows = [
            [
                sentence(alarm["alarm"].replace("_", " ") + (f" ({OF_SIDE_SAID})" if alarm["of_side"] else "")),
                self.count(f"alarm {alarm['alarm']}", alarm),
                self.share(alarm["rows"]),
            ]
            for alarm in training["alarms"]
        ]
        table = _table(("mask alarm", "#rows", "#of all"), rows) if rows else tag("p", "No mask alarm.", class_="soft")
        nothing = join(
            [
                self.count("rows in which nothing is trained", training["nothing_trained"]),
                " rows have no trained token.",
            ]
        )
        return join([tag("p", said, nothing), table])

    def control(self) -> Markup:
        rows = []
        for group, name, title in _CONTROL:
            entry = self.value[group][name]
            rows.append([title, self.count(title, entry), self.share(entry["rows"]), f"{entry['times']:,}"])
        return _table(("what", "#rows", "#of all", "#tokens or bytes"), rows)

    def prefix(self) -> Markup | None:
        prefix = self.value["prefix"]
        if not prefix["steps"]:
            return None
        share = prefix["reused_share"]
        said = f"{prefix['reused']:,} of {prefix['tokens']:,} tokens of the inputs on the way stand at the same place in the next input"
        rows = [[title, self.count(title, prefix["rows"][name]), self.share(prefix["rows"][name]["rows"]), f"{prefix['rows'][name]['times']:,}"]
                for name, title in (("broken", "rows with an input that is no prefix of the next"), ("refused", "rows with an input that the template refuses"))]  # fmt: skip
        for place in prefix["broken_by"][:20]:
            where = f"template line {place['line']}" if "line" in place else place["path"]
            rows.append(
                [
                    join(["first parted by ", text(where)]),
                    self.count(f"first parted by {where}", place),
                    self.share(place["rows"]),
                    "",
                ]
            )
        return join(
            [
                tag("p", f"{said}{'' if share is None else f': {share:.1%}'}."),
                _table(("what", "#rows", "#of all", "#inputs"), rows),
            ]
        )

    def compare(self) -> Markup | None:
        compare = self.value["compare"]
        if compare is None:
            return None
        rows = [[title, self.count(title, compare[name]), self.share(compare[name]["rows"])] for name, title in SIDES]
        parts = [_table(("what", "#rows", "#of all"), rows)]
        if compare["reasons"]:
            reasons = [
                [
                    text(r["reason_code"]),
                    sentence(_reason_title(r["reason_code"])),
                    self.count(f"first difference: {r['reason_code']}", r),
                    self.share(r["rows"]),
                ]
                for r in compare["reasons"]
            ]
            parts += [tag("h3", "First difference, by reason"), _table(("reason", "what", "#rows", "#of all"), reasons)]
        parts.append(
            tag(
                "p",
                f"B has {compare['delta']:+,} tokens in all: {compare['lengths']['tokens']:,} against {self.value['lengths']['tokens']:,}.",
            )
        )
        for name, title in (("longer", "tokens more in B"), ("shorter", "tokens fewer in B")):
            if compare[name]["rows"]:
                parts += [tag("h3", title[0].upper() + title[1:]), self.histogram(compare[name], title)]
        refused = self.refused(compare["errors"], " on side B")
        return join(parts if refused is None else [*parts, tag("h3", "Refused by side B"), refused])

    def logits(self) -> Markup | None:
        logits = self.value["logits"]
        if logits is None:
            return None
        rows = [_logits_row(self, row) for row in logits["rows"]]
        said = f"{logits['answered']:,} of {logits['asked']:,} rows, chosen by seed {logits['seed']}, answered by "
        return join([tag("p", said, text(f"{logits['model']} ({logits['backend']})"), "."),
                     _table(("row", "#tokens", "next token", "#probability", "#entropy", "#KL of A and B", "error"), rows)])  # fmt: skip

    def read(self) -> Markup:
        rows = [
            [text(form["form"]), self.count(f"read as {form['form']}", form), self.share(form["rows"])]
            for form in self.value["forms"]
        ]
        last = [
            [text(role["role"]), self.count(f"last message of {role['role']}", role), self.share(role["rows"])]
            for role in self.value["last_roles"]
        ]
        return join(
            [
                _table(("form", "#rows", "#of all"), rows),
                tag("h3", "Who speaks last"),
                _table(("role", "#rows", "#of all"), last),
            ]
        )

    def named(self) -> Markup:
        said = tag("p", "A link opens the row on the page (", tag("code", "python -m inspector serve"),
                   " on the machine that has the scan); a command, given beside the scan's folder, prints it. Rows are numbered from 0.", class_="soft")  # fmt: skip
        return join([said, *self.groups])

    def foot(self) -> Markup:
        versions = ", ".join(f"{name} {version}" for name, version in self.scan["versions"].items())
        return tag("p", "Made with ", text(versions), ".", class_="soft")


_EFFECTS = (("over", "rows over it"), ("rejected", "rejected: the required parts do not fit"), ("cut", "a part is cut"),
            ("dropped", "parts are dropped"), ("trained_beyond", "trained tokens lie beyond it"))  # fmt: skip
_CONTROL = (
    ("control", "all", "control tokens"),
    ("control", "from_content", "control tokens that content wrote"),
    ("control", "crossing", "of these, written by template and content together"),
    ("control", "look_alike", "text that spells a control token and did not become one"),
    ("losses", "unknown_tokens", "unknown tokens: text is lost"),
    ("losses", "uncovered_bytes", "bytes that no token covers"),
    ("losses", "provenance_unknown", "rows whose writers are not known for all bytes"),
)
SIDES = (
    ("equal", "the same bytes and ids"),
    ("ids_differ", "other ids, whatever the bytes"),
    ("bytes_differ", "other bytes and other ids"),
    ("only_ids_differ", "the same bytes, other ids"),
    ("only_bytes_differ", "other bytes, the same ids"),
    ("only_a_failed", "refused by A only"),
    ("only_b_failed", "refused by B only"),
    ("both_failed", "refused by both"),
    ("not_compared", "unread or stopped before both were asked"),
)


def _logits_row(made: _Report, row: dict[str, Any]) -> list[str]:
    top = row["top"][0] if row["top"] else None
    error = row["error"]
    return [
        made.row(row), "–" if row["tokens"] is None else f"{row['tokens']:,}", text(top["piece"] or "") if top else "",
        f"{top['prob']:.4f}" if top and top.get("prob") is not None else "–", _float(row["entropy"]), _float(row["kl"]),
        sentence(error["message"]) if error else "",
    ]  # fmt: skip


def _float(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _reason_title(code: str) -> str:
    from inspector.reasons import Reason

    return next((reason.title for reason in Reason if reason.value == code), "")


def _artifact(artifact: dict[str, Any] | None) -> Markup:
    if artifact is None:
        return sentence("the tokenizer's own")
    revision = f"@{artifact['revision']}" if artifact.get("revision") and "@" not in (artifact["ref"] or "") else ""
    named = artifact.get("name")
    return join(
        [
            text(f"{artifact['ref'] or ''}{revision}{f' ({named})' if named else ''}"),
            "  ",
            tag("code", artifact["digest"][:12], class_="soft"),
        ]
    )


def _p(percentile: dict[str, Any]) -> str:
    p = percentile["p"]
    return "shortest" if not p else "longest" if p == 100 else f"p{p:g}"


def _rows(count: int) -> str:
    return "row" if count == 1 else "rows"


def _bar(share: float) -> Markup:
    inner = tag("i", style=f"width: {100 * share:.2f}%")
    return tag("span", inner, class_="share", role="img", **{"aria-label": f"{share:.1%}"})


def _words(name: str) -> Markup:
    """Spell a name of ours, or an error's kind, in words that may break at their gaps."""
    return sentence(name.replace("_", " "))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Make a table. A head that begins with # is of numbers, with + of a column of sentences."""
    kinds = [{"#": "num", "+": "words"}.get(head[:1]) for head in heads]
    head = tag(
        "tr",
        [
            tag("th", head.lstrip("#+") if kind else head, scope="col", class_="num" if kind == "num" else None)
            for head, kind in zip(heads, kinds)
        ],
    )
    body = [tag("tr", [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds)]) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="wide")
