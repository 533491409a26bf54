"""States of the page that are too long for a link, kept on this server for a while: short, dated, bounded, deletable.

An id is 128 random bits and the only way to a state; what lies on disk is named by its hash, so that a listing of the
folder opens nothing. Only who stored a state has the key that deletes it. What a state says is not looked at: the page
checks it when it opens it, as it does for a link or a file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from inspector import caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sources.cache import cache_dir, disk_errors, lock
from inspector.ui.calls import answered, malformed, own_machine

DAYS = 30
MOST_STATE = 2_000_000  # characters of one state
MOST_TOTAL = 200_000_000  # bytes of all, as they lie on disk
AN_HOUR, CHARACTERS_AN_HOUR = 30, 10_000_000  # of one address, on a page for others
_BEGINS = '{"schema":"page-state/1",'
_ID, _KEY = re.compile(r"[A-Za-z0-9_-]{22}"), re.compile(r"[A-Za-z0-9_-]{43}")
_SUFFIX = ".share"

now: Callable[[], float] = time.time  # tests move it


def share_keep(request: Any) -> str:
    """Store a state for DAYS: `{session, state}`; `{id, key, until}`, `until` in milliseconds since 1970."""

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        state = request.get("state")
        if not isinstance(state, str) or not state.startswith(_BEGINS):
            raise malformed()
        if len(state) > MOST_STATE:
            raise _too_large(len(state))
        _rated(len(state))
        share, key, until = secrets.token_urlsafe(16), secrets.token_urlsafe(32), now() + DAYS * 86400
        head = json.dumps({"until": until, "key": _hash(key)}).encode()
        _write(_path(share), head + b"\n" + zlib.compress(state.encode("utf-8", "surrogatepass"), 6), until)
        return {"id": share, "key": key, "until": int(until * 1000)}

    return answered(work, request)


def share_open(request: Any) -> str:
    """Give a state that was stored, to the byte: `{session, id}`; `{state, until}`."""

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        head, data = _read(_path(_matching(_ID, request.get("id"))))
        unpacker = zlib.decompressobj()
        state = unpacker.decompress(data, 4 * MOST_STATE).decode("utf-8", "surrogatepass")
        return {"state": state, "until": int(head["until"] * 1000)}

    return answered(work, request)


def share_drop(request: Any) -> str:
    """Delete a state: `{session, id, key}`, with the key that its maker was given; `{dropped: true}`."""

    def work(request: dict[str, Any], _session: str) -> dict[str, Any]:
        path = _path(_matching(_ID, request.get("id")))
        head, _data = _read(path)
        if not hmac.compare_digest(head["key"], _hash(_matching(_KEY, request.get("key")))):
            raise malformed()
        path.unlink(missing_ok=True)
        return {"dropped": True}

    return answered(work, request)


def terms() -> dict[str, int]:
    """Give what the page says before it stores anything."""
    return {"days": DAYS, "limit": MOST_STATE}


def _rated(size: int) -> None:
    """Count a state against what one address of a page for others may store. Errors: Busy."""
    if own_machine():
        return
    address = caller.current().address or "unknown"
    states, characters = _rates()
    if not states(address, 1) or not characters(address, size):
        raise InspectorError(
            ErrorKind.Busy,
            f"your address has stored {AN_HOUR} states or {CHARACTERS_AN_HOUR:,} characters within the last hour",
            stage="source",
            where={"limit": AN_HOUR},
            remedy="take the state file instead, or try again later",
        )


@lru_cache(maxsize=1)
def _rates() -> tuple[Callable[[str, int], bool], ...]:
    """Give two counters over an hour: each takes an address and an amount, and says whether it still fits."""
    from limits import RateLimitItemPerHour
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter

    storage = MemoryStorage()
    counted, measured = (
        MovingWindowRateLimiter(storage),
        FixedWindowRateLimiter(storage),
    )  # the first keeps one entry a unit
    states, characters = RateLimitItemPerHour(AN_HOUR), RateLimitItemPerHour(CHARACTERS_AN_HOUR)
    return (
        lambda address, amount: counted.hit(states, address, cost=amount),
        lambda address, amount: (
            measured.test(characters, address, cost=amount) and measured.hit(characters, address, cost=amount)
        ),  # a hit alone would count what was refused
    )


def _folder() -> Path:
    return cache_dir() / "shares"


def _path(share: str) -> Path:
    return _folder() / f"{_hash(share)}{_SUFFIX}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    """Errors: ArtifactUnavailable."""
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    raise _gone()


def _write(path: Path, data: bytes, until: float) -> None:
    """Write atomically, dated by its end, after everything that has run out was removed.

    Errors: CacheFull.
    """
    with disk_errors():
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock("shares"):
            if _swept() + len(data) > MOST_TOTAL:
                raise _full()
            draft = path.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}")
            try:
                draft.write_bytes(data)
                os.utime(draft, (until, until))
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)


def _swept() -> int:
    """Remove what has run out, and drafts that a dead process left; give the bytes of the rest."""
    total = 0
    for path in _folder().iterdir():
        status = path.stat()
        if status.st_mtime < now() if path.suffix == _SUFFIX else status.st_mtime < now() - 3600:
            path.unlink(missing_ok=True)
        else:
            total += status.st_size
    return total


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Errors: ArtifactUnavailable for what is not there any more."""
    try:
        head, _line, data = path.read_bytes().partition(b"\n")
    except OSError:
        raise _gone() from None
    told = json.loads(head)
    if told["until"] < now():
        path.unlink(missing_ok=True)
        raise _gone()
    return told, data


def _gone() -> InspectorError:
    return InspectorError(
        ErrorKind.ArtifactUnavailable,
        "this server keeps no state under that link: it ran out, was deleted, or never was",
        stage="source",
        remedy="ask for the state file, or for a new link",
    )


def _full() -> InspectorError:
    return InspectorError(
        ErrorKind.CacheFull,
        f"this server keeps at most {MOST_TOTAL // 1_000_000} MB of states, and they are full",
        stage="source",
        where={"limit": MOST_TOTAL},
        remedy="take the state file instead",
    )


def _too_large(size: int) -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge,
        f"the state has {size:,} characters, this server keeps at most {MOST_STATE:,}",
        stage="request",
        where={"limit": MOST_STATE},
        remedy="take the state file instead",
    )


FUNCTIONS = (share_keep, share_open, share_drop)
