"""Every limit of a mode, in one value: LOCAL for the person at this machine, PUBLIC for a page that strangers use.

`choose` decides once which is in force in this process, from the address of the page and the environment
(INSPECTOR_MODE, and INSPECTOR_LIMIT_<NAME> for each field); children of the sandbox are told by their caller. Shells
and the pipeline hand the values on to what holds them; no stage reads them here. What no mode changes (sizes of
formats, rows that a view draws) stands beside its own code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import enum
import ipaddress
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError

MIB = 1 << 20
_PREFIX = "INSPECTOR_LIMIT_"


class Mode(enum.StrEnum):
    """Whom the limits are for."""

    LOCAL = "local"
    PUBLIC = "public"


def _of(what: str, most: float = math.inf) -> Any:
    return dataclasses.field(metadata={"what": what, "most": most})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may use, and what there may be together. Each field says its unit; README.md has the table."""

    mode: Mode

    cpu_s: float = _of("seconds of CPU for a request in its child")
    wall_s: float = _of("seconds that a request may take in its child")
    load_cpu_s: float = _of("seconds of CPU that loading tokenizers may take besides, in one request")
    load_wall_s: float = _of("seconds that loading tokenizers may take besides, in one request")
    heavy_cpu_s: float = _of("seconds of CPU for a job of many renderings (`lint`, `prefix`, `export`, ...)")
    heavy_wall_s: float = _of("seconds that a job of many renderings may take")
    memory_mb: int = _of("MiB of address space that a child may have beyond what it starts with")
    answer_bytes: int = _of("bytes of a child's answer", 2 << 30)
    payload_bytes: int = _of("bytes of what a child is sent: the request with its options", 2 << 30)
    max_files: int = _of("files that a child may have open")
    children: int = _of("children at a time, running and warm together")
    idle_s: float = _of("seconds after which a session's idle child is ended")
    max_calls: int = _of("requests after which a session's child is replaced")
    supersede_after_s: float = _of("seconds that an outdated request of live typing may still run")

    request_bytes: int = _of("bytes of a request", 2 << 30)
    json_depth: int = _of("levels of nesting of its JSON", 500)
    object_keys: int = _of("keys of one JSON object")
    messages: int = _of("messages of a request")
    template_bytes: int = _of("bytes of a chat template")
    rendered_chars: int = _of("characters of the rendered text")
    tokenizer_bytes: int = _of("bytes of one tokenizer file, metadata of a GGUF apart")
    vocabulary: int = _of("tokens of a vocabulary")
    logits_tokens: int = _of("tokens that a model is asked about")
    export_bytes: int = _of("bytes of what the page exports: a file, or several packed")
    export_file_bytes: int = _of("bytes of one file of an export, unpacked")
    record_chars: int = _of("characters of a record that the page opens")
    api_chars: int = _of("characters of an endpoint's answer")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Limits:
        """Read what `dataclasses.asdict` wrote."""
        return cls(**{**values, "mode": Mode(values["mode"])})

    def for_job(self, job: str) -> Limits:
        """Give the limits of a job of the sandbox's table."""
        if job not in HEAVY_JOBS:
            return self
        return dataclasses.replace(self, cpu_s=self.heavy_cpu_s, wall_s=self.heavy_wall_s)


_CORES = os.cpu_count() or 1

