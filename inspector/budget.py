"""Fit a conversation into a context window, and say what was kept, cut and dropped, and why.

Every candidate is rendered and tokenized as a whole; nothing is estimated from characters or from parts, because
template boundaries and merges change lengths. `Lengths` may tell the length of a candidate without that, from turns
that were rendered and tokenized before; what it cannot tell is rendered, and what it chose is rendered at the end: if
the text were another one, the search would be done again without it.
"""

from __future__ import annotations

import bisect
import enum
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from inspector.breaks import Broken, Check, breaks_of_choice, breaks_of_cut, invariants
from inspector.encode import NO_SEGMENT, Encoding, cut_token_segments, slice_encoding
from inspector.engines.base import TemplateCall
from inspector.errors import ErrorKind, InspectorError
from inspector.messages import Conversation
from inspector.render import Rendered, Segments
from inspector.tokenizers.base import Tokenizer
from inspector.tokenizers.sections import Counted, SectionEncoder

Assemble = Callable[[Conversation], Encoding]
MakeLengths = Callable[[Conversation], "Lengths | None"]


class Policy(enum.Enum):
    """What to do when the whole does not fit."""

    MESSAGES = "messages"  # required parts, then history newest first, then documents; what does not fit is passed over
    KEEP_FIRST = "keep_first"  # required parts, the first turns, then the newest messages without a gap
    DROP_MIDDLE = "drop_middle"  # required parts, then newest and oldest turns in alternation
    TOKENS_LEFT = "tokens_left"  # cut ids from the left, as vLLM's truncate_prompt_tokens
    TOKENS_RIGHT = "tokens_right"  # cut ids from the right, as transformers' truncation_side="right"
    TOKENS_MIDDLE = "tokens_middle"  # keep both ends of the ids
    REJECT = "reject"  # refuse what does not fit


@dataclass(frozen=True, slots=True)
class Budget:
    """A context window of N positions of which g are reserved for output: n_input + g <= N.

    `whole_turns`: a user message stands or falls with its answers. `document_order`: indices of documents by priority,
    the most wanted first; those it does not name come after them, as given. `first_turns`: how many turns keep_first keeps
    at the chat's beginning.
    """

    context_window: int
    max_new_tokens: int = 0
    policy: Policy = Policy.MESSAGES
    whole_turns: bool = False
    document_order: tuple[int, ...] = ()
    first_turns: int = 1

    @property
    def max_input_tokens(self) -> int:
        return self.context_window - self.max_new_tokens


