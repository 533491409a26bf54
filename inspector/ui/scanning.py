"""What the page's script may call to scan a dataset: begin one, say what it is at, stop it. On a page for oneself only.

A scan is the command `scan` itself, in a process of its own, with the tokenizer and template of a pane; this module gives
it its options and reads the lines of progress that it writes. One scan runs at a time. Nothing is read or measured here.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.job import Options
from inspector.jsontext import loads
from inspector.processes import boot_command
from inspector.sources.cache import cache_dir, disk_errors
from inspector.ui.calls import answered, malformed, own_machine
from inspector.ui.serve import checked, options_of, whole_number

MOST_UPLOAD = 1 << 30  # bytes of a dataset that is given through the browser
PART_BYTES = 2 << 20
MOST_PATH = 4096
MOST_OPTIONS = 65_536  # characters of a command line
KILL_S = 10.0  # from asking a scan to stop to ending it
_FILE = re.compile(r"[\w .()+@-]{1,200}")


@dataclass(slots=True, eq=False)
class _Scan:
    """One scan: its process, where it writes, what it has said. Units: rows; seconds of time.monotonic()."""

    process: subprocess.Popen[bytes]
    result: IO[bytes]
    folder: Path
    source: str
    began: float = field(default_factory=time.monotonic)
    first: float | None = None  # when rows began
    done: int = 0
    total: int | None = None
    refused: int = 0
    stopped: bool = False
    state: str = "finding"  # then running; done, stopped or failed at the end
    error: str = ""

    def told(self) -> dict[str, Any]:
        """Give what the page shows."""
        seconds = time.monotonic() - (self.first or self.began)
        rate = self.done / seconds if self.first and self.done and seconds > 0 else None
        left = (self.total - self.done) / rate if rate and self.total is not None else None
        return {
            "state": self.state, "folder": str(self.folder), "source": self.source, "rows": self.done,
            "total": self.total, "refused": self.refused, "rate": rate and round(rate, 1),
            "left_s": left and round(left), "failure": self.error,
        }  # fmt: skip


_lock = threading.Lock()
_newest: _Scan | None = None


def scan_start(request: Any) -> str:
    """Begin a scan: what serve.view takes with the panes, `source` a path, `b` whether pane B is compared, `limit` rows or
    ''; gives what `scan_state` gives."""

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        global _newest
        _own_only()
        asked = checked(request)
        source, both = request.get("source"), bool(request.get("b"))
        if not isinstance(source, str) or len(source) > MOST_PATH or len(asked.panes) < 1 + both:
            raise malformed()
        if not source.strip():
            raise _wrong("no file or folder is named", "name one, or choose a file")
        limit = whole_number("limit", request.get("limit"))
        with _lock:
            if _newest is not None and _newest.process.poll() is None:
                raise InspectorError(
                    ErrorKind.Busy, "a scan is running already", stage="source", remedy="wait for its end, or stop it"
                )
            place = _place(source.strip())
            sides = [options_of(asked, q) for q in range(1 + both)]
            shared = _shared(sides, asked.fields.arguments, asked.panes[0]["clock"].strip())
            with disk_errors():
                scans = cache_dir() / "page-scans"
                scans.mkdir(parents=True, exist_ok=True)
                folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=scans))
            out = folder / (re.sub(r"[^\w-]", "", Path(place).name.split(".")[0])[:60] or "scan")
            options = [*shared, *_of_sides(sides, folder), "--out", str(out)]
            options += ["--limit", str(limit)] if limit is not None else []
            _newest = _begun({"options": options, "source": place}, out, source.strip())
        return {"scan": _newest.told()}

    return answered(work, request)


def scan_state(request: Any) -> str:
    """Say what the newest scan is at: `{scan: {state, folder, source, rows, total, refused, rate, left_s, failure} | null}`."""

    def work(_request: dict[str, Any], _session: str) -> dict[str, Any]:
        return {"scan": _newest.told() if _newest is not None and own_machine() else None}

    return answered(work, request)


def scan_stop(request: Any) -> str:
    """Stop the scan that runs: what is measured stays in its folder. Gives what `scan_state` gives."""

    def work(_request: dict[str, Any], _session: str) -> dict[str, Any]:
        _own_only()
        scan = _newest
        if scan is not None and scan.process.poll() is None:
            scan.stopped = True
            scan.process.send_signal(signal.SIGINT)
            timer = threading.Timer(KILL_S, scan.process.kill)
            timer.daemon = True
            timer.start()
        return {"scan": None if scan is None else scan.told()}

    return answered(work, request)


def scan_upload(request: Any) -> str:
    """Take a part of a dataset's file: `{name, data, at}`; gives `{path, size}`, the place that it gets."""

    def work(request: dict[str, Any], session: str) -> dict[str, Any]:
        _own_only()
        name, at = request.get("name"), request.get("at")
        if not isinstance(name, str) or not _FILE.fullmatch(name) or name.startswith(".") or type(at) is not int:
            raise _wrong(
                "the file's name has other characters than letters, digits, blanks and . _ - ( ) + @", "rename it"
            )
        data = _decoded(request.get("data"))
        if at + len(data) > MOST_UPLOAD:
            raise InspectorError(
                ErrorKind.InputTooLarge, f"a file given here may have {MOST_UPLOAD:,} bytes", stage="source",
                where={"limit": MOST_UPLOAD}, remedy="name its path instead: this page reads the files of its machine",
            )  # fmt: skip
        path = cache_dir() / "page-scans" / "files" / session / name
        with disk_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb" if at == 0 else "r+b") as file:
                if file.seek(0, os.SEEK_END) != at:
                    raise malformed()
                file.write(data)
        return {"path": str(path), "size": at + len(data)}

    return answered(work, request)


