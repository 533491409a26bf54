"""The hex dump of the rendered text. It needs only the columns that payload.py packs for every view."""

from inspector.ui.views.base import View

VIEW = View("bytes")
