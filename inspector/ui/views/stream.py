"""Ids one at a time, as a stream shows them; asked for when the tab is opened.

decode.py decodes; here its steps become rows, and the place of a stop string is worked out from them.
"""

from __future__ import annotations

from typing import Any

from inspector.decode import CLEANED
from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views.base import View

MAX_IDS = 4_000
MAX_STOPS = 20
MAX_STOP_CHARS = 200
ROW = ("id", "piece", "bytes", "shown", "held", "held_for_stop", "alone", "alone_is_wrong", "skipped")


def checked_ids(ids: Any) -> list[int]:
    """Give the ids.

    Errors: InputInvalid for what is no list of them; InputTooLarge over MAX_IDS.
    """
    if isinstance(ids, list) and len(ids) > MAX_IDS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{len(ids):,} ids were given, the page steps through up to {MAX_IDS:,}",
            stage="decode",
            remedy="select fewer tokens, or run python -m inspector decode",
        )
    if not isinstance(ids, list) or not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids):
        raise InspectorError(
            ErrorKind.InputInvalid,
            "these are no token ids",
            stage="decode",
            remedy="write whole numbers, parted by spaces or commas",
        )
    return ids


def checked_stops(stops: Any) -> list[str]:
    """Give the stop strings.

    Errors: OptionInvalid for too many, too long ones, or other values.
    """
    sound = isinstance(stops, list) and len(stops) <= MAX_STOPS
    if not sound or not all(isinstance(stop, str) and len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise InspectorError(
            ErrorKind.OptionInvalid,
            f"at most {MAX_STOPS} stop strings of {MAX_STOP_CHARS} characters can be given",
            stage="decode",
            remedy="give fewer or shorter ones",
        )
    return stops


def table(stream: dict[str, Any]) -> dict[str, Any]:
    """Give `stream/1` with its steps as rows in the order of ROW, the cut of a stop string, and the clean-up rules."""
    names = ("text", "leftover", "stopped_by", "cleaned", "clean_up_changes", "with_special_tokens",
             "without_special_tokens")  # fmt: skip
    return {
        **{name: stream[name] for name in names},
        "columns": ROW,
        "steps": [[step[name] for name in ROW] for step in stream["steps"]],
        "cut": cut(stream),
        "clean_up": CLEANED,
    }


def cut(stream: dict[str, Any]) -> list[dict[str, Any]]:
    """Say which tokens a stop string lies in: index, characters of the token before it, and its part there.

    Units: `before` is characters of what the token adds; a token that adds none has no row. Empty without a stop.

    >>> steps = [{"shown": "a", "held_for_stop": "</"}, {"shown": "", "held_for_stop": ""}]
    >>> cut({"stopped_by": "</s>", "text": "a", "steps": steps})
    [{'index': 0, 'before': 1, 'part': '</'}, {'index': 1, 'before': 0, 'part': 's>'}]
    """
    stop, begin = stream["stopped_by"], len(stream["text"])
    if not stop:
        return []
    rows, shown, before = [], 0, 0
    for index, step in enumerate(stream["steps"]):
        shown += len(step["shown"])
        last = index == len(stream["steps"]) - 1
        after = begin + len(stop) if last else shown + len(step["held_for_stop"])
        if after > begin and after > before:
            part = stop[max(0, before - begin) : after - begin]
            rows.append({"index": index, "before": max(0, begin - before), "part": part})
        before = after
    return rows


VIEW = View("stream")
