"""The table of a scan: its columns, each with what it says, as a pyarrow schema.

Nothing is computed here. A value is null where the row did not get that far: an `error_…` column then says why, and
what was reached before is there all the same. Of nested columns the lists are empty, not null, where nothing was found.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

# The roles that have a column of their own; all others are counted as `other`.
ROLES = ("system", "developer", "user", "assistant", "tool")
# Who wrote a token, as `counts.by_origin` of inspection/1 has it.
ORIGINS = (
    "template", "message", "tool", "document", "kwarg", "special", "clock", "derived", "unknown", "generation_prompt",
    "inserted",
)  # fmt: skip
# Groups of scripts by which text is counted; scripts.py says which character is which.
SCRIPTS = (
    "latin", "cyrillic", "greek", "arabic", "hebrew", "indic", "thai", "han", "kana", "hangul", "emoji", "common",
    "other",
)  # fmt: skip

TALLY = pa.map_(pa.string(), pa.int32())
WINDOW = pa.struct(
    [
        ("context_window", pa.int64()),  # the window asked for
        ("fits", pa.bool_()),  # the whole row is at most window - max_new_tokens
        ("input_tokens", pa.int64()),  # tokens after the decision; of a rejected row those that did not fit
        ("required_tokens", pa.int64()),  # of the parts that may not be dropped; null where it was not asked: it fits
        ("rejected", pa.bool_()),  # the required parts alone do not fit (or the policy is reject)
        ("cut_units", pa.int32()),  # messages, tools and documents of which a part is lost
        ("cut_tokens", pa.int64()),  # tokens lost so
        ("dropped_units", pa.int32()),  # messages, tools and documents that are out
        ("dropped_tokens", pa.int64()),  # tokens they would have cost
        ("broken", pa.list_(pa.string())),  # what the decision breaks: `broken[].what` of inspection/1, each once
        ("trained_beyond", pa.int64()),  # trained tokens at or after the limit: what cutting from the right would lose
        ("error_kind", pa.string()),  # an error of the decision other than a rejection
    ]
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type, and what a value of it says."""

    name: str
    type: pa.DataType
    doc: str


def _error(prefix: str, whose: str) -> tuple[Column, ...]:
    return (
        Column(f"{prefix}error_kind", pa.string(), f"what stopped {whose}: a kind of errors.py; null: nothing did"),
        Column(f"{prefix}error_stage", pa.string(), "the stage that it stopped at"),
        Column(f"{prefix}error_place", pa.string(), "where, in words: a path of the row, a template line"),
        Column(f"{prefix}error_message", pa.string(), "why, one line"),
        Column(f"{prefix}error_remedy", pa.string(), "what to change"),
    )


