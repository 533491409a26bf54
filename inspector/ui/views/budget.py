"""The budget: the decision as in the record, and what the tab draws: the whole conversation as a bar, cut or not.

The bar needs the conversation without a window, so the tab asks for it. Which unit a template's own text goes with is a
matter of drawing: up to the first control token after a message it closes that message, what follows opens the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.ui.views.base import View

if TYPE_CHECKING:
    from inspector.budget import Budget, BudgetDecision
    from inspector.encode import Encoding
    from inspector.messages import Conversation

EXCERPT = 60  # characters of a message that stand beside its path
MOST_UNITS = 20_000
OVERHEAD = ("template", "special", "inserted", "clock", "kwarg", "derived", "unknown", "generation_prompt")


def data(inspection: Any) -> dict[str, Any] | None:
    """Give the `budget` object of `inspection/1`."""
    return None if inspection.budget is None else inspection.budget.to_dict()


def answer(
    shown: dict[str, Any],
    key: str | None,
    budget: Budget | None,
    decision: BudgetDecision | None,
    sent: Encoding,
    rejected: str | None = None,
) -> dict[str, Any]:
    """Give one pane's part of the tab; `shown` is its `picture`.

    `key`: of the picture that the page holds; the same one is not sent again. `sent`: tokens of each part in what is sent.
    `ranges`: what a token-level policy keeps.
    """
    from inspector.budget import Policy, cut_ranges

    cuts = budget is not None and budget.policy in (Policy.TOKENS_LEFT, Policy.TOKENS_RIGHT, Policy.TOKENS_MIDDLE)
    return {
        "key": shown["key"],
        "whole": None if shown["key"] == key else shown,
        "sent": _tally(_parts(sent, [unit["path"] for unit in shown["units"]]), len(shown["units"]) + len(OVERHEAD)),
        "budget": None if decision is None else decision.to_dict(),
        "ranges": cut_ranges(shown["total"], budget) if budget is not None and cuts else None,
        "rejected": rejected,
        "error": None,
    }


def picture(whole: Encoding, conversation: Conversation) -> dict[str, Any]:
    """Give the units of a request, and its tokens as runs that one part wrote.

    `runs`: [part, unit it goes with, tokens]; parts are units, then the names of OVERHEAD; -1: it goes with none.
    """
    units = _units(conversation)
    parts, owners = _columns(whole, [unit["path"] for unit in units])
    edges = np.flatnonzero((np.diff(parts) != 0) | (np.diff(owners) != 0)) + 1
    starts = np.concatenate(([0], edges)) if len(parts) else edges
    sizes = np.diff(np.concatenate((starts, [len(parts)])))
    value = {
        "total": len(parts),
        "units": [
            {**unit, "tokens": own, "with_template": lent}
            for unit, own, lent in zip(units, _tally(parts, len(units)), _tally(owners, len(units)), strict=True)
        ],
        "overhead": OVERHEAD,
        "runs": [parts[starts].tolist(), owners[starts].tolist(), sizes.tolist()],
    }
    key = hashlib.sha256(repr((value, whole.rendered.sha256)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return {"key": key, **value}


def _tally(column: np.ndarray, size: int) -> list[int]:
    return [int(n) for n in np.bincount(column[(column >= 0) & (column < size)], minlength=size)]


def _units(conversation: Conversation) -> list[dict[str, Any]]:
    """Give path, role, beginning and group of each unit; `required` ones are kept by message-level policies."""
    from inspector.budget import message_units, required_messages, unit_paths

    messages, rows = conversation.messages, []
    required = required_messages(messages)
    head = {index: group[0] for group in message_units(messages) for index in group}
    for path in unit_paths(conversation)[:MOST_UNITS]:
        name, index = path[:-1].split("[")
        if name == "messages":
            message = messages[int(index)]
            row = {"role": str(message.get("role", ""))[:EXCERPT], "text": _excerpt(message), "with": head[int(index)]}
            rows.append({"path": path, **row, "required": int(index) in required})
        else:
            rows.append({"path": path, "role": "", "text": _name(conversation, name, int(index)), "with": None,
                         "required": name == "tools"})  # fmt: skip
    return rows


def _excerpt(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        content = " ".join(text for text in texts if isinstance(text, str))
    if not content and isinstance(message.get("tool_calls"), list):
        content = ", ".join(_called(call) for call in message["tool_calls"])
    return str(content)[:EXCERPT] if content else ""


def _called(call: Any) -> str:
    function = call.get("function", call) if isinstance(call, dict) else {}
    return f"{function.get('name', '')}(…)" if isinstance(function, dict) else ""


def _name(conversation: Conversation, name: str, index: int) -> str:
    given = (conversation.tools if name == "tools" else conversation.documents) or []
    value = given[index]
    if isinstance(value, dict):
        inner = value.get("function", value)
        value = inner.get("name", inner.get("title", inner.get("text", ""))) if isinstance(inner, dict) else ""
    return str(value)[:EXCERPT]


def _columns(whole: Encoding, units: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Give what wrote each token, and the unit that it goes with. Shapes: int64[n] both."""
    parts = _parts(whole, units)
    owners = np.where(parts < len(units), parts, -1)
    _lend(whole, owners, parts == len(units) + OVERHEAD.index("generation_prompt"), units)
    return parts, owners