# A 100,000-token conversation and a tokenizer.json of 33 MB must work, on a machine that does other things as well.
LOCAL = Limits(
    mode=Mode.LOCAL,
    cpu_s=60, wall_s=90, load_cpu_s=60, load_wall_s=90, heavy_cpu_s=300, heavy_wall_s=450, memory_mb=4096,
    answer_bytes=512 * MIB, payload_bytes=128 * MIB, max_files=64, children=max(8, 4 * _CORES), idle_s=600,
    max_calls=1000, supersede_after_s=5,
    request_bytes=64_000_000, json_depth=64, object_keys=100_000, messages=100_000, template_bytes=4 * MIB,
    rendered_chars=256_000_000, tokenizer_bytes=1024 * MIB, vocabulary=1 << 24, logits_tokens=1_000_000,
    export_bytes=200_000_000, export_file_bytes=512_000_000, record_chars=64_000_000, api_chars=256_000_000,
)  # fmt: skip
# One render of a real template takes milliseconds, the largest template has 45.6 KB, the largest vocabulary 262,144.
PUBLIC = Limits(
    mode=Mode.PUBLIC,
    cpu_s=2, wall_s=4, load_cpu_s=10, load_wall_s=30, heavy_cpu_s=10, heavy_wall_s=20, memory_mb=1024,
    answer_bytes=16 * MIB, payload_bytes=4 * MIB, max_files=64, children=4 * _CORES, idle_s=300, max_calls=200,
    supersede_after_s=2,
    request_bytes=2_000_000, json_depth=64, object_keys=10_000, messages=5_000, template_bytes=128 << 10,
    rendered_chars=1_000_000, tokenizer_bytes=64 * MIB, vocabulary=1_000_000, logits_tokens=4_096,
    export_bytes=12_000_000, export_file_bytes=64_000_000, record_chars=8_000_000, api_chars=8_000_000,
)  # fmt: skip
# Jobs whose answer needs many runs of a conversation that takes one run 0.2 s (200 messages, 87 kB; CPU, this measured):
HEAVY_JOBS = frozenset({
    "prefix", "page_prefix",  # a rendering and a tokenization for each step: 2.1 s
    "control",  # the known defences, each of which builds a tokenizer or a pattern: 1 s, Gemma's 6,415 added tokens 3 s
    "export",  # a report of two sides: 2 s
    "compare", "api_compare", "view_comparison", "page_hunks",  # two inspections and the reasons of their differences: 0.4 to 0.7 s
    "lint", "api_lint", "page_findings",  # dozens of probes: 0.3 s, with a template that parts at every turn more
    "budget", "api_budget", "page_budget",  # candidates of the search, each rendered where the template cannot be followed
    "tokenizers", "page_tokenizers",  # up to 24 tokenizers
})  # fmt: skip
MODES = {limits.mode: limits for limits in (LOCAL, PUBLIC)}
BOUNDS = tuple(field for field in dataclasses.fields(Limits) if field.name != "mode")

_lock = threading.Lock()
_in_force: Limits | None = None


def choose(address: str | None = None, environ: Mapping[str, str] | None = None) -> Limits:
    """Decide the limits of this process and give them.

    `address`: what the page is bound to; None is a loopback address, or no page at all.
    Errors: OptionInvalid for a mode or a limit in the environment that is none.
    """
    use(limits_of(address, os.environ if environ is None else environ))
    return in_force()


def in_force() -> Limits:
    """Give the limits of this process; what nothing has chosen is chosen from the environment."""
    global _in_force
    with _lock:
        if _in_force is None:
            _in_force = limits_of(None, os.environ)
        return _in_force


def use(limits: Limits) -> None:
    """Put limits in force in this process: a child is told what its caller has."""
    global _in_force
    with _lock:
        _in_force = limits


def limits_of(address: str | None, environ: Mapping[str, str]) -> Limits:
    """Give the limits for an address and an environment.

    Errors: OptionInvalid.
    """
    known = {_PREFIX + field.name.upper(): field for field in BOUNDS}
    given = {name: value.strip() for name, value in environ.items() if name.startswith(_PREFIX) and value.strip()}
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0) or [*known][:1]
            raise _invalid(name, f"there is no limit {name}", f"the nearest is {near[0]}; README.md lists all")
    changed: dict[str, Any] = {known[name].name: _number(name, value, known[name]) for name, value in given.items()}
    return dataclasses.replace(MODES[mode_of(address, environ)], **changed)


