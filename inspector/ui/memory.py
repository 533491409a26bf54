"""How the C library of this process keeps memory: large blocks go back to the system when they are freed.

An answer of megabytes is copied in many threads. glibc learns from the first that such blocks are usual and keeps them from
then on, in an arena for each thread: half a gigabyte that nothing uses. Other C libraries are left as they are.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
_LARGE = 1 << 18  # bytes; set, it is not raised any more


def give_back() -> bool:
    """Set it; False where the C library has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    settings = ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, 4 * _LARGE), (_ARENA_MAX, 2))
    return sum(mallopt(name, value) for name, value in settings) == len(settings)
