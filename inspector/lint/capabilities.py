"""The capability card of a template: what it does with chats of ours, each answer with its evidence.

Every row is asked by rendering, and answered from who wrote which bytes; a row that cannot be asked says why. The card is
about the template (with the tokenizer's special tokens and the caller's template arguments), not about the request.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.lint.base import shown
from inspector.lint.probes import Answer, Outcome
from inspector.lint.subject import common_bytes, excerpt, line_of, paths_of, written_of
from inspector.provenance import SegmentKind

if TYPE_CHECKING:
    from inspector.lint.subject import Subject


@dataclass(frozen=True, slots=True)
class Capability:
    """One row: `answer` to a question, or a short `value` where the question is "how"; `why` is the evidence.

    `line`: the template line that decides it, where one is known.
    """

    name: str
    answer: Answer | None = None
    value: str | None = None
    why: str = ""
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON values."""
        answer = None if self.answer is None else str(self.answer)
        return {"name": self.name, "answer": answer, "value": self.value, "why": self.why, "line": self.line}


@dataclass(frozen=True, slots=True)
class Card:
    """All rows, in the order of `ROWS`."""

    rows: tuple[Capability, ...]

    def __getitem__(self, name: str) -> Capability:
        return next(row for row in self.rows if row.name == name)

    def to_dict(self) -> list[dict[str, Any]]:
        """Give the rows as `lint/1` lists them."""
        return [row.to_dict() for row in self.rows]


def capabilities(subject: Subject) -> Card:
    """Ask every row; a row that breaks is failed, and says so."""
    rows = []
    for name, ask in ROWS.items():
        try:
            row = ask(subject, name)
        except Exception as error:
            row = Capability(name, Answer.FAILED, why=f"{type(error).__name__}: {error}")
        rows.append(row)
    return Card(tuple(rows))


# --- chats ----------------------------------------------------------------------------------------------------------

Messages = list[dict[str, Any]]
USER = {"role": "user", "content": "When is high tide?"}
ANSWER = {"role": "assistant", "content": "At noon."}
AGAIN = {"role": "user", "content": "And low tide?"}
SYSTEM = {"role": "system", "content": "Be brief."}
TOOL = {
    "type": "function",
    "function": {
        "name": "tide",
        "description": "Height é潮 <b> & 'x' \"y\" a/b",
        "parameters": {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]},
    },
}


def _call(arguments: Any, call_id: str = "abcdefghi") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "tide", "arguments": arguments}}


def _calls(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def _result(call_id: str = "abcdefghi", content: str = "3.2 m") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "tide", "content": content}


def _chat(subject: Subject, what: str, messages: Messages, **options: Any) -> Outcome:
    """Render a chat of ours, with a generation prompt if it does not end with an answer."""
    options.setdefault("prompt", messages[-1]["role"] != "assistant")
    options.setdefault("continuing", False)
    return subject.probes.chat(f"card: {what}", messages, **options)


def _written(outcome: Outcome) -> frozenset[str]:
    return written_of(paths_of(outcome.rendered)) if outcome.rendered is not None else frozenset()


def _unknown(outcome: Outcome) -> str:
    """Say why nothing can be concluded from a rendering; empty if something can."""
    if outcome.rendered is None:
        return "" if outcome.refused else outcome.why
    return "" if outcome.rendered.provenance == "traced" else "who wrote the bytes is not known"


def _place(outcome: Outcome, path: str) -> tuple[int, int] | None:
    """Give the bytes of the first copy of a field, or of what is inside it."""
    if outcome.rendered is None:
        return None
    segments = outcome.rendered.segments
    for row, place in enumerate(segments.path.tolist()):
        if place >= 0 and any(part.startswith(path) for part in segments.paths[place].split(", ")):
            return int(segments.start[row]), int(segments.end[row])
    return None