def mode_of(address: str | None, environ: Mapping[str, str]) -> Mode:
    """Give the mode: what INSPECTOR_MODE says, else public on a Space or where others reach the address.

    Errors: OptionInvalid.
    """
    asked = environ.get("INSPECTOR_MODE", "").strip()
    if asked and asked not in MODES:
        raise _invalid("INSPECTOR_MODE", f"INSPECTOR_MODE is {asked[:40]!r}", "set it to local or public, or unset it")
    if asked:
        return Mode(asked)
    return Mode.PUBLIC if "SPACE_ID" in environ or not is_loopback(address) else Mode.LOCAL


def is_loopback(address: str | None) -> bool:
    """Say whether only this machine reaches the address.

    >>> is_loopback(None), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("box")
    (True, True, True, False, False)
    """
    try:
        return address in (None, "localhost") or ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def _number(name: str, text: str, field: dataclasses.Field[Any]) -> float:
    whole = field.type == "int"
    try:
        number: float = int(text.replace("_", "")) if whole else float(text)
    except ValueError:
        number = math.nan
    if 0 < number < math.inf and number <= field.metadata["most"]:
        return number
    most = "" if field.metadata["most"] == math.inf else f" up to {field.metadata['most']:,}"
    kind = "a whole number" if whole else "a number"
    raise _invalid(name, f"{name} is {text[:40]!r}", f"set it to {kind} above 0{most}, or unset it")


def _invalid(name: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": name}, remedy=remedy)


def or_raise(remedy: str, name: str) -> str:
    """Give the remedy of a limit, naming its setting only to the person who has it.

    >>> or_raise("send a shorter request", "request_bytes")
    'send a shorter request, or raise INSPECTOR_LIMIT_REQUEST_BYTES'
    """
    return remedy if in_force().mode is Mode.PUBLIC else f"{remedy}, or raise {_PREFIX}{name.upper()}"


def check(
    name: str, reached: int, what: str, kind: ErrorKind, stage: str, remedy: str, where: dict[str, Any] | None = None
) -> None:
    """Refuse what is over the limit `name`: `what` has `reached` of its unit ("the template has 200,000 bytes").

    Errors: InspectorError of `kind`, with the limit, what was reached, the place and the remedy.
    """
    limit = getattr(in_force(), name)
    if reached > limit:
        raise over(name, f"{what}; the limit is {limit:,}", kind, stage, remedy, {"limit": limit, **(where or {})})


def over(
    name: str, message: str, kind: ErrorKind, stage: str, remedy: str, where: dict[str, Any] | None = None
) -> InspectorError:
    """Make the error of a limit that was met."""
    return InspectorError(kind, message, stage=stage, where=where, remedy=or_raise(remedy, name))


@contextlib.contextmanager
def named(**settings: str) -> Iterator[None]:
    """Name the setting in an error of a limit that knows none: key of the error's `where` -> field of Limits."""
    try:
        yield
    except InspectorError as error:
        if "limit" in error.where:
            for key, name in settings.items():
                if key in error.where:
                    error.remedy = or_raise(error.remedy, name)
        raise


def to_dict(limits: Limits) -> dict[str, Any]:
    """Give the limits as JSON values, `mode` apart from them."""
    return {field.name: getattr(limits, field.name) for field in BOUNDS}


def table() -> str:
    """Give the README's table.

    >>> table().splitlines()[2]
    '| `INSPECTOR_LIMIT_CPU_S` | 60 | 2 | seconds of CPU for a request in its child |'
    """
    lines = ["| setting | local | public | what |", "| --- | --- | --- | --- |"]
    for field in BOUNDS:
        values = (_shown(field.name, limits) for limits in (LOCAL, PUBLIC))
        lines.append(f"| `{_PREFIX}{field.name.upper()}` | {' | '.join(values)} | {field.metadata['what']} |")
    return "\n".join(lines)


def _shown(name: str, limits: Limits) -> str:
    if name == "children":
        return "4 a core" if limits is PUBLIC else "4 a core, at least 8"
    return f"{getattr(limits, name):,}"
