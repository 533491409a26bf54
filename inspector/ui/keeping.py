"""What Gradio would keep of every call: here it keeps nothing.

For each session hash, and a program's call has one of its own, Gradio writes down the settings of all components anew and
keeps the last 10,000 of them: 90 KiB and 45 ms of the event loop a call, 900 MB in the end. Of the last 10,000 calls it
keeps a row each, and works out a table of them all at the end of every call. No component of the page has
a state, and the table's address is closed (gate.py).

The names are those of the version that requirements.txt pins.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import gradio as gr
from gradio.routes import App
from gradio.state_holder import SessionState, StateHolder


class OneState(StateHolder):
    """Gives all sessions the same state, which nobody writes to: layout.Page passes values by it."""

    def set_blocks(self, blocks: gr.Blocks) -> None:
        """Make the one state."""
        super().set_blocks(blocks)
        self._only = SessionState(blocks)

    def __getitem__(self, session_id: str) -> SessionState:
        """Give it, whoever asks."""
        return self._only


@contextlib.asynccontextmanager
async def nothing(app: App) -> AsyncIterator[None]:
    """Have a server keep nothing, from its start on; a `lifespan` of Gradio's app."""
    blocks = app.get_blocks()
    app.state_holder = OneState()
    app.state_holder.set_blocks(blocks)
    blocks._queue.ANALYTICS_MAX_EVENTS = 0
    yield
