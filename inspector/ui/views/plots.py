"""Plots of tokens by message, origin, length and script. All are computed in the browser from the columns of the panes."""

from __future__ import annotations

from inspector.ui.views.base import View

VIEW = View("plots")
