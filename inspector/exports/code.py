"""What the exported code is made of: literals in ASCII, and the parts that snippet and pinning test share.

The code needs transformers alone. It is made only for what transformers itself can do: a tokenizer.json, Jinja2, and
whole messages; everything else is refused, never approximated.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from inspector.exports.base import Side, refused
from inspector.provenance import plain

_NAMED = {f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")}
_DROPPED = re.compile(r"(messages|tools|documents)\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that makes an input again with transformers."""

    template: str
    tokenizer_json: bytes
    special_tokens: dict[str, str]
    conversation: dict[str, Any]
    arguments: dict[str, Any]
    options: dict[str, bool]
    clock: str | None  # only where the template asks for the time
    text_sha256: str
    input_ids: list[int]
    about: tuple[str, ...]

    @classmethod
    def of(cls, side: Side) -> Recipe:
        """Read a recipe from an inspection.

        Errors: the one that stopped it; OptionInvalid for what transformers cannot make again.
        """
        from inspector.tokenizers.fast import FastTokenizer

        inspection, options = side.whole(), side.inspection.options
        tokenizer, template, rendered = inspection.tokenizer, inspection.template, inspection.rendered
        encoding, given = inspection.encoding, inspection.conversation
        if (
            not isinstance(tokenizer, FastTokenizer)
            or template is None
            or rendered is None
            or encoding is None
            or given is None
        ):
            raise refused("transformers alone reads this tokenizer from no file that there is here", "choose a tokenizer with a tokenizer.json, or export html")  # fmt: skip
        if options.engine != "jinja2":
            raise refused(
                f"transformers renders with jinja2, this was rendered with {options.engine}", "leave engine out"
            )
        clock = inspection.clock.isoformat() if "strftime_now" in template.text else None
        return cls(
            template.text, tokenizer.library_json().encode(), dict(tokenizer.special_tokens), _kept(side), plain(given.kwargs),
            {"add_generation_prompt": options.add_generation_prompt, "continue_final_message": options.continue_final_message},
            clock, rendered.sha256, encoding.input_ids.tolist(), _about(side.public()),
        )  # fmt: skip

    def setup(self) -> str:
        """Give the lines that are the same in both: data, clock, and the calls."""
        named = {name: token for name, token in self.special_tokens.items() if name in _NAMED}
        extra = {name: token for name, token in self.special_tokens.items() if name not in _NAMED}
        lines = [
            f"CONVERSATION = json.loads({literal(json.dumps(self.conversation, ensure_ascii=False, indent=1))})",
            f"ARGUMENTS = json.loads({literal(json.dumps(self.arguments, ensure_ascii=False))})",
            f"SPECIAL_TOKENS = json.loads({literal(json.dumps(named, ensure_ascii=False, indent=1))})",
            *([_EXTRA.format(literal(json.dumps(extra, ensure_ascii=False)))] if extra else []),
            f"OPTIONS = {self.options!r}",
            f"INPUT_IDS = {_listed(self.input_ids)}",
            *(_CLOCK.format(clock=self.clock).splitlines() if self.clock else []),
        ]
        return "\n".join(lines)

    def imports(self) -> str:
        """Give the imports of both."""
        return "import transformers.utils.chat_template_utils as chat_template_utils\n" if self.clock else ""


_EXTRA = "SPECIAL_TOKENS['extra_special_tokens'] = json.loads({})"
_CLOCK = """

class Clock(datetime.datetime):
    \"\"\"The time that the template saw.\"\"\"

    @classmethod
    def now(cls, tz=None):
        return cls.fromisoformat({clock!r})


chat_template_utils.datetime = Clock
"""


def _kept(side: Side) -> dict[str, Any]:
    """Give messages, tools and documents without what a budget dropped.

    Errors: OptionInvalid where it cut within them.
    """
    given, budget = side.inspection.conversation, side.inspection.budget
    assert given is not None  # Recipe.of looked
    conversation = {"messages": plain(given.messages), "tools": plain(given.tools), "documents": plain(given.documents)}
    if budget is None:
        return conversation
    decided = budget.to_dict()
    if decided["cut"]:
        raise refused(
            f"the budget cut {decided['cut'][0]['path']}: transformers does not cut so", "use the policy messages"
        )
    dropped = {(found[1], int(found[2])) for unit in decided["dropped"] if (found := _DROPPED.fullmatch(unit["path"]))}
    return {
        name: None
        if units is None
        else [unit for index, unit in enumerate(units) if (name, index) not in dropped] or None
        for name, units in conversation.items()
    }


def _about(value: dict[str, Any]) -> tuple[str, ...]:
    tokenizer, template, versions = value["tokenizer"], value["template"], value["versions"]
    revision = f"@{template['revision']}" if template["revision"] else ""
    lines = (
        f"tokenizer: {tokenizer['ref']}, digest {tokenizer['digest']}",
        f"template: {template['id']}{revision}, digest {template['digest']}",
        f"made with transformers {versions['transformers']} and tokenizers {versions['tokenizers']}",
    )
    return tuple(f"# {ascii(line)[1:-1]}" for line in lines)


def literal(text: str) -> str:
    """Write a text as a Python literal in ASCII, a line of it on each line.

    >>> print(literal("a\\nb\\u202e"))
    (
        'a\\n'
        'b\\u202e'
    )
    """
    lines = [f"    {line!a}\n" for line in text.splitlines(True) or [""]]
    return "(\n" + "".join(lines) + ")"


def _listed(ids: list[int]) -> str:
    rows = [", ".join(map(str, ids[k : k + 16])) for k in range(0, len(ids), 16)]
    return "[\n" + "".join(f"    {row},\n" for row in rows) + "]"


def sha256(data: bytes) -> str:
    """Give the SHA-256 as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
