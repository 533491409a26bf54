"""The commands about records: replay one, compare two, print the schemas of what the commands print.

They register themselves on cli.py's app and hold no logic of their own: what is printed comes from `replay/1`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from inspector.cli import EXIT_DIFFERENT, JsonOpt, _bad_option, _finish, _print_json, _progress, _run, app

RecordsArg = Annotated[
    list[Path], typer.Argument(metavar="RECORD...", help="Files that `inspect --record` wrote.", show_default=False)
]


@app.command(
    name="replay",
    epilog="Example: python -m inspector replay record.json --against template=qwq-32b@16488a",
)
def replay_command(
    records: RecordsArg,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="NAME=VALUE",
            help="Another template, tokenizer, engine, profile, policy or clock; may be given again.",
        ),
    ] = None,
    request: Annotated[
        Path | None, typer.Option("--request", metavar="FILE", help="The request, instead of the record's own text.")
    ] = None,
    sent: Annotated[
        Path | None,
        typer.Option("--sent", metavar="FILE", help="Compare with what a program really sent: JSON as for lint."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", metavar="REF", help="Where the recorded tokenizer lies here.")
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="REF", help="Where the recorded template lies here.")
    ] = None,
    as_json: JsonOpt = False,
) -> None:
    """Make a record's input again, and stop at the first stage that differs. Exit code 1 when one does."""

    def work(record: Path) -> dict[str, Any]:
        value = read_record_file(record)
        if sent is not None:
            return _against_sent(value, sent)
        named = {"tokenizer": tokenizer, "template": template}
        return _replay(
            value,
            None if request is None else request,
            {name: ref for name, ref in named.items() if ref is not None},
            dict(_pair(item) for item in against or ()),
        )

    if len(records) > 1 and (request is not None or sent is not None):
        option = "--request" if request is not None else "--sent"
        _finish(_bad_option(option, "it is about one record", "name one record").to_dict())
    results = []
    for record in records:
        results.append(_run(functools.partial(work, record), as_json, schema="replay/1"))
        if len(records) > 1 and not as_json:
            _print_name(record)
        print_replay(results[-1], as_json)
    _exit(results)


@app.command(name="schema", epilog="Example: python -m inspector schema record/1 > record-1.schema.json")
def schema_command(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which one; without a name they are listed.")] = "",
) -> None:
    """Print the JSON Schema of what a command prints or writes."""
    from inspector import schemas

    def work() -> str:
        if not name:
            return "\n".join(schemas.names()) + "\n"
        if name not in schemas.names():
            raise _bad_option("NAME", f"there is no schema {name!r}", f"one of {', '.join(schemas.names())}")
        return schemas.text(name)

    sys.stdout.write(_run(work, False, schema=""))


def compare_files(a: str, b: str, as_json: bool) -> None:
    """Compare two records, stage by stage. Exit code 1 when they differ."""

    def work() -> dict[str, Any]:
        from inspector.parting import compare_records

        return compare_records(read_record_file(Path(a)), read_record_file(Path(b))).to_dict()

    result = _run(work, as_json, schema="replay/1")
    print_replay(result, as_json)
    _exit([result])


def read_record_file(path: Path) -> dict[str, Any]:
    """Read a record's file. Errors: InputInvalid for the file, RecordInvalid for what it holds."""
    from inspector.replay import MAX_RECORD_BYTES, read_record

    try:
        with path.open("rb") as file:
            return read_record(file.read(MAX_RECORD_BYTES + 1))
    except OSError as error:
        raise _bad_option(
            "RECORD", f"cannot read {path.name}: {error.strerror}", "give a file that `inspect --record` wrote"
        ) from None


def write_record(path: Path, request: bytes, options: Any, digests_only: bool) -> None:
    """Record an inspection into a file. Errors: as service.record; OptionInvalid for a place that cannot be written."""
    import rfc8785

    from inspector import service

    with _progress() as progress:
        data = rfc8785.dumps(service.record(request, options, digests_only=digests_only, progress=progress))
    try:
        path.write_bytes(data)
    except OSError as error:
        raise _bad_option(
            "--record", f"cannot write {path.name}: {error.strerror}", "name a file in a folder that is there"
        ) from None


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not value:
        raise _bad_option("--against", f"{item!r} is not NAME=VALUE", "write --against template=REF")
    return name, value


def _replay(
    value: dict[str, Any], request: Path | None, places: dict[str, str], against: dict[str, str]
) -> dict[str, Any]:
    from inspector import service
    from inspector.job import read_request_file

    given = None if request is None else read_request_file(request)
    with _progress() as progress:
        return service.replay(value, request=given, places=places, against=against, progress=progress)


def _against_sent(value: dict[str, Any], path: Path) -> dict[str, Any]:
    from inspector.job import read_request_file
    from inspector.jsontext import loads
    from inspector.lint.evidence import read_sent
    from inspector.parting import compare_records
    from inspector.replay import as_sent

    sent = read_sent(loads(read_request_file(path).decode("utf-8", "replace"), root="sent", stage="options"))
    return compare_records(value, as_sent(value, sent)).to_dict()


# --- what is printed ------------------------------------------------------------------------------------------------

_MARKS = {"equal": "=", "different": "≠", "not reached": "·", "skipped": "-"}
_STYLES = {"equal": "green", "different": "bold red", "not reached": "dim", "skipped": "dim"}


def print_replay(result: dict[str, Any], as_json: bool) -> None:
    """Print a replay for people or programs."""
    if as_json:
        _print_json(result)
    else:
        _print_text(result)


def _exit(results: list[dict[str, Any]]) -> None:
    """Exit with the code of an error, or with 1 if something differs."""
    for result in results:
        _finish(result["error"])
    if not all(result["equal"] for result in results):
        raise typer.Exit(EXIT_DIFFERENT)


def _print_name(record: Path) -> None:
    from rich.text import Text

    from inspector.terminal import console, visible

    console().print(Text(visible(str(record)), "bold underline"))


def _print_text(result: dict[str, Any]) -> None:
    from rich.text import Text

    from inspector.terminal import console, visible

    out = console()

    def line(text: str, style: str = "") -> None:
        out.print(Text(visible(text), style), soft_wrap=True)

    for row in result["stages"]:
        why = "" if row["outcome"] == "different" else row["why"]
        line(f"{_MARKS[row['outcome']]} {row['stage']:<9} {row['outcome']:<12}{why}".rstrip(), _STYLES[row["outcome"]])
    difference = result["difference"]
    if difference is not None:
        line(f"first difference: {difference['stage']}, {difference['path']}", "bold")
        line(f"  {difference['message']}")
        for cause in difference["causes"]:
            line(f"  {cause}")
    for note in result["notes"]:
        line(f"note: {note}", "dim")
    if result["versions"]:
        named = (f"{row['name']} {row['a'] or 'none'} -> {row['b'] or 'none'}" for row in result["versions"])
        line(f"other versions: {', '.join(named)}", "dim")