def _parts(encoding: Encoding, units: Sequence[str]) -> np.ndarray:
    """Give what wrote each token: a unit, or len(units) and an index of OVERHEAD. Shapes: int64[n]."""
    from inspector.encode import TokenFlag
    from inspector.render import SegmentKind

    table, number = encoding.rendered.segments, {path: at for at, path in enumerate(units)}
    of_path = np.array([number.get(path.split("]", 1)[0] + "]", -1) for path in table.paths] + [-1], np.int64)
    names = {kind: kind.name.lower() for kind in SegmentKind}
    of_kind = {
        kind: len(units) + (OVERHEAD.index(name) if name in OVERHEAD else OVERHEAD.index("template"))
        for kind, name in names.items()
    }
    by_row = of_path[table.path]
    kinds = np.array([of_kind[SegmentKind(kind)] for kind in table.kind.tolist()], np.int64)
    row_part = np.append(np.where(by_row >= 0, by_row, kinds), len(units) + OVERHEAD.index("inserted"))
    parts = row_part[encoding.segment].astype(np.int64)
    parts[(encoding.flags & TokenFlag.GENERATION_PROMPT) != 0] = len(units) + OVERHEAD.index("generation_prompt")
    return parts


def _lend(whole: Encoding, owners: np.ndarray, prompt: np.ndarray, units: Sequence[str]) -> None:
    """Let what the template wrote around messages go with them, in `owners`."""
    messages = sum(path.startswith("messages[") for path in units)
    control, blank = (np.array(column, bool) for column in _marks(whole))
    own = np.flatnonzero((owners >= 0) & (owners < messages) & ~prompt)
    if not len(own):
        return
    for before, after in zip(own[:-1].tolist(), own[1:].tolist()):
        if after - before > 1:
            cut = _closing(before + 1, after, control, blank) if owners[before] != owners[after] else after
            owners[before + 1 : cut] = np.where(owners[before + 1 : cut] < 0, owners[before], owners[before + 1 : cut])
            owners[cut:after] = np.where(owners[cut:after] < 0, owners[after], owners[cut:after])
    first, last = int(own[0]), int(own[-1])
    opening = np.flatnonzero(control[:first] & (owners[:first] < 0))
    begins = int(opening[-1]) if len(opening) else first
    owners[begins:first] = np.where(owners[begins:first] < 0, owners[first], owners[begins:first])
    rest = slice(last + 1, None)
    owners[rest] = np.where((owners[rest] < 0) & ~prompt[rest], owners[last], owners[rest])


def _marks(whole: Encoding) -> tuple[np.ndarray, list[bool]]:
    """Say of each token whether it is a control token, and whether it is white space only."""
    from inspector.encode import control_mask

    utf8 = whole.rendered.utf8
    unwritten = np.append(whole.rendered.segments.path, -1)[whole.segment] < 0
    blank = [
        bool(template) and not utf8[start:end].strip()
        for template, start, end in zip(unwritten.tolist(), whole.start.tolist(), whole.end.tolist())
    ]
    return control_mask(whole.flags) != 0, blank


def _closing(first: int, last: int, control: np.ndarray, blank: np.ndarray) -> int:
    """Give where the text between two messages stops to close the first one."""
    at = first
    while at < last and not control[at]:
        at += 1
    if at == last:
        return first
    at += 1
    while at < last and blank[at] and not control[at]:
        at += 1
    return at


VIEW = View("budget", data)
