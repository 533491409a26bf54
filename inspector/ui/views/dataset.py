"""A scanned dataset as a whole. Its numbers come from `scan-summary/1`; it reads no pane."""

from __future__ import annotations

from inspector.ui.views.base import View

VIEW = View("dataset")
