"""The commands about a scan that was made: its summary and report, and one of its rows.

They register themselves on cli.py's app, and like it hold no logic: what is printed comes from the JSON values.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inspector.cli import JsonOpt, TopOpt, _bad_option, _finish, _print_json, _progress, _run, app
from inspector.terminal import visible

if TYPE_CHECKING:
    from inspector.scan.picked import Picked

FolderArg = Annotated[
    str, typer.Argument(metavar="FOLDER", help="The folder that scan --out wrote, or a scan's id.", show_default=False)
]


@app.command(name="summary", epilog="Example: python -m inspector summary scan-of-data --html report.html")
def summary_command(
    folder: FolderArg,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the report, one HTML file.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="URL", help="The page that the report's links lead to.")
    ] = None,
    as_json: JsonOpt = False,
) -> None:
    """Count what a scan found: lengths, windows, refused rows, findings, masks, control tokens, A against B."""

    def work() -> dict[str, Any]:
        from inspector.scan.output import write_bytes
        from inspector.scan.picked import folder_of, remember_scan
        from inspector.scan.report import PAGE, report
        from inspector.scan.summary import current_summary, write_summary

        place = folder_of(folder)
        with _rows_bar("reading parts") as tell:
            value = current_summary(place, tell)
        remember_scan(place, value["scan"]["id"])
        if html is None:
            write_summary(place, value, page)
        else:
            write_bytes(html, report(value, page=page or PAGE))
        return value

    value = _run(work, as_json, schema="scan-summary/1")
    if as_json:
        _print_json(value)
    else:
        print_summary(value)


@app.command(name="row", epilog="Example: python -m inspector row scan-of-data data.jsonl 17 --json")
def row_command(
    folder: FolderArg,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file, as the scan names it.", show_default=False)],
    row: Annotated[int, typer.Argument(metavar="ROW", help="The row's number, from 0.", show_default=False)],
    side: Annotated[str, typer.Option("--side", metavar="a|b", help="Which side of a comparison.")] = "a",
    request: Annotated[bool, typer.Option("--request", help="Print the row as a request, and no more.")] = False,
    top_k: TopOpt = 10,
    as_json: JsonOpt = False,
) -> None:
    """Inspect one row of a scan, as the scan did."""

    def work() -> Any:
        from inspector import service
        from inspector.scan.picked import folder_of, pick, request_of_row

        picked = pick(folder_of(folder), file, row)
        text = request_of_row(picked)
        if request:
            return text
        with _progress() as progress:
            return service.inspect(text, picked.options(_side(side, picked)), top_k=top_k, progress=progress)

    result = _run(work, as_json, schema="inspection/1")
    if request:
        sys.stdout.buffer.write(result + b"\n")
        return
    if as_json:
        _print_json(result)
    elif result["rendered"] is not None:
        from inspector.terminal import console, print_inspection

        print_inspection(result, console())
    _finish(result["error"])


def ask_model(folder: Path, count: int, seed: int, model: str | None, backend: str | None, url: str | None) -> None:
    """Send rows of a scan to a model and keep what it gives beside the table. Errors: OptionInvalid, those of the backend."""
    from inspector.cli_logits import _backend
    from inspector.modelservice import Asking
    from inspector.scan.sampled import ask_rows

    with _rows_bar("asking the model") as tell:
        ask_rows(folder, count, Asking(model or "", _backend(backend, url)), seed=seed, tell=tell)


@contextlib.contextmanager
def _rows_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar of rows on a terminal, else none."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True), transient=True) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _side(name: str, picked: Picked) -> int:
    number = {"a": 0, "b": 1}.get(name.lower())
    if number is None or number >= len(picked.refs):
        raise _bad_option("--side", f"the scan has no side {name!r}", "a" if len(picked.refs) == 1 else "a or b")
    return number


def print_summary(value: dict[str, Any]) -> None:
    """Print a summary for people: the numbers that decide, each with a first row."""
    from inspector.scan.report import SIDES
    from inspector.scan.summary import OF_SIDE_SAID

    rows, lengths, scan = value["rows"], value["lengths"], value["scan"]
    if not scan["complete"]:
        print(f"not finished: {scan['parts']['there']} of {scan['parts']['of']} parts")
    for failed in scan["failed_files"]:
        print(f"file      {visible(failed['file'])}: {visible(failed['error']['message'])}")
    if scan["failed_files"]:
        print(f"failed    {len(scan['failed_files']):>9,}  files that could not be read, or not to their end")
    print_skipped(scan["skipped_files"])
    print(f"rows      {rows['total']:,}, of which {rows['failed']['rows']:,} refused")
    for error in value["errors"]:
        for reason in error["reasons"]:
            print(_line("refused", reason, f"{error['kind']}: {reason['reason']}"))
    if lengths["rows"]:
        named = ", ".join(f"p{each['p']:g} {each['tokens']:,}" for each in lengths["percentiles"] if each["p"] >= 50)
        print(f"tokens    {lengths['tokens']:,}; {named}")
    for window in value["windows"]["given"]:
        rest = f"rejected {window['rejected']['rows']:,}, cut {window['cut']['rows']:,}, dropped from {window['dropped']['rows']:,}"
        print(_line("window", window["over"], f"longer than {window['window']:,}: {rest}"))
    for found, of in ((value["findings"], ""), (value["side_findings"], f" ({OF_SIDE_SAID})")):
        for finding in found:
            said = f"{finding['rule']}: {finding['title'] or ''}{of}"
            print(_line(finding["severity"] or "finding", finding, said))
    training, control, compare, logits = value["training"], value["control"], value["compare"], value["logits"]
    print(_line("training", training["nothing_trained"], "no trained token"))
    for alarm in training["alarms"]:
        print(_line("alarm", alarm, alarm["alarm"] + (f" ({OF_SIDE_SAID})" if alarm["of_side"] else "")))
    print(
        _line(
            "control", control["from_content"], f"content writes control tokens ({control['from_content']['times']:,})"
        )
    )
    if compare is not None:
        for name, title in SIDES:
            if compare[name]["rows"]:
                print(_line("A and B", compare[name], title))
        for reason in compare["reasons"]:
            print(_line("reason", reason, reason["reason_code"]))
    if logits is not None:
        said = f"of {logits['asked']:,} rows answered by {logits['model']} ({logits['backend']})"
        print(visible(f"logits    {logits['answered']:>9,}  {said}"))


def print_skipped(skipped: dict[str, Any]) -> None:
    """Print which files of a folder were not read."""
    if skipped["count"]:
        more = (
            f" and {skipped['count'] - len(skipped['files']):,} more"
            if skipped["count"] > len(skipped["files"])
            else ""
        )
        print(
            visible(
                f"skipped   {skipped['count']:>9,}  files of other formats or kinds: {', '.join(skipped['files'])}{more}"
            )
        )


def _line(name: str, entry: dict[str, Any], what: str) -> str:
    first = entry["examples"][0] if entry["examples"] else None
    place = f"  [{first['file']} row {first['row']}]" if first else ""
    return visible(f"{name:<9} {entry['rows']:>9,}  {what}{place}")
