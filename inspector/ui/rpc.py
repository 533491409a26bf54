"""The shape of what an MCP client sends: checked before the library sees it, and written anew with what was checked.

The library logs what it cannot validate, and it answers methods that this page has no use for. What goes on is a request of
a method of `METHODS`, with the parameters that this server reads and no other. Nothing is run here.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from inspector.errors import ErrorKind, InspectorError

LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")  # all but the first are empty
METHODS = ("initialize", "ping", "tools/call", *LISTS)
PARSE, INVALID, NO_METHOD, PARAMETERS = -32700, -32600, -32601, -32602
_MOST_ID = 128  # characters of an id
_MOST_VERSION = 32  # of a version of the protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered without the library: the HTTP status and the body, empty for what wants no answer."""

    status: int
    body: bytes = b""


def checked(record: Any, tools: Collection[str]) -> bytes | Answer:
    """Give the request to pass on, or what is answered instead. `tools`: the names that may be called."""
    if not isinstance(record, dict) or record.get("jsonrpc") != "2.0":
        return refused(None, INVALID, "the body is no JSON-RPC 2.0 message", "send one object with jsonrpc 2.0")
    method, number = record.get("method"), record.get("id")
    if "id" not in record or (method is None and ("result" in record or "error" in record)):
        return Answer(202)  # a notification, or an answer: each request is served by itself, so neither says anything
    if not _is_id(number):
        return refused(None, INVALID, "the id is neither a whole number nor a short text", "number the requests")
    if not isinstance(method, str) or method not in METHODS:
        return refused(number, NO_METHOD, "method not found", f"this server has {', '.join(METHODS)}")
    params = record.get("params", {})
    if not isinstance(params, dict):
        return refused(number, PARAMETERS, "params is no object", 'write "params": {...}')
    if method == "tools/call":
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or name not in tools:
            return refused(number, PARAMETERS, "there is no such tool", f"the tools are {', '.join(sorted(tools))}")
        if not isinstance(arguments, dict | None):
            return refused(number, PARAMETERS, "arguments is no object", "see the tool's inputSchema in tools/list")
        return _request(number, method, {"name": name, "arguments": arguments or {}})
    if method == "initialize":
        version = params.get("protocolVersion")
        if not isinstance(version, str) or len(version) > _MOST_VERSION or not version.isascii():
            return refused(number, PARAMETERS, "protocolVersion is no version", "name the protocol's date")
        return _request(number, method, _INTRODUCED | {"protocolVersion": version})
    return _request(number, method, None)


_INTRODUCED: dict[str, Any] = {"capabilities": {}, "clientInfo": {"name": "client", "version": "0"}}  # it asks neither


def _is_id(number: Any) -> TypeGuard[str | int]:
    if isinstance(number, str):
        return len(number) <= _MOST_ID and number.isprintable()
    return isinstance(number, int) and not isinstance(number, bool) and abs(number) < 1 << 53


def _request(number: str | int, method: str, params: dict[str, Any] | None) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(message if params is None else message | {"params": params}).encode()


def refused(number: str | int | None, code: int, message: str, remedy: str) -> Answer:
    """Make the answer that names what is wrong; its `data` is the error as everywhere else."""
    error = InspectorError(ErrorKind.OptionInvalid, message, stage="options", where={"code": code}, remedy=remedy)
    told = {"code": code, "message": message, "data": error.to_dict()}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "error": told}).encode()
    return Answer(400 if number is None else 200, body)
