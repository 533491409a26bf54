"""The capability card of a template: what it can do, each answer with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspector.lint.subject import Subject


@dataclass(frozen=True, slots=True)
class Card:
    def to_dict(self) -> dict[str, Any]:
        return {}


def capabilities(subject: Subject) -> Card:
    return Card()
