"""Decode an image's bytes with Pillow, within bounds, and say who it is: media type, SHA-256, sizes, orientation, mode.

Only formats of one picture file are tried, no file is opened, no network used, and a file that ends early is refused.
The pixels are decoded once to know that they can be; they are not kept.
"""

from __future__ import annotations

import functools
import hashlib
import io
import warnings
from dataclasses import dataclass
from typing import Any

from inspector.errors import ErrorKind, InspectorError

MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
ERROR_POLICY = "strict: a file that ends early or does not decode is refused"
_ORIENTATION = 0x0112  # EXIF tag
_TRANSPOSED = (5, 6, 7, 8)


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded image file.

    `width`, `height`: pixels as stored; `size`: after the EXIF orientation is applied, as transformers' `load_image`
    does. `frames`: more than 1 for an animation, of which processors take the first.
    """

    media_type: str
    sha256: str
    num_bytes: int
    width: int
    height: int
    orientation: int
    mode: str
    frames: int
    decoder: str

    @property
    def size(self) -> tuple[int, int]:
        return (self.height, self.width) if self.orientation in _TRANSPOSED else (self.width, self.height)


def decode(data: bytes, path: str) -> Picture:
    """Decode the bytes of the part at `path`.

    Errors: MediaInvalid (no image of a known format, broken or cut off), InputTooLarge (pixels over the limit).
    """
    try:
        return _decoded(data)
    except InspectorError as error:  # the cache knows the bytes, not the place
        where = {"path": path, **error.where}
        raise InspectorError(error.kind, error.message, stage="media", where=where, remedy=error.remedy) from error


@functools.lru_cache(maxsize=64)
def _decoded(data: bytes) -> Picture:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own warning of large images: the limit below is lower
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_pixels(image.size)
                orientation = _orientation(image)
                mode, frames = image.mode, int(getattr(image, "n_frames", 1))
                image.load()
                return _picture(data, image, orientation, mode, frames)
    except UnidentifiedImageError:
        raise _invalid("the bytes are no image of a known format", f"send one of {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError as error:
        raise _too_large(str(error)) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise _invalid(f"the image does not decode: {error}", "send the whole file, or save it again") from None


def _picture(data: bytes, image: Any, orientation: int, mode: str, frames: int) -> Picture:
    import PIL
    from PIL import Image

    return Picture(
        media_type=Image.MIME.get(image.format, ""),
        sha256=hashlib.sha256(data).hexdigest(),
        num_bytes=len(data),
        width=image.size[0],
        height=image.size[1],
        orientation=orientation,
        mode=mode,
        frames=frames,
        decoder=f"Pillow {PIL.__version__}, {image.format}",
    )


def _orientation(image: Any) -> int:
    """Give the EXIF orientation, 1 where there is none or it is no orientation."""
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _check_pixels(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise _too_large(f"the image has {size[0]} x {size[1]} pixels, the limit is {MAX_PIXELS:,}")
    if not all(size):
        raise _invalid("the image has no pixels", "send an image of at least 1 x 1 pixel")


def _invalid(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.MediaInvalid, message, stage="media", remedy=remedy)


def _too_large(message: str) -> InspectorError:
    return InspectorError(
        ErrorKind.InputTooLarge, message, stage="media", where={"limit": MAX_PIXELS}, remedy="send a smaller image"
    )
