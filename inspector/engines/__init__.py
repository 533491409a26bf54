"""Template engines by name. `jinja2` is the reference: its text is what the libraries send.

Other engines are for comparison: each gives the text that it would render, nothing more; provenance comes from
the traced run of the reference.
"""

from __future__ import annotations

from collections.abc import Callable

from inspector.engines import jinja2_engine
from inspector.engines.jinja2_engine import TemplateCall

ENGINES: dict[str, Callable[[TemplateCall], str]] = {"jinja2": jinja2_engine.reference}
