"""What the page's editors may ask: which known form a pasted text has. The text itself is read in a sandbox child."""

from __future__ import annotations

import json
from typing import Any

from inspector.errors import InspectorError
from inspector.ui.calls import call, malformed, session_of


def paste(request: Any) -> str:
    """Recognise `{session, text}`: `{"pasted": Pasted as JSON | null, "error": line | null}`."""
    from inspector.ui import payload

    try:
        session, text = session_of(request), request.get("text")
        if not isinstance(text, str):
            raise malformed()
        return call("paste", text, session)
    except InspectorError as error:
        return json.dumps({"pasted": None, "error": payload.error_text(error)})


FUNCTIONS = (paste,)
