"""The command `lint`: check a request with every rule, for people, programs, and continuous integration.

It registers itself on cli.py's app and holds no logic of its own: what is printed comes from `lint/1`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from inspector.cli import (
    ClockOpt,
    ContinueOpt,
    EngineOpt,
    NameOpt,
    NoPromptOpt,
    PolicyOpt,
    ProfileOpt,
    ReserveOpt,
    SetOpt,
    TemplateOpt,
    TokenizerOpt,
    WindowOpt,
    _finish,
    _options,
    _print_json,
    _progress,
    _read,
    _run,
    app,
)
from inspector.errors import ErrorKind, InspectorError
from inspector.findings import spell

FORMATS = ("text", "json", "sarif", "github")
FAIL_ON = ("error", "warning", "note", "never")
EXIT_FOUND = 1

RequestsArg = Annotated[
    list[str] | None,
    typer.Argument(metavar="REQUEST...", help="JSON files, or - for standard input.", show_default=False),
]


@app.command(
    name="lint",
    epilog="Example: python -m inspector lint chat.json --tokenizer qwen3 --fail-on warning --format github",
)
def lint_command(
    requests: RequestsArg = None,
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
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The model's config.json; default: beside the tokenizer."),
    ] = None,
    generation_config: Annotated[
        Path | None,
        typer.Option(
            "--generation-config", metavar="FILE", help="generation_config.json; default: beside the tokenizer."
        ),
    ] = None,
    sent: Annotated[
        Path | None,
        typer.Option(
            "--sent", metavar="FILE", help="What a program sent: JSON with text, input_ids, attention_mask, ..."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="REF", help="The tokenizer that this one should be equal to.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="RULE=REASON", help="Silence a rule, saying why; may be given again."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="How findings are printed.")
    ] = "text",
    fail_on: Annotated[
        str, typer.Option("--fail-on", metavar="|".join(FAIL_ON), help="Exit with 1 at this severity or above.")
    ] = "error",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and stop.")] = False,
) -> None:
    """Check a request, its template and its tokenizer with every rule. Exit code 1 when something is found."""
    as_json = format_ == "json"
    _run(lambda: _check_choices(format_, fail_on), as_json, schema="lint/1")
    if rules:
        _print_rules(as_json)
        return
    options = {
        "tokenizer": tokenizer, "template": template, "name": name, "arguments": set_,
        "add_generation_prompt": not no_generation_prompt, "continue_final_message": continue_final_message,
        "clock": clock, "profile": profile, "engine": engine, "context_window": context_window,
        "max_new_tokens": max_new_tokens, "policy": policy,
    }  # fmt: skip

    def work() -> list[_Printed]:
        files = {"config": config, "generation_config": generation_config, "sent": sent}
        read = {key: _read_json(path, key) for key, path in files.items() if path is not None}
        reasons = _reasons(ignore or [])
        texts = [(name, _read(name)) for name in _given(requests)]
        return [_Printed(_lint(text, options, read, base, reasons), name, template, text) for name, text in texts]

    printed = _run(work, as_json, schema="lint/1")
    if as_json:
        for one in printed:
            _print_json({**one.result, "fail_on": fail_on})
    else:
        {"text": _print_text, "sarif": _print_sarif, "github": _print_github}[format_](printed)
    if any(_found(one.result, fail_on) for one in printed):
        raise typer.Exit(EXIT_FOUND)
    for one in printed:
        _finish(one.result["error"])


def _check_choices(format_: str, fail_on: str) -> None:
    """Errors: OptionInvalid."""
    for option, value, known in (("--format", format_, FORMATS), ("--fail-on", fail_on, FAIL_ON)):
        if value not in known:
            raise InspectorError(
                ErrorKind.OptionInvalid,
                f"{value!r} is none of {', '.join(known)}",
                stage="options",
                where={"option": option},
                remedy=f"write {option} {known[0]}",
            )


def _given(requests: list[str] | None) -> list[str]:
    if requests:
        return requests
    raise InspectorError(
        ErrorKind.OptionInvalid,
        "no request is given",
        stage="options",
        where={"argument": "REQUEST"},
        remedy="give a JSON file, or - for standard input; --rules lists the rules without one",
    )


def _read_json(path: Path, key: str) -> Any:
    from inspector.job import read_request_file
    from inspector.jsontext import loads

    return loads(read_request_file(path).decode("utf-8", "replace"), root=key, stage="options")


def _reasons(items: list[str]) -> dict[str, str]:
    """Read RULE=REASON. Errors: OptionInvalid."""
    from inspector.lint import RULES
    from inspector.lint.report import check_ignored

    parts = [item.partition("=") for item in items]
    return check_ignored({rule.strip(): reason.strip() for rule, _equals, reason in parts}, (rule.id for rule in RULES))


def _lint(
    request: bytes, options: dict[str, Any], files: dict[str, Any], base: str | None, ignore: dict[str, str]
) -> dict[str, Any]:
    from inspector import service

    with _progress() as progress:
        return service.lint(request, _options(options), files=files, base=base, ignore=ignore, progress=progress)


def _found(result: dict[str, Any], fail_on: str) -> bool:
    if fail_on == "never":
        return False
    return any(result["counts"][severity] for severity in FAIL_ON[: FAIL_ON.index(fail_on) + 1])


# --- what is printed ------------------------------------------------------------------------------------------------


class _Printed:
    """A result with what is needed to point into files: the request's text and name, the template's file."""

    def __init__(self, result: dict[str, Any], request: str, template: str | None, text: bytes) -> None:
        self.result, self.request = result, request
        self.template = template if template is not None and Path(template).is_file() else None
        self._text = text.decode("utf-8", "replace")

    def place(self, finding: dict[str, Any]) -> tuple[str | None, int | None]:
        """Give file and line of a finding: the template's where it names a line of one, else the request's."""
        where = finding["where"]
        if self.template and where.get("line"):
            return self.template, where["line"]
        if self.request == "-":
            return None, None
        line = None
        if where.get("path"):
            from inspector.jsontext import locate

            root = "messages" if self._text.lstrip()[:1] == "[" else ""
            found = locate(self._text, root, where["path"]) if root or where["path"] else None
            line = found[0] if found else None
        return self.request, line


_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def _print_text(printed: list[_Printed]) -> None:
    from rich.text import Text

    from inspector.terminal import console, visible

    out = console()
    for one in printed:
        if len(printed) > 1:
            out.print(Text(visible(one.request), "bold underline"))
        for finding in one.result["findings"]:
            _print_finding(finding, out)
        counts = one.result["counts"]
        said = [f"{counts[name]} {name}{'s' * (counts[name] != 1)}" for name in ("error", "warning", "note")]
        said += [f"{counts['silenced']} silenced"] if counts["silenced"] else []
        out.print(", ".join(said))


def _print_finding(finding: dict[str, Any], out: Any) -> None:
    from rich.text import Text

    from inspector.terminal import visible

    silenced = finding["silenced"] is not None
    place = spell(finding["where"])
    line = Text()
    line.append(
        f"{'silenced' if silenced else finding['severity']:<9}", "dim" if silenced else _STYLES[finding["severity"]]
    )
    line.append(finding["rule"], "bold")
    line.append(visible(f"  {place}" if place else ""), "dim")
    rest = f"silenced: {finding['silenced']}" if silenced else f"-> {finding['remedy']}"
    for text in (line, Text(visible(f"         {finding['message']}")), Text(visible(f"         {rest}"), "dim")):
        out.print(text, soft_wrap=True)


def _print_sarif(printed: list[_Printed]) -> None:
    from inspector.lint import RULES, sarif

    placed = [(finding, *one.place(finding)) for one in printed for finding in one.result["findings"]]
    print(json.dumps(sarif.log(placed, RULES), ensure_ascii=False, indent=1))


_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def _print_github(printed: list[_Printed]) -> None:
    """Print workflow commands, which GitHub shows beside the lines of a pull request."""
    for one in printed:
        for finding in one.result["findings"]:
            if finding["silenced"] is None:
                _print_command(one, finding)


def _print_command(printed: _Printed, finding: dict[str, Any]) -> None:
    file, line = printed.place(finding)
    properties = [("file", file), ("line", line), ("title", finding["rule"])]
    listed = ",".join(f"{key}={_escaped(str(value), True)}" for key, value in properties if value is not None)
    place = spell(finding["where"])
    message = f"{f'{place}: ' if place else ''}{finding['message']} -> {finding['remedy']}"
    sys.stdout.write(f"::{_COMMANDS[finding['severity']]} {listed}::{_escaped(message, False)}\n")


def _escaped(text: str, is_property: bool) -> str:
    """Escape for a workflow command: a message of others must not begin another command."""
    for char in "%\r\n" + (":," if is_property else ""):
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _print_rules(as_json: bool) -> None:
    from inspector.lint import RULES

    if as_json:
        _print_json({"schema": "rules/1", "rules": [rule.to_dict() for rule in RULES]})
        return
    for rule in RULES:
        print(f"{rule.severity:<8} {rule.id:<32} {rule.title}")
