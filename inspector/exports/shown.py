"""Foreign text as it is shown in a report: nothing invisible, nothing that reorders its neighbours.

The same characters as the page shows by a sign (HIDDEN in ui/static/core.js; a test holds the two together). Markup is
made and escaped in markup.py.
"""

from __future__ import annotations

import re

HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\xb7\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff]"
)


def shown(text: str) -> str:
    """Give the text with a sign for every character that would not show.

    >>> shown("a\\nb\\u202ec\\x1b")
    'a⏎b‹202E›c‹001B›'
    """
    return HIDDEN.sub(lambda found: _sign(found[0]), text)


def _sign(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return "⏎" if char == "\n" else "⇥"
    return f"‹{code:04X}›"
