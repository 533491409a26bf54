"""Files that come from the page in parts, kept in memory until they are all there; then they go to sources/upload.py.

The parts of all sessions together are bounded: whoever has waited longest gives way. On a page for others one address has as
much as one upload may have: its own older uploads give way first, and its uploads are unpacked one after the other.
Nothing is parsed here.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from inspector import caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sources.names import check_upload_name
from inspector.sources.upload import MAX_BYTES, MAX_FILES
from inspector.ui.admission import busy

PART_BYTES = 2 << 20  # the script's parts have this size; a larger one is refused
MAX_WAITING_BYTES = 4 * MAX_BYTES
IDLE_S = 300.0
TURN_S = 15.0  # how long an upload waits for an older one of its address


@dataclass(slots=True)
class _Waiting:
    """One session's files so far. Units: bytes, seconds."""

    files: dict[str, bytearray] = field(default_factory=dict)
    size: int = 0
    used_at: float = 0.0
    address: str = ""  # of a stranger


class Uploads:
    """The uploads under way, by session. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()  # longest idle first
        self._turn = threading.Condition(self._lock)
        self._unpacked: set[str] = set()  # addresses, or sessions of one's own page, one of whose uploads is unpacked

    def begin(self, session: str) -> None:
        """Forget what the session sent before."""
        with self._lock:
            self._waiting.pop(session, None)
            who = caller.current()
            self._waiting[session] = _Waiting(used_at=time.monotonic(), address=who.address if who.owner else "")
            self._make_room(session, 0)

    def add(self, session: str, name: Any, data: Any) -> int:
        """Add a part to a file; give the size of all parts so far.

        Errors: FileNameInvalid; InputInvalid for what is no part, or an upload that was given up; InputTooLarge.
        """
        part = _decoded(data)
        if not isinstance(name, str):
            raise _unreadable()
        if not _is_zip(name):
            check_upload_name(name)
        with self._lock:
            waiting = self._waiting.get(session)
            if waiting is None:
                raise _given_up()
            if waiting.size + len(part) > MAX_BYTES or len({*waiting.files, name}) > MAX_FILES:
                del self._waiting[session]
                raise _too_large()
            self._make_room(session, len(part))
            waiting.files.setdefault(name, bytearray()).extend(part)
            waiting.size += len(part)
            waiting.used_at = time.monotonic()
            self._waiting.move_to_end(session)
            return waiting.size

    def take(self, session: str) -> dict[str, bytes]:
        """End the upload; give its files.

        Errors: InputInvalid if there is none.
        """
        with self._lock:
            waiting = self._waiting.pop(session, None)
        if waiting is None or not waiting.files:
            raise _given_up()
        return {name: bytes(data) for name, data in waiting.files.items()}

    @contextlib.contextmanager
    def turn(self, session: str) -> Iterator[None]:
        """Let one upload of an address at a time be unpacked: each holds its files in memory once more.

        Errors: Busy.
        """
        who = caller.current()
        name = who.address if who.owner else session
        with self._turn:
            if not self._turn.wait_for(lambda: name not in self._unpacked, TURN_S):
                raise busy("another upload from your address is being unpacked")
            self._unpacked.add(name)
        try:
            yield
        finally:
            with self._turn:
                self._unpacked.discard(name)
                self._turn.notify_all()

    def waiting_bytes(self) -> int:
        """Count the bytes of all sessions that wait for their end."""
        return sum(waiting.size for waiting in self._waiting.values())

    def drop(self, session: str) -> None:
        """Forget what a session sent."""
        with self._lock:
            self._waiting.pop(session, None)

    def _of(self, address: str) -> int:
        return sum(waiting.size for waiting in self._waiting.values() if waiting.address == address)

    def _make_room(self, session: str, size: int) -> None:
        now, address = time.monotonic(), self._waiting[session].address
        for other, waiting in list(self._waiting.items()):
            if address and other != session and waiting.address == address and self._of(address) + size > MAX_BYTES:
                del self._waiting[other]
        for other, waiting in list(self._waiting.items()):
            full = self.waiting_bytes() + size > MAX_WAITING_BYTES
            if other != session and (full or now - waiting.used_at > IDLE_S):
                del self._waiting[other]


def stored(files: dict[str, bytes], since: float | None = None) -> str:
    """Keep complete files, or what one zip holds; give their reference `upload:SHA256`. `since`: as store_upload.

    Errors: as store_upload.
    """
    from inspector.sources import store_upload

    zips = [name for name in files if _is_zip(name)]
    if zips and len(files) > 1:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"{len(files)} files and a zip among them",
            stage="source",
            where={"option": "files"},
            remedy="give one zip, or the files themselves",
        )
    return store_upload(files[zips[0]] if zips else files, since)


def beside(files: dict[str, bytes]) -> list[str]:
    """Name what was left out of the zip that was stored."""
    from inspector.sources.upload import left_out

    return [name for zipped, data in files.items() if _is_zip(zipped) for name in left_out(data)]


def _is_zip(name: str) -> bool:
    return name.lower().endswith(".zip")


def _decoded(data: Any) -> bytes:
    if not isinstance(data, str):
        raise _unreadable()
    if len(data) > PART_BYTES * 4 // 3 + 4:
        raise _too_large()
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _unreadable() from None


def _unreadable() -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid, "no readable file was sent", stage="source", remedy="choose the files again"
    )


def _given_up() -> InspectorError:
    return InspectorError(
        ErrorKind.InputInvalid,
        "the upload was given up before it was complete",
        stage="source",
        remedy="choose the files again",
    )


def _too_large() -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge,
        f"the limit is {MAX_FILES} files with {MAX_BYTES:,} bytes together",
        stage="source",
        where={"option": "files"},
        remedy="give only the tokenizer's and the template's files, not weights",
    )
