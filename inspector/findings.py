"""A remark on an inspection, as `inspection/1` and `lint/1` list it. What finds it is in lint/."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Severity(enum.StrEnum):
    """How much harm it does; `--fail-on` compares by it."""

    ERROR = "error"  # the model receives something else than was meant, or nothing
    WARNING = "warning"  # it will in a case that is common, or another program does otherwise
    NOTE = "note"  # worth knowing when numbers or programs are compared

    @property
    def rank(self) -> int:
        """0 for the most harm."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark on an inspection: rule, severity ("error", "warning", "note"), place and remedy.

    `where` holds what applies of path, line (of the template), start and end (bytes of the prompt), token (index).
    `silenced` is the reason that was given for not acting on it.
    """

    rule: str
    severity: str
    message: str
    where: dict[str, Any] = field(default_factory=dict)
    remedy: str = ""
    silenced: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "message": self.message,
            "where": self.where,
            "remedy": self.remedy,
            "silenced": self.silenced,
        }


def spell(where: dict[str, Any]) -> str:
    """Spell a finding's place for people.

    >>> spell({"path": "messages[0].content", "token": 3, "start": 10, "end": 12})
    'messages[0].content, token 3, bytes 10-12'
    """
    parts = [str(where["path"])] if where.get("path") else []
    parts += [f"template line {where['line']}"] if where.get("line") else []
    parts += [f"token {where['token']}"] if "token" in where else []
    parts += [f"bytes {where['start']}-{where['end']}"] if "start" in where and "end" in where else []
    return ", ".join(parts)