def _place(source: str) -> str:
    """Errors: OptionInvalid for what can be no path."""
    try:
        place = os.path.expanduser(source)
        os.lstat(place)
    except ValueError:  # a NUL, or a lone surrogate, which is one of these
        raise _wrong("the path has a character that no path has", "type it again") from None
    except OSError:
        pass  # the scan says it
    return place


def _shared(sides: list[Options], arguments: str, clock: str) -> list[str]:
    """Give the options that a scan has for both sides: pane A's, the arguments under the messages, the clock typed.

    Errors: OptionInvalid where pane B has others of its own, for a scan gives B a tokenizer and a template alone.
    """
    a = sides[0]
    for b in sides[1:]:
        for name, what in (("arguments", "other template arguments"), ("name", "another template name"), ("engine", "another engine"), ("profile", "another profile")):  # fmt: skip
            if getattr(a, name) != getattr(b, name):
                raise _wrong(f"pane B has {what} than pane A", "give both the same, or scan each alone")
    given = loads(arguments) if arguments.strip() else {}
    if not isinstance(given, dict):
        raise _wrong("the arguments under the messages are no JSON object", "correct them, or empty that field")
    options = ["--profile", a.profile, "--template-engine", a.engine, "--policy", a.policy]
    options += ["--clock", clock] if clock else []
    options += ["--name", a.name] if a.name and a.template_text is None else []
    for name, value in {**given, **a.arguments}.items():
        options += ["--set", f"{name}={json.dumps(value)}"]
    options += ["--max-new-tokens", str(a.max_new_tokens)]
    options += ["--context-window", str(a.context_window)] if a.context_window is not None else []
    if sum(map(len, options)) > MOST_OPTIONS:
        raise _wrong(f"the template's arguments have more than {MOST_OPTIONS:,} characters", "shorten them")
    return options


def _of_sides(sides: list[Options], folder: Path) -> Iterator[str]:
    """Give the options that say tokenizer and template of each side."""
    a = sides[0]
    template = _template(a, folder / "a.jinja")
    yield from ("--tokenizer", a.tokenizer)
    yield from ("--template", template) if template else ()
    for b in sides[1:]:
        template = _template(b, folder / "b.jinja")
        yield from ("--b", f"{b.tokenizer},{template}" if template else b.tokenizer)


def _template(side: Options, path: Path) -> str | None:
    """Give a side's reference of a template; a text that was typed becomes a file."""
    if side.template_text is None:
        return side.template
    with disk_errors():
        path.write_bytes(side.template_text.encode("utf-8", "surrogatepass"))  # the scan names such a character
    return str(path)


def _begun(config: dict[str, Any], folder: Path, source: str) -> _Scan:
    command = boot_command("inspector.ui.scanning", "main", config)
    result = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who follows the scan
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=result, stderr=subprocess.PIPE)
    scan = _Scan(process, result, folder, source)
    threading.Thread(target=_follow, args=(scan,), name="scan", daemon=True).start()
    return scan


def _follow(scan: _Scan) -> None:
    """Read what the scan says until it ends."""
    assert scan.process.stderr is not None
    last = ""
    for line in scan.process.stderr:
        try:
            said = json.loads(line)
            done, of, refused = (said[name] for name in ("done", "of", "refused"))
        except (ValueError, KeyError, TypeError):
            last = line.decode("utf-8", "replace").strip() or last
            continue
        scan.first = scan.first or time.monotonic()
        scan.done, scan.total, scan.refused = done, of, refused
        scan.state = "running"
    code = scan.process.wait()
    scan.process.stderr.close()
    scan.state, scan.error = ("stopped", "") if scan.stopped and code else _ended(scan, code, last)
    scan.result.close()


def _ended(scan: _Scan, code: int, last: str) -> tuple[str, str]:
    if code == 0:
        return "done", ""
    scan.result.seek(0)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        error = json.loads(scan.result.read())["error"]
        if error is not None:
            return "failed", InspectorError.from_dict(error).one_line()
    return "failed", f"the scan ended with exit code {code}: {last[:300]}"


def main(config: dict[str, Any]) -> None:
    """Run the command: the far side."""
    from inspector.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a server in the background ignores it, and so would we
    sys.argv = ["inspector", "scan", *config["options"], "--json", "--progress-lines", "--", config["source"]]
    run()


def _end() -> None:
    if _newest is not None and _newest.process.poll() is None:
        _newest.process.send_signal(signal.SIGINT)  # it leaves nothing in the temporary folder then
        with contextlib.suppress(subprocess.TimeoutExpired):
            _newest.process.wait(3.0)
        _newest.process.kill()


atexit.register(_end)


def _own_only() -> None:
    """Errors: OptionInvalid."""
    if not own_machine():
        raise InspectorError(
            ErrorKind.OptionInvalid, "this page is for others: it starts no scan, for it would read its machine's files",
            stage="source", where={"option": "source"}, remedy="scan on a page of your own: python -m inspector serve",
        )  # fmt: skip


def _decoded(data: Any) -> bytes:
    if not isinstance(data, str) or len(data) > PART_BYTES * 4 // 3 + 4:
        raise malformed()
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise malformed() from None


def _wrong(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="source", where={"option": "source"}, remedy=remedy)


FUNCTIONS = (scan_start, scan_state, scan_stop, scan_upload)
