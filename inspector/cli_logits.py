"""The command about what a model says next: logits, with a prompt's heat, a sampler, a walk and what-ifs.

It registers itself on cli.py's app, and like it holds no logic: what is printed comes from the JSON values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from inspector.cli import (
    ClockOpt,
    EngineOpt,
    JsonOpt,
    NameOpt,
    NoPromptOpt,
    ProfileOpt,
    RequestArg,
    SetOpt,
    TemplateOpt,
    TokenizerOpt,
    TopOpt,
    _finish,
    _options,
    _print_json,
    _read,
    _run,
    app,
)
from inspector.errors import ErrorKind, InspectorError
from inspector.terminal import visible

BAR = 12  # characters of a full bar
SCHEMA = "logits/1"


@app.command(
    name="logits", epilog="Example: python -m inspector logits chat.json --b smollm2,chatml --heat --walk 16 --what-if"
)
def logits_command(
    request: RequestArg,
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    b: Annotated[str | None, typer.Option("--b", metavar="TOKENIZER[,TEMPLATE]", help="A second side.")] = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    no_generation_prompt: NoPromptOpt = False,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    engine: EngineOpt = "jinja2",
    model: Annotated[str | None, typer.Option("--model", metavar="REF", help="The model; default: smollm2.")] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="float32|bfloat16|float16", help="What to compute in.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="local|worker|openai", help="Where the model runs.")
    ] = None,
    backend_url: Annotated[
        str | None, typer.Option("--backend-url", metavar="URL", help="The server of --backend openai.")
    ] = None,
    top_k: TopOpt = 10,
    watch: Annotated[
        str, typer.Option("--watch", metavar="TEXT", help='A token to list too: a text, or "#2 #198".')
    ] = "",
    heat: Annotated[bool, typer.Option("--heat", help="Also how expected each token of the prompt was.")] = False,
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler", metavar="NAME=VALUE,...", help="Also what is left: temperature=0.7,top_p=0.9,order=vllm."
        ),
    ] = None,
    walk: Annotated[int, typer.Option("--walk", metavar="N", min=0, help="Also go on greedily, up to N tokens.")] = 0,
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="Begin the walk with this text.")] = "",
    stop: Annotated[list[str] | None, typer.Option("--stop", metavar="TEXT", help="A stop string of the walk.")] = None,
    what_if: Annotated[bool, typer.Option("--what-if", help="Also the same prompt with one thing otherwise.")] = False,
    as_json: JsonOpt = False,
) -> None:
    """Show what a model expects next, on one side or two, and what follows from it."""
    shared = {
        "tokenizer": tokenizer, "template": template, "name": name, "arguments": set_, "clock": clock,
        "profile": profile, "engine": engine, "add_generation_prompt": not no_generation_prompt,
    }  # fmt: skip

    def work() -> dict[str, Any]:
        from inspector import modelservice as ask

        data, first = _read(request), _options(shared)
        asking = ask.Asking(model or "", _backend(backend, backend_url), dtype=dtype, report=_told())
        found: dict[str, Any] = {"schema": SCHEMA}

        def put(name: str, value: dict[str, Any]) -> None:
            found[name] = value
            if not as_json:
                _PRINTED[name](value, Console())

        sides = [first] if b is None else [first, _options({**shared, **_side(b)})]
        table = ask.ask_verdict(data, sides, asking, top_k=top_k, typed=watch)
        put("verdict", table)
        failed = next((side["error"] for side in table["sides"] if side["error"]), None)
        if failed is not None:
            return {**found, "error": failed}
        if sampler is not None:
            put("sampler", ask.ask_sampler(data, first, asking, _settings(sampler), top_k=top_k))
        if heat:
            put("heat", ask.ask_heat(data, first, asking))
        if what_if:
            put("whatif", ask.ask_whatif(data, first, asking))
        if walk or text:
            going = ask.Going(text=text, tokens=max(walk, 1), limit=max(walk, 1), stop_strings=tuple(stop or ()))
            steps = ask.ask_walk(data, first, asking, going)
            found["walk"] = list(steps if as_json else _streamed(steps))
        return {**found, "error": None}

    result = _run(work, as_json, schema=SCHEMA)
    if as_json:
        _print_json(result)
    _finish(result["error"])


def _backend(name: str | None, url: str | None) -> Any:
    from inspector import service
    from inspector.backends import load_backend

    if name is None and url is None:
        return service.model_worker()
    return load_backend(name or "openai", url)


def _side(text: str) -> dict[str, Any]:
    from inspector.job import side_options

    return {"template": None, **side_options(text)}


def _settings(text: str) -> dict[str, Any]:
    """Read "temperature=0.7,top_p=0.9".

    Errors: OptionInvalid.

    >>> _settings("temperature=0.7,order=vllm")
    {'temperature': 0.7, 'order': 'vllm'}
    """
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        try:
            settings[key.strip()] = value.strip() if key.strip() == "order" else float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InspectorError(
                ErrorKind.OptionInvalid,
                f"{part[:40]!r} is no NAME=NUMBER",
                stage="options",
                where={"option": "--sampler"},
                remedy="write temperature=0.7,top_k=40,top_p=0.9,min_p=0.05,repetition_penalty=1.1,order=vllm",
            )
    return settings


def _told() -> Any:
    """Say on a terminal what the backend is doing."""
    if not sys.stderr.isatty():
        return None

    def report(doing: str, done: int = 0, total: int = 0, /) -> None:
        print(f"\r\x1b[K{doing}{f' {done} of {total} tokens' if done else ''}", end="", file=sys.stderr, flush=True)
        if doing == "computing" and not done:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    return report


def _streamed(steps: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Print each step as it comes: its text, control tokens as they are spelled; at last what stopped it."""
    step: dict[str, Any] = {"stop": "window"}  # what stops a walk that cannot take a step
    print("walk: ", end="")
    for step in steps:
        settled = bytes.fromhex(step["settled"] or "").decode("utf-8", "replace")
        print(visible(settled) if step["control"] else settled, end="", flush=True)
        yield step
    reasons = {"eos": "an end token", "window": "the window is full", "length": "the limit of new tokens"}
    print(f"\n({step['stop'] and reasons.get(step['stop'], repr(step['stop']))})")


