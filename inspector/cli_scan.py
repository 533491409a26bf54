"""The command that inspects whole datasets: options into a plan, a progress bar, the summary, the exit code."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from inspector.cli import (
    EXIT_DIFFERENT,
    ClockOpt,
    JsonOpt,
    NameOpt,
    PolicyOpt,
    ProfileOpt,
    ReserveOpt,
    SetOpt,
    TemplateOpt,
    TokenizerOpt,
    UrlOpt,
    _bad_option,
    _options,
    _print_json,
    _progress,
    _run,
    app,
)

SCHEMA = "scan-counts/1"


@app.command(
    name="scan",
    epilog="Example: python -m inspector scan data.jsonl --tokenizer qwen3 --context-window 4096 --out scanned",
)
def scan_command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            help="JSONL, JSON (also .gz, .zst), CSV, Parquet or Arrow files, folders of them, a dataset.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder of the table; an unfinished one goes on.")
    ],
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    b: Annotated[
        str | None, typer.Option("--b", metavar="TOKENIZER[,TEMPLATE]", help="Compare every row with this side.")
    ] = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    template_engine: Annotated[
        str, typer.Option("--template-engine", metavar="jinja2|minijinja", help="The template engine.")
    ] = "jinja2",
    generation_prompt: Annotated[
        bool, typer.Option("--generation-prompt", help="End every row with a generation prompt.")
    ] = False,
    context_window: Annotated[
        list[int] | None,
        typer.Option("--context-window", metavar="N", help="A window to decide for; may be given again."),
    ] = None,
    max_new_tokens: ReserveOpt = 0,
    policy: PolicyOpt = "messages",
    column: Annotated[
        str | None, typer.Option("--column", metavar="NAME", help="The column of the conversation; default: found.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", metavar="FILE", help="JSON array of tools for rows without their own.")
    ] = None,
    tools_column: Annotated[
        str | None, typer.Option("--tools-column", metavar="NAME", help="The column of a row's tools; default: tools.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--labels", metavar="assistant_only|last_turn|all", help="Which tokens are trained.")
    ] = "assistant_only",
    prefix: Annotated[
        bool, typer.Option("--prefix/--no-prefix", help="Say what a prefix cache keeps from turn to turn.")
    ] = True,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N rows.")] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="K", min=1, help="Only K rows, chosen by --seed.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The seed of --sample.")] = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, help="Processes; default: one a core.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="local|ray", help="Where rows are worked on: here, or on a Ray cluster."),
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address", metavar="ADDRESS", help="HOST:PORT of the cluster, or auto; default: a new one here."
        ),
    ] = None,
    logits_sample: Annotated[
        int | None,
        typer.Option("--logits-sample", metavar="K", min=1, help="Send K rows, chosen by --seed, to a model."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="REF", help="The model for --logits-sample; of a server, one of its names."),
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="worker|openai", help="Where the model of --logits-sample runs.")
    ] = None,
    backend_url: UrlOpt = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="URL", help="The page that the report's links lead to.")
    ] = None,
    row_seconds: Annotated[
        float, typer.Option("--row-seconds", metavar="S", min=1, help="CPU that one row may use.")
    ] = 30.0,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="RULE:COUNT",
            help="Exit 1 if so many rows have it: a lint rule's id, a mask alarm, refused, control-from-content, ids-differ "
            "(with --b), over-N or rejected-N of a --context-window N; or so many files are failed-files. May be given again.",
        ),
    ] = None,
    as_json: JsonOpt = False,
    progress_lines: Annotated[
        bool, typer.Option("--progress-lines", hidden=True, help="Write progress as JSON lines on standard error.")
    ] = False,
) -> None:
    """Inspect every row of a dataset: lengths, cuts, masks, findings, refusals, into one table and a summary."""
    shared = {
        "name": name, "arguments": set_, "profile": profile, "engine": template_engine,
        "add_generation_prompt": generation_prompt, "max_new_tokens": max_new_tokens, "policy": policy,
    }  # fmt: skip
    sides = [{"tokenizer": tokenizer, "template": template}, *_side_b(b)]
    windows = tuple(sorted(set(context_window or ())))
    how = {
        "windows": windows, "column": column, "tools_column": tools_column,
        "label_mode": mode, "prefix": prefix, "row_seconds": row_seconds,
    }  # fmt: skip

    def work() -> dict[str, Any]:
        from inspector.scan import output, source
        from inspector.scan.counts import Threshold, counted

        run = _engine(engine, ray_address, workers)
        wanted = [Threshold.read(item, windows) for item in fail_on or ()]
        plan = _plan(sides, {**shared, "clock": clock or _clock_of(out)}, {**how, "tools": _tools(tools)})
        with _progress() as progress:
            rows = source.open_source(
                sources, rows_per_part=plan.rows_per_part, limit=limit, sample=sample, seed=seed, progress=progress
            )
        opened = output.open_output(out, plan, rows)
        bar = _Lines(rows.rows) if progress_lines else _Bar(rows.rows, shown=not as_json and sys.stderr.isatty())
        with bar as tell:
            tell(rows.rows - sum(part.rows for part in opened.pending()), 0)
            try:
                run(plan, opened, tell=tell)
            except KeyboardInterrupt:
                print("inspector: stopped; the same command goes on from here", file=sys.stderr)
                raise
        source.check_unchanged(rows)
        try:
            if logits_sample is not None:
                from inspector.cli_scanned import ask_model

                ask_model(out, logits_sample, seed, model, backend, backend_url)
        finally:  # the scan is whole, whether or not a model answers
            _summarise(out, page)
        return counted(out, wanted)

    result = _run(work, as_json, schema=SCHEMA)
    if as_json:
        _print_json(result)
    else:
        _print(result, out)
    exceeded = [entry for entry in result["fail_on"] if entry["failed"]]
    for entry in exceeded:
        said = (
            f"files that cannot be read: {entry['rows']:,}"
            if entry["name"] == "failed-files"
            else f"{entry['rows']:,} rows have {entry['name']}"
        )
        print(f"inspector: {said}; --fail-on {entry['name']}:{entry['count']}", file=sys.stderr)
    if exceeded:
        raise typer.Exit(EXIT_DIFFERENT)


def _engine(name: str, address: str | None, workers: int | None) -> Callable[..., Any]:
    """Give what runs a plan. Errors: OptionInvalid, CapabilityMissing."""
    from inspector.scan.engine import workers_of

    if name == "local" and address is None:
        from inspector.scan import local

        return functools.partial(local.run, workers=workers_of(workers))
    if name == "ray":
        from inspector.scan import ray_engine

        ray_engine.check_installed()
        return functools.partial(ray_engine.run, workers=workers, address=address)
    if name == "local":
        raise _bad_option("--ray-address", "the engine local runs on this machine", "give --engine ray with it")
    raise _bad_option("--engine", f"there is no engine {name!r}", "choose local or ray")


def _summarise(out: Path, page: str | None) -> None:
    from inspector.scan.picked import remember_scan
    from inspector.scan.summary import summarise, write_summary

    value = summarise(out)
    write_summary(out, value, page)
    remember_scan(out, value["scan"]["id"])


def _side_b(b: str | None) -> list[dict[str, Any]]:
    from inspector.job import side_options

    return [] if b is None else [side_options(b)]


def _plan(sides: list[dict[str, Any]], shared: dict[str, Any], how: dict[str, Any]) -> Any:
    """Bring the artifacts of both sides; every row sees the same time."""
    from inspector.job import prepare
    from inspector.pipeline import budget_of
    from inspector.scan.plan import PlanSide, ScanPlan
    from inspector.training.labels import LabelMode
    from inspector.training.runs import member

    member(LabelMode, how["label_mode"], "--labels")
    made = []
    with _progress() as progress:
        for side in sides:
            options = _options({**shared, **side})
            for window in how["windows"]:
                budget_of(replace(options, context_window=window))
            job = prepare(b"[]", options, progress)
            made.append(PlanSide(options, job.tokenizer, job.template))
    return ScanPlan(tuple(made), **how)


def _clock_of(out: Path) -> str:
    """Give the time that templates see where none is given: that of the scan that goes on, else now."""
    from inspector.scan.output import read_manifest

    manifest = read_manifest(out)
    if manifest is not None:
        return str(manifest["plan"]["sides"][0]["options"]["clock"])
    return datetime.now().astimezone().isoformat()


def _tools(path: Path | None) -> str | None:
    """Read a file of tools. Errors: InputInvalid."""
    from inspector.job import read_request_file
    from inspector.jsontext import loads

    if path is None:
        return None
    text = read_request_file(path).decode("utf-8", "replace")
    if not isinstance(loads(text, root="tools"), list):
        raise _bad_option("--tools", f"{path.name} holds no array", "give a JSON array of tools")
    return text


class _Bar:
    """A progress bar on stderr: rows, rate, time left, rows with an error. Silent where it is not to be shown."""

    def __init__(self, total: int, *, shown: bool) -> None:
        self.total, self.errors = total, 0
        self.bar = self._made() if shown else None

    def _made(self) -> Any:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")

        return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(),
                        TimeRemainingColumn(), console=Console(stderr=True), speed_estimate_period=60)  # fmt: skip

    def __enter__(self) -> Callable[[int, int], None]:
        if self.bar is None:
            return lambda rows, errors: None
        self.bar.start()
        self.task = self.bar.add_task("scanning", total=self.total)
        return self.update

    def update(self, rows: int, errors: int) -> None:
        self.errors += errors
        said = f"scanning, {self.errors:,} refused" if self.errors else "scanning"
        if self.bar is None:
            return
        self.bar.update(self.task, advance=rows, description=said)

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.stop()


class _Lines:
    """Progress for a program, on stderr: a JSON line {done, of, refused} at a time."""

    EVERY_S = 0.2

    def __init__(self, total: int) -> None:
        self.said = {"done": 0, "of": total, "refused": 0}
        self.at = 0.0

    def __enter__(self) -> Callable[[int, int], None]:
        return self.update

    def update(self, rows: int, errors: int) -> None:
        self.said["done"] += rows
        self.said["refused"] += errors
        if time.monotonic() - self.at >= self.EVERY_S:
            self.write()

    def write(self) -> None:
        self.at = time.monotonic()
        print(json.dumps(self.said), file=sys.stderr, flush=True)

    def __exit__(self, *exc: object) -> None:
        self.write()


def _print(result: dict[str, Any], out: Path) -> None:
    from inspector.cli_scanned import print_skipped
    from inspector.terminal import visible

    print(
        f"{result['rows']:,} rows in {visible(str(out))}, {result['refused']:,} of them refused; its report.html has them all"
    )
    for name in ("errors", "findings", "alarms", "windows"):
        for key, number in result[name].items():
            print(f"{name:9} {number:>9,}  {visible(key)}")
    for failed in result["failed_files"]:
        print(f"not read, or not whole: {visible(failed['file'])}: {visible(failed['error']['message'])}")
    if result["failed_files"]:
        print(f"files that could not be read: {len(result['failed_files']):,}; that alone is exit code 0, "
              "unless --fail-on failed-files:1 is given")  # fmt: skip
    print_skipped(result["skipped_files"])
