"""A cut inside a run of placeholders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inspector.breaks import Break
from inspector.control import is_placeholder
from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    media, budget = subject.inspection.media, subject.inspection.budget
    if media is not None and media.media.expanded and budget is not None:
        for entry in budget.broken:
            if entry.what is Break.PLACEHOLDERS:
                yield RULE.finding("the cut lies inside the positions of this image", {"path": entry.path})
        return
    whole, encoding = subject.uncut, subject.encoding
    if whole is None or encoding is None:
        return
    ids = {token.id: token.content for token in whole.tokenizer.added_tokens if is_placeholder(token.content)}
    for token_id, piece in ids.items():
        before, after = int((whole.input_ids == token_id).sum()), int((encoding.input_ids == token_id).sum())
        if 0 < after < before:
            index = int(np.flatnonzero(encoding.input_ids == token_id)[0])
            yield RULE.finding(f"the cut leaves {after} of {before} {piece}", subject.where_token(index))


RULE = Rule(
    id="media-cut",
    topic="multimodal",
    severity=Severity.ERROR,
    title="the cut lies inside a media item's run of placeholders",
    why="features and tokens no longer match: the request fails, or pictures are bound to the wrong place",
    remedy="cut whole messages (policy messages), or raise the context window",
    check=check,
)