def _shows(subject: Subject, name: str, messages: Messages, path: str, **options: Any) -> Capability:
    """Answer yes if the bytes of `path` are in the prompt."""
    outcome = _chat(subject, name, messages, **options)
    if unknown := _unknown(outcome):
        return Capability(name, Answer.FAILED, why=unknown)
    if outcome.rendered is None:
        line = outcome.error.where.get("line") if outcome.error is not None else None
        return Capability(name, Answer.NO, why=f"refused: {outcome.reason}", line=line)
    place = _place(outcome, path)
    if place is None:
        return Capability(name, Answer.NO, why="nothing of it is in the prompt")
    return Capability(name, Answer.YES, why=_context(outcome, place), line=line_of(outcome.rendered, place[0]))


def _context(outcome: Outcome, place: tuple[int, int]) -> str:
    utf8 = outcome.rendered.utf8  # type: ignore[union-attr]
    return shown(utf8[max(place[0] - 24, 0) : place[1] + 12].decode("utf-8", "ignore"), 70)


def _handled(subject: Subject, name: str, messages: Messages, path: str) -> Capability:
    """Say what becomes of something unusual: printed, dropped or refused."""
    row = _shows(subject, name, messages, path)
    if row.answer is Answer.FAILED:
        return row
    value = "printed" if row.answer is Answer.YES else "refused" if row.why.startswith("refused") else "dropped"
    return Capability(name, value=value, why=row.why, line=row.line)


# --- rows -----------------------------------------------------------------------------------------------------------


def _system(subject: Subject, name: str) -> Capability:
    return _shows(subject, name, [SYSTEM, USER], "messages[0].content")


def _developer(subject: Subject, name: str) -> Capability:
    return _shows(subject, name, [{**SYSTEM, "role": "developer"}, USER], "messages[0].content")


def _tools(subject: Subject, name: str) -> Capability:
    return _shows(subject, name, [USER], "tools[0].function", tools=[TOOL])


def _tool_calls(subject: Subject, name: str) -> Capability:
    row = _shows(
        subject, name, [USER, _calls(_call({"port": "Brest"})), _result()], "messages[1].tool_calls[0].function"
    )
    if row.answer is Answer.NO and row.why.startswith("refused"):
        chat = [USER, _calls(_call('{"port": "Brest"}')), _result()]
        return replace(_shows(subject, f"{name} as text", chat, "messages[1].tool_calls[0].function"), name=name)
    return row


def _tool_results(subject: Subject, name: str) -> Capability:
    row = _shows(subject, name, [USER, _calls(_call({"port": "Brest"})), _result()], "messages[2].content")
    if row.answer is Answer.NO and row.why.startswith("refused"):
        chat = [USER, _calls(_call('{"port": "Brest"}')), _result()]
        return replace(_shows(subject, f"{name}, arguments as text", chat, "messages[2].content"), name=name)
    return row


def _parallel_calls(subject: Subject, name: str) -> Capability:
    calls = _calls(_call({"port": "Brest"}), _call({"port": "Dover"}, "abcdefghj"))
    chat = [USER, calls, _result(), _result("abcdefghj", "4.1 m")]
    return _shows(subject, name, chat, "messages[1].tool_calls[1].function")


def _call_arguments(subject: Subject, name: str) -> Capability:
    """How arguments may be given: which form comes out as a JSON object."""
    taken, why = [], []
    for form, arguments in (("object", {"port": "Brest"}), ("text", '{"port": "Brest"}')):
        outcome = _chat(subject, f"{name}: {form}", [USER, _calls(_call(arguments)), _result()])
        place = _place(outcome, "messages[1].tool_calls[0].function.arguments")
        if place is None:
            why.append(f"{form}: {outcome.reason or 'not in the prompt'}")
            continue
        near = outcome.rendered.utf8[max(place[0] - 2, 0) : place[1] + 24]  # type: ignore[union-attr]
        good = b'\\"' not in near
        taken += [form] if good else []
        why.append(f"{form}: {shown(near.decode('utf-8', 'ignore'), 40)}")
    value = "both" if len(taken) == 2 else taken[0] if taken else "neither"
    return Capability(name, value=value, why="; ".join(why))


def _reasoning(subject: Subject, name: str) -> Capability:
    chat = [USER, {**ANSWER, "reasoning_content": "count the hours"}]
    return _shows(subject, name, chat, "messages[1].reasoning_content")


def _reasoning_kept(subject: Subject, name: str) -> Capability:
    chat = [USER, {**ANSWER, "reasoning_content": "count the hours"}, AGAIN]
    return _shows(subject, name, chat, "messages[1].reasoning_content")


