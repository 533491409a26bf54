"""A tokenizer that is not like the one it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule, shown
from inspector.lint.subject import Subject
from inspector.tokenizers.base import AddedToken


def check(subject: Subject) -> Iterator[Finding]:
    base, ours = subject.evidence.base, subject.tokenizer
    theirs = base.tokenizer if base is not None else None
    if ours is None or theirs is None or ours.digest == theirs.digest:
        return
    for name in dict.fromkeys([*theirs.special_tokens, *ours.special_tokens]):
        before, after = theirs.special_tokens.get(name), ours.special_tokens.get(name)
        if before != after:
            yield RULE.finding(f"{name} is {after!r}, in {theirs.id} it is {before!r}")
    listed = {token.id: token for token in theirs.added_tokens}
    changed = [token for token in ours.added_tokens if listed.get(token.id) != token]
    gone = sorted(set(listed) - {token.id for token in ours.added_tokens})
    if changed:
        first = changed[0]
        yield RULE.finding(
            f"{len(changed)} added token{'s differ' if len(changed) > 1 else ' differs'}; "
            f"{first.id}: {_spelled(first)} here, {_spelled(listed.get(first.id))} in {theirs.id}"
        )
    if gone:
        yield RULE.finding(
            f"{len(gone)} added token{'s' * (len(gone) > 1)} of {theirs.id} {'are' if len(gone) > 1 else 'is'} missing; {gone[0]}: {listed[gone[0]].content!r}"
        )
    for name in dict.fromkeys([*theirs.chat_templates, *ours.chat_templates]):
        if ours.chat_templates.get(name) != theirs.chat_templates.get(name):
            yield RULE.finding(f"the chat template {name!r} differs from that of {theirs.id}")
    for name, before, after in _rules(theirs, ours):
        yield RULE.finding(f"{name} is {shown(str(after))}, in {theirs.id} {shown(str(before))}")


def _spelled(token: AddedToken | None) -> str:
    """Spell an added token with the flags that are on.

    >>> _spelled(AddedToken(5, "<tide>", True, lstrip=True)), _spelled(None)
    ("'<tide>' (special, lstrip)", 'nothing')
    """
    if token is None:
        return "nothing"
    on = [name for name in ("special", "lstrip", "rstrip", "normalized", "single_word") if getattr(token, name)]
    return f"{token.content!r} ({', '.join(on) or 'no flag'})"


def _rules(base: Any, ours: Any) -> list[tuple[str, Any, Any]]:
    from inspector.vocabularies import rules_of

    a, b = rules_of(base), rules_of(ours)
    return [(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name)]


RULE = Rule(
    id="tokenizer-differs-from-base",
    topic="template-identity",
    severity=Severity.WARNING,
    title="the tokenizer differs from the one it should be equal to",
    why="saving, converting and fine-tuning lose flags, patterns and templates without a word",
    remedy="copy tokenizer files unchanged; compare what is listed",
    check=check,
)
