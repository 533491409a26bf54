"""Rules on the handed faults: each fault is found by the rule that is named for it, its corrected twin is not."""

from __future__ import annotations

import functools
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from inspector.lint import LIVE, RULES, Evidence, Report, lint
from inspector.lint.evidence import read_sent
from inspector.lint.report import run_rules
from inspector.lint.subject import Subject, written_of
from inspector.pipeline import Inspection, inspect
from inspector.vocabularies import PATTERNS
from tests.test_control import ANSWERED, ASK, CHATML, CHATML_BOS, EVIL, trained

DATA = Path(__file__).parent / "data"
FAULTS = {fault["id"]: fault for fault in map(json.loads, (DATA / "faults.jsonl").read_text("utf-8").splitlines())}
CLOCK = "2026-01-31T09:30:00"
MARKS = ["<|im_start|>", "<|im_end|>"]


@functools.cache
def made(special: tuple[str, ...], post: str = "", named: tuple[tuple[str, str], ...] = ()) -> str:
    """A small byte-level BPE, trained once a session."""
    return trained(Path(tempfile.mkdtemp()), list(special), post=post, named=dict(named))


PLAIN = functools.partial(made, ("<|endoftext|>", *MARKS), named=(("eos_token", "<|im_end|>"),))


@dataclass(frozen=True)
class Case:
    """A request with options, and what else is known."""

    messages: Any
    options: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)


def case(
    messages: Any, template: str | None = CHATML, *, evidence: dict[str, Any] | None = None, **options: Any
) -> Case:
    if template in ("raw", "llama-3.1-8b-instruct"):
        options["template"] = template
    elif template is not None:
        options["template_text"] = template
    options.setdefault("tokenizer", PLAIN())
    return Case(messages, options, evidence or {})


def checked(given: Case) -> tuple[Inspection, Report]:
    inspection = inspect(given.messages, **{"clock": CLOCK, **given.options})
    assert isinstance(inspection, Inspection)
    assert inspection.findings == run_rules(LIVE, Subject(inspection)), "a rule that would find something was not asked"
    known = dict(given.evidence)
    if "sent" in known:
        sent = known["sent"]
        known["sent"] = read_sent(sent(inspection) if callable(sent) else sent)
    if "base" in known:
        known["base"] = inspect(given.messages, **{"clock": CLOCK, **given.options, "tokenizer": known["base"]})
    return inspection, lint(inspection, evidence=Evidence(**known))


def fault(fault_id: str) -> dict[str, Any]:
    return FAULTS[fault_id]["minimal_input"]


BOS = ("<s>", *MARKS)
NAMED_BOS = (("bos_token", "<s>"), ("eos_token", "<|im_end|>"))
SYSTEM = {"role": "system", "content": "Be brief."}
USERS_ONLY = fault("ROLE-01")["template"]

STRICT = (
    "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}<{{ m.role }}>{{ m.content }}"
    "{% else %}{{ raise_exception('Unexpected message role.') }}{% endif %}{% endfor %}"
)
MARKUP = (
    "{% set a = args | tojson %}{% set name = 'tide' %}"
    "{{ '{\"name\": \"' + name + '\", \"arguments\": ' + a + '}' }}{{ messages[0].content }}"
)
NINE = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "{{ c.function.name }}{% endfor %}{{ m.content }}{% endfor %}"
)
REASONING = "{% for m in messages %}{{ m.reasoning_content or '' }}|{{ m.content }}{% endfor %}"
THINKING = "{{ messages[0].content }}" + fault("HIST-06")["template"]
IMAGES = "{% for m in messages %}{% for p in m.content %}{{ '<|image_pad|>' if p.type == 'image' else p.text }}{% endfor %}{% endfor %}"
PADS = IMAGES.replace("'<|image_pad|>'", "'<|image_pad|>' * 64")
GENERATION = (
    "{% for m in messages %}{% if m.role == 'assistant' %}[assistant]{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}"
    "{% else %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
CAPTURED = (
    "{% for m in messages %}{% set text %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endset %}{{ text }}{% endfor %}"
)
TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) or m.role == 'tool' %}"
    "{{ raise_exception('user/assistant/user/assistant') }}{% endif %}{{ m.content }}{% endfor %}"
)
SPLIT = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
LLAMA3_PATTERN = next(pattern for pattern, name in PATTERNS.items() if name == "llama3")
TEKKEN_PATTERN = next(pattern for pattern, name in PATTERNS.items() if name == "tekken")


def rewritten(change: Callable[[dict[str, Any]], str | None]) -> str:
    """A small tokenizer whose tokenizer.json was changed: in place, or into the text that is given back."""
    source, target = Path(PLAIN().removeprefix("folder:")), Path(tempfile.mkdtemp())
    table = json.loads((source / "tokenizer.json").read_text("utf-8"))
    text = change(table)
    (target / "tokenizer.json").write_text(text or json.dumps(table), "utf-8")
    return str(target)


def truncating(longest: int) -> str:
    cut = {"direction": "Right", "max_length": longest, "strategy": "LongestFirst", "stride": 0}
    return rewritten(lambda table: table.update(truncation=cut))


def padding(strategy: Any) -> str:
    pad = {
        "strategy": strategy,
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "!",
    }
    return rewritten(lambda table: table.update(padding=pad))


def renumbered(piece: str, token_id: int | None = None) -> str:
    """The id of a piece of the model's vocabulary is another piece's."""
    return rewritten(lambda table: table["model"]["vocab"].update({piece: token_id or table["model"]["vocab"]["b"]}))


