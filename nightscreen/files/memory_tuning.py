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

_LARGE_BYTES = 16 << 20
"""Allocations from this size on are separate mappings, returned once freed.

The arrays of a whole batch. Those of a chunk are made and freed so often that mapping each of them
took a tenth of a night; they are returned when a station ends.
"""
_WISHES = (
    (-3, _LARGE_BYTES),  # M_MMAP_THRESHOLD of malloc.h
    (-1, 64 << 20),  # M_TRIM_THRESHOLD
    (-8, 2),  # M_ARENA_MAX
)
_COLLECT_AFTER = (50_000, 10, 10)
"""When Python looks for garbage: new objects, then rounds of the young and of the middle-aged."""


def collect_seldom() -> None:
    """Have Python look for garbage seldom; call this before much is loaded.

    Loading a command makes some 200,000 objects that stay, and blocks of rows are lists of
    thousands. With Python's own 700 it looks through all of them again and again: a tenth of the
    CPU to the first lookup and of a night, a third of what a worker does.
    """
    gc.set_threshold(*_COLLECT_AFTER)


def choose_allocator() -> None:
    """Make Arrow use the common allocator; call this before anything imports pyarrow.

    Another allocator named in the environment wins. Child processes inherit it.
    """
    if _glibc() is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def tune_allocator() -> bool:
    """Make glibc return large freed memory at once, in the whole process; return if it accepts."""
    glibc = _glibc()
    heeded = [glibc is not None and glibc.mallopt(*wish) == 1 for wish in _WISHES]
    return all(heeded)


def trim_memory() -> None:
    """Return free memory between arrays in use, as one station ends and the next begins.

    It takes some milliseconds.
    """
    if (glibc := _glibc()) is not None:
        glibc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """Return glibc; None under another C library, where nothing is done."""
    if not sys.platform.startswith("linux"):
        return None
    found = ctypes.CDLL(None)
    return found if hasattr(found, "mallopt") else None
