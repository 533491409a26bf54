"""What every export has in common: the files it gives, what it refuses, and texts without places of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.withheld import machine_places, public_reference, without_places

if TYPE_CHECKING:
    from inspector.job import Job
    from inspector.pipeline import Inspection


@dataclass(frozen=True, slots=True)
class File:
    """One file of an export. `name` is a bare file name."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Side:
    """One inspection with the job it came from."""

    job: Job
    inspection: Inspection

    def public(self) -> dict[str, Any]:
        """Give `inspection/1` in which no reference and no error names a place of this machine."""
        value, job = self.inspection.to_dict(), self.job
        places = machine_places(
            (file.path for file in job.tokenizer.files), (job.options.tokenizer, job.options.template)
        )
        for name in ("options", "tokenizer", "template"):
            if value[name] is not None:
                refs = {key: public_reference(value[name].get(key)) for key in _REFERENCES if key in value[name]}
                value[name] = without_places({**value[name], **refs}, places)
        return {**value, "error": without_places(value["error"], places)}

    def whole(self) -> Inspection:
        """Give the inspection.

        Errors: the one that stopped it.
        """
        return self.inspection.raise_for_error()


_REFERENCES = ("ref", "tokenizer", "template")


@dataclass(frozen=True, slots=True)
class Export:
    """One form of export: its name, what it gives, whether as a folder, and of how many sides at most."""

    name: str
    title: str
    make: Callable[[Sequence[Side]], tuple[File, ...]]
    folder: bool = False
    most_sides: int = 1


def refused(why: str, remedy: str) -> InspectorError:
    """Make the error of an inspection that this form of export cannot hold."""
    return InspectorError(ErrorKind.OptionInvalid, why, stage="options", where={"option": "format"}, remedy=remedy)