def _parts(subject: Subject, name: str) -> Capability:
    outcome = _chat(subject, name, [{"role": "user", "content": [{"type": "text", "text": "When is high tide?"}]}])
    if unknown := _unknown(outcome):
        return Capability(name, Answer.FAILED, why=unknown)
    written = _written(outcome)
    if outcome.rendered is None:
        return Capability(name, Answer.NO, why=f"refused: {outcome.reason}")
    if "messages[0].content[0].type" in written:
        place = _place(outcome, "messages[0].content[0].type") or (0, 0)
        return Capability(name, Answer.NO, why=f"the list is printed: {_context(outcome, place)}")
    there = "messages[0].content[0].text" in written
    return Capability(name, Answer.YES if there else Answer.NO, why="" if there else "the text is not in the prompt")


def _images(subject: Subject, name: str) -> Capability:
    text = {"type": "text", "text": "What is it?"}
    with_image = _chat(subject, name, [{"role": "user", "content": [{"type": "image"}, text]}])
    without = _chat(subject, f"{name}: text alone", [{"role": "user", "content": [text]}])
    if with_image.rendered is None or without.rendered is None:
        return Capability(
            name, Answer.NO if with_image.refused else Answer.FAILED, why=with_image.reason or without.reason
        )
    a, b = with_image.rendered.utf8, without.rendered.utf8
    if "messages[0].content[1].type" in _written(with_image):
        return Capability(name, Answer.NO, why="the list of parts is printed")
    byte = common_bytes(a, b)
    if a == b:
        return Capability(name, Answer.NO, why="an image part leaves nothing")
    added = a[byte : byte + len(a) - len(b)].decode("utf-8", "ignore")
    return Capability(name, Answer.YES, why=f"writes {shown(added)}", line=line_of(with_image.rendered, byte))


def _generation_marks(subject: Subject, name: str) -> Capability:
    line = next((line for tag, line in subject.facts.tags if tag == "generation"), None)
    if line is None:
        return Capability(name, Answer.NO, why="no {% generation %} tag: transformers' assistant mask is all zeros")
    outcome = _chat(subject, name, [USER, ANSWER])
    spans = outcome.rendered.assistant_spans if outcome.rendered is not None else ()
    marked = [outcome.rendered.utf8[a:b].decode("utf-8", "ignore") for a, b in spans]  # type: ignore[union-attr]
    return Capability(name, Answer.YES if marked else Answer.NO, why=f"marks {shown(' … '.join(marked))}", line=line)


def _generation_prompt(subject: Subject, name: str) -> Capability:
    outcome = _chat(subject, name, [USER])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    span = outcome.rendered.generation_prompt
    if span is None:
        return Capability(name, Answer.NO, why="add_generation_prompt adds nothing")
    text = outcome.rendered.utf8[span[0] : span[1]].decode("utf-8", "ignore")
    return Capability(name, Answer.YES, why=shown(text), line=line_of(outcome.rendered, span[0]))


def _prefill(subject: Subject, name: str) -> Capability:
    outcome = _chat(
        subject, name, [USER, {"role": "assistant", "content": "The tide is"}], prompt=False, continuing=True
    )
    if outcome.rendered is None:
        return Capability(name, Answer.NO if outcome.refused else Answer.FAILED, why=outcome.reason)
    ends = outcome.rendered.utf8.endswith(b"The tide is")
    tail = outcome.rendered.utf8[-30:].decode("utf-8", "ignore")
    return Capability(name, Answer.YES if ends else Answer.NO, why=f"the prompt ends with {shown(tail)}")