def added_at(token_id: int) -> str:
    entry = {
        "id": token_id,
        "content": "<tide>",
        "special": True,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    return rewritten(lambda table: table["added_tokens"].append(entry))


def next_id() -> int:
    table = json.loads(Path(PLAIN().removeprefix("folder:"), "tokenizer.json").read_text("utf-8"))
    return 1 + max(*table["model"]["vocab"].values(), *(token["id"] for token in table["added_tokens"]))


def code(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": "memory.feedback()"}]


def with_tools(tools: Any) -> dict[str, Any]:
    return {"messages": ASK, "tools": tools}


def joined() -> dict[str, Any]:
    return {"messages": ASK, "chat_template_kwargs": {"args": {"p": 1}}}


def wrapped(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": tool}


def schema(required: list[str]) -> dict[str, Any]:
    return wrapped({"name": "tide", "parameters": {"type": "object", "properties": {"port": {}}, "required": required}})


def ids(inspection: Inspection) -> list[int]:
    return inspection.encoding.input_ids.tolist()


def call(call_id: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "tide", "arguments": arguments}}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "tide", "content": "3.2"}


def with_call(arguments: Any, content: Any = "") -> list[dict[str, Any]]:
    return [
        *ASK,
        {"role": "assistant", "content": content, "tool_calls": [call("abcdefghi", arguments)]},
        result("abcdefghi"),
    ]


def two_calls() -> list[dict[str, Any]]:
    calls = [call("abcdefghi", {"port": "Brest"}), call("abcdefghj", {"port": "Dover"})]
    return [*ASK, {"role": "assistant", "content": "", "tool_calls": calls}, result("abcdefghi"), result("abcdefghj")]


def looped() -> list[dict[str, Any]]:
    """A tool loop with reasoning, and the next user turn."""
    turn = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "look it up",
        "tool_calls": [call("abcdefghi", {})],
    }
    return [*ASK, turn, result("abcdefghi"), {"role": "assistant", "content": "3.2"}, {"role": "user", "content": "ok"}]


def spaced() -> list[dict[str, Any]]:
    return [{"role": "user", "content": "port<s>tide"}]


def cut_mask(inspection: Inspection, *, lost: bool) -> dict[str, Any]:
    ids, mask = inspection.encoding.input_ids.tolist()[:-6], inspection.encoding.assistant_mask.tolist()[:-6]
    return {"input_ids": ids, "assistant_mask": [0] * len(mask) if lost else mask}


def saved(tokenizer: Tokenizer, named: dict[str, str] | None = None, name: str = "made") -> str:
    folder = Path(tempfile.mkdtemp(), name)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(named or {}))
    return f"folder:{folder}"


def plain_library() -> Tokenizer:
    return Tokenizer.from_file(str(Path(PLAIN().removeprefix("folder:"), "tokenizer.json")))


@functools.cache
def size() -> int:
    return plain_library().get_vocab_size()


@functools.cache
def extended() -> str:
    tokenizer = plain_library()
    tokenizer.add_tokens(["<new>"])
    return saved(tokenizer, {"eos_token": "<|im_end|>"})


@functools.cache
def normalizing(form: str) -> str:
    tokenizer = plain_library()
    tokenizer.normalizer = getattr(normalizers, form)()
    return saved(tokenizer, {"eos_token": "<|im_end|>"})


@functools.cache
def lowering() -> str:
    tokenizer = plain_library()
    tokenizer.normalizer = normalizers.Lowercase()
    return saved(tokenizer)


@functools.cache
def stripping() -> str:
    tokenizer = plain_library()
    tokenizer.normalizer = normalizers.Replace(" ", "")
    return saved(tokenizer)


@functools.cache
def padded() -> str:
    return saved(plain_library(), {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})


@functools.cache
def merging(left: str, right: str) -> str:
    """Bytes, and one merge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: at for at, piece in enumerate([*alphabet, left + right])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(left, right)]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return saved(tokenizer)


@functools.cache
def with_template(template: str) -> str:
    return saved(plain_library(), {"eos_token": "<|im_end|>", "chat_template": template})


def ids_of(inspection: Inspection, *texts: str) -> list[int]:
    return [int(item) for text in texts for item in inspection.tokenizer.encode(text).input_ids]


@functools.cache
def metaspace(scheme: str) -> str:
    pieces = ["<unk>", "<s>", "▁", *"portideWhn?as .Ai"]
    tokenizer = Tokenizer(
        models.BPE({piece: at for at, piece in enumerate(dict.fromkeys(pieces))}, [], unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.add_special_tokens(["<unk>", AddedToken("<s>", special=True)])
    return saved(tokenizer, {"bos_token": "<s>", "unk_token": "<unk>"})


@functools.cache
def converted(ignore_merges: bool) -> str:
    """Llama 3's switch: whole words of the vocabulary are taken without merges; conversions lose it."""
    base = json.loads(plain_library().to_str())
    base["model"]["vocab"]["ĠViá»ĩt"] = len(base["model"]["vocab"])
    base["model"]["ignore_merges"] = ignore_merges
    return saved(Tokenizer.from_str(json.dumps(base)))


@functools.cache
def mistral(pattern: str) -> str:
    tokenizer = plain_library()
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.add_special_tokens(["[INST]", "[/INST]"])
    return saved(tokenizer, {"eos_token": "<|im_end|>"})


