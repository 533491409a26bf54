"""The commands about tokenizers alone: the four stages of a text, ids as a stream shows them, several side by side.

They register themselves on cli.py's app, and like it hold no logic: what is printed comes from the JSON values.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from inspector.cli import JsonOpt, TokenizerOpt, _print_json, _progress, _run, app
from inspector.errors import ErrorKind, InspectorError

TextArg = Annotated[str, typer.Argument(metavar="TEXT", help="The text, or - for standard input.")]


@app.command(name="stages", epilog="Example: python -m inspector stages 'hello world' --tokenizer qwen3")
def stages_command(text: TextArg, tokenizer: TokenizerOpt = "smollm2", as_json: JsonOpt = False) -> None:
    """Show what each stage of a tokenizer does to a text, merge by merge."""
    result = _run(lambda: _stages(_text(text), tokenizer), as_json, schema="stages/1")
    if as_json:
        _print_json(result)
        return
    for section in result["sections"]:
        _print_section(section)
    for name in ("before", "after"):
        for token in result[f"inserted_{name}"]:
            print(f"inserted {name}: {token['id']} {token['piece']}")
    print(f"{len(result['input_ids'])} ids: {' '.join(map(str, result['input_ids']))}")


@app.command(name="decode", epilog="Example: python -m inspector decode '15496 11 995' --tokenizer r50k")
def decode_command(
    ids: Annotated[str, typer.Argument(metavar="IDS", help="Ids, parted by spaces or commas; - for standard input.")],
    tokenizer: TokenizerOpt = "smollm2",
    skip_special_tokens: Annotated[
        bool, typer.Option("--skip-special-tokens", help="Leave control tokens out.")
    ] = False,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", metavar="TEXT", help="End the stream before TEXT.")
    ] = None,
    as_json: JsonOpt = False,
) -> None:
    """Step through ids as a stream would show them."""

    def work() -> dict[str, Any]:
        from inspector import service

        with _progress() as progress:
            return service.stream(
                _ids(_text(ids)),
                tokenizer,
                skip_special_tokens=skip_special_tokens,
                stop_strings=stop or (),
                progress=progress,
            )

    result = _run(work, as_json, schema="stream/1")
    if as_json:
        _print_json(result)
        return
    for step in result["steps"]:
        notes = [note for note, said in _notes(step) if said]
        print(f"{step['id']:>8}  {step['bytes']:<16} {step['shown']!r}{'  # ' + ', '.join(notes) if notes else ''}")
    print(f"text: {result['text']!r}" + (f"  (unfinished bytes: {result['leftover']})" if result["leftover"] else ""))


@app.command(name="differences", epilog="Example: python -m inspector differences llama3.1")
def differences_command(
    tokenizer: Annotated[str, typer.Argument(metavar="REF", help="Preset id, folder or source reference.")],
    as_json: JsonOpt = False,
) -> None:
    """Say what bites about a tokenizer: loading, sizes, end and begin tokens, a wrong pattern."""

    def work() -> dict[str, Any]:
        from inspector import service

        with _progress() as progress:
            return service.differences(tokenizer, progress=progress)

    result = _run(work, as_json, schema="differences/1")
    if as_json:
        _print_json(result)
        return
    sizes, loading = result["sizes"], result["loading"]
    print(f"sizes: vocab_size {sizes['vocab_size']}, len(tokenizer) {sizes['size']}, embedding rows {sizes['rows']}")
    if loading:
        print(f"AutoTokenizer: {loading['differing']} of {loading['num_texts']} texts get other ids")
    if result["reconstructed"]:
        print("rebuilt from a GGUF: not the original tokenizer.json")
    for part in ("file", "sizes", "ends", "bos"):
        for remark in result[part]["remarks"]:
            print(f"{part}: {remark}")
    if result["pattern"]["remark"]:
        print(f"pattern: {result['pattern']['remark']}")


@app.command(
    name="tokenizers", epilog="Example: python -m inspector tokenizers '2 + 2 = 4' --tokenizer r50k --tokenizer o200k"
)
def tokenizers_command(
    text: TextArg,
    tokenizer: Annotated[list[str], typer.Option("--tokenizer", metavar="REF", help="A tokenizer; give several.")],
    price: Annotated[
        list[str] | None,
        typer.Option("--price", metavar="ID=NUMBER", help="Price per million tokens of one tokenizer."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV for a spreadsheet.")] = False,
    as_json: JsonOpt = False,
) -> None:
    """Compare tokenizers on a text, without a template."""

    def work() -> dict[str, Any]:
        from inspector import service

        prices = dict(map(_price, price or ()))
        with _progress() as progress:
            return service.tokenizers(_text(text), tokenizer, prices=prices, progress=progress)

    result = _run(work, as_json, schema="tokenizers/1")
    table = result.pop("csv")
    if as_json:
        _print_json(result)
    elif csv:
        sys.stdout.buffer.write(table.encode())
        sys.stdout.buffer.flush()
    else:
        _print_table(result)


def _stages(text: str, tokenizer: str) -> dict[str, Any]:
    from inspector import service

    with _progress() as progress:
        return service.stages(text, tokenizer, progress=progress)


def _text(argument: str) -> str:
    """Give the argument, or standard input for `-`.

    Errors: InputInvalid if it is not UTF-8.
    """
    if argument != "-":
        return argument
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"standard input is not UTF-8: byte 0x{error.object[error.start]:02x}",
            stage="options",
            where={"byte": error.start},
            remedy="send UTF-8",
        ) from None


def _ids(text: str) -> list[int]:
    """Read ids.

    Errors: InputInvalid naming the word.
    """
    words = text.replace(",", " ").replace("[", " ").replace("]", " ").split()
    wrong = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)), None)
    if wrong is not None:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"{wrong[:40]!r} is no token id",
            stage="options",
            where={"argument": "IDS"},
            remedy="give ids like '15496 11 995' or '[15496, 11, 995]'",
        )
    return [int(word) for word in words]


def _price(item: str) -> tuple[str, float]:
    """Read ID=NUMBER.

    Errors: OptionInvalid.
    """
    name, _, value = item.partition("=")
    try:
        number = float(value)
        if not 0 <= number < 1e9:
            raise ValueError(value)
    except ValueError:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{item!r} is not ID=NUMBER",
            stage="options",
            where={"option": "--price"},
            remedy="write --price o200k=2.5",
        ) from None
    return name, number


def _notes(step: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return (
        (f"holds {step['held']} back", step["held"]),
        (f"holds {step['held_for_stop']!r} back for a stop string", step["held_for_stop"]),
        (f"decode([id]) alone shows {step['alone']!r}", step["alone_is_wrong"]),
        ("skipped", step["skipped"]),
        (f"stopped by {step['stopped_by']!r}", step["stopped_by"]),
    )


def _print_section(section: dict[str, Any]) -> None:
    if section["added_token"]:
        print(f"added token: {section['added_token']['id']} {section['added_token']['piece']}")
        return
    print(f"text: {section['text']!r}")
    for rewrite in section["rewrites"]:
        print(f"  normalizer: {rewrite['before']!r} became {rewrite['after']!r}")
    for piece in section["pieces"]:
        tokens = " ".join(f"{token['id']}:{token['piece']}" for token in piece["tokens"])
        print(f"  piece {piece['text']!r} -> {tokens}" + (f"  ({piece['note']})" if piece["note"] else ""))
        for step in piece["steps"]:
            print(f"    {_step_line(piece['algorithm'], step)}")


def _step_line(algorithm: str, step: dict[str, Any]) -> str:
    if algorithm == "bpe":
        return f"rank {step['rank']:g}: {step['left']!r} + {step['right']!r}"
    if algorithm == "unigram":
        return f"score {step['score']:.3f}: {' '.join(step['pieces'])}"
    longer = f" after {step['tried']} longer ones" if step["tried"] else ""
    return f"at {step['at']}: {'nothing matches' if step['match'] is None else repr(step['match'])}{longer}"


def _print_table(result: dict[str, Any]) -> None:
    print(f"{result['num_chars']} characters, {result['num_bytes']} bytes")
    for row in result["rows"]:
        rate = "" if row["bytes_per_token"] is None else f"{row['bytes_per_token']:.2f} bytes a token"
        cost = "" if row["cost"] is None else f", costs {row['cost']:.6g}"
        print(f"{row['tokenizer']:<20} {row['num_tokens']:>6} tokens, {rate}{cost}")
        print(f"{'':<20} {' '.join(map(repr, row['pieces'][:40]))}{' …' if row['num_tokens'] > 40 else ''}")
    for stretch in result["differing"]:
        cuts = "; ".join(f"{name} {','.join(map(str, at)) or '-'}" for name, at in stretch["cuts"].items())
        print(f"bytes {stretch['start']}-{stretch['end']} {stretch['text']!r} are cut differently: {cuts}")
