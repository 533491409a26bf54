"""llama.cpp's own chat templates, through its server's `/apply-template`. Needs the package `xllamacpp` and a GGUF model.

The server runs in a process of its own, one template at a time, on loopback behind a random key. Only a process that
called `use_model` starts it: a sandboxed child, which may neither start processes nor open connections, has no model
here and refuses. What is compared is the server, not its template engine alone: it reads messages into its own form,
so fields that it does not know are lost, and it continues a final assistant message.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import re
import secrets
import select
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import IO, Any

from inspector.engines.base import TemplateCall
from inspector.errors import ErrorKind, InspectorError
from inspector.processes import ENVIRONMENT_NAMES, ENVIRONMENT_SET, allowed_environment, boot_command
from inspector.provenance import plain

if importlib.util.find_spec("xllamacpp") is None:  # only the server's process loads it
    raise ModuleNotFoundError("No module named 'xllamacpp'", name="xllamacpp")

START_S = 60.0
REQUEST_S = 20.0
CPU_SECONDS = 120  # of one server; a template that loops for ever ends with it
_LOG_ERROR = re.compile(r"(?:chat_templates_init: error|chat template parsing error): (.*(?:\n(?!\d+\.\d+\.).*)*)")
_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class _Server:
    template: str
    model: str
    process: subprocess.Popen[str]
    log: IO[str]
    key: str
    address: str = ""


_lock = threading.Lock()
_model: str | None = None
_running: _Server | None = None


def use_model(path: str) -> None:
    """Let this process serve templates with that GGUF file. Any model will do: nothing is generated."""
    global _model
    _model = path


def stop() -> None:
    """End the server, if one runs."""
    global _running
    with _lock:
        server, _running = _running, None
        if server is not None:
            _end(server)


atexit.register(stop)


def limits(call: TemplateCall) -> tuple[str, ...]:
    """Give what the server cannot take of the call."""
    found = []
    if "strftime_now" in call.text:
        found.append("llama.cpp cannot take a clock: its strftime_now reads the time of the run")
    if call.documents:
        found.append("llama.cpp's server takes no documents but as a template argument; they are given as one")
    if call.messages and call.messages[-1].get("role") == "assistant":
        found.append("llama.cpp's server takes a final assistant message as the start of the answer")
    return tuple(found)


def render_text(call: TemplateCall) -> str:
    """Render with llama.cpp's server.

    Errors: OptionInvalid (no model here; continue_final_message), TemplateSyntax, TemplateRaised, TemplateRuntime,
    TimeLimit, WorkerCrashed.
    """
    if call.continue_final_message:
        raise _error(ErrorKind.OptionInvalid, "llama.cpp's server has no such option", "drop --continue-final-message")
    arguments = {**call.special_tokens, **plain(dict(call.kwargs))}
    if call.documents is not None:
        arguments["documents"] = plain(call.documents)
    body: dict[str, Any] = {
        "messages": [plain(dict(message)) for message in call.messages],
        "add_generation_prompt": call.add_generation_prompt,
        "chat_template_kwargs": arguments,
    }
    if call.tools is not None:
        body["tools"] = plain(call.tools)
    with _lock:
        return _ask(_serving(call.text), body)


# --- the server's process -------------------------------------------------------------------------------------------


def _serving(template: str) -> _Server:
    """Give the running server if it has this template, else start one in its place."""
    global _running
    if _model is None:
        raise _error(
            ErrorKind.OptionInvalid,
            "llama.cpp has no model here: it cannot be started inside the sandbox",
            "use engine_check in Python after llamacpp_engine.use_model(PATH), or choose the engine jinja2",
        )
    server = _running
    if server is not None:
        if (server.template, server.model) == (template, _model) and server.process.poll() is None:
            return server
        _running = None
        _end(server)
    _running = _start(template, _model)
    return _running


def _start(template: str, model: str) -> _Server:
    key = secrets.token_hex(16)
    config = {"model": model, "key": key, "cpu_seconds": CPU_SECONDS}
    log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  closed by _end
    process = subprocess.Popen(
        boot_command("inspector.engines.llamacpp_server", "main", config),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
        env=allowed_environment(ENVIRONMENT_NAMES, ("LC_",), ENVIRONMENT_SET),
    )
    starting = _Server(template, model, process, log, key)
    try:
        answer = _first_line(starting)
    except BaseException:
        _end(starting)
        raise
    return _Server(template, model, process, log, key, answer)


def _first_line(server: _Server) -> str:
    """Send the template and give the address. The server renders test chats with it before it serves."""
    process = server.process
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the server was started without pipes")
    try:
        process.stdin.write(json.dumps(server.template) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise _crashed(server) from None
    if not select.select([process.stdout], [], [], START_S)[0]:
        raise _error(ErrorKind.TimeLimit, f"the server was not ready in {START_S:.0f} s", "simplify the template")
    line = process.stdout.readline()
    if not line:
        raise _crashed(server)
    answer: dict[str, str] = json.loads(line)
    if "address" not in answer:
        raise _refused(server, answer["error"])
    return answer["address"]


def _end(server: _Server) -> None:
    server.process.kill()
    server.process.wait()
    for stream in (server.process.stdin, server.process.stdout, server.log):
        if stream is not None:
            stream.close()


# --- questions and answers ------------------------------------------------------------------------------------------


def _ask(server: _Server, body: dict[str, Any]) -> str:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {server.key}"}
    request = urllib.request.Request(f"{server.address}/apply-template", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback: never through a proxy
    try:
        with opener.open(request, timeout=REQUEST_S) as response:
            prompt: str = json.load(response)["prompt"]
            return prompt
    except urllib.error.HTTPError as error:
        raise _request_error(error) from None
    except TimeoutError:
        _end(server)
        raise _error(ErrorKind.TimeLimit, f"no answer in {REQUEST_S:.0f} s", "simplify the template") from None
    except OSError:
        raise _crashed(server) from None


def _request_error(error: urllib.error.HTTPError) -> InspectorError:
    try:
        message = json.loads(error.read())["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {error.code}"
    return _error(ErrorKind.TemplateRuntime, message, "change what the message names, or choose the engine jinja2")


def _refused(server: _Server, fallback: str) -> InspectorError:
    """Name why the server did not start: its log has the reason."""
    server.process.wait(REQUEST_S)
    server.log.seek(0)
    reasons = [match[1].strip() for match in _LOG_ERROR.finditer(server.log.read())]
    told = next((reason for reason in reasons if reason != "std::exception"), fallback)
    message = " ".join(line.strip() for line in told.splitlines() if line.strip(" -"))
    kind = ErrorKind.TemplateSyntax
    if "While executing" in message:  # it renders test chats to learn what the template can do
        kind = ErrorKind.TemplateRaised if "Jinja Exception: " in message else ErrorKind.TemplateRuntime
    return _error(kind, message, "llama.cpp cannot use this template as it stands: choose the engine jinja2")


def _crashed(server: _Server) -> InspectorError:
    code = server.process.wait(REQUEST_S)
    return _error(ErrorKind.WorkerCrashed, f"the server ended with {code}", "choose the engine jinja2")


def _error(kind: ErrorKind, message: str, remedy: str) -> InspectorError:
    stage = {ErrorKind.OptionInvalid: "options", ErrorKind.TemplateSyntax: "template"}.get(kind, "render")
    where: dict[str, Any] = {"option": "engine"} if kind is ErrorKind.OptionInvalid else {"engine": "llama.cpp"}
    place = _LINE.search(message)
    if place is not None:
        where["line"] = int(place[1])
    return InspectorError(kind, message, stage=stage, where=where, remedy=remedy)