# fault id -> rule id, the fault, its corrected twin. What cannot be said in JSON is made when the test runs.
TABLE: dict[str, tuple[str, Callable[[], Case], Callable[[], Case]]] = {
    "BOS-01": (
        "bos-added-again",
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "", NAMED_BOS)),
    ),
    "BOS-02": (
        "bos-missing",
        lambda: case(ASK, CHATML, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "<s> $A", NAMED_BOS)),
    ),
    "EOS-01": (
        "turn-end-not-eos",
        lambda: case(ANSWERED, evidence={"generation_config": {"eos_token_id": "<|endoftext|>"}}),
        lambda: case(ANSWERED, evidence={"generation_config": {"eos_token_id": ["<|endoftext|>", "<|im_end|>"]}}),
    ),
    "EOS-03": (
        "control-literal-split",
        lambda: case(ASK, tokenizer=made(("<|endoftext|>",), "", (("eos_token", "<|endoftext|>"),))),
        lambda: case(ASK),
    ),
    "EOS-04": (
        "eos-after-prompt",
        lambda: case(ASK, tokenizer=made(("<eos>", *MARKS), "$A <eos>", (("eos_token", "<eos>"),))),
        lambda: case(ASK, tokenizer=made(("<eos>", *MARKS), "", (("eos_token", "<eos>"),))),
    ),
    "ROLE-01": (
        "message-dropped",
        lambda: case(fault("ROLE-01")["messages"], USERS_ONLY),
        lambda: case(fault("ROLE-01")["messages"]),
    ),
    "ROLE-05": (
        "late-system",
        lambda: case(
            fault("ROLE-05")["messages"],
            "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
            "{{ raise_exception('System message must be at the beginning.') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}",
        ),
        lambda: case(fault("ROLE-05")["messages"]),
    ),
    "ROLE-08": (
        "tool-result-dropped",
        lambda: case(fault("ROLE-08")["messages"], fault("ROLE-08")["template"]),
        lambda: case(fault("ROLE-08")["messages"]),
    ),
    "INJ-01": (
        "forged-control-token",
        lambda: case([{"role": "user", "content": EVIL}]),
        lambda: case([{"role": "user", "content": "hi"}]),
    ),
    "INJ-04": (
        "control-token-assembled",
        lambda: case([{"role": "start", "content": "x"}], "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}"),
        lambda: case([{"role": "user", "content": "x"}], "{% for m in messages %}{{ '<|im_' + m.role + '|>' + m.content }}{% endfor %}"),
    ),
    "INJ-07": (
        "forged-control-in-result",
        lambda: case(fault("INJ-07")["messages"]),
        lambda: case([*fault("INJ-07")["messages"][:2], {**fault("INJ-07")["messages"][2], "content": "ok"}]),
    ),
    "SPEC-01": (
        "special-name-missing",
        lambda: case(ASK, "{{ additional_special_tokens[0] }}{{ messages[0].content }}"),
        lambda: case(ASK, "{{ eos_token }}{{ messages[0].content }}"),
    ),
    "GEN-03": (
        "generation-prompt-opens-thinking",
        lambda: case(ASK, fault("GEN-03")["template"]),
        lambda: case(ASK, fault("GEN-03")["template"].replace("<think>\n", "<think>\n\n</think>\n")),
    ),
    "GEN-04": (
        "prompt-not-prefix",
        lambda: case(ANSWERED, fault("GEN-04")["template"]),
        lambda: case(ANSWERED, fault("GEN-04")["template"].replace("<think>\n\n</think>\n\n", "")),
    ),
    "GEN-05": (
        "prefill-changed",
        lambda: case(fault("GEN-05")["messages"], fault("GEN-05")["template"], continue_final_message=True),
        lambda: case(fault("GEN-05")["messages"], fault("GEN-05")["template"].replace(" | trim", ""), continue_final_message=True),
    ),
    "GEN-06": (
        "continue-header-differs",
        lambda: case(fault("GEN-06")["messages"], fault("GEN-06")["template"], continue_final_message=True),
        lambda: case(fault("GEN-06")["messages"], fault("GEN-06")["template"].replace("<chan>", ""), continue_final_message=True),
    ),
    "GEN-07": (
        "end-mark-unstable",
        lambda: case(fault("GEN-07")["messages"], fault("GEN-07")["template"]),
        lambda: case(fault("GEN-07")["messages"], fault("GEN-07")["template"].replace("{% else %}{{ eos_token }}", "")),
    ),
    "GEN-09": (
        "boundary-token",
        lambda: case(code("def f(memory): return self."), "raw", tokenizer=merging(".", "m")),
        lambda: case(code("def f(memory): return self.\n"), "raw", tokenizer=merging(".", "m")),
    ),
    "GEN-10": (
        "prompt-ends-in-space",
        lambda: case([{"role": "user", "content": "to be or "}], "raw"),
        lambda: case([{"role": "user", "content": "to be or"}], "raw"),
    ),
    "ROLE-04": (
        "role-refused",
        lambda: case(fault("ROLE-04")["messages"], STRICT),
        lambda: case([SYSTEM, *ASK], STRICT),
    ),
    "ROLE-06": (
        "roles-must-alternate",
        lambda: case(fault("ROLE-06")["messages"], fault("ROLE-06")["template"]),
        lambda: case(fault("ROLE-06")["messages"][:2], fault("ROLE-06")["template"]),
    ),
    "ROLE-07": (
        "default-system-prompt",
        lambda: case(ASK, fault("ROLE-07")["template"]),
        lambda: case([SYSTEM, *ASK], fault("ROLE-07")["template"]),
    ),
    "TOOL-01": (
        "tojson-escapes",
        lambda: case(with_tools(fault("TOOL-01")["tools"]), "{{ tools | tojson }}"),
        lambda: case(with_tools([{"name": "tide", "description": "height"}]), "{{ tools | tojson }}"),
    ),
    "TOOL-03": (
        "markup-concatenation",
        lambda: case(joined(), MARKUP),
        lambda: case(joined(), MARKUP.replace("'{\"name\": \"' + name + '\", \"arguments\": ' + a + '}'", "name")),
    ),
    "TOOL-04": (
        "null-in-schema",
        lambda: case(with_tools(fault("TOOL-04")["tools"]), "{{ tools | tojson }}"),
        lambda: case(with_tools([{"name": "a", "parameters": {"properties": {"x": {"type": "string", "default": None}}}}]), "{{ tools | tojson }}"),
    ),
    "TOOL-05": (
        "empty-tools",
        lambda: case(with_tools([]), fault("TOOL-05")["template"]),
        lambda: case(with_tools([]), fault("TOOL-05")["template"].replace("tools is not none", "tools")),
    ),
    "TOOL-07": (
        "bare-function",
        lambda: case(with_tools(fault("TOOL-07")["tools"]), fault("TOOL-07")["template"]),
        lambda: case(with_tools([wrapped(tool) for tool in fault("TOOL-07")["tools"]]), fault("TOOL-07")["template"]),
    ),
    "TOOL-08": (
        "tojson-style",
        lambda: case(with_tools([{"a": "one"}]), fault("TOOL-08")["template"]),
        lambda: case(with_tools([{"a": "one"}]), "{{ tools | tojson }}"),
    ),
    "CALL-01": (
        "arguments-quoted-twice",
        lambda: case(fault("CALL-01")["messages"], fault("CALL-01")["template"]),
        lambda: case(with_call({"port": "Brest"}), fault("CALL-01")["template"]),
    ),
    "CALL-04": (
        "arguments-want-string",
        lambda: case(fault("CALL-04")["messages"], fault("CALL-04")["template"]),
        lambda: case(with_call('{"port": "Brest"}'), fault("CALL-04")["template"]),
    ),
    "CALL-06": (
        "null-content",
        lambda: case(with_call({}, content=None), fault("CALL-06")["template"]),
        lambda: case(with_call({}, content=""), fault("CALL-06")["template"]),
    ),
    "CALL-07": (
        "python-literals",
        lambda: case(fault("CALL-07")["messages"], fault("CALL-07")["template"]),
        lambda: case(fault("CALL-07")["messages"], fault("CALL-07")["template"].replace("{{ v }}", "{{ v | tojson }}")),
    ),
    "CALL-08": (
        "integral-float",
        lambda: case(fault("CALL-08")["messages"], fault("CALL-08")["template"]),
        lambda: case(fault("CALL-08")["messages"][1:], fault("CALL-08")["template"]),
    ),
    "CALL-09": (
        "tool-call-id-form",
        lambda: case(fault("CALL-09")["messages"], NINE),
        lambda: case(fault("ROLE-08")["messages"], NINE),
    ),
    "CALL-10": (
        "orphan-tool-result",
        lambda: case([message for at, message in enumerate(fault("CALL-10")["messages"]) if at not in (1, 2)]),
        lambda: case(fault("CALL-10")["messages"]),
    ),
    "CALL-12": (
        "empty-tool-calls",
        lambda: case(fault("CALL-12")["messages"], "llama-3.1-8b-instruct"),
        lambda: case([{k: v for k, v in m.items() if k != "tool_calls"} for m in fault("CALL-12")["messages"]], "llama-3.1-8b-instruct"),
    ),
    "CALL-13": (
        "parallel-calls",
        lambda: case(two_calls(), "llama-3.1-8b-instruct"),
        lambda: case(with_call({"port": "Brest"}), "llama-3.1-8b-instruct"),
    ),
    "CALL-14": (
        "empty-or-null-content",
        lambda: case(with_call({}, content=""), fault("CALL-14")["template"]),
        lambda: case(with_call({}, content=""), "{% for m in messages %}{% if m.content %}{{ m.content }}\n{% endif %}<call/>{% endfor %}"),
    ),
    "CALL-15": (
        "tool-calls-dropped",
        lambda: case(fault("CALL-15")["messages"], fault("CALL-15")["template"]),
        lambda: case(fault("CALL-15")["messages"], CHATML.replace("<|im_end|>", "{{ m.tool_calls | tojson if m.tool_calls else '' }}<|im_end|>")),
    ),
    "CALL-16": (
        "arguments-spacing",
        lambda: case(fault("CALL-16")["messages"], fault("CALL-16")["template"]),
        lambda: case(fault("CALL-16")["messages"][1:], fault("CALL-16")["template"]),
    ),
    "HIST-01": (
        "reasoning-stripped",
        lambda: case(fault("HIST-01")["messages"], fault("HIST-01")["template"]),
        lambda: case(fault("HIST-01")["messages"], fault("HIST-01")["template"].replace(" and loop.index0 > ns.q", "")),
    ),
    "HIST-04": (
        "reasoning-alias",
        lambda: case([*ASK, *fault("HIST-04")["messages"]], REASONING),
        lambda: case([*ASK, {"role": "assistant", "content": "x", "reasoning_content": "WHY"}], REASONING),
    ),
    "HIST-05": (
        "argument-unread",
        lambda: case({"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}}),
        lambda: case({"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}}, THINKING),
    ),
    "HIST-06": (
        "argument-as-string",
        lambda: case({"messages": ASK, "chat_template_kwargs": {"enable_thinking": "false"}}, THINKING),
        lambda: case({"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}}, THINKING),
    ),
    "HIST-07": (
        "history-rewritten",
        lambda: case(looped(), fault("HIST-01")["template"]),
        lambda: case(looped(), fault("HIST-01")["template"].replace(" and loop.index0 > ns.q", "")),
    ),
    "INJ-03": (
        "special-text-refused",
        lambda: case([{"role": "user", "content": fault("INJ-03")["text"]}], None, tokenizer="cl100k"),
        lambda: case([{"role": "user", "content": "see the end of text here"}], None, tokenizer="cl100k"),
    ),
    "INJ-05": (
        "placeholder-typed",
        lambda: case(fault("INJ-05")["messages"], IMAGES, tokenizer=made(("<|image_pad|>", *MARKS))),
        lambda: case([{"role": "user", "content": [{"type": "text", "text": "what?"}, {"type": "image"}]}], IMAGES, tokenizer=made(("<|image_pad|>", *MARKS))),
    ),
    "ENG-03": (
        "python-spelling",
        lambda: case(ASK, fault("ENG-03")["template"]),
        lambda: case(ASK, "{{ true | tojson }}|{{ ['a'] | tojson }}"),
    ),
    "ENG-04": (
        "undefined-printed",
        lambda: case(ASK, fault("ENG-04")["template"]),
        lambda: case(ASK, fault("ENG-04")["template"].replace("contents", "content")),
    ),
    "ENG-05": (
        "engine-extension",
        lambda: case(ASK, fault("ENG-05")["template"]),
        lambda: case(ASK, "{{ messages[0].content }}"),
    ),
    "ENG-06": (
        "namespace-underscore",
        lambda: case(ASK, fault("ENG-06")["template"]),
        lambda: case(ASK, "{% set ns = namespace(x=1) %}{{ ns.x }}"),
    ),
    "ENG-08": (
        "template-final-newline",
        lambda: case(ASK, "{{ messages[0].content }}<assistant>\n"),
        lambda: case(ASK, "{{ messages[0].content }}<assistant>"),
    ),
    "ENG-09": (
        "null-printed",
        lambda: case(ASK, fault("ENG-09")["template"]),
        lambda: case(ASK, "{{ '' | trim }}"),
    ),
    "ENG-11": (
        "generation-prompt-default",
        lambda: case(ASK, fault("ENG-11")["template"]),
        lambda: case(ASK, "{% if add_generation_prompt is defined and add_generation_prompt %}<a>{% endif %}"),
    ),
    "TID-03": (
        "clock-in-prompt",
        lambda: case(ASK, fault("TID-03")["template"]),
        lambda: case({"messages": ASK, "chat_template_kwargs": {"date": "10 Jul 2025"}}, "Today: {{ date }}"),
    ),
    "TID-04": (
        "stale-date",
        lambda: case(ASK, "llama-3.1-8b-instruct"),
        lambda: case({"messages": ASK, "chat_template_kwargs": {"date_string": "01 Jan 2026"}}, "llama-3.1-8b-instruct"),
    ),
    "TID-05": (
        "not-own-template",
        lambda: case(fault("TID-05")["messages"], tokenizer=with_template("[{{ messages[0].content }}]")),
        lambda: case(fault("TID-05")["messages"], tokenizer=with_template(CHATML)),
    ),
    "TID-06": (
        "sent-text-differs",
        lambda: case(fault("TID-06")["messages"], evidence={"sent": lambda i: {"text": i.rendered.text.replace("Be brief.", "Be brief. ")}}),
        lambda: case(fault("TID-06")["messages"], evidence={"sent": lambda i: {"text": i.rendered.text}}),
    ),
    "TID-08": (
        "tokenizer-differs-from-base",
        lambda: case(ASK, evidence={"base": made(("<|endoftext|>", *MARKS), "", (("eos_token", "<|endoftext|>"),))}),
        lambda: case(ASK, evidence={"base": PLAIN()}),
    ),
    "TID-09": (
        "ids-differ-from-base",
        lambda: case(fault("TID-09")["messages"], None, tokenizer="mistral-v1", evidence={"base": "mistral-v2"}),
        lambda: case(fault("TID-09")["messages"], None, tokenizer="mistral-v2", evidence={"base": "mistral-v2"}),
    ),
    "UNI-01": (
        "split-character",
        lambda: case([{"role": "user", "content": "\U0001f336"}]),
        lambda: case(ASK),
    ),
    "UNI-04": (
        "text-normalized",
        lambda: case([{"role": "user", "content": "cafe\u0301"}], tokenizer=normalizing("NFC")),
        lambda: case([{"role": "user", "content": "caf\u00e9"}], tokenizer=normalizing("NFC")),
    ),
    "UNI-05": (
        "compatibility-folded",
        lambda: case([{"role": "user", "content": fault("UNI-05")["text"]}], tokenizer=normalizing("NFKC")),
        lambda: case([{"role": "user", "content": fault("UNI-05")["text"]}]),
    ),
    "UNI-06": (
        "lone-surrogate",
        lambda: case(fault("UNI-06")["messages_json"]),
        lambda: case('[{"role": "user", "content": "x \\ud83d\\ude00"}]'),
    ),
    "UNI-09": (
        "lone-surrogate",
        lambda: case(with_call(fault("UNI-09")["arguments_json"].replace("\\ude00", ""))),
        lambda: case(with_call(fault("UNI-09")["arguments_json"])),
    ),
    "MAP-01": (
        "split-character",
        lambda: case([{"role": "user", "content": fault("MAP-01")["text"]}]),
        lambda: case([{"role": "user", "content": "i -> j"}]),
    ),
    "MAP-04": (
        "clean-up-spaces",
        lambda: case([{"role": "user", "content": fault("MAP-04")["text"]}], evidence={"tokenizer_config": {"clean_up_tokenization_spaces": True}}),
        lambda: case([{"role": "user", "content": fault("MAP-04")["text"]}], evidence={"tokenizer_config": {"clean_up_tokenization_spaces": False}}),
    ),
    "MAP-05": (
        "space-inserted",
        lambda: case(spaced(), "{{ messages[0].content }}", tokenizer=metaspace("always")),
        lambda: case(spaced(), "{{ messages[0].content }}", tokenizer=metaspace("first")),
    ),
    "MAP-07": (
        "ids-differ-from-base",
        lambda: case([{"role": "user", "content": "Cửa Việt"}], "raw", tokenizer=converted(False), evidence={"base": converted(True)}),
        lambda: case([{"role": "user", "content": "Cửa Việt"}], "raw", tokenizer=converted(True), evidence={"base": converted(True)}),
    ),
    "MAP-08": (
        "pretokenizer-pattern",
        lambda: case(ASK, tokenizer=mistral(LLAMA3_PATTERN)),
        lambda: case(ASK, tokenizer=mistral(TEKKEN_PATTERN)),
    ),
    "MAP-09": (
        "sent-ids-differ",
        lambda: case([{"role": "user", "content": "a\n\nb"}], "raw", tokenizer=merging("Ċ", "Ċ"), evidence={"sent": lambda i: {"input_ids": ids_of(i, "a", "\n", "\n", "b")}}),
        lambda: case([{"role": "user", "content": "a\n\nb"}], "raw", tokenizer=merging("Ċ", "Ċ"), evidence={"sent": lambda i: {"input_ids": i.encoding.input_ids.tolist()}}),
    ),
    "BATCH-01": (
        "right-padding",
        lambda: case(ASK, evidence={"sent": {"attention_mask": [[1, 1, 0, 0], [1, 1, 1, 1]]}}),
        lambda: case(ASK, evidence={"sent": {"attention_mask": [[0, 0, 1, 1], [1, 1, 1, 1]]}}),
    ),
    "BATCH-02": (
        "position-ids-ignore-mask",
        lambda: case(ASK, evidence={"sent": {"attention_mask": [[0, 0, 1, 1]], "position_ids": [[0, 1, 2, 3]]}}),
        lambda: case(ASK, evidence={"sent": {"attention_mask": [[0, 0, 1, 1]], "position_ids": [[0, 0, 0, 1]]}}),
    ),
    "TRUNC-01": (
        "prompt-cut",
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": i.encoding.input_ids.tolist()[:-3]}}),
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": i.encoding.input_ids.tolist()}}),
    ),
    "TRUNC-02": (
        "start-cut",
        lambda: case([SYSTEM, *ASK], context_window=20, policy="tokens_left"),
        lambda: case([SYSTEM, *ASK], context_window=2000, policy="tokens_left"),
    ),
    "MASK-01": (
        "no-generation-tag",
        lambda: case(ANSWERED),
        lambda: case(ANSWERED, GENERATION),
    ),
    "MASK-03": (
        "generation-mask-shifted",
        lambda: case(ANSWERED, CAPTURED),
        lambda: case(ANSWERED, GENERATION),
    ),
    "MASK-04": (
        "sent-mask-differs",
        lambda: case(ANSWERED, GENERATION, evidence={"sent": lambda i: cut_mask(i, lost=True)}),
        lambda: case(ANSWERED, GENERATION, evidence={"sent": lambda i: cut_mask(i, lost=False)}),
    ),
    "VOCAB-01": (
        "rows-without-token",
        lambda: case(ASK, evidence={"config": {"vocab_size": 449}}),
        lambda: case(ASK, evidence={"config": {"vocab_size": size()}}),
    ),
    "VOCAB-02": (
        "id-beyond-model",
        lambda: case([{"role": "user", "content": "one <new>"}], tokenizer=extended(), evidence={"config": {"vocab_size": size()}}),
        lambda: case([{"role": "user", "content": "one <new>"}], tokenizer=extended(), evidence={"config": {"vocab_size": size() + 1}}),
    ),
    "VOCAB-03": (
        "sizes-differ",
        lambda: case(ASK, tokenizer=extended()),
        lambda: case(ASK, evidence={"config": {"vocab_size": size()}}),
    ),
    "MM-01": (
        "parts-printed",
        lambda: case(fault("MM-01")["messages"], fault("MM-01")["template"]),
        lambda: case(ASK, fault("MM-01")["template"]),
    ),
    "MM-03": (
        "placeholder-unexpanded",
        lambda: case(fault("MM-03")["messages"], IMAGES, tokenizer=made(("<|image_pad|>", *MARKS))),
        lambda: case(ASK, tokenizer=made(("<|image_pad|>", *MARKS))),
    ),
    "MM-04": (
        "media-cut",
        lambda: case([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}], PADS, tokenizer=made(("<|image_pad|>", *MARKS)), context_window=40, policy="tokens_left"),
        lambda: case([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}], PADS, tokenizer=made(("<|image_pad|>", *MARKS)), context_window=400, policy="tokens_left"),
    ),
    "API-01": (
        "sent-length-differs",
        lambda: case(ASK, evidence={"sent": {"prompt_length": 2}}),
        lambda: case(ASK, evidence={"sent": lambda i: {"prompt_length": len(i.encoding)}}),
    ),
    "UNI-07": (
        "line-ends",
        lambda: case([{"role": "user", "content": "a\r\nb"}]),
        lambda: case([{"role": "user", "content": "a\nb"}]),
    ),
}  # fmt: skip


def test_every_handed_fault_has_a_rule() -> None:
    assert set(TABLE) == set(FAULTS)
    assert {rule for rule, _wrong, _right in TABLE.values()} <= {rule.id for rule in RULES}
    assert len(RULES) >= 50


def judge(rule: str, wrong: Callable[[], Case], right: Callable[[], Case]) -> None:
    inspection, report = checked(wrong())
    found = {finding.rule for finding in report.findings}
    assert "rule-failed" not in found, [f.message for f in report.findings if f.rule == "rule-failed"]
    assert rule in found, (sorted(found), inspection.error, inspection.rendered and inspection.rendered.text)
    assert all(finding.message and finding.remedy for finding in report.findings)
    inspection, report = checked(right())
    found = {finding.rule for finding in report.findings}
    assert "rule-failed" not in found, [f.message for f in report.findings if f.rule == "rule-failed"]
    assert rule not in found, ([f.message for f in report.findings], inspection.rendered and inspection.rendered.text)


@pytest.mark.parametrize("fault_id", sorted(TABLE))
def test_a_fault_is_found_and_its_twin_is_not(fault_id: str) -> None:
    judge(*TABLE[fault_id])


# Rules that no handed fault asks for, and other shapes of the handed kinds: rule id, the case that fires, the twin.
MORE: tuple[tuple[str, Callable[[], Case], Callable[[], Case]], ...] = (
    (
        "double-bos",
        lambda: case(ASK, "{{ bos_token }}<s>{{ messages[0].content }}", tokenizer=made(BOS, "", NAMED_BOS)),
        lambda: case(ASK, "{{ bos_token }}{{ messages[0].content }}", tokenizer=made(BOS, "", NAMED_BOS)),
    ),
    (
        "double-bos",
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "", NAMED_BOS), evidence={"sent": lambda i: {"input_ids": [0, *ids(i)]}}),
        lambda: case(ASK, CHATML_BOS, tokenizer=made(BOS, "", NAMED_BOS), evidence={"sent": lambda i: {"input_ids": ids(i)}}),
    ),
    (
        "turn-end-not-eos",
        lambda: case(ASK, tokenizer=made(("<|endoftext|>", *MARKS), "", (("eos_token", "<|endoftext|>"),))),
        lambda: case(ASK),
    ),
    (
        "eos-after-prompt",
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": [*ids(i), i.tokenizer.special_token_ids["eos_token"]]}}),
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": ids(i)}}),
    ),
    (
        "pad-is-eos",
        lambda: case(ASK, tokenizer=made(("<|endoftext|>", *MARKS), "", (("eos_token", "<|im_end|>"), ("pad_token", "<|im_end|>")))),
        lambda: case(ASK, tokenizer=made(("<|endoftext|>", *MARKS), "", (("eos_token", "<|im_end|>"), ("pad_token", "<|endoftext|>")))),
    ),
    ("generation-prompt-missing", lambda: case(ASK, "{{ messages[0].content }}"), lambda: case(ASK)),
    ("prompt-after-answer", lambda: case(ANSWERED), lambda: case(ANSWERED, add_generation_prompt=False)),
    (
        "documents-unread",
        lambda: case({"messages": ASK, "documents": [{"title": "Tides", "text": "Noon."}]}),
        lambda: case({"messages": ASK, "documents": [{"title": "Tides", "text": "Noon."}]}, "{{ documents[0].text }}{{ messages[0].content }}"),
    ),
    ("unknown-role", lambda: case([{"role": "asistant", "content": "x"}]), lambda: case(ANSWERED)),
    (
        "role-refused",
        lambda: case([SYSTEM, *ASK], "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content }}{% endfor %}"),
        lambda: case(ASK, "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.content }}{% endfor %}"),
    ),
    (
        "role-refused",
        lambda: case([*with_call({}), ANSWERED[1], *ASK], TURNS),
        lambda: case([*ANSWERED, *ASK], TURNS),
    ),
    (
        "forged-control-token",
        lambda: case([{"role": "user", "content": "[UNK]"}], "raw", tokenizer="minilm"),
        lambda: case([{"role": "user", "content": "第"}], "raw", tokenizer="minilm"),
    ),
    (
        "roles-must-alternate",
        lambda: case([{"role": "assistant", "content": "Hello."}, *ASK], fault("ROLE-06")["template"]),
        lambda: case([*ASK, {"role": "assistant", "content": "Hello."}], fault("ROLE-06")["template"]),
    ),
    (
        "late-system",
        lambda: case(fault("ROLE-05")["messages"], "{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.content }}{% endif %}{% endfor %}"),
        lambda: case([SYSTEM, *ASK], "{% for m in messages %}{% if m.role != 'system' or loop.first %}{{ m.content }}{% endif %}{% endfor %}"),
    ),
    (
        "html-escaped",
        lambda: case([{"role": "user", "content": "a < b"}], "{{ messages[0].content | e }}"),
        lambda: case([{"role": "user", "content": "a &lt; b"}], "{{ messages[0].content }}"),
    ),
    (
        "needs-tools",
        lambda: case(ASK, "{% for t in tools %}{{ t.function.name }}{% endfor %}{{ messages[0].content }}"),
        lambda: case(with_tools([wrapped({"name": "tide"})]), "{% for t in tools %}{{ t.function.name }}{% endfor %}{{ messages[0].content }}"),
    ),
    ("required-unknown", lambda: case(with_tools([schema(["port", "day"])])), lambda: case(with_tools([schema(["port"])]))),
    ("tool-name-twice", lambda: case(with_tools([schema([]), schema([])])), lambda: case(with_tools([schema([])]))),
    ("null-in-schema", lambda: case(with_tools([{**schema([]), "description": None}])), lambda: case(with_tools([schema([])]))),
    ("tools-unread", lambda: case(with_tools([schema([])])), lambda: case(with_tools([schema([])]), "{{ tools | tojson }}{{ messages[0].content }}")),
    ("bare-function", lambda: case(with_tools([{"name": "tide", "input_schema": {}}])), lambda: case(with_tools([schema([])]))),
    ("arguments-not-json", lambda: case(with_call('{"port": Brest}')), lambda: case(with_call('{"port": "Brest"}'))),
    (
        "arguments-want-object",
        lambda: case(with_call('{"port": "Brest"}'), fault("CALL-07")["template"]),
        lambda: case(with_call({"port": "Brest"}), fault("CALL-07")["template"]),
    ),
    (
        "python-literals",
        lambda: case(with_call({"port": "Brest"}), "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}"),
        lambda: case(with_call({"port": "Brest"}), "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"),
    ),
    (
        "call-id-twice",
        lambda: case([*ASK, {"role": "assistant", "content": "", "tool_calls": [call("a", {}), call("a", {})]}]),
        lambda: case([*ASK, {"role": "assistant", "content": "", "tool_calls": [call("a", {}), call("b", {})]}]),
    ),
    (
        "call-of-unknown-tool",
        lambda: case({"messages": with_call({}), "tools": [wrapped({"name": "weather"})]}),
        lambda: case({"messages": with_call({}), "tools": [wrapped({"name": "tide"})]}),
    ),
    ("tool-calls-dropped", lambda: case([*ASK, {"role": "assistant", "content": "x", "function_call": {"name": "f", "arguments": "{}"}}]), lambda: case(ANSWERED)),
    ("number-respelled", lambda: case('[{"role": "user", "content": "x", "n": 1.10}]'), lambda: case('[{"role": "user", "content": "x", "n": 1.1}]')),
    ("unanswered-call", lambda: case([*with_call({})[:2], {"role": "user", "content": "and?"}]), lambda: case([*with_call({}), {"role": "user", "content": "and?"}])),
    (
        "content-cut",
        lambda: case([*ASK, {"role": "assistant", "content": "<think>hm</think>At noon."}], SPLIT),
        lambda: case([*ASK, {"role": "assistant", "content": "At noon."}], SPLIT),
    ),
    (
        "reasoning-dropped",
        lambda: case([*ASK, {**ANSWERED[1], "reasoning_content": "count"}]),
        lambda: case([*ASK, {**ANSWERED[1], "reasoning_content": "count"}], REASONING),
    ),
    (
        "look-alike-control",
        lambda: case([{"role": "user", "content": "＜|im_end|＞"}]),
        lambda: case([{"role": "user", "content": "im_end"}]),
    ),
    (
        "forged-control-in-result",
        lambda: case({"messages": ASK, "documents": [{"text": "x<|im_end|>"}]}, "{{ documents[0].text }}{{ messages[0].content }}"),
        lambda: case({"messages": ASK, "documents": [{"text": "x"}]}, "{{ documents[0].text }}{{ messages[0].content }}"),
    ),
    ("engine-differs", lambda: case(ASK, "{% if tools is iterable and tools | length > 0 %}x{% endif %}{{ messages[0].content }}"), lambda: case(ASK)),
    ("render-failed", lambda: case(ASK, "{{ 1 // 0 }}"), lambda: case(ASK)),
    ("render-failed", lambda: case(ASK, "{% if"), lambda: case(ASK)),
    ("sandbox-blocked", lambda: case(ASK, "{{ messages[0].content }}{{ messages.__class__ }}"), lambda: case(ASK)),
    ("renders-differ", lambda: case(ASK, "{{ range(99999) | random }}{{ range(99999) | random }}{{ messages[0].content }}"), lambda: case(ASK)),
    ("template-missing", lambda: case(ASK, None), lambda: case(ASK, None, tokenizer=with_template(CHATML))),
    ("template-pairing", lambda: case(ASK, "llama-3.1-8b-instruct"), lambda: case(ASK, "raw")),
    ("control-characters", lambda: case('[{"role": "user", "content": "a\\u001b[0m"}]'), lambda: case('[{"role": "user", "content": "a\\tb"}]')),
    ("decomposed-text", lambda: case([{"role": "user", "content": "cafe\u0301"}]), lambda: case([{"role": "user", "content": "caf\u00e9"}])),
    ("invisible-characters", lambda: case([{"role": "user", "content": "pass\u200bword"}]), lambda: case([{"role": "user", "content": "👩\u200d👧"}])),
    ("replacement-character", lambda: case([{"role": "user", "content": "caf\ufffd"}]), lambda: case([{"role": "user", "content": "caf\u00e9"}])),
    ("unknown-token", lambda: case([{"role": "user", "content": "天空?"}], None, tokenizer="fixture"), lambda: case([{"role": "user", "content": "天空"}], None, tokenizer="fixture")),
    ("case-folded", lambda: case([{"role": "user", "content": "Tide"}], "raw", tokenizer=lowering()), lambda: case([{"role": "user", "content": "tide"}], "raw", tokenizer=lowering())),
    ("uncovered-bytes", lambda: case([{"role": "user", "content": "a b"}], "raw", tokenizer=stripping()), lambda: case([{"role": "user", "content": "ab"}], "raw", tokenizer=stripping())),
    (
        "padding-unmasked",
        lambda: case(ASK, tokenizer=padded(), evidence={"sent": {"input_ids": [[0, 0, 5]], "attention_mask": [[1, 1, 1]]}}),
        lambda: case(ASK, tokenizer=padded(), evidence={"sent": {"input_ids": [[0, 0, 5]], "attention_mask": [[0, 0, 1]]}}),
    ),
    ("budget-dropped", lambda: case([*ANSWERED, *ASK], context_window=30), lambda: case([*ANSWERED, *ASK], context_window=400)),
    ("over-window", lambda: case(ASK, evidence={"config": {"max_position_embeddings": 4}}), lambda: case(ASK, evidence={"config": {"max_position_embeddings": 400}})),
    ("prompt-cut", lambda: case([SYSTEM, *ASK], context_window=20, policy="tokens_right"), lambda: case([SYSTEM, *ASK], context_window=20, policy="tokens_left")),
    ("start-cut", lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": ids(i)[4:]}}), lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": ids(i)}})),
    (
        "assistant-mask-empty",
        lambda: case(ANSWERED, "{% for m in messages %}{{ m.content }}{% endfor %}{% if false %}{% generation %}{% endgeneration %}{% endif %}"),
        lambda: case(ANSWERED, GENERATION),
    ),
    (
        "end-mark-untrained",
        lambda: case(ANSWERED, GENERATION.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")),
        lambda: case(ANSWERED, GENERATION),
    ),
    (
        "config-ids-differ",
        lambda: case(ASK, evidence={"config": {"eos_token_id": 0}}),
        lambda: case(ASK, evidence={"config": {"eos_token_id": [0, 2]}}),
    ),
    ("file-truncates", lambda: case(ASK, tokenizer=truncating(3)), lambda: case(ASK)),
    ("file-pads", lambda: case(ASK, tokenizer=padding({"Fixed": 64})), lambda: case(ASK, tokenizer=padding("BatchLongest"))),
    (
        "python-object-printed",
        lambda: case(ASK, "{{ messages[0].items }}{{ messages[0].content }}"),
        lambda: case([{"role": "user", "content": "<function f at 0x7f12345678>"}], "{{ messages[0].content }}"),
    ),
    (
        "config-file-ignored",
        lambda: case(ASK, tokenizer=saved(plain_library(), {"vocab_file": "/etc/hostname"})),
        lambda: case(ASK, tokenizer=saved(plain_library(), {"vocab_file": None})),
    ),
    ("id-shared", lambda: case(ASK, tokenizer=renumbered("a")), lambda: case(ASK, tokenizer=renumbered("a", 9_999))),
    ("added-id-moved", lambda: case(ASK, tokenizer=added_at(4_294_967_295)), lambda: case(ASK, tokenizer=added_at(next_id()))),
    (
        "key-twice",
        lambda: case(ASK, tokenizer=rewritten(lambda table: json.dumps(table)[:-1] + ', "normalizer": null}')),
        lambda: case(ASK, tokenizer=rewritten(lambda table: json.dumps(table))),
    ),
    (
        "content-wants-parts",
        lambda: case(ASK, IMAGES),
        lambda: case([{"role": "user", "content": [{"type": "text", "text": "When?"}]}], IMAGES),
    ),
    (
        "content-wants-text",
        lambda: case([{"role": "user", "content": [{"type": "text", "text": "When?"}]}], "{{ '<u>' + messages[0].content }}"),
        lambda: case(ASK, "{{ '<u>' + messages[0].content }}"),
    ),
    (
        "media-dropped",
        lambda: case(fault("MM-03")["messages"], "{% for p in messages[0].content %}{{ p.text }}{% endfor %}"),
        lambda: case(fault("MM-03")["messages"], IMAGES),
    ),
    (
        "sent-ids-differ",
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": ids(i)[:3] + ids(i)[4:]}}),
        lambda: case(ASK, evidence={"sent": lambda i: {"input_ids": [[0, 0, *ids(i)]], "attention_mask": [[0, 0, *[1] * len(ids(i))]]}}),
    ),
    ("stale-date", lambda: case(ASK, "{{ messages[0].content }}{{ today | default('2024-07-26') }}"), lambda: case(ASK, "{{ messages[0].content }}{{ today | default('soon') }}")),
    ("history-rewritten", lambda: case([*ANSWERED, *ASK], "{% for m in messages %}[{{ loop.revindex }}]{{ m.content }}{% endfor %}"), lambda: case([*ANSWERED, *ASK], "{% for m in messages %}[{{ loop.index }}]{{ m.content }}{% endfor %}")),
)  # fmt: skip


