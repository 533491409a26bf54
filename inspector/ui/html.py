"""The one component of the page, and the only module that hands markup, style and script to Gradio.

The markup is static and holds no data: the component's value is one JSON string, and the script puts every text into
the page as a text node. Nothing is interpolated into a template, because Gradio evaluates `${…}` in templates.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import gradio as gr

from inspector.ui.views import VIEWS

STATIC = Path(__file__).with_name("static")
CORE_SCRIPTS = (
    "core",
    "pane",
    "align",
    "scan",
    "links",
    "history",
    "form",
    "formcard",
    "editor",
    "grid",
    "flow",
    "folding",
    "roving",
    "combobox",
    "views",
    "plots",
    "server",
    "ask",
    "options",
    "budget_bar",
    "surprise",
    "logits_server",
    "logits_parts",
    "batch_grid",
    "training_labels",
    "training_prefix",
    "training_vocabulary",
)
LAST_SCRIPTS = (
    "revisions",
    "template_editor",
    "arguments",
    "heads",
    "uploads",
    "asking",
    "answers",
    "panes",
    "drawing",
    "toolbar",
    "selection",
    "jumps",
    "keys",
    "mouse",
    "card",
    "writing",
    "permalink",
    "sharing",
    "status",
    "gallery",
    "records",
    "datasets",
    "printing",
    "exports",
    "bench",
)
STYLES = (
    "bench.css",
    "diff.css",
    "form.css",
    "gallery.css",
    "plots.css",
    "tools.css",
    "printing.css",
    "template.css",
    "findings.css",
    "compact.css",
    "training.css",
    "logits.css",
    "datasets.css",
)  # bench.css first; one more file for each group of views that needs its own
TEMPLATE_SYNTAX = ("${", "{{", "`", "\\")  # Gradio reads markup and style as JavaScript and Handlebars templates


class Bench(gr.HTML):
    """Both panes with their inputs.

    `value` is the JSON string that `layout.start_value` makes. What the script calls goes to gate.py, not to Gradio.
    """

    def __init__(self, value: str) -> None:
        super().__init__(
            value=value,
            html_template=static_text("bench.html"),
            css_template="\n".join(static_text(name) for name in STYLES),
            js_on_load=script(),
            apply_default_css=False,
            padding=False,
            elem_id="bench",
        )

    def __getattr__(self, name: str) -> Any:
        """Say that there is no such attribute. Gradio's own looks through the whole script for an event of that name: 3 ms,
        fourteen times whenever the settings of the page are written down."""
        raise AttributeError(name)


# Gradio writes a stub of every component class beside its module; a stale one would hide this file from type checkers.
with contextlib.suppress(OSError):
    Path(__file__).with_suffix(".pyi").unlink()


def static_text(name: str) -> str:
    """Read markup or style.

    Errors: ValueError if it holds anything that Gradio would evaluate.
    """
    text = (STATIC / name).read_text("utf-8")
    found = [mark for mark in TEMPLATE_SYNTAX if mark in text]
    if found:
        raise ValueError(f"{name} holds {found}, which Gradio evaluates")
    return text


def script() -> str:
    """Join the scripts: helpers, one file a view, then the controller that uses them."""
    names = (*CORE_SCRIPTS, *(f"view_{view.id}" for view in VIEWS), *LAST_SCRIPTS)
    return "\n".join((STATIC / f"{name}.js").read_text("utf-8") for name in names)
