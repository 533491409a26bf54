"""What the model says next. It is asked for when the tab is opened (ui/model.py): nothing of it comes with a pane."""

from __future__ import annotations

from inspector.ui.views.base import View

VIEW = View("logits")
