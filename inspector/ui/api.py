"""The named endpoints for programs and assistants: HTTP, gradio_client, and MCP tools. One table says all there is.

An answer is JSON *text*, the same as `python -m inspector ... --json` prints; an error is in its `error`, never an
exception. Text and no object, because Gradio looks through objects for files to serve, and would find those that a
visitor's request names; and because numbers must stay as they were spelled.

Nothing is decided here but what a parameter may be and how long an answer: artifacts and sandbox are service.py's.
"""

from __future__ import annotations

import inspect as python_inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from inspector import service
from inspector.errors import ErrorKind, InspectorError
from inspector.job import (
    DEFAULT_MODEL,
    DEFAULT_TOKENIZER,
    Options,
    check_request,
    make_options,
    request_bytes,
    side_options,
)
from inspector.jsontext import loads
from inspector.request import dump_request
from inspector.sandbox import CallCancelled
from inspector.ui import calls, gate

MOST_TOP = 100  # rows of next tokens
LISTING = "/gradio_api/info"  # where Gradio lists the endpoints with their parameters


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of endpoints: its type as programs see it, its default, and what it means."""

    name: str
    type: Any
    default: Any
    text: str
    required: bool = False  # a call without it is answered too: by an error that says so

    def check(self, value: Any) -> Any:
        """Give the value.

        Errors: OptionInvalid for another type.
        """
        kinds = typing.get_args(self.type) or (self.type,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise _wrong(
                self.name, f"{self.name} is {type(value).__name__}, not {names}", f"give {self.name} as {names}"
            )
        return value


_REQUEST = Parameter(
    "request", str | list | dict, "",
    "An array of chat messages, or an object with messages, tools, documents and chat_template_kwargs; as JSON, or as JSON "
    "text where the spelling of numbers and the order of keys must be kept.",
    required=True,
)  # fmt: skip
_TOKENIZER = Parameter(
    "tokenizer",
    str,
    DEFAULT_TOKENIZER,
    "A preset id such as smollm2 or qwen3, or a source such as hf:ORG/NAME@REVISION.",
)
_TEMPLATE = Parameter("template", str, "", "A template's preset id, id@revision or source; empty: the tokenizer's own.")
_TEXT = Parameter("template_text", str, "", "The Jinja source of a chat template, used instead of `template`.")
_MODEL = Parameter("model", str, DEFAULT_MODEL, "The model that is asked; it must read the ids of the tokenizer.")
_SHARED = (
    Parameter("name", str, "", "Which of several named templates of the tokenizer."),
    Parameter("arguments", str | dict, "", 'Template arguments as a JSON object, such as {"enable_thinking": false}.'),
    Parameter("add_generation_prompt", bool, True, "Whether the template opens the assistant's next turn."),
    Parameter("continue_final_message", bool, False, "Continue the last message instead of opening a new turn."),
    Parameter("clock", str, "", "The time that templates see, ISO 8601; empty: now."),
    Parameter("profile", str, "transformers", "What is done to the request before: transformers, vllm or openai."),
    Parameter("engine", str, "jinja2", "The template engine: jinja2 or minijinja."),
    Parameter("context_window", int, 0, "Fit the input into so many tokens; 0: no limit."),
    Parameter("max_new_tokens", int, 0, "Tokens of the window that are kept for the answer."),
    Parameter(
        "policy", str, "messages",
        "What gives way: messages, keep_first, drop_middle, tokens_left, tokens_right, tokens_middle or reject.",
    ),
    Parameter("first_turns", int, 1, "Turns at the start that keep_first keeps."),
    Parameter("whole_turns", bool, False, "Drop a question together with its answers."),
    Parameter("media", str, "auto", "How an image counts: written, expanded, or auto (expanded in a context window)."),
    Parameter("media_rule", str, "", "The image rule of a preset, such as qwen3-vl; empty: the template's."),
    Parameter("image_tokens", int, 0, "Tokens of one image, typed: an estimate; 0: as the rule says."),
)  # fmt: skip
_BRIEF = Parameter(
    "brief", bool, False, "Leave out the request and every list with an entry a token. Short enough to read."
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint and MCP tool: `work` takes the checked values and gives the JSON text of `schema`."""

    name: str
    schema: str
    text: str
    parameters: tuple[Parameter, ...]
    work: Callable[[dict[str, Any]], str]

    def answer(self, *values: Any) -> str:
        """Give the answer as JSON text; every error is in it."""
        try:
            return self.work(self._checked(values))
        except InspectorError as error:
            return _text(service.failed_answer(self.schema, error))

    def served(self, asker: Any, *values: Any) -> str:
        """Give the answer to a call that came over HTTP, when it has its place; that there was none is an error in it."""
        try:
            with gate.served(asker, self.name, calls.admission()) as told:
                answer = self.answer(*values)
                told(len(answer))
                return answer
        except CallCancelled:
            return _text(service.failed_answer(self.schema, _given_up()))
        except InspectorError as error:
            return _text(service.failed_answer(self.schema, error))
        except Exception as fault:
            gate.log_fault(fault)
            return _text(service.failed_answer(self.schema, gate.fault_error()))

    def _checked(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Errors: OptionInvalid for a parameter that is missing, of another type, or one too many."""
        if len(values) > len(self.parameters):
            raise _wrong("data", f"{len(values)} values for {len(self.parameters)} parameters", f"see {LISTING}")
        given = {each.name: each.default for each in self.parameters}
        given |= dict(zip(given, values))
        for each in self.parameters:
            if each.required and (given[each.name] is None or given[each.name] == ""):
                raise _wrong(each.name, f"{each.name} is missing", f"give {each.name}: {each.text}")
        return {each.name: each.check(given[each.name]) for each in self.parameters}

    def function(self) -> Callable[..., str]:
        """Give the function that Gradio reads names, types, defaults and descriptions from."""

        def call(asker: Any, *values: Any) -> str:
            return self.served(asker, *values)

        kind = python_inspect.Parameter.POSITIONAL_OR_KEYWORD
        call.__name__ = call.__qualname__ = self.name
        given = {each.name: each.type for each in self.parameters}
        call.__annotations__ = (
            {_ASKER: gr.Request} | given | {"return": str}
        )  # Gradio gives the request, and lists no such parameter
        call.__signature__ = python_inspect.Signature(  # type: ignore[attr-defined]
            [python_inspect.Parameter(_ASKER, kind, annotation=gr.Request)]
            + [python_inspect.Parameter(p.name, kind, default=p.default, annotation=p.type) for p in self.parameters],
            return_annotation=str,
        )
        listed = "\n".join(f"    {each.name}: {each.text}" for each in self.parameters)
        call.__doc__ = f"{self.text}\n\nParameters:\n{listed}\nReturns:\n    JSON text of schema {self.schema}.\n"
        return call


_ASKER = "asker"


def _given_up() -> InspectorError:
    return InspectorError(ErrorKind.Busy, "the call was given up: its client left", stage="sandbox", remedy="ask again")


def _inspect(given: dict[str, Any]) -> str:
    return _written(given).inspect(_request(given), _options(given))


def _compare(given: dict[str, Any]) -> str:
    shared = {**given, "clock": given["clock"] or _now()}
    a, b = (_options({**shared, "template": "", **side_options(given[side])}) for side in "ab")
    return _written(given).compare(_request(given), a, b)


def _lint(given: dict[str, Any]) -> str:
    from inspector.lint import RULES
    from inspector.lint.report import check_ignored

    ignore = check_ignored(_object(given, "ignore"), (rule.id for rule in RULES))
    return _written(given).lint(_request(given), _options(given), base=given["base"] or None, ignore=ignore)


def _budget(given: dict[str, Any]) -> str:
    return _written(given).budget(_request(given), _options(given))


def _next_token(given: dict[str, Any]) -> str:
    top_k = given["top_k"]
    if not 1 <= top_k <= MOST_TOP:
        raise _wrong("top_k", f"{top_k} next tokens are asked for", f"ask for 1 to {MOST_TOP}")
    side = service.next_tokens(_request(given), [_options(given)], model=given["model"], top_k=top_k, **_access())[
        "sides"
    ][0]
    return _written(given).of({"schema": "next_token/1", **side})


ENDPOINTS = (
    Endpoint(
        "inspect", "inspection/1",
        "Show exactly what a chat template and a tokenizer send to a language model: the rendered prompt, its tokens with ids "
        "and bytes, which message field or template line wrote each of them, control tokens forged by content, and findings. "
        "Use it to see a prompt, count its tokens or find out why a model is given something else than was meant. "
        "With brief=true the answer holds counts, findings and the beginning of the text without a list of all tokens.",
        (_REQUEST, _TOKENIZER, _TEMPLATE, _TEXT, *_SHARED, _BRIEF), _inspect,
    ),
    Endpoint(
        "compare", "comparison/1",
        "Render and tokenize one request in two ways and say where the results part, and why: another tokenizer, another "
        "template, another revision of it. Sides a and b are TOKENIZER or TOKENIZER,TEMPLATE, such as smollm2,qwq-32b@16488a.",
        (
            _REQUEST,
            Parameter("a", str, "", "Side A: TOKENIZER or TOKENIZER,TEMPLATE.", True),
            Parameter("b", str, "", "Side B: TOKENIZER or TOKENIZER,TEMPLATE.", True),
            *_SHARED, _BRIEF,
        ), _compare,
    ),
    Endpoint(
        "lint", "lint/1",
        "Check a chat request, its chat template and its tokenizer for known mistakes: doubled BOS, dropped messages or tools, "
        "forged control tokens, a missing generation prompt, and more. Each finding has a rule, a severity, a place and a "
        "remedy; the template's capabilities (system, tools, reasoning, ...) are listed too.",
        (
            _REQUEST, _TOKENIZER, _TEMPLATE, _TEXT,
            Parameter("base", str, "", "A tokenizer that this one should be equal to; empty: none."),
            Parameter("ignore", str | dict, "", 'Rules to silence with a reason, as a JSON object {"RULE": "reason"}.'),
            *_SHARED,
        ), _lint,
    ),
    Endpoint(
        "budget", "budget/1",
        "Fit a chat request into a context window: which messages, tools and documents are kept, cut or dropped, why, how many "
        "tokens each takes, and what that broke. With context_window 0 the model's own window is taken, where it is known.",
        (_REQUEST, _TOKENIZER, _TEMPLATE, _TEXT, *_SHARED), _budget,
    ),
    Endpoint(
        "next_token", "next_token/1",
        "Ask a real, small language model for its most likely next tokens after the rendered request, with logits and "
        "probabilities. Slower than the others: a model runs.",
        (
            _REQUEST, _TOKENIZER, _TEMPLATE, _TEXT, _MODEL,
            Parameter("top_k", int, 10, f"How many tokens to list, at most {MOST_TOP}."),
            *_SHARED,
        ), _next_token,
    ),
)  # fmt: skip


def _written(given: dict[str, Any]) -> service.Written:
    return service.Written(**_access(), brief=given.get("brief", False), has_brief="brief" in given)


def _access() -> dict[str, Any]:
    """Strangers get a child of their own for every call, and no file of this machine."""
    own = calls.own_machine()
    return {"session": service.OWN if own else None, "local_files": own}


def _request(given: dict[str, Any]) -> bytes:
    data = request_bytes(given["request"])
    check_request(data)
    return data


_OR_NONE = ("template", "template_text", "name", "clock", "context_window", "media_rule", "image_tokens")


def _options(given: dict[str, Any]) -> Options:
    """Errors: OptionInvalid."""
    for name in ("context_window", "max_new_tokens", "image_tokens"):
        if given[name] < 0:
            raise _wrong(name, f"{name} is {given[name]}", "give 0 or more")
    same = (
        "tokenizer",
        "add_generation_prompt",
        "continue_final_message",
        "profile",
        "engine",
        "max_new_tokens",
        "policy",
        "first_turns",
        "whole_turns",
        "media",
    )
    return make_options(
        **{name: given[name] for name in same},
        **{name: given.get(name) or None for name in _OR_NONE},
        arguments=_object(given, "arguments"),
    )


def _object(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Read a JSON object that may have come as text.

    Errors: OptionInvalid, InputInvalid.
    """
    value = given[name]
    if isinstance(value, str):
        value = loads(value, root=name, stage="options") if value.strip() else {}
    if not isinstance(value, dict):
        raise _wrong(name, f"{name} is no JSON object", 'write {"name": value, ...}')
    return value


def _now() -> str:
    from datetime import datetime

    return datetime.now().astimezone().isoformat()


def _wrong(option: str, message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"option": option}, remedy=remedy)


def _text(value: Any) -> str:
    return calls.escaped(dump_request(value))


_CALLS = re.compile(r"/(call|run|api)/")


async def wrong_call(request: Any, error: Exception) -> Any:
    """Answer a call that names no endpoint or no parameter of one: Gradio itself would say 500 and nothing else."""
    if not _CALLS.search(request.url.path):
        raise error
    why = " ".join(str(error).split())[:300]
    return _told(_wrong(request.url.path.rpartition("/")[2], f"there is no such call: {why}", f"see {LISTING}"))


async def wrong_fields(_request: Any, _error: Exception) -> Any:
    """Answer a call with fields that Gradio cannot read; its own list of what is wrong repeats what came."""
    return _told(_wrong("body", "the call has a field of another type", f"see {LISTING}"))


def _told(told: InspectorError) -> Any:
    body = _text({"error": told.to_dict()}).encode()

    async def response(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return response


CALL_ERRORS = (TypeError, ValueError, KeyError, AttributeError)  # what Gradio raises for them
