"""Revisions of chat templates and tokenizers: what a repository changed and when, where its templates lie, edits.

A revision is a commit of a Hub repository, a version of a package, or an edit of a template. Which of several
templates wins is stated as transformers 5.23 decides it. Nothing is rendered or tokenized here.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache, resolve_files
from inspector.sources.base import Archive, unavailable
from inspector.sources.hub import HubFile, HubSource, Token
from inspector.sources.names import TEMPLATE_FILES, TOKENIZER_FILES, VOCABULARY_FILES
from inspector.template import Template
from inspector.tokenizers.base import ArtifactFile
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES, decode_text, parse_object, templates_of

TRACKED = tuple(dict.fromkeys((*TEMPLATE_FILES, *TOKENIZER_FILES, *VOCABULARY_FILES)))
MAX_REVISIONS = 40
_COMMIT_PAGES = 10
_READ_BYTES = 4 << 20  # larger files are compared by their hash only


@dataclass(frozen=True, slots=True)
class Place:
    """A template in one of the places where a repository may keep it.

    `wins_for`: what takes it from there: "tokenizer", "processor" (transformers), "gguf" (llama.cpp); empty if nothing
    does. `equal`: for one that does not win, whether it equals the winner of its name; None for a winner or without one.
    """

    file: str
    name: str
    text: str
    digest: str
    wins_for: tuple[str, ...]
    equal: bool | None = None


@dataclass(frozen=True, slots=True)
class FileState:
    """A tracked file at a revision. `sha256` is "" where only Git's blob id is known without fetching the file."""

    file: str
    size: int
    sha256: str
    git_id: str


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision: `ref` picks it, `what` says in one line what it changed against the one before."""

    revision: str
    ref: str
    date: str
    title: str
    what: str
    files: tuple[FileState, ...] = ()


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions of a reference, the newest first, and the templates at the revision it names.

    `complete` is False where older ones were left out.
    """

    ref: str
    id: str
    revisions: tuple[Revision, ...]
    places: tuple[Place, ...] = ()
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Give `revisions/1`."""
        return {"schema": "revisions/1", **asdict(self), "error": None}


def revisions(ref: str, *, token: Token = None, local: bool = True) -> Revisions:
    """List the revisions of `hf:ORG/NAME[@REV]`, of a package, or only the templates of what has no revisions.

    Errors: as resolve_files; OptionInvalid for a preset or path.
    """
    scheme, colon, rest = ref.partition(":")
    if colon and scheme == "hf":
        return _hub_revisions(ref, rest, token)
    if colon and scheme in ("npm", "pypi"):
        return _package_revisions(ref, scheme, rest)
    if not colon:
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"{ref[:120]!r} is not a source reference",
            stage="options",
            where={"ref": ref[:200]},
            remedy="write it like hf:Qwen/Qwen3-0.6B, npm:NAME@VER, pypi:NAME==VER or folder:PATH",
        )
    pinned, files = resolve_files(ref, TEMPLATE_FILES, token=token, local=local)
    return Revisions(ref, pinned, (), held_places(files))


def held_places(files: Iterable[ArtifactFile]) -> tuple[Place, ...]:
    """Give template_places of files in the cache or on this disk; a file that holds no template is not read."""
    return template_places({file.name: _held(file) for file in files if _holds_templates(file.name)})


def _holds_templates(name: str) -> bool:
    return name in TEMPLATE_FILES or name.startswith(ADDITIONAL_TEMPLATES) or name.endswith(".gguf")


def _held(file: ArtifactFile) -> bytes:
    """Read a file; of a GGUF nothing is read as a whole."""
    return str(file.path).encode() if file.name.endswith(".gguf") else cache.read_verified(file)


def template_places(files: Mapping[str, bytes]) -> tuple[Place, ...]:
    """Find every template in a repository's files, and say which one wins in transformers 5.23.

    Tokenizer: template files, if there are any, replace the configuration's template altogether. Processor: its own
    configuration's key, else chat_template.json, else the template files. A `.gguf` is given by its path's bytes.

    >>> files = {"chat_template.jinja": b"J", "tokenizer_config.json": b'{"chat_template": "C"}'}
    >>> [(place.file, place.wins_for, place.equal) for place in template_places(files)]
    [('chat_template.jinja', ('tokenizer', 'processor'), None), ('tokenizer_config.json', (), False)]
    """
    own = [(name, _file_template_name(name), decode_text(data, name)) for name, data in sorted(files.items())
           if name == "chat_template.jinja" or name.startswith(ADDITIONAL_TEMPLATES)]  # fmt: skip
    own.sort(key=lambda item: item[0] != "chat_template.jinja")
    config = _key_templates(files, "tokenizer_config.json")
    legacy = _key_templates(files, "chat_template.json")
    processor = _key_templates(files, "processor_config.json")
    winners = {"tokenizer": own or config, "processor": processor or legacy or own, "gguf": _gguf_templates(files)}
    places = [_place(item, winners) for item in dict.fromkeys((*own, *config, *legacy, *processor, *winners["gguf"]))]
    return tuple(_compared(place, winners) for place in places)


_Item = tuple[str, str, str]


def _place(item: _Item, winners: Mapping[str, list[_Item]]) -> Place:
    file, name, text = item
    digest = Template("", "", "", name, file, text).digest
    return Place(file, name, text, digest, tuple(who for who, items in winners.items() if item in items))


def _compared(place: Place, winners: Mapping[str, list[_Item]]) -> Place:
    if place.wins_for:
        return place
    chosen = [text for items in winners.values() for _file, name, text in items if name == place.name]
    return replace(place, equal=place.text == chosen[0]) if chosen else place


def _file_template_name(file: str) -> str:
    return "default" if file == "chat_template.jinja" else file[len(ADDITIONAL_TEMPLATES) :].removesuffix(".jinja")


def _key_templates(files: Mapping[str, bytes], file: str) -> list[_Item]:
    if file not in files:
        return []
    found = templates_of(parse_object(files[file], file).get("chat_template"))
    return [(file, name, text) for name, text in found.items()]


def _gguf_templates(files: Mapping[str, bytes]) -> list[_Item]:
    from inspector.sources.resolve import gguf_templates

    ggufs = [(name, Path(data.decode())) for name, data in files.items() if name.endswith(".gguf")]
    return [(file, name, text) for file, path in ggufs for name, text in gguf_templates(path).items()]


# --- edits -------------------------------------------------------------------------------------------------------


def edited(origin: Template, text: str) -> Template:
    """Make an edit of a template: revision `edited` of the same id, with the digest of its own text.

    An unchanged text gives the origin itself.
    """
    if text == origin.text:
        return origin
    return replace(origin, ref=f"{origin.ref}#edited", revision="edited", text=text)


def template_diff(origin: Template, other: Template) -> str:
    """Give a unified diff of two templates; "" if they are equal. A missing newline at the end is told, as by diff.

    >>> one = Template("a", "a", "1", "default", "t.jinja", "x\\ny\\n")
    >>> print(template_diff(one, edited(one, "x\\nz\\n")), end="")
    --- a@1 (default) 09834d488008
    +++ a@edited (default) 8b0451450fa2
    @@ -1,2 +1,2 @@
     x
    -y
    +z
    """
    lines = difflib.unified_diff(_lines(origin.text), _lines(other.text), _label(origin), _label(other))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Split at newlines only: other separators are characters of the template."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _label(template: Template) -> str:
    revision = f"@{template.revision}" if template.revision else ""
    return f"{template.id}{revision} ({template.name}) {template.digest[:12]}"


# --- the Hub -----------------------------------------------------------------------------------------------------


def _hub_revisions(ref: str, rest: str, token: Token) -> Revisions:
    source = HubSource(token)
    archive, _member = source.parse(rest)
    settled, _scope = source.settle(archive)
    history = _History(source, settled, source.commits(settled, _COMMIT_PAGES))
    found, complete = history.states()
    entries = _described(source, settled, history.commits, found)
    pinned, held = resolve_files(ref, TEMPLATE_FILES, token=token)
    return Revisions(ref, pinned, entries, held_places(held), complete)


class _History:
    """The commits of a repository, the newest first, and what its tracked files were at each that was looked at.

    The Hub says for each file which commit wrote it, so the walk goes from one such commit to the next: one or two
    requests a revision, not one a commit.
    """

    def __init__(self, source: HubSource, settled: Archive, commits: list[dict[str, Any]]) -> None:
        self.commits = commits
        self._source, self._settled = source, settled
        self._order = {commit["id"]: index for index, commit in enumerate(commits)}
        self._seen: dict[int, tuple[HubFile, ...]] = {}

    def at(self, index: int) -> tuple[HubFile, ...]:
        """Give the tracked files at a commit."""
        if index not in self._seen:
            archive = replace(self._settled, version=self.commits[index]["id"])
            self._seen[index] = self._source.files_at(archive, TRACKED, changed=True)
        return self._seen[index]

    def states(self) -> tuple[list[tuple[int, tuple[HubFile, ...]]], bool]:
        """Give (commit that changed tracked files, the files after it), the newest first, and whether that is all."""
        found: list[tuple[int, tuple[HubFile, ...]]] = []
        index = 0
        while index < len(self.commits) and len(found) < MAX_REVISIONS:
            files = self.at(index)
            changed = self._changed_at(index, files)
            if changed is None:
                return found, len(self.commits) < _COMMIT_PAGES * 100
            found.append((changed, files))
            index = changed + 1
        return found, index >= len(self.commits) and len(self.commits) < _COMMIT_PAGES * 100

    def _changed_at(self, index: int, files: tuple[HubFile, ...]) -> int | None:
        """Find the newest commit, at `index` or older, that wrote or removed a tracked file; None if none did."""
        writers = [self._order[file.changed[0]] for file in files if file.changed[0] in self._order]
        last = max(index, min(writers)) if writers else len(self.commits) - 1
        if _paths(self.at(last)) == _paths(files):
            return last if writers else None
        low, high = index, last  # a file was removed in between: the last commit that has the same names
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _paths(self.at(middle)) == _paths(files) else (low, middle)
        return low


def _paths(files: Iterable[HubFile]) -> list[str]:
    return [file.path for file in files]


def _described(
    source: HubSource, settled: Archive, commits: list[dict[str, Any]], found: list[tuple[int, tuple[HubFile, ...]]]
) -> tuple[Revision, ...]:
    states = [_texts(source, replace(settled, version=commits[at]["id"]), files) for at, files in found]
    entries = []
    for number, (at, files) in enumerate(found):
        before = found[number + 1][1] if number + 1 < len(found) else ()
        older = states[number + 1] if number + 1 < len(states) else {}
        what = describe_change(_git_ids(before), _git_ids(files), older, states[number])
        commit, ref = commits[at], f"hf:{settled.package}@{commits[at]['id']}"
        known = tuple(_state(file, states[number]) for file in files)
        title = " ".join(str(commit.get("title", "")).split())[:200]
        entries.append(Revision(commit["id"], ref, str(commit.get("date", ""))[:40], title, what, known))
    return tuple(entries)


def _git_ids(files: Iterable[HubFile]) -> dict[str, str]:
    return {file.path: file.sha256 or file.git_id for file in files}


def _state(file: HubFile, texts: Mapping[str, bytes]) -> FileState:
    import hashlib

    read = hashlib.sha256(texts[file.path]).hexdigest() if file.path in texts else ""
    return FileState(file.path, file.size, file.sha256 or read, file.git_id)


def _texts(source: HubSource, archive: Archive, files: tuple[HubFile, ...]) -> dict[str, bytes]:
    """Fetch those tracked files that are small, each kept by its hash; a blob that is known is not asked for again."""
    found: dict[str, bytes] = {}
    wanted = [file for file in files if file.size <= _READ_BYTES and file.path.endswith((".json", ".jinja"))
              and file.path != "tokenizer.json"]  # fmt: skip
    for file in wanted:
        found[file.path] = _blob(source, archive, file)
    return found


def _blob(source: HubSource, archive: Archive, file: HubFile) -> bytes:
    scope = source.settle(archive)[1]
    key = f"hf:{archive.package}#blob:{file.git_id}{scope}"
    known = (cache.remembered(key) or {}).get(file.path)
    held = cache.lookup(known, file.path) if known else None
    if held is None:
        with cache.workspace() as folder:
            path = source.fetch_file(archive, file, folder / "blob")
            held = cache.store(path, cache.sha256_of(path), file.path)
        cache.remember(key, {file.path: held.sha256})
    return cache.read_verified(held)


def describe_change(
    before: Mapping[str, str], after: Mapping[str, str], old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> str:
    """Say in one line what changed between two states of files, given by their hashes and, where known, bytes."""
    parts = [f"{name} removed" for name in sorted(before.keys() - after.keys())]
    for name in sorted(after):
        if name not in before:
            parts.append(f"{name} added")
        elif before[name] != after[name]:
            parts.append(f"{name}: {_file_change(name, old.get(name), new.get(name))}")
    return "; ".join(parts) or "nothing that is tracked"


def _file_change(name: str, old: bytes | None, new: bytes | None) -> str:
    if old is None or new is None:
        return "other content"
    if name.endswith(".jinja"):
        return _line_change(old.decode("utf-8", "replace"), new.decode("utf-8", "replace"))
    try:
        before, after = parse_object(old, name), parse_object(new, name)
    except InspectorError:
        return "other content"
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    told = [_key_change(key, before.get(key), after.get(key)) for key in keys[:6]]
    return ", ".join(told) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "") or "only its layout"


def _key_change(key: str, old: Any, new: Any) -> str:
    if key == "chat_template" and isinstance(old, str) and isinstance(new, str):
        return f"chat_template {_line_change(old, new)}"
    short = [json.dumps(value, ensure_ascii=False) for value in (old, new)]
    if old is None or new is None:
        return f"{key} {'added' if old is None else 'removed'}"
    return f"{key} {short[0]} -> {short[1]}" if max(map(len, short)) <= 40 else f"{key} changed"


def _line_change(old: str, new: str) -> str:
    lines = [line[:1] for line in difflib.ndiff(_lines(old), _lines(new))]
    return f"+{lines.count('+')} -{lines.count('-')} lines"


# --- packages ----------------------------------------------------------------------------------------------------


def _package_revisions(ref: str, scheme: str, rest: str) -> Revisions:
    package, _, member = rest.partition("!")
    name = package.partition("==")[0] if scheme == "pypi" else package[:1] + package[1:].rpartition("@")[0]
    name = name if len(name) > 1 else package
    versions = _npm_versions(name) if scheme == "npm" else _pypi_versions(name)
    joined = "@" if scheme == "npm" else "=="
    suffix = f"!{member}" if member else ""
    entries = tuple(Revision(v, f"{scheme}:{name}{joined}{v}{suffix}", "", "", "") for v in versions)
    return Revisions(ref, ref, entries)


def _npm_versions(name: str) -> list[str]:
    from inspector.sources.npm import NpmSource, npm_command

    NpmSource().parse(f"{name}@1.0.0")
    out = _client([*npm_command(), "view", name, "versions", "--json", "--update-notifier=false"], f"npm:{name}")
    try:
        value = json.loads(out)
    except ValueError as error:
        raise unavailable(f"npm said nothing readable about {name}", "check the npm configuration") from error
    found = [value] if isinstance(value, str) else value
    return [version for version in found if isinstance(version, str)][::-1]


def _pypi_versions(name: str) -> list[str]:
    from inspector.sources.pypi import PypiSource

    PypiSource().parse(f"{name}==1")
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--disable-pip-version-check", "--no-input"]
    out = _client(command, f"pypi:{name}")
    listed = re.search(r"^Available versions: (.+)$", out, re.M)
    if not listed:
        raise unavailable(f"pip listed no version of {name}", "check the name and the pip configuration")
    return [version.strip() for version in listed[1].split(",")]


def _client(command: list[str], label: str) -> str:
    from inspector.sources.process import run_client

    with cache.workspace() as folder:
        return run_client(command, folder, label, 0, None, {})
