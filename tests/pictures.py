"""Image files for tests, made with Pillow: sizes, formats, modes, EXIF orientations, and what is wrong with some."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image


def picture(size: tuple[int, int], file_format: str = "PNG", mode: str = "RGB", orientation: int = 1) -> bytes:
    """Give the bytes of an image file."""
    image = Image.new(mode, size)
    target = io.BytesIO()
    settings: dict[str, Any] = {}
    if orientation != 1:
        exif = Image.Exif()
        exif[0x0112] = orientation
        settings["exif"] = exif
    image.save(target, file_format, **settings)
    return target.getvalue()


def data_url(data: bytes, media_type: str = "image/png") -> str:
    """Give bytes as a data URL."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def png_that_claims(width: int, height: int) -> bytes:
    """Give a small PNG whose header claims a size: a bomb if anybody believes it."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(64))) + chunk(b"IEND", b"")
    )
