"""What libraries write into the log of this process: where they wrote, and not what, which may quote a visitor.

`install` puts one handler in the place of all that print to standard error by way of `logging`.
"""

from __future__ import annotations

import logging
import sys

_QUOTING = ("mcp", "gradio", "httpx", "asyncio", "starlette", "fastapi", "anyio", "sse_starlette")


class Places(logging.Handler):
    """Prints one line for a record: level, logger, the line of code and the type of the exception."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the place of a record."""
        kind = record.exc_info[0] if record.exc_info else None
        place = f"{record.filename}:{record.lineno} {record.funcName}"
        parts = (record.levelname, record.name, place, kind.__name__ if kind else "")
        line = " ".join(part for part in parts if part)
        print(
            "log " + line.encode("ascii", "backslashreplace").decode().replace("\n", " "), file=sys.stderr, flush=True
        )


def install() -> None:
    """Have warnings and worse told by their places only, of the root logger and of those that quote what came in."""
    handler = Places(logging.WARNING)
    root = logging.getLogger()
    for kept in list(root.handlers):
        if type(kept) is logging.StreamHandler or isinstance(kept, Places):
            root.removeHandler(kept)
    root.addHandler(handler)  # logging.warning() would install one that prints the message
    for name in _QUOTING:
        logger = logging.getLogger(name)
        logger.setLevel(max(logging.WARNING, logger.level))
        for kept in list(logger.handlers):
            logger.removeHandler(kept)