def _prefix_preserving(subject: Subject, name: str) -> Capability:
    steps = ([USER], [USER, ANSWER], [USER, ANSWER, AGAIN], [USER, ANSWER, AGAIN, ANSWER])
    outcomes = [_chat(subject, f"{name}: {len(step)}", list(step)) for step in steps]
    broken = next((o for o in outcomes if o.rendered is None), None)
    if broken is not None:
        return Capability(name, Answer.FAILED, why=broken.reason)
    for at in range(1, len(outcomes)):
        before, after = outcomes[at - 1].rendered, outcomes[at].rendered
        byte = common_bytes(before.utf8, after.utf8)  # type: ignore[union-attr]
        if byte < len(before.utf8):  # type: ignore[union-attr]
            why = f"with {at + 1} messages {shown(excerpt(before.utf8, byte))} is gone"  # type: ignore[union-attr]
            return Capability(name, Answer.NO, why=why, line=line_of(before, byte))  # type: ignore[arg-type]
    return Capability(name, Answer.YES, why="each prompt begins with the one before it, over two turns")


def _clock(subject: Subject, name: str) -> Capability:
    times = (datetime(2001, 2, 3, 4, 5, 6), datetime(2034, 11, 12, 13, 14, 15))
    first, second = (_chat(subject, f"{name}: {time:%Y}", [USER], clock=time) for time in times)
    if first.rendered is None or second.rendered is None:
        return Capability(name, Answer.FAILED, why=first.reason or second.reason)
    kinds = first.rendered.segments.kind
    rows = np.flatnonzero(kinds == SegmentKind.CLOCK)
    if first.text == second.text and not len(rows):
        return Capability(name, Answer.NO, why="the prompt is the same in 2001 and 2034")
    segments = first.rendered.segments
    start, end = (int(segments.start[rows[0]]), int(segments.end[rows[0]])) if len(rows) else (0, 0)
    text = first.rendered.utf8[start:end].decode("utf-8", "ignore")
    return Capability(name, Answer.YES, why=f"writes {shown(text)}", line=line_of(first.rendered, start))


def _arguments(subject: Subject, name: str) -> Capability:
    from inspector.template_arguments import template_arguments

    if subject.template is None:
        return Capability(name, Answer.FAILED, why="there is no template")
    found = template_arguments(subject.template.text)
    return Capability(name, value=", ".join(argument.name for argument in found) or "none",
                      why="; ".join(_argument(argument) for argument in found))  # fmt: skip


def _argument(argument: Any) -> str:
    choices = f" ({', '.join(argument.choices)})" if argument.choices else ""
    default = "" if argument.default is None else f", default {argument.default!r}"
    return f"{argument.name}: {argument.type}{choices}{default}"


def _date(subject: Subject, name: str) -> Capability:
    from inspector.lint.stale_date import DATE

    outcome = _chat(subject, name, [USER])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    utf8 = outcome.rendered.utf8
    match = DATE.search(outcome.rendered.text)
    clock = np.flatnonzero(outcome.rendered.segments.kind == SegmentKind.CLOCK)
    if len(clock):
        start, end = (int(getattr(outcome.rendered.segments, side)[clock[0]]) for side in ("start", "end"))
        return Capability(name, value="from the clock", why=shown(utf8[start:end].decode("utf-8", "ignore")),
                          line=line_of(outcome.rendered, start))  # fmt: skip
    if match is None:
        return Capability(name, value="none")
    byte = len(outcome.rendered.text[: match.start()].encode())
    return Capability(name, value="fixed in the template", why=shown(match[0]), line=line_of(outcome.rendered, byte))


def _unknown_role(subject: Subject, name: str) -> Capability:
    return _handled(
        subject, name, [USER, ANSWER, {"role": "critic", "content": "Be exact."}, AGAIN], "messages[2].content"
    )


def _empty_message(subject: Subject, name: str) -> Capability:
    chat = [USER, {"role": "assistant", "content": ""}, AGAIN]
    full, empty = _chat(subject, f"{name}: with text", [USER, ANSWER, AGAIN]), _chat(subject, name, chat)
    none = _chat(subject, f"{name}: left out", [USER, AGAIN])
    if empty.rendered is None or full.rendered is None:
        value = "refused" if empty.refused else None
        return Capability(name, Answer.FAILED if value is None else None, value, empty.reason or full.reason)
    dropped = empty.text == none.text
    expected = (full.text or "").replace("At noon.", "", 1)
    value = (
        "dropped"
        if dropped
        else "kept as an empty turn"
        if empty.text == expected
        else "kept, otherwise than with text"
    )
    return Capability(name, value=value, why=shown(empty.rendered.text[-70:], 70))