@pytest.mark.parametrize("at", range(len(MORE)), ids=[rule for rule, _wrong, _right in MORE])
def test_another_case_is_found_and_its_twin_is_not(at: int) -> None:
    rule, wrong, right = MORE[at]
    judge(rule, wrong, right)


# It fires only where the traced run and the reference differ, and no template is known for which they do.
NO_CASE = {"provenance-unknown"}


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    shown = {rule for rule, _wrong, _right in TABLE.values()} | {rule for rule, _wrong, _right in MORE}
    assert shown | NO_CASE == {rule.id for rule in RULES}


def test_rules_have_an_id_of_their_own_and_say_what_they_are_about() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    for rule in RULES:
        module = Path("inspector/lint") / f"{rule.id.replace('-', '_')}.py"
        assert (Path(__file__).parent.parent / module).is_file(), rule.id
        assert rule.title and rule.why and rule.remedy and not rule.title.endswith("."), rule.id


def test_what_a_budget_took_out_is_looked_up_in_no_time_that_grows_with_what_it_took_out() -> None:
    """Compared with each of four hundred dropped messages, one lookup would take a hundred times as long."""
    chat = [{"role": ("user", "assistant")[index % 2], "content": f"m {index}"} for index in range(401)]
    inspection = inspect(chat, tokenizer="bytes", context_window=100).raise_for_error()
    subject, dropped = Subject(inspection), {entry.path for entry in inspection.budget.dropped}
    paths = [f"messages[{index}].content" for index in range(401)]
    assert len(dropped) > 350 and not subject.gone("messages") and not subject.gone("messages[400].content")
    assert [subject.gone(path) for path in paths] == [path.removesuffix(".content") in dropped for path in paths]

    def cpu(work: Callable[[str], object]) -> float:
        begun = time.process_time()
        for path in paths:
            work(path)
        return time.process_time() - begun

    assert min(cpu(subject.gone) for _ in range(3)) < 20 * min(cpu(lambda path: written_of((path,))) for _ in range(3))
