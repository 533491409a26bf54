"""The commands about where artifacts come from: the cache on this disk, and the revisions of a repository or package.

They register themselves on cli.py's app, and like it hold no logic: what is printed comes from the JSON values.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from inspector.cli import JsonOpt, _print_json, _run, app
from inspector.errors import ErrorKind, InspectorError

ACTIONS = ("list", "clear", "path")


@app.command(name="cache", epilog="Example: python -m inspector cache list --json")
def cache_command(
    action: Annotated[str, typer.Argument(metavar="[list|clear|path]", help="What to do; default: list.")] = "list",
    as_json: JsonOpt = False,
) -> None:
    """List the artifacts in the cache, say where they lie, or remove all that nothing is using."""
    result = _run(lambda: _cache(action), as_json, schema="cache/1")
    if as_json:
        _print_json(result)
    elif action == "path":
        print(result["folder"])
    elif action == "clear":
        print(f"{result['removed']:,} bytes removed, {result['kept']:,} bytes kept because they are in use")
    else:
        for entry in result["entries"]:
            refs = " ".join(entry["refs"])
            print(
                f"{entry['used']}  {entry['bytes']:>14,}  {(entry['sha256'] or 'model')[:12]:12}  {entry['name']}  {refs}"
            )
        print(f"{result['bytes']:,} of {result['limit']:,} bytes in {result['folder']}")


@app.command(name="revisions", epilog="Example: python -m inspector revisions hf:Qwen/Qwen3-0.6B --json")
def revisions_command(
    ref: Annotated[
        str, typer.Argument(metavar="REF", help="hf:ORG/NAME, pypi:NAME==VER, npm:NAME@VER or folder:PATH.")
    ],
    as_json: JsonOpt = False,
) -> None:
    """List the commits that changed a chat template or tokenizer, and every template with the one that wins."""

    def work() -> dict[str, Any]:
        from inspector.revisions import revisions

        return revisions(ref).to_dict()

    result = _run(work, as_json, schema="revisions/1")
    if as_json:
        _print_json(result)
        return
    for place in result["places"]:
        wins = f"wins for {' and '.join(place['wins_for'])}" if place["wins_for"] else "not used"
        same = "" if place["equal"] is None else ", equal to it" if place["equal"] else ", differs from it"
        print(f"{place['digest'][:12]}  {place['file']}  {place['name']}  {wins}{same}")
    for entry in result["revisions"]:
        print(f"{entry['date'][:10]:10}  {entry['revision'][:12]:12}  {entry['title']}  {entry['what']}".rstrip())


def _cache(action: str) -> dict[str, Any]:
    from inspector.sources import bounds, cache_dir

    if action not in ACTIONS:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{action!r} is no action of cache",
            stage="options",
            where={"option": "cache"},
            remedy=f"one of {', '.join(ACTIONS)}",
        )
    if action == "list":
        return bounds.listing()
    if action == "path":
        return {"schema": "cache/1", "folder": str(cache_dir()), "error": None}
    removed, kept = bounds.clear()
    return {"schema": "cache/1", "folder": str(cache_dir()), "removed": removed, "kept": kept, "error": None}
