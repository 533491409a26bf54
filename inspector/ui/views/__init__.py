"""The views of the page, in the order of their tabs. A new view: one file here, its name in VIEWS, one static/view_<id>.js.

A view is a pure function of an Inspection; it makes no HTML.
"""

from __future__ import annotations

from inspector.ui.views import (
    budget,
    control,
    dataset,
    diff,
    findings,
    logits,
    media,
    plots,
    record,
    rendered,
    stages,
    stream,
    template,
    tensors,
    tokenizers,
    tokens,
    training,
)
from inspector.ui.views import bytes as bytes_view
from inspector.ui.views.base import View

VIEWS: tuple[View, ...] = (
    tokens.VIEW,
    bytes_view.VIEW,
    rendered.VIEW,
    diff.VIEW,
    control.VIEW,
    budget.VIEW,
    media.VIEW,
    tensors.VIEW,
    training.VIEW,
    logits.VIEW,
    stages.VIEW,
    stream.VIEW,
    tokenizers.VIEW,
    template.VIEW,
    plots.VIEW,
    findings.VIEW,
    record.VIEW,
    dataset.VIEW,
)
