"""The commands about what a window, a loss, a batch and a prefix cache see: budget, labels, batch, prefix.

They register themselves on cli.py's app, and like it hold no logic: what is printed comes from the JSON values.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from inspector.cli import (
    ClockOpt,
    ImageTokensOpt,
    JsonOpt,
    MediaOpt,
    MediaRuleOpt,
    NameOpt,
    NoPromptOpt,
    PolicyOpt,
    ProfileOpt,
    RequestArg,
    ReserveOpt,
    SetOpt,
    TemplateOpt,
    TokenizerOpt,
    _finish,
    _options,
    _print_json,
    _progress,
    _read,
    _run,
    app,
)
from inspector.errors import ErrorKind, InspectorError
from inspector.terminal import visible

ModeOpt = Annotated[
    str, typer.Option("--mode", metavar="assistant_only|last_turn|all", help="Which tokens are trained.")
]


@app.command(
    name="budget", epilog="Example: python -m inspector budget chat.json --context-window 4096 --max-new-tokens 512"
)
def budget_command(
    request: RequestArg,
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    no_generation_prompt: NoPromptOpt = False,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    context_window: Annotated[
        int | None,
        typer.Option("--context-window", metavar="N", help="The window; default: the preset's or the tokenizer's."),
    ] = None,
    max_new_tokens: ReserveOpt = 0,
    policy: PolicyOpt = "messages",
    whole_turns: Annotated[
        bool, typer.Option("--whole-turns", help="A user message stands or falls with its answers.")
    ] = False,
    document_order: Annotated[
        str, typer.Option("--document-order", metavar="I,J,...", help="Documents by priority, as indices from 0.")
    ] = "",
    first_turns: Annotated[
        int, typer.Option("--first-turns", metavar="K", help="Turns at the beginning that keep_first keeps.")
    ] = 1,
    media: MediaOpt = "auto",
    media_rule: MediaRuleOpt = None,
    image_tokens: ImageTokensOpt = None,
    as_json: JsonOpt = False,
) -> None:
    """Fit a request into a context window, and say what is kept, dropped, broken and checked. Exit code 4 if it is rejected."""

    def work() -> dict[str, Any]:
        from inspector import service

        options = _shared(tokenizer, template, name, set_, clock, profile) | {
            "add_generation_prompt": not no_generation_prompt, "context_window": context_window,
            "max_new_tokens": max_new_tokens, "policy": policy, "whole_turns": whole_turns,
            "document_order": _indices(document_order), "first_turns": first_turns, "media": media,
            "media_rule": media_rule, "image_tokens": image_tokens,
        }  # fmt: skip
        with _progress() as progress:
            return service.budget(_read(request), _options(options), progress=progress)

    result = _run(work, as_json, schema="budget/1")
    if as_json:
        _print_json(result)
    elif result["budget"] is not None:
        _print_budget(result)
    _finish(result["error"])


@app.command(name="labels", epilog="Example: python -m inspector labels chat.json --tokenizer qwen3 --mode last_turn")
def labels_command(
    request: RequestArg,
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    mode: ModeOpt = "assistant_only",
    max_length: Annotated[
        int | None, typer.Option("--max-length", metavar="N", help="Cut from the right, as trainers do.")
    ] = None,
    generation_tag_only: Annotated[
        bool, typer.Option("--generation-tag-only", help="Know the assistant by the template's tag only.")
    ] = False,
    as_json: JsonOpt = False,
) -> None:
    """Show which tokens a loss would be computed on, and what is wrong with that."""

    def work() -> dict[str, Any]:
        from inspector import service

        options = _options(_shared(tokenizer, template, name, set_, clock, profile))
        how: dict[str, Any] = {"mode": mode, "max_length": max_length, "generation_tag_only": generation_tag_only}
        with _progress() as progress:
            return service.labels(_read(request), options, progress=progress, **how)

    result = _run(work, as_json, schema="labels/1")
    if as_json:
        _print_json(result)
        return
    for run in result["runs"]:
        print(f"{'trained' if run['trained'] else '-':8} {run['start']:>6}-{run['end']:<6} {run['text']!r}")
    print(f"{result['num_trained']} of {result['num_tokens']} tokens are trained, known from {result['source']}")
    for alarm in result["alarms"]:
        place = " ".join(str(part) for part in (alarm["path"], _token(alarm)) if part)
        print(f"alarm    {alarm['kind']}{f' at {place}' if place else ''}: {alarm['why']}")


@app.command(name="batch", epilog="Example: python -m inspector batch short.json long.json --padding-side right")
def batch_command(
    requests: Annotated[list[str], typer.Argument(metavar="REQUEST...", help="JSON files, one conversation each.")],
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    mode: ModeOpt = "assistant_only",
    padding_side: Annotated[
        str, typer.Option("--padding-side", metavar="left|right", help="Where padding goes.")
    ] = "left",
    pad_id: Annotated[
        int | None, typer.Option("--pad-id", metavar="ID", help="The padding id; default: the tokenizer's, or EOS.")
    ] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Put the conversations one after the other instead.")] = False,
    as_json: JsonOpt = False,
) -> None:
    """Lay conversations out as the tensors of one batch: ids, mask, positions, labels."""

    def work() -> dict[str, Any]:
        from inspector import service

        options = _options(_shared(tokenizer, template, name, set_, clock, profile))
        how: dict[str, Any] = {"padding_side": padding_side, "pad_id": pad_id, "packed": pack, "mode": mode}
        with _progress() as progress:
            return service.batch([_read(request) for request in requests], options, progress=progress, **how)

    result = _run(work, as_json, schema="packed/1" if pack else "batch/1")
    if as_json:
        _print_json(result)
    elif pack:
        for name_ in ("input_ids", "sequence_ids", "position_ids", "labels"):
            print(f"{name_:14} {' '.join(map(str, result[name_]))}")
        print(f"rows begin at {result['boundaries'][:-1]}; a plain causal mask lets {result['leaks']} pairs see across")
    else:
        _print_batch(result)


@app.command(name="prefix", epilog="Example: python -m inspector prefix chat.json --tokenizer qwen3 --block-size 16")
def prefix_command(
    request: RequestArg,
    tokenizer: TokenizerOpt = "smollm2",
    template: TemplateOpt = None,
    name: NameOpt = None,
    set_: SetOpt = None,
    clock: ClockOpt = None,
    profile: ProfileOpt = "transformers",
    block_size: Annotated[
        int, typer.Option("--block-size", metavar="N", help="Tokens of a cache block, for its keys.")
    ] = 16,
    model_revision: Annotated[
        str, typer.Option("--model-revision", metavar="TEXT", help="What the keys name as the model.")
    ] = "",
    adapter: Annotated[
        str, typer.Option("--adapter", metavar="TEXT", help="What the keys name as the adapter.")
    ] = "none",
    as_json: JsonOpt = False,
) -> None:
    """Check turn by turn whether what is sent is a prefix of what is sent next, and where not, which line did it."""

    def work() -> dict[str, Any]:
        from inspector import service

        options = _options(_shared(tokenizer, template, name, set_, clock, profile))
        how: dict[str, Any] = {"block_size": block_size, "model_revision": model_revision, "adapter": adapter}
        with _progress() as progress:
            return service.prefix(_read(request), options, progress=progress, **how)

    result = _run(work, as_json, schema="prefix/1")
    if as_json:
        _print_json(result)
        return
    for step in result["steps"]:
        _print_step(step)
    if result["keys"]:
        print(f"{len(result['keys'])} blocks of {result['block_size']}: {' '.join(result['keys'][:8])}"
              + (" …" if len(result["keys"]) > 8 else ""))  # fmt: skip


def _shared(
    tokenizer: str, template: str | None, name: str | None, set_: list[str] | None, clock: str | None, profile: str
) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer, "template": template, "name": name, "arguments": set_, "clock": clock,
        "profile": profile,
    }  # fmt: skip


def _indices(text: str) -> tuple[int, ...]:
    """Read I,J,... Errors: OptionInvalid."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    wrong = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 10)), None)
    if wrong is not None:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{wrong[:40]!r} is no index of a document",
            stage="options",
            where={"option": "--document-order"},
            remedy="write --document-order 2,0,1",
        )
    return tuple(map(int, words))


