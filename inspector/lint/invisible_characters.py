"""Characters that nobody sees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import TEMPLATE_KINDS, Subject, points


def check(subject: Subject) -> Iterator[Finding]:
    if subject.rendered is None or subject.utf8.isascii():
        return
    if not any(begin[0] in subject.utf8 and begin in subject.utf8 for begin in _BEGINNINGS):
        return
    text = subject.rendered.text
    for match in itertools.islice(HIDDEN.finditer(text), 5):
        start = len(text[: match.start()].encode())
        end = start + len(match[0].encode())
        if subject.kind_at(start) not in TEMPLATE_KINDS:
            yield RULE.finding(
                f"{len(match[0])} invisible characters: {points(match[0])}",
                {"start": start, "end": end, "path": subject.field_at(start)},
            )


# Zero-width spaces and marks (not the joiners of emoji), direction marks and overrides, tags, the byte order mark.
HIDDEN = re.compile("[\u200b\u2060-\u2064\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]+")
# What each of them begins with in UTF-8: bytes are found far faster than a class of characters.
_BEGINNINGS = (b"\xe2\x80", b"\xe2\x81", b"\xef\xbb\xbf", b"\xf3\xa0")

RULE = Rule(
    id="invisible-characters",
    topic="unicode",
    severity=Severity.NOTE,
    title="content holds characters that nobody sees",
    why="they cost tokens, keep words from matching, and can carry instructions that a reader does not see",
    remedy="remove them, if they are not meant",
    check=check,
    live=True,
    needs=Need.WIDE,
)
