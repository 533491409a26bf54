"""A bounded reader of a GGUF file's metadata (not of its tensors).

Every count and length is checked against what the file can hold before anything is allocated, so that a hostile
header costs no more than its own bytes.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, NoReturn

from inspector.errors import ErrorKind, InspectorError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_KEYS = 65_536
_MAX_TENSORS = 1_000_000
_MAX_KEY_BYTES = 65_535
_MAX_STRING_BYTES = 16 << 20
_MAX_TEMPLATE_BYTES = 128 << 10  # the largest real one has 45.6 KB
_MAX_ITEMS = 2_000_000  # the largest vocabularies have a quarter of a million tokens and half a million merges
_MAX_BYTES = 512 << 20  # of metadata altogether
_TEMPLATE = "tokenizer.chat_template"  # also the named ones: tokenizer.chat_template.NAME
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the key-value part of a GGUF file; arrays become lists, strings are UTF-8.

    Errors: GgufInvalid with the byte offset and the field.
    """
    with path.open("rb") as stream:
        if path.stat().st_size < 24:
            _fail("the file is shorter than a GGUF header", 0, "header")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).metadata()


def _fail(message: str, offset: int, field: str) -> NoReturn:
    raise InspectorError(
        ErrorKind.GgufInvalid,
        message,
        stage="source",
        where={"byte": offset, "field": field},
        remedy="fetch the file again; if it stays so, it is not a GGUF that this tool reads",
    )


class _Reader:
    """A cursor over the file's bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at, self._field = data, 0, "header"

    def metadata(self) -> dict[str, Any]:
        """Read header and key-value pairs."""
        if self._take(4) != _MAGIC:
            _fail("the file does not start with GGUF", 0, "magic")
        version, tensors, count = self._scalar("I"), self._scalar("Q"), self._scalar("Q")
        if version not in _VERSIONS:
            _fail(f"version {version} is not supported (2 and 3 are; big-endian files are not)", 4, "version")
        if tensors > _MAX_TENSORS or count > _MAX_KEYS:
            _fail(f"{tensors} tensors and {count} keys are more than a model has", 8, "counts")
        values: dict[str, Any] = {}
        for index in range(count):
            self._field = f"key {index}"
            key = self._string(_MAX_KEY_BYTES)
            if key in values:
                _fail(f"the key {key!r} occurs twice", self._at, key)
            self._field = key
            values[key] = self._value(self._scalar("I"))
        self._check(values)
        return values

    def _check(self, values: dict[str, Any]) -> None:
        """Refuse metadata that breaks the format's own rules: an alignment that is none, no architecture."""
        alignment = values.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            _fail(f"the alignment {alignment!r} is no power of two", self._at, "general.alignment")
        if not isinstance(values.get("general.architecture"), str):
            _fail("the metadata names no architecture, which every GGUF must", self._at, "general.architecture")

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data) or end > _MAX_BYTES:
            _fail(f"{size} bytes are announced, {max(len(self._data) - self._at, 0)} are left", self._at, self._field)
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def _scalar(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}")))[0]

    def _string(self, limit: int = _MAX_STRING_BYTES) -> str:
        limit = _MAX_TEMPLATE_BYTES if self._field.startswith(_TEMPLATE) else limit
        size, start = self._scalar("Q"), self._at
        if size > limit:
            _fail(f"a text of {size} bytes is over the limit of {limit}", start, self._field)
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            _fail("a text is not UTF-8", start + error.start, self._field)

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            _fail(f"value type {kind} is unknown", self._at, self._field)
        return self._scalar(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = self._scalar("I"), self._scalar("Q")
        if count > _MAX_ITEMS or (kind not in _SCALARS and kind != _STRING):
            _fail(f"an array of {count} values of type {kind} is not read", self._at, self._field)
        if kind == _STRING:
            if count * 8 > len(self._data) - self._at:
                _fail(f"{count} texts are announced, the file is too short", self._at, self._field)
            return [self._string() for _ in range(count)]
        code = _SCALARS[kind]
        width = struct.calcsize(f"<{code}")
        return list(struct.unpack(f"<{count}{code}", self._take(count * width)))