def _token(entry: dict[str, Any]) -> str:
    return "" if entry["token"] is None else f"token {entry['token']}"


def _print_budget(result: dict[str, Any]) -> None:
    decision, tokens = result["budget"], {unit["path"]: unit["tokens"] for unit in result["units"]}
    print(f"{decision['input_tokens']} of {decision['max_input_tokens']} input tokens; window {decision['context_window']}"
          f" ({result['window_from']}) less {decision['max_new_tokens']} for output; policy {decision['policy']};"
          f" required {decision['required_tokens']}")  # fmt: skip
    for path in decision["kept"]:
        print(f"kept     {path:<16} {tokens.get(path, 0):>7}")
    for entry in decision["cut"]:
        print(f"cut      {entry['path']:<16} {tokens.get(entry['path'], 0):>7}  lost {entry['tokens_lost']}")
    for entry in decision["dropped"]:
        print(f"dropped  {entry['path']:<16} {entry['tokens']:>7}  {visible(entry['reason'])}")
    own = decision["input_tokens"] - sum(tokens.values())
    print(f"template and special tokens {own:>13}")
    for entry in decision["broken"]:
        place = " ".join(part for part in (entry["path"] or "", _token(entry)) if part)
        print(f"broken   {entry['what']}{f' at {place}' if place else ''}")
    for check in decision["checks"]:
        print(f"{'ok' if check['ok'] else 'FAILED':8} {check['name']}: {check['why']}")


def _print_batch(result: dict[str, Any]) -> None:
    names = ("input_ids", "attention_mask", "position_ids", "labels")
    for row in range(result["shape"][0]):
        print(f"row {row}: {result['lengths'][row]} of {result['shape'][1]} positions, positions shifted by "
              f"{result['shifts'][row]} without the mask, last token at {result['last_positions'][row]}")  # fmt: skip
        for name in names:
            print(f"  {name:14} {' '.join(map(str, result[name][row]))}")
    print(f"padded {result['padding_side']} with {result['pad_id']}")
    for remark in result["remarks"]:
        print(f"remark   {remark}")


def _print_step(step: dict[str, Any]) -> None:
    what = "asks" if step["asks"] else "answered"
    if step["error"]:
        print(f"{step['messages']:>4} messages {what:8} {visible(step['error'])}")
        return
    line = f"{step['messages']:>4} messages {what:8} {step['tokens']:>7} tokens"
    if step["is_prefix"] is None:
        print(line)
        return
    reused = ", ".join(f"{step['reused'][size]} at {size}" for size in step["reused"])
    print(f"{line}  {'a prefix of the next' if step['is_prefix'] else 'NO PREFIX of the next'}; reused {reused}")
    parting = step["parts_at"]
    for side in ("this", "next") if parting else ():
        origin = parting[side]
        place = origin["path"] or (f"template line {origin['line']}" if origin["line"] else origin["kind"] or "the end")
        print(f"       {side} from token {parting['token']}: {visible(origin['text'])!r} <- {place}")