COLUMNS: tuple[Column, ...] = (
    Column("file", pa.string(), "the file, as the manifest names it"),
    Column("row", pa.int64(), "number of the row in its file, from 0; blank lines are no rows"),
    Column("offset", pa.int64(), "byte at which the row begins in a JSON or CSV file; null in others"),
    Column("form", pa.string(), "what the row was recognised as: messages, sharegpt, alpaca, prompt, openai, …"),
    Column("row_bytes", pa.int64(), "bytes of the row as JSON text"),
    Column("request_sha256", pa.binary(32), "SHA-256 of the request that the pipeline read: the row as JSON text"),
    Column("messages", pa.int32(), "number of messages"),
    Column("tools", pa.int32(), "number of tools offered"),
    Column("tool_calls", pa.int32(), "number of tool calls in the messages"),
    Column("last_role", pa.string(), "role of the last message"),
    Column("characters", pa.int64(), "code points of the rendered text"),
    Column("bytes", pa.int64(), "UTF-8 bytes of the rendered text"),
    Column("tokens", pa.int64(), "length: tokens of the whole row, before any window"),
    Column("template_sha256", pa.binary(32), "digest of the template that rendered it"),
    Column("tokenizer_sha256", pa.binary(32), "digest of the tokenizer"),
    Column("rendered_sha256", pa.binary(32), "SHA-256 of the rendered bytes"),
    Column("ids_sha256", pa.binary(32), "SHA-256 of the ids as 4-byte little-endian integers"),
    *(Column(f"tokens_{name}", pa.int64(), f"tokens of origin {name}") for name in ORIGINS),
    Column("tokens_argument", pa.int64(), "of the tokens of messages, those of tool-call arguments"),
    Column("tokens_reasoning", pa.int64(), "of the tokens of messages, those of reasoning fields"),
    *(Column(f"role_{name}", pa.int64(), f"tokens that messages of role {name} wrote") for name in (*ROLES, "other")),
    Column("scripts", TALLY, "tokens by script of their first character, of SCRIPTS"),
    Column("provenance", pa.string(), "traced, or unknown: the bytes' writers are not known for all"),
    Column("assistant_from", pa.string(), "how the assistant's bytes are known: generation, provenance, null"),
    Column("trained", pa.int64(), "tokens that a loss is computed on"),
    Column("masked", pa.int64(), "tokens that it is not computed on"),
    Column("alarms", TALLY, "mask alarms by kind"),
    Column("findings", TALLY, "findings of the live rules, by rule"),
    Column("errors", pa.int32(), "findings of severity error"),
    Column("warnings", pa.int32(), "findings of severity warning"),
    Column("notes", pa.int32(), "findings of severity note"),
    Column("control", pa.int64(), "control tokens in all"),
    Column("control_from_content", pa.int64(), "control tokens of which content wrote at least one byte"),
    Column("control_crossing", pa.int64(), "of these, those that template and content wrote together"),
    Column("look_alike", pa.int64(), "tokens of text that spells a control token and did not become one"),
    Column("safe_tokens", pa.int64(), "length with control strings of content as plain text"),
    Column("unknown_tokens", pa.int64(), "unknown tokens where text is lost"),
    Column("uncovered_bytes", pa.int64(), "bytes of the rendered text that no token covers"),
    Column("windows", pa.list_(WINDOW), "the decision at every context window of the plan, in its order"),
    Column("steps", pa.int32(), "inputs on the way: before each answer and after it"),
    Column("steps_broken", pa.int32(), "of these, those that are no prefix of the next"),
    Column("broken_at", pa.int32(), "messages of the first such input"),
    Column("broken_line", pa.int32(), "template line that wrote the first byte that parts there"),
    Column("broken_path", pa.string(), "or the field that did"),
    Column("step_tokens", pa.int64(), "tokens of all inputs that have a next one, summed"),
    Column("reused_tokens", pa.int64(), "of these, those that the next one begins with: what a prefix cache keeps"),
    Column("steps_refused", pa.int32(), "inputs on the way that the template refuses"),
    *_error("", "the row"),
    # --- side B of a comparison; null without one
    Column("b_tokens", pa.int64(), "length on side B"),
    Column("b_trained", pa.int64(), "trained tokens on side B"),
    Column("b_template_sha256", pa.binary(32), "digest of side B's template"),
    Column("b_tokenizer_sha256", pa.binary(32), "digest of side B's tokenizer"),
    Column("b_rendered_sha256", pa.binary(32), "SHA-256 of side B's rendered bytes"),
    Column("b_ids_sha256", pa.binary(32), "SHA-256 of side B's ids"),
    *_error("b_", "side B"),
    Column("equal_bytes", pa.bool_(), "both sides render the same bytes"),
    Column("equal_ids", pa.bool_(), "both sides have the same ids of the same vocabulary"),
    Column("diff_byte", pa.int64(), "first byte that differs; null: the bytes are equal"),
    Column("diff_token_a", pa.int64(), "first token of A that differs; null: A has no more"),
    Column("diff_token_b", pa.int64(), "first token of B that differs; null: B has no more"),
    Column("diff_reason", pa.string(), "why: a code of reasons.py"),
    Column("delta_tokens", pa.int64(), "tokens of B less tokens of A"),
    Column("delta_trained", pa.int64(), "trained tokens of B less those of A"),
)  # fmt: skip

NAMES = tuple(column.name for column in COLUMNS)
SCHEMA = pa.schema([pa.field(column.name, column.type, metadata={"doc": column.doc}) for column in COLUMNS])


_EMPTY: dict[str, object] = {column.name: [] if pa.types.is_nested(column.type) else None for column in COLUMNS}


def empty_row() -> dict[str, object]:
    """Give a row with nothing in it: null, and the lists empty (shared: a value replaces one, nothing is put into it)."""
    return dict(_EMPTY)
