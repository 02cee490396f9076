"""Allocation: freed memory goes back to the system; a night does not hold its widest station.

glibc keeps what was freed for the next that asks, and the more it sees of large arrays the more it
keeps. A run works in stations, each with arrays of its own: what one frees the next cannot fill
without gaps. Elsewhere than under glibc nothing is done.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # names of malloc.h
_LARGE_BYTES = 1 << 20
"""From this size on what is allocated is a mapping of its own, and goes back once it is freed."""
_KEPT_BYTES = 8 << 20
_ARENAS = 2


def give_back_freed() -> bool:
    """Have glibc give large freed memory back at once; tell whether it heeds.

    It holds for the whole process, and does no harm to be said again.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    wishes = (
        (_MMAP_THRESHOLD, _LARGE_BYTES),
        (_TRIM_THRESHOLD, _KEPT_BYTES),
        (_ARENA_MAX, _ARENAS),
    )
    heeded = [mallopt(name, value) == 1 for name, value in wishes]
    return all(heeded)
