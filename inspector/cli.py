"""The command line: read options, run the pipeline in a sandboxed child, print a result for people or programs.

It holds no logic of its own: what is printed comes from `inspection/1` or `comparison/1`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from inspector.errors import ErrorKind, InspectorError
from inspector.request import dump_request

app = typer.Typer(
    name="inspector",
    help="See what a chat template and a tokenizer really send to the model.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,  # typer's own is for a program on PATH; the command `completion` is for python -m
)

ERROR_PREFIX = "inspector: "
EXIT_DIFFERENT = 1
EXIT_INTERRUPTED = 130
COMPLETE_VARIABLE = "_INSPECTOR_COMPLETE"

RequestArg = Annotated[str, typer.Argument(metavar="REQUEST", help="A JSON file, or - for standard input.")]
TokenizerOpt = Annotated[str, typer.Option("--tokenizer", metavar="REF", help="Preset id or source reference.")]
TemplateOpt = Annotated[
    str | None,
    typer.Option(
        "--template", metavar="REF", help="Preset id, id@revision, path or source; default: the tokenizer's own."
    ),
]
NameOpt = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Which of several named templates.")]
SetOpt = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=JSON", help="A template argument; may be given again.")
]
NoPromptOpt = Annotated[bool, typer.Option("--no-generation-prompt", help="Leave the generation prompt out.")]
ContinueOpt = Annotated[
    bool, typer.Option("--continue-final-message", help="Continue the last message (no generation prompt then).")
]
ClockOpt = Annotated[
    str | None, typer.Option("--clock", metavar="ISO8601", help="The time templates see; default: now.")
]
ProfileOpt = Annotated[
    str, typer.Option("--profile", metavar="transformers|vllm|openai", help="What is done before rendering.")
]
EngineOpt = Annotated[str, typer.Option("--engine", metavar="jinja2|minijinja|llama.cpp", help="The template engine.")]
WindowOpt = Annotated[int | None, typer.Option("--context-window", metavar="N", help="Fit the input into N tokens.")]
ReserveOpt = Annotated[int, typer.Option("--max-new-tokens", metavar="G", help="Tokens of the window kept for output.")]
PolicyOpt = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="messages|keep_first|drop_middle|tokens_left|tokens_right|tokens_middle|reject",
        help="What gives way when it does not fit.",
    ),
]
MediaOpt = Annotated[
    str,
    typer.Option(
        "--media",
        metavar="auto|written|expanded",
        help="Count an image as its placeholder or as what the processor writes; auto: the latter in a context window.",
    ),
]
MediaRuleOpt = Annotated[
    str | None, typer.Option("--media-rule", metavar="ID", help="The image rule of a preset; default: the template's.")
]
ImageTokensOpt = Annotated[
    int | None, typer.Option("--image-tokens", metavar="N", help="Tokens of one image, typed: an estimate.")
]
LogitsOpt = Annotated[bool, typer.Option("--logits", help="Add the next-token logits of a real model.")]
ModelOpt = Annotated[
    str | None, typer.Option("--model", metavar="REF", help="The model for --logits; of a server, one of its names.")
]
BackendOpt = Annotated[
    str,
    typer.Option("--backend", metavar="local|openai", help="Where the model of --logits runs: here, or on a server."),
]
UrlOpt = Annotated[
    str | None,
    typer.Option(
        "--backend-url", metavar="URL", help="A model server (vLLM, SGLang, llama.cpp); its key: INSPECTOR_BACKEND_KEY."
    ),
]
TopOpt = Annotated[int, typer.Option("--top-k", metavar="K", min=1, help="How many next tokens to list.")]
RecordOpt = Annotated[
    Path | None, typer.Option("--record", metavar="FILE", help="Also write a record that replay and compare read.")
]
DigestsOpt = Annotated[
    bool, typer.Option("--digests-only", help="In the record, only digests of what the artifacts' authors wrote.")
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command(name="inspect", epilog="Example: python -m inspector inspect chat.json --tokenizer qwen3 --json")
def inspect_command(
    request: RequestArg,
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    no_generation_prompt: NoPromptOpt = False,
    continue_final_message: ContinueOpt = False,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    engine: EngineOpt = "jinja2",
    context_window: WindowOpt = None,
    max_new_tokens: ReserveOpt = 0,
    policy: PolicyOpt = "messages",
    media: MediaOpt = "auto",
    media_rule: MediaRuleOpt = None,
    image_tokens: ImageTokensOpt = None,
    logits: LogitsOpt = False,
    model: ModelOpt = None,
    backend: BackendOpt = "",
    backend_url: UrlOpt = None,
    top_k: TopOpt = 10,
    record: RecordOpt = None,
    digests_only: DigestsOpt = False,
    as_json: JsonOpt = False,
) -> None:
    """Render and tokenize a request, and say who wrote each byte."""
    options = {
        "tokenizer": tokenizer, "template": template, "name": name, "arguments": set_,
        "add_generation_prompt": not no_generation_prompt, "continue_final_message": continue_final_message,
        "clock": clock, "profile": profile, "engine": engine, "context_window": context_window,
        "max_new_tokens": max_new_tokens, "policy": policy, "media": media, "media_rule": media_rule,
        "image_tokens": image_tokens,
    }  # fmt: skip

    def work() -> dict[str, Any]:
        data = _read(request)
        if record is not None:
            from inspector.cli_records import write_record

            chosen = _options(_at_one_time(options))
            write_record(record, data, chosen, digests_only)
        return _inspect(data, options, _model(logits, model, backend, backend_url), top_k)

    result = _run(work, as_json, schema="inspection/1")
    if as_json:
        _print_json(result)
    elif result["rendered"] is not None:
        from inspector.terminal import console, print_inspection

        print_inspection(result, console())
    _finish(result["error"])


@app.command(
    name="compare",
    epilog="Example: python -m inspector compare chat.json --a smollm2,qwq-32b --b smollm2,qwq-32b@16488a, "
    "or two records: python -m inspector compare a.json b.json",
)
def compare_command(
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="A JSON file, - for standard input, or a record.")],
    other: Annotated[
        str | None, typer.Argument(metavar="[RECORD]", help="With two records: the second; no options then.")
    ] = None,
    a: Annotated[str | None, typer.Option("--a", metavar="TOKENIZER[,TEMPLATE]", help="Side A.")] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="TOKENIZER[,TEMPLATE]", help="Side B.")] = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    no_generation_prompt: NoPromptOpt = False,
    continue_final_message: ContinueOpt = False,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    engine: EngineOpt = "jinja2",
    context_window: WindowOpt = None,
    max_new_tokens: ReserveOpt = 0,
    policy: PolicyOpt = "messages",
    media: MediaOpt = "auto",
    media_rule: MediaRuleOpt = None,
    image_tokens: ImageTokensOpt = None,
    logits: LogitsOpt = False,
    model: ModelOpt = None,
    backend: BackendOpt = "",
    backend_url: UrlOpt = None,
    top_k: TopOpt = 10,
    as_json: JsonOpt = False,
) -> None:
    """Inspect a request two ways, or read two records, and show where they part. Exit code 1 when they differ."""
    if other is not None:
        from inspector.cli_records import compare_files

        compare_files(request, other, as_json)
        return
    shared = {
        "name": name, "arguments": set_, "add_generation_prompt": not no_generation_prompt,
        "continue_final_message": continue_final_message, "clock": clock, "profile": profile, "engine": engine,
        "context_window": context_window, "max_new_tokens": max_new_tokens, "policy": policy, "media": media, "media_rule": media_rule,
        "image_tokens": image_tokens,
    }  # fmt: skip

    def work() -> dict[str, Any]:
        if a is None or b is None:
            remedy = "give both --a and --b, or two records"
            raise _bad_option("--a" if a is None else "--b", "a request is compared two ways", remedy)
        return _compare(_read(request), shared, a, b, _model(logits, model, backend, backend_url), top_k)

    result = _run(work, as_json, schema="comparison/1")
    if as_json:
        _print_json(result)
    else:
        from inspector.terminal import console, print_comparison

        print_comparison(result, console())
    for side in ("a", "b"):
        _finish(result[side]["error"], side=side.upper())
    if not (result["equal"]["bytes"] and result["equal"]["ids"]):
        raise typer.Exit(EXIT_DIFFERENT)


@app.command(epilog="Example: python -m inspector presets --json")
def presets(as_json: JsonOpt = False) -> None:
    """List the tokenizers and templates that have an id here, and which are in the cache."""
    from inspector.presets import catalogue

    listing = _run(catalogue, as_json, schema="presets/1")
    if as_json:
        _print_json(listing)
        return
    from inspector.terminal import console, print_presets

    print_presets(listing, console())


@app.command(epilog="Example: python -m inspector count chat.json --openai-model gpt-4o-mini")
def count(
    request: RequestArg,
    openai_model: Annotated[str, typer.Option("--openai-model", metavar="M", help="An OpenAI chat model's name.")],
    as_json: JsonOpt = False,
) -> None:
    """Estimate the prompt tokens that an OpenAI chat model bills for a request."""
    result = _run(lambda: _count(_read(request), openai_model), as_json, schema="count/1")
    if as_json:
        _print_json(result)
        return
    for warning in result["warnings"]:
        print(f"{ERROR_PREFIX}warning: {warning}", file=sys.stderr)
    print(f"{result['total']} tokens (estimate) for {result['resolved_model']}: "
          f"{result['message_tokens']} messages, {result['tool_tokens']} tools")  # fmt: skip


@app.command(epilog="Example: python -m inspector fetch smollm2 qwen3")
def fetch(
    refs: Annotated[
        list[str] | None, typer.Argument(metavar="[REF]...", help="Presets; default: the embedded one.")
    ] = None,
    convert: Annotated[
        bool, typer.Option("--model/--no-model", help="Also prepare the model of the embedded default.")
    ] = True,
) -> None:
    """Fetch and verify artifacts, so that everything later works without network."""

    def work() -> None:
        from inspector.job import FIRST_PANES
        from inspector.sources import resolve_template, resolve_tokenizer

        with _progress() as progress:
            for ref in refs or [pane["tokenizer"] for pane in FIRST_PANES]:
                resolve_tokenizer(ref, progress=progress)
            if not refs:
                for pane in FIRST_PANES:
                    resolve_template(pane["template"], progress=progress)
                if convert:
                    _prepare_model(progress)

    _run(work, False, schema="")
    print("ready", file=sys.stderr)


def _prepare_model(progress: Callable[[int, int, str], None] | None) -> None:
    from inspector.backends.local import converted_folder
    from inspector.sources import resolve_model

    model = resolve_model("smollm2", progress=progress)

    def tell(step: str, done: int = 0, total: int = 0, /) -> None:
        print(f"{step} the model of the default (once)", file=sys.stderr)

    converted_folder(model, tell)


@app.command(epilog="Example: python -m inspector serve --port 7860")
def serve(
    host: Annotated[str, typer.Option("--host", help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to bind.")] = 7860,
) -> None:
    """Serve the page."""
    from inspector.ui import calls as page

    page.start(host)  # before Gradio is imported, as app.py does
    from inspector.ui import layout

    layout.build().launch(server_name=host, server_port=port, **layout.launch_settings())


def main() -> None:
    """Run the command line, or complete what a shell has of it (cli_completion.py)."""
    _open_streams()
    if COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init

        completion_init()
    sys.exit(_exit_code())


def _open_streams() -> None:
    """Open the null device where a standard stream was closed: else the next file that is opened takes its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                opened = os.open(os.devnull, os.O_RDWR)
                os.dup2(opened, number)
                os.set_inheritable(number, True)  # dup2 leaves it as it is where both are the same
                if opened != number:
                    os.close(opened)
                setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports only some of what it raises


