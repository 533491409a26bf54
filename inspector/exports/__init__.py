"""What can be taken away: a report to read, code that makes the same input again, a test that pins it, tables.

Every export is a pure function of inspections and gives files; none writes to disk. One file a form, in EXPORTS.
"""

from __future__ import annotations

from inspector.exports import csv_table, parquet_table, pin, report, snippet
from inspector.exports.base import Export, refused

EXPORTS: tuple[Export, ...] = tuple(module.EXPORT for module in (report, snippet, pin, csv_table, parquet_table))


def find_export(name: str, num_sides: int = 1) -> Export:
    """Give the export of that name.

    Errors: OptionInvalid for a name that there is not, or for more sides than it shows.
    """
    found = next((export for export in EXPORTS if export.name == name), None)
    if found is None:
        names = ", ".join(export.name for export in EXPORTS)
        raise refused(f"there is no export {name[:40]!r}", f"choose one of {names}")
    if num_sides > found.most_sides:
        raise refused(f"{name} holds one side, not a comparison", "choose html, or leave the second side out")
    return found