def _repeated_system(subject: Subject, name: str) -> Capability:
    return _handled(subject, name, [SYSTEM, {**SYSTEM, "content": "Be exact."}, USER], "messages[1].content")


def _late_system(subject: Subject, name: str) -> Capability:
    return _handled(
        subject, name, [SYSTEM, USER, ANSWER, {**SYSTEM, "content": "Be exact."}, AGAIN], "messages[3].content"
    )


def _two_users(subject: Subject, name: str) -> Capability:
    return _handled(subject, name, [USER, AGAIN], "messages[1].content")


def _separators(subject: Subject, name: str) -> Capability:
    """What stands between the text of two turns."""
    outcome = _chat(subject, name, [USER, ANSWER, AGAIN])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    places = [_place(outcome, f"messages[{at}].content") for at in range(3)]
    utf8, between = outcome.rendered.utf8, []
    for before, after in itertools.pairwise(places):
        if before is None or after is None:
            return Capability(name, Answer.FAILED, why="a message is not in the prompt")
        between.append(shown(utf8[before[1] : after[0]].decode("utf-8", "ignore")))
    return Capability(name, value=between[0], why=f"from user to assistant; from assistant to user {between[1]}")


def _bos(subject: Subject, name: str) -> Capability:
    bos = subject.special_id("bos_token")
    encoding = subject.probes.encoding(_chat(subject, name, [USER]))
    if bos is None:
        return Capability(name, value="nobody", why="the tokenizer has no BOS")
    if encoding is None:
        return Capability(name, Answer.FAILED, why="the chat cannot be rendered")
    return _adds(subject, name, bos, encoding.input_ids[:1].tolist() == [bos], bos in subject.adds[0])


def _eos(subject: Subject, name: str) -> Capability:
    eos = subject.special_id("eos_token")
    encoding = subject.probes.encoding(_chat(subject, name, [USER, ANSWER]))
    if eos is None:
        return Capability(name, value="nobody", why="the tokenizer has no EOS")
    if encoding is None:
        return Capability(name, Answer.FAILED, why="the chat cannot be rendered")
    return _adds(subject, name, eos, eos in encoding.input_ids[-3:].tolist(), eos in subject.adds[1])


def _adds(subject: Subject, name: str, token_id: int, template: bool, tokenizer: bool) -> Capability:
    value = {(True, True): "both", (True, False): "template", (False, True): "tokenizer"}.get(
        (template, tokenizer), "nobody"
    )
    return Capability(name, value=value, why=f"{subject.tokenizer.piece(token_id)} (id {token_id})")  # type: ignore[union-attr]


def _tool_outcome(subject: Subject) -> Outcome:
    return _chat(subject, "tools", [USER], tools=[TOOL])


def _tool_fields(subject: Subject, name: str) -> Capability:
    """In which order the fields of a tool schema are written."""
    outcome = _tool_outcome(subject)
    fields = ("type", "function.name", "function.description", "function.parameters")
    places = [(place[0], field) for field in fields if (place := _place(outcome, f"tools[0].{field}")) is not None]
    if not places:
        return Capability(name, Answer.FAILED, why=outcome.reason or "no tool is in the prompt")
    written = [field for _byte, field in sorted(places)]
    given = [field for field in fields if field in written]
    value = "as given" if written == given else "sorted" if written == sorted(fields) else "the template's own"
    return Capability(name, value=value, why=", ".join(written))


def _escaping(subject: Subject, name: str) -> Capability:
    outcome = _tool_outcome(subject)
    place = _place(outcome, "tools[0].function.description")
    if place is None or outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason or "no description is in the prompt")
    text = outcome.rendered.utf8[place[0] : place[0] + 80].decode("utf-8", "ignore")
    forms = [
        form
        for form, sign in (("JSON quotes", '\\"y'), ("\\uXXXX", "\\u"), ("HTML", "&lt;"), ("slash", "a\\/b"))
        if sign in text
    ]
    return Capability(name, value=", ".join(forms) or "none", why=shown(text.split("a/b")[0] + "a/b", 60),
                      line=line_of(outcome.rendered, place[0]))  # fmt: skip