def _exit_code() -> int:
    """Run the app; what is wrong with the options, or with where the output goes, becomes one line."""
    try:
        code = app(complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        return _usage_error(error)
    except typer.Abort:
        return EXIT_INTERRUPTED
    except OSError as error:
        return _output_error(error)
    return code if isinstance(code, int) else 0


def _usage_error(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    parameter, context = getattr(error, "param", None), getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    if parameter is not None:
        option = parameter.opts[0] if parameter.param_type_name == "option" else parameter.name.upper()
    near = getattr(error, "possibilities", None)
    help_of = context.command_path if context is not None else "python -m inspector"
    remedy = (f"nearest: {', '.join(near)}; " if near else "") + f"`{help_of} --help` lists what there is"
    message = getattr(error, "message", "") or error.format_message()
    where = {"option": option} if option else {"command": help_of}
    return _say(
        InspectorError(ErrorKind.OptionInvalid, message.rstrip("."), stage="options", where=where, remedy=remedy)
    )


def _output_error(error: OSError) -> int:
    """Say that the output cannot be written; then nothing more goes there, not even when Python flushes it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    what = f"{error.filename} cannot be used" if error.filename else "the output cannot be written"
    message, remedy = f"{what}: {error.strerror}", "free space there, or send the output to another place"
    return _say(InspectorError(ErrorKind.OptionInvalid, message, stage="options", remedy=remedy))


def _read(request: str) -> bytes:
    """Read a request; a body, row or log line of another kind is converted, and what was done is said on stderr."""
    from inspector.job import read_bounded, read_request_file, request_limits
    from inspector.pasting import as_request

    given = read_bounded(sys.stdin.buffer) if request == "-" else read_request_file(Path(request))
    data, found = as_request(given, limits=request_limits())
    if found is not None:
        from inspector.terminal import visible

        did = "; ".join(f"{note.what} {note.name}{note.to and f' to {note.to}'}" for note in found.notes)
        print(ERROR_PREFIX + visible(f"read as {found.shape} ({found.form}): {did}"), file=sys.stderr)
    return data


def _model(logits: bool, model: str | None, backend: str, url: str | None) -> dict[str, Any]:
    """Give which model is asked and where, as arguments of `service`.

    Errors: OptionInvalid.
    """
    if not (logits or model or backend or url):
        return {}
    from inspector.backends import load_backend

    name = backend or ("openai" if url else "local")
    if name == "local" and url is None:
        return {"model": model or "smollm2"}
    return {"model": model, "backend": load_backend(name, url)}


def _inspect(request: bytes, options: dict[str, Any], model: dict[str, Any], top_k: int) -> dict[str, Any]:
    from inspector import service

    with _progress() as progress:
        return service.inspect(request, _options(options), **model, top_k=top_k, progress=progress)


def _compare(
    request: bytes, shared: dict[str, Any], a: str, b: str, model: dict[str, Any], top_k: int
) -> dict[str, Any]:
    from inspector import service
    from inspector.job import side_options

    shared = _at_one_time(shared)
    sides = [_options({**shared, **side_options(side)}) for side in (a, b)]
    with _progress() as progress:
        return service.compare(request, *sides, **model, top_k=top_k, progress=progress)


def _at_one_time(options: dict[str, Any]) -> dict[str, Any]:
    """Pin the clock to now where none is given, so that two runs see the same time."""
    from datetime import datetime

    options["clock"] = options["clock"] or datetime.now().astimezone().isoformat()
    return options


def _count(request: bytes, model: str) -> dict[str, Any]:
    from inspector import service

    return service.count(request, model)


def _options(values: dict[str, Any]) -> Any:
    from inspector.job import make_options

    arguments = dict(_argument(item) for item in values["arguments"] or ())
    return make_options(**{**values, "arguments": arguments})


def _argument(item: str) -> tuple[str, Any]:
    """Read KEY=JSON strictly.

    Errors: OptionInvalid.
    """
    from inspector.jsontext import loads

    key, equals, text = item.partition("=")
    if not equals or not key:
        raise _bad_set(item, "it has no KEY=")
    try:
        return key, loads(text, root=f"--set {key}", stage="options")
    except InspectorError as error:
        raise _bad_set(item, error.message) from None


def _bad_option(option: str, why: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, why, stage="options", where={"option": option}, remedy=remedy)


def _bad_set(item: str, why: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid,
        f"{item!r} is not KEY=JSON: {why}",
        stage="options",
        where={"option": "--set"},
        remedy="""write --set enable_thinking=false or --set 'date_string="26 Jul 2024"' (strings in double quotes)""",
    )


def _run(work: Callable[[], Any], as_json: bool, *, schema: str) -> Any:
    """Run `work`; an InspectorError becomes one line on stderr, `error` in the JSON, and its exit code."""
    try:
        return work()
    except InspectorError as error:
        if as_json:
            from inspector import service

            _print_json(service.failed_answer(schema, error))
        _finish(error.to_dict())
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _finish(error: dict[str, Any] | None, side: str = "") -> None:
    if error is None:
        return
    raise typer.Exit(_say(InspectorError.from_dict(error), side))


def _say(failure: InspectorError, side: str = "") -> int:
    """Print an error as one line; give its exit code."""
    from inspector.terminal import visible

    print(ERROR_PREFIX + (f"{side}: " if side else "") + visible(failure.one_line()), file=sys.stderr)
    return failure.kind.exit_code


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(dump_request(value).encode("utf-8", "surrogatepass") + b"\n")
    sys.stdout.buffer.flush()


class _progress:
    """A progress bar on stderr when it is a terminal; otherwise silent."""

    def __enter__(self) -> Callable[[int, int, str], None] | None:
        if not sys.stderr.isatty():
            return None
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self.bars = Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
                             console=Console(stderr=True), transient=True)  # fmt: skip
        self.bars.start()
        self.tasks: dict[str, Any] = {}
        return self.update

    def update(self, done: int, total: int, label: str) -> None:
        if label not in self.tasks:
            self.tasks[label] = self.bars.add_task(label, total=total or None)
        self.bars.update(self.tasks[label], completed=done, total=total or None)

    def __exit__(self, *exc: object) -> None:
        if hasattr(self, "bars"):
            self.bars.stop()


import inspector.cli_completion  # noqa: E402 - registers its command on `app`
import inspector.cli_export  # noqa: E402 - registers its command on `app`
import inspector.cli_lint  # noqa: E402 - registers its command on `app`
import inspector.cli_logits  # noqa: E402 - registers its command on `app`
import inspector.cli_records  # noqa: E402 - registers its commands on `app`
import inspector.cli_scan  # noqa: E402 - registers its command on `app`
import inspector.cli_scanned  # noqa: E402 - registers its commands on `app`
import inspector.cli_sources  # noqa: E402 - registers its commands on `app`
import inspector.cli_tokenizers  # noqa: E402 - registers its commands on `app`
import inspector.cli_training  # noqa: E402, F401 - registers its commands on `app`