def _print_verdict(found: dict[str, Any], console: Console) -> None:
    good = [q for q, side in enumerate(found["sides"]) if side["error"] is None]
    if not good:
        return
    most = max((cell["prob"] for row in found["rows"] for cell in row["cells"] if cell), default=1.0)
    heads = [f"{'AB'[q]}: probability, rank, logprob" for q in good]
    table = Table("token", "id", *heads, title=f"{found['model']} ({found['device']}, {found['dtype']})")
    for row in found["rows"]:
        cells = [_cell(row["cells"][q], most) for q in good]
        why = " ".join(sorted({pin["why"] for pin in row["pins"]}))
        token = Text(_token(row), style="" if row["has_token"] else "dim") + Text(
            f"  {why}" if why else "", style="dim"
        )
        table.add_row(token, str(row["id"]), *cells)
    console.print(table)
    for q in good:
        side = found["sides"][q]
        times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in side["timings_ms"].items())
        entropy = "?" if side["entropy"] is None else f"{side['entropy']:.4f} nats"
        print(f"{'AB'[q]}: {side['tokens']} tokens ({side['reused']} kept), entropy {entropy}; {times}")
    for distance in found["distances"]:
        changed = "changes" if distance["top1_changed"] else "stays"
        print(
            f"KL(A‖B) {distance['kl_ab']}, KL(B‖A) {distance['kl_ba']}, JS {distance['js']} nats; the top token {changed}"
        )


def _print_sampler(found: dict[str, Any], console: Console) -> None:
    table = Table("token", "id", "raw", "after", title=f"sampler, in the order of {found['sampler']['order']}")
    for row in found["rows"]:
        after = f"cut by {row['cut_by']}" if row["cut_by"] else f"{row['after']:.4f}"
        table.add_row(Text(_token(row)), str(row["id"]), f"{row['raw']:.4f}", after)
    console.print(table)
    for cut in found["cuts"]:
        print(
            f"{cut['filter']} {cut['value']:g} cuts {cut['cut']} tokens that hold {cut['mass']:.4f}; {cut['left']} are left"
        )


def _print_heat(found: dict[str, Any], console: Console) -> None:
    table = Table("part", "tokens", "mean logprob", "least expected", title=f"prompt: loss {-found['mean']:.4f} nats")
    for part in found["parts"]:
        worst = f"{visible(part['worst_piece'] or '(no token)')} #{part['worst']}"
        table.add_row(Text(part["path"] or part["kind"]), str(part["tokens"]), f"{part['mean']:.3f}", Text(worst))
    console.print(table)


def _print_whatif(found: dict[str, Any], console: Console) -> None:
    table = Table(Column("what if", no_wrap=True), "tokens", "JS", "logit change", "most probable then")
    for row in found["rows"]:
        if row["why_not"] or row["error"]:
            why = row["why_not"] or InspectorError.from_dict(row["error"]).one_line()
            table.add_row(row["name"], "", "", "", Text(visible(why), style="dim"))
            continue
        far, top = row["distance"], row["top"]
        said = Text(f"{'! ' if far['top1_changed'] else ''}{_token(top)} {top['prob']:.4f}")
        table.add_row(row["name"], str(row["tokens"]), str(far["js"]), str(far["max_logit_change"]), said)
    console.print(table)


def _cell(cell: dict[str, Any] | None, most: float) -> Text:
    if cell is None:
        return Text("not listed", style="dim")
    bar = "█" * round(BAR * cell["prob"] / most)
    return Text(f"{cell['prob']:.4f} #{cell['rank']:<6} {cell['logprob']:8.3f} ") + Text(bar, style="blue")


def _token(row: dict[str, Any]) -> str:
    return "(no such token)" if row["piece"] is None else visible(row["piece"])


_PRINTED = {"verdict": _print_verdict, "sampler": _print_sampler, "heat": _print_heat, "whatif": _print_whatif}
