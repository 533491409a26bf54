"""The command `export`: files to take away. It registers itself on cli.py's app and holds no logic of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inspector.cli import (
    ERROR_PREFIX,
    ClockOpt,
    ContinueOpt,
    EngineOpt,
    NameOpt,
    NoPromptOpt,
    PolicyOpt,
    ProfileOpt,
    RequestArg,
    ReserveOpt,
    SetOpt,
    TemplateOpt,
    TokenizerOpt,
    WindowOpt,
    _at_one_time,
    _options,
    _progress,
    _read,
    _run,
    app,
)
from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.exports.base import File

FORMS = ("html", "python", "pytest", "csv", "parquet")


@app.command(
    name="export",
    epilog="Example: python -m inspector export chat.json --tokenizer qwen3 --format html --out report.html",
)
def export_command(
    request: RequestArg,
    form: Annotated[str, typer.Option("--format", metavar="|".join(FORMS), help="What is written.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PATH", help="The file; for python and pytest the folder; - for standard output."
        ),
    ],
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    b: Annotated[
        str | None,
        typer.Option("--b", metavar="TOKENIZER[,TEMPLATE]", help="A second side to compare with (html)."),
    ] = None,
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
) -> None:
    """Write a report, code that makes the same ids with transformers alone, a pytest file that pins them, or the tokens as a table."""
    shared = {
        "name": name, "arguments": set_, "add_generation_prompt": not no_generation_prompt,
        "continue_final_message": continue_final_message, "clock": clock, "profile": profile, "engine": engine,
        "context_window": context_window, "max_new_tokens": max_new_tokens, "policy": policy,
    }  # fmt: skip
    sides: list[dict[str, Any]] = [{"tokenizer": tokenizer, "template": template}]

    def work() -> None:
        from inspector.job import side_options

        if b is not None:
            sides.append(side_options(b))
        for path in _write(_export(_read(request), shared, sides, form), form, out):
            print(f"{ERROR_PREFIX}wrote {path}", file=sys.stderr)

    _run(work, False, schema="")


def _export(request: bytes, shared: dict[str, Any], sides: list[dict[str, Any]], form: str) -> tuple[File, ...]:
    from inspector import service

    if len(sides) > 1:
        shared = _at_one_time(shared)
    with _progress() as progress:
        options = [_options({**shared, **side}) for side in sides]
        return service.export(request, options, form, progress=progress)


def _write(files: tuple[File, ...], form: str, out: Path) -> list[str]:
    """Write the files; give where.

    Errors: InputInvalid for a path that cannot be written, OptionInvalid for a folder on standard output.
    """
    from inspector.exports import find_export

    folder = find_export(form).folder
    if str(out) == "-":
        if folder:
            raise _cannot_write(ErrorKind.OptionInvalid, f"{form} gives {len(files)} files", "name a folder with --out")
        sys.stdout.buffer.write(files[0].data)
        sys.stdout.buffer.flush()
        return []
    try:
        if folder:
            out.mkdir(parents=True, exist_ok=True)
        paths = [out / file.name for file in files] if folder else [out]
        for path, file in zip(paths, files, strict=True):
            path.write_bytes(file.data)
    except OSError as error:
        raise _cannot_write(ErrorKind.InputInvalid, f"cannot write {out}: {error.strerror}", "give a path that can be written") from None  # fmt: skip
    return [str(path) for path in paths]


def _cannot_write(kind: ErrorKind, message: str, remedy: str) -> InspectorError:
    return InspectorError(kind, message, stage="options", where={"option": "--out"}, remedy=remedy)
