"""The rendered text, coloured by origin. It needs only the columns that payload.py packs for every view."""

from inspector.ui.views.base import View

VIEW = View("rendered")
