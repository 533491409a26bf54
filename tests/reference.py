"""transformers itself, at a fixed time: what the product is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from unittest import mock


@contextmanager
def reference_clock(clock: datetime) -> Iterator[None]:
    """Let transformers' strftime_now read `clock`."""
    with mock.patch("transformers.utils.chat_template_utils.datetime", SimpleNamespace(now=lambda: clock)):
        yield
