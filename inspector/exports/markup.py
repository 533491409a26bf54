"""The only maker of markup outside the page: elements whose texts and attribute values are escaped, always.

There is no way in for markup as text: what is no `Markup` is text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable


class Markup(str):
    """Markup that this module made."""

    __slots__ = ()


def tag(name: str, *children: str | Iterable[str], **attributes: str | None) -> Markup:
    """Make an element. A trailing underscore of an attribute's name is dropped (`class_`).

    >>> tag("b", "<i>", title='"')
    '<b title="&quot;">&lt;i&gt;</b>'
    """
    given = "".join(
        f' {key.rstrip("_")}="{html.escape(value, quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[str | Iterable[str]]) -> Markup:
    """Put children one after the other: markup as it is, text escaped."""
    return Markup("".join(_child(child) for child in children))


def _child(child: str | Iterable[str]) -> str:
    if isinstance(child, Markup):
        return child
    return html.escape(child, quote=True) if isinstance(child, str) else join(child)
