"""A family of renderings around one inspection, each made at most once and only when a rule asks.

A probe changes one thing (no generation prompt, another clock, no tools, arguments as text, one turn less) and renders
again. It may fail, and says why: a rule then knows nothing, and claims nothing. Time is bounded: each probe has its
own limit where signals can interrupt it, and all together stop at a deadline.
"""

from __future__ import annotations

import enum
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Any

from inspector.encode import Encoding, encode
from inspector.errors import InspectorError
from inspector.messages import Conversation
from inspector.provenance import trace
from inspector.render import Rendered, render, template_call
from inspector.template import Template

if TYPE_CHECKING:
    from inspector.engines.base import TemplateCall
    from inspector.engines.check import EngineResult
    from inspector.pipeline import Inspection

PROBE_S = 2.0
ALL_S = 20.0
MAX_PROBED_BYTES = 2_000_000  # of one rendering; larger prompts are not rendered dozens of times


class Answer(enum.StrEnum):
    """What a probe says."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"  # it could not be asked; `why` says what happened


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One rendering, or why there is none. `error`: the template's or the library's own refusal; else `why`."""

    rendered: Rendered | None = None
    error: InspectorError | None = None
    why: str = ""

    @property
    def text(self) -> str | None:
        """The rendered text, None where it failed."""
        return None if self.rendered is None else self.rendered.text

    @property
    def refused(self) -> bool:
        """The template, or the library around it, raised."""
        return self.error is not None

    @property
    def reason(self) -> str:
        """Why there is no text."""
        return self.error.message if self.error is not None else self.why


@dataclass(frozen=True, slots=True)
class Row:
    """One probe in a report: its name, "yes" (it rendered), "no" (refused) or "failed", and why."""

    name: str
    answer: Answer
    why: str = ""


class _Late(BaseException):
    """A probe ran past its limit. Not an Exception: templates and renderers catch those."""


_SAME: Any = object()