def _numbers(subject: Subject, name: str) -> Capability:
    given = {"whole": 10, "float": 1.0, "large": 1e22, "small": 1e-7, "yes": True, "none": None}
    return _values(subject, name, given)


def _values(subject: Subject, name: str, given: dict[str, Any]) -> Capability:
    outcome = _chat(subject, name, [USER, _calls(_call(given)), _result()])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    found = []
    for key, value in given.items():
        place = _place(outcome, f"messages[1].tool_calls[0].function.arguments.{key}")
        places = _copies(outcome, f"messages[1].tool_calls[0].function.arguments.{key}")
        texts = [text for text in places if text != key]
        if place is not None and texts:
            found.append(f"{value!r} as {texts[-1]}")
    if not found:
        return Capability(name, Answer.FAILED, why="no argument is in the prompt")
    return Capability(name, value="; ".join(found))


def _copies(outcome: Outcome, path: str) -> Iterator[str]:
    segments = outcome.rendered.segments  # type: ignore[union-attr]
    for row, place in enumerate(segments.path.tolist()):
        if place >= 0 and segments.paths[place] == path:
            yield outcome.rendered.utf8[segments.start[row] : segments.end[row]].decode("utf-8", "ignore")  # type: ignore[union-attr]


def _absent_fields(subject: Subject, name: str) -> Capability:
    """Whether a field that is not given is left out or written as something."""
    bare = {"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {}}}}
    outcome = _chat(subject, name, [USER], tools=[bare])
    if outcome.rendered is None:
        return Capability(name, Answer.NO if outcome.refused else Answer.FAILED, why=outcome.reason)
    if "tools[0]" not in _written(outcome):
        return Capability(name, Answer.FAILED, why="no tool is in the prompt")
    words = [word for word in ("null", "None", "undefined") if word in outcome.rendered.text]
    if words:
        return Capability(name, value=f"written as {words[0]}", why="a tool without description")
    again = "description" in outcome.rendered.text
    return Capability(name, value="written empty" if again else "left out", why="a tool without description")


def _line_ends(subject: Subject, name: str) -> Capability:
    outcome = _chat(subject, name, [{"role": "user", "content": "a\r\nb"}])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    kept = b"a\r\nb" in outcome.rendered.utf8
    written = subject.template is not None and "\r\n" in subject.template.text
    return Capability(name, value="CR LF of content is kept" if kept else "CR LF of content is changed",
                      why="the template's own CR LF becomes LF" if written else "the template writes LF")  # fmt: skip


def _blanks(subject: Subject, name: str) -> Capability:
    outcome = _chat(subject, name, [{"role": "user", "content": "  a  "}])
    if outcome.rendered is None:
        return Capability(name, Answer.FAILED, why=outcome.reason)
    utf8 = outcome.rendered.utf8
    value = "kept" if b"  a  " in utf8 else "trimmed" if b"a" in utf8 else "lost"
    return Capability(name, value=value, why="blanks around a user's text")


ROWS: dict[str, Callable[[Subject, str], Capability]] = {
    "system": _system,
    "developer": _developer,
    "tools": _tools,
    "tool_calls": _tool_calls,
    "tool_results": _tool_results,
    "parallel_calls": _parallel_calls,
    "call_arguments": _call_arguments,
    "reasoning": _reasoning,
    "reasoning_kept_in_history": _reasoning_kept,
    "parts": _parts,
    "images": _images,
    "generation_marks": _generation_marks,
    "generation_prompt": _generation_prompt,
    "prefill": _prefill,
    "prefix_preserving": _prefix_preserving,
    "clock": _clock,
    "date": _date,
    "arguments_read": _arguments,
    "unknown_role": _unknown_role,
    "empty_message": _empty_message,
    "repeated_system": _repeated_system,
    "late_system": _late_system,
    "two_users_in_a_row": _two_users,
    "separators": _separators,
    "adds_bos": _bos,
    "adds_eos": _eos,
    "tool_field_order": _tool_fields,
    "escaping": _escaping,
    "numbers_and_booleans": _numbers,
    "absent_fields": _absent_fields,
    "line_ends": _line_ends,
    "blanks_around_text": _blanks,
}
"""Name -> how it is asked. The order is the card's."""
