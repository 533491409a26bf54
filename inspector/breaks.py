"""Say what a budget's choice broke, and whether what must always hold does: values for the record, nothing is decided here.

Everything is read off tokens, their origins and the request; no text is looked at for how it looks, except that a
field whose own text is a JSON object or array counts as JSON.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.encode import Encoding, TokenFlag, control_mask
from inspector.messages import Conversation


class Break(enum.Enum):
    """A structure that is not whole any more; the value is its name in the record."""

    MESSAGE = "cut_in_message"  # a message has lost some of its tokens and kept others
    TOOL = "cut_in_tool"  # a tool's definition likewise
    DOCUMENT = "cut_in_document"  # a document likewise
    JSON = "cut_in_json"  # a JSON text lost a part: a tool, a tool call, a field that holds JSON
    PLACEHOLDERS = "cut_in_placeholders"  # a run of one control token (image positions) lost some of its tokens
    CHARACTER = "cut_in_character"  # the first or last token holds a part of a character
    TOOL_PAIR = "tool_pair_parted"  # a tool call is in the input without its result, or the reverse
    BOS = "bos_lost"  # the input does not begin with the begin-of-sequence token any more
    PROMPT = "generation_prompt_lost"  # the model is not asked to answer any more
    PROMPT_CUT = "generation_prompt_cut"  # a part of the generation prompt is lost
    UNASKED = "answer_without_question"  # an answer is in the input, the message before it is not


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken structure: its path in the request, if it has one, and the place in the kept input.

    Units: `token` indexes the kept ids; it is their number where what is lost came after all of them. None where the
    place is no place between two tokens.
    """

    what: Break
    path: str | None = None
    token: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of `budget.broken`."""
        return {"what": self.what.value, "path": self.path, "token": self.token}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold of every input, and why it does or does not."""

    name: str
    ok: bool
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Give the entry of `budget.checks`."""
        return {"name": self.name, "ok": self.ok, "why": self.why}


_OF_UNIT = {"messages": Break.MESSAGE, "tools": Break.TOOL, "documents": Break.DOCUMENT}


def breaks_of_cut(
    conversation: Conversation, whole: Encoding, ranges: Sequence[tuple[int, int]], units: Iterable[Sequence[int]]
) -> tuple[Broken, ...]:
    """Say what keeping only these token ranges (half-open, ascending) of the whole input broke.

    `units`: message indices that belong together.
    """
    kept = np.zeros(len(whole), bool)
    for first, last in ranges:
        kept[first:last] = True
    if kept.all():
        return ()
    cut = _Cut(conversation, whole, kept)
    return (*cut.edges(), *cut.paths(), *cut.pairs(units), *cut.prompt())


class _Cut:
    """The whole input with a mask of what is kept."""

    def __init__(self, conversation: Conversation, whole: Encoding, kept: np.ndarray) -> None:
        self.conversation, self.whole, self.kept = conversation, whole, kept
        self.place = np.concatenate(([0], np.cumsum(kept)))  # of each token of the whole in what is kept
        # Tokens before which a cut stands: the first lost one, or the first kept one after a loss.
        self.seams = np.flatnonzero(kept[1:] != kept[:-1]) + 1
        table = whole.rendered.segments
        paths = np.append(table.path, -1)[whole.segment]
        self.names = [table.paths[row] if row >= 0 else "" for row in paths.tolist()]

    def edges(self) -> Iterable[Broken]:
        flags, whole = self.whole.flags, self.whole
        if flags[0] & TokenFlag.BOS and not self.kept[0]:
            yield Broken(Break.BOS, None, 0)
        for seam in self.seams.tolist():
            token, at = int(self.place[seam]), int(whole.start[seam])
            if whole.rendered.utf8[at : at + 1] and whole.rendered.utf8[at] & 0xC0 == 0x80:
                yield Broken(Break.CHARACTER, self.names[seam] or None, token)
            same = whole.input_ids[seam] == whole.input_ids[seam - 1]
            if same and control_mask(flags[seam]) and not flags[seam] & (TokenFlag.BOS | TokenFlag.EOS | TokenFlag.PAD):
                yield Broken(Break.PLACEHOLDERS, self.names[seam] or None, token)

    def paths(self) -> Iterable[Broken]:
        """Yield the units and the JSON texts that have both lost and kept tokens."""
        for unit, token in self._parted({name: _unit(name) for name in set(self.names)}):
            yield Broken(_OF_UNIT.get(unit.split("[")[0], Break.MESSAGE), unit, token)
        for path, token in self._parted({name: self._json(name) for name in set(self.names)}):
            yield Broken(Break.JSON, path, token)

    def _parted(self, group_of: dict[str, str]) -> Iterable[tuple[str, int]]:
        """Yield each group of fields with both lost and kept tokens, and the place of the first cut in it."""
        last: dict[str, int] = {}
        cut: dict[str, int] = {}
        for index, name in enumerate(self.names):
            group = group_of[name]
            if group and group not in cut and self.kept[last.get(group, index)] != self.kept[index]:
                cut[group] = int(self.seams[np.searchsorted(self.seams, last[group], side="right")])
            last[group] = index
        for group, seam in cut.items():
            yield group, int(self.place[seam])

    def _json(self, path: str) -> str:
        """Give the path of the JSON text that a field is part of, or "" if it is of none."""
        if path.startswith("tools["):
            return _unit(path)
        if ".tool_calls[" in path:
            head, _, rest = path.partition(".tool_calls[")
            return f"{head}.tool_calls[{rest.split(']')[0]}]"
        if path.startswith("messages[") and path.endswith("].content"):
            content = self.conversation.messages[int(path[len("messages[") : path.index("]")])].get("content")
            return path if isinstance(content, str) and _holds_json(content) else ""
        return ""

    def pairs(self, units: Iterable[Sequence[int]]) -> Iterable[Broken]:
        tokens: dict[str, list[bool]] = {}
        for name, kept in zip(self.names, self.kept.tolist()):
            tokens.setdefault(_unit(name), []).append(kept)
        for unit in units:
            written = [path for path in map("messages[{}]".format, unit) if path in tokens]
            left = [path for path in written if any(tokens[path])]
            if left and len(left) < len(written):
                yield Broken(Break.TOOL_PAIR, left[0])

    def prompt(self) -> Iterable[Broken]:
        prompt = (self.whole.flags & TokenFlag.GENERATION_PROMPT) != 0
        left, had = int((prompt & self.kept).sum()), int(prompt.sum())
        if had and left < had:
            yield Broken(Break.PROMPT_CUT if left else Break.PROMPT, None, int(self.kept.sum()))


def _unit(path: str) -> str:
    """Give the whole unit that a field belongs to.

    >>> _unit("messages[3].tool_calls[0].id"), _unit("chat_template_kwargs.x")
    ('messages[3]', '')
    """
    name, bracket, rest = path.partition("[")
    return f"{name}[{rest.split(']')[0]}]" if bracket and name in _OF_UNIT else ""


def _holds_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def breaks_of_choice(conversation: Conversation, kept: set[int]) -> tuple[Broken, ...]:
    """Say which kept answers stand without the message that they answer."""
    messages = conversation.messages
    return tuple(
        Broken(Break.UNASKED, f"messages[{index}]")
        for index in sorted(kept)
        if index and messages[index].get("role") == "assistant" and index - 1 not in kept
        if messages[index - 1].get("role") not in ("assistant", "system", "developer")
    )


def invariants(
    conversation: Conversation,
    whole: Encoding,
    chosen: Encoding,
    *,
    limit: int,
    kept: Iterable[str],
    required: Iterable[int],
    parted: Sequence[Broken],
) -> tuple[Check, ...]:
    """Check what must hold of every input; `kept` are the paths of the units that are whole."""
    whole_paths = set(kept)
    needed = [f"messages[{index}]" for index in sorted(required)]
    needed += [f"tools[{index}]" for index in range(len(conversation.tools or ()))]
    missing = [path for path in needed if path not in whole_paths]
    pair = next((entry.path for entry in parted if entry.what is Break.TOOL_PAIR), None)
    return (
        Check("limit", len(chosen) <= limit, f"{len(chosen)} of {limit} tokens, control tokens counted"),
        _user_message(conversation, whole_paths),
        Check("tool_pairs", pair is None, "every result has its call" if pair is None else f"{pair} stands alone"),
        _prompt(whole, chosen),
        Check("required_parts", not missing, f"not whole: {', '.join(missing)}" if missing else "all are whole"),
        _bos(whole, chosen),
        _columns(chosen),
    )


def _user_message(conversation: Conversation, kept: set[str]) -> Check:
    users = [index for index, message in enumerate(conversation.messages) if message.get("role") == "user"]
    if not users:
        return Check("user_message", True, "the request has none")
    path = f"messages[{users[-1]}]"
    return Check("user_message", path in kept, f"{path} is whole" if path in kept else f"{path} is not whole")


def _prompt(whole: Encoding, chosen: Encoding) -> Check:
    """Hold the generation prompt to be there once, at the end, if the whole input had one."""
    prompt, had = (encoding.flags & TokenFlag.GENERATION_PROMPT != 0 for encoding in (chosen, whole))
    runs = int((np.diff(np.concatenate(([0], prompt.astype(np.int8)))) == 1).sum())
    if not had.any():
        return Check("generation_prompt", runs == 0, "none was asked for, or the template writes none")
    at_end = bool(len(prompt) and prompt[-1]) and runs == 1
    return Check("generation_prompt", at_end, "one, at the end" if at_end else f"{runs} in the input")


def _bos(whole: Encoding, chosen: Encoding) -> Check:
    had, has = (int((encoding.flags[:1] & TokenFlag.BOS != 0).sum()) for encoding in (whole, chosen))
    why = {(1, 1): "it is the first token", (0, 0): "the template writes none at the start"}
    return Check("bos", had == has, why.get((had, has), "the first token is another one"))


def _columns(chosen: Encoding) -> Check:
    sizes = {len(column) for column in (chosen.input_ids, chosen.start, chosen.flags, chosen.assistant_mask)}
    return Check("lengths", len(sizes) == 1, f"ids, spans, flags and mask have {sorted(sizes)} entries")


def lengths_check(checks: Sequence[Check], ids: int, mask: int, positions: int) -> tuple[Check, ...]:
    """Give the checks with the one on lengths replaced by that on what the model receives."""
    why = f"{ids} ids, {mask} of the mask, {positions} positions"
    final = Check("lengths", ids == mask == positions, why)
    return tuple(
        Check(check.name, check.ok and final.ok, why) if check.name == "lengths" else check for check in checks
    )