class Probes:
    """The probes of one inspection. Not for several threads at once."""

    def __init__(self, inspection: Inspection, *, probe_s: float = PROBE_S, all_s: float = ALL_S) -> None:
        self.inspection = inspection
        self._probe_s, self._left_s = probe_s, all_s
        self._known: dict[str, Any] = {}
        self._encodings: dict[int, Encoding | None] = {}

    # --- the request, changed in one thing ------------------------------------------------------------------------

    def as_given(self) -> Outcome:
        """The whole request, before any budget, as the options say."""
        return self.outcome("as given")

    def outcome(
        self,
        name: str,
        *,
        messages: list[dict[str, Any]] | None = None,
        tools: Any = _SAME,
        documents: Any = _SAME,
        arguments: dict[str, Any] | None = None,
        prompt: bool | None = None,
        continuing: bool | None = None,
        clock: datetime | None = None,
        template: Template | None = None,
    ) -> Outcome:
        """Render the request with what is named changed. `name` identifies the probe: one name, one change."""
        return self._once(
            name, lambda: self._rendered(messages, tools, documents, arguments, prompt, continuing, clock, template)
        )

    def chat(self, name: str, messages: list[dict[str, Any]], *, tools: Any = None, **options: Any) -> Outcome:
        """Render a chat of ours instead of the request's: what the template does with anybody's."""
        traced = [trace(message, f"messages[{index}]") for index, message in enumerate(messages)]
        return self.outcome(name, messages=traced, tools=trace(tools, "tools"), documents=None, **options)

    def messages(self) -> list[dict[str, Any]]:
        """The messages that the template is given; edit a copy."""
        conversation = self.inspection.conversation
        return list(conversation.messages) if conversation is not None else []

    def encoding(self, outcome: Outcome) -> Encoding | None:
        """Encode a rendering; None where it failed."""
        tokenizer, rendered = self.inspection.tokenizer, outcome.rendered
        if rendered is None or tokenizer is None:
            return None
        key = id(rendered)
        if key not in self._encodings:
            try:
                self._encodings[key] = encode(rendered, tokenizer)
            except InspectorError:
                self._encodings[key] = None
        return self._encodings[key]

    # --- the same call, made by another program -------------------------------------------------------------------

    def bare(self, name: str, *, messages: list[dict[str, Any]] | None = None, **how: Any) -> str | None:
        """Render with engines/bare.py; None where it failed. `how`: see `render_bare`."""
        from inspector.engines.bare import render_bare

        def work() -> str:
            call = self._call()
            return render_bare(call if messages is None else replace(call, messages=messages), **how)

        outcome: Any = self._once(name, lambda: self._guarded(work))
        return outcome if isinstance(outcome, str) else None

    def why(self, name: str) -> str:
        """Say why a probe failed; empty if it did not."""
        known = self._known.get(name)
        return known.reason if isinstance(known, Outcome) else ""

    def undefined_uses(self) -> list[Any]:
        """Values that are not there and are printed as nothing."""
        used: list[Any] = []
        self.bare("undefined values listed", used=used)
        return self._once("the undefined values", lambda: used)

    def library_spans(self) -> tuple[tuple[int, int], ...] | None:
        """The character ranges of transformers' own assistant mask; None where it failed."""
        from inspector.engines.bare import generation_spans

        found: Any = self._once("transformers' assistant mask", lambda: self._guarded(self._spans(generation_spans)))
        return found if isinstance(found, tuple) else None

    def other_engine(self, name: str) -> EngineResult | None:
        """Render with another engine; None where that engine cannot be used here."""
        from inspector.engines.check import engine_check

        def work() -> Any:
            given = self.inspection
            if given.conversation is None or given.template is None or given.tokenizer is None:
                return Outcome(why="there is nothing to render")
            result = engine_check(
                given.conversation,
                given.template,
                special_tokens=given.tokenizer.special_tokens,
                clock=given.clock.replace(tzinfo=None),
                add_generation_prompt=given.options.add_generation_prompt,
                engines=(name,),
            )[0]
            absent = result.error is not None and result.error.stage == "options"
            return Outcome(why=result.error.message) if absent and result.error is not None else result

        found = self._once(f"rendered by {name}", lambda: self._guarded(work))
        return None if isinstance(found, Outcome) else found

    def rows(self) -> tuple[Row, ...]:
        """What was probed so far."""
        return tuple(_row(name, known) for name, known in self._known.items() if isinstance(known, Outcome | str))

    # --- running --------------------------------------------------------------------------------------------------

    def _spans(self, function: Callable[[TemplateCall], Any]) -> Callable[[], Any]:
        return lambda: function(self._call())

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def _rendered(
        self,
        messages: list[dict[str, Any]] | None,
        tools: Any,
        documents: Any,
        arguments: dict[str, Any] | None,
        prompt: bool | None,
        continuing: bool | None,
        clock: datetime | None,
        template: Template | None,
    ) -> Outcome:
        given, options = self.inspection, self.inspection.options
        template = template or given.template
        if given.conversation is None or given.tokenizer is None:
            return Outcome(why="the request could not be read")
        if template is None:
            return Outcome(why="this tokenizer encodes requests itself: there is no template to probe")
        conversation = self._changed(given.conversation, messages, tools, documents, arguments)
        continues = options.continue_final_message if continuing is None else continuing
        prompts = (options.add_generation_prompt if prompt is None else prompt) and not continues
        special, at = given.tokenizer.special_tokens, (clock or given.clock).replace(tzinfo=None)

        def work() -> Rendered:
            return render(
                conversation,
                template,
                special_tokens=special,
                clock=at,
                add_generation_prompt=prompts,
                continue_final_message=continues,
                max_chars=MAX_PROBED_BYTES,
            )

        result = self._guarded(work)
        return Outcome(rendered=result) if isinstance(result, Rendered) else result

    def _changed(
        self, conversation: Conversation, messages: Any, tools: Any, documents: Any, arguments: Any
    ) -> Conversation:
        changes = {"messages": messages, "kwargs": arguments}
        changes = {key: value for key, value in changes.items() if value is not None}
        changes |= {key: value for key, value in (("tools", tools), ("documents", documents)) if value is not _SAME}
        return replace(conversation, **changes)

    def _guarded(self, work: Callable[[], Any]) -> Any:
        """Run a probe under its limit; give its value or the Outcome of a failure."""
        if self._left_s <= 0:
            return Outcome(why="the time for probing was used up")
        size = len(self.inspection.rendered.utf8) if self.inspection.rendered is not None else 0
        if size > MAX_PROBED_BYTES:
            return Outcome(why=f"a prompt of {size} bytes is not rendered again")
        began = time.monotonic()
        try:
            with _limited(min(self._probe_s, self._left_s)):
                return work()
        except InspectorError as error:
            return Outcome(error=error)
        except _Late:
            return Outcome(why=f"it took longer than {self._probe_s:g} s")
        except Exception as error:  # bare renderings raise what the template raises
            return Outcome(why=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        finally:
            self._left_s -= time.monotonic() - began

    def _call(self) -> TemplateCall:
        given = self.inspection
        if given.conversation is None or given.tokenizer is None or given.template is None:
            raise RuntimeError("there is no template to probe")
        options = given.options
        prompts = options.add_generation_prompt and not options.continue_final_message
        clock = given.clock.replace(tzinfo=None)
        return template_call(given.conversation, given.template, given.tokenizer.special_tokens, clock, prompts)


def _row(name: str, known: Outcome | str) -> Row:
    if isinstance(known, str) or known.rendered is not None:
        return Row(name, Answer.YES)
    return Row(name, Answer.NO if known.refused else Answer.FAILED, known.reason)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt what runs inside after `seconds`, where Python allows it: in the main thread, with no timer in use."""
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