@dataclass(frozen=True, slots=True)
class Dropped:
    """A unit that is not in the input: its path, the tokens it would have cost, and why it is out."""

    path: str
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """The decision as it goes into the record; every unit of the request is in exactly one of the three lists."""

    budget: Budget
    input_tokens: int
    required_tokens: int
    kept: tuple[str, ...]
    cut: tuple[tuple[str, int], ...] = ()
    dropped: tuple[Dropped, ...] = ()
    broken: tuple[Broken, ...] = ()
    checks: tuple[Check, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the `budget` object of `inspection/1`."""
        return {
            "context_window": self.budget.context_window,
            "max_new_tokens": self.budget.max_new_tokens,
            "max_input_tokens": self.budget.max_input_tokens,
            "policy": self.budget.policy.value,
            "input_tokens": self.input_tokens,
            "required_tokens": self.required_tokens,
            "kept": list(self.kept),
            "cut": [{"path": path, "tokens_lost": lost} for path, lost in self.cut],
            "dropped": [{"path": d.path, "tokens": d.tokens, "reason": d.reason} for d in self.dropped],
            "whole_turns": self.budget.whole_turns,
            "document_order": list(self.budget.document_order),
            "first_turns": self.budget.first_turns,
            "broken": [entry.to_dict() for entry in self.broken],
            "checks": [check.to_dict() for check in self.checks],
        }


@dataclass(frozen=True, slots=True, eq=False)
class BudgetedInput:
    """What goes to the model, and the decision that made it so."""

    encoding: Encoding
    decision: BudgetDecision


class Lengths(Protocol):
    """Tells how many tokens a candidate has, exactly, without rendering all of it.

    A candidate is a beginning and an end of messages (rising indices); others are put between the two.
    """

    def begin(self, head: Sequence[int], tail: Sequence[int]) -> None:
        """Take this beginning and this end."""
        ...

    def push(self, indices: Sequence[int], *, to_head: bool) -> None:
        """Put messages between the two, as the new edge of the beginning or of the end, on trial until the next."""
        ...

    def undo(self) -> None:
        """Take the last push back."""
        ...

    def length(self) -> int | str | None:
        """Give the number of tokens, the template's refusal, or None: it has to be rendered."""
        ...

    def text(self) -> str | None:
        """Give the rendered text."""
        ...


class BudgetRejected(InspectorError):
    """BudgetExceeded, with the decision so far and the encoding that did not fit."""

    def __init__(self, message: str, remedy: str, decision: BudgetDecision, encoding: Encoding) -> None:
        where = {"required_tokens": decision.required_tokens, "max_input_tokens": decision.budget.max_input_tokens}
        super().__init__(ErrorKind.BudgetExceeded, message, stage="budget", where=where, remedy=remedy)
        self.decision, self.encoding = decision, encoding


def make_budget(
    context_window: int,
    max_new_tokens: int = 0,
    policy: str = "messages",
    whole_turns: bool = False,
    document_order: Sequence[int] = (),
    first_turns: int = 1,
) -> Budget:
    """Check the numbers and the policy's name.

    Errors: OptionInvalid.
    """
    names = [member.value for member in Policy]
    if policy not in names:
        raise _bad_option("policy", f"{policy!r} is not a budget policy", f"one of {', '.join(names)}")
    if context_window < 1:
        raise _bad_option("context_window", f"a context window of {context_window} holds nothing", "a number above 0")
    if not 0 <= max_new_tokens < context_window:
        raise _bad_option(
            "max_new_tokens",
            f"reserving {max_new_tokens} of {context_window} positions for output leaves no room for input",
            f"a number from 0 to {context_window - 1}",
        )
    if len(set(document_order)) != len(document_order) or any(index < 0 for index in document_order):
        raise _bad_option(
            "document_order", f"{list(document_order)} is no order of documents", "each index once, from 0"
        )
    if first_turns < 0:
        raise _bad_option("first_turns", f"{first_turns} turns cannot be kept", "a number from 0")
    return Budget(context_window, max_new_tokens, Policy(policy), whole_turns, tuple(document_order), first_turns)


def fit_context(
    conversation: Conversation,
    assemble: Assemble,
    budget: Budget,
    lengths: MakeLengths = lambda conversation: None,
) -> BudgetedInput:
    """Choose what goes into the window.

    `assemble` renders and tokenizes one candidate; `lengths` gives what tells the lengths of those that are this
    conversation less some messages, if anything can. Errors: BudgetExceeded (as BudgetRejected) when the required
    parts do not fit; whatever `assemble` raises on the whole conversation or on its required parts.
    """
    beyond = [index for index in budget.document_order if index >= len(conversation.documents or ())]
    if beyond:
        raise _bad_option("document_order", f"there is no documents[{beyond[0]}]", "indices of documents given")
    whole = assemble(conversation)  # a template that refuses the request itself: no budget hides that
    try:
        fitted = _fitted(conversation, whole, assemble, budget, lengths)
    except BudgetRejected as error:
        error.decision = _checked(conversation, whole, BudgetedInput(error.encoding, error.decision))
        raise
    return replace(fitted, decision=_checked(conversation, whole, fitted))


def _fitted(
    conversation: Conversation, whole: Encoding, assemble: Assemble, budget: Budget, lengths: MakeLengths
) -> BudgetedInput:
    if budget.policy in (Policy.TOKENS_LEFT, Policy.TOKENS_RIGHT, Policy.TOKENS_MIDDLE):
        return _cut_tokens(conversation, whole, budget)
    if budget.policy is Policy.REJECT:
        return _all_or_nothing(conversation, whole, budget)
    try:
        return _Search(conversation, whole, assemble, budget, lengths).run()
    except _Mistaken:
        return _Search(conversation, whole, assemble, budget, lambda given: None).run()


def _checked(conversation: Conversation, whole: Encoding, fitted: BudgetedInput) -> BudgetDecision:
    """Add the invariants to the decision."""
    decision = fitted.decision
    checks = invariants(
        conversation,
        whole,
        fitted.encoding,
        limit=decision.budget.max_input_tokens,
        kept=decision.kept,
        required=required_messages(conversation.messages),
        parted=decision.broken,
    )
    return replace(decision, checks=checks)


def told_lengths(call: TemplateCall, tokenizer: Tokenizer) -> Lengths | None:
    """Give the lengths of what the template writes for some of the call's messages, from turns rendered before.

    None for a tokenizer or a template that they cannot be told of.
    """
    sections = getattr(tokenizer, "sections", None)
    if sections is None:
        return None
    from inspector.engines.incremental import CannotTell, IncrementalTemplate, Refused

    known: SectionEncoder = sections

    class Told(IncrementalTemplate[Counted]):
        def length(self) -> int | str | None:
            try:
                return known.length(self.render(), tokenizer.encode)
            except Refused as refusal:
                return str(refusal)
            except CannotTell:
                return None

        def text(self) -> str | None:
            try:
                return self.render().text()
            except (Refused, CannotTell):
                return None

    try:
        return Told(call, known.counted, known.joined)
    except CannotTell:
        return None


def message_units(messages: Sequence[dict[str, Any]]) -> list[tuple[int, ...]]:
    """Group message indices that stand or fall together: a tool call with all its results.

    A result belongs to the call its tool_call_id names, else to the nearest assistant message with tool calls that
    only tool messages separate it from; a result without a call is a unit of its own.

    >>> message_units([{"role": "user"}, {"role": "assistant", "tool_calls": [{"id": "a"}]}, {"role": "tool"}])
    [(0,), (1, 2)]
    """
    owner: dict[int, int] = {}
    caller_of: dict[str, int] = {}
    nearest: int | None = None
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            owner[index] = caller_of.get(str(message.get("tool_call_id")), index if nearest is None else nearest)
            continue
        owner[index], calls = index, message.get("tool_calls") or []
        nearest = index if calls else None
        for call in calls:
            if isinstance(call, dict) and call.get("id") is not None:
                caller_of[str(call["id"])] = index
    groups: dict[int, list[int]] = {}
    for index, head in owner.items():
        groups.setdefault(head, []).append(index)
    return sorted((tuple(sorted(group)) for group in groups.values()), key=max)


def required_messages(messages: Sequence[dict[str, Any]]) -> set[int]:
    """Give the messages that may not be dropped: leading system/developer, the last user message and all after it.

    Without a user message the last message takes that place. Units with one required member are required whole.
    """
    leading = 0
    while leading < len(messages) and messages[leading].get("role") in ("system", "developer"):
        leading += 1
    users = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    tail = users[-1] if users else max(leading, len(messages) - 1)
    required = {*range(leading), *range(tail, len(messages))}
    for unit in message_units(messages):
        if required.intersection(unit):
            required.update(unit)
    return required


def required_part(conversation: Conversation) -> Conversation:
    """Give what no message-level policy drops: the required messages with all tools, without documents."""
    messages = conversation.messages
    kept = [messages[index] for index in sorted(required_messages(messages))]
    return replace(conversation, messages=kept, documents=None if conversation.documents is None else [])


class _Mistaken(Exception):
    """What was chosen by lengths is another text when it is rendered."""


class _Told:
    """What `Lengths` tell, kept in step with a search whose groups need not lie between the two parts of the chat."""

    def __init__(self, lengths: Lengths, required: set[int]) -> None:
        self.lengths = lengths
        kept = sorted(required)
        leading = next((place for place, index in enumerate(kept) if place != index), len(kept))
        self._begin(kept[:leading], kept[leading:])

    def _begin(self, head: list[int], tail: list[int]) -> None:
        self.lengths.begin(head, tail)
        self.low, self.high = head[-1] if head else -1, tail[0] if tail else None

    def try_group(self, kept: set[int], group: tuple[int, ...], oldest: bool) -> int | str | None:
        """Put the group in, and give what `Lengths.length` says."""
        self._before = kept
        self._between = self.low < group[0] and (self.high is None or group[-1] < self.high)
        if self._between:
            self.lengths.push(group, to_head=oldest)
            self._edge = (group[-1], self.high) if oldest else (self.low, group[0])
        else:
            self._rebuild(sorted(kept.union(group)))
            self._edge = self.low, self.high
        return self.lengths.length()

    def _rebuild(self, messages: list[int]) -> None:
        cut = bisect.bisect_right(messages, self.low)
        self._begin(messages[:cut], messages[cut:])

    def keep(self) -> None:
        self.low, self.high = self._edge

    def undo(self) -> None:
        if self._between:
            self.lengths.undo()
        else:
            self._rebuild(sorted(self._before))


class _Search:
    """The message-level search: add groups in order, keep each that still fits as a whole."""

    def __init__(
        self, conversation: Conversation, whole: Encoding, assemble: Assemble, budget: Budget, lengths: MakeLengths
    ) -> None:
        self.conversation, self.whole, self.assemble, self.budget = conversation, whole, assemble, budget
        self.make_lengths = lengths
        self.required = required_messages(conversation.messages)
        self.messages, self.documents = set(self.required), set[int]()
        self.dropped: dict[str, Dropped] = {}
        self.current: Encoding
        self.tokens = 0  # of what is kept so far; `current` may be older than that
        self.told: _Told | None = None

    def run(self) -> BudgetedInput:
        if len(self.whole) <= self.budget.max_input_tokens:
            return self._everything(self.whole)
        self.current = self._candidate(self.messages, self.documents)
        self.tokens = required_tokens = len(self.current)
        if required_tokens > self.budget.max_input_tokens:
            raise self._rejection(required_tokens)
        self._begin_told()
        order = _ORDERS[self.budget.policy]
        units = [unit for unit in message_units(self.conversation.messages) if not self.required.issuperset(unit)]
        order(self, _turns(self.conversation.messages, units) if self.budget.whole_turns else units)
        self._check_told()
        self._add_documents()
        decision = BudgetDecision(
            budget=self.budget,
            input_tokens=len(self.current),
            required_tokens=required_tokens,
            kept=tuple(path for path in unit_paths(self.conversation) if path not in self.dropped),
            dropped=tuple(self.dropped[path] for path in unit_paths(self.conversation) if path in self.dropped),
            broken=breaks_of_choice(self.conversation, self.messages),
        )
        return BudgetedInput(self.current, decision)

    def _everything(self, whole: Encoding) -> BudgetedInput:
        try:
            required_tokens = len(self._candidate(self.messages, self.documents))
        except InspectorError:
            required_tokens = len(whole)  # the template takes no part of the conversation alone: all of it is required
        kept = tuple(unit_paths(self.conversation))
        return BudgetedInput(whole, BudgetDecision(self.budget, len(whole), required_tokens, kept))

    def add_newest_first(self, units: Sequence[tuple[int, ...]], *, stop_at_miss: bool = False) -> None:
        """Try each unit, newest first. A unit that the template refuses alone (roles that must alternate) is tried
        again together with the next older one."""
        pending: tuple[int, ...] = ()
        missed = False
        for unit in sorted(units, key=max, reverse=True):
            if missed and stop_at_miss:
                self._drop(unit, 0, "older than a message that does not fit")
                continue
            group = (*pending, *unit)
            refusal = self.try_group(group)
            pending = group if refusal else ()
            missed = missed or self._is_dropped(unit)
        if pending:
            refusal = self.try_group(pending) or "the template refuses"
            self._drop(pending, 0, refusal)

    def try_group(self, group: Iterable[int], *, oldest: bool = False) -> str | None:
        """Keep the group if the candidate with it fits, else drop it; give the template's refusal, if it refused.

        `oldest`: it goes beside the chat's beginning, else beside its end.
        """
        group = tuple(sorted(group))
        told = self.told.try_group(self.messages, group, oldest) if self.told else None
        length = self._rendered_length(group) if told is None else told
        fits = isinstance(length, int) and length <= self.budget.max_input_tokens
        if self.told:
            (self.told.keep if fits else self.told.undo)()
        if isinstance(length, str):
            return f"the template refuses the conversation with it: {length}"
        if fits:
            self.messages.update(group)
            self.tokens = length
        else:
            self._drop(group, length - self.tokens, self._too_long(length))
        return None

    def _rendered_length(self, group: tuple[int, ...]) -> int | str:
        """Render what is kept with the group, and give its length or the template's refusal."""
        try:
            candidate = self._candidate(self.messages.union(group), self.documents)
        except InspectorError as error:
            if error.stage != "render" or error.kind.exit_code != 2:
                raise
            return error.message
        if len(candidate) <= self.budget.max_input_tokens:
            self.current = candidate
        return len(candidate)

    def _begin_told(self) -> None:
        """Let lengths be told, if what can tell them agrees about the required messages."""
        documents = None if self.conversation.documents is None else list[Any]()
        lengths = self.make_lengths(replace(self.conversation, documents=documents))
        if lengths is not None:
            told = _Told(lengths, self.required)
            if lengths.length() == self.tokens and lengths.text() == self.current.rendered.text:
                self.told = told

    def _check_told(self) -> None:
        """Render what was chosen by its length. Errors: _Mistaken if it is another text than what was measured."""
        if self.told is None:
            return
        length, text = self.told.lengths.length(), self.told.lengths.text()
        self.current = self._candidate(self.messages, self.documents)
        self.told = None
        if len(self.current) != self.tokens or (
            length is not None and (length, text) != (self.tokens, self.current.rendered.text)
        ):
            raise _Mistaken

    def _add_documents(self) -> None:
        given, first = range(len(self.conversation.documents or ())), self.budget.document_order
        for index in [*first, *(index for index in given if index not in first)]:
            candidate = self._candidate(self.messages, self.documents | {index})
            if len(candidate) <= self.budget.max_input_tokens:
                self.documents.add(index)
                self.current = candidate
            else:
                path = f"documents[{index}]"
                cost = len(candidate) - len(self.current)
                self.dropped[path] = Dropped(path, cost, self._too_long(len(candidate)))

    def _candidate(self, messages: set[int], documents: set[int]) -> Encoding:
        given = self.conversation
        chosen = None if given.documents is None else [given.documents[index] for index in sorted(documents)]
        return self.assemble(
            replace(given, messages=[given.messages[index] for index in sorted(messages)], documents=chosen)
        )

    def _too_long(self, length: int) -> str:
        return f"with it the input has {length} tokens, the limit is {self.budget.max_input_tokens}"

    def _drop(self, group: Iterable[int], tokens: int, reason: str) -> None:
        for position, index in enumerate(sorted(group)):
            path = f"messages[{index}]"
            self.dropped[path] = Dropped(path, tokens if position == 0 else 0, reason)

    def _is_dropped(self, unit: tuple[int, ...]) -> bool:
        return f"messages[{unit[0]}]" in self.dropped

    def _rejection(self, required_tokens: int) -> BudgetRejected:
        required = {f"messages[{index}]" for index in self.required}
        paths = unit_paths(self.conversation)
        kept = tuple(path for path in paths if path in required or path.startswith("tools["))
        out = tuple(Dropped(path, 0, "not tried: the required parts do not fit") for path in paths if path not in kept)
        decision = BudgetDecision(self.budget, required_tokens, required_tokens, kept, dropped=out)
        return BudgetRejected(
            f"the required parts have {required_tokens} tokens, the input may have {self.budget.max_input_tokens}"
            f" (window {self.budget.context_window} less {self.budget.max_new_tokens} reserved for output)",
            "raise the context window, reserve less, or shorten the system message, tools or last user message",
            decision,
            self.current,
        )


def _order_messages(search: _Search, units: list[tuple[int, ...]]) -> None:
    search.add_newest_first(units)


def _order_keep_first(search: _Search, units: list[tuple[int, ...]]) -> None:
    turns = _turns(search.conversation.messages, units)
    first = turns[: search.budget.first_turns]
    for turn in first:
        refusal = search.try_group(turn, oldest=True)
        if refusal:
            search._drop(turn, 0, refusal)
    tried = {index for turn in first for index in turn}
    search.add_newest_first([unit for unit in units if unit[0] not in tried], stop_at_miss=True)


def _order_drop_middle(search: _Search, units: list[tuple[int, ...]]) -> None:
    turns = _turns(search.conversation.messages, units)
    newest = True
    while turns:
        turn = turns.pop() if newest else turns.pop(0)
        refusal = search.try_group(turn, oldest=not newest)
        newest = not newest
        if refusal:
            search._drop(turn, 0, refusal)
        if search._is_dropped(turn):
            for rest in turns:
                search._drop(rest, 0, "in the middle: a turn nearer to an end does not fit")
            return


_ORDERS: dict[Policy, Callable[[_Search, list[tuple[int, ...]]], None]] = {
    Policy.MESSAGES: _order_messages,
    Policy.KEEP_FIRST: _order_keep_first,
    Policy.DROP_MIDDLE: _order_drop_middle,
}


def _turns(messages: Sequence[dict[str, Any]], units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Join the units of one user turn: a user message and everything up to the next one."""
    turns: list[list[int]] = []
    for unit in sorted(units, key=min):
        if not turns or messages[unit[0]].get("role") == "user":
            turns.append([])
        turns[-1].extend(unit)
    return [tuple(turn) for turn in turns]


def unit_paths(conversation: Conversation) -> list[str]:
    """Give the path of every whole unit of the request, in the order messages, tools, documents."""
    return [
        *(f"messages[{index}]" for index in range(len(conversation.messages))),
        *(f"tools[{index}]" for index in range(len(conversation.tools or ()))),
        *(f"documents[{index}]" for index in range(len(conversation.documents or ()))),
    ]


def _all_or_nothing(conversation: Conversation, encoding: Encoding, budget: Budget) -> BudgetedInput:
    decision = BudgetDecision(budget, len(encoding), len(encoding), tuple(unit_paths(conversation)))
    if len(encoding) > budget.max_input_tokens:
        raise BudgetRejected(
            f"the input has {len(encoding)} tokens, the limit is {budget.max_input_tokens}, and the policy is to reject",
            "raise the context window, shorten the request, or choose another policy",
            decision,
            encoding,
        )
    return BudgetedInput(encoding, decision)


def _cut_tokens(conversation: Conversation, encoding: Encoding, budget: Budget) -> BudgetedInput:
    """Cut ids as engines do; structure may break, and the decision says which units lost tokens."""
    total, ranges = len(encoding), cut_ranges(len(encoding), budget)
    kept = (
        encoding
        if total <= budget.max_input_tokens
        else cut_encoding(encoding, [pair for pair in ranges if pair[0] < pair[1]])
    )
    before, after = _unit_tokens(encoding), _unit_tokens(kept)
    paths = unit_paths(conversation)
    lost = {path: before.get(path, 0) - after.get(path, 0) for path in paths}
    reason = f"all its tokens lie in the part that {budget.policy.value} cuts"
    gone = {path for path in paths if lost[path] and not after.get(path)}
    decision = BudgetDecision(
        budget=budget,
        input_tokens=len(kept),
        required_tokens=total,
        kept=tuple(path for path in paths if not lost[path]),
        cut=tuple((path, lost[path]) for path in paths if lost[path] and path not in gone),
        dropped=tuple(Dropped(path, lost[path], reason) for path in paths if path in gone),
        broken=breaks_of_cut(conversation, encoding, ranges, message_units(conversation.messages)),
    )
    return BudgetedInput(kept, decision)


def cut_ranges(total: int, budget: Budget) -> list[tuple[int, int]]:
    """Give the token ranges (half-open, ascending, either may be empty) that a token-level policy keeps of an input.

    >>> cut_ranges(10, make_budget(4, policy="tokens_middle"))
    [(0, 2), (8, 10)]
    """
    limit = min(total, budget.max_input_tokens)
    head = {Policy.TOKENS_LEFT: 0, Policy.TOKENS_RIGHT: limit, Policy.TOKENS_MIDDLE: limit - limit // 2}[budget.policy]
    return [(0, head), (total - (limit - head), total)]


def _unit_tokens(encoding: Encoding) -> dict[str, int]:
    """Tokens whose first byte comes from each unit."""
    tally: dict[str, int] = {}
    for path, number in encoding.counts()["by_path"].items():
        unit = path.split("]", 1)[0] + "]"
        tally[unit] = tally.get(unit, 0) + number
    return tally


def cut_encoding(encoding: Encoding, ranges: Sequence[tuple[int, int]]) -> Encoding:
    """Keep only the token ranges (half-open, ascending), and the bytes of the rendered text they stand for.

    A character that the cut splits is not in the text any more; the token keeps its id and has no span for it.
    """
    if encoding.rendered.kind == "token_segments":
        return cut_token_segments(encoding, np.concatenate([np.arange(first, last) for first, last in ranges]))
    utf8, segments = encoding.rendered.utf8, encoding.rendered.segments
    pieces: list[bytes] = []
    tables: list[Segments] = []
    keep, starts, ends, rows = [], [], [], []
    offset = row_offset = 0
    for first, last in ranges:
        a, b = _character_bounds(utf8, int(encoding.start[first]), int(encoding.end[last - 1]))
        table, first_row = clip_segments(segments, a, b, offset)
        keep.append(np.arange(first, last))
        starts.append(np.clip(encoding.start[first:last], a, b) - a + offset)
        ends.append(np.clip(encoding.end[first:last], a, b) - a + offset)
        row = encoding.segment[first:last]
        rows.append(np.where(row == NO_SEGMENT, NO_SEGMENT, row - first_row + row_offset).astype(np.int32))
        pieces.append(utf8[a:b])
        tables.append(table)
        offset, row_offset = offset + b - a, row_offset + len(table.start)
    rendered = _cut_rendered(encoding.rendered, b"".join(pieces), tables)
    start, end, row = np.concatenate(starts), np.concatenate(ends), np.concatenate(rows)
    return slice_encoding(encoding, np.concatenate(keep), rendered, start, end, np.where(start < end, row, NO_SEGMENT))


def _character_bounds(utf8: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and utf8[start] & 0xC0 == 0x80:
        start += 1
    while end > start and end < len(utf8) and utf8[end] & 0xC0 == 0x80:
        end -= 1
    return start, end


def clip_segments(segments: Segments, a: int, b: int, offset: int) -> tuple[Segments, int]:
    """Give the rows of [a, b) moved to begin at `offset`, and the index of the first of them."""
    first = int(np.searchsorted(segments.end, a, side="right"))
    last = int(np.searchsorted(segments.start, b, side="left"))
    rows = slice(first, max(first, last))
    start = np.clip(segments.start[rows], a, b)
    shift = np.where(segments.field_start[rows] < 0, 0, start - segments.start[rows])
    clipped = replace(
        segments,
        start=start - a + offset,
        end=np.clip(segments.end[rows], a, b) - a + offset,
        kind=segments.kind[rows],
        line=segments.line[rows],
        path=segments.path[rows],
        field_start=segments.field_start[rows] + shift,
    )
    return clipped, first


def _cut_rendered(rendered: Rendered, utf8: bytes, tables: Sequence[Segments]) -> Rendered:
    columns = ("start", "end", "kind", "line", "path", "field_start")
    joined = {name: np.concatenate([getattr(table, name) for table in tables]) for name in columns}
    return replace(
        rendered,
        text=utf8.decode(),
        utf8=utf8,
        sha256=hashlib.sha256(utf8).hexdigest(),
        segments=replace(tables[0], **joined),
        assistant_spans=(),  # the flags of the kept tokens say what was assistant and generation prompt
        generation_prompt=None,
    )


def _bad_option(option: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(
        ErrorKind.OptionInvalid, message, stage="budget", where={"option": option}, remedy=f"give {remedy}"
    )
