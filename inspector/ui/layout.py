"""The page: one component, its start value, and the settings Gradio is launched with. No event handler lives here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.route_utils import FnIndexInferError

from inspector import presets
from inspector.backends.endpoint import listed_roots
from inspector.job import DEFAULT_MODEL, FIRST_PANES
from inspector.sources.visitors import EXPIRE_S
from inspector.ui import (
    api,
    calls,
    connections,
    datasets,
    diff,
    exports,
    findings,
    keeping,
    model,
    records,
    scanning,
    serve,
    shares,
    templates,
    tools,
    training,
)
from inspector.ui.examples import EXAMPLES
from inspector.ui.framing import Framing
from inspector.ui.gate import Gate, log_fault
from inspector.ui.html import Bench
from inspector.ui.strings import STRINGS
from inspector.ui.views import VIEWS

PROFILES = ("transformers", "vllm", "openai")
PAGE_ENGINES = (
    "jinja2",
    "minijinja",
)  # the default first; llama.cpp's runs in a server of its own, which a page does not start
POLICIES = ("messages", "keep_first", "drop_middle", "tokens_left", "tokens_right", "tokens_middle", "reject")
THREADS = 512  # of Gradio, for the named endpoints: a call holds one while it waits for its place (admission.py)

FIRST_MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is 17 × 23? 🧮"},
    {"role": "assistant", "content": "<think>\n17 × 23 = 17 × 20 + 17 × 3 = 340 + 51\n</think>\n\n17 × 23 = 391."},
    {"role": "user", "content": "再加 9 呢?"},
]
PAGE_CSS = """
body, gradio-app { margin: 0; padding: 0; }
.gradio-container { max-width: none !important; padding: 0 !important; }
.gradio-container > .main, .gradio-container main { padding: 0 !important; max-width: none !important; gap: 0 !important; }
#bench { border: 0; border-radius: 0; }
#bench .html-container { padding: 0; }
"""


class Page(gr.Blocks):
    """Blocks whose events are the named endpoints only: values go to the function and back untouched, over connections that
    are bounded.

    Gradio would look through them for objects that name a file or an address, fetch those, and keep the last values of
    every session in memory. Both methods are Gradio's own names, of the version that requirements.txt pins.
    """

    def launch(self, *arguments: Any, **named: Any) -> Any:
        """Serve the page. Gradio starts uvicorn without a word of how many connections there may be, or how long."""
        connections.bound()
        return super().launch(*arguments, **named)

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        """Give the inputs as they came."""
        return list(inputs)

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """Give the one answer of an endpoint as it is."""
        return [predictions]

    async def process_api(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Run an endpoint. What Gradio finds wrong with a call it would print, with the values that came."""
        try:
            return await super().process_api(*arguments, **named)
        except Exception as fault:
            log_fault(fault)
            raise gr.Error(f"the call is malformed: see {api.LISTING}", print_exception=False) from None


def build() -> gr.Blocks:
    """Build the page. It computes nothing: the script asks for the first answer when it has loaded."""
    with Page(title="Template and Token Inspector", fill_width=True, analytics_enabled=False) as page:
        Bench(value=start_value())
        for endpoint in api.ENDPOINTS:
            # Not Gradio's queue: it has one bound for all clients. admission.py says who runs and who waits.
            gr.api(endpoint.function(), api_name=endpoint.name, queue=False, concurrency_limit=None)
    page.queue(default_concurrency_limit=None, api_open=True, max_size=None)
    return page


def functions() -> dict[str, Callable[[Any], str]]:
    """Give what the page's script may call, by name."""
    parts = (
        serve,
        diff,
        tools,
        templates,
        findings,
        training,
        records,
        exports,
        shares,
        model,
        datasets,
        scanning,
        calls,
    )
    return {function.__name__: function for part in parts for function in part.FUNCTIONS}


def launch_settings() -> dict[str, Any]:
    """Give the keyword arguments of `launch`: nothing stored in the browser, nothing fetched from outside."""
    return {
        "ssr_mode": False,
        "run_history": False,
        "pwa": False,
        "share": False,
        "footer_links": [],
        "css": PAGE_CSS,
        "show_error": False,
        "max_threads": THREADS,
        "mcp_server": True,
        "app_kwargs": {
            "lifespan": keeping.nothing,
            "middleware": [
                (Framing, (), {}),
                (Gate, (), {"functions": functions(), "admission": calls.admission()}),
            ],
            "exception_handlers": dict.fromkeys((*api.CALL_ERRORS, FnIndexInferError), api.wrong_call)
            | {gr.routes.fastapi.exceptions.RequestValidationError: api.wrong_fields},
        },
    }


def start_value() -> str:
    """Give the component's value: strings, catalogue, choices and the first conversation, as one JSON string."""
    fields: dict[str, str | bool] = {
        "messages": json.dumps(FIRST_MESSAGES, ensure_ascii=False, indent=2),
        "tools": "",
        "documents": "",
        "arguments": "",
        "model": DEFAULT_MODEL,
        "backend": "",
        "backend_model": "",
        "openai_model": "",
        "whole_turns": False,
        "first_turns": "",
        "document_order": "",
        "media": "auto",
        "image_tokens": "",
        "training": "",
    }
    value = {
        "strings": STRINGS,
        "views": [{"id": view.id} for view in VIEWS],
        "profile": PROFILES,
        "policy": POLICIES,
        "engines": PAGE_ENGINES,
        "models": [preset.id for preset in presets.tokenizers().values() if preset.model is not None],
        "servers": {"listed": listed_roots(), "typed": calls.own_machine()},
        "presets": choices(),
        "shares": shares.terms(),
        "uploads": {"minutes": None if calls.own_machine() else int(EXPIRE_S // 60)},
        "functions": sorted(functions()),
        "most_bytes": calls.admission().bounds.body_bytes,
        "examples": [example.to_dict() for example in EXAMPLES],
        "defaults": {"fields": fields, "panes": FIRST_PANES},
    }
    return json.dumps(value, ensure_ascii=False)


def choices() -> dict[str, list[dict[str, str]]]:
    """List the catalogue for the two dropdowns; a template with several revisions once for each."""
    tokenizers = [{"id": preset.id, "title": preset.id} for preset in presets.tokenizers().values()]
    templates = [
        {"ref": ref, "title": ref}
        for preset in presets.templates().values()
        for ref in _refs(preset.id, [entry.revision for entry in preset.revisions])
    ]
    return {"tokenizers": tokenizers, "templates": templates}


def _refs(preset: str, revisions: list[str]) -> list[str]:
    return [f"{preset}@{revision}" for revision in revisions] if len(revisions) > 1 else [preset]
