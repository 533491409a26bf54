"""Template engines by name. `jinja2` is the reference: its text is what the libraries send.

The others are for comparison: each gives the text that it would render, nothing more; provenance comes from the traced
run of the reference. An engine's module, and what it needs, is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from inspector.errors import ErrorKind, InspectorError

if TYPE_CHECKING:
    from inspector.engines.base import Engine

ENGINES = {
    "jinja2": "inspector.engines.jinja2_engine",
    "minijinja": "inspector.engines.minijinja_engine",
    "llama.cpp": "inspector.engines.llamacpp_engine",
}
"""Name -> module that gives `render_text` and `limits` (see base.Engine)."""

PACKAGES = {"minijinja": "minijinja", "llama.cpp": "xllamacpp"}
"""Name -> the package that an optional engine needs, as pip and as `import` spell it."""


def load_engine(name: str) -> Engine:
    """Give the engine of that name.

    Errors: OptionInvalid for an unknown name, or where the engine's package is not installed.
    """
    if name not in ENGINES:
        raise _refused(f"there is no template engine {name!r}", f"one of {', '.join(ENGINES)}")
    try:
        return cast("Engine", importlib.import_module(ENGINES[name]))
    except ModuleNotFoundError as error:
        if error.name != PACKAGES.get(name):
            raise
        message = f"the template engine {name} needs the package {error.name}, which is not installed"
        raise _refused(message, f"pip install {error.name}, or choose the engine jinja2") from None


def _refused(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": "engine"}, remedy=remedy)
