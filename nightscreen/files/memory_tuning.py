"""Allocation: freed memory goes back to the system; a night does not hold its widest station.

glibc keeps what was freed for the next that asks, and the more it sees of large arrays the more it
keeps; Arrow's own allocator keeps more still. A run works in stations, each with its own arrays:
the next cannot fill without gaps what one frees.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # names of malloc.h
_LARGE_BYTES = 16 << 20
"""Allocations from this size on are separate mappings, returned once freed.

The arrays of a whole batch. Those of a chunk are made and freed so often that mapping each of them
took a tenth of a night; they are returned when a station ends.
"""
_KEPT_BYTES = 64 << 20
_ARENAS = 2
_COLLECT_AFTER = (10_000, 10, 10)
"""When Python looks for garbage: new objects, then rounds of the young and of the middle-aged."""


def collect_less_often() -> None:
    """Have Python look for garbage less often; call this before much is loaded.

    Loading a command makes some 200,000 objects that stay. With Python's own 700 it looks through
    all of them again and again: a tenth of the CPU to the first lookup.
    """
    gc.set_threshold(*_COLLECT_AFTER)


def choose_allocator() -> None:
    """Make Arrow use the common allocator; call this before anything imports pyarrow.

    Another allocator named in the environment wins. Child processes inherit it.
    Elsewhere than under glibc nothing is done.
    """
    if _glibc_option() is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def tune_allocator() -> bool:
    """Make glibc return large freed memory at once; return whether it accepts.

    This holds for the whole process, and may be called again. Elsewhere than under glibc
    nothing is done.
    """
    mallopt = _glibc_option()
    if mallopt is None:
        return False
    wishes = (
        (_MMAP_THRESHOLD, _LARGE_BYTES),
        (_TRIM_THRESHOLD, _KEPT_BYTES),
        (_ARENA_MAX, _ARENAS),
    )
    heeded = [mallopt(name, value) == 1 for name, value in wishes]
    return all(heeded)


def trim_memory() -> None:
    """Return free memory between arrays in use, as one station ends and the next begins.

    It takes some milliseconds. Elsewhere than under glibc nothing is done.
    """
    if _glibc_option() is not None:
        ctypes.CDLL(None).malloc_trim(0)


def _glibc_option() -> Callable[[int, int], int] | None:
    """Return what sets an option of glibc's allocator; None under another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return None
    return found
